"""What checkpoints say about a `CrossEncoder`, and how one starts from them.

Reference: sentence-transformers 6.2, `CrossEncoder`.
"""

import inspect
import os
from collections.abc import Mapping
from typing import Any

from keras_bert.checkpoints import sentence_transformers as files
from keras_bert.checkpoints.checkpoint import CLASSIFIER, BertCheckpoint
from keras_bert.checkpoints.sentence_transformers import ModelFolder
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member, read_json_object, write_json

_KIND = "CrossEncoder"
_ACTIVATIONS = {
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
    "torch.nn.modules.linear.Identity": "linear",
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.activation.ReLU": "relu",
}
_TRANSFORMER_TASK = "sequence-classification"
_IN_CONFIG, _BEFORE_VERSION_4 = "sentence_transformers", "sbert_ce_default_activation_function"


def read(checkpoint: BertCheckpoint, folder: ModelFolder) -> BertCheckpoint:
    """Returns the checkpoint of a classifier with one output with the arguments of `CrossEncoder`.

    There is an argument `activation` only if a file names it. A classifier with several outputs gets a remark instead.
    Raises `InputError` if a setting is unknown, or the scores are computed otherwise.
    """
    if CLASSIFIER not in checkpoint.heads or not checkpoint.labels:
        return checkpoint
    config_file, settings, file = folder.config_file, folder.settings, folder.settings_file
    modules = folder.modules if settings.get("model_type") == files.CROSS_ENCODER else []
    nested = member(folder.values, _IN_CONFIG, dict, config_file, {})
    KnownKeys(used=("activation_fn",), harmless=("version",)).check(nested, f"{config_file}: {_IN_CONFIG}")
    places = [(settings, "activation_fn", file)] if modules else []
    places += [(nested, "activation_fn", config_file), (folder.values, _BEFORE_VERSION_4, config_file)]
    stated = next((place for place in places if place[0].get(place[1]) is not None), None)
    if len(checkpoint.labels) > 1:
        note = "a CrossEncoder of sentence-transformers gives scores by {}, a SequenceClassifier gives probabilities"
        notes = [note.format(repr(stated[0][stated[1]])[:100])] if stated else []
        return checkpoint.replace(remarks=(*checkpoint.remarks, *notes))
    arguments: dict[str, Any] = {}
    if stated:
        values, name, where = stated
        arguments["activation"] = files.named_activation(values, name, _ACTIVATIONS, where)
    if modules:
        kinds = [kind for kind, _ in modules]
        if kinds != ["Transformer"]:
            raise InputError(
                f"{os.path.join(folder.path, files.MODULES_FILE)}: only a CrossEncoder that is one Transformer is "
                f"supported. Received: {', '.join(kinds)[:200]}"
            )
        files.SETTINGS_KEYS.check(settings, file)
        arguments |= folder.prompts()
        keys = files.transformer_keys(_TRANSFORMER_TASK, "logits", "scores")
        arguments["max_seq_length"] = files.longest_text(modules[0][1], checkpoint.config, keys)
    else:
        arguments["max_seq_length"] = files.longest_text(folder.path, checkpoint.config, None)
    return checkpoint.telling(_KIND, arguments)


def write(checkpoint: BertCheckpoint, folder: str) -> tuple[str, ...]:
    """Writes the files of sentence-transformers for a `CrossEncoder`, see `registry.Task`."""
    arguments, config = checkpoint.arguments[_KIND], checkpoint.config
    activation = next(theirs for theirs, ours in _ACTIVATIONS.items() if ours == arguments["activation"])
    file = os.path.join(folder, files.MODULE_CONFIG_FILE)
    write_json(file, {**read_json_object(file), _IN_CONFIG: {"activation_fn": activation}})
    if CLASSIFIER not in checkpoint.heads:
        return ()
    files.write_modules(folder, ["sentence_transformers.base.modules.transformer.Transformer"])
    settings = {
        "model_type": files.CROSS_ENCODER,
        "activation_fn": activation,
        "prompts": arguments.get("prompts", {}),
        "default_prompt_name": arguments.get("default_prompt"),
    }
    write_json(os.path.join(folder, files.PROMPTS_FILE), settings)
    length = arguments.get("max_seq_length") or config.max_sequence_length
    of_transformer = {"transformer_task": _TRANSFORMER_TASK, "max_seq_length": length}
    write_json(os.path.join(folder, files.LENGTH_FILE), of_transformer)
    return ()


def start(model_class: type, checkpoint: BertCheckpoint, arguments: Mapping) -> tuple[dict, BertCheckpoint]:
    """Returns the constructor arguments of a `CrossEncoder`, and the checkpoint."""
    known = inspect.signature(model_class.__init__).parameters
    told = {name: value for name, value in checkpoint.arguments.get(_KIND, {}).items() if name in known}
    return {**told, "problem_type": "regression", **arguments}, checkpoint
