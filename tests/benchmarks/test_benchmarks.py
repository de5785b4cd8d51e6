"""The parts of the benchmarks on which their results depend."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import training_memory
from benchmarks.pretraining_memory import anonymous_memory, write_copies
from benchmarks.sample_text import write_sample
from benchmarks.sides.pretraining_work import answer_requests, num_predictions, random_batch
from keras_bert.program.errors import InputError

DOCUMENTS = [
    [f"Paragraph {number} of document {name}. It has two sentences." for number in range(4)]
    for name in ("one", "two", "three")
]
TEXT = "\n\n".join("\n".join(document) for document in DOCUMENTS) + "\n"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def test_a_sample_is_whole_documents_one_sentence_a_line(text, tmp_path):
    size = len(TEXT) // 3
    assert write_sample(text, tmp_path / "sample.txt", size + 1) == 2
    lines = (tmp_path / "sample.txt").read_text().split("\n")
    assert lines[:3] == ["Paragraph 0 of document one.", "It has two sentences.", "Paragraph 1 of document one."]
    assert lines[8] == ""
    assert lines[9] == "Paragraph 0 of document two."


def test_what_is_skipped_is_not_in_the_sample(text, tmp_path):
    assert write_sample(text, tmp_path / "sample.txt", 10**9, skip_bytes=1) == 2
    assert "document one" not in (tmp_path / "sample.txt").read_text()
    assert write_sample(text, tmp_path / "sample.txt", 1, skip_bytes=10**9) == 0


def test_copies_have_the_size_asked_for_and_differ(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join("\n".join(f"{name} {line} " + "word " * 40 for line in range(4)) for name in "abc"))
    size = 10 * text.stat().st_size
    for name in ("first", "again"):
        write_copies(str(text), str(tmp_path / name), size)
    copies = (tmp_path / "first").read_bytes()
    assert copies == (tmp_path / "again").read_bytes()
    assert size <= len(copies) < 1.2 * size
    documents = copies.decode().strip().split("\n\n")
    assert len(documents) in (30, 31)
    assert len(set(documents)) == len(documents)
    assert len(set(copies.split())) > 50


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")
def test_memory_is_that_of_the_process_and_its_grandchildren():
    grandchild = "import time; block = bytearray(60_000_000); print('ready', flush=True); time.sleep(60)"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    process = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout.readline() == "ready\n"
        found = anonymous_memory(process.pid)
        assert len(found) == 2
        assert found.pop(process.pid) < 30e6
        assert 60e6 <= min(found.values()) < 90e6
        assert os.getpid() not in found
    finally:
        os.killpg(process.pid, 9)
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("shape", ["8", "0x128", "8x1000", "x", "8x128x2"])
def test_a_shape_that_is_none_is_refused(shape):
    with pytest.raises(InputError, match="rows x tokens"):
        training_memory.shape_of(shape)


@pytest.mark.slow
def test_memory_is_measured_of_our_side_with_and_without_recomputation():
    command = [sys.executable, "-m", "benchmarks.training_memory", "--quick", "--sides=ours", "--steps=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("| smoke")]
    peak, before = (int(cell.replace(",", "")) for cell in line.split("|")[4:6])
    assert peak >= before > 50


def test_as_many_tokens_are_masked_as_google_masks():
    assert [num_predictions(length) for length in (2, 16, 128, 512)] == [1, 3, 20, 77]


def test_both_sides_have_the_same_full_rows():
    batch = random_batch(batch_size=3, length=16, predictions=4, vocab_size=50)
    again = random_batch(batch_size=3, length=16, predictions=4, vocab_size=50)
    for name, column in batch.items():
        np.testing.assert_array_equal(column, again[name])
    assert batch["input_mask"].all()
    assert all(len(set(row)) == 4 for row in batch["masked_lm_positions"].tolist())
    assert batch["masked_lm_positions"].max() < 16
    assert 5 <= batch["input_ids"].min() <= batch["input_ids"].max() < 50


def test_a_side_does_the_job_that_it_is_asked_for_and_waits_for_the_last_result(monkeypatch, capsys):
    done = []
    jobs = {"forward": lambda: done.append("forward") or len(done)}
    monkeypatch.setattr(sys, "stdin", ["\n", "forward\n"])
    answer_requests(
        {"side": "A"}, jobs, steps=3, wait=lambda result: done.append(f"waited for {result}"), gpu_memory=lambda: 7
    )
    about, report = map(json.loads, capsys.readouterr().out.splitlines())
    assert about == {"side": "A"}
    assert done == ["forward", "forward", "forward", "waited for 3"]
    assert report["steps"] == 3
    assert report["seconds"] > 0
    assert report["gpu_memory"] == 7
