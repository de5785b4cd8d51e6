"""What an entry of a family says about the files of other projects, and the names of its weights there.

Reference: transformers, `models/*/modeling_*.py`; google-research/bert, /albert and /electra, `modeling.py`;
keras-team/keras-hub, `src/models/`.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.name_table import SAME, TRANSPOSED, NameTable
from keras_bert.checkpoints.weight_list import POOLER, weights_of
from keras_bert.config import BertConfig
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.registry import heads

# Sizes of `BertConfig` that the configs of some families have.
OWN_SIZES = ("embedding_size", "num_hidden_groups", "inner_group_num")
# A key of `HuggingFace.poolers` and `outputs`: all heads that are not there by name.
EVERY_HEAD = "every head"
# A remark about masked-LM heads of several families.
HUB_EPSILON = "KerasHub computes the LayerNorm of this head with epsilon 1e-5; keras_bert uses the encoder's 1e-12"


@dataclasses.dataclass(frozen=True)
class HuggingFace:
    """The classes of a family in transformers, their weights and the keys of their configs.

    Attributes:
        classes: the prefix of class names.
        prefix: the prefix of encoder weights in models with a head.
        tokenizer_class: the class that is written for a tokenizer by SentencePiece; None: that of the tokenizer's form.
        poolers: head ("" is the bare encoder) -> the names of our pooler's dense layer and of its LayerNorm, if it has
            one, in models whose pooler is not in the encoder.
        outputs: head -> its output layer, where it is not that of other families.
        decoder_bias: a second name of the bias of the masked-LM head, or "".
        renamed: the end of a class name in other families -> that in this one.
        decoder: the class of a decoder with cross attention, or "".
        classifier_has_hidden_act: whether the dense layer of a classifier has `hidden_act`, and other poolers tanh.
        pooler_act_heads: heads for which the config has the activation of the pooler; None: it always has it.
        needs_code: whether transformers has no class of the family, so that only code of the hub computes it.
        refused_heads: head -> why transformers cannot compute it as we do.
        first_token_is_last: whether rows have the first token behind the last one.
        keys: config key -> our key, where they differ.
        defaults: defaults of the config class, which files leave out, where they are not those of our family.
        more: keys that files of this family have besides.
        sizes: those of `OWN_SIZES` that its config has.
        absent: fields of our config that its config has not, or under another name.
        read: (values, file) -> the values in our form, before keys are renamed.
        write: (values, checkpoint) -> the values in their form, before keys are renamed.
        of_weights: (config, names of the weights there) -> the config that fits them.
    """

    classes: str
    prefix: str
    tokenizer_class: str | None = None
    poolers: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    outputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    decoder_bias: str = ""
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    decoder: str = ""
    classifier_has_hidden_act: bool = False
    pooler_act_heads: Collection[str] | None = ()
    needs_code: bool = False
    refused_heads: Mapping[str, str] = dataclasses.field(default_factory=dict)
    first_token_is_last: bool = False
    keys: Mapping[str, str] = dataclasses.field(default_factory=dict)
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    more: KnownKeys = KnownKeys()
    sizes: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    read: Callable[[Mapping, str], Mapping] = lambda values, file: values
    write: Callable[[Mapping, form.BertCheckpoint], Mapping] = lambda values, checkpoint: values
    of_weights: Callable[[BertConfig, Collection[str]], BertConfig] = lambda config, names: config

    def has_pooler_act(self, heads: Collection[str]) -> bool:
        """Returns whether the config of a model with these heads has the activation of the pooler."""
        return self.pooler_act_heads is None or any(head in heads for head in self.pooler_act_heads)

    def names(self, config: BertConfig, head: str | None) -> NameTable:
        """Returns the names of a model with this head; None for an encoder or a language model.

        The head must be given, since transformers calls several heads `classifier`, and the pooler of ModernBERT as
        the dense layer of its masked-LM head.
        """
        known, keys = heads(), [head, EVERY_HEAD, ""] if head else [""]
        usual = known[head or form.CLASSIFIER].hugging_face_layer or "classifier"
        last_layer = next((self.outputs[key] for key in keys if key in self.outputs), usual)
        parts = next((self.poolers[key] for key in keys if key in self.poolers), ())
        pooler = dict(zip(("dense", "layer_norm"), parts, strict=False))
        rows = [] if not pooler else _dense(POOLER, pooler["dense"])
        if "layer_norm" in pooler:
            ours, theirs = f"{form.POOLER}/layer_norm", pooler["layer_norm"]
            rows += [(f"{ours}/gamma", f"{theirs}.weight"), (f"{ours}/beta", f"{theirs}.bias")]
        rows += _dense(head or form.CLASSIFIER, last_layer)
        found = [(row.ours, row.hugging_face, row.hugging_face_layout) for row in weights_of(config)]
        for entry in (entry for entry in known.values() if entry.hugging_face_layer):
            found += _dense(entry.name, entry.hugging_face_layer)
        # TensorFlow's MPNet has an unused pooler beside the one of its classifier.
        own, names = {row[0] for row in rows if row[0].startswith(POOLER)}, {row[1] for row in rows}
        return NameTable([*rows, *(row for row in found if row[1] and row[1] not in names and row[0] not in own)])


@dataclasses.dataclass(frozen=True)
class Google:
    """The files of a family that Google's TensorFlow 1 code wrote.

    Attributes:
        sign: a regular expression for names of variables that occur in this family only.
        has_pooler: whether the code has a pooler.
        more: keys that configs of this family have besides; its `fixed` replaces those of BERT.
        warnings: `hidden_act` -> what the code computes differently with it.
        sizes: (folder, variables) -> the values of the config, for a folder without a config; or None.
        read: (values, file) -> the values of a config in our form.
        write: config -> the values of a config in their form.
        divided, joined: (variables, number of layers) -> the variables with one variable for each layer; reversed.
        of_generator: variables -> the names of those of a generator with an encoder of its own, which are not read.
    """

    sign: str = ""
    has_pooler: bool = True
    more: KnownKeys = KnownKeys()
    warnings: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {
            "gelu_erf": "google-research/bert has only the tanh approximation of GELU and will refuse hidden_act "
            "'gelu_erf'; with 'gelu' in bert_config.json its outputs differ slightly"
        }
    )
    sizes: Callable[[str, Mapping], dict] | None = None
    read: Callable[[Mapping, str], Mapping] = lambda values, file: values
    write: Callable[[BertConfig], dict] = lambda config: config.to_dict()
    divided: Callable[[Mapping, int], Mapping] = lambda variables, num_layers: variables
    joined: Callable[[Mapping, int], Mapping] = lambda variables, num_layers: variables
    of_generator: Callable[[Mapping], Collection[str]] = lambda variables: ()


def google_names(config: BertConfig, head: str) -> NameTable:
    """Returns the names in TensorFlow 1. Google's scripts name the last layer of every task `output_weights`.

    Google stores the kernels of last layers as [classes, inputs].
    """
    rows = [(row.ours, row.google, row.google_layout) for row in weights_of(config) if row.google]
    others = ((other.name, other.google) for other in heads().values() if other.google)
    for last, prefix in (*others, (head, "")):
        rows.append((f"{last}/kernel", f"{prefix}output_weights", TRANSPOSED))
        rows.append((f"{last}/bias", f"{prefix}output_bias", SAME))
    return NameTable(rows)


@dataclasses.dataclass(frozen=True)
class KerasHub:
    """The classes of a family in KerasHub.

    Attributes:
        backbone: the class of the encoder.
        settings: values of `BertConfig` that KerasHub hard-codes.
        has_segments: whether the backbone has a table of segments.
        has_pooler: whether the backbone has the pooler; otherwise the classifier has it.
        remark, masked_lm_remark: sentences for the user about the backbone and the masked-LM head.
        has_tokenizer: whether its tokenizer has our ids. If not, presets are read without a tokenizer.
    """

    backbone: str
    settings: Mapping[str, Any]
    has_segments: bool = True
    has_pooler: bool = True
    remark: str = ""
    masked_lm_remark: str = ""
    has_tokenizer: bool = True

    def names(self, config: BertConfig) -> NameTable:
        """Returns the names of the backbone. Keras stores no layer names: layers have their class and a number."""
        rows = weights_of(config)
        return NameTable((row.ours, row.keras_hub, row.keras_hub_layout) for row in rows if row.keras_hub)


@dataclasses.dataclass(frozen=True)
class OwnFiles:
    """Readers and writers of a family whose files are like those of no other. Import paths are `module.name`.

    Attributes:
        variable: a variable that only its TensorFlow 1 files have.
        read_official: import path of a function: (prefix, variables) -> checkpoint.
        read_hugging_face: import path of a function: (folder, trust_pickle) -> checkpoint.
        writer: import path of a function: format -> the function that writes a checkpoint into a folder.
    """

    variable: str
    read_official: str
    read_hugging_face: str
    writer: str


def _dense(ours: str, theirs: str) -> list[tuple[str, str, str]]:
    return [(f"{ours}/kernel", f"{theirs}.weight", TRANSPOSED), (f"{ours}/bias", f"{theirs}.bias", SAME)]
