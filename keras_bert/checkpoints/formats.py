"""Detects the format of a checkpoint by its files, and reads and writes all formats."""

import glob
import os
import re
from collections.abc import Callable

from keras_bert.checkpoints import (
    google,
    hugging_face,
    keras_hub,
    model_folder,
    model_garden,
    peft_adapter,
    static_embedding,
)
from keras_bert.checkpoints.casing import with_casing
from keras_bert.checkpoints.checkpoint import GENERATOR, SPAN_BOUNDARY, BertCheckpoint, part_of
from keras_bert.checkpoints.family_formats import OwnFiles
from keras_bert.checkpoints.hub import HUB_PREFIX, download
from keras_bert.checkpoints.hugging_face_config import CONFIG_FILE
from keras_bert.checkpoints.model_card import write_model_card
from keras_bert.checkpoints.sentence_transformers import STATIC_EMBEDDING, modules_of, transformer_folder
from keras_bert.checkpoints.tensor_checks import check_tensors
from keras_bert.checkpoints.tensorflow_checkpoint import OBJECT_GRAPH, read_tensorflow_checkpoint
from keras_bert.checkpoints.what_instead import check_readable
from keras_bert.program.atomic_output import atomic_folder
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import check_links
from keras_bert.program.json_files import read_json_object
from keras_bert.registry import TASKS, OwnFolder, families, imported, task, task_of

# Format name -> function that writes a checkpoint into an existing folder and returns the names of unwritten weights.
WRITERS: dict[str, Callable[[BertCheckpoint, str], list[str]]] = {
    "keras_bert": model_folder.write_model_folder,
    "google": google.write_google,
    "huggingface": hugging_face.write_hugging_face,
}
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def read_checkpoint(
    path: str | os.PathLike,
    do_lower_case: bool | None = None,
    trust_pickle: bool = False,
    base: str | os.PathLike | None = None,
) -> BertCheckpoint:
    """Reads a checkpoint of any format. Tensors are read on demand.

    Args:
        path: a model folder of keras_bert, a folder or prefix of a TensorFlow checkpoint of google-research/bert or
            TF Model Garden, a folder of Hugging Face, a preset folder of KerasHub, a folder with an adapter of PEFT, or
            `hf://owner/name`.
        do_lower_case: the casing, if the files do not state it or state it wrongly.
        trust_pickle: whether a `pytorch_model.bin` may run code.
        base: the base model of an adapter, a path as above; None for the one that the adapter names.

    Raises:
        InputError: the format is unknown, a file is missing, damaged or a link out of the folder, or files contradict
            each other.
    """
    path = os.fspath(path)
    folder = _local_folder(path)
    if peft_adapter.is_adapter(folder):
        base = peft_adapter.base_of(path, folder, base)
        base_folder = _local_folder(base)
        if peft_adapter.is_adapter(base_folder):
            raise InputError(f"{path}: the base model {base} is an adapter too. Merge that one first.")
        checkpoint = _read(base_folder, trust_pickle).replace(path=base)
        checkpoint = peft_adapter.with_adapter(checkpoint, folder, trust_pickle).replace(path=path)
    elif base is not None:
        raise InputError(f"{path} has no {peft_adapter.ADAPTER_FILE}, so it needs no base model. Leave base out.")
    else:
        checkpoint = _read(folder, trust_pickle).replace(path=path)
    if checkpoint.tokenizer is None:
        note = "there is no vocabulary, so the model takes token ids but no texts"
        checkpoint = checkpoint.replace(remarks=(*checkpoint.remarks, note))
    else:
        checkpoint = checkpoint.replace(tokenizer=checkpoint.tokenizer.of_size(checkpoint.config.vocab_size))
    check_tensors(checkpoint)
    return with_casing(checkpoint, do_lower_case)


def write_checkpoint(
    checkpoint: BertCheckpoint,
    path: str | os.PathLike,
    format: str = "keras_bert",
    add: Callable[[str], None] = lambda folder: None,
) -> list[str]:
    """Writes a folder in one of the formats of `WRITERS`, atomically.

    Args:
        add: writes further files into the folder before it gets its name.

    Returns:
        Sentences for the user: weights that the format cannot hold, and differences in computation.

    Raises:
        InputError: the format is unknown or cannot hold this model, or `path` cannot be written to.
    """
    check_format(format)
    if checkpoint.adam is not None and format != "google":
        raise InputError(
            f"The {format} format cannot hold the state of the optimizer. Use format='google', save the whole model "
            "with model.save('model.keras'), or leave include_optimizer out."
        )
    entry = task_of(checkpoint.model_class)
    if format != "keras_bert" and entry is not None and entry.only_ours:
        raise InputError(f"The {format} format has no place for {entry.only_ours}")
    if format != "keras_bert":
        checkpoint = checkpoint.with_whole_table()
    check_tensors(checkpoint)
    write = WRITERS[format]
    if checkpoint.config.is_static and format != "keras_bert":
        static_embedding.check_format(checkpoint, format)
        write = static_embedding.write_static_embedding
    own = next((own for own in _own_folders() if own.head in checkpoint.heads), None)
    if own is not None and format == "huggingface":
        write = imported(own.write)
    if checkpoint.config.is_language_model and format != "keras_bert":
        write = imported(checkpoint.config.family.own_files.writer)(format)
    with atomic_folder(path) as folder:
        left_out = write(checkpoint, folder)
        if format != "google":
            write_model_card(checkpoint, folder)
        add(folder)
    notes = []
    if format == "google" and not checkpoint.config.is_language_model:
        notes = google.warnings_for_google(checkpoint.config, checkpoint.vocabulary)
    if left_out:
        names = {part if (part := part_of(name)) in (GENERATOR, SPAN_BOUNDARY) else name for name in left_out}
        notes.append(f"left out, because the {format} format cannot hold it: {', '.join(sorted(names))}")
    return notes


def check_format(format: str) -> None:
    """Raises `InputError` unless there is a writer for the format."""
    if format == "keras_hub":
        raise InputError(
            "Presets of KerasHub are read, not written. Use format='huggingface': KerasHub's from_preset takes the "
            "encoder from such a folder of a BERT, or of a MaskedLM of RoBERTa, ALBERT or DistilBERT. See "
            "docs/checkpoints.md."
        )
    if format not in WRITERS:
        raise InputError(f"Unknown format {format!r}. Use one of: {', '.join(WRITERS)}")


def _local_folder(path: str) -> str:
    """Returns the local path of a checkpoint, after checking that no file there is a link out of its folder."""
    folder = download(path) if path.startswith(HUB_PREFIX) else path
    place = folder if os.path.isdir(folder) else os.path.dirname(folder) or os.curdir
    check_links(place, keras_hub.ASSETS)
    return folder


def _read(path: str, trust_pickle: bool) -> BertCheckpoint:
    if os.path.isfile(f"{path}.index"):
        return _read_tensorflow(path)
    if not os.path.isdir(path):
        raise InputError(f"{path}: {_what_it_is(path)}")
    if model_folder.is_model_folder(path):
        return model_folder.read_model_folder(path)
    if keras_hub.is_keras_hub(path):
        return keras_hub.read_keras_hub(path)
    if static_embedding.is_static_embedding(path):
        return static_embedding.read_static_embedding(path, trust_pickle)
    if own_reader := _own_reader(path):
        return imported(own_reader)(path, trust_pickle)
    prefixes = sorted(file.removesuffix(".index") for file in glob.glob(os.path.join(glob.escape(path), "*.index")))
    # A config.json beside a TensorFlow checkpoint alone is that of the official code.
    folder = transformer_folder(path)
    if os.path.isfile(os.path.join(folder, CONFIG_FILE)) and not (prefixes and not hugging_face.has_weights(folder)):
        return hugging_face.read_hugging_face(path, trust_pickle)
    if len(prefixes) > 1:
        raise InputError(f"{path} has several checkpoints. Give one of: {', '.join(prefixes)}")
    if prefixes:
        return _read_tensorflow(prefixes[0])
    if kinds := [kind for kind, _ in modules_of(path)]:
        raise InputError(
            f"{path}: its first module is {kinds[0]!r:.100}. Only folders of sentence-transformers that begin with a "
            f"Transformer or a {STATIC_EMBEDDING} can be read."
        )
    check_readable(folder)
    missing = [
        name for name in ("bert_config.json", "model.weights.h5") if not os.path.isfile(os.path.join(path, name))
    ]
    raise InputError(model_folder.what_is_missing(path, missing))


def _own_reader(path: str) -> str | None:
    """Returns the reader of a folder of transformers whose files are like those of no other family or task."""
    file = os.path.join(path, CONFIG_FILE)
    model_type = read_json_object(file).get("model_type") if os.path.isfile(file) else None
    readers = {own.model_type: own.read for own in _own_folders()}
    readers |= {name: own.read_hugging_face for name, own in _own_files().items()}
    return next((reader for name, reader in readers.items() if name == model_type), None)


def _own_files() -> dict[str, OwnFiles]:
    return {name: entry.own_files for name, entry in families(has=lambda entry: entry.own_files).items()}


def _own_folders() -> list[OwnFolder]:
    return [entry.own_folder for entry in map(task, TASKS) if entry.own_folder is not None]


def _read_tensorflow(prefix: str) -> BertCheckpoint:
    variables = read_tensorflow_checkpoint(prefix)
    if OBJECT_GRAPH in variables:
        return model_garden.model_garden_checkpoint(prefix, variables)
    for own in _own_files().values():
        if own.variable in variables:
            return imported(own.read_official)(prefix, variables)
    return google.google_checkpoint(prefix, variables)


def _what_it_is(path: str) -> str:
    if os.path.isfile(path):
        return "it is a file. Give its folder, or the prefix of a TensorFlow checkpoint."
    if glob.glob(f"{glob.escape(path)}.data-*"):
        return f"there is no {path}.index beside the data."
    if not _HUB_NAME.fullmatch(path):
        return "there is no such folder."
    # The oldest models of the hub have no owner in their names. The owner of BERT's is google-bert.
    owner = "" if "/" in path else "google-bert/" if path.startswith("bert-") else "owner/"
    return f"there is no such folder. A model of the Hugging Face hub is named {HUB_PREFIX}{owner}{path}."
