"""Checks the folder of versions of a model, and finds the version that a server would load."""

import collections
import os
import re
from collections.abc import Iterator

from keras_bert.program.atomic_output import PARTIAL
from keras_bert.program.errors import InputError
from keras_bert.tf_serving.saved_model_check.report import ERROR, WARNING, Finding, error, note, warning
from keras_bert.tf_serving.versions import SAVED_MODEL_FILE

_NUMBER = re.compile(r"[+-]?\d+", re.ASCII)
_LARGEST = 2**63 - 1


def check_version_folders(path: str) -> tuple[str | None, list[Finding]]:
    """Returns the version that a server would load, or None, and findings about the folders.

    Args:
        path: a folder that is not a SavedModel itself.

    Raises:
        InputError: the folder has neither versions nor folders that look like a version.
    """
    names = sorted(name for name in os.listdir(path) if os.path.isdir(os.path.join(path, name)))
    versions, findings = collections.defaultdict(list), []
    for name in names:
        if _NUMBER.fullmatch(name) and 0 <= int(name) <= _LARGEST:
            versions[int(name)].append(name)
        else:
            findings += _other_folder(path, name)
    for number, same in sorted(versions.items()):
        findings += _same_number(number, same)
    if not versions:
        if not findings:
            inside = ", ".join(sorted(os.listdir(path))[:5]) or "nothing"
            raise InputError(
                f"{path} is not a SavedModel: it has neither {SAVED_MODEL_FILE} nor a folder of a version, such as 1. "
                f"It has: {inside}."
            )
        happens = "No folder has a number as its name, so servers find no version: the model never loads."
        findings.append(error("no-version", path, happens, "name the folder of the version 1."))
        return None, findings
    highest = max(versions)
    for number in sorted(versions):
        findings += _incomplete(path, versions[number][0], number == highest)
    newest = os.path.join(path, versions[highest][0])
    return (newest if os.path.isfile(os.path.join(newest, SAVED_MODEL_FILE)) else None), findings


def _other_folder(path: str, name: str) -> Iterator[Finding]:
    is_model = os.path.isfile(os.path.join(path, name, SAVED_MODEL_FILE))
    if PARTIAL in name or name.startswith((".tmp", "tmp", "temp")):
        happens = "It remains from an export or copy that did not finish. Servers ignore it; it takes disk space."
        yield note("unfinished-version", name, happens, "remove it unless an export is under way.")
    elif is_model:
        happens = "It holds a SavedModel, but servers ignore it, since its name is not an integer."
        yield warning("version-name", name, happens, "name it with a number, such as 1.")
    elif not name.startswith(".") and _NUMBER.fullmatch(name):
        happens = "Servers ignore it: versions are integers from 0 to 2^63 - 1."
        yield warning("version-name", name, happens, "name it with such a number.")


def _same_number(number: int, names: list[str]) -> Iterator[Finding]:
    if len(names) > 1:
        happens = f"They are the same version {number}. Servers load one of them and ignore the others."
        yield warning("same-version", " and ".join(names), happens, "leave only one of them.")


def _incomplete(path: str, name: str, is_highest: bool) -> Iterator[Finding]:
    folder = os.path.join(path, name)
    if os.path.isfile(os.path.join(folder, SAVED_MODEL_FILE)):
        return
    consequence = "Servers try to load this version and fail" if is_highest else "Servers told to load it fail"
    happens = f"It has no {SAVED_MODEL_FILE}: it is incomplete or not a model. {consequence}."
    remedy = "write versions under another name and rename them at the end; remove this one."
    yield Finding(ERROR if is_highest else WARNING, "half-written-version", name, happens, remedy)
