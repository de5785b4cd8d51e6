"""The losses of `ElectraPretrainer` are those of transformers' generator and discriminator for the same tokens."""

import pathlib
import subprocess

import keras
import numpy as np
import pytest

from keras_bert.config import BertConfig
from keras_bert.layers.token_replacement import put_tokens
from keras_bert.tasks.pretraining.electra_pretrainer import ElectraPretrainer

SCRIPT = pathlib.Path(__file__).with_name("transformers_electra.py")


def records(batch_size=6, length=12, predictions=4):
    generator = np.random.default_rng(0)
    lengths = generator.integers(predictions + 1, length + 1, (batch_size, 1))
    return {
        "input_ids": generator.integers(3, 61, (batch_size, length)).astype("int32"),
        "input_mask": (np.arange(length) < lengths).astype("int32"),
        "segment_ids": generator.integers(0, 2, (batch_size, length)).astype("int32"),
        "masked_lm_positions": np.tile(np.arange(1, predictions + 1, dtype="int32"), (batch_size, 1)),
        "masked_lm_ids": generator.integers(3, 61, (batch_size, predictions)).astype("int32"),
        "masked_lm_weights": (generator.random((batch_size, predictions)) < 0.7).astype("float32"),
    }


# Embeddings as wide as the discriminator, as the generator, and narrower than both.
@pytest.mark.parametrize("embedding_size", [32, 16, 8])
def test_losses_are_those_of_transformers(transformers_python, embedding_size, tmp_path):
    keras.utils.set_random_seed(0)
    shape = {"vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape |= {"intermediate_size": 48, "max_position_embeddings": 20, "embedding_size": embedding_size}
    shape |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.3}
    model = ElectraPretrainer(BertConfig.from_size("electra-small", **shape), generator_hidden_size=0.5)
    model.compile(optimizer=None)
    x = records()
    outputs = {name: np.asarray(values) for name, values in model(x).items()}
    is_used = x["masked_lm_weights"] > 0
    replaced = put_tokens(x["input_ids"], x["masked_lm_positions"], outputs["sampled_ids"], is_used)
    original = put_tokens(x["input_ids"], x["masked_lm_positions"], x["masked_lm_ids"], is_used)
    labels = np.asarray(original) != np.asarray(replaced)
    np.testing.assert_array_equal(outputs["is_replaced"], labels)
    model.discriminator.save_pretrained(tmp_path / "discriminator", format="huggingface")
    model.generator.save_pretrained(tmp_path / "generator", format="huggingface")
    np.savez(tmp_path / "records.npz", **x, replaced_ids=replaced, is_replaced=labels)
    command = [transformers_python, str(SCRIPT), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-3000:]
    with np.load(tmp_path / "losses.npz") as theirs:
        ours = model.evaluate(x, batch_size=len(labels), verbose=0, return_dict=True)
        for name in ("masked_lm_loss", "disc_loss"):
            assert ours[name] == pytest.approx(float(theirs[name]), rel=1e-5)
        columns = x["masked_lm_positions"][..., None]
        logits = np.take_along_axis(theirs["masked_lm_logits"], columns, axis=1)
        np.testing.assert_allclose(outputs["masked_lm_logits"][is_used], logits[is_used], atol=1e-4)
        real = x["input_mask"] > 0
        np.testing.assert_allclose(outputs["disc_logits"][real], theirs["disc_logits"][real], atol=1e-4)
