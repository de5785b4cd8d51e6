import numpy as np
import pytest
import tensorflow as tf
import tiny
import tiny_pretraining
from numpy_bert import ACTIVATIONS, NumpyBert, log_likelihood, scatter_weights, weights_by_name
from pretraining_runs import RUN, pretrain
from slow_parameters import slow_except

from keras_bert import BertPretrainer, InputError, SpanPretrainer, pretraining_dataset
from keras_bert.checkpoints.formats import read_checkpoint
from keras_bert.layers.span_boundary import MAX_SPAN_TOKENS, span_boundaries
from keras_bert.training.pretraining import evaluate_pretrainer

pytestmark = pytest.mark.usefixtures("without_graphs")

LENGTH, PREDICTIONS = 32, 24


def config(**changes):
    return tiny.micro_config(max_position_embeddings=LENGTH, **changes)


def records(seed=0):
    """Rows whose masked columns are given; the last row has a span of 22 tokens, the first has no sentence label."""
    generator = np.random.default_rng(seed)
    masked = [[1, 2, 3, 6, 8, 9], [4], [2, 4, 6, 7], list(range(5, 27))]
    shape = (len(masked), PREDICTIONS)
    columns, weights = np.zeros(shape, "int32"), np.zeros(shape, "float32")
    for row, found in enumerate(masked):
        columns[row, : len(found)], weights[row, : len(found)] = found, 1.0
    return {
        "input_ids": generator.integers(0, 23, (len(masked), LENGTH)).astype("int32"),
        "input_mask": (np.arange(LENGTH) < np.array([[12], [6], [9], [32]])).astype("int32"),
        "segment_ids": generator.integers(0, 2, (len(masked), LENGTH)).astype("int32"),
        "masked_lm_positions": columns,
        "masked_lm_ids": generator.integers(0, 23, shape).astype("int32"),
        "masked_lm_weights": weights,
        "next_sentence_labels": generator.integers(0, 2, (len(masked), 1)).astype("int32"),
        "next_sentence_weights": np.array([[0.0], [1.0], [1.0], [1.0]], "float32"),
    }


def compiled(**changes):
    model = SpanPretrainer(config(**changes))
    scatter_weights(model)
    model.compile(optimizer="sgd")
    return model


def reference(model, x):
    """The boundary loss and accuracy by the formula of the paper, span by span."""
    numpy_bert = NumpyBert(weights_by_name(model) | weights_by_name(model.encoder), model.config)
    states, _ = numpy_bert.rows(x["input_ids"], x["input_mask"], x["segment_ids"])
    activate, losses, hits = ACTIVATIONS[model.config.hidden_act], [], []
    for row, vectors in enumerate(states[-1]):
        masked = set(x["masked_lm_positions"][row][x["masked_lm_weights"][row] > 0])
        for entry, column in enumerate(x["masked_lm_positions"][row][x["masked_lm_weights"][row] > 0]):
            first, last = column, column
            while first - 1 in masked:
                first -= 1
            while last + 1 in masked:
                last += 1
            if column - first >= 20:
                continue
            position = numpy_bert.weights["span_boundary_head/position_embeddings"][column - first]
            hidden = np.concatenate([vectors[first - 1], vectors[last + 1], position])
            for name in ("", "second_"):
                hidden = activate(numpy_bert.dense(f"span_boundary_head/{name}dense", hidden))
                hidden = numpy_bert.layer_norm(f"span_boundary_head/{name}layer_norm", hidden)
            logits = hidden @ numpy_bert.weights["embeddings/token_embeddings"].T
            logits += numpy_bert.weights["span_boundary_head/output_bias"]
            label = x["masked_lm_ids"][row, entry]
            losses.append(-log_likelihood(logits, np.array(label)))
            hits.append(logits.argmax() == label)
    return np.mean(losses), np.mean(hits)


@pytest.mark.parametrize("activation", slow_except(["gelu"], ["gelu", "gelu_erf"]))
def test_the_boundary_loss_is_that_of_the_paper_in_numpy(activation):
    model, x = compiled(hidden_act=activation), records()
    results = model.evaluate(x, batch_size=3, verbose=0, return_dict=True)
    loss, accuracy = reference(model, x)
    assert results["span_boundary_loss"] == pytest.approx(loss, rel=1e-5)
    assert results["span_boundary_accuracy"] == pytest.approx(accuracy)
    parts = [results[name] for name in SpanPretrainer.loss_names]
    assert results["loss"] == pytest.approx(sum(parts), rel=1e-6)
    # The other two losses are those of a BERT with the same weights.
    bert = BertPretrainer(config(hidden_act=activation))
    for weight, value in zip(bert.weights, model.weights[: len(bert.weights)], strict=True):
        weight.assign(value)
    bert.compile(optimizer="sgd")
    expected = bert.evaluate(x, batch_size=3, verbose=0, return_dict=True)
    for name in BertPretrainer.loss_names:
        assert results[name] == pytest.approx(expected[name], rel=1e-6)
    assert MAX_SPAN_TOKENS == 20


def test_the_checkpoint_is_a_bert_and_goes_on_with_its_head(tmp_path, capsys):
    model = compiled()
    model.save_pretrained(tmp_path / "ours")
    again = SpanPretrainer.from_pretrained(tmp_path / "ours")
    np.testing.assert_array_equal(again(records())["span_boundary_logits"], model(records())["span_boundary_logits"])
    for format, kind in (("huggingface", "Hugging Face BertForPreTraining"), ("google", "Google TensorFlow 1")):
        capsys.readouterr()
        model.save_pretrained(tmp_path / format, format=format)
        assert "cannot hold it: span_boundary_head\n" in capsys.readouterr().out
        assert read_checkpoint(tmp_path / format).kind == kind
        bert = BertPretrainer.from_pretrained(tmp_path / format)
        expected = np.asarray(model(records())["masked_lm_logits"])
        np.testing.assert_allclose(bert(records())["masked_lm_logits"], expected, atol=1e-5)
    SpanPretrainer.from_pretrained(tmp_path / "google")
    assert "newly initialised are: span_boundary_head (to be trained before use)" in capsys.readouterr().out


RUN = {**RUN, "objective": "span_boundary", "masking": {"masked_lm_prob": 0.4}}


def test_a_run_masks_spans_and_is_evaluated_by_its_objective(tmp_path, eagerly):
    path = tiny_pretraining.write_records(tmp_path / "train.tfrecord", masked=False)
    run = {**RUN, "num_train_steps": 2, "num_warmup_steps": 1}
    pretrain(tmp_path / "run", path, **run)
    results = evaluate_pretrainer(tmp_path / "run", path, objective="span_boundary")
    assert set(results) == {"loss", "global_step", *SpanPretrainer.loss_names, *SpanPretrainer.metric_names}
    with pytest.raises(InputError, match="objective was 'span_boundary'"):
        pretrain(tmp_path / "run", path, **{**run, "objective": "masked_lm"})


def test_spans_are_found_in_a_graph_for_rows_of_any_size():
    any_size = tf.TensorSpec([None, None], tf.int32)
    found = tf.function(lambda columns: span_boundaries(columns, columns > 0)).get_concrete_function(any_size)
    left, right, numbers = found(tf.constant([[2, 3, 4, 7]]))
    assert (left.numpy().tolist(), right.numpy().tolist()) == ([[1, 1, 1, 6]], [[5, 5, 5, 8]])
    assert numbers.numpy().tolist() == [[0, 1, 2, 0]]


def test_the_objective_sets_the_default_masks_of_records_without_masks(tmp_path):
    path = tiny_pretraining.write_records(tmp_path / "train.tfrecord", masked=False)
    options = {"vocabulary": tiny_pretraining.VOCABULARY, "shuffle": False, "masking": {"masked_lm_prob": 0.4}}
    spans, tokens = (
        next(iter(pretraining_dataset(path, 64, default_masking=masking, **options)))
        for masking in (SpanPretrainer.masking, BertPretrainer.masking)
    )
    shares = [
        float(np.mean(np.asarray(span_boundaries(batch["masked_lm_positions"], batch["masked_lm_weights"] > 0)[2]) > 0))
        for batch in (spans, tokens)
    ]
    assert shares[0] > 1.5 * shares[1]
    masked = tiny_pretraining.write_records(tmp_path / "masked.tfrecord")
    pretraining_dataset(masked, 8, default_masking=SpanPretrainer.masking)  # without effect
