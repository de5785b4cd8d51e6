"""Checks the warm-up file: the requests that a server runs before it makes a version available."""

import contextlib
import itertools
import os
from collections.abc import Iterator

from keras_bert.program.errors import InputError
from keras_bert.program.record_files import iterate_records
from keras_bert.tf_serving.saved_model_check.reading import SavedModelFiles
from keras_bert.tf_serving.saved_model_check.report import Finding, error
from keras_bert.tf_serving.saved_model_check.signatures import DEFAULT_SIGNATURE

WARM_UP_FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")
MOST_RECORDS = 1000
# The inputs and outputs of TF Serving's Classify and Regress (classifier.cc, regressor.cc).
_EXAMPLE_SIGNATURES = {"classify_log": ({"classes", "scores"}, "Classify"), "regress_log": ({"outputs"}, "Regress")}
_FAILS = "The version does not load."


def check_warm_up(model: SavedModelFiles) -> Iterator[Finding]:
    """Yields findings about the warm-up file. Every record is compared with the signatures."""
    path = os.path.join(model.folder, WARM_UP_FILE)
    if not os.path.isfile(path):
        return
    count = 0
    try:
        for count, record in enumerate(iterate_records(path), start=1):
            problem = _problem(model, record) if count <= MOST_RECORDS else None
            if problem:
                where = f"{WARM_UP_FILE}, record {count}"
                yield error("warm-up", where, f"{problem} {_FAILS}", "write the file again: make_serving_kit.")
    except InputError as failure:
        yield error("warm-up", WARM_UP_FILE, f"{failure} {_FAILS}", "write the file again: make_serving_kit.")
        return
    if count > MOST_RECORDS:
        happens = f"It has {count:,} records, but servers accept at most {MOST_RECORDS:,}. {_FAILS}"
        yield error("warm-up", WARM_UP_FILE, happens, "write fewer requests.")


def largest_warm_up_request(folder: str) -> int:
    """Returns the number of rows of the largest request in a warm-up file; 0 if no request can be read."""
    from google.protobuf.message import DecodeError

    from keras_bert.tf_serving.wire import messages

    path, largest = os.path.join(folder, WARM_UP_FILE), 0
    if not os.path.isfile(path):
        return 0
    # Errors in the file itself are reported by `check_warm_up`, or when a server replays it.
    with contextlib.suppress(InputError, DecodeError):
        for record in itertools.islice(iterate_records(path), MOST_RECORDS):
            largest = max(largest, _rows(messages.PredictionLog.FromString(record)))
    return largest


def _rows(log) -> int:
    kind = log.WhichOneof("log_type")
    if kind == "predict_log":
        shapes = [tensor.tensor_shape for tensor in log.predict_log.request.inputs.values()]
        return max((shape.dim[0].size for shape in shapes if shape.dim), default=0)
    if kind in (*_EXAMPLE_SIGNATURES, "multi_inference_log"):
        request = getattr(log, kind).request
        examples = getattr(request.input, request.input.WhichOneof("kind") or "example_list").examples
        return len(examples)
    return 0


def _problem(model: SavedModelFiles, record: bytes) -> str | None:
    """Returns the reason why a server would refuse a record, as a sentence."""
    from google.protobuf.message import DecodeError

    from keras_bert.tf_serving.wire import messages

    try:
        log = messages.PredictionLog.FromString(record)
    except DecodeError:
        return "It is not a PredictionLog."
    kind = log.WhichOneof("log_type")
    if kind == "multi_inference_log":
        tasks = [task.model_spec for task in log.multi_inference_log.request.tasks]
        return next(filter(None, (_missing_signature(model, task) for task in tasks)), None)
    if kind == "predict_log":
        return _predict_problem(model, log.predict_log.request)
    if kind not in _EXAMPLE_SIGNATURES:
        return "It is neither a predict, classify, regress nor multi-inference request (Unimplemented)."
    specification = getattr(log, kind).request.model_spec
    missing = _missing_signature(model, specification)
    if missing:
        return missing
    name = specification.signature_name or DEFAULT_SIGNATURE
    outputs, method = _EXAMPLE_SIGNATURES[kind]
    signature = model.signatures[name]
    if set(signature.inputs) != {"inputs"} or not outputs & set(signature.outputs):
        return f"{method} needs the input 'inputs' and {' or '.join(sorted(outputs))}, but signature {name} has others."
    return None


def _predict_problem(model: SavedModelFiles, request) -> str | None:
    missing = _missing_signature(model, request.model_spec)
    if missing:
        return missing
    name = request.model_spec.signature_name or DEFAULT_SIGNATURE
    signature = model.signatures[name]
    expected, given = set(signature.inputs), set(request.inputs)
    if expected - set(signature.defaults) - given or given - expected:
        return f"It sends {_listed(given)} to signature {name}, which takes {_listed(expected)}."
    for key in sorted(given):
        if request.inputs[key].dtype != signature.inputs[key].dtype:
            return f"It sends the input {key} to signature {name} with another type than the signature has."
    return None


def _missing_signature(model: SavedModelFiles, specification) -> str | None:
    name = specification.signature_name or DEFAULT_SIGNATURE
    if name in model.signatures:
        return None
    return f"It is for the signature {name}, which does not exist. There are: {_listed(model.signatures)}."


def _listed(names) -> str:
    return ", ".join(sorted(names)) or "nothing"
