"""Checks whether TensorFlow Serving can load a SavedModel, and pad its requests. The model is read, not loaded."""

import collections
import dataclasses
import functools
import os
import re
from collections.abc import Iterator, Sequence

from keras_bert.program.errors import InputError
from keras_bert.program.private_interfaces import private
from keras_bert.tf_serving.saved_model_check.reading import SavedModelGraph, read_saved_model, shape_of, type_name
from keras_bert.tf_serving.saved_model_check.served_operations import (
    DEFAULT_VERSIONS,
    FOREST_PREFIX,
    LAST_WITHOUT,
    PYTHON_OPERATIONS,
    TEXT_SINCE,
    VERSIONS,
)
from keras_bert.tf_serving.versions import find_version_folder

_LENGTHS = re.compile(r"(^|_)(lengths?|num|number|counts?|sizes?)(_|$)")
_MASK = re.compile(r"(^|_)mask(s|ing)?(_|$)")
# The model does not load, or requests fail.
ERROR = "error"
# The same, or answers are wrong, in some versions or configurations of a server.
WARNING = "warning"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One problem.

    Attributes:
        severity: `ERROR` or `WARNING`.
        trap: a short name of the problem; docs/serving_run.md lists all names.
        where: the operation or the signature.
        happens: the problem, and its consequence in TensorFlow Serving.
        remedy: the advice to the user.
    """

    severity: str
    trap: str
    where: str
    happens: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.trap}, {self.where}\n  {self.happens}\n  Do: {self.remedy}"


# Functions from (trap, where, happens, remedy) to a finding.
_error, _warning = (functools.partial(Finding, severity) for severity in (ERROR, WARNING))


@dataclasses.dataclass(frozen=True)
class Report:
    """All findings about one SavedModel.

    Attributes:
        path: the checked folder, one version.
        serving_versions: the versions of TensorFlow Serving that it was checked for.
        findings: the findings, errors first.
        text_operations: the operations of TensorFlow Text in the model.
    """

    path: str
    serving_versions: tuple[str, ...]
    findings: tuple[Finding, ...]
    text_operations: tuple[str, ...]

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == ERROR]

    @property
    def warnings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == WARNING]

    def is_clean(self, strict: bool = False) -> bool:
        """Returns whether there is no error and, if `strict`, no warning either."""
        return not (self.findings if strict else self.errors)

    def __str__(self) -> str:
        text_operations = ", ".join(self.text_operations) or "nothing"
        summary = (
            f"{self.path}: {len(self.errors)} error(s), {len(self.warnings)} warning(s), for TensorFlow Serving "
            f"{', '.join(self.serving_versions)}; needs of TensorFlow Text: {text_operations}"
        )
        return "\n\n".join([*map(str, self.findings), summary])


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
    findings = [*_check_operations(graph, serving_versions), *_check_padding(graph)]
    findings.sort(key=lambda finding: finding.severity)  # errors before warnings
    text_operations = sorted({node.op for _, node in graph.served_nodes()} & TEXT_SINCE.keys())
    return Report(folder, tuple(serving_versions), tuple(findings), tuple(text_operations))


def require_servable(folder: str | os.PathLike, serving_versions: Sequence[str] = DEFAULT_VERSIONS) -> None:
    """Raises `InputError` with all errors that `check` finds, if any."""
    errors = check(folder, serving_versions).errors
    if errors:
        found = " ".join(f"{finding.trap}, {finding.where}: {finding.happens}" for finding in errors)
        raise InputError(f"TensorFlow Serving cannot serve {os.fspath(folder)}. {found}")


def _check_operations(graph: SavedModelGraph, versions: Sequence[str]) -> Iterator[Finding]:
    """Yields operations that some of the `versions` of TensorFlow Serving lack or cannot run."""
    unknown = [version for version in versions if version not in VERSIONS]
    if unknown or not versions:
        raise InputError(
            f"Give versions of TensorFlow Serving from {VERSIONS[0]} to {VERSIONS[-1]}. Received: "
            f"{', '.join(map(repr, unknown)) or 'none'}"
        )
    minors = sorted({int(version.removeprefix("2.")) for version in versions})
    users = collections.defaultdict(set)
    for function, node in graph.served_nodes():
        if node.op not in graph.functions:
            users[node.op].update(graph.users_of(function, node.name))
    for operation in sorted(users):
        signatures = ", ".join(sorted(users[operation]))
        place = f"in signature {signatures}" if signatures else "in a part that no signature uses"
        yield from _findings(operation, f"operation {operation}, {place}", minors)


def _findings(operation: str, where: str, minors: list[int]) -> Iterator[Finding]:
    registered = private("tensorflow.python.framework.op_def_registry.get")
    fails = f"The model does not load (Op type not registered '{operation}' in binary running on ...)."
    if operation in LAST_WITHOUT:
        certain, possible = LAST_WITHOUT[operation]
        lacking = [minor for minor in minors if minor <= certain]
        unsure = [minor for minor in minors if certain < minor <= possible]
        if lacking:
            newer = f", or serve with TensorFlow Serving 2.{minors[-1]}" if minors[-1] > possible else ""
            happens = f"TensorFlow Serving {_span(lacking)} does not include it. {fails}"
            yield _error("missing-operation", where, happens, f"use older operations{newer}.")
        if unsure:
            happens = f"It was added after TensorFlow 2.12: TensorFlow Serving {_span(unsure)} may lack it. {fails}"
            yield _warning("newer-operation", where, happens, "use older operations, or try it in your server.")
    elif operation in PYTHON_OPERATIONS:
        happens = (
            "It calls a function of the Python process that made the graph (tf.py_function, tf.numpy_function). No "
            "server has that function: requests that need it fail."
        )
        yield _error("python-operation", where, happens, "write it in TensorFlow operations.")
    elif not operation.startswith(FOREST_PREFIX) and registered(operation) is None:
        happens = f"Neither TensorFlow nor TensorFlow Text has it, so stock TensorFlow Serving does not either. {fails}"
        yield _error("custom-operation", where, happens, "use TensorFlow's operations, or build a server that has it.")


def _span(minors: list[int]) -> str:
    return f"2.{minors[0]}" if len(minors) == 1 else f"2.{minors[0]} to 2.{minors[-1]}"


def unsafe_inputs(signature) -> dict[str, list[int]]:
    """Returns the inputs that the server's padding falsifies, with the axes that it would lengthen.

    An axis is safe if an integer input without other variable axes has the lengths along it. With `input_ids [B, S]`
    and `lengths [B]` no input is unsafe; `choices [B, C]` alone is unsafe.
    """
    shapes = {key: shape_of(tensor) for key, tensor in signature.inputs.items()}
    variable = {
        key: [axis for axis in range(1, len(shape or ())) if shape[axis] == -1] for key, shape in shapes.items()
    }
    counts = any(
        shape is not None and len(shape) == 1 and _LENGTHS.search(key) and "INT" in type_name(signature.inputs[key])
        for key, shape in shapes.items()
    )
    # Lengths [B] give the length of axis 1; for [B, C, S], nothing gives the length of axis 1.
    most = max(map(len, variable.values()), default=0)
    is_safe = counts and most == 1 and not any(_MASK.search(key) for key in variable if variable[key])
    return {} if is_safe else {key: axes for key, axes in sorted(variable.items()) if axes}


def _check_padding(graph: SavedModelGraph) -> Iterator[Finding]:
    """Yields findings about `pad_variable_length_inputs`, an option of a server's batching.

    Servers that join requests of different lengths pad the shorter ones with the first value of their tensor
    (tensorflow_serving/batching/batching_util.cc): [CLS] for ids, 1 for a mask. Models that take lengths ignore the
    padding. Without lengths, answers depend on the other requests of the batch.
    """
    for name, signature in graph.signatures.items():
        unsafe = unsafe_inputs(signature)
        masks = [key for key in unsafe if _MASK.search(key)]
        integers = [key for key in unsafe if "INT" in type_name(signature.inputs[key])]
        where = f"signature {name}, input {', '.join(map(repr, unsafe))}"
        if masks:
            yield _warning(
                "padded-mask",
                where,
                "With pad_variable_length_inputs, servers pad short requests with the first value of the tensor, "
                f"which turns the padding of {', '.join(masks)} into ones: answers are wrong, without an error.",
                "take lengths [B] instead of the mask, or text; otherwise never switch that option on.",
            )
        elif integers and not any(_LENGTHS.search(key) for key in signature.inputs):
            yield _warning(
                "padded-ids",
                where,
                "With pad_variable_length_inputs, servers pad short requests with the first value of the tensor, and "
                "no other input has the lengths of the rows: answers are wrong, without an error.",
                "add an input lengths [B], or take text; otherwise never switch that option on.",
            )
