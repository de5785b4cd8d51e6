"""`RotaryConfig`: the columns in which encoders with rotary positions differ."""

import dataclasses
from typing import Any

from keras_bert.config.bert_config import BertConfig, count, dropout
from keras_bert.program.options import option

CLS, MEAN, LATE = "cls", "mean", "late"
# Kinds of layers.
GLOBAL, LOCAL = "global", "local"
LAYER_NORM, RMS_NORM, RMS_NORM_PLUS_1 = "layer_norm", "rms_norm", "rms_norm_plus_1"
# Where the norms of a layer are.
BEFORE, AFTER, AROUND = "before", "after", "around"
# Fields of BertConfig that these families have no use for -> their only value.
_FIXED = {"position_offset": 0, "inner_group_num": 1, "embedding_projection": False}


@dataclasses.dataclass(frozen=True)
class RotaryConfig(BertConfig):
    """A `BertConfig` with the columns in which encoders with rotary positions differ. The defaults are ModernBERT's.

    There is no table of positions: `max_position_embeddings` is the longest row. The first fields are named as in
    transformers' ModernBERT, where `layer_norm_eps` is `norm_eps`, `hidden_act` is `hidden_activation`, `pooler_act` is
    `classifier_activation`, and `attention_probs_dropout_prob` is `attention_dropout`.

        global_attn_every_n_layers  every n-th layer has global attention; the others have local. 1: all are global.
        local_attention             width of the window of local attention: half of it on each side of a token; even.
        global_rope_theta           base of the rotary wavelengths in layers with global attention.
        local_rope_theta            the same in layers with local attention.
        embedding_dropout           fraction of the embeddings' outputs that become 0 in training.
        mlp_dropout                 the same inside the feed-forward parts.
        classifier_pooling          the vector of a row: "cls", that of the first token; "mean", the mean of all;
                                    "late", the mean of what the pooler makes of each token.
        attention_bias, mlp_bias, norm_bias, classifier_bias
                                    whether the dense layers of the attention, those of the feed-forward parts, all
                                    LayerNorms, and the dense layer of the head have a bias.

    Columns, which are fixed in each family:

        norm                        "layer_norm", "rms_norm", or "rms_norm_plus_1", whose scale is 1 + its weight.
        norm_place                  "before" the two parts of a layer, "after" their residual sums, or "around": before
                                    a part and on its output.
        embedding_norm              whether a LayerNorm follows the embeddings. With norms before the parts, the first
                                    attention then has none.
        scaled_embeddings           whether token embeddings are multiplied by the square root of the hidden size.
        final_norm                  whether a norm follows the last layer.
        gated                       whether the feed-forward part is `output(activation(a) * b)`; otherwise
                                    `output(activation(a))`.
        mlp_output_bias             whether its output has a bias; None: as `mlp_bias`.
        layer_dropout               whether `hidden_dropout_prob` is the dropout of the embeddings and of both parts of
                                    layers too. Otherwise it is applied before the last layer of a task only.
        num_key_value_heads         heads of keys and values, each shared by as many heads of queries; None: all.
        head_dim                    width of a head; None: hidden_size / num_attention_heads.
        query_key_norm              whether queries and keys pass a norm before they are rotated.
        query_pre_attn_scalar       scores are divided by its square root; None: the width of a head.
        global_layer                which of n layers is global, "first" or "last".
        rope_factor                 f: wavelengths of NTK scaling, see `rotary_frequencies`.
        joined_attention, joined_mlp
                                    whether one product makes queries, keys and values; and a and b.
        head_pooler                 whether the pooler is a head of all tasks, with a LayerNorm. Otherwise it is BERT's.
        masked_lm_transform, masked_lm_bias
                                    whether the masked-LM head has a dense layer with a LayerNorm, and a bias for each
                                    token.

    Raises:
        InputError: as `BertConfig`, or a column is not valid, or heads, windows or bases do not fit.

    Example:
        >>> config = BertConfig.from_size("modernbert-base")
        >>> config.layer_kinds[:4], config.max_sequence_length
        (('global', 'local', 'local', 'global'), 8192)

    Reference: Warner et al., 2024, arXiv 2412.13663; transformers, `models/modernbert/configuration_modernbert.py`.
    """

    global_attn_every_n_layers: int = count(3)
    local_attention: int = count(128)
    global_rope_theta: float = option(160_000.0, above=1, below=1e12)
    local_rope_theta: float = option(10_000.0, above=1, below=1e12)
    embedding_dropout: float = dropout(0.0)
    mlp_dropout: float = dropout(0.0)
    classifier_pooling: str = option(CLS, choices=(CLS, MEAN, LATE))
    attention_bias: bool = False
    mlp_bias: bool = False
    norm_bias: bool = False
    classifier_bias: bool = False
    norm: str = option(LAYER_NORM, choices=(LAYER_NORM, RMS_NORM, RMS_NORM_PLUS_1))
    norm_place: str = option(BEFORE, choices=(BEFORE, AFTER, AROUND))
    embedding_norm: bool = True
    scaled_embeddings: bool = False
    final_norm: bool = True
    gated: bool = True
    mlp_output_bias: bool | None = None
    layer_dropout: bool = False
    num_key_value_heads: int | None = count(None)
    head_dim: int | None = count(None)
    query_key_norm: bool = False
    query_pre_attn_scalar: float | None = option(None, above=0, below=1e6)
    global_layer: str = option("first", choices=("first", "last"))
    rope_factor: float = option(1.0, above=0.999, below=1e6)
    joined_attention: bool = True
    joined_mlp: bool = True
    head_pooler: bool = True
    masked_lm_transform: bool = True
    masked_lm_bias: bool = True

    def __post_init__(self):
        super().__post_init__()
        if self.local_attention % 2:
            raise self._error(f"local_attention must be even. Received: {self.local_attention}")
        if self.num_attention_heads % self.key_value_heads:
            raise self._error(
                f"num_key_value_heads must divide num_attention_heads={self.num_attention_heads}. Received: "
                f"{self.key_value_heads}"
            )
        if self.head_size % 2:
            raise self._error(
                "the width of a head, hidden_size / num_attention_heads, must be even for rotary positions. Received: "
                f"{self.hidden_size} / {self.num_attention_heads} = {self.head_size}"
                if self.head_dim is None
                else f"head_dim must be even for rotary positions. Received: {self.head_dim}"
            )
        fixed = _FIXED | {"embedding_size": self.hidden_size, "num_hidden_groups": self.num_hidden_layers}
        self._check_fixed(type(self).__name__.removesuffix("Config"), fixed)

    @property
    def layer_kinds(self) -> tuple[str, ...]:
        """The attention of each layer, `GLOBAL` or `LOCAL`."""
        every, first = self.global_attn_every_n_layers, self.global_layer == "first"
        numbers = range(self.num_hidden_layers) if first else range(1, self.num_hidden_layers + 1)
        return tuple(LOCAL if number % every else GLOBAL for number in numbers)

    @property
    def head_size(self) -> int:
        return self.head_dim or super().head_size

    @property
    def key_value_heads(self) -> int:
        """The number of heads of keys and values."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def masked_lm_act(self) -> str:
        """The activation of the masked-LM head. In a model whose pooler is a head, it is that of all heads."""
        return self.pooler_act if self.head_pooler else super().masked_lm_act

    def to_dict(self) -> dict[str, Any]:
        columns = {field.name: field.default for field in dataclasses.fields(RotaryConfig) if field.name in COLUMNS}
        return {name: value for name, value in super().to_dict().items() if value != columns.get(name, _OTHER)}

    def narrowest(self) -> "RotaryConfig":
        changes: dict[str, Any] = {"hidden_size": 2, "num_attention_heads": 1, "vocab_size": 1, "intermediate_size": 1}
        changes |= {"num_key_value_heads": None, "head_dim": None, "max_position_embeddings": 1}
        layers, rows = min(self.num_hidden_layers, 2), min(self.type_vocab_size, 1)
        return self.replace(**changes, num_hidden_layers=layers, type_vocab_size=rows)


# The fields that are fixed in each family, which its files do not have.
_NAMES = [field.name for field in dataclasses.fields(RotaryConfig)]
COLUMNS = tuple(_NAMES[_NAMES.index("norm") :])
_OTHER = object()


@dataclasses.dataclass(frozen=True)
class ModernBertConfig(RotaryConfig):
    """A `RotaryConfig` of ModernBERT, which has no segments."""

    def __post_init__(self):
        super().__post_init__()
        self._check_fixed("ModernBERT", {"type_vocab_size": 0})
