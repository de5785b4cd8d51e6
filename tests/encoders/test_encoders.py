"""A family names its config class and its encoder class; everything else finds them by the family."""

import dataclasses

import numpy as np
import pytest
from tiny_checkpoints import CONFIG, VOCABULARY

from keras_bert import BertConfig, BertEncoder, Encoder, InputError, SequenceClassifier, registry
from keras_bert.checkpoints import weight_list
from keras_bert.models.class_names import stored_class
from keras_bert.models.encoders import encoder_class, make_encoder


@dataclasses.dataclass(frozen=True)
class ScaledConfig(BertConfig):
    """A config with a field of its own."""

    output_scale: int = 2


@stored_class
class ScaledEncoder(BertEncoder):
    """A BERT whose vectors are multiplied by a number."""

    def encode_at(self, inputs, columns=None, training=False):
        outputs = super().encode_at(inputs, columns, training=training)
        return {name: values * self.config.output_scale for name, values in outputs.items()}


@pytest.fixture
def scaled(monkeypatch):
    """A family of its own, which `ScaledEncoder` computes."""
    family = registry.Family(config=f"{__name__}.ScaledConfig", encoder=f"{__name__}.ScaledEncoder")
    monkeypatch.setattr(registry, "FAMILIES", dict(registry.FAMILIES))
    registry.register_family("scaled", family)
    return BertConfig.from_dict({**CONFIG.to_dict(), "model_type": "scaled", "output_scale": 3})


def test_a_config_has_the_class_of_its_family(scaled):
    assert type(scaled).__name__ == "ScaledConfig"
    assert scaled.output_scale == 3
    assert BertConfig.from_dict(scaled.to_dict()) == scaled
    with pytest.raises(InputError, match=r"model_type 'scaled' needs a ScaledConfig\. Received: a BertConfig"):
        CONFIG.replace(model_type="scaled")
    with pytest.raises(InputError, match=r"ScaledConfig: hidden_size must be a positive integer\. Received: 0"):
        scaled.replace(hidden_size=0)


def test_task_models_compute_with_the_encoder_of_the_family(scaled):
    assert encoder_class(scaled).__name__ == "ScaledEncoder"
    model = SequenceClassifier(scaled, labels=["no", "yes"])
    assert type(model.encoder).__name__ == "ScaledEncoder"
    with pytest.raises(InputError, match=r"BertEncoder does not compute models of the family 'scaled'\. Use Scaled"):
        BertEncoder(scaled)


def test_folders_load_as_the_encoder_of_the_family(scaled, tmp_path):
    encoder = make_encoder(scaled)
    encoder.save_pretrained(tmp_path / "model", VOCABULARY)
    features = {"input_ids": np.array([[2, 5, 3]]), "input_mask": np.ones((1, 3)), "segment_ids": np.zeros((1, 3))}
    expected = encoder.vectors_at(features)["pooled_output"]

    loaded = Encoder.from_pretrained(tmp_path / "model")

    assert type(loaded).__name__ == "ScaledEncoder"
    np.testing.assert_allclose(loaded.vectors_at(features)["pooled_output"], expected)
    plain = BertEncoder(CONFIG)
    plain.set_weights(loaded.get_weights())
    np.testing.assert_allclose(expected, 3 * plain.vectors_at(features)["pooled_output"], rtol=1e-6)
    tensors = weight_list.encoder_shapes(scaled)
    assert {name.partition("/")[0] for name in tensors} == {"encoder"}


@pytest.mark.parametrize("format", ["huggingface", "google", "keras_hub"])
def test_other_formats_refuse_a_family_that_their_libraries_do_not_know(scaled, format, tmp_path):
    with pytest.raises(InputError, match=r"model of the family scaled.* Write it with format='keras_bert'"):
        make_encoder(scaled).save_pretrained(tmp_path / "model", VOCABULARY, format=format)


def test_the_encoder_of_a_bert_is_a_bert_encoder(tmp_path):
    SequenceClassifier(CONFIG, labels=["a", "b"]).save_pretrained(tmp_path / "model", VOCABULARY)
    assert type(Encoder.from_pretrained(tmp_path / "model")) is BertEncoder
