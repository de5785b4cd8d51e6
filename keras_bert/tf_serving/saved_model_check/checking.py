"""Checks a SavedModel for problems in TensorFlow Serving. The model is read, not loaded."""

import os
from collections.abc import Iterator, Sequence

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.saved_model_check.assets import check_assets
from keras_bert.tf_serving.saved_model_check.batching import check_batching
from keras_bert.tf_serving.saved_model_check.operations import (
    check_compiled,
    check_operations,
    check_paths,
    serving_minors,
    text_operations,
)
from keras_bert.tf_serving.saved_model_check.padding import check_padding
from keras_bert.tf_serving.saved_model_check.reading import NotServable, SavedModelFiles, read_saved_model
from keras_bert.tf_serving.saved_model_check.report import Finding, Report, sorted_findings
from keras_bert.tf_serving.saved_model_check.served_operations import DEFAULT_VERSIONS
from keras_bert.tf_serving.saved_model_check.signatures import check_signatures
from keras_bert.tf_serving.saved_model_check.version_folders import check_version_folders
from keras_bert.tf_serving.saved_model_check.warm_up import check_warm_up, largest_warm_up_request
from keras_bert.tf_serving.saved_model_check.weights import check_weights
from keras_bert.tf_serving.versions import check_is_folder, is_saved_model


def check(path: str | os.PathLike, serving_versions: Sequence[str] = DEFAULT_VERSIONS, batching=None) -> Report:
    """Reads a SavedModel, of this package or of any other origin, and reports the problems for TensorFlow Serving.

    Args:
        path: a SavedModel, or a folder of versions, of which the version that a server would load is checked.
        serving_versions: the versions of TensorFlow Serving to check for, such as ["2.19", "2.20"]. They differ in
            their operations.
        batching: the server's batching, a `Batching`; None for a server without batching.

    Raises:
        InputError: there is no SavedModel, it cannot be read, or a version of TensorFlow Serving is unknown.

    Example:
        report = check("saved_models/sentiment")
        assert report.is_clean(), report
    """
    minors = serving_minors(serving_versions)
    versions = tuple(f"2.{minor}" for minor in minors)
    folder, findings = _find(os.fspath(path))
    needed = None
    if folder is not None:
        try:
            model = read_saved_model(folder)
            findings = [*findings, *_all_findings(model, versions)]
            needed = text_operations(model)
            if batching is not None:
                findings += check_batching(batching, model.signatures, largest_warm_up_request(folder))
        except NotServable as reason:
            findings = [*findings, reason.args[0]]
    return Report(folder or os.fspath(path), versions, sorted_findings(findings), needed)


def require_servable(folder: str | os.PathLike, serving_versions: Sequence[str] = DEFAULT_VERSIONS) -> None:
    """Raises `InputError` with all errors that `check` finds, if any. For a SavedModel that was just exported."""
    report = check(folder, serving_versions)
    if report.errors:
        found = " ".join(f"{finding.trap}, {finding.where}: {finding.happens}" for finding in report.errors)
        raise InputError(f"The exported model cannot be served. {found}")


def _find(path: str) -> tuple[str | None, list[Finding]]:
    check_is_folder(path)
    try:
        return (path, []) if is_saved_model(path) else check_version_folders(path)
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from error


def _all_findings(model: SavedModelFiles, versions: Sequence[str]) -> Iterator[Finding]:
    yield from check_signatures(model)
    yield from check_padding(model)
    yield from check_operations(model, versions)
    yield from check_compiled(model)
    yield from check_paths(model)
    yield from check_weights(model)
    yield from check_assets(model)
    yield from check_warm_up(model)
