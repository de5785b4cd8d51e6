"""The memory between the batches of XLNet's pre-training: rows of a stream compute what one long row computes.

`tests/models/test_distributed_model.py` compares two devices with one, and `tests/training/test_language_modeling.py`
resumes a run with its memory.
"""

import dataclasses

import numpy as np
import pytest
from example_bytes import serialize
from numpy_bert import scatter_weights
from permutation_texts import OPTIONS, VOCABULARY, rows
from pretraining_runs import pretrain
from tiny_families import config_of
from training.test_pretraining import assert_same_weights, train_until_killed

from keras_bert import BertPretrainer, InputError
from keras_bert.encoders.stream_memory import remember
from keras_bert.optimization import AdamW
from keras_bert.training.pretraining_options import PretrainingRunOptions

REUSE, LAYERS, WIDTH = OPTIONS.reuse_len, 2, 8
CONFIG = config_of(
    "xlnet",
    vocab_size=len(VOCABULARY),
    max_position_embeddings=64,
    hidden_size=WIDTH,
    num_hidden_layers=LAYERS,
    num_attention_heads=2,
    intermediate_size=16,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def model(**arguments):
    result = BertPretrainer(CONFIG, **arguments)
    scatter_weights(result)
    return result


def run(pretrainer, batches, mem_len):
    """Returns the outputs of a batch for each of `batches`, each with the memory that the one before leaves."""
    num_rows = len(batches[0]["input_ids"])
    memory = {
        "memory": np.zeros((num_rows, LAYERS, mem_len, WIDTH), "float32"),
        "memory_mask": np.zeros((num_rows, mem_len), "float32"),
    }
    outputs = []
    for batch in batches:
        outputs.append(pretrainer({**batch, **memory}))
        memory = {name: outputs[-1][name] for name in memory}
    return outputs


def steps(count=3):
    """The first batches of the records, one row of each of the three streams."""
    made = rows()
    return [{name: values[3 * step : 3 * step + 3] for name, values in made.items()} for step in range(count)]


def long_row(batches):
    """The reused parts of successive rows as one row, in which each part knows the parts before it."""
    ids = np.concatenate(
        [batches[0]["input_ids"][:, :1], *(batch["input_ids"][:, 1 : 1 + REUSE] for batch in batches)], 1
    )
    last = (REUSE + 1) * len(batches)
    order = [(REUSE + 1) * n + batch["prediction_order"][:, 1 : 1 + REUSE] for n, batch in enumerate(batches)]
    order = np.concatenate([np.full((len(ids), 1), last), *order], axis=1)  # nobody knows [CLS]
    columns = [np.sort(batch["masked_lm_positions"][:, :4]) + REUSE * n for n, batch in enumerate(batches)]
    row = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": 0 * ids, "prediction_order": order}
    return row | {"masked_lm_positions": np.concatenate(columns, axis=1)}


@pytest.mark.parametrize("mem_len", [2 * REUSE, 3 * REUSE])
def test_rows_with_a_memory_compute_what_one_long_row_computes(mem_len):
    pretrainer, batches = model(dtype="float64"), steps()
    assert all((batch["masked_lm_positions"][:, 3] <= REUSE).all() for batch in batches)  # four in each first part
    found = np.concatenate(
        [np.asarray(outputs["masked_lm_logits"])[:, :4] for outputs in run(pretrainer, batches, mem_len)], axis=1
    )
    expected = np.asarray(pretrainer(long_row(batches))["masked_lm_logits"])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    alone = np.asarray(pretrainer(batches[2])["masked_lm_logits"])[:, :4]
    assert np.abs(alone - expected[:, 8:]).max() > 1e-3


def test_the_memory_has_the_newest_tokens_and_knows_which_it_has():
    pretrainer, batches = model(), steps()
    first, _, last = run(pretrainer, batches, 2 * REUSE)
    assert np.asarray(first["memory_mask"]).tolist() == [[0.0] * REUSE + [1.0] * REUSE] * 3
    assert np.asarray(last["memory_mask"]).all()
    newest = np.asarray(run(pretrainer, batches[:1], 5)[0]["memory"])
    np.testing.assert_allclose(newest, np.asarray(first["memory"])[:, :, -5:], rtol=0, atol=1e-6)  # rounding, on a GPU
    embedded = np.asarray(pretrainer.encoder.embeddings(batches[0]["input_ids"]))[:, 1 : 1 + REUSE]
    np.testing.assert_array_equal(np.asarray(first["memory"])[:, 0, -REUSE:], embedded)


def test_the_memory_knows_nothing_of_the_tokens_behind_it():
    pretrainer, (batch,) = model(), steps(1)
    before = np.asarray(run(pretrainer, [batch], REUSE)[0]["memory"])
    changed = batch["input_ids"].copy()
    changed[:, 1 + REUSE :] = np.roll(changed[:, 1 + REUSE :], 1, axis=1)
    after = np.asarray(run(pretrainer, [{**batch, "input_ids": changed}], REUSE)[0]["memory"])
    np.testing.assert_array_equal(after, before)


def test_a_row_that_begins_a_stream_has_no_memory(eagerly):
    batch = steps(1)[0]
    losses = []
    for stream_row, times in ((0, 1), (0, 2), (5, 2)):
        pretrainer = model()
        pretrainer.compile(AdamW(0.0))
        remember(pretrainer, REUSE, 3)
        for _ in range(times):
            loss = pretrainer.train_on_batch({**batch, "stream_row": np.full((3, 1), stream_row)}, return_dict=True)
            pretrainer.reset_metrics()
        losses.append(float(loss["masked_lm_loss"]))
    assert losses[0] == losses[1]
    assert abs(losses[0] - losses[2]) > 1e-4


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    import tensorflow as tf

    path = tmp_path_factory.mktemp("records") / "streams.tfrecord"
    made = rows()
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(len(made["input_ids"])):
            record = {name: values[number] for name, values in made.items()}
            writer.write(serialize(record, OPTIONS.features))
    return str(path)


RUN = {
    "train_batch_size": 3,
    "learning_rate": 1e-2,
    "num_train_steps": 6,
    "num_warmup_steps": 1,
    "save_checkpoints_steps": 2,
    "seed": 7,
    "mem_len": 24,
}


@pytest.mark.slow
def test_a_killed_run_goes_on_with_its_memory(records, tmp_path, monkeypatch, eagerly):
    pretrain(tmp_path / "whole", records, CONFIG, **RUN)
    train_until_killed(monkeypatch, 5, tmp_path / "killed", records, CONFIG, **RUN)
    pretrain(tmp_path / "killed", records, CONFIG, **RUN)
    assert_same_weights(tmp_path / "whole" / "model", tmp_path / "killed" / "model")
    # It matters: without a memory, the same run ends with other weights.
    pretrain(tmp_path / "without", records, CONFIG, **{**RUN, "mem_len": 0})
    with pytest.raises(AssertionError):
        assert_same_weights(tmp_path / "whole" / "model", tmp_path / "without" / "model")
    with pytest.raises(InputError, match="mem_len"):
        pretrain(tmp_path / "killed", records, CONFIG, **{**RUN, "mem_len": 16})


@pytest.mark.slow
def test_xla_and_recomputed_layers_keep_the_same_memory():
    """The compiled step and recomputation change nothing but roundings."""
    found = []
    for arguments in (
        {"run_eagerly": True},
        {"jit_compile": True},
        {"jit_compile": False, "gradient_checkpointing": True},
    ):
        pretrainer = model()
        pretrainer.compile(AdamW(1e-3), **arguments)
        remember(pretrainer, 24, 3)
        losses = [pretrainer.train_on_batch(batch, return_dict=True)["loss"] for batch in steps(4)]
        found.append((losses, [variable.value.numpy() for variable in pretrainer.between_batches.variables]))
    for losses, memory in found[1:]:
        np.testing.assert_allclose(losses, found[0][0], rtol=1e-5)
        for one, other in zip(memory, found[0][1], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)


def test_a_memory_where_there_can_be_none_is_refused(records, tmp_path):
    bert = BertPretrainer(config_of("bert", vocab_size=40, hidden_size=8, num_attention_heads=2, num_hidden_layers=1))
    with pytest.raises(InputError, match="Only a BertPretrainer of XLNet .* mem_len=8 for a BertPretrainer of bert"):
        remember(bert, 8, 2)
    with pytest.raises(InputError, match="num_streams must be a whole number of at least 1. Received: 0"):
        remember(model(), 8, 0)
    pretrainer = model()
    remember(pretrainer, 8, 1)
    assert pretrainer.between_batches is not None
    remember(pretrainer, 0, 0)
    assert pretrainer.between_batches is None
    pretrainer.compile(AdamW(1e-3), gradient_accumulation_steps=2)
    remember(pretrainer, 8, 3)
    with pytest.raises(InputError, match="gradient_accumulation_steps does not work with a memory"):
        pretrainer.train_on_batch(steps(1)[0])
    with pytest.raises(InputError, match="mem_len needs the objective masked_lm and no teacher. Received: span_bound"):
        PretrainingRunOptions(mem_len=8, objective="span_boundary")
    with pytest.raises(InputError, match="its rows continue in batches of 3 rows .num_streams., but a batch has 6"):
        pretrain(tmp_path / "run", records, CONFIG, **{**RUN, "train_batch_size": 6})
    pretrainer = model()
    pretrainer.compile(AdamW(1e-3), run_eagerly=True)
    remember(pretrainer, 8, 3)
    batch = {name: values for name, values in steps(1)[0].items() if name != "stream_row"}
    with pytest.raises(InputError, match="mem_len needs rows that continue in the next batch"):
        pretrainer.train_on_batch(batch)
    assert dataclasses.replace(PretrainingRunOptions(), mem_len=8).settings()["mem_len"] == 8
