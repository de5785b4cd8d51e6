"""`BertConfig`: the shape of a BERT, as written in `bert_config.json`."""

import dataclasses
import functools
import os
import reprlib
from collections.abc import Mapping
from typing import Any, ClassVar

from keras_bert import registry
from keras_bert.program.errors import InputError, named
from keras_bert.program.json_files import read_json_object, write_json
from keras_bert.program.options import Options, check_choice, option

# (layers, hidden size, heads) of the models that Google published. BASE and LARGE are of the paper, section 3; the
# small ones are of "Well-Read Students Learn Better" (Turc et al., 2019).
SIZES = {
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "medium": (8, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
}

# `gelu` is the tanh approximation, as in Google's code; `gelu_erf` is the exact one that Hugging Face calls "gelu".
HIDDEN_ACTIVATIONS = ("gelu", "gelu_erf", "relu", "silu", "tanh", "linear")

# Dropout has a resolution of 1/65536. With a rate closer to 1, it would drop everything.
_HIGHEST_DROPOUT = 0.99999
# The activations of the dense layer on the first token, see `BertConfig.pooler_act`.
POOLER_ACTIVATIONS = ("tanh", "gelu", "gelu_erf", "relu")
# The key that says how the vector of a text is pooled, if it is not the mean of its tokens.
SENTENCE_POOLING = "sentence_pooling"
# The poolings of sentence-transformers; see `layers/text_pooling.py`.
POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
# Limits: a short file from a stranger must not make the program build lists of any length.
MOST_BLOCKS = 10_000


def config_class(model_type: str) -> type["BertConfig"]:
    """Returns the config class of a family, a key of `registry.FAMILIES`."""
    return registry.imported(registry.family(model_type).config)


def count(default: Any, *, at_least: int = 1, at_most: int = 2**31 - 1) -> Any:
    """Returns the field of a whole number."""
    return option(default, at_least=at_least, at_most=at_most)


def dropout(default: float) -> Any:
    """Returns the field of the share of numbers that become 0 in training."""
    return option(default, at_least=0, at_most=_HIGHEST_DROPOUT)


@dataclasses.dataclass(frozen=True)
class BertConfig(Options):
    """The shape of a BERT and the constants that belong to its weights.

    The fields are the keys of Google's `bert_config.json`. Three keys are added: `layer_norm_eps`; `do_lower_case`,
    which says whether texts are lower-cased for the vocabulary; and `tie_word_embeddings`, false if the masked-LM head
    has an output table of its own instead of the encoder's. Other keys of a file are kept in `extra` and written back.

    The fields from `model_type` on describe BERT's relatives. Their defaults mean BERT, and a file has only those that
    differ from the defaults:

        model_type            the family, a key of `registry.FAMILIES`.
        embedding_size        width of the embedding tables. None: `hidden_size`.
        embedding_projection  whether a dense layer follows the embeddings. None: if the two widths differ.
        num_hidden_groups     number of groups of layers that share their weights. None: no layers share weights.
        inner_group_num       number of blocks in a group; each layer runs all of them.
        position_offset       row of the position table for the first token. `max_position_embeddings` counts all rows.
        pooler_act            activation of the dense layer on the first token: tanh, gelu, gelu_erf or relu.

    Raises:
        InputError: a value is of the wrong type or out of range, or `hidden_size` is not divisible by
            `num_attention_heads`, or `num_hidden_layers` by `num_hidden_groups`.

    Example:
        >>> config = BertConfig.from_size("tiny", vocab_size=8000)
        >>> config.head_size
        64

    Reference: Devlin et al., 2018, section 3; google-research/bert for the names of the keys; google-research/albert
    for `embedding_size`, `num_hidden_groups` and `inner_group_num`.
    """

    vocab_size: int = dataclasses.field(metadata=count(dataclasses.MISSING).metadata)
    hidden_size: int = count(768)
    num_hidden_layers: int = count(12, at_most=10_000)
    num_attention_heads: int = count(12)
    intermediate_size: int = count(3072)
    hidden_act: str = option("gelu", choices=HIDDEN_ACTIVATIONS)
    hidden_dropout_prob: float = dropout(0.1)
    attention_probs_dropout_prob: float = dropout(0.1)
    max_position_embeddings: int = count(512)
    type_vocab_size: int = count(2, at_least=0)
    initializer_range: float = option(0.02, above=0, below=1)
    layer_norm_eps: float = option(1e-12, above=0, below=1)
    do_lower_case: bool = True
    tie_word_embeddings: bool = True
    model_type: str = "bert"
    embedding_size: int | None = count(None)
    embedding_projection: bool | None = None
    num_hidden_groups: int | None = count(None)
    inner_group_num: int = count(1, at_most=100)
    position_offset: int = count(0, at_least=0)
    pooler_act: str = option("tanh", choices=POOLER_ACTIVATIONS)
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)
    # Fields in some families: whether LayerNorms have a bias; whether the masked-LM head has a dense layer with a
    # LayerNorm, this layer has a bias, and each token has one.
    norm_bias: ClassVar[bool] = True
    masked_lm_transform: ClassVar[bool] = True
    classifier_bias: ClassVar[bool] = True
    masked_lm_bias: ClassVar[bool] = True

    def __post_init__(self):
        if not isinstance(self.model_type, str) or self.model_type not in registry.FAMILIES:
            known = ", ".join(registry.FAMILIES)
            raise InputError(
                f"Unknown model_type {reprlib.repr(self.model_type)}. Known are: {known}. Import the package that "
                "registers it, if it is a family of your own."
            )
        its_class = config_class(self.model_type)
        if not isinstance(self, its_class):
            raise InputError(
                f"model_type {self.model_type!r} needs a {its_class.__name__}. Received: a {type(self).__name__}. Use "
                f"BertConfig.from_size, from_dict or {its_class.__name__}(model_type={self.model_type!r}, ...)."
            )
        # A RotaryConfig(vocab_size=9), for example, would stay a "bert".
        own = type(self) is not its_class and [
            repr(one) for one in registry.FAMILIES if config_class(one) is type(self)
        ]
        if own:
            raise self._error(f"model_type must be {' or '.join(own)}. Received: {self.model_type!r}")
        # A private copy: a frozen config must not change through the dictionary it was made from.
        defaults = {
            "embedding_size": self.hidden_size,
            "num_hidden_groups": self.num_hidden_layers,
            "embedding_projection": self.embedding_size not in (None, self.hidden_size),
            "extra": dict(self.extra),
        }
        for name, value in defaults.items():
            if getattr(self, name) is None or name == "extra":
                object.__setattr__(self, name, value)
        super().__post_init__()
        self._check_divisible("hidden_size", "num_attention_heads")
        self._check_divisible("num_hidden_layers", "num_hidden_groups")
        if self.embedding_size != self.hidden_size and not self.embedding_projection:
            raise self._error(
                f"embedding_size={self.embedding_size} differs from hidden_size={self.hidden_size}, so "
                "embedding_projection must be true."
            )
        if self.num_blocks > MOST_BLOCKS:
            received = f"num_hidden_groups={self.num_hidden_groups}, inner_group_num={self.inner_group_num}"
            raise self._error(f"the model may have {MOST_BLOCKS:,} blocks at most. Received: {received}")
        if self.position_offset >= self.max_position_embeddings:
            raise self._error(
                f"position_offset must be below max_position_embeddings={self.max_position_embeddings}. "
                f"Received: {self.position_offset}"
            )

    def _error(self, problem: str) -> InputError:
        return InputError(f"{type(self).__name__}: {problem}")

    def _check_fixed(self, family: str, fixed: Mapping[str, Any]) -> None:
        """Raises `InputError` if a field has another value than the only one that the family allows."""
        wrong = [name for name, value in fixed.items() if getattr(self, name) != value]
        if wrong:
            needed = ", ".join(f"{name}={fixed[name]!r}" for name in wrong)
            received = ", ".join(repr(getattr(self, name)) for name in wrong)
            raise self._error(
                f"{family} needs {needed}. Received: {received}. A key that is left out has BERT's value."
            )

    def _check_divisible(self, name: str, divisor: str) -> None:
        if getattr(self, name) % getattr(self, divisor):
            raise self._error(
                f"{name} must be divisible by {divisor}. Received: {name}={getattr(self, name)}, "
                f"{divisor}={getattr(self, divisor)}"
            )

    @property
    def family(self) -> registry.Family:
        """The entry of the model family: its defaults, tokenizer and encoder class."""
        return registry.family(self.model_type)

    @property
    def head_size(self) -> int:
        """The width of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def sentence_pooling(self) -> str:
        """The pooling that the model was trained for, in the names of sentence-transformers; "mean" if unknown."""
        return self.extra.get(SENTENCE_POOLING, "mean")

    @property
    def is_static(self) -> bool:
        """Whether the model is a table of token vectors, without layers."""
        return self.family.is_static

    @property
    def is_language_model(self) -> bool:
        """Whether the model reads a text from left to right, so that it is no encoder for tasks."""
        return self.family.is_language_model

    @functools.cached_property
    def max_sequence_length(self) -> int:
        """The largest number of tokens in a sequence: the rows of the position table after the offset."""
        return self.max_position_embeddings - self.position_offset

    @property
    def takes_pairs(self) -> bool:
        """Whether a row may hold two texts with one [SEP] between them."""
        return self.type_vocab_size > 1 or not self.family.pairs_need_segments

    @property
    def masked_lm_act(self) -> str:
        """The activation of the masked-LM head. Some families have the exact GELU, whatever `hidden_act` is."""
        return self.family.masked_lm_act or self.hidden_act

    @property
    def extra_output_size(self) -> int:
        """The width of the masked-LM head's own table, which continues the token embeddings (MobileBERT); 0: none."""
        return 0

    @property
    def shares_layers(self) -> bool:
        """Whether layers share weights."""
        return self.num_hidden_groups != self.num_hidden_layers

    @property
    def num_blocks(self) -> int:
        """The number of blocks with weights of their own."""
        assert self.num_hidden_groups is not None  # set in `__post_init__`
        return self.num_hidden_groups * self.inner_group_num

    @classmethod
    def from_size(cls, size: str, vocab_size: int | None = None, **changes: Any) -> "BertConfig":
        """Returns the config of a published size.

        Args:
            size: tiny, mini, small, medium, base or large for a BERT; family and size for its relatives, such as
                "roberta-base" (`registry.Family.sizes`).
            vocab_size: needed for a BERT; its relatives have one vocabulary each.
            **changes: replaces single values, such as `max_position_embeddings=128`.
        """
        for family, entry in registry.families(has=lambda entry: size in entry.sizes).items():
            values = {"model_type": family, **entry.defaults, **entry.sizes[size], **changes}
            return config_class(family)(**values | ({} if vocab_size is None else {"vocab_size": vocab_size}))
        if size not in SIZES:
            known = [*SIZES, *(name for entry in registry.families().values() for name in entry.sizes)]
            raise InputError(f"Unknown model size {size!r}. Use one of: {', '.join(known)}")
        if vocab_size is None:
            raise InputError(f"BertConfig.from_size({size!r}) needs vocab_size: BERT has several vocabularies.")
        num_layers, hidden_size, num_heads = SIZES[size]
        shape = {
            "num_hidden_layers": num_layers,
            "hidden_size": hidden_size,
            "num_attention_heads": num_heads,
            "intermediate_size": 4 * hidden_size,
        }
        return cls(vocab_size=vocab_size, **{**shape, **changes})

    @classmethod
    def static(cls, vocab_size: int, size: int) -> "BertConfig":
        """Returns the config of a static model: `vocab_size` vectors of `size` numbers; see `StaticEncoder`."""
        values = {"vocab_size": vocab_size, "hidden_size": size}
        return cls(**{"model_type": "static", **registry.family("static").defaults, **values})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "BertConfig":
        """Returns the config of a family from the keys of `bert_config.json`; unknown keys go to `extra`."""
        if not isinstance(values, Mapping):
            raise InputError(f"bert_config.json must hold one JSON object. Received: {type(values).__name__}")
        if "vocab_size" not in values:
            raise InputError(f"bert_config.json has no vocab_size. It has: {', '.join(map(str, values)) or 'nothing'}")
        model_type = values.get("model_type", "bert")
        if isinstance(model_type, str) and model_type in registry.FAMILIES:
            cls = config_class(model_type)
        names = {field.name for field in dataclasses.fields(cls)} - {"extra"}
        known = {key: value for key, value in values.items() if key in names}
        return cls(**known, extra={key: value for key, value in values.items() if key not in names})

    @classmethod
    def from_json_file(cls, path: str | os.PathLike) -> "BertConfig":
        """Reads `bert_config.json`. Raises `InputError` if the file is not a JSON object or a value is not valid."""
        path = os.fspath(path)
        if not os.path.isfile(path):
            raise InputError(f"There is no config file {path}")
        values = read_json_object(path)
        with named(path):
            return cls.from_dict(values)

    def to_dict(self) -> dict[str, Any]:
        """Returns the content of `bert_config.json`: BERT's keys, other keys that differ from BERT's, then `extra`."""
        known = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "extra"}
        bert = {
            "model_type": "bert",
            "embedding_size": self.hidden_size,
            "embedding_projection": self.embedding_size != self.hidden_size,
            "num_hidden_groups": self.num_hidden_layers,
            "inner_group_num": 1,
            "position_offset": 0,
            "pooler_act": "tanh",
        }
        written = {name: value for name, value in known.items() if name not in bert or value != bert[name]}
        return {**written, **self.extra}

    def save(self, path: str | os.PathLike) -> None:
        """Writes `bert_config.json` atomically."""
        write_json(path, self.to_dict())

    def replace(self, **changes: Any) -> "BertConfig":
        """Returns a copy with some values changed. Defaults that depend on other values are computed again."""
        known = {name: value for name, value in self.to_dict().items() if name not in self.extra}
        return type(self)(**{**known, "extra": self.extra, **changes})

    def with_casing_of(self, tokenizer: Any) -> "BertConfig":
        """Returns the config of a model with this tokenizer, or without one if it is None: it states the casing."""
        casing = None if tokenizer is None else tokenizer.do_lower_case
        return self if casing in (None, self.do_lower_case) else self.replace(do_lower_case=casing)

    def narrowest(self) -> "BertConfig":
        """Returns the config of the smallest model whose weights have the same names, with two blocks at most."""
        num_blocks = min(self.num_blocks, 2)
        ones = ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "embedding_size")
        return self.replace(
            **{name: 1 for name in (*ones, "max_position_embeddings", "inner_group_num")},
            type_vocab_size=min(self.type_vocab_size, 1),
            position_offset=0,
            num_hidden_layers=num_blocks,
            num_hidden_groups=num_blocks,
            embedding_projection=self.embedding_projection,
        )

    def check_vocabulary(self, num_tokens: int) -> None:
        """Raises `InputError` unless the vocabulary has `vocab_size` tokens.

        With too few rows in the token table, TensorFlow reads NaN on a GPU and fails on a CPU (google-research/bert#82,
        #859).
        """
        if num_tokens != self.vocab_size:
            raise InputError(
                f"The vocabulary has {num_tokens} tokens but bert_config.json says vocab_size={self.vocab_size}. "
                "Use the vocabulary that belongs to this config, or change vocab_size for a model trained from scratch."
            )

    def check_sequence_length(self, sequence_length: int) -> None:
        """Raises `InputError` when a sequence is longer than the table of positions."""
        if sequence_length > self.max_sequence_length:
            offset = f" - position_offset={self.position_offset}" if self.position_offset else ""
            raise InputError(
                f"A sequence length of {sequence_length} is more than this model's {self.max_sequence_length} "
                f"positions (max_position_embeddings{offset}). Use a shorter max_seq_length, or a model with more "
                "positions: a new one by its config, a trained one by convert_checkpoint "
                f"--max_position_embeddings={sequence_length + self.position_offset}."
            )


def check_pooling(config: BertConfig, pooling: str) -> None:
    """Raises `InputError` if the pooling is unknown, or if the model's files say that it was trained for another.

    A model whose files say nothing, or the mean, can be pooled as the caller likes.
    """
    check_choice("pooling", pooling, POOLINGS)
    trained_pooling = config.sentence_pooling
    if trained_pooling not in ("mean", pooling):
        raise InputError(
            f"The model was trained to turn texts into vectors by {str(trained_pooling)[:100]!r}, as modules.json in "
            f"its folder says. Received: pooling={pooling!r}. Load it with SentenceEncoder.from_pretrained."
        )
