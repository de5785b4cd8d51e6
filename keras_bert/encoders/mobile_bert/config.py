"""`MobileBertConfig`: MobileBERT."""

import dataclasses

from keras_bert.config.bert_config import MOST_BLOCKS, BertConfig, count
from keras_bert.program.options import option

NO_NORM, LAYER_NORM = "no_norm", "layer_norm"


@dataclasses.dataclass(frozen=True)
class MobileBertConfig(BertConfig):
    """A `BertConfig` with the fields of MobileBERT, named as in transformers.

    `hidden_size` is the width between the layers, `intra_bottleneck_size` that inside of them.

        intra_bottleneck_size         width of the attention's queries, keys and outputs, and of the feed-forward nets.
        num_feedforward_networks      number of feed-forward nets in a layer.
        normalization_type            "no_norm", which only scales and shifts, or "layer_norm".
        key_query_shared_bottleneck   whether queries and keys read a bottleneck of their own, and values the inputs.
        use_bottleneck_attention      whether queries, keys and values read the bottleneck of the layer instead.
        classifier_activation         whether there is a pooler; otherwise a task reads the vector of the first token.

    Raises:
        InputError: as `BertConfig`, or `intra_bottleneck_size` is not divisible by `num_attention_heads`,
            `embedding_size` is not below `hidden_size`, or not exactly one of the two kinds of attention is chosen.

    Example:
        >>> config = BertConfig.from_size("mobilebert")
        >>> config.head_size, config.extra_output_size
        (32, 384)

    Reference: Sun et al., 2020, arXiv 2004.02984; transformers, `models/mobilebert/configuration_mobilebert.py`.
    """

    intra_bottleneck_size: int = count(128)
    num_feedforward_networks: int = count(4, at_most=100)
    normalization_type: str = option(NO_NORM, choices=(NO_NORM, LAYER_NORM))
    key_query_shared_bottleneck: bool = True
    use_bottleneck_attention: bool = False
    classifier_activation: bool = True

    def __post_init__(self):
        super().__post_init__()
        if self.num_hidden_layers * self.num_feedforward_networks > MOST_BLOCKS:
            raise self._error(
                f"num_hidden_layers times num_feedforward_networks must be at most {MOST_BLOCKS:,}. Received: "
                f"{self.num_hidden_layers} and {self.num_feedforward_networks}"
            )
        self._check_divisible("intra_bottleneck_size", "num_attention_heads")
        if self.key_query_shared_bottleneck == self.use_bottleneck_attention:
            raise self._error(
                "one of key_query_shared_bottleneck and use_bottleneck_attention must be true. Received: both "
                f"{str(self.use_bottleneck_attention).lower()}"
            )
        if self.embedding_size >= self.hidden_size:
            raise self._error(
                f"embedding_size must be below hidden_size={self.hidden_size}. Received: {self.embedding_size}"
            )
        if self.shares_layers or self.inner_group_num > 1 or self.position_offset:
            raise self._error(
                "MobileBERT has no shared layers (num_hidden_groups, inner_group_num) and no position_offset. Leave "
                "these keys out."
            )

    @property
    def head_size(self) -> int:
        return self.intra_bottleneck_size // self.num_attention_heads

    @property
    def extra_output_size(self) -> int:
        return self.hidden_size - self.embedding_size

    def narrowest(self) -> "MobileBertConfig":
        values = {"hidden_size": 2, "num_hidden_layers": min(self.num_hidden_layers, 2), "num_hidden_groups": None}
        ones = ("embedding_size", "num_attention_heads", "intra_bottleneck_size", "vocab_size", "intermediate_size")
        ones = (*ones, "max_position_embeddings")
        return self.replace(**values, **dict.fromkeys(ones, 1), type_vocab_size=min(self.type_vocab_size, 1))
