"""`ModernBertConfig`: ModernBERT."""

import dataclasses
import reprlib

from keras_bert.config.bert_config import BertConfig

CLASSIFIER_POOLINGS = ("cls", "mean")
# Fields of BertConfig that ModernBERT has no use for -> their only value.
_FIXED = {"type_vocab_size": 0, "position_offset": 0, "inner_group_num": 1, "embedding_projection": False}


@dataclasses.dataclass(frozen=True)
class ModernBertConfig(BertConfig):
    """A `BertConfig` with the fields of ModernBERT, named as in transformers where `BertConfig` has no name for them.

    `layer_norm_eps` is `norm_eps` there, `hidden_act` is `hidden_activation`, `pooler_act` is `classifier_activation`,
    `attention_probs_dropout_prob` is `attention_dropout`, and `hidden_dropout_prob` is `classifier_dropout`: it is
    applied before the last layer of a task only. There is no table of positions: `max_position_embeddings` is the
    longest row.

        global_attn_every_n_layers  every n-th layer, the first included, has global attention; the others have local.
        local_attention             width of the window of local attention: half of it on each side of a token; even.
        global_rope_theta           base of the rotary wavelengths in layers with global attention.
        local_rope_theta            the same in layers with local attention.
        embedding_dropout           fraction of the embeddings' outputs that become 0 in training.
        mlp_dropout                 the same inside the feed-forward parts.
        classifier_pooling          "cls" or "mean": the vector of a row is that of its first token, or the mean.
        attention_bias, mlp_bias, norm_bias, classifier_bias
                                    whether the dense layers of the attention, those of the feed-forward parts, all
                                    LayerNorms, and the dense layer of the head have a bias.

    Raises:
        InputError: as `BertConfig`, or a window or a base is not valid, a head has an odd width, or a field that
            ModernBERT does not use has another value than the default.

    Example:
        >>> config = BertConfig.from_size("modernbert-base")
        >>> config.layer_kinds[:4], config.max_sequence_length
        (('global', 'local', 'local', 'global'), 8192)

    Reference: Warner et al., 2024, arXiv 2412.13663; transformers, `models/modernbert/configuration_modernbert.py`.
    """

    global_attn_every_n_layers: int = 3
    local_attention: int = 128
    global_rope_theta: float = 160_000.0
    local_rope_theta: float = 10_000.0
    embedding_dropout: float = 0.0
    mlp_dropout: float = 0.0
    classifier_pooling: str = "cls"
    attention_bias: bool = False
    mlp_bias: bool = False
    norm_bias: bool = False
    classifier_bias: bool = False

    def __post_init__(self):
        super().__post_init__()
        self._check_integers(("global_attn_every_n_layers", "local_attention"), smallest=1)
        self._check_dropout(("embedding_dropout", "mlp_dropout"))
        self._check_switches(("attention_bias", "mlp_bias", "norm_bias", "classifier_bias"))
        self._check_one_of("classifier_pooling", CLASSIFIER_POOLINGS)
        if self.local_attention % 2:
            raise self._error(f"local_attention must be even. Received: {self.local_attention}")
        for name in ("global_rope_theta", "local_rope_theta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 < value < 1e12:
                raise self._error(f"{name} must be a number above 1 and below 1e12. Received: {reprlib.repr(value)}")
        if self.head_size % 2:
            raise self._error(
                "the width of a head, hidden_size / num_attention_heads, must be even for rotary positions. Received: "
                f"{self.hidden_size} / {self.num_attention_heads} = {self.head_size}"
            )
        fixed = _FIXED | {"embedding_size": self.hidden_size, "num_hidden_groups": self.num_hidden_layers}
        self._check_fixed("ModernBERT", fixed)

    @property
    def layer_kinds(self) -> tuple[str, ...]:
        """The attention of each layer, "global" or "local"."""
        every = self.global_attn_every_n_layers
        return tuple("local" if number % every else "global" for number in range(self.num_hidden_layers))

    @property
    def masked_lm_act(self) -> str:
        """The activation of the masked-LM head, which is that of all heads."""
        return self.pooler_act

    def narrowest(self) -> "ModernBertConfig":
        two = self.replace(hidden_size=2, num_attention_heads=1, num_hidden_layers=min(self.num_hidden_layers, 2))
        return two.replace(vocab_size=1, intermediate_size=1, max_position_embeddings=1)
