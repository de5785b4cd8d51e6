import json
import os
import shutil
import subprocess
import sys

import loaded_commands
import pytest
from example_records import PAIR, VOCABULARY, example, write_records

from data_prep.create_pretraining_data import create_pretraining_data
from data_prep.inspect_records import collect_statistics, shown_records
from data_prep.inspection.record_report import report_text, summarize
from data_prep.pretraining.pretraining_records import PretrainingOptions
from keras_bert.program.errors import InputError


def run(*arguments):
    return loaded_commands.run("data_prep.inspect_records", *arguments)


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
    create_pretraining_data(
        str(folder / "text.txt"),
        folder / "vocab.txt",
        output_dir=folder / "records",
        num_shards=2,
        options=PretrainingOptions(max_seq_length=24, max_predictions_per_seq=6, masked_lm_prob=0.2, dupe_factor=8),
    )
    return folder / "records"


def paths_in(folder):
    return sorted(str(path) for path in folder.glob("*.tfrecord"))


def test_the_statistics_agree_with_what_the_writer_counted(records):
    written = json.loads((records / "manifest.json").read_text())["records"]
    collected = collect_statistics(paths_in(records), VOCABULARY)
    (statistics,) = collected.statistics
    assert collected.damage == []
    assert statistics.records_by_file.total() == written["num_examples"] == sum(collected.num_read.values())
    assert statistics.num_tokens == written["num_tokens"]
    assert statistics.num_columns == written["num_positions"]
    assert statistics.num_predicted == written["num_predicted"]
    assert statistics.next_labels[1] == written["num_random_next"]
    assert not statistics.num_faulty
    assert len(statistics.records_by_file) == 2


def test_what_is_suspicious_is_named_with_its_file_and_number(tmp_path):
    wrong = PAIR | {"input_ids": [999, *PAIR["input_ids"][1:]]}
    paths = [write_records(tmp_path / "a", [PAIR] * 9), write_records(tmp_path / "b", [*[PAIR] * 700, wrong])]
    (statistics,) = collect_statistics(paths, VOCABULARY).statistics
    assert set(statistics.first_faulty.values()) == {f"{paths[1]}: record 701"}


def test_compressed_files_give_the_same_statistics(tmp_path):
    plain = summarize(*collect_statistics([write_records(tmp_path / "a", [PAIR] * 3)], VOCABULARY).statistics)
    for compression in ("GZIP", "ZSTD"):
        path = write_records(tmp_path / compression, [PAIR] * 3, compression)
        assert summarize(*collect_statistics([path], VOCABULARY).statistics) == plain


def test_a_sample_takes_the_first_records_of_every_file(tmp_path):
    paths = [write_records(tmp_path / name, [{"number": [place]} for place in range(1000)]) for name in "ab"]
    collected = collect_statistics(paths, sample=20)
    assert collected.num_read == dict.fromkeys(paths, 10)
    assert collected.statistics[0].features["number"].highest == 9


def test_files_with_other_features_have_statistics_of_their_own(tmp_path):
    train = write_records(tmp_path / "train.tf_record", [PAIR] * 2)
    labels = write_records(tmp_path / "labels.tf_record", [{"label_ids": [0]}] * 3)
    assert [found.records_by_file.total() for found in collect_statistics([train, labels]).statistics] == [2, 3]


def test_damage_is_named_and_what_stands_before_it_and_beside_it_is_counted(tmp_path):
    good = write_records(tmp_path / "good", [PAIR] * 5)
    cut_off = write_records(tmp_path / "cut_off", [PAIR] * 700)
    os.truncate(cut_off, os.path.getsize(cut_off) - 20)
    (tmp_path / "text").write_text("This is a text.")
    (tmp_path / "empty").touch()
    no_example = write_records(tmp_path / "no_example", [PAIR, b"\xff\xff", PAIR])
    paths = [good, cut_off, str(tmp_path / "text"), str(tmp_path / "empty"), no_example, str(tmp_path / "missing")]
    collected = collect_statistics(paths, VOCABULARY)
    assert list(collected.num_read.values()) == [5, 699, 0, 0, 1, 0]
    assert collected.statistics[0].records_by_file.total() == 705
    cut_off_message, text_message, no_example_message, missing_message = collected.damage
    assert cut_off_message.startswith(f"{cut_off}: record 700 (at byte ")
    assert cut_off_message.endswith("Records read before it: 699.")
    assert "text is not a TFRecord file" in text_message
    assert f"{no_example}: record 2 is not a tf.train.Example message" in no_example_message
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


def test_the_command_shows_records_statistics_and_a_report(records, tmp_path):
    done = run(f"--input_file={records}", "--num_examples=2", f"--output_dir={tmp_path}/report")
    assert done.returncode == 0, done.stderr
    assert f"vocabulary: {records.parent}\n" in done.stdout
    assert done.stdout.count(": record ") == 2
    assert "[MASK](" in done.stdout
    report = json.loads((tmp_path / "report" / "statistics.json").read_text())
    (summary,) = report["statistics"]
    assert report_text(summary) in done.stdout
    assert summary["num_records"] == sum(report["num_records_by_file"].values()) > 100
    assert (tmp_path / "report" / "statistics.png").read_bytes().startswith(b"\x89PNG")
    assert "are expected" not in done.stdout  # according to the manifest, 20 % were requested
    assert "reading: 100%" in done.stderr


def test_the_command_ends_with_1_and_one_line_when_a_file_is_damaged(records, tmp_path):
    for path in records.glob("*.tfrecord"):
        shutil.copy(path, tmp_path)
    damaged = paths_in(tmp_path)[1]
    with open(damaged, "r+b") as file:
        file.seek(4000)
        file.write(b"other")
    done = run(f"--input_file={tmp_path}", "--num_examples=1")
    assert done.returncode == 1
    assert "tokens to predict" in done.stdout
    assert done.stderr.splitlines()[-1].startswith(f"error: {damaged}: record ")
    assert "is damaged" in done.stderr


def test_a_name_that_matches_nothing_is_reported_without_tensorflow():
    """Its import takes many seconds on a cold disk."""
    code = (
        "import sys; from keras_bert.records.files import list_records\n"
        "try: list_records('none')\nexcept ValueError as error: print(error, 'tensorflow' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == "No file matches none. Check the name. False\n"
