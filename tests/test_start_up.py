"""Start-up is fast: graphs have few operations, and nothing is built only to be discarded."""

import random

import keras
import pytest
import tensorflow as tf
import tiny

from keras_bert.checkpoints import keras_weights_file
from keras_bert.checkpoints.keras_weights_file import keras_layout
from keras_bert.checkpoints.model_weights import model_weights
from keras_bert.config import BertConfig
from keras_bert.optimization import LAMB, AdamW
from keras_bert.serving.export import make_tokenizer
from keras_bert.serving.graph.signature_inputs import packer
from keras_bert.serving.graph.tokenize import tokenize_signature
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.embedding.model import SentenceEncoder
from keras_bert.tokenization.exact_graph import ExactTokenizer
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

CONFIG = BertConfig(vocab_size=8, hidden_size=4, num_hidden_layers=4, num_attention_heads=1, intermediate_size=4)
VOCABULARY = tiny.vocabulary("the fox ##es")


@pytest.mark.parametrize("optimizer", [AdamW, LAMB])
def test_corrections_are_in_a_training_step_once_and_not_for_each_variable(optimizer):
    optimizer = optimizer(1e-3)
    variables = [keras.Variable([1.0, 2.0], name=f"kernel_{number}") for number in range(5)]
    optimizer.build(variables)

    @tf.function
    def step(gradient):
        optimizer.apply([gradient] * len(variables))

    operations = step.get_concrete_function(tf.constant([0.1, 0.2])).graph.get_operations()
    assert [operation.type for operation in operations].count("Expm1") == 2


def test_all_signatures_share_one_trace_of_the_exact_tokenizer(monkeypatch):
    traced, exact = [], ExactTokenizer.__call__
    monkeypatch.setattr(ExactTokenizer, "__call__", lambda self, texts: (traced.append(texts), exact(self, texts))[1])
    tokenizer = make_tokenizer(WordPieceTokenizer(VOCABULARY, True))
    tokenize_signature(tokenizer.tokenize_with_offsets, VOCABULARY, 16).get_concrete_function()
    pack, texts = packer(VOCABULARY, 16), [tf.TensorSpec([None], tf.string)]
    tf.function(lambda texts: pack([tokenizer.tokenize(texts)]), texts).get_concrete_function()
    assert len(traced) == 1


def test_the_layout_of_a_deep_model_is_found_out_by_two_layers(monkeypatch, tmp_path):
    keras_weights_file._layout_of_saved.cache_clear()
    made = []
    saved = keras.saving.save_weights
    monkeypatch.setattr(keras.saving, "save_weights", lambda model, path: (made.append(model), saved(model, path)))
    random.seed(3)
    expected = random.random()
    random.seed(3)
    found = keras_layout(SequenceClassifier, CONFIG, {"labels": ["a", "b"]})
    assert random.random() == expected
    again = keras_layout(SequenceClassifier, CONFIG.replace(hidden_size=48), {"labels": ["a", "b"]})
    assert again == found
    assert [model.config.num_hidden_layers for model in made] == [2]
    model = SequenceClassifier(CONFIG, labels=["a", "b"])
    model.save_weights(tmp_path / "model.weights.h5")
    stored = keras_weights_file.read_keras_weights(tmp_path / "model.weights.h5")
    assert list(found.values()) == [name for name in stored if not name.startswith("optimizer")]
    for name, weight in model_weights(model).items():
        assert (stored[found[name]].read() == weight.numpy()).all(), name


def test_layouts_that_differ_are_found_out_one_by_one():
    flat = keras_layout(SequenceClassifier, CONFIG.replace(num_hidden_layers=1), {"labels": ["a", "b"]})
    assert any("/layer_0/" in name for name in flat)
    assert not any("/layer_1/" in name for name in flat)
    pooled = keras_layout(SentenceEncoder, CONFIG, {"pooling": "mean"})
    dense = keras_layout(SentenceEncoder, CONFIG, {"pooling": "mean", "dense": [{"units": 3}]})
    assert {name.rpartition("/")[2] for name in dense.keys() - pooled.keys()} == {"kernel", "bias"}
