import json
import os
import shutil

import pytest
from example_records import GARDEN, PACKED, PAIR, VOCABULARY, example, pretraining_example, write_records

from data_prep import inspect_records
from data_prep.create_pretraining_data import create_pretraining_data
from data_prep.inspect_records import count_records, shown_records, vocabulary_of_records
from data_prep.inspection.record_counts import RecordCounts
from data_prep.pretraining.pretraining_records import PretrainingOptions
from keras_bert.program.errors import InputError
from keras_bert.tokenization.vocabulary import Vocabulary


def count(folder, *records, vocabulary=VOCABULARY):
    """The counts of records given as dictionaries."""
    counts, damage = count_records([write_records(folder / "counted", records)], vocabulary)
    assert damage == []
    return counts


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """A folder of records as the command makes them, and its manifest."""
    folder = tmp_path_factory.mktemp("records")
    sentences = [
        "the quick brown fox",
        "a lazy dog . the cat",
        "embedding . a quick embedding",
        "the dog . a fox . cat",
    ]
    documents = ["\n".join(sentences[number % 4 :] + sentences[: number % 3 + 1]) for number in range(40)]
    (folder / "text.txt").write_text("\n\n".join(documents))
    VOCABULARY.save(folder / "vocab.txt")
    options = PretrainingOptions(max_seq_length=24, max_predictions_per_seq=6, masked_lm_prob=0.2, dupe_factor=8)
    files = {"output_dir": folder / "records", "num_shards": 2}
    create_pretraining_data(str(folder / "text.txt"), folder / "vocab.txt", options=options, **files)
    return folder / "records"


def paths_in(folder):
    return sorted(str(path) for path in folder.glob("*.tfrecord"))


def test_the_counts_agree_with_what_the_writer_counted(records):
    written = json.loads((records / "manifest.json").read_text())["records"]
    counts, damage = count_records(paths_in(records), VOCABULARY)
    assert damage == []
    assert counts.num_records == written["num_examples"]
    assert counts.num_tokens == written["num_tokens"]
    assert counts.num_columns == written["num_positions"]
    assert sum(number * times for number, times in counts.predictions.items()) == written["num_predicted"]
    assert counts.predicted_tokens.total() == written["num_predicted"]
    assert counts.next_labels[1] == written["num_random_next"]


def test_what_stands_at_predicted_places_is_counted_by_kind(tmp_path):
    counts = count(tmp_path, PAIR, PAIR)
    assert counts.predicted_tokens == {"[MASK]": 2, "the token itself": 2, "another token": 2}
    assert (counts.num_tokens, counts.num_columns, counts.num_sequences) == (20, 32, 2)
    assert (counts.lengths, counts.predictions, counts.next_labels) == ({10: 2}, {3: 2}, {1: 2})


def test_packed_rows_are_counted_by_row_and_by_sequence(tmp_path):
    counts = count(tmp_path, PACKED)
    assert (counts.num_records, counts.num_sequences, counts.lengths) == (1, 2, {13: 1})
    assert counts.next_labels == {0: 1, 1: 1}
    assert "sequences             2.00 in a record" in counts.text()


def test_unknown_tokens_are_counted_as_they_were_before_masking(tmp_path):
    unknown = pretraining_example("[CLS] [MASK] [UNK] [SEP] dog [SEP]", {1: "[UNK]", 4: "dog"})
    assert count(tmp_path, unknown).num_unknown == 2


def test_the_counts_are_printed_as_a_page(tmp_path):
    assert count(tmp_path, PAIR, PAIR).text().splitlines() == [
        "2 records",
        "",
        "  feature               type        length  values",
        "  input_ids             int64           16  0: 37.50%   2: 6.25%   3: 12.50%   4: 6.25%   6: 6.25%   "
        "7: 6.25%   10: 6.25%   11: 6.25%   12: 6.25%   13: 6.25%",
        "  input_mask            int64           16  0: 37.50%   1: 62.50%",
        "  masked_lm_ids         int64            4  0: 25.00%   8: 25.00%   9: 25.00%   12: 25.00%",
        "  masked_lm_positions   int64            4  0: 25.00%   3: 25.00%   4: 25.00%   8: 25.00%",
        "  masked_lm_weights     float32          4  0: 25.00%   1: 75.00%",
        "  next_sentence_labels  int64            1  1: 100.00%",
        "  segment_ids           int64           16  0: 75.00%   1: 25.00%",
        "",
        "tokens                20, 10 to 10, mean 10.0 in a record",
        "padding               37.50% of the columns",
        "unknown tokens        0.00%",
        "tokens to predict     30.00% of all, 3 to 3, mean 3.0 in a record",
        "at their positions    [MASK]: 33.33%   the token itself: 33.33%   another token: 33.33%",
        "next_sentence_labels  1: 100.00%   (1: the second segment does not follow the first)",
    ]


def test_without_a_vocabulary_what_needs_it_is_left_out(tmp_path):
    text = count(tmp_path, PAIR, vocabulary=None).text()
    assert "tokens to predict" in text
    assert "at their positions" not in text
    assert "unknown tokens" not in text


def test_other_names_and_compression_give_the_same_counts(tmp_path):
    expected = count(tmp_path, PAIR, PAIR).text()
    assert count(tmp_path, GARDEN, GARDEN).text() == expected
    for compression in ("GZIP", "ZSTD"):
        path = write_records(tmp_path / compression, [PAIR] * 2, compression)
        assert count_records([path], VOCABULARY)[0].text() == expected


def test_features_of_any_name_type_and_length_are_counted(tmp_path):
    texts = [[], [b"x"]]
    records = [{"label_ids": [n % 3], "score": [n / 2], "text": texts[n % 2]} for n in range(40)]
    counts = count(tmp_path, *records, {"score": [7]}, vocabulary=None)
    assert counts.features["label_ids", "int64"].counts == {0: 14, 1: 13, 2: 13}
    assert counts.features["score", "float32"].text() == "0 to 19.5"
    assert counts.features["score", "int64"].range == (7, 7)
    assert counts.features["text", "string"].lengths == {1: 20}
    assert counts.num_tokens == 0


def test_numbers_that_cannot_be_right_are_counted_too(tmp_path):
    wrong = PAIR | {"input_ids": [999, -5, *PAIR["input_ids"][2:]], "masked_lm_positions": [3, 99, -1, 0]}
    counts = count(tmp_path, wrong, PAIR | {"segment_ids": [], "input_mask": [0.5]})
    assert counts.features["input_ids", "int64"].range == (-5, 999)
    assert counts.num_records == 2


def test_a_sample_takes_the_first_records_of_every_file(tmp_path):
    paths = [write_records(tmp_path / name, [{"number": [place]} for place in range(1000)]) for name in "ab"]
    counts, _ = count_records(paths, sample=20)
    assert (counts.num_records, counts.features["number", "int64"].range) == (20, (0, 9))


def test_records_of_several_batches_and_forms_are_counted_once(tmp_path):
    records = [{"number": [number] * (1 + number % 3 // 2)} for number in range(1300)]
    counts = RecordCounts()
    counts.read(write_records(tmp_path / "records", [*records, *[{"number": [1, 1]}] * 1300]))
    assert counts.num_records == 2600
    assert counts.features["number", "int64"].lengths == {1: 867, 2: 1733}


def test_damage_is_named_and_what_stands_before_it_and_beside_it_is_counted(tmp_path):
    good = write_records(tmp_path / "good", [PAIR] * 5)
    cut_off = write_records(tmp_path / "cut_off", [PAIR] * 700)
    os.truncate(cut_off, os.path.getsize(cut_off) - 20)
    (tmp_path / "text").write_text("This is a text.")
    (tmp_path / "empty").touch()
    no_example = write_records(tmp_path / "no_example", [PAIR, b"\xff\xff", PAIR])
    paths = [good, cut_off, str(tmp_path / "text"), str(tmp_path / "empty"), no_example, str(tmp_path / "missing")]
    counts, damage = count_records(paths, VOCABULARY)
    assert counts.num_records == 705
    cut_off_message, text_message, no_example_message, missing_message = damage
    assert cut_off_message.startswith(f"{cut_off}: record 700 (at byte ")
    assert cut_off_message.endswith("Records read before it: 699.")
    assert "text is not a TFRecord file" in text_message
    assert f"{no_example}: record 2 is not a tf.train.Example message. Records read" in no_example_message
    assert "Cannot read" in missing_message


def test_records_can_be_shown_from_any_number_on(tmp_path):
    paths = [write_records(tmp_path / name, [PAIR | {"next_sentence_labels": [0]}] * 3) for name in "ab"]
    shown = list(shown_records(paths, VOCABULARY, num_examples=2, first_record=3))
    assert [text.splitlines()[0] for text in shown] == [f"{paths[0]}: record 3", f"{paths[1]}: record 1"]
    assert len(list(shown_records(paths, num_examples=100))) == 6
    assert list(shown_records(paths, num_examples=0)) == []
    with pytest.raises(InputError, match="There is no record 4 in these files"):
        list(shown_records(paths, first_record=4))


def test_a_record_that_is_no_example_is_shown_as_such(tmp_path):
    path = write_records(tmp_path / "a", [b"\xff\xff", example(**PAIR)])
    first, second = shown_records([path], VOCABULARY)
    assert "not tf.train.Example messages" in first
    assert "[MASK](brown)" in second


def test_the_command_shows_records_and_counts(records, done_here):
    printed = done_here(inspect_records, f"--input_file={records}", "--num_examples=2")
    assert f"vocabulary: {records.parent}\n" in printed.out
    assert printed.out.count(": record ") == 2
    assert "[MASK](" in printed.out
    assert count_records(paths_in(records), VOCABULARY)[0].text() in printed.out
    assert "reading: 100%" in printed.err


def test_the_command_ends_with_1_and_one_line_when_a_file_is_damaged(records, tmp_path, refused_here):
    for path in records.glob("*.tfrecord"):
        shutil.copy(path, tmp_path)
    damaged = paths_in(tmp_path)[1]
    with open(damaged, "r+b") as file:
        file.seek(4000)
        file.write(b"other")
    printed = refused_here(inspect_records, f"--input_file={tmp_path}", "--num_examples=1")
    assert "tokens to predict" in printed.out
    assert printed.err.splitlines()[-1].startswith(f"error: {damaged}: record ")
    assert "is damaged" in printed.err


OTHER_VOCABULARY = Vocabulary([*VOCABULARY.tokens, "more"])


@pytest.fixture
def record_file(tmp_path):
    """The path of a record file in a folder of its own."""
    (tmp_path / "run" / "records").mkdir(parents=True)
    path = tmp_path / "run" / "records" / "a.tfrecord"
    path.touch()
    return path


def test_the_vocabulary_beside_the_records_or_above_them_is_found(record_file):
    beside, above = record_file.parent, record_file.parent.parent
    vocabulary, where = vocabulary_of_records([str(record_file)])
    assert vocabulary is None
    assert "--vocab_file" in where
    VOCABULARY.save(above / "vocab.txt")
    assert vocabulary_of_records([str(record_file)]) == (VOCABULARY, str(above))
    OTHER_VOCABULARY.save(beside / "vocab.txt")
    assert vocabulary_of_records([str(record_file)]) == (OTHER_VOCABULARY, str(beside))
    assert vocabulary_of_records([str(record_file)], str(above / "vocab.txt"))[0] == VOCABULARY


@pytest.mark.parametrize(
    ("name", "manifest"),
    [
        ("manifest.json", {"corpus": {"vocabulary_sha256": VOCABULARY.sha256}}),
        ("metadata.json", {"vocabulary": {"num_tokens": len(VOCABULARY), "sha256": VOCABULARY.sha256}}),
    ],
)
def test_only_the_vocabulary_whose_hash_the_manifest_has_is_taken(record_file, name, manifest):
    beside, above = record_file.parent, record_file.parent.parent
    OTHER_VOCABULARY.save(beside / "vocab.txt")
    VOCABULARY.save(above / "vocab.txt")
    (beside / name).write_text(json.dumps(manifest))
    (beside / "a.manifest.json").write_text("[" * 100_000)  # of a stranger
    assert vocabulary_of_records([str(record_file)])[0] == VOCABULARY
    (above / "vocab.txt").unlink()
    assert vocabulary_of_records([str(record_file)])[0] is None
    vocabulary, where = vocabulary_of_records([str(record_file)], str(beside / "vocab.txt"))
    assert vocabulary == OTHER_VOCABULARY
    assert "is not the one that the manifest has" in where


def test_a_vocabulary_that_cannot_be_used_is_refused_only_when_it_was_named(record_file):
    (record_file.parent / "vocab.txt").write_text("no special tokens\n")
    assert vocabulary_of_records([str(record_file)])[0] is None
    with pytest.raises(InputError, match="missing"):
        vocabulary_of_records([str(record_file)], str(record_file.parent / "vocab.txt"))
