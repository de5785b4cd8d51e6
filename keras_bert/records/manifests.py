"""What the manifests beside record files say about them: those of pre-training records and of fine-tuning records."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.tokenization.vocabulary import Vocabulary

# A finished and an unfinished run of create_pretraining_data, and what create_finetuning_data writes.
_ENDINGS = ("manifest.json", "unfinished.json", "metadata.json")
# That of a hundred thousand files has 30 MB.
_MOST_BYTES = 1 << 28


def read_manifests(folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the path and the contents of each manifest in a folder. What cannot be read as one is passed over."""
    import tensorflow as tf

    is_remote = "://" in folder
    try:
        names = tf.io.gfile.listdir(folder) if is_remote else os.listdir(folder)
    except (OSError, tf.errors.OpError):
        return
    for name in sorted(names):
        if not name.endswith(_ENDINGS):
            continue
        path = os.path.join(folder, name)
        try:
            with tf.io.gfile.GFile(path, "rb") if is_remote else open(path, "rb") as file:
                data = file.read(_MOST_BYTES + 1)
            manifest = json.loads(data) if len(data) <= _MOST_BYTES else None
        except (OSError, ValueError, RecursionError, tf.errors.OpError):
            continue
        if isinstance(manifest, dict):
            yield path, manifest


def vocabulary_hashes(manifest: Mapping[str, Any]) -> set[str]:
    """Returns the SHA-256 of the vocabulary that a manifest names: one, if all is well."""
    found = set(values_of(manifest, "vocabulary_sha256"))
    vocabulary = manifest.get("vocabulary")  # of fine-tuning records
    if isinstance(vocabulary, dict):
        found.add(vocabulary.get("sha256"))
    return {value for value in found if isinstance(value, str)}


def values_of(manifest: Mapping[str, Any], key: str) -> Iterator[Any]:
    """Yields the numbers and texts that a key has, at any depth of objects."""
    for name, value in manifest.items():
        if isinstance(value, dict):
            yield from values_of(value, key)
        elif name == key and not isinstance(value, list):
            yield value


def listed_files(path: str, manifest: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the real path of each file that the manifest at `path` lists, and what it says of the file."""
    files = manifest.get("files")
    for entry in files.values() if isinstance(files, dict) else files if isinstance(files, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("name"), str):
            yield real_path(os.path.join(os.path.dirname(path), entry["name"])), entry


def real_path(path: str) -> str:
    """Returns one spelling for all names of a file."""
    return path if "://" in path else os.path.realpath(path)


def check_vocabulary(paths: Iterable[str], vocabulary: Vocabulary) -> None:
    """Raises `InputError` when a manifest says that one of the record files was made with another vocabulary.

    A vocabulary that tokens were added to takes the records from before. Files that no manifest lists, such as those of
    google-research/bert, and files that were replaced later, are taken as they are.
    """
    listed = {real_path(path): path for path in paths}
    right: set[str] = set()
    found: dict[str, str] = {}
    for folder in sorted({os.path.dirname(path) for path in listed}):
        for manifest_path, manifest in read_manifests(folder):
            hashes = vocabulary_hashes(manifest)
            is_right = any(map(vocabulary.begins_with, hashes))
            for path, entry in listed_files(manifest_path, manifest) if hashes else ():
                if path in listed and not _is_replaced(path, entry):
                    if is_right:
                        right.add(path)
                    found.setdefault(path, manifest_path)
    for path, manifest_path in found.items():
        if path not in right:  # one of several manifests may be older
            raise InputError(
                f"{listed[path]}: its records were made with another vocabulary, as {manifest_path} says, so their ids "
                "stand for other tokens than the model's. Make the records with the vocabulary of the model, or give "
                "the one that they were made with (--vocab_file)."
            )


def _is_replaced(path: str, entry: Mapping[str, Any]) -> bool:
    """Whether a file is not the one that a manifest speaks of."""
    if "num_bytes" not in entry:
        return False
    import tensorflow as tf

    return tf.io.gfile.stat(path).length != entry["num_bytes"]
