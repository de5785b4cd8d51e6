"""The entry of the family. It loads neither Keras nor TensorFlow."""

from keras_bert.checkpoints.family_formats import HuggingFace
from keras_bert.checkpoints.weight_list import (
    LAYER,
    Weight,
    blocks,
    embeddings,
    in_layers,
    masked_lm,
    next_sentence,
    pooler,
)
from keras_bert.registry import Family, size

THEIR_LAYER = "distance.encoder.layer.*"


def weights(config):
    """Returns all weights of the family, with their names in transformers."""
    sharpness = Weight(
        f"{LAYER}/attention/sharpness", (config.num_attention_heads,), f"{THEIR_LAYER}.attention.self.sharpness"
    )
    return [
        *embeddings(config, "distance"),
        *blocks(config, THEIR_LAYER),
        *in_layers([sharpness], config.num_blocks),
        *pooler(config, "distance.pooler.dense"),
        *masked_lm(config),
        *next_sentence(config, "cls.seq_relationship"),
    ]


FAMILY = Family(
    sizes={"distance-tiny": size(2, 128, 2)},
    config="toys.distance.config.DistanceConfig",
    encoder="toys.distance.encoder.DistanceEncoder",
    onnx="toys.distance.onnx.OnnxDistanceEncoder",
    weights=f"{__name__}.weights",
    hugging_face=HuggingFace(classes="Distance", prefix="distance"),
)
