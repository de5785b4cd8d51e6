"""Checks whether TensorFlow Serving can load a SavedModel, and pad its requests. The model is read, not loaded."""

import os
from collections.abc import Sequence

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.saved_model_check.operations import check_operations, text_operations
from keras_bert.tf_serving.saved_model_check.padding import check_padding
from keras_bert.tf_serving.saved_model_check.reading import read_saved_model
from keras_bert.tf_serving.saved_model_check.report import Report
from keras_bert.tf_serving.saved_model_check.served_operations import DEFAULT_VERSIONS
from keras_bert.tf_serving.versions import find_version_folder


def check(path: str | os.PathLike, serving_versions: Sequence[str] = DEFAULT_VERSIONS) -> Report:
    """Reads a SavedModel, of this package or of any other origin, and reports the problems for TensorFlow Serving.

    Args:
        path: a SavedModel, or a folder of versions, of which the highest is checked.
        serving_versions: the versions of TensorFlow Serving to check for, such as ["2.19", "2.20"]. They differ in
            their operations.

    Raises:
        InputError: there is no SavedModel, it cannot be read, or a version of TensorFlow Serving is unknown.

    Example:
        report = check("saved_models/sentiment")
        assert report.is_clean(), report
    """
    folder = find_version_folder(path)
    graph = read_saved_model(folder)
    findings = [*check_operations(graph, serving_versions), *check_padding(graph)]
    findings.sort(key=lambda finding: finding.severity)  # errors before warnings
    return Report(folder, tuple(serving_versions), tuple(findings), text_operations(graph))


def require_servable(folder: str | os.PathLike, serving_versions: Sequence[str] = DEFAULT_VERSIONS) -> None:
    """Raises `InputError` with all errors that `check` finds, if any."""
    errors = check(folder, serving_versions).errors
    if errors:
        found = " ".join(f"{finding.trap}, {finding.where}: {finding.happens}" for finding in errors)
        raise InputError(f"TensorFlow Serving cannot serve {os.fspath(folder)}. {found}")
