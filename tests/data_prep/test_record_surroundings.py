import json

import pytest
from example_records import VOCABULARY

from data_prep.inspection.record_surroundings import check_against_manifest, look_around
from keras_bert.program.errors import InputError
from keras_bert.tokenization.vocabulary import Vocabulary

OTHER_VOCABULARY = Vocabulary([*VOCABULARY.tokens, "more"])


@pytest.fixture
def records(tmp_path):
    """The path of a record file in a folder of its own."""
    (tmp_path / "run" / "records").mkdir(parents=True)
    path = tmp_path / "run" / "records" / "a.tfrecord"
    path.touch()
    return path


def write_manifest(path, **contents):
    path.write_text(json.dumps(contents))


def test_the_vocabulary_beside_the_records_or_above_them_is_found(records):
    assert look_around([str(records)]).vocabulary is None
    VOCABULARY.save(records.parent.parent / "vocab.txt")
    assert look_around([str(records)]).vocabulary == VOCABULARY
    OTHER_VOCABULARY.save(records.parent / "vocab.txt")
    assert look_around([str(records)]).vocabulary == OTHER_VOCABULARY
    assert look_around([str(records)], str(records.parent.parent / "vocab.txt")).vocabulary == VOCABULARY


def test_only_the_vocabulary_whose_hash_the_manifest_has_is_taken(records):
    OTHER_VOCABULARY.save(records.parent / "vocab.txt")
    VOCABULARY.save(records.parent.parent / "vocab.txt")
    write_manifest(records.parent / "manifest.json", corpus={"vocabulary_sha256": VOCABULARY.sha256})
    assert look_around([str(records)]).vocabulary == VOCABULARY
    (records.parent.parent / "vocab.txt").unlink()
    around = look_around([str(records)])
    assert around.vocabulary is None
    assert "--vocab_file" in around.note
    around = look_around([str(records)], str(records.parent / "vocab.txt"))
    assert around.vocabulary == OTHER_VOCABULARY
    assert "is not the one that the manifest has" in around.note


def test_fine_tuning_records_have_their_vocabulary_in_the_metadata(records):
    OTHER_VOCABULARY.save(records.parent / "vocab.txt")
    write_manifest(
        records.parent / "metadata.json",
        vocabulary={"num_tokens": len(VOCABULARY), "sha256": VOCABULARY.sha256},
        files={"train": {"name": "a.tfrecord", "num_records": 12}},
    )
    around = look_around([str(records)])
    assert around.vocabulary is None
    assert around.num_records == {str(records): 12}
    around = look_around([str(records)], str(records.parent / "vocab.txt"))
    assert "is not the one that the manifest has" in around.note


def test_a_manifest_of_a_stranger_does_no_harm(records):
    (records.parent / "a.manifest.json").write_text("[" * 100_000)
    write_manifest(records.parent / "b.manifest.json", masked_lm_prob="0.3", files=[{"name": 3}, {"num_records": "x"}])
    write_manifest(
        records.parent / "c.manifest.json", masked_lm_prob=[0.3], files=[{"name": "a.tfrecord", "num_records": "many"}]
    )
    around = look_around([str(records)])
    assert (around.mask_rate, around.num_records) == (None, {})


def test_a_vocabulary_that_cannot_be_used_is_refused_only_when_it_was_named(records):
    (records.parent / "vocab.txt").write_text("no special tokens\n")
    assert look_around([str(records)]).vocabulary is None
    with pytest.raises(InputError, match="missing"):
        look_around([str(records)], str(records.parent / "vocab.txt"))


def test_the_manifest_says_the_mask_rate_and_the_number_of_records(records):
    write_manifest(
        records.parent / "a.manifest.json",
        options={"masked_lm_prob": 0.3},
        files=[{"name": "a.tfrecord", "num_records": 12}],
    )
    (records.parent / "b.manifest.json").write_text("{ cut off")
    write_manifest(records.parent / "c.manifest.json", files=["something else"])
    around = look_around([str(records)])
    assert around.mask_rate == 0.3
    assert check_against_manifest({str(records): 12, "other": 1}, around.num_records) == []
    (message,) = check_against_manifest({str(records): 11}, around.num_records)
    assert message.endswith("a.tfrecord has 11 records, but its manifest says 12")


def test_files_that_are_missing_are_named(records):
    files = [{"name": "a.tfrecord", "num_records": 12}, {"name": "b.tfrecord", "num_records": 12}]
    write_manifest(records.parent / "manifest.json", files=files)
    (message,) = check_against_manifest({}, look_around([str(records)]).num_records)
    assert message == f"1 of the 2 files in the manifest are missing: {records.parent}/b.tfrecord first"
