"""Finds the version of a model that a server would load, in the folder of its versions."""

import os
import re

from keras_bert.tf_serving.saved_model_check.report import Finding, error
from keras_bert.tf_serving.versions import SAVED_MODEL_FILE, is_saved_model, no_saved_model

_NUMBER = re.compile(r"[+-]?\d+", re.ASCII)
_LARGEST = 2**63 - 1


def check_version_folders(path: str) -> tuple[str | None, list[Finding]]:
    """Returns the version that a server would load, or None, and findings about the folders.

    Args:
        path: a folder that is not a SavedModel itself.

    Raises:
        InputError: the folder has neither versions nor a SavedModel below another name.
    """
    names = sorted(name for name in os.listdir(path) if os.path.isdir(os.path.join(path, name)))
    versions = {}
    for name in names:
        if _NUMBER.fullmatch(name) and 0 <= int(name) <= _LARGEST:
            versions.setdefault(int(name), os.path.join(path, name))  # of "001" and "1", servers load one
    if not versions and any(is_saved_model(os.path.join(path, name)) for name in names):
        happens = "No folder has a number as its name, so servers find no version: the model never loads."
        return None, [error("no-version", path, happens, "name the folder of the version 1.")]
    if not versions:
        raise no_saved_model(path)
    newest = versions[max(versions)]
    if not is_saved_model(newest):
        happens = f"It has no {SAVED_MODEL_FILE}: it is incomplete or not a model. Servers try to load it and fail."
        remedy = "write versions under another name and rename them at the end; remove this one."
        return None, [error("half-written-version", os.path.basename(newest), happens, remedy)]
    return newest, []
