"""`DistanceConfig`: the config of the family."""

import dataclasses

from keras_bert.config import BertConfig


@dataclasses.dataclass(frozen=True)
class DistanceConfig(BertConfig):
    """A `BertConfig` with one more field: tokens that are farther away than `furthest` count as so far away."""

    furthest: int = 64

    def __post_init__(self):
        super().__post_init__()
        self._check_integers(("furthest",), smallest=1)
