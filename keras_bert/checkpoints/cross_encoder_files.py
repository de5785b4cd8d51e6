"""What folders of sentence-transformers say about a `CrossEncoder`: its activation, prompts and maximum length.

Reference: sentence-transformers 6.2, `CrossEncoder`.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.checkpoints.sentence_settings import (
    LENGTH_FILE,
    LENGTH_KEYS,
    PROMPTS_FILE,
    SETTINGS_KEYS,
    longest_text,
    model_settings,
    named_activation,
    prompts_of,
)
from keras_bert.checkpoints.sentence_transformers import CROSS_ENCODER, MODULES_FILE, modules_of, write_modules
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member, write_json

_ACTIVATIONS = {
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
    "torch.nn.modules.linear.Identity": "linear",
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.activation.ReLU": "relu",
}
_TASK = "sequence-classification"
_LENGTH_KEYS = dataclasses.replace(
    LENGTH_KEYS,
    fixed={
        **LENGTH_KEYS.fixed,
        "transformer_task": (_TASK,),
        "modality_config": ({"text": {"method": "forward", "method_output_name": "logits"}},),
        "module_output_name": ("scores",),
    },
)
_IN_CONFIG, _BEFORE_VERSION_4 = "sentence_transformers", "sbert_ce_default_activation_function"


def read_cross_encoder(
    path: str, values: Mapping, config_file: str, config: BertConfig, num_labels: int
) -> tuple[dict[str, Any] | None, list[str]]:
    """Returns the arguments of `CrossEncoder` for a classifier, None if it has several labels, and notes.

    The argument `activation` is None if no file names it.

    Args:
        path: the folder.
        values: the content of `config_file`, its `config.json`.
        config: the config of the encoder.
        num_labels: the number of outputs.

    Raises:
        InputError: a setting is unknown, or the scores are computed otherwise.
    """
    settings, file = model_settings(path), os.path.join(path, PROMPTS_FILE)
    is_theirs = bool(modules_of(path)) and settings.get("model_type") == CROSS_ENCODER
    nested = member(values, _IN_CONFIG, dict, config_file, {})
    KnownKeys(used=("activation_fn",), harmless=("version",)).check(nested, f"{config_file}: {_IN_CONFIG}")
    places = [(settings, "activation_fn", file)] if is_theirs else []
    places += [(nested, "activation_fn", config_file), (values, _BEFORE_VERSION_4, config_file)]
    stated = next((place for place in places if place[0].get(place[1]) is not None), None)
    if num_labels > 1:
        note = "a CrossEncoder of sentence-transformers gives scores by {}, a SequenceClassifier gives probabilities"
        return None, [note.format(repr(stated[0][stated[1]])[:100])] if stated else []
    activation = named_activation(*stated[:2], _ACTIVATIONS, stated[2]) if stated else None
    arguments: dict[str, Any] = {"activation": activation}
    folder = path
    if is_theirs:
        kinds, folder = [kind for kind, _ in modules_of(path)], modules_of(path)[0][1]
        if kinds != ["Transformer"]:
            raise InputError(
                f"{os.path.join(path, MODULES_FILE)}: only a CrossEncoder that is one Transformer is supported. "
                f"Received: {', '.join(kinds)[:200]}"
            )
        SETTINGS_KEYS.check(settings, file)
        arguments["prompts"], arguments["default_prompt"] = prompts_of(settings, file)
    arguments["max_seq_length"] = longest_text(folder, config, _LENGTH_KEYS if is_theirs else None)
    return arguments, []


def config_values_of(checkpoint: BertCheckpoint) -> dict[str, Any]:
    """Returns what `config.json` says about a `CrossEncoder`; nothing for other models."""
    if checkpoint.ranking is None or checkpoint.ranking.get("activation") is None:
        return {}
    return {_IN_CONFIG: {"activation_fn": _their_activation(checkpoint)}}


def write_cross_encoder(checkpoint: BertCheckpoint, folder: str) -> None:
    """Writes the files of sentence-transformers for a `CrossEncoder` into an existing folder."""
    arguments, config = checkpoint.ranking or {}, checkpoint.config
    if arguments.get("activation") is None:
        return
    write_modules(folder, {"": "sentence_transformers.base.modules.transformer.Transformer"})
    settings = {
        "model_type": CROSS_ENCODER,
        "activation_fn": _their_activation(checkpoint),
        "prompts": arguments.get("prompts", {}),
        "default_prompt_name": arguments.get("default_prompt"),
    }
    write_json(os.path.join(folder, PROMPTS_FILE), settings)
    length = arguments.get("max_seq_length") or config.max_sequence_length
    write_json(os.path.join(folder, LENGTH_FILE), {"transformer_task": _TASK, "max_seq_length": length})


def _their_activation(checkpoint: BertCheckpoint) -> str:
    return next(theirs for theirs, ours in _ACTIVATIONS.items() if ours == checkpoint.ranking["activation"])
