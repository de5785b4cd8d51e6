"""Reads the manifests beside files of pre-training and fine-tuning records."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import LARGEST_FILE
from keras_bert.program.json_files import parse_small_json
from keras_bert.tokenization.tokenizer import TokenTable

# The files of a finished and an unfinished create_pretraining_data, and that of create_finetuning_data.
_ENDINGS = ("manifest.json", "unfinished.json", "metadata.json")


def read_manifests(folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the path and the content of each manifest in a folder. Files that cannot be read as JSON are skipped."""
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
                # The manifest of a hundred thousand files has 30 MB.
                data = file.read(LARGEST_FILE + 1)
            manifest = parse_small_json(data, path) if len(data) <= LARGEST_FILE else None
        except (OSError, InputError, tf.errors.OpError):
            continue
        if isinstance(manifest, dict):
            yield path, manifest


def vocabulary_hashes(manifest: Mapping[str, Any]) -> set[str]:
    """Returns the SHA-256 hashes of the vocabularies that a manifest names, normally one."""
    hashes = set(values_of(manifest, "vocabulary_sha256"))
    vocabulary = manifest.get("vocabulary")  # in the metadata of fine-tuning records
    if isinstance(vocabulary, dict):
        hashes.add(vocabulary.get("sha256"))
    return {value for value in hashes if isinstance(value, str)}


def values_of(manifest: Mapping[str, Any], key: str) -> Iterator[Any]:
    """Yields the numbers and texts under `key`, at any depth of nested objects."""
    for name, value in manifest.items():
        if isinstance(value, dict):
            yield from values_of(value, key)
        elif name == key and not isinstance(value, list):
            yield value


def listed_files(path: str, manifest: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the real path and the entry of each file that the manifest at `path` lists."""
    files = manifest.get("files")
    for entry in files.values() if isinstance(files, dict) else files if isinstance(files, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("name"), str):
            yield real_path(os.path.join(os.path.dirname(path), entry["name"])), entry


def real_path(path: str) -> str:
    """Returns the same path for all names of a file."""
    return path if "://" in path else os.path.realpath(path)


def check_vocabulary(paths: Iterable[str], vocabulary: TokenTable) -> None:
    """Raises `InputError` if a manifest says that a record file was made with another vocabulary.

    Records may have been made before tokens were added to the vocabulary. Files without a manifest, such as those of
    google-research/bert, and files that were replaced later are not checked.
    """
    listed = {real_path(path): path for path in paths}
    matching: set[str] = set()
    manifests: dict[str, str] = {}
    for folder in sorted({os.path.dirname(path) for path in listed}):
        for manifest_path, manifest in read_manifests(folder):
            hashes = vocabulary_hashes(manifest)
            is_match = any(map(vocabulary.begins_with, hashes))
            for path, entry in listed_files(manifest_path, manifest) if hashes else ():
                if path in listed and not _is_replaced(path, entry):
                    if is_match:
                        matching.add(path)
                    manifests.setdefault(path, manifest_path)
    for path, manifest_path in manifests.items():
        if path not in matching:  # one of several manifests may be outdated
            raise InputError(
                f"{listed[path]}: its records were made with another vocabulary, as {manifest_path} says, so their ids "
                "stand for other tokens than the model's. Make the records with the vocabulary of the model, or give "
                "the one that they were made with (--vocab_file)."
            )


def _is_replaced(path: str, entry: Mapping[str, Any]) -> bool:
    """Returns whether the file has another size than the manifest says."""
    if "num_bytes" not in entry:
        return False
    import tensorflow as tf

    return tf.io.gfile.stat(path).length != entry["num_bytes"]
