"""Language models are trained on streams: rows continue, a memory passes from update to update, runs resume exactly."""

import contextlib
import functools
import json
import math
import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from numpy_bert import scatter_weights
from pretraining_runs import At, Killed, assert_same_states, callbacks_in_runs, kill, state_of

from data_prep import create_language_model_data
from keras_bert import BertConfig, InputError
from keras_bert.encoders.stream_memory import remember
from keras_bert.encoders.transformer_xl.model import TransformerXL
from keras_bert.optimization import AdamW
from keras_bert.records.streams import TokenStream, write_stream
from keras_bert.tokenization.stream_vocabulary import StreamVocabulary
from keras_bert.training.language_modeling import (
    LanguageModelOptions,
    evaluate_language_model,
    stream_loss,
    train_language_model,
)
from keras_bert.training.starting_point import StartingPoint
from run_scripts import run_language_model

LINES = [f"line {number} of {number % 7} says {number * number}\n" for number in range(20)]
OPTIONS = {"max_seq_length": 8, "train_batch_size": 4, "num_train_steps": 6, "learning_rate": 1e-2}


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams") / "stream"
    vocabulary = StreamVocabulary.of_lines(LINES, "characters")
    write_stream(folder, LINES, vocabulary, ["lines.txt"])
    return TokenStream.open(folder)


CLUSTERS = {"num_hidden_layers": 2, "cutoffs": (9, 15), "div_val": 2}


def config(stream, **changes):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "mem_len": 6}
    sizes |= {"vocab_size": len(stream.vocabulary), "hidden_dropout_prob": 0.1}
    return BertConfig.from_size("transformer-xl-enwik8", **{**sizes, **changes})


def test_a_stream_is_the_text(stream):
    assert stream.vocabulary.decode(stream.tokens) == "".join(LINES)


@pytest.mark.parametrize("start_step", [0, 3, 1000])
def test_row_r_of_a_batch_continues_row_r_of_the_batch_before(stream, start_step):
    per_row = (len(stream.tokens) - 1) // 4
    steps_per_pass = per_row // 8
    batches = list(stream.dataset(4, 8, start_step).take(2 * steps_per_pass).as_numpy_iterator())
    for step, batch in enumerate(batches, start=start_step):
        first = step % steps_per_pass * 8
        for row in range(4):
            begin = row * per_row + first
            np.testing.assert_array_equal(batch["input_ids"][row], stream.tokens[begin : begin + 8])
            np.testing.assert_array_equal(batch["target_ids"][row], stream.tokens[begin + 1 : begin + 9])
        assert (batch["stream_row"] == first // 8).all()


def test_evaluation_reads_every_token_once(stream):
    targets = [batch["target_ids"] for batch in stream.segments(4, 9)]
    per_row = (len(stream.tokens) - 1) // 4
    rows = np.concatenate(targets, axis=1)
    np.testing.assert_array_equal(rows.ravel(), stream.tokens[1 : 4 * per_row + 1])


def test_the_loss_of_a_stream_is_that_of_one_long_segment(stream):
    model = TransformerXL(config(stream, mem_len=200, **CLUSTERS))
    scatter_weights(model)
    tokens = stream.tokens[:101].astype("int32")
    short = TokenStream(tokens, stream.vocabulary, "", "short")
    scores = np.asarray(model({"input_ids": tokens[None, :-1]})["log_probabilities"])[0]
    expected = -scores[np.arange(100), tokens[1:]].mean()
    loss, count = stream_loss(model, short, 1, 30)
    assert count == 100
    assert loss == pytest.approx(expected, abs=1e-6)


def trained(stream, steps, **changes):
    keras.utils.set_random_seed(1)
    model = TransformerXL(config(stream, hidden_dropout_prob=0.0, **changes))
    model.compile(AdamW(1e-2), run_eagerly=True)
    remember(model, model.config.mem_len, 4)
    model.fit(stream.dataset(4, 8).take(steps), verbose=0)
    return model


def memory_of(model):
    return {variable.path: np.asarray(variable.value) for variable in model.between_batches.variables}


def test_training_passes_the_memory_from_update_to_update(stream):
    model = trained(stream, 1)
    batch = next(stream.dataset(4, 8, 1).as_numpy_iterator())
    memory = memory_of(model)
    expected = model({"input_ids": batch["input_ids"], **memory})
    assert np.abs(memory["memory"]).max() > 0
    model.fit(stream.dataset(4, 8, 1).take(1), verbose=0)
    for name, values in memory_of(model).items():
        np.testing.assert_allclose(values, expected[name], rtol=0, atol=1e-6, err_msg=name)
    # A new pass begins without a memory.
    assert np.asarray(model.between_batches.recall(batch)["memory_mask"]).all()
    first = next(stream.dataset(4, 8, 12).as_numpy_iterator())
    assert not first["stream_row"].any()
    assert not np.asarray(model.between_batches.recall(first)["memory_mask"]).any()


def train(folder, stream, config, **changes):
    train_language_model(folder, stream.path, StartingPoint(config), LanguageModelOptions(**OPTIONS | changes))


def test_a_killed_run_resumes_bit_by_bit_with_its_memory(stream, tmp_path, monkeypatch):
    options = {"save_checkpoints_steps": 2}
    train(tmp_path / "whole", stream, config(stream), **options)
    killed = callbacks_in_runs(monkeypatch, At(4, kill), module="language_modeling", when="first_callbacks")
    with killed, pytest.raises(Killed):
        train(tmp_path / "killed", stream, config(stream), **options)
    assert sorted(path.name for path in (tmp_path / "killed" / "checkpoints").iterdir()) == ["step-00000002"]
    train(tmp_path / "killed", stream, config(stream), **options)
    assert_same_states(tmp_path / "whole", tmp_path / "killed", 6)
    state = state_of(tmp_path / "whole", 6)
    assert any(array.shape == (4, 1, 6, 8) and array.any() for array in state.values())  # the memory
    with pytest.raises(InputError, match="max_seq_length was 8 and is now 9"):
        train(tmp_path / "killed", stream, config(stream), **options, max_seq_length=9)


def states_on_devices(path, num_devices, changes):
    """Trains on logical devices of one CPU and returns the losses, the weights and the memory."""
    import distributed_runs

    stream = TokenStream.open(path)
    strategy, _ = distributed_runs.strategy_and_parts(f"mirrored{num_devices}" if num_devices > 1 else "one")
    with strategy.scope() if strategy else contextlib.nullcontext():
        keras.utils.set_random_seed(1)
        model = TransformerXL(config(stream, hidden_dropout_prob=0.0, **changes))
        model.compile(AdamW(1e-2), jit_compile=False)
        remember(model, model.config.mem_len, 4)
        logs = model.fit(stream.dataset(4, 8).take(3), verbose=0).history
        memory = [np.asarray(variable.value) for variable in model.between_batches.variables]
        return logs["loss"], [*(variable.numpy() for variable in model.variables), *memory]


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, CLUSTERS])
def test_two_replicas_keep_their_own_streams(stream, on_four_devices, changes):
    run = functools.partial(on_four_devices, states_on_devices, stream.path)
    (loss, one), (other_loss, two) = (run(count, changes) for count in (1, 2))
    assert other_loss == pytest.approx(loss, abs=1e-6)
    assert len(one) == len(two)
    assert sum(array.ndim == 4 and bool(array.any()) for array in one) == 1  # the memory
    for left, right in zip(one, two, strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-6)


def test_the_commands_make_streams_train_and_evaluate(tmp_path, done_here, eagerly):
    (tmp_path / "text.txt").write_text("".join(LINES))
    files = f"--input_file={tmp_path}/text.txt", f"--output_dir={tmp_path}/train"
    printed = done_here(create_language_model_data, *files, "--kind=words", "--min_count=2")
    stream = TokenStream.open(tmp_path / "train")
    assert f"{len(stream.tokens):,}" in printed.out
    lines = [*LINES[::3], "ß\n"]
    write_stream(tmp_path / "test", lines, StreamVocabulary.find(tmp_path / "train"), ["other.txt"])
    config(stream).save(tmp_path / "config.json")
    flags = ["--do_train", "--do_eval", f"--input_file={tmp_path}/train", f"--eval_input_file={tmp_path}/test"]
    flags += [f"--bert_config_file={tmp_path}/config.json", f"--output_dir={tmp_path}/run", "--num_train_steps=3"]
    flags += ["--train_batch_size=2", "--max_seq_length=5", "--eval_mem_len=9"]
    done_here(run_language_model, *flags)
    results = dict(line.split(" = ") for line in (tmp_path / "run" / "eval_results.txt").read_text().splitlines())
    assert math.exp(float(results["loss"])) == pytest.approx(float(results["perplexity"]))
    assert "bits_per_character" not in results
    model = TransformerXL.from_pretrained(tmp_path / "run" / "model", mem_len=9)
    loss, count = stream_loss(model, TokenStream.open(tmp_path / "test"), 8, 5)
    assert float(results["loss"]) == pytest.approx(loss, abs=1e-6)
    assert int(results["num_tokens"]) == count


def test_characters_are_evaluated_in_bits_as_if_the_stream_were_one_segment(stream, tmp_path):
    length = len(stream.tokens) - 1
    model = TransformerXL(config(stream, mem_len=length, clamp_len=-1))
    scatter_weights(model)
    model.save_pretrained(tmp_path / "model", vocabulary=stream.vocabulary)
    start = {"init_checkpoint": tmp_path / "model", "max_seq_length": 9, "eval_batch_size": 1}
    results = evaluate_language_model(tmp_path / "out", stream.path, **start)
    (whole,) = stream.segments(1, length)
    (term,) = model.loss_terms(whole, None, model(whole), None)
    assert results["num_tokens"] == length
    assert results["bits_per_character"] == pytest.approx(float(term.value) / math.log(2), rel=1e-4)
    assert abs(results["bits_per_character"] - math.log2(len(stream.vocabulary))) > 0.1


def bytes_end_with(end):
    return lambda folder: (folder / "tokens.bin").write_bytes((folder / "tokens.bin").read_bytes()[:-2] + end)


def change_number(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"num_tokens": 2**62}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (bytes_end_with(b""), "copy is damaged: tokens.bin has .* bytes, but manifest.json says"),
        (bytes_end_with(b"\xff\xff"), "tokens.bin has the id 65535, but the vocabulary has"),
        (change_number, "copy is damaged"),
        (StreamVocabulary(["<unk>", "a"], "characters").save, "the vocabulary is missing or was changed"),
    ],
)
def test_a_damaged_stream_is_refused(damage, message, stream, tmp_path):
    damage(pathlib.Path(shutil.copytree(stream.path, tmp_path / "copy")))
    with pytest.raises(InputError, match=message):
        TokenStream.open(tmp_path / "copy")


def test_streams_and_models_that_do_not_fit_are_refused(stream, tmp_path, refused_here):
    with pytest.raises(InputError, match="tokens, too few for 300 rows with segments of 8 and the token that follows"):
        train(tmp_path / "run", stream, config(stream), train_batch_size=300)
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match="length must be a whole number of at least 1. Received: 0"):
        train(tmp_path / "run", stream, config(stream), max_seq_length=0)
    with pytest.raises(InputError, match="tokens but bert_config.json says vocab_size=50"):
        train(tmp_path / "run", stream, config(stream, vocab_size=50))
    with pytest.raises(InputError, match="A TransformerXL is made from a TransformerXLConfig. Received: a BertConfig"):
        train(tmp_path / "run", stream, BertConfig.from_size("tiny", vocab_size=len(stream.vocabulary)))
    (tmp_path / "records").mkdir()
    with pytest.raises(InputError, match="records is not a token stream"):
        TokenStream.open(tmp_path / "records")
    with pytest.raises(InputError, match="There is no text in nothing.txt"):
        write_stream(tmp_path / "empty", [], stream.vocabulary, ["nothing.txt"])
    flags = ["--kind=words", "--vocab_file=x", f"--input_file={__file__}", f"--output_dir={tmp_path}/stream"]
    printed = refused_here(create_language_model_data, *flags)
    assert "Give --kind, to make a vocabulary, or --vocab_file, to use one" in printed.err


def test_a_memory_with_shuffled_segments_is_refused(stream):
    model = TransformerXL(config(stream))
    model.compile(AdamW(1e-2), run_eagerly=True)
    remember(model, model.config.mem_len, 4)
    ids = np.zeros((8, 5), "int32")
    records = tf.data.Dataset.from_tensor_slices({"input_ids": ids, "target_ids": ids}).shuffle(8).batch(4)
    for segments in ({"input_ids": ids, "target_ids": ids}, records):
        with pytest.raises(InputError, match="mem_len needs rows that continue.*Received: other"):
            model.fit(segments)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "Nothing to do"),
        (["--do_train"], "--do_train needs a stream. Give --input_file"),
        (["--do_eval"], "--do_eval needs a stream. Give --eval_input_file"),
        (["--do_train", "--input_file=x", "--gradient_accumulation_steps=2"], "does not work with a memory"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(tmp_path, flags, message, run_here):
    code, printed = run_here(run_language_model, f"--output_dir={tmp_path}/run", *flags)
    assert (code, message in printed.err) == (1, True)
