"""Finds record files by name, folder or pattern."""

import os
from collections.abc import Sequence

from keras_bert.program.errors import InputError


def list_records(patterns: str | Sequence[str]) -> list[str]:
    """Returns the record files that match `patterns`, sorted and without duplicates.

    A name without wildcards matches itself. A folder matches all `*.tfrecord*` and `*.tf_record*` files in it.
    Manifests and other `.json` files are left out. Remote names (`gs://...`) work as everywhere in TensorFlow.

    Raises:
        InputError: one of the patterns matches nothing.
    """
    import tensorflow as tf

    patterns = patterns.split(",") if isinstance(patterns, str) else list(patterns)
    patterns = [os.fspath(pattern).strip() for pattern in patterns]
    if not any(patterns):
        raise InputError("No record file was given. Name TFRecord files, a folder of them, or a pattern like 'data/*'.")
    found: dict[str, str] = {}
    for pattern in filter(None, patterns):
        is_folder = tf.io.gfile.isdir(pattern)
        if is_folder:
            names = tf.io.gfile.glob([os.path.join(pattern, ending) for ending in ("*.tfrecord*", "*.tf_record*")])
        else:
            # The name of an existing file is not a pattern: it may contain a bracket.
            names = [pattern] if tf.io.gfile.exists(pattern) else tf.io.gfile.glob(pattern)
        names = [name for name in names if not name.endswith(".json") and not tf.io.gfile.isdir(name)]
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
