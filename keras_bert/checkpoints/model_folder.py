"""A model folder: `bert_config.json`, `vocab.txt` and `model.weights.h5`.

`bert_config.json` has one key more than Google's, `keras_bert`: the class of the model and what its constructor takes
beside the config, such as the labels of a classifier. Any class that has an encoder can be loaded from the folder of
any other: the encoder's weights come from the folder, and the heads that the folder does not have are new.
"""

import importlib
import io
import os

import keras

from keras_bert.atomic_output import atomic_folder
from keras_bert.config import BertConfig
from keras_bert.errors import InputError
from keras_bert.tokenization.vocabulary import Vocabulary

CONFIG_FILE = "bert_config.json"
VOCABULARY_FILE = "vocab.txt"
WEIGHTS_FILE = "model.weights.h5"

_OUR_KEY = "keras_bert"
# Class -> module; the name of a user's own class is looked up among Keras' registered classes.
_MODULES = {
    "BertEncoder": "keras_bert.models.encoder",
    "BertPretrainer": "keras_bert.models.pretrainer",
    "BertSequenceClassifier": "keras_bert.models.sequence_classifier",
}


def save_pretrained(model, path: str | os.PathLike, vocabulary: Vocabulary | None = None) -> None:
    """Writes a model folder, whole or not at all. The optimiser's state is not in it.

    Args:
        model: a `BertEncoder` or a task model.
        path: a new or empty folder.
        vocabulary: the default is `model.vocabulary`; without either, the folder has no `vocab.txt`.

    Raises:
        InputError: `path` is not empty or cannot be written to, or vocabulary and config disagree.
    """
    vocabulary = vocabulary or model.vocabulary
    if vocabulary is not None:
        model.config.check_vocabulary(len(vocabulary))
    ours = {"model": _class_name(type(model)), **_constructor_arguments(model)}
    config = model.config.replace(extra={**model.config.extra, _OUR_KEY: ours})
    with atomic_folder(path) as folder:
        config.save(os.path.join(folder, CONFIG_FILE))
        if vocabulary is not None:
            vocabulary.save(os.path.join(folder, VOCABULARY_FILE))
        weights = _WeightsFile()
        # Keras writes a compiled model's optimiser into its weights file, which triples the size.
        keras.saving.save_weights(model, weights, objects_to_skip=[getattr(model, "optimizer", None)])
        with open(os.path.join(folder, WEIGHTS_FILE), "wb") as file:
            file.write(weights.getbuffer())


def from_pretrained(model_class: type | None, path: str | os.PathLike, **arguments):
    """Returns a model with the weights of a model folder.

    Args:
        model_class: the class to make; `None` makes the class that was saved.
        path: a model folder.
        **arguments: what the constructor takes beside the config, such as `labels`. The default is what was saved, if
            the folder is of the same class.

    Returns:
        The model; its `vocabulary` is that of the folder, or None. One printed line names the parts that the folder has
        no weights for.

    Raises:
        InputError: `path` is no model folder, its files disagree, or the weights are damaged.
    """
    path = os.fspath(path)
    config, saved_class, saved_arguments = read_model_config(path)
    vocabulary = read_model_vocabulary(path, config)
    saved = saved_class(config, **saved_arguments)
    _load_weights(saved, os.path.join(path, WEIGHTS_FILE))
    model_class = model_class or saved_class
    arguments = {key: list(value) if isinstance(value, tuple) else value for key, value in arguments.items()}
    if model_class is saved_class:
        arguments = {**saved_arguments, **arguments}
    same = model_class is saved_class and arguments == saved_arguments
    model = saved if same else _with_encoder_of(saved, model_class, arguments, path)
    model.vocabulary = vocabulary
    return model


def read_model_config(path: str | os.PathLike) -> tuple[BertConfig, type, dict]:
    """Returns the config of a model folder, the class that was saved in it and that class's other arguments.

    Raises:
        InputError: `path` is no model folder; the message says which files are missing.
    """
    path = os.fspath(path)
    missing = [name for name in (CONFIG_FILE, WEIGHTS_FILE) if not os.path.isfile(os.path.join(path, name))]
    if missing:
        raise InputError(f"{path} is not a model folder: {_what_is_missing(path, missing)}")
    config_path = os.path.join(path, CONFIG_FILE)
    config = BertConfig.from_json_file(config_path)
    ours = config.extra.get(_OUR_KEY)
    if not isinstance(ours, dict) or "model" not in ours:
        raise InputError(
            f"{config_path} has no {_OUR_KEY!r} entry that says which model the weights are of. Model folders are "
            "written by save_pretrained."
        )
    extra = {key: value for key, value in config.extra.items() if key != _OUR_KEY}
    arguments = {key: value for key, value in ours.items() if key != "model"}
    return config.replace(extra=extra), _class_of(ours["model"], config_path), arguments


def read_model_vocabulary(path: str | os.PathLike, config: BertConfig) -> Vocabulary | None:
    """Returns the vocabulary of a model folder, None when it has none.

    Raises:
        InputError: it has another size than the config says.
    """
    file = os.path.join(path, VOCABULARY_FILE)
    if not os.path.isfile(file):
        return None
    vocabulary = Vocabulary.from_file(file)
    try:
        config.check_vocabulary(len(vocabulary))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return vocabulary


def _what_is_missing(path: str, missing: list[str]) -> str:
    if not os.path.isdir(path):
        return "there is no such folder."
    inner = os.path.join(path, "model")
    if os.path.isfile(os.path.join(inner, CONFIG_FILE)):
        return f"it has no {' and no '.join(missing)}. The model folder of this run is {inner}."
    return f"it has no {' and no '.join(missing)}."


def _with_encoder_of(saved, model_class: type, arguments: dict, path: str):
    """Returns a new `model_class` whose encoder has the weights of `saved`, and says what is new in it."""
    model = model_class(saved.config, **arguments)
    source, target = _encoder(saved), _encoder(model)
    for new, old in zip(target.weights, source.weights, strict=True):
        new.assign(old)
    from_folder = {id(weight) for weight in target.weights}
    new_parts = sorted({_part(weight.path) for weight in model.weights if id(weight) not in from_folder})
    if new_parts:
        print(
            f"{model_class.__name__} from {path} ({type(saved).__name__}): the encoder is loaded, newly initialised "
            f"are: {', '.join(new_parts)}"
        )
    return model


def _encoder(model):
    # An encoder is its own encoder.
    return getattr(model, "encoder", model)


def _part(path: str) -> str:
    """Returns the head's name: `model/head/layer/kernel` -> `head`."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else parts[0]


def _load_weights(model, path: str) -> None:
    try:
        model.load_weights(path)
    except OSError as error:
        raise InputError(f"{path} is damaged or is not a weights file ({error}). Copy it again.") from None
    except (ValueError, KeyError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        detail = next((line for line in lines if "shape" in line or "expected" in line), lines[0] if lines else "")
        raise InputError(f"{path} does not hold the weights of the model in {CONFIG_FILE}: {detail[:300]}") from None


class _WeightsFile(io.BytesIO):
    """A weights file in memory: HDF5 itself ends the process with a segmentation fault when the disk is full."""

    def __str__(self):
        return WEIGHTS_FILE  # Keras looks at the end of the name


def _class_name(model_class: type) -> str:
    return keras.saving.get_registered_name(model_class).removeprefix("keras_bert>")


def _class_of(name: str, config_path: str) -> type:
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    model_class = keras.saving.get_registered_object(name)
    if model_class is None:
        raise InputError(
            f"{config_path}: the weights are of {name!r}, which is not known here. Import the module that defines "
            f"it, or use one of: {', '.join(_MODULES)}"
        )
    return model_class


def _constructor_arguments(model) -> dict:
    """Returns what the constructor takes beside the config; name and dtype belong to a process, not to the weights."""
    return {
        key: value for key, value in model.get_config().items() if key not in ("config", "name", "dtype", "trainable")
    }
