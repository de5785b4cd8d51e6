"""The benchmark command: the computations behind its tables, and a smoke run. No test here depends on a time."""

import re
import subprocess
import sys
import types

import numpy as np
import pytest
from places import DOCS, PROJECT

from benchmarks import (
    encoder_sides,
    engine_speed,
    format_speed,
    forward_speed,
    results_page,
    speed,
    text_speed,
    training_speed,
)
from benchmarks.encoder_sides import RunningSides, Side
from benchmarks.real_texts import read_mix, token_rows
from benchmarks.sides.answering import seconds_of_runs
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.tokenization.vocabulary import Vocabulary

CONFIG = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32)


class Clock:
    """A clock that a run moves."""

    def __init__(self, seconds_of_runs):
        self.now, self.seconds, self.batches = 0.0, iter(seconds_of_runs), []

    def __call__(self):
        return self.now

    def run(self, batch):
        self.now += next(self.seconds)
        self.batches.append(batch)


def test_runs_are_counted_only_after_the_side_has_settled():
    clock = Clock([9, 1, 2, 2, 4, 4])
    request = {"settle": 10, "seconds": 7}
    assert seconds_of_runs(clock.run, ["only"], request, clock) == [2, 2, 4]


def test_a_sweep_takes_every_batch_once():
    clock = Clock([1, 2, 3])
    assert seconds_of_runs(clock.run, ["a", "b", "c"], {"settle": 0, "sweeps": 1}, clock) == [6]
    assert clock.batches == ["a", "b", "c"]


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


def test_turns_change_their_order_and_the_first_are_not_counted(fake_sides, monkeypatch):
    asked = []

    def ask(self, name, request):
        asked.append((name, request["n"]))
        return {"seconds": len(asked)}

    monkeypatch.setattr(RunningSides, "ask", ask)
    requests = {"ours": [{"n": 0}, {"n": 1}], "good": [{"n": 2}], "good, sorted": [{"n": 3}]}
    with RunningSides(["ours", "good"], "") as sides:
        found = sides.turns(requests, 2, uncounted=2)
    assert [name for name, _ in asked[:3]] == ["good", "good", "ours"]
    assert asked[6:9] == [("ours", 0), ("good", 2), ("good", 3)]
    assert asked[9:] == [("good", 2), ("good", 3), ("ours", 1)]
    assert found == {"ours": [7, 12], "good": [8, 10], "good, sorted": [9, 11]}


def test_where_every_side_is_left_out_this_is_said(monkeypatch, capsys):
    with RunningSides(["ours_unpadded", "keras_hub"], "", dtype="bfloat16") as sides:
        assert sides.left_out == dict.fromkeys(["ours_unpadded", "keras_hub"], "it does not compute in bfloat16 here")
        with pytest.raises(InputError, match="No side can be measured. Why each was left out stands above"):
            sides.load("model", CONFIG, "batch.npz")
    assert "keras_hub is left out: it does not compute in bfloat16 here" in capsys.readouterr().err
    monkeypatch.setattr(training_speed, "FLAGS", types.SimpleNamespace(environments=""))
    work = training_speed.Work(CONFIG, rows=1, length=8, steps=1, dtype="bfloat16")
    with pytest.raises(InputError, match="No side can be measured: keras_hub: it does not compute in bfloat16 here"):
        training_speed.measure(work, ["keras_hub"], 1, {}, {})


def test_an_unknown_side_is_refused():
    with pytest.raises(InputError, match="There is no side 'jax'. There are: ours"):
        RunningSides(["jax"], "")


def test_every_engine_of_the_sides_has_an_environment_in_the_makefile():
    (line,) = re.findall(r"^ENGINES := (.*)$", (PROJECT / "Makefile").read_text(), re.M)
    tables = encoder_sides.SIDES, training_speed.TRAINING_SIDES, engine_speed.ENGINES
    needed = {side.environment for sides in tables for side in sides.values()}
    assert needed - {""} == set(line.split())


def test_the_billions_of_operations_of_minilm():
    config = encoder_sides.config_of_size("minilm")
    layers = 6 * (4 * 384**2 + 2 * 384 * 1536) * 2 * 16 * 128
    attention = 6 * 4 * 384 * 128**2 * 16
    assert forward_speed.gflop(config, 128, 16) == pytest.approx((layers + attention) / 1e9, rel=1e-3)


def test_batches_are_padded_to_their_longest_text_and_hold_every_text_once(tmp_path):
    rows = [(np.full(length, 7), np.zeros(length)) for length in (3, 1, 5, 2, 2)]
    paths = text_speed.write_batches(str(tmp_path / "batches"), rows, 2)
    batches = [np.load(path) for path in paths]
    assert [batch["input_ids"].shape for batch in batches] == [(2, 3), (2, 5), (1, 2)]
    assert sum(batch["input_mask"].sum() for batch in batches) == 3 + 1 + 5 + 2 + 2
    assert text_speed.columns_of(paths) == 6 + 10 + 2
    assert batches[1]["input_ids"].tolist() == [[7, 7, 7, 7, 7], [7, 7, 0, 0, 0]]


def test_texts_and_pairs_become_rows_in_their_order():
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "quick", "fox"]
    texts = [("the fox", "quick"), ("quick",), ("the the the the", "fox fox fox fox")]
    rows = token_rows(texts, Vocabulary(tokens), 8)
    assert [ids.tolist() for ids, _ in rows[:2]] == [[2, 5, 7, 3, 6, 3], [2, 6, 3]]
    assert rows[0][1].tolist() == [0, 0, 0, 0, 1, 1]
    assert len(rows[2][0]) == 8


def test_a_missing_file_of_texts_is_named(tmp_path):
    with pytest.raises(InputError, match=r"SST-2/dev.tsv cannot be read: No such file"):
        read_mix(str(tmp_path))


PAGE = "# Results\n\n<!-- benchmark one -->\nold\n<!-- end -->\n\n<!-- benchmark two -->\nother\n<!-- end -->\nlast\n"


def test_a_section_is_replaced_and_the_rest_of_the_page_stays(tmp_path):
    page = tmp_path / "results.md"
    page.write_text(PAGE)
    results_page.replace_section(page, "one", ["| a |", "|---|"])
    assert page.read_text() == PAGE.replace("-->\nold\n<", "-->\n\n| a |\n|---|\n\n<")
    results_page.replace_section(page, "one", ["| b |"])
    assert page.read_text() == PAGE.replace("-->\nold\n<", "-->\n\n| b |\n\n<")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no comments", "has 0 lines <!-- benchmark one -->"),
        (PAGE.replace("two", "one"), "has 2 lines <!-- benchmark one -->"),
        (PAGE.replace("old\n<!-- end -->", "old"), "<!-- end --> is missing below <!-- benchmark one -->"),
    ],
)
def test_a_page_without_the_section_is_left_alone(tmp_path, text, message):
    page = tmp_path / "results.md"
    page.write_text(text)
    with pytest.raises(InputError, match=message):
        results_page.replace_section(page, "one", ["new"])
    assert page.read_text() == text


def test_every_suite_has_its_place_on_the_page_of_results():
    text = (DOCS / "results_speed.md").read_text("utf-8")
    for name in speed.SUITES:
        assert text.count(f"<!-- benchmark {name} -->") == 1


def run_speed(tmp_path, *arguments):
    page = tmp_path / "results.md"
    page.write_text("".join(f"<!-- benchmark {name} -->\n<!-- end -->\n" for name in speed.SUITES))
    command = [sys.executable, "-m", "benchmarks.speed", f"--results={page}", *arguments]
    return page, subprocess.run(command, capture_output=True, text=True, cwd=PROJECT)


@pytest.mark.slow
def test_a_smoke_run_writes_its_table_into_the_page(tmp_path):
    page, done = run_speed(
        tmp_path, "--suites=forward", "--quick", "--", "--sides=ours,keras_hub", f"--environments={tmp_path}"
    )
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert "    python -m benchmarks.forward_speed --quick --sides=ours,keras_hub\n" in text
    assert re.search(r"^\| smoke \| 2 \| 8 \| [\d.]+ \|$", text, re.M)
    assert f"Left out: keras_hub, because there is no {tmp_path}/keras_hub" in text


@pytest.mark.slow
def test_a_smoke_run_measures_export_formats(tmp_path):
    sides = "onnx,onnx int8"
    page, done = run_speed(tmp_path, "--suites=formats", "--quick", "--", f"--sides={sides}")
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert "| | onnx | onnx int8 |" in text
    assert re.search(r"^\| 2x8( \| [\d.]+, [\d.]+){2} \|$", text, re.M)
    assert re.search(r"^\| MB( \| \d\.[1-9]){2} \|$", text, re.M)


def test_a_cell_of_the_formats_has_median_percentile_and_ratio():
    runs = {"onnx": [[0.001, 0.001, 0.004], [0.002, 0.002]], "torch's graph": [[0.002], [0.004, 0.004]]}
    assert format_speed.cell(runs, "onnx") == "2, 3.92; 0.75"
    assert format_speed.cell({"onnx": runs["onnx"]}, "onnx") == "2, 3.92"
    assert format_speed.cell(runs, "litert") == "-"


def test_a_suite_that_fails_is_said_and_nothing_is_written_for_it(tmp_path):
    page, done = run_speed(tmp_path, "--suites=forward", "--", "--sizes=huge")
    assert done.returncode == 1
    assert "error: --sizes: there is no huge. There are: minilm, tiny" in done.stderr
    assert "error: These suites failed, and said above why: forward. The others are done." in done.stderr
    assert "Traceback" not in done.stderr
    assert "huge" not in page.read_text()


def test_unknown_suites_are_refused(tmp_path):
    _, done = run_speed(tmp_path, "--suites=forwards")
    assert done.returncode == 1
    assert f"error: --suites: there is no forwards. There are: {', '.join(speed.SUITES)}" in done.stderr
