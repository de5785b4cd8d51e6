"""Finds record files by name, folder or pattern."""

import glob
import os
from collections.abc import Callable, Sequence

from keras_bert.program.errors import InputError


def list_records(patterns: str | Sequence[str]) -> list[str]:
    """Returns the record files that match `patterns`, sorted and without duplicates.

    A name without wildcards matches itself. A folder matches all `*.tfrecord*` and `*.tf_record*` files in it.
    Manifests and other `.json` files are left out. Remote names (`gs://...`) work as everywhere in TensorFlow.

    Raises:
        InputError: one of the patterns matches nothing.
    """
    patterns = patterns.split(",") if isinstance(patterns, str) else list(patterns)
    patterns = [os.fspath(pattern).strip() for pattern in patterns]
    if not any(patterns):
        raise InputError("No record file was given. Name TFRecord files, a folder of them, or a pattern like 'data/*'.")
    found: dict[str, str] = {}
    for pattern in filter(None, patterns):
        is_a_folder, exists, matches = _file_system(pattern)
        is_folder = is_a_folder(pattern)
        if is_folder:
            parent = pattern if "://" in pattern else glob.escape(pattern)
            endings = ("*.tfrecord*", "*.tf_record*")
            names = [name for ending in endings for name in matches(os.path.join(parent, ending))]
        else:
            # The name of an existing file is not a pattern: it may contain a bracket.
            names = [pattern] if exists(pattern) else matches(pattern)
        names = [name for name in names if not name.endswith(".json") and not is_a_folder(name)]
        if not names:
            raise InputError(
                f"The folder {pattern} has no file named *.tfrecord*. Name its files, or another folder."
                if is_folder
                else f"No file matches {pattern}. Check the name."
            )
        # One file may have several names: `a` and `./a`, or through a link.
        for name in sorted(names):
            found.setdefault(name if "://" in name else os.path.realpath(name), name)
    return sorted(found.values())


def _file_system(pattern: str) -> tuple[Callable, Callable, Callable]:
    """Returns the functions isdir, exists and glob. Only remote names need TensorFlow, whose import takes seconds."""
    if "://" not in pattern:
        return os.path.isdir, os.path.exists, glob.glob
    import tensorflow as tf

    return tf.io.gfile.isdir, tf.io.gfile.exists, tf.io.gfile.glob
