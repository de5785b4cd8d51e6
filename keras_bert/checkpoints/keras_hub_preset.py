"""Writes preset folders of KerasHub, which `from_preset` of its backbones, tokenizers and tasks opens.

Reference: keras-team/keras-hub 0.32, `src/utils/preset_utils.py`.
"""

import dataclasses
import os
import re
from collections.abc import Mapping

import numpy as np

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints import keras_hub
from keras_bert.checkpoints.checkpoint import BertCheckpoint, StoredTensor
from keras_bert.checkpoints.family_formats import KerasHub
from keras_bert.checkpoints.keras_hub_task import MASKED_LM_TASK, TASK_FILE
from keras_bert.checkpoints.keras_weights_file import write_keras_weights
from keras_bert.checkpoints.name_table import NameTable, to_theirs
from keras_bert.checkpoints.weight_list import SEGMENTS
from keras_bert.config import BertConfig
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import write_json
from keras_bert.tokenization import byte_pair
from keras_bert.tokenization.byte_pair import BytePairTokenizer
from keras_bert.tokenization.sentence_piece import SentencePieceTokenizer
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

_METADATA_FILE, _PREPROCESSOR_FILE = "metadata.json", "preprocessor.json"
_VERSION = "0.32.0"  # of KerasHub, whose form the files have
# Head -> the end of the task's class name. A preset has one head.
_TASKS = {form.CLASSIFIER: "TextClassifier", form.MASKED_LM: MASKED_LM_TASK}
_EMBEDDER = "TextEmbedder"
# Settings that do not change what a trained model computes, and those that `write_keras_hub` treats itself.
_NOT_COMPARED = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
    "do_lower_case",
    "hidden_act",
    "extra",
)


def write_keras_hub(checkpoint: BertCheckpoint, folder: str) -> list[str]:
    """Writes a preset into an existing folder.

    A missing pooler is written as zeros where KerasHub's backbone has one. The only segment of a family with one is
    added to its positions.

    Returns:
        The names of our weights that the format cannot hold; they are not written.

    Raises:
        InputError: KerasHub would compute something else with these weights, or has no such tokenizer.
    """
    config = checkpoint.config
    family = _family(checkpoint)
    head = next((head for head in _TASKS if head in checkpoint.heads and family.has_tasks), None)
    backbone, tensors = family.names(config), dict(checkpoint.tensors)
    _check_config(checkpoint, has_pooler=family.has_pooler or head == form.CLASSIFIER)
    if family.has_pooler:
        width = config.hidden_size
        for name, shape in (("kernel", (width, width)), ("bias", (width,))):
            zeros = StoredTensor.of(np.zeros(shape, "float32"))
            tensors.setdefault(f"{form.POOLER}/dense/{name}", zeros)
    if keras_hub.has_hidden_rows(config):
        tensors = _without_segment(tensors, config.position_offset)
    names = _ClassNames(family.backbone)
    _write_json(folder, keras_hub.CONFIG_FILE, names.saved("Backbone", _sizes(family, config)))
    _write_json(folder, _METADATA_FILE, {"keras_hub_version": _VERSION})
    left_out = _write_weights(os.path.join(folder, keras_hub.WEIGHTS_FILE), tensors, backbone, config)
    tokenizer = None
    if checkpoint.vocabulary is not None and family.has_tokenizer:
        tokenizer = names.saved("Tokenizer", _write_tokenizer(checkpoint, folder))
        _write_json(folder, keras_hub.TOKENIZER_FILE, tokenizer)
    if _is_embedder(checkpoint):
        _write_task(checkpoint, folder, names, _EMBEDDER, tokenizer)
    if head is not None:
        _write_task(checkpoint, folder, names, _TASKS[head], tokenizer)
        rest = {name: tensors[name] for name in left_out}
        path = os.path.join(folder, keras_hub.TASK_WEIGHTS_FILE)
        left_out = _write_weights(path, rest, keras_hub.task_names(_TASKS[head], family), config)
    return left_out


def notes_for_keras_hub(checkpoint: BertCheckpoint) -> list[str]:
    """Returns what KerasHub computes differently with weights of this checkpoint, and what it does not know."""
    family = _family(checkpoint)
    found, written = [], family.settings["hidden_act"]
    if checkpoint.config.hidden_act != written:
        kinds = {"gelu": "the tanh approximation of GELU", "gelu_erf": "the exact GELU"}
        found.append(f"KerasHub has {kinds[written]} only; its outputs differ slightly")
    if family.has_pooler and not any(form.part_of(name) == form.POOLER for name in checkpoint.tensors):
        found.append("there is no trained pooler: KerasHub's pooled_output is 0")
    if checkpoint.vocabulary is not None and not family.has_tokenizer:
        found.append("KerasHub makes ids of its own from the model of this tokenizer; the preset takes token ids")
    if checkpoint.sentence is not None and not _is_embedder(checkpoint):
        found.append("KerasHub cannot compute the vectors of texts of this model; the preset is its encoder alone")
    if not family.has_tasks:
        return found
    if form.CLASSIFIER in checkpoint.heads:
        labels = ", ".join(f"{number} {label}" for number, label in enumerate((checkpoint.labels or ())[:20]))
        found.append(f"KerasHub's presets have no labels; its logits are, in order: {labels}")
    elif form.MASKED_LM in checkpoint.heads and family.masked_lm_remark:
        found.append(family.masked_lm_remark)
    return found


class _ClassNames:
    """The classes of a family in KerasHub, from the name of its backbone."""

    def __init__(self, backbone: str):
        self._prefix = backbone.removesuffix("Backbone")

    def saved(self, kind: str, config: Mapping) -> dict:
        """("TextClassifier", its arguments) -> an object as Keras' `serialize_keras_object` writes it."""
        name = f"{self._prefix}{kind}"
        family, module = (
            re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text).lower() for text in (self._prefix, name)
        )
        return {
            "module": f"keras_hub.src.models.{family}.{module}",
            "class_name": name,
            "config": dict(config),
            "registered_name": f"keras_hub>{name}",
        }


def _family(checkpoint: BertCheckpoint) -> KerasHub:
    family = checkpoint.config.family.keras_hub
    if family is None:
        known = ", ".join(name for name, _ in keras_hub.hub_families().values())
        raise InputError(
            f"{checkpoint.path}: KerasHub has no model of the family {checkpoint.config.model_type}, only of: {known}. "
            "Write it with format='keras_bert' or 'huggingface'."
        )
    return family


def _sizes(family: KerasHub, config: BertConfig) -> dict:
    sizes = {
        family.vocabulary_size: config.vocab_size,
        "num_layers": config.num_hidden_layers,
        "num_heads": config.num_attention_heads,
        "hidden_dim": config.hidden_size,
        "intermediate_dim": config.intermediate_size,
        "dropout": config.hidden_dropout_prob,
        "max_sequence_length": config.max_sequence_length,
    }
    if family.has_segments:
        sizes["num_segments"] = config.type_vocab_size
    return sizes | {key: getattr(config, field) for key, field in family.sizes.items()}


def _check_config(checkpoint: BertCheckpoint, has_pooler: bool) -> None:
    """Raises `InputError` unless our reader would make the same config of the sizes that are written."""
    config, family = checkpoint.config, _family(checkpoint)
    there = keras_hub.preset_config(config.model_type, _sizes(family, config), config.do_lower_case)
    if keras_hub.has_hidden_rows(config):
        there = keras_hub.as_published({}, there)[1]
    ignored = _NOT_COMPARED if has_pooler else (*_NOT_COMPARED, "pooler_act")
    names = [field.name for field in dataclasses.fields(config) if field.name not in ignored]
    wrong = [name for name in names if getattr(config, name) != getattr(there, name)]
    if not {config.hidden_act, there.hidden_act} <= {"gelu", "gelu_erf"}:
        wrong.append("hidden_act")
    if wrong:
        received = ", ".join(f"{name}={getattr(config, name)} (there: {getattr(there, name)})" for name in wrong)
        raise InputError(
            f"{checkpoint.path}: KerasHub's {family.backbone} cannot compute this model: {received}. Write it with "
            "format='keras_bert' or 'huggingface'."
        )


def _without_segment(tensors: Mapping[str, StoredTensor], offset: int) -> dict[str, StoredTensor]:
    """Adds the only segment to the positions, and removes the rows before the first position."""
    segment, positions = tensors[SEGMENTS], tensors[form.POSITION_EMBEDDINGS]
    rows, width = positions.shape
    kept = positions.changed((rows - offset, width), lambda table: table[offset:] + segment.read())
    others = {name: tensor for name, tensor in tensors.items() if name != SEGMENTS}
    return {**others, form.POSITION_EMBEDDINGS: kept}


def _write_weights(path: str, tensors: Mapping[str, StoredTensor], table: NameTable, config: BertConfig) -> list[str]:
    written, left_out = {}, []
    for name, tensor in tensors.items():
        theirs = table.theirs(name)
        if theirs is None:
            left_out.append(name)
        else:
            # Keras does not number the first layer of a class.
            key = theirs[0].replace("/transformer_encoder_0/", "/transformer_encoder/")
            written[key] = to_theirs(tensor, theirs[1], config.num_attention_heads)
    write_keras_weights(path, written)
    return left_out


def _is_embedder(checkpoint: BertCheckpoint) -> bool:
    """Returns whether KerasHub has a text embedder that computes the vectors of a `SentenceEncoder`."""
    sentence = checkpoint.sentence
    if sentence is None or not _family(checkpoint).has_embedder or sentence.get("doc_stride"):
        return False
    is_plain = not sentence["dense"] and not any(sentence["prompts"].values())
    return is_plain and list(sentence["pooling"]) in (["mean"], ["cls"], ["max"])


def _write_task(checkpoint: BertCheckpoint, folder: str, names: _ClassNames, task: str, tokenizer: dict | None) -> None:
    preprocessor, sentence = None, checkpoint.sentence or {}
    if tokenizer is not None:
        length = sentence.get("max_seq_length") if task == _EMBEDDER else None
        settings = {"tokenizer": tokenizer, "sequence_length": length or checkpoint.config.max_sequence_length}
        preprocessor = names.saved(f"{task}Preprocessor", settings)
        _write_json(
            folder, _PREPROCESSOR_FILE, {**preprocessor, "config": {**settings, "config_file": _PREPROCESSOR_FILE}}
        )
    family = _family(checkpoint)
    settings = {"backbone": names.saved("Backbone", _sizes(family, checkpoint.config)), "preprocessor": preprocessor}
    if task == _TASKS[form.CLASSIFIER]:
        settings["num_classes"] = form.num_outputs(checkpoint.path, checkpoint.tensors, form.CLASSIFIER)
        settings["dropout"] = checkpoint.config.hidden_dropout_prob
        activation = "sigmoid" if checkpoint.problem_type == "multi_label" else "linear"
        settings["activation"] = (checkpoint.ranking or {}).get("activation") or activation
    if task == _EMBEDDER:
        settings |= {"pooling_mode": sentence["pooling"][0], "normalize": sentence["normalize"]}
    _write_json(folder, TASK_FILE, names.saved(task, settings))


def _write_tokenizer(checkpoint: BertCheckpoint, folder: str) -> dict:
    """Writes the files of the tokenizer; returns the arguments of KerasHub's tokenizer."""
    vocabulary, assets = checkpoint.vocabulary, os.path.join(folder, keras_hub.ASSETS)
    tokenizer_class, special_tokens = keras_hub.TOKENIZERS[checkpoint.config.family.tokenizer]
    has_more = vocabulary.added_tokens or (isinstance(vocabulary, BytePairTokenizer) and not vocabulary.fits_two_files)
    if (
        not isinstance(vocabulary, tokenizer_class)
        or vocabulary.special_tokens.names != special_tokens.names
        or has_more
    ):
        raise InputError(
            f"{checkpoint.path}: KerasHub's tokenizer of the family {checkpoint.config.model_type} takes a plain "
            f"{tokenizer_class.__name__} with the special tokens {', '.join(special_tokens.names)} and without added "
            f"tokens. Received: a {type(vocabulary).__name__} with {', '.join(vocabulary.special_tokens.names)} and "
            f"{len(vocabulary.added_tokens)} added tokens."
        )
    os.makedirs(assets)
    if isinstance(vocabulary, Vocabulary):
        vocabulary.save(os.path.join(folder, keras_hub.VOCABULARY_FILES[0]))
        rules = WordPieceTokenizer(vocabulary, checkpoint.config.do_lower_case).rules
        settings = {"vocabulary": None, "lowercase": rules.lower_case, "strip_accents": rules.strip_accents}
        return settings if rules.chinese_chars else {**settings, "split_on_cjk": False}
    if isinstance(vocabulary, SentencePieceTokenizer):
        with atomic_file(os.path.join(assets, keras_hub.SENTENCE_PIECE_FILE)) as file:
            file.write(vocabulary.effective_model)
        return {"proto": None}
    vocabulary.save(assets)
    os.replace(os.path.join(assets, byte_pair.VOCABULARY_FILE), os.path.join(assets, keras_hub.BYTE_PAIR_FILES[0]))
    os.remove(os.path.join(assets, byte_pair.SETTINGS_FILE))
    return {"add_prefix_space": vocabulary.add_prefix_space}


def _write_json(folder: str, name: str, values: Mapping) -> None:
    write_json(os.path.join(folder, name), values, indent=4)
