"""`DebertaConfig`: DeBERTa-v2 and -v3."""

import dataclasses

from keras_bert.config.bert_config import HIDDEN_ACTIVATIONS, BertConfig, count
from keras_bert.program.options import option

# The products of contents (c) and positions (p) that scores may have.
CONTENT_TO_POSITION, POSITION_TO_CONTENT = "c2p", "p2c"
_SCORE_TYPES = (CONTENT_TO_POSITION, POSITION_TO_CONTENT, "c2p|p2c", "p2c|c2p")
NO_NORM, LAYER_NORM = "none", "layer_norm"
# Distances are looked up in a table up to the longest one.
_LONGEST = 1_000_000


@dataclasses.dataclass(frozen=True)
class DebertaConfig(BertConfig):
    """A `BertConfig` with the fields of DeBERTa-v2 and -v3, named as in transformers.

    `pooler_act` is `pooler_hidden_act` there.

        position_buckets        number of buckets of distances on each side: small distances have one of their own. Not
                                above 0: each distance has a row of its own.
        max_relative_positions  longer distances count as so long. Below 1: `max_position_embeddings`.
        pos_att_type            what scores have besides content to content: "c2p", "p2c" or both, joined by "|".
        share_att_key           whether vectors of distances pass the dense layers of queries and keys; otherwise they
                                have layers of their own.
        norm_rel_ebd            "layer_norm" if the table of distances passes a LayerNorm, otherwise "none".
        position_biased_input   whether there is a table of positions, which are added to the tokens.
        conv_kernel_size        columns that the convolution beside the first layer reads, an odd number; 0: there is
                                none.
        conv_act                the activation after it.
        legacy                  whether the masked-LM head is called `cls.predictions` in transformers, otherwise
                                `lm_predictions.lm_head`.

    Raises:
        InputError: as `BertConfig`, or one of these values is not valid, or the buckets do not fit the distances.

    Example:
        >>> config = BertConfig.from_size("deberta-v3-base")
        >>> config.span, config.longest_distance
        (256, 512)

    Reference: He et al., 2020, arXiv 2006.03654, and 2021, arXiv 2111.09543; transformers,
    `models/deberta_v2/configuration_deberta_v2.py`.
    """

    position_buckets: int = count(-1, at_least=-1)
    max_relative_positions: int = count(-1, at_least=-1)
    pos_att_type: str = option("p2c|c2p", choices=_SCORE_TYPES)
    share_att_key: bool = False
    norm_rel_ebd: str = option(NO_NORM, choices=(NO_NORM, LAYER_NORM))
    position_biased_input: bool = True
    conv_kernel_size: int = count(0, at_least=0)
    conv_act: str = option("tanh", choices=HIDDEN_ACTIVATIONS)
    legacy: bool = True

    def __post_init__(self):
        super().__post_init__()
        if self.conv_kernel_size and self.conv_kernel_size % 2 == 0:
            raise self._error(f"conv_kernel_size must be odd, or 0. Received: {self.conv_kernel_size}")
        if self.longest_distance > _LONGEST:
            raise self._error(f"the longest distance may be {_LONGEST:,}. Received: {self.longest_distance:,}")
        middle = self.position_buckets // 2
        if self.position_buckets > 0 and not 0 < middle < self.longest_distance - 1:
            raise self._error(
                f"position_buckets must be at least 2, and half of it below the longest distance minus 1, "
                f"{self.longest_distance - 1}. Received: {self.position_buckets}"
            )
        fixed = {"position_offset": 0, "inner_group_num": 1, "num_hidden_groups": self.num_hidden_layers}
        self._check_fixed("DeBERTa", fixed | {"embedding_projection": self.embedding_size != self.hidden_size})

    @property
    def longest_distance(self) -> int:
        """Longer distances count as so long."""
        return self.max_relative_positions if self.max_relative_positions > 0 else self.max_position_embeddings

    @property
    def span(self) -> int:
        """Half of the rows of the table of distances."""
        return self.position_buckets if self.position_buckets > 0 else self.longest_distance

    @property
    def score_types(self) -> tuple[str, ...]:
        """The products that scores have besides content to content."""
        return tuple(self.pos_att_type.split("|"))

    @property
    def layer_kinds(self) -> tuple[str, ...]:
        """The kind of each layer if the first one differs by its convolution, otherwise nothing."""
        return ("convolved", *["plain"] * (self.num_hidden_layers - 1)) if self.conv_kernel_size else ()

    def narrowest(self) -> "DebertaConfig":
        # The dense layer after the embeddings is there if the two widths differ.
        ones = ("vocab_size", "num_attention_heads", "intermediate_size", "max_position_embeddings")
        return self.replace(
            **dict.fromkeys(ones, 1),
            hidden_size=2,
            embedding_size=1 if self.embedding_projection else 2,
            num_hidden_layers=min(self.num_hidden_layers, 2),
            type_vocab_size=min(self.type_vocab_size, 1),
            conv_kernel_size=min(self.conv_kernel_size, 1),
            position_buckets=-1,
            max_relative_positions=-1,
        )
