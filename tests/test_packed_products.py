"""Exports that pack the weights of dense layers once have the answers of other exports."""

import collections
import json

import numpy as np
import pytest
import served_models
import tensorflow as tf
from served_models import CONFIG, TEXTS, VOCABULARY, Question
from test_eight_bit_products import ACTIVATIONS, in_graph, new_dense
from test_export_in_c_api import serve, text_libraries
from test_families_on_texts import new

from keras_bert.models.sequence_classifier import SequenceClassifier
from keras_bert.program.errors import InputError
from keras_bert.serving.export import export_for_serving
from keras_bert.serving.packed_products import PackedDense
from keras_bert.tf_serving.saved_model_check.reading import read_saved_model


def classifier(**arguments):
    model = SequenceClassifier(CONFIG, labels=["a", "b"], **arguments)
    model.vocabulary = VOCABULARY
    return model


def probabilities(folder, texts):
    loaded = tf.saved_model.load(folder)  # its variables live as long as it does
    return loaded.signatures["serving_default"](text=tf.constant(texts))["probabilities"].numpy()


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("rows", [1, 16, 70])
def test_a_packed_layer_computes_the_dense_layer_and_its_activation(activation, rows):
    dense = new_dense()
    values = np.random.default_rng(rows).normal(size=(rows, 48)).astype(np.float32)
    expected = ACTIVATIONS[activation](values.astype(np.float64) @ dense.kernel.numpy() + dense.bias.numpy())
    np.testing.assert_allclose(in_graph(PackedDense(dense, activation), values), expected, atol=2e-5, rtol=1e-5)


def test_one_graph_answers_batches_of_every_size_in_turn():
    """The weights are packed for the first size only."""
    dense = new_dense()
    layer = tf.function(PackedDense(dense), [tf.TensorSpec([None, 48])], autograph=False)
    for rows in (1, 300, 7, 64, 1):
        values = np.random.default_rng(rows).normal(size=(rows, 48)).astype(np.float32)
        np.testing.assert_allclose(layer(values), values @ dense.kernel.numpy() + dense.bias.numpy(), atol=2e-5)


FAMILIES = ["bert", *(pytest.param(name, marks=pytest.mark.slow) for name in ("roberta", "albert", "distilbert"))]


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_are_those_of_the_usual_export_and_every_dense_layer_is_packed(family, tmp_path):
    model = classifier() if family == "bert" else new(SequenceClassifier, family, labels=["a", "b"])
    usual = export_for_serving(model, tmp_path / "usual")
    packed = export_for_serving(model, tmp_path / "packed", compute="packed")
    texts = [text for text in TEXTS if isinstance(text, str)]
    np.testing.assert_allclose(probabilities(packed, texts), probabilities(usual, texts), atol=1e-6)
    files = read_saved_model(packed)
    counts = collections.Counter(
        function for function, node in files.served_nodes() if node.op == "_MklNativeFusedMatMul"
    )
    assert set(counts.values()) == {6 * model.config.num_hidden_layers}


@pytest.mark.slow
def test_bfloat16_is_packed_too(tmp_path):
    model = classifier()
    usual = export_for_serving(model, tmp_path / "usual", dtype="bfloat16")
    packed = export_for_serving(model, tmp_path / "packed", dtype="bfloat16", compute="packed")
    np.testing.assert_allclose(probabilities(packed, TEXTS[:1]), probabilities(usual, TEXTS[:1]), atol=2e-2)


@pytest.mark.slow
def test_the_c_api_gives_the_same_answers(served, tmp_path):
    model, _ = served[0]["single"]
    folders = {"single": export_for_serving(model, tmp_path, compute="packed")}
    question = Question("single", "serving_default", {"text": TEXTS})
    result = serve([question], folders, text_libraries("_fast_bert_normalizer", "_fast_wordpiece_tokenizer"))
    assert result.returncode == 0, result.stderr
    loaded = tf.saved_model.load(served[1]["single"])
    expected = loaded.signatures["serving_default"](**served_models.as_tensors(question.inputs))
    expected = served_models.as_lists({name: value.numpy() for name, value in expected.items()})
    served_models.assert_same(json.loads(result.stdout)["answers"][0], expected, 1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compute": "pack"}, "compute must be int8, packed or None. Received: 'pack'"),
        ({"compute": "packed", "weights": "int8"}, "compute=packed computes with the weights as they are. Leave out"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, message, tmp_path):
    with pytest.raises(InputError, match=message):
        export_for_serving(classifier(), tmp_path / "model", **options)
