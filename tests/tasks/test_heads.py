"""Heads on features: logits, losses and metrics are those of the papers written in NumPy; labels and padding."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from numpy_bert import NumpyBert, log_likelihood, scatter_weights, weights_by_name
from tiny_checkpoints import CONFIG, FEATURES

from keras_bert import InputError, MultipleChoice, SequenceClassifier, SpanClassifier, TokenClassifier
from keras_bert.layers.heads import MaskedLanguageModelHead

pytestmark = pytest.mark.usefixtures("without_graphs")

LABELS = ["O", "B-PER", "I-PER"]
WITHOUT_DROPOUT = CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
X = {name: FEATURES[name] for name in ("input_ids", "input_mask", "segment_ids")}


def features(*shape):
    """Random rows with padding on the right."""
    draw = np.random.default_rng(0)
    mask = np.arange(shape[-1]) < draw.integers(2, shape[-1] + 1, (*shape[:-1], 1))
    ids, segments = draw.integers(5, 10, shape).astype("int32"), draw.integers(0, 2, shape).astype("int32")
    return {"input_ids": ids, "input_mask": mask.astype("int32"), "segment_ids": segments}


ROWS, CLASSES = features(6, 7), np.array([2, 0, 1, 1, 2, 0], "int32")
CHOICES, RIGHT = features(4, 3, 6), np.array([2, 0, 1, 1], "int32")
# With as many labels in each row, the mean of the rows' means would be the mean over labels.
TAGS = np.array([[-1, 1, 2, -1, -1], [-1, 0, -1, -1, -1]], "int32")
SPANS = {"start_positions": np.array([[1], [0]], "int32"), "end_positions": np.array([[2], [4]], "int32")}
SENTENCES = {"sentence_id": np.array([[0], [1]]), "sub_sentence_id": np.zeros((2, 1))}
# Name -> function of a config to a model, its inputs, its labels, and what features hold instead of labels.
TASKS = {
    "classes": (lambda config: SequenceClassifier(config, LABELS), ROWS, CLASSES, {"label_ids": CLASSES[:, None]}),
    "tags": (lambda config: TokenClassifier(config, LABELS), X, TAGS, {"label_ids": TAGS, **SENTENCES}),
    "span": (SpanClassifier, X, SPANS, {**SPANS, "unique_ids": np.zeros((2, 1))}),
    "choice": (MultipleChoice, CHOICES, RIGHT, {"label_ids": RIGHT[:, None]}),
}


def compiled(name, config=CONFIG, **options):
    model = TASKS[name][0](config)
    scatter_weights(model)
    model.compile(optimizer="sgd", **options)
    return model


def expected_logits(name, model):
    numpy_bert = NumpyBert(weights_by_name(model) | weights_by_name(model.encoder), CONFIG)
    if name == "choice":
        rows = [{key: array[:, choice] for key, array in CHOICES.items()} for choice in range(3)]
        pooled = [numpy_bert.pooled(numpy_bert.rows(**one)[0][-1]) for one in rows]
        return np.concatenate([numpy_bert.dense("choice_scorer", one) for one in pooled], axis=1)
    hidden = numpy_bert.rows(**TASKS[name][1])[0][-1]
    if name == "classes":
        return numpy_bert.dense("classifier", numpy_bert.pooled(hidden))
    if name == "tags":
        return numpy_bert.dense("token_classifier", hidden)
    return np.where(X["input_mask"][:, :, None] == 1, numpy_bert.dense("span_classifier", hidden), -30000)


def expected_results(name, logits):
    labels = TASKS[name][2]
    if name == "tags":
        logits, labels = logits[TAGS >= 0], TAGS[TAGS >= 0]
    if name == "span":
        logits, labels = np.moveaxis(logits, 2, 1), np.concatenate([*SPANS.values()], axis=1)
    loss, is_right = -np.mean(log_likelihood(logits, labels)), logits.argmax(-1) == labels
    if name == "span":
        return {"loss": loss, "start_accuracy": is_right[:, 0].mean(), "end_accuracy": is_right[:, 1].mean()}
    return {"loss": loss, "accuracy": is_right.mean()}


@pytest.mark.parametrize("name", TASKS)
def test_logits_and_results_are_those_of_the_papers_written_in_numpy(name, eagerly):
    model, (_, x, y, inside) = compiled(name), TASKS[name]
    logits, predicted = expected_logits(name, model), model.predict(x, verbose=0)
    if name == "span":
        predicted = np.stack([predicted["start_logits"], predicted["end_logits"]], axis=-1)
    compared = X["input_mask"] == 1 if name == "tags" else slice(None)
    assert (predicted.shape, predicted.dtype) == (logits.shape, "float32")
    np.testing.assert_allclose(predicted[compared], logits[compared], rtol=0, atol=1e-5)
    expected = pytest.approx(expected_results(name, logits), rel=1e-5)
    for batch_size in (1, 4):
        assert model.evaluate(x, y, batch_size=batch_size, verbose=0, return_dict=True) == expected
    assert model.evaluate({**x, **inside}, verbose=0, return_dict=True) == expected


@pytest.mark.parametrize("name", ["classes", "choice"])
def test_examples_that_only_fill_up_the_batch_count_for_nothing(name, eagerly):
    model, (_, x, y, inside) = compiled(name), TASKS[name]
    real = {key: array[:3] for key, array in x.items()}
    expected = model.evaluate(real, y[:3], verbose=0, return_dict=True)
    filled = {**x, **inside, "is_real_example": (np.arange(len(y)) < 3).astype(int)[:, None]}
    assert model.evaluate(filled, verbose=0, return_dict=True) == pytest.approx(expected, rel=1e-5)


def test_metrics_given_to_compile_see_labels_and_logits(eagerly):
    metric = keras.metrics.SparseCategoricalCrossentropy(from_logits=True)
    model, (_, x, y, inside) = compiled("classes", metrics=[metric]), TASKS["classes"]
    for given in ((x, y), ({**x, **inside},)):
        results = model.evaluate(*given, verbose=0, return_dict=True)
        assert set(results) == {"loss", "accuracy", "sparse_categorical_crossentropy"}
        assert results["sparse_categorical_crossentropy"] == pytest.approx(results["loss"], rel=1e-5)


def test_a_token_without_a_label_does_not_matter(eagerly):
    """Neither the loss nor a gradient depends on its prediction, for any negative label."""
    weights = []
    for nothing in (-1, -100):
        model = compiled("tags", WITHOUT_DROPOUT)
        model.fit(X, np.where(TAGS < 0, nothing, TAGS), shuffle=False, epochs=2, verbose=0)
        weights.append(model.get_weights())
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-7)
    before = model.get_weights()
    assert model.fit(X, np.full_like(TAGS, -1), verbose=0).history["loss"] == [0.0]
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("label_ids", "jit_compile"),
    [(TAGS, False), (np.full_like(TAGS, -1), False), pytest.param(TAGS, True, marks=pytest.mark.slow)],
)
def test_labels_among_the_features_train_as_those_of_the_pair_do(label_ids, jit_compile):
    """Without XLA the last layer then computes only the tokens that have a label."""
    weights, losses = [], []
    for given in ((X, label_ids), ({**X, "label_ids": label_ids},)):
        model = compiled("tags", WITHOUT_DROPOUT)
        model.jit_compile, model.run_eagerly = jit_compile, not jit_compile
        losses.append(model.fit(*given, shuffle=False, epochs=3, verbose=0).history["loss"])
        weights.append(model.get_weights())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def test_labels_among_the_features_say_which_logits_are_computed_in_training():
    model = compiled("tags", WITHOUT_DROPOUT)
    inputs, expected = {**X, "label_ids": TAGS}, np.asarray(model(X))
    np.testing.assert_array_equal(model(inputs), expected)
    logits, is_labelled = np.asarray(model(inputs, training=True)), TAGS >= 0
    np.testing.assert_allclose(logits[is_labelled], expected[is_labelled], rtol=0, atol=1e-6)
    assert not logits[~is_labelled].any()


@pytest.mark.parametrize("jit_compile", [False, True])
def test_xla_is_given_no_lengths_that_depend_on_the_labels(jit_compile):
    model = compiled("tags")
    graph = tf.function(lambda inputs: model(inputs, training=True), autograph=False, jit_compile=jit_compile)
    inputs = {name: tf.constant(values) for name, values in {**X, "label_ids": TAGS}.items()}
    operations = [operation.type for operation in graph.get_concrete_function(inputs).graph.get_operations()]
    assert operations.count("Where") == (not jit_compile)


@pytest.mark.parametrize("position", [-1, 5])
def test_a_position_outside_of_the_row_is_loud(eagerly, position):
    labels = {**SPANS, "end_positions": np.array([[2], [position]], "int32")}
    assert np.isnan(compiled("span").evaluate({**X, **labels}, verbose=0, return_dict=True)["loss"])


def test_logits_and_losses_are_float32_in_mixed_precision_and_padding_is_never_chosen():
    model = TokenClassifier(CONFIG, LABELS, dtype="mixed_bfloat16")
    (term,) = model.loss_terms(X, TAGS, model(X), None)
    assert model(X).dtype == term.value.dtype == "float32"
    assert float(term.value) == pytest.approx(np.log(3), rel=0.1)
    model = SpanClassifier(CONFIG, dtype="mixed_float16")
    logits = model(X)["start_logits"]
    assert (logits.dtype, float(logits[0, 4])) == ("float32", -30000)
    (term,) = model.loss_terms({**X, **SPANS}, None, model(X), None)
    assert np.isfinite(term.value)


@pytest.mark.parametrize(
    ("name", "ask", "message"),
    [
        *((name, lambda model: model.fit(ROWS), "or on features that hold label_ids") for name in ("classes", "tags")),
        ("choice", lambda model: model.fit(CHOICES), "or on features that hold label_ids"),
        ("choice", lambda model: model(ROWS), r"array \[batch, choices, length\]. Received the shape \(6, 7\)"),
        ("span", lambda model: model.fit(X, np.zeros(2)), "start_positions and end_positions, .* Received: neither"),
        ("span", lambda model: model.fit(X), "start_positions and end_positions, .* Received: input_ids"),
        ("span", lambda model: model.compile("sgd", metrics=["accuracy"]), "Keras' metrics cannot see labels"),
        ("tags", lambda model: model.compile("sgd", metrics=["accuracy"]), "would count tokens that have no label"),
        ("tags", lambda model: TokenClassifier(CONFIG, ["O"]), "two or more different names"),
        (
            "classes",
            lambda model: model.compile("sgd", loss="mse"),
            "loss must be focal or asymmetric.* Received: 'mse'",
        ),
        *(
            ("classes", lambda model, labels=labels: SequenceClassifier(CONFIG, labels), "two or more different names")
            for labels in ([], ["one"], ["a", "b", "a"], "ab", [0, 0])
        ),
    ],
)
def test_what_a_head_cannot_use_is_refused(name, ask, message):
    with pytest.raises(InputError, match=message):
        ask(compiled(name))


@pytest.mark.parametrize("extra_size", [0, 3])
@pytest.mark.parametrize("tied", [True, False])
def test_masked_logits_are_products_of_the_vectors_with_the_table(tied, extra_size):
    draw = np.random.default_rng(1)
    head = MaskedLanguageModelHead(vocab_size=7, tied=tied, extra_size=extra_size)
    hidden, tokens = draw.normal(size=(2, 4, 6)).astype("float32"), draw.normal(size=(7, 5)).astype("float32")
    head.build(hidden.shape, tokens.shape)
    scatter_weights(head)
    logits = np.asarray(head(hidden, tokens))
    vectors, table = np.asarray(head.vectors(hidden)), np.asarray(head.table(tokens))
    assert table.shape == (7, 5 + extra_size)
    expected = vectors @ table.T + np.asarray(head.output_bias)
    np.testing.assert_allclose(logits.reshape(8, 7), expected, rtol=1e-5, atol=1e-5)
