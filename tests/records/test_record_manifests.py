"""Records are checked against the vocabulary by the manifests beside them."""

import json

import pytest
from example_records import VOCABULARY

from keras_bert.program.errors import InputError
from keras_bert.records.manifests import check_vocabulary
from keras_bert.tokenization.vocabulary import Vocabulary

REORDERED = Vocabulary([*VOCABULARY.tokens[:6], *reversed(VOCABULARY.tokens[6:])])
EXTENDED = Vocabulary([*VOCABULARY.tokens, "more", "tokens"])
ANOTHER = "its records were made with another vocabulary"


@pytest.fixture
def records(tmp_path):
    """Makes a file of some bytes in a folder of its own, with or without a manifest beside it."""

    def write(name, vocabulary=None, manifest="manifest.json", listed=None, **of_file):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"12345")
        if vocabulary is not None:
            files = [{"name": listed or path.name, **of_file}]
            contents = {"request": {"vocabulary_sha256": vocabulary.sha256}, "files": files}
            (path.parent / manifest).write_text(json.dumps(contents))
        return str(path)

    return write


def test_records_of_the_same_vocabulary_or_without_a_manifest_are_taken(records):
    check_vocabulary([records("a/a", VOCABULARY), records("b/b"), records("c/c", VOCABULARY)], VOCABULARY)


def test_records_from_before_tokens_were_added_are_taken_and_not_the_other_way_round(records):
    check_vocabulary([records("a/a", VOCABULARY)], EXTENDED)
    with pytest.raises(InputError, match=ANOTHER):
        check_vocabulary([records("b/b", EXTENDED)], VOCABULARY)


@pytest.mark.parametrize("manifest", ["manifest.json", "a.manifest.json", "unfinished.json"])
def test_one_file_of_another_vocabulary_among_several_folders_is_named(records, manifest):
    good, bad = records("a/a", VOCABULARY), records("b/b", REORDERED, manifest, num_bytes=5)
    with pytest.raises(InputError, match=f"^{bad}: {ANOTHER}, as .*/b/{manifest} says.*--vocab_file"):
        check_vocabulary([good, bad], VOCABULARY)


def test_fine_tuning_records_are_known_by_their_metadata(records, tmp_path):
    path = records("a/train.tf_record")
    contents = {"vocabulary": {"sha256": REORDERED.sha256}, "files": {"train": {"name": "train.tf_record"}}}
    (tmp_path / "a" / "metadata.json").write_text(json.dumps(contents))
    with pytest.raises(InputError, match=ANOTHER):
        check_vocabulary([path], VOCABULARY)


def test_only_the_manifest_of_a_file_counts(records):
    other = records("a/other", REORDERED, "other.manifest.json")
    mine = records("a/mine", VOCABULARY, "mine.manifest.json")
    check_vocabulary([mine, records("a/unlisted")], VOCABULARY)
    with pytest.raises(InputError, match=ANOTHER):
        check_vocabulary([mine, other], VOCABULARY)


def test_a_manifest_of_a_file_that_was_replaced_does_not_count(records):
    check_vocabulary([records("a/a", REORDERED, num_bytes=4)], VOCABULARY)
    path = records("b/b", REORDERED, "old.manifest.json", num_bytes=5)
    records("b/b", VOCABULARY, "b.manifest.json", num_bytes=5)
    check_vocabulary([path], VOCABULARY)


def test_a_file_is_known_through_a_link_and_from_the_manifest_of_another_folder(records, tmp_path):
    first = records("a/first", REORDERED, "first.manifest.json", listed="../b/second")
    second = records("b/second")
    check_vocabulary([second], VOCABULARY)  # it has no manifest beside it
    with pytest.raises(InputError, match=f"^{second}: {ANOTHER}"):
        check_vocabulary([first, second], VOCABULARY)
    (tmp_path / "link").symlink_to(records("c/c", REORDERED))
    with pytest.raises(InputError, match=f"^{tmp_path}/link: {ANOTHER}"):
        check_vocabulary([str(tmp_path / "link")], VOCABULARY)
