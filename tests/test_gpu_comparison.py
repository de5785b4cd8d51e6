"""The parts of the GPU comparison that its table rests on: the formula, the table, and sides that do not start."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from benchmarks import gpu_core
from benchmarks.gpu_core_work import answer_requests, random_batch
from keras_bert.config import BertConfig
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.program.errors import InputError

CONFIG = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32)


def products_in(graph) -> int:
    """Returns the operations of all matrix products of a TensorFlow graph whose shapes are known."""
    operations = 0
    for node in graph.get_operations():
        if node.type in ("MatMul", "BatchMatMulV2"):
            left = node.inputs[0].shape
            inner = left[-2] if node.get_attr("transpose_a" if node.type == "MatMul" else "adj_x") else left[-1]
            operations += 2 * node.outputs[0].shape.num_elements() * inner
    return operations


def test_a_forward_pass_counts_the_matrix_products_of_the_models_graph():
    if keras.config.backend() != "tensorflow":
        pytest.skip("reads a TensorFlow graph")
    model = BertPretrainer(CONFIG)
    batch = random_batch(batch_size=4, length=12, predictions=3, vocab_size=50)
    features = {name: tf.TensorSpec(column.shape, column.dtype) for name, column in batch.items()}
    graph = tf.function(model.call, autograph=False).get_concrete_function(features).graph
    # Segments are looked up by a product of [B S, 2] with [2, H]: not counted, as no look-up is.
    segments = 2 * 4 * 12 * 2 * 16
    assert gpu_core.model_flops(CONFIG, 4, 12, 3, "forward", num_wanted=4) == products_in(graph) - segments


def test_a_step_of_base_is_six_operations_for_each_weight_and_token_and_those_of_attention():
    config = BertConfig.from_size("base", vocab_size=30522)
    layers = 6 * 84_934_656 * 32 * 512 + 12 * 12 * 768 * 512**2 * 32
    heads = 6 * (768**2 + 768 * 30522) * 32 * 77 + 6 * (768**2 + 768 * 2) * 32
    assert gpu_core.model_flops(config, 32, 512, 77, "train") == layers + heads
    assert gpu_core.model_flops(config, 32, 512, 77, "forward") * 3 == layers + heads


def test_as_many_tokens_are_masked_as_google_masks():
    assert [gpu_core.num_predictions(length) for length in (2, 16, 128, 512)] == [1, 3, 20, 77]


def test_both_sides_have_the_same_full_rows():
    batch = random_batch(batch_size=3, length=16, predictions=4, vocab_size=50)
    again = random_batch(batch_size=3, length=16, predictions=4, vocab_size=50)
    for name, column in batch.items():
        np.testing.assert_array_equal(column, again[name])
    assert batch["input_mask"].all()
    assert all(len(set(row)) == 4 for row in batch["masked_lm_positions"].tolist())
    assert batch["masked_lm_positions"].max() < 16
    assert 5 <= batch["input_ids"].min() <= batch["input_ids"].max() < 50


def test_the_table_has_medians_and_shares_of_the_faster_sides_peak():
    def both(ours, theirs):
        return tuple({"seconds": seconds, "steps": 2} for seconds in (ours, theirs))

    turns = [
        {"matmul": both(4.0, 1.0), "forward": both(0.2, 0.4), "train": both(0.6, 0.6)},
        {"matmul": both(4.0, 2.0), "forward": both(0.4, 0.4), "train": both(0.6, 1.2)},
        {"matmul": both(4.0, 8.0), "forward": both(9.0, 0.6), "train": both(0.8, 0.8)},
    ]
    # 2 * 10**3 operations in a second, theirs; ours takes twice as long.
    assert gpu_core.peak_flops(turns, matmul_size=10) == 2000.0
    sides = [{"side": "A 1", "device": "D"}, {"side": "B 2", "device": "D"}]
    lines = gpu_core.table([("tiny", 16, 2, (sides, turns))], peak=1e12)
    assert lines[0] == "Ours: A 1, D. Theirs: B 2, D."
    config = BertConfig.from_size("tiny", 30522)
    ours = gpu_core.model_flops(config, 2, 16, 3, "forward", num_wanted=4)
    theirs = gpu_core.model_flops(config, 2, 16, 16, "forward", num_wanted=16)
    assert ours < theirs
    assert lines[-2:] == [
        "| tiny | 16 | 2 | forward | 200.00 ms | 200.00 ms | 1.00 (0.50 to 15.00) "
        f"| {ours / 0.2 / 1e10:.1f} % | {theirs / 0.2 / 1e10:.1f} % |",
        "| tiny | 16 | 2 | train | 300.00 ms | 400.00 ms | 1.00 (0.50 to 1.00) "
        f"| {3 * ours / 0.3 / 1e10:.1f} % | {3 * theirs / 0.4 / 1e10:.1f} % |",
    ]
    assert lines[-3].count("|") == lines[-2].count("|") == gpu_core.HEADER[0].count("|")


def test_a_side_does_the_job_that_it_is_asked_for_and_waits_for_the_last_result(monkeypatch, capsys):
    done = []
    jobs = {"forward": lambda: done.append("forward") or len(done)}
    monkeypatch.setattr(sys, "stdin", ["\n", "forward\n"])
    answer_requests({"side": "A"}, jobs, steps=3, wait=lambda result: done.append(f"waited for {result}"))
    about, report = map(json.loads, capsys.readouterr().out.splitlines())
    assert about == {"side": "A"}
    assert done == ["forward", "forward", "forward", "waited for 3"]
    assert report["steps"] == 3
    assert report["seconds"] > 0


def test_sides_on_different_devices_are_not_compared():
    sides = [{"side": "A", "platform": "cpu", "device": "cpu"}, {"side": "B", "platform": "gpu", "device": "H100"}]
    with pytest.raises(InputError, match="different devices: A on cpu, B on H100. Install"):
        gpu_core.check_platforms(sides)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--python=no-such-python"], "no-such-python cannot be started as a Python: No such file or directory"),
        (["--sizes=huge"], "--sizes: there is no huge. There are: tiny, mini"),
        (["--lengths=16,1"], "--lengths: a length is a whole number from 2 to 512. Received: '1'"),
    ],
)
def test_bad_input_ends_in_one_line(arguments, message):
    program = [sys.executable, "-m", "benchmarks.gpu_core", "--other_python=none", "--sizes=tiny", "--lengths=16"]
    done = subprocess.run([*program, *arguments], capture_output=True, text=True)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_side_that_ends_is_named_with_its_last_words(tmp_path):
    program = "import sys; sys.exit('no module named torch')"
    with open(tmp_path / "said", "w+") as said:
        worker = subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, stderr=said, text=True)
        with pytest.raises(InputError, match=r"'transformers' cannot start \(exit code 1\): no module named torch"):
            gpu_core.request("transformers", worker, said, "")
        worker.communicate()
