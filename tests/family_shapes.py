"""Fields that let the small models of the tests use block attention in short rows."""

from keras_bert.config import BertConfig
from keras_bert.families import FAMILIES

LONG = {"longformer": {"attention_window": 4}, "big_bird": {"block_size": 1, "num_random_blocks": 1}}


def config_of(family: str, **values) -> BertConfig:
    """Returns a config with the defaults of the family, its fields in `LONG`, and these values."""
    return BertConfig.from_dict({**FAMILIES[family].defaults, **LONG.get(family, {}), **values, "model_type": family})
