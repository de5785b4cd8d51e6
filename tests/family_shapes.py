"""Fields that let the small models of the tests have windows and blocks in short rows."""

from keras_bert.config import BertConfig
from keras_bert.families import FAMILIES

SHORT_WINDOWS = {
    "modernbert": {"local_attention": 4},
    "longformer": {"attention_window": 4},
    "big_bird": {"block_size": 1, "num_random_blocks": 1},
}


def config_of(family: str, **values) -> BertConfig:
    """Returns a config with the defaults of the family, its fields in `SHORT_WINDOWS`, and these values."""
    windows = SHORT_WINDOWS.get(family, {})
    return BertConfig.from_dict({**FAMILIES[family].defaults, **windows, **values, "model_type": family})
