"""A model folder: `bert_config.json`, the files of the tokenizer and `model.weights.h5`.

`bert_config.json` is Google's with an additional key, `keras_bert`: the number of this format, the class of the model
and its constructor arguments besides the config, such as the labels of a classifier.
"""

import os
import reprlib

from keras_bert.checkpoints.checkpoint import BertCheckpoint, part_of
from keras_bert.checkpoints.keras_weights_file import keras_layout, read_keras_weights, write_keras_weights
from keras_bert.checkpoints.model_classes import class_for, class_name, find_class
from keras_bert.checkpoints.tensor_checks import check_no_surplus
from keras_bert.config import BertConfig
from keras_bert.models.base import LAYER_SETTINGS
from keras_bert.program.errors import InputError, named
from keras_bert.program.json_files import checked, member, strings
from keras_bert.tokenization.kinds import as_tokenizer, find_vocabulary
from keras_bert.tokenization.tokenizer import TokenTable

CONFIG_FILE = "bert_config.json"
WEIGHTS_FILE = "model.weights.h5"

_OUR_KEY = "keras_bert"
_FORMAT = 1  # a folder of another number is refused
# Arguments of every Keras layer. `save_pretrained` does not write them, and reading rejects them.
_NOT_ARGUMENTS = ("config", "name", "dtype", "trainable", "autocast", "activity_regularizer")


def read_model_folder(path: str) -> BertCheckpoint:
    """Reads a model folder. Raises `InputError` if its files are missing or damaged, or contradict each other."""
    config, model_class, arguments = read_model_config(path)
    stored = read_keras_weights(os.path.join(path, WEIGHTS_FILE))
    layout = _layout(path, model_class, config, arguments)
    names = {theirs: ours for ours, theirs in layout.items()}
    tensors = {names[name]: tensor for name, tensor in stored.items() if name in names}
    config_file = os.path.join(path, CONFIG_FILE)
    labels = strings(arguments, "labels", config_file)
    checkpoint = BertCheckpoint(
        path=path,
        kind=model_class.__name__,
        config=config,
        tokenizer=_read_tokenizer(path, config),
        tensors={name: tensors[name] for name in layout if name in tensors},
        labels=tuple(labels) if labels else None,
        problem_type=member(arguments, "problem_type", str, config_file, "classification"),
        model_class=model_class,
        arguments={model_class.kind: arguments},
    )
    parts = {part_of(name) for name in tensors}
    if all(name in tensors for name in layout if part_of(name) in parts):  # else `check_tensors` names the missing ones
        check_no_surplus(checkpoint, [name for name in stored if name not in names])
    return checkpoint


def _layout(path: str, model_class: type, config: BertConfig, arguments: dict) -> dict[str, str]:
    """Returns the `keras_layout` of a folder's model class and constructor arguments."""
    try:
        return keras_layout(model_class, config, arguments)
    except InputError as error:
        raise InputError(f"{os.path.join(path, CONFIG_FILE)}: the {_OUR_KEY!r} entry: {error}") from error
    except Exception as error:  # the arguments come from a file, so the constructor may raise anything
        raise InputError(
            f"{os.path.join(path, CONFIG_FILE)}: no {class_name(model_class)} can be created from its {_OUR_KEY!r} "
            f"entry ({' '.join(str(error).split())[:300]}). The file is damaged, or of another version."
        ) from error


def write_model_folder(checkpoint: BertCheckpoint, folder: str) -> list[str]:
    """Writes a model folder into an existing folder; returns the names of weights that no model class has."""
    model_class, arguments = class_for(checkpoint)
    layout = keras_layout(model_class, checkpoint.config, arguments)
    ours = _entry(model_class, arguments)
    config = checkpoint.config.replace(extra={**checkpoint.config.extra, _OUR_KEY: ours})
    config.save(os.path.join(folder, CONFIG_FILE))
    if checkpoint.tokenizer is not None:
        checkpoint.tokenizer.save(folder)
    tensors = {layout[name]: tensor for name, tensor in checkpoint.tensors.items() if name in layout}
    write_keras_weights(os.path.join(folder, WEIGHTS_FILE), tensors)
    return [name for name in checkpoint.tensors if name not in layout]


def read_model_config(path: str | os.PathLike) -> tuple[BertConfig, type, dict]:
    """Returns the config, the model class and the other constructor arguments of a model folder.

    Raises `InputError` if `path` is no model folder; the message names the missing files.
    """
    path = os.fspath(path)
    missing = [name for name in (CONFIG_FILE, WEIGHTS_FILE) if not os.path.isfile(os.path.join(path, name))]
    if missing:
        raise InputError(what_is_missing(path, missing))
    config_path = os.path.join(path, CONFIG_FILE)
    config = BertConfig.from_json_file(config_path)
    ours = config.extra.get(_OUR_KEY)
    if not isinstance(ours, dict) or "model" not in ours:
        raise InputError(
            f"{config_path} has no {_OUR_KEY!r} entry, which names the model class. Write model folders with "
            "save_pretrained."
        )
    if ours.get("format") != _FORMAT:
        raise InputError(
            f"{config_path}: the folder has the format {reprlib.repr(ours.get('format'))}, and this version of "
            f"keras_bert reads {_FORMAT}. Train or convert the model again with this version."
        )
    extra = {key: value for key, value in config.extra.items() if key != _OUR_KEY}
    arguments = {key: value for key, value in ours.items() if key not in ("format", "model")}
    refused = [key for key in arguments if key in _NOT_ARGUMENTS]
    if refused:
        raise InputError(
            f"{config_path}: the {_OUR_KEY!r} entry must not have {', '.join(refused)}. Remove them from the file."
        )
    model_class = find_class(checked(ours["model"], str, f"model of {_OUR_KEY!r}", config_path), config_path)
    return config.replace(extra=extra), model_class, arguments


def _entry(model_class: type, arguments: dict) -> dict:
    """Returns our entry in `bert_config.json`."""
    return {"format": _FORMAT, "model": class_name(model_class), **arguments}


def set_model_arguments(path: str | os.PathLike, **arguments) -> None:
    """Changes constructor arguments in a model folder, such as a threshold, which do not affect the weights.

    Raises `InputError` if `path` is not a model folder or cannot be written to.
    """
    config, model_class, saved = read_model_config(path)
    ours = _entry(model_class, {**saved, **arguments})
    changed = config.replace(extra={**config.extra, _OUR_KEY: ours})
    changed.save(os.path.join(os.fspath(path), CONFIG_FILE))


def _read_tokenizer(path: str | os.PathLike, config: BertConfig) -> TokenTable | None:
    """Returns the tokenizer of a model folder, or None. Raises `InputError` if its size is not the config's."""
    vocabulary = find_vocabulary(path)
    if vocabulary is None:
        return None
    with named(path):
        config.check_vocabulary(len(vocabulary))
    return as_tokenizer(vocabulary, config.do_lower_case)


def what_is_missing(path: str, missing: list[str]) -> str:
    """Returns the error message for a path that is not a model folder."""
    if not os.path.isdir(path):
        return f"{path}: there is no such folder."
    inner = os.path.join(path, "model")
    hint = f" The model folder of this run is {inner}." if os.path.isfile(os.path.join(inner, CONFIG_FILE)) else ""
    return f"{path} is not a model folder: it has no {' and no '.join(missing)}.{hint}"


def is_model_folder(path: str) -> bool:
    return os.path.isfile(os.path.join(path, WEIGHTS_FILE)) and os.path.isfile(os.path.join(path, CONFIG_FILE))


def constructor_arguments(model) -> dict:
    """Returns the constructor arguments except for the config, name and dtype. The latter two are not saved."""
    return {
        key: value
        for key, value in model.get_config().items()
        if key not in ("config", "name", "dtype", "trainable", LAYER_SETTINGS)
    }
