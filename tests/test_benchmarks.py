"""The parts of the benchmarks of pre-training data that their figures rest on."""

import os
import subprocess
import sys

import pytest

from benchmarks.pretraining_memory import anonymous_memory, write_copies
from benchmarks.sample_text import write_sample
from benchmarks.training_loop import table

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


def test_the_loop_is_compared_turn_by_turn():
    turns = {"bare": [(0.1, None), (0.2, None), (0.1, None)], "fit": [(0.11, 0.0011), (0.21, 0.0), (0.13, 0.0026)]}
    assert table(turns)[2:] == ["| bare | 100.00 | +0.0% | - |", "| fit | 130.00 | +10.0% | 1.00% |"]
