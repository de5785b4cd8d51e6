"""`XLNetConfig`: XLNet."""

import dataclasses

from keras_bert.config.bert_config import BertConfig, count

# Fields of BertConfig that XLNet has no use for -> their only value.
_FIXED = {"type_vocab_size": 2, "position_offset": 0, "inner_group_num": 1, "embedding_projection": False}


@dataclasses.dataclass(frozen=True)
class XLNetConfig(BertConfig):
    """A `BertConfig` with the field of XLNet that it lacks, named as in transformers and zihangdai/xlnet.

    There is no table of positions: `max_position_embeddings` is the longest row. Segments are compared, so the config
    has the two of a pair; [CLS] has one of its own.

        clamp_len  longer distances between tokens count as this one; -1: there is no limit.

    Raises:
        InputError: as `BertConfig`, or `clamp_len` is not valid, the hidden size is odd, or a field that XLNet does not
            use has another value than the default.

    Example:
        >>> config = BertConfig.from_size("xlnet-base")
        >>> config.hidden_size, config.max_sequence_length
        (768, 512)

    Reference: Yang et al., 2019, arXiv 1906.08237; zihangdai/xlnet `xlnet.py`, `XLNetConfig` and `RunConfig`.
    """

    clamp_len: int = count(-1, at_least=-1)

    def __post_init__(self):
        super().__post_init__()
        if self.clamp_len == 0:
            raise self._error("clamp_len must be positive, or -1 for no limit. Received: 0")
        if self.hidden_size % 2:
            raise self._error(f"hidden_size must be even for vectors of distances. Received: {self.hidden_size}")
        fixed = _FIXED | {"embedding_size": self.hidden_size, "num_hidden_groups": self.num_hidden_layers}
        fixed |= {"tie_word_embeddings": True}
        self._check_fixed("XLNet", fixed)

    @property
    def longest_distance(self) -> int | None:
        """The largest distance between tokens that is told from longer ones; None: there is no limit."""
        return None if self.clamp_len < 0 else self.clamp_len

    def narrowest(self) -> "XLNetConfig":
        two = self.replace(hidden_size=2, num_attention_heads=1, num_hidden_layers=min(self.num_hidden_layers, 2))
        return two.replace(vocab_size=1, intermediate_size=1, max_position_embeddings=1)
