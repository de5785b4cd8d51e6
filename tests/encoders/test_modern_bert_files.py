"""Files of ModernBERT: the published config and the head that tasks begin with. Its numbers: `tests/parity`."""

import numpy as np
from numpy_bert import scatter_weights
from tiny_checkpoints import change_json, random_checkpoint
from tiny_families import config_of

from keras_bert import MaskedLM, SequenceClassifier
from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.checkpoints.safetensors_file import read_safetensors

SHAPE = {"vocab_size": 31, "hidden_size": 8, "num_hidden_layers": 5, "num_attention_heads": 2, "intermediate_size": 12}
# The keys with which transformers 4.48 wrote the published models.
PUBLISHED = {
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0,
    "norm_eps": 1e-5,
    "layer_norm_eps": 1e-5,
    "position_embedding_type": "absolute",
    "reference_compile": None,
}


def write_folder(folder, **changes):
    """Writes a masked LM as transformers does, and returns its weights."""
    config = config_of("modernbert", **SHAPE, local_attention=4, max_position_embeddings=16)
    checkpoint = random_checkpoint(form.MASKED_LM, config=config, vocabulary=None, with_pooler=False)
    write_checkpoint(checkpoint, folder, "huggingface")
    change_json(folder / "config.json", **changes)
    return read_safetensors(str(folder / "model.safetensors"))


def test_the_published_form_of_the_config_is_read(tmp_path):
    write_folder(tmp_path / "model", **PUBLISHED)
    config = from_pretrained(None, tmp_path / "model").config
    assert (config.global_attn_every_n_layers, config.local_rope_theta, config.layer_norm_eps) == (3, 10000.0, 1e-5)
    write_folder(tmp_path / "none", **PUBLISHED | {"local_rope_theta": None})
    assert from_pretrained(None, tmp_path / "none").config.local_rope_theta == 160000.0


def test_tasks_start_with_the_head_of_the_masked_lm(tmp_path):
    weights = write_folder(tmp_path / "model")
    model = SequenceClassifier.from_pretrained(tmp_path / "model", labels=["a", "b"])
    np.testing.assert_array_equal(np.asarray(model.encoder.pooler.dense.kernel), weights["head.dense.weight"].read().T)
    assert model.new_parts.untrained() == ("classifier",)
    # A masked LM does not use the pooler, so it does not store one that is out of date.
    language_model = MaskedLM.from_pretrained(tmp_path / "model")
    scatter_weights(language_model)
    language_model.save_pretrained(tmp_path / "trained")
    again = SequenceClassifier.from_pretrained(tmp_path / "trained", labels=["a", "b"])
    expected = np.asarray(language_model.masked_lm_head.dense.kernel)
    np.testing.assert_array_equal(np.asarray(again.encoder.pooler.dense.kernel), expected)
