"""`DistanceConfig`: the config of the family."""

import dataclasses

from keras_bert.config.bert_config import BertConfig, count


@dataclasses.dataclass(frozen=True)
class DistanceConfig(BertConfig):
    """A `BertConfig` with one more field: tokens that are farther away than `furthest` count as so far away."""

    furthest: int = count(64)
