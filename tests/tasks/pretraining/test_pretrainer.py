import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from numpy_bert import NumpyBert, log_likelihood, scatter_weights, weights_by_name
from tiny_pretraining import random_records as records

from keras_bert import BertPretrainer, InputError

pytestmark = pytest.mark.usefixtures("eagerly")


def reference(model, x):
    """Logits, loss terms and accuracies of the NumPy BERT: two logits and the dictionary that `evaluate` returns."""
    numpy_bert = NumpyBert(weights_by_name(model) | weights_by_name(model.encoder), model.config)
    hidden_states, _ = numpy_bert.rows(x["input_ids"], x["input_mask"], x["segment_ids"])
    masked = numpy_bert.masked_lm_logits(hidden_states[-1], x["masked_lm_positions"])
    following = numpy_bert.dense("next_sentence_head", numpy_bert.pooled(hidden_states[-1]))
    weights, labels = x["masked_lm_weights"], x["next_sentence_labels"][:, 0]
    masked_hits = masked.argmax(-1) == x["masked_lm_ids"]
    results = {
        "masked_lm_loss": -np.sum(weights * log_likelihood(masked, x["masked_lm_ids"])) / weights.sum(),
        "masked_lm_accuracy": np.sum(weights * masked_hits) / weights.sum(),
        "next_sentence_loss": -np.mean(log_likelihood(following, labels)),
        "next_sentence_accuracy": np.mean(following.argmax(-1) == labels),
    }
    return masked, following, {**results, "loss": results["masked_lm_loss"] + results["next_sentence_loss"]}


def compiled(config=None, optimizer="sgd", **kwargs):
    model = BertPretrainer(config or tiny.micro_config(), **kwargs)
    scatter_weights(model)
    model.compile(optimizer=optimizer)
    return model


@pytest.mark.parametrize("activation", ["gelu", "gelu_erf"])
def test_logits_are_those_of_the_paper_written_in_numpy(activation):
    model, x = BertPretrainer(tiny.micro_config(hidden_act=activation)), records()
    scatter_weights(model)
    masked, following, _ = reference(model, x)
    outputs = model(x)
    np.testing.assert_allclose(np.asarray(outputs["masked_lm_logits"]), masked, rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.asarray(outputs["next_sentence_logits"]), following, rtol=0, atol=1e-5)


@pytest.mark.parametrize("batch_size", [6, 4, 1])
def test_evaluate_gives_the_same_for_any_split_into_batches(batch_size):
    model, x = compiled(), records()
    _, _, expected = reference(model, x)
    results = model.evaluate(x, batch_size=batch_size, verbose=0, return_dict=True)
    assert results == pytest.approx(expected, rel=1e-5)


def test_the_optimised_loss_is_googles():
    model, x = BertPretrainer(tiny.micro_config()), records()
    scatter_weights(model)
    _, _, expected = reference(model, x)
    total = x["masked_lm_weights"].sum()
    loss = float(model.compute_loss(x=x, y_pred=model(x)))
    assert loss == pytest.approx(
        expected["masked_lm_loss"] * total / (total + 1e-5) + expected["next_sentence_loss"], rel=1e-6
    )
    terms = model.loss_terms(x, None, model(x), None)
    assert [(term.name, float(term.weight)) for term in terms] == [("masked_lm_loss", total), ("next_sentence_loss", 6)]


def test_gradients_equal_finite_differences():
    config = tiny.micro_config(hidden_act="gelu_erf", num_hidden_layers=1)
    model, x = BertPretrainer(config, dtype="float64"), records()
    scatter_weights(model)

    @tf.function(autograph=False)  # called twice for each weight
    def loss():
        return model.compute_loss(x=x, y_pred=model(x))

    with tf.GradientTape() as tape:
        value = loss()
    weights = model.trainable_weights
    gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(value, weights)]
    generator = np.random.default_rng(1)
    for weight, gradient in zip(weights, gradients, strict=True):
        start, direction, step = weight.numpy(), generator.standard_normal(weight.shape), 1e-5
        weight.assign(start + step * direction)
        above = float(loss())
        weight.assign(start - step * direction)
        below = float(loss())
        weight.assign(start)
        slope = (above - below) / (2 * step)
        assert float(tf.reduce_sum(gradient * direction)) == pytest.approx(slope, rel=1e-5, abs=1e-8), weight.path


def test_the_token_table_exists_once_and_learns_from_both_its_uses():
    model, x = compiled(optimizer=keras.optimizers.Adam()), records(batch_size=3)
    tables = [weight for weight in model.trainable_variables if tuple(weight.shape) == (23, 8)]
    assert len(tables) == 1
    model.optimizer.build(model.trainable_variables)
    assert sum(tuple(slot.shape) == (23, 8) for slot in model.optimizer.variables) == 2
    assert model.count_params() == model.encoder.count_params() + (8 * 8 + 8) + 2 * 8 + 23 + (8 * 2 + 2)

    with tf.GradientTape() as tape:
        loss = model.compute_loss(x=x, y_pred=model(x))
    gradient = tf.convert_to_tensor(tape.gradient(loss, tables[0].value)).numpy()
    absent = sorted(set(range(23)) - set(x["input_ids"].ravel()))
    assert absent
    assert np.all(np.abs(gradient[absent]).sum(axis=1) > 0)  # as an output: every token is scored


def test_the_token_table_is_saved_once(tmp_path):
    BertPretrainer(tiny.micro_config()).save_weights(tmp_path / "model.weights.h5")
    shapes = []
    with h5py.File(tmp_path / "model.weights.h5") as file:
        file.visititems(lambda name, item: shapes.append(item.shape) if isinstance(item, h5py.Dataset) else None)
    assert shapes.count((23, 8)) == 1


ACCUMULATING = keras.optimizers.SGD(gradient_accumulation_steps=2)


def records_without(*names):
    return {name: values for name, values in records().items() if name not in names}


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda model: model.compile("sgd", loss="mse"), r"its own loss \(masked_lm_loss \+ next_sentence_loss\)"),
        (lambda model: model.compile("sgd", loss_weights=[1, 2]), "without loss and loss_weights"),
        (lambda model: model.compile("sgd", metrics=["accuracy"]), "without metrics"),
        (lambda model: model.compile(ACCUMULATING), "gradient_accumulation_steps is not"),
        (
            lambda model: model.fit(records_without("masked_lm_weights", "next_sentence_labels"), verbose=0),
            "Missing: masked_lm_weights, next_sentence_labels. Received: input_ids",
        ),
        (
            lambda model: model.predict(records_without("masked_lm_positions"), verbose=0),
            "Missing: masked_lm_positions",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused(use, message):
    with pytest.raises(InputError, match=message):
        use(compiled())


def packed(x, rows, length, places):
    """The records of `x` packed as `rows` (lists of their numbers) say, in rows of `length` with `places` sequences.

    The masked tokens of a row are in the order of its sequences, and unused entries are 0, as in records.
    """
    num_predictions = places * x["masked_lm_ids"].shape[1]
    result = {
        **{name: np.zeros((len(rows), length), "int32") for name in ("input_ids", "input_mask", "segment_ids")},
        **{name: np.zeros((len(rows), num_predictions), "int32") for name in ("masked_lm_positions", "masked_lm_ids")},
        "masked_lm_weights": np.zeros((len(rows), num_predictions), "float32"),
        **{name: np.zeros((len(rows), places), "int32") for name in ("cls_positions", "next_sentence_labels")},
        "next_sentence_weights": np.zeros((len(rows), places), "float32"),
    }
    for row, members in enumerate(rows):
        start = predicted = 0
        for place, member in enumerate(members):
            end = start + x["input_mask"][member].sum()
            for name in ("input_ids", "segment_ids"):
                result[name][row, start:end] = x[name][member, : end - start]
            result["input_mask"][row, start:end] = place + 1
            is_target = x["masked_lm_weights"][member] > 0
            targets = slice(predicted, predicted + is_target.sum())
            result["masked_lm_positions"][row, targets] = start + x["masked_lm_positions"][member, is_target]
            result["masked_lm_ids"][row, targets] = x["masked_lm_ids"][member, is_target]
            result["masked_lm_weights"][row, targets] = 1.0
            result["cls_positions"][row, place] = start
            result["next_sentence_labels"][row, place] = x["next_sentence_labels"][member, 0]
            result["next_sentence_weights"][row, place] = 1.0
            start, predicted = end, targets.stop
    return result


PACKED_ROWS = [[4, 0, 2], [5], [1, 3]]


def loss_and_gradients(model, x):
    with tf.GradientTape() as tape:
        loss = model.compute_loss(x=x, y_pred=model(x))
    gradients = tape.gradient(loss, model.trainable_weights)
    return float(loss), [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]


def test_packed_rows_give_the_loss_and_gradients_of_their_sequences_alone():
    model, x = BertPretrainer(tiny.micro_config(max_position_embeddings=24), dtype="float64"), records()
    scatter_weights(model)
    rows = packed(x, PACKED_ROWS, length=24, places=3)
    (alone, alone_gradients), (together, together_gradients) = (loss_and_gradients(model, form) for form in (x, rows))
    assert together == pytest.approx(alone, rel=1e-12)
    for weight, one, other in zip(model.trainable_weights, alone_gradients, together_gradients, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-12, err_msg=weight.path)


@pytest.mark.parametrize("batch_size", [2, *(pytest.param(size, marks=pytest.mark.slow) for size in (3, 1))])
def test_packed_rows_are_evaluated_as_their_sequences_alone(batch_size):
    model, x = compiled(tiny.micro_config(max_position_embeddings=24)), records()
    rows = packed(x, PACKED_ROWS, length=24, places=3)
    expected = model.evaluate(x, verbose=0, return_dict=True)
    assert model.evaluate(rows, batch_size=batch_size, verbose=0, return_dict=True) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("rows", "kept"), [(None, [0, 1, 2]), (PACKED_ROWS, [5, 1, 3])])
def test_a_row_with_weight_zero_counts_for_nothing(rows, kept):
    model, x = compiled(tiny.micro_config(max_position_embeddings=24)), records()
    given = x if rows is None else packed(x, rows, length=24, places=3)
    weights = np.array([1.0] * 3 + [0.0] * 3 if rows is None else [0.0, 1.0, 1.0], "float32")
    expected = model.evaluate({name: array[kept] for name, array in x.items()}, verbose=0, return_dict=True)
    dataset = tf.data.Dataset.from_tensors((given, None, weights)).take(1)
    assert model.evaluate(dataset, verbose=0, return_dict=True) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("places", [1, 3])
def test_without_a_sentence_task_only_masked_words_are_learnt(places):
    model, x = compiled(tiny.micro_config(max_position_embeddings=24)), records()
    expected = model.evaluate(x, verbose=0, return_dict=True)
    without = packed(x, PACKED_ROWS, length=24, places=3) if places > 1 else dict(x)
    without["next_sentence_weights"] = np.zeros(without["next_sentence_labels"].shape, "float32")
    results = model.evaluate(without, verbose=0, return_dict=True)
    assert results["loss"] == results["masked_lm_loss"] == pytest.approx(expected["masked_lm_loss"], rel=1e-5)
    assert results["next_sentence_loss"] == 0.0
    assert np.isnan(results["next_sentence_accuracy"])
    assert results["masked_lm_accuracy"] == pytest.approx(expected["masked_lm_accuracy"])

    loss, gradients = loss_and_gradients(model, without)
    assert np.isfinite(loss)
    for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
        is_of_the_task = "pooler" in weight.path or "next_sentence_head" in weight.path
        assert np.all(np.isfinite(gradient))
        assert np.any(gradient != 0) != is_of_the_task, weight.path
