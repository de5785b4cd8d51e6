"""Writes and reads the folders of portable exports, and the same description among the assets of SavedModels.

    model.tflite or model.onnx   the network: features in, outputs of the model out
    packed.onnx                  the same network for packed rows, without its weights, if the model allows it
    export.json                  format, class of the model, its settings, names of the features, versions
    bert_config.json             the shape of the model, and whether texts are lower-cased
    vocab.txt, ...               the files of the tokenizer
    tokenizer_vectors.json       texts with their ids, for tests of the tokenizer in another language

Sizes are bounded, and links out of the folder are not followed. The network is a program: load only what you trust.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

import keras_bert
from keras_bert import registry
from keras_bert.config import BertConfig
from keras_bert.config.signature_options import SignatureOptions
from keras_bert.program.atomic_output import atomic_folder, check_output_folder
from keras_bert.program.errors import InputError, how_to_install
from keras_bert.program.foreign_files import check_links
from keras_bert.program.json_files import checked, member, read_json_object, write_json
from keras_bert.program.long_work import long_work
from keras_bert.tokenization.kinds import as_tokenizer, load_vocabulary
from keras_bert.tokenization.tokenizer import TokenTable

EXPORT_FILE, CONFIG_FILE, VECTORS_FILE = "export.json", "bert_config.json", "tokenizer_vectors.json"
PACKED_FILE = "packed.onnx"
# The format of exports for TensorFlow Serving, which have `export.json` among their assets; and that of folders for
# programs that are not ours.
SAVED_MODEL, HUGGING_FACE_ONNX = "saved_model", "huggingface-onnx"
_VERSION = 2
# FlatBuffers and protocol buffers hold at most 2 GiB.
_MOST_MODEL_BYTES = 1 << 31
_PORTABLE = "keras_bert.serving.portable"


@dataclasses.dataclass(frozen=True)
class Format:
    """A file format of networks; `runtimes.py` has what runs it.

    Attributes:
        file: the name of the file in a folder.
        writer: import path of the function `(model, path, weights=None)` that writes the file.
    """

    file: str
    writer: str


FORMATS = {
    "litert": Format("model.tflite", f"{_PORTABLE}.litert_model.write_litert"),
    "onnx": Format("model.onnx", f"{_PORTABLE}.onnx_model.write_onnx_folder"),
}
_WEIGHTS = ("float16", "int8")  # of all of them, beside float32


@dataclasses.dataclass(frozen=True)
class PortableFolder:
    """The content of a folder.

    Attributes:
        path: the folder; of a SavedModel, its assets.
        format: a key of `FORMATS`, or "saved_model".
        model: the class of the model, such as "SequenceClassifier".
        settings: its constructor arguments, such as `labels`.
        max_seq_length: longer texts are cut to this many tokens.
        weights: "float32", "float16" or "int8".
        network: size and sum of the file of the network, see `_size_and_sum`; None for SavedModels.
    """

    path: str
    format: str
    model: str
    settings: Mapping[str, Any]
    max_seq_length: int
    weights: str
    config: Any
    tokenizer: TokenTable
    network: Mapping[str, Any] | None = None


def write_portable(
    model,
    path: str | os.PathLike,
    format: str,
    weights: str | None = None,
    options: SignatureOptions | None = None,
) -> str:
    """Writes a model of any task as a folder for another runtime, atomically, and returns the folder.

    Args:
        format, weights: the format, "litert" or "onnx", and how its writer stores matrices.
        options: `max_seq_length`, `pooling`, `normalize` and `text_pairs`; `predict` takes pairs and single texts.

    Raises:
        InputError: the format cannot hold the model, an option is unknown or out of range, a package is missing, or
            the folder is not empty or cannot be written.
    """
    options = options or SignatureOptions()
    check_format(format, weights)
    check_output_folder(path)
    # Only now: reading a folder needs neither TensorFlow nor Keras.
    from keras_bert.checkpoints.model_fingerprint import model_fingerprint
    from keras_bert.serving.portable.portable_models import answer_settings, padded, portable_model, stored_kind
    from keras_bert.serving.portable.tokenizer_vectors import tokenizer_vectors

    write = registry.imported(FORMATS[format].writer)
    model = portable_model(model, options)
    known_settings = registry.export_of(model).settings
    if options.text_pairs and "text_pairs" not in known_settings:
        raise InputError(
            f"text_pairs is for classifiers in the format {format}. Received: {type(model).__name__}. Leave it out."
        )
    longest = options.max_seq_length or getattr(model, "max_seq_length", None) or model.config.max_sequence_length
    model.config.check_sequence_length(longest)
    with atomic_folder(path) as folder:
        with padded(model), long_work(f"writing {FORMATS[format].file}"):
            write(model, os.path.join(folder, FORMATS[format].file), weights)
        settings = answer_settings(model)
        if "fingerprint" in known_settings:
            settings["fingerprint"] = model_fingerprint(model)
        if options.text_pairs:
            settings["text_pairs"] = True
        model.config.save(os.path.join(folder, CONFIG_FILE))
        model.tokenizer.save(folder)
        sums = {name: _size_and_sum(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}
        write_description(folder, format, stored_kind(model), settings, longest, weights, sums)
        write_json(os.path.join(folder, VECTORS_FILE), tokenizer_vectors(model.tokenizer), indent=1)
    return os.fspath(path)


def write_description(
    folder: str,
    format: str,
    model: str,
    settings: Mapping,
    max_seq_length: int,
    weights: str | None,
    sums: Mapping[str, Mapping] | None = None,
) -> None:
    """Writes `export.json`; the arguments are attributes of `PortableFolder`, and the size and sum of each file."""
    others = dict(sums or {})
    network = others.pop(FORMATS[format].file) if others else None
    description = {
        "format": format,
        "version": _VERSION,
        "model": model,
        "settings": dict(settings),
        "max_seq_length": max_seq_length,
        "weights": weights or "float32",
        "keras_bert": keras_bert.__version__,
        **({} if network is None else {"network": network, "files": others}),
    }
    write_json(os.path.join(folder, EXPORT_FILE), description, indent=1)


def check_format(format: str, weights: str | None = None) -> None:
    """Raises `InputError` if there is no such format, or if it has no such weights."""
    if format not in (*FORMATS, HUGGING_FACE_ONNX):
        known = ", ".join((SAVED_MODEL, *FORMATS, HUGGING_FACE_ONNX))
        raise InputError(f"format must be one of: {known}. Received: {format!r}")
    if weights not in (None, *_WEIGHTS):
        raise InputError(
            f"weights of the format {format} must be {', '.join(_WEIGHTS)} or None (float32). Received: {weights!r}"
        )


def read_portable(path: str | os.PathLike) -> PortableFolder:
    """Reads a folder that `write_portable` wrote, or the assets of a SavedModel. The network itself is not read.

    Raises `InputError` if a file is missing, changed, damaged, too large or a link, or the format is unknown.
    """
    path = os.fspath(path)
    export_file = os.path.join(path, EXPORT_FILE)
    if not os.path.isfile(export_file):
        raise InputError(f"{path} has no {EXPORT_FILE}, so it is no export of export_model --format=litert or onnx.")
    check_links(path)
    values = read_json_object(export_file)
    format = member(values, "format", str, export_file)
    known = (*FORMATS, SAVED_MODEL)
    if format not in known:
        raise InputError(f"{export_file}: unknown format {format!r:.50}. This version reads: {', '.join(known)}")
    version = member(values, "version", int, export_file, 0)
    if version != _VERSION:
        raise InputError(
            f"{export_file}: version {version} of the format. This version of keras_bert reads {_VERSION}. Export the "
            "model again."
        )
    network, files = None, {}
    if format != SAVED_MODEL:
        network, files = (checked(values.get(name), dict, name, export_file) for name in ("network", "files"))
    for name, size_and_sum in files.items():
        if name in os.listdir(path):
            _check_unchanged(os.path.join(path, name), size_and_sum)
    config, vocabulary = BertConfig.from_json_file(os.path.join(path, CONFIG_FILE)), load_vocabulary(path)
    config.check_vocabulary(len(vocabulary))
    longest = checked(values.get("max_seq_length"), int, "max_seq_length", export_file)
    if not 3 <= longest <= config.max_sequence_length:
        raise InputError(
            f"{export_file}: max_seq_length must be between 3 and the model's {config.max_sequence_length} positions. "
            f"Received: {longest}"
        )
    return PortableFolder(
        path,
        format,
        checked(values.get("model"), str, "model", export_file),
        checked(values.get("settings"), dict, "settings", export_file),
        longest,
        checked(values.get("weights"), str, "weights", export_file),
        config,
        as_tokenizer(vocabulary, config.do_lower_case),
        network,
    )


def network_file(folder: PortableFolder) -> str:
    """Returns the path of the network of a folder. Raises `InputError` if it is missing, too large or changed."""
    path = os.path.join(folder.path, FORMATS[folder.format].file)
    if not os.path.isfile(path):
        raise InputError(f"There is no {path}. Copy the whole folder of the export.")
    if os.path.getsize(path) > _MOST_MODEL_BYTES:
        raise InputError(f"{path} has more than {_MOST_MODEL_BYTES:,} bytes, more than its format can hold.")
    _check_unchanged(path, folder.network)
    return path


def _check_unchanged(path: str, size_and_sum: Any) -> None:
    if not os.path.isfile(path) or _size_and_sum(path) != size_and_sum:
        raise InputError(
            f"{path} is not the file that was exported: {EXPORT_FILE} has another size or sum for it. Copy the whole "
            "folder again, or export the model again."
        )


def _size_and_sum(path: str) -> dict[str, Any]:
    """Returns the size of a file, and the sum of its 8-byte numbers modulo 2^64, in hexadecimal.

    The sum shows that a file was replaced, cut off or damaged. It takes a tenth of the time of SHA-256: 3 to 12 ms for
    90 MB. It is no protection against somebody who changes `export.json` too; nor would SHA-256 be.
    """
    content = np.memmap(path, np.uint8, "r") if os.path.getsize(path) else np.zeros(0, np.uint8)
    words, rest = content[: content.size // 8 * 8].view("<u8"), content[content.size // 8 * 8 :]
    total = int(words.sum(dtype=np.uint64)) + int.from_bytes(rest.tobytes(), "little")
    return {"bytes": content.size, "sum": f"{total % (1 << 64):016x}"}


def damaged_network(path: str, error: Exception) -> InputError:
    """Returns the error for a file that a runtime cannot open. A damaged one can make it raise nearly anything."""
    return InputError(f"{path} is damaged or of another kind: {error!s:.300}. Export the model again.")


def missing_package(format: str, error: ImportError) -> InputError:
    """Returns the error that says how to install the runtime of a format."""
    return InputError(f"The format {format} needs a package that is not installed ({error}). {how_to_install(format)}")
