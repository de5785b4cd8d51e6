"""The same random weights in transformers (torch) and here give the same outputs at real positions.

It runs when KERAS_BERT_PARITY_PYTHON names a Python that has torch and transformers; TensorFlow is not needed there:

    KERAS_BERT_PARITY_PYTHON=/path/to/python pytest tests/parity
"""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
import tiny
from numpy_bert import scatter_weights, weights_by_name

from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer

SCRIPT = pathlib.Path(__file__).with_name("transformers_bert.py")


@pytest.fixture
def run_transformers(tmp_path):
    python = os.environ.get("KERAS_BERT_PARITY_PYTHON")
    if not python:
        pytest.skip("KERAS_BERT_PARITY_PYTHON does not name a Python with torch and transformers")

    def run(model, features):
        weights = weights_by_name(model) | weights_by_name(model.encoder)
        np.savez(
            tmp_path / "input.npz",
            config=json.dumps(model.config.to_dict()),
            **{f"weights:{name}": array for name, array in weights.items()},
            **features,
        )
        command = [python, str(SCRIPT), str(tmp_path / "input.npz"), str(tmp_path / "output.npz")]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result.stderr[-3000:]
        return np.load(tmp_path / "output.npz")

    return run


def random_features(generator, config, batch_size, length, predictions=5):
    """Rows of random lengths: half of them padded on the right, half on the left."""
    lengths = generator.integers(predictions, length + 1, (batch_size, 1))
    columns = np.arange(length)
    on_the_left = np.arange(batch_size)[:, None] % 2 == 1
    mask = np.where(on_the_left, columns >= length - lengths, columns < lengths)
    real_columns = [generator.choice(np.flatnonzero(row), predictions, replace=False) for row in mask]
    return {
        "input_ids": generator.integers(0, config.vocab_size, (batch_size, length)).astype("int32"),
        "input_mask": mask.astype("int32"),
        "segment_ids": generator.integers(0, config.type_vocab_size, (batch_size, length)).astype("int32"),
        "masked_lm_positions": np.stack(real_columns).astype("int32"),
    }


def assert_close(ours, theirs, where=...):
    np.testing.assert_allclose(np.asarray(ours)[where], theirs[where], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("activation", "layers", "heads", "width", "length", "layer_norm_eps", "seed"),
    [
        ("gelu", 3, 4, 64, 37, 1e-12, 0),
        ("gelu_erf", 3, 4, 64, 37, 1e-12, 1),
        ("gelu_erf", 6, 12, 384, 128, 1e-12, 2),
        ("gelu", 2, 2, 128, 64, 1e-5, 3),
        ("relu", 1, 1, 8, 9, 1e-12, 4),
    ],
)
def test_outputs_equal_those_of_transformers(
    run_transformers, activation, layers, heads, width, length, layer_norm_eps, seed
):
    config = tiny.config(
        997,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        hidden_act=activation,
        max_position_embeddings=128,
        layer_norm_eps=layer_norm_eps,
    )
    model = BertPretrainer(config)
    scatter_weights(model, seed, spread=0.05)
    features = random_features(np.random.default_rng(seed), config, batch_size=6, length=length)
    theirs = run_transformers(model, features)

    encoder = BertEncoder(config, output_hidden_states=True, output_attentions=True)
    encoder.set_weights(model.encoder.get_weights())
    encoded, outputs = encoder(features), model(features)
    assert 0 < (features["input_mask"][:, 0] == 1).sum() < 6  # padded on both sides
    for name in ("hidden_states", "attentions"):
        for ours, other in zip(encoded[name], theirs[name], strict=True):
            assert_close(ours, other)
    assert_close(encoded["pooled_output"], theirs["pooled_output"])
    for name in ("next_sentence_logits", "masked_lm_logits"):
        assert_close(outputs[name], theirs[name])
