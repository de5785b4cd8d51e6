"""The names of all model families, and where their entries are. Data only: an entry is imported when it is asked for.

A family is a kind of encoder, such as ALBERT. Its entry says what configs, checkpoints and exports must know of it, so
these loop over entries and name no family. `register_family` adds a family from outside of the package.
"""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_bert.checkpoints.family_formats import Google, HuggingFace, KerasHub, OwnFiles

# Kinds of tokenizers.
WORD_PIECE, BYTE_PAIR, SENTENCE_PIECE = "wordpiece", "byte_pair", "sentence_piece"
STREAM = "stream"  # words or characters
BERT_ENCODER = "keras_bert.models.encoder.BertEncoder"


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of models. Its defaults are BERT's. Import paths are `module.name`.

    Attributes:
        defaults: values of the config that all its published models share, where they differ from BERT's.
        sizes: name of a published size -> its values of the config.
        tokenizer: `WORD_PIECE`, `BYTE_PAIR`, `SENTENCE_PIECE` or `STREAM`.
        may_have_word_piece: whether models may have a WordPiece instead, since they were made from a BERT.
        pairs_need_segments: whether its models tell the two texts of a pair apart by segments only.
        masked_lm_act: activation of the masked-LM head; None: the config's `hidden_act`.
        pooler_is_masked_lm_head: whether the pooler of a task starts as the head of the masked LM.
        predicts_from_queries: whether tokens are predicted from a second stream, which does not know them.
        is_static: whether the model is a table of token vectors, without layers.
        is_language_model: whether the model reads from left to right: `encoder` is the whole model, for no task.
        extends: the family whose models can become models of this one, for long rows; or None.
        config, encoder: import paths of the classes.
        onnx: import path of the class that writes the encoder as ONNX operations; None if ONNX cannot hold it, or if
            `BertEncoder` computes the family.
        weights: import path of a function: config -> the list of all weights (`checkpoints.weight_list.Weight`) of the
            encoder and of the heads of pre-training. It loads no Keras.
        hugging_face, google, keras_hub: what files of transformers, of Google's TensorFlow 1 code and of KerasHub have
            of their own; None if there are none.
        own_files: readers and writers of files that are like those of no other family; or None.
    """

    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sizes: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    tokenizer: str = WORD_PIECE
    may_have_word_piece: bool = False
    pairs_need_segments: bool = True
    masked_lm_act: str | None = None
    pooler_is_masked_lm_head: bool = False
    predicts_from_queries: bool = False
    is_static: bool = False
    is_language_model: bool = False
    extends: str | None = None
    config: str = "keras_bert.config.bert_config.BertConfig"
    encoder: str = BERT_ENCODER
    onnx: str | None = None
    weights: str = "keras_bert.encoders.bert.weights"
    hugging_face: "HuggingFace | None" = None
    google: "Google | None" = None
    keras_hub: "KerasHub | None" = None
    own_files: "OwnFiles | None" = None


# The `model_type` of a config -> import path of the family's entry.
FAMILIES: dict[str, str | Family] = {
    "bert": "keras_bert.encoders.bert.FAMILY",
    "roberta": "keras_bert.encoders.roberta.FAMILY",
    "albert": "keras_bert.encoders.albert.FAMILY",
    "distilbert": "keras_bert.encoders.distilbert.FAMILY",
    "electra": "keras_bert.encoders.electra.FAMILY",
    "longformer": "keras_bert.encoders.long.longformer.FAMILY",
    "big_bird": "keras_bert.encoders.long.big_bird.FAMILY",
    "mobilebert": "keras_bert.encoders.mobile_bert.entry.FAMILY",
    "modernbert": "keras_bert.encoders.modern_bert.entry.FAMILY",
    "xlnet": "keras_bert.encoders.xlnet.entry.FAMILY",
    "transfo-xl": "keras_bert.encoders.transformer_xl.entry.FAMILY",
    "static": "keras_bert.encoders.static.entry.FAMILY",
}


def register_family(model_type: str, entry: Family) -> None:
    """Adds a family. `model_type` is its name in configs."""
    FAMILIES[model_type] = entry


def family(model_type: str) -> Family:
    """Returns the entry of a family."""
    entry = FAMILIES[model_type]
    return imported(entry) if isinstance(entry, str) else entry


def families(has: Callable[[Family], Any] = lambda entry: True) -> dict[str, Family]:
    """Returns name -> entry of the families for which `has` is true."""
    entries = {name: family(name) for name in FAMILIES}
    return {name: entry for name, entry in entries.items() if has(entry)}


def size(layers: int, width: int, heads: int, inner: int | None = None, **others: Any) -> dict[str, Any]:
    """Returns the values of the config of a published size. By default, the inner layers are four times as wide."""
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "intermediate_size": inner or 4 * width,
        **others,
    }


def imported(path: str) -> Any:
    """Returns what an import path names: `keras_bert.config.BertConfig` -> the class."""
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)
