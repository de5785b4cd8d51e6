"""Fields that let the small models of the tests have windows, blocks and bottlenecks."""

from keras_bert import registry
from keras_bert.config import BertConfig

SMALL_PARTS = {
    "modernbert": {"local_attention": 4},
    # Without LayerNorm, a few updates are too few for weights that start at 0.02.
    "mobilebert": {
        "embedding_size": 8,
        "intra_bottleneck_size": 8,
        "num_feedforward_networks": 2,
        "initializer_range": 0.1,
    },
    "longformer": {"attention_window": 4},
    "big_bird": {"block_size": 1, "num_random_blocks": 1},
}


def config_of(family: str, **values) -> BertConfig:
    """Returns a config with the defaults of the family, its fields in `SMALL_PARTS`, and these values."""
    parts = SMALL_PARTS.get(family, {})
    return BertConfig.from_dict({**registry.family(family).defaults, **parts, **values, "model_type": family})
