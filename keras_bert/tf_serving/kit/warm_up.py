"""Writes the warm-up file of a SavedModel: requests that a server runs before it accepts requests of clients.

The first call of each signature takes many times as long as later calls.
"""

import os
import random
from collections.abc import Iterator, Mapping, Sequence

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.record_files import framed_record
from keras_bert.tf_serving.kit.sample_requests import as_arrays, made_up_inputs, made_up_row
from keras_bert.tf_serving.loading import load_text_operations
from keras_bert.tf_serving.saved_model_check.operations import check_compiled
from keras_bert.tf_serving.saved_model_check.reading import SavedModelFiles, read_saved_model
from keras_bert.tf_serving.saved_model_check.signatures import DEFAULT_SIGNATURE
from keras_bert.tf_serving.saved_model_check.warm_up import MOST_RECORDS, WARM_UP_FILE
from keras_bert.tf_serving.server.loaded_model import ServedModel
from keras_bert.tf_serving.server.status import StatusError
from keras_bert.tf_serving.server.warm_up import run_log

DEFAULT_BATCH_SIZES = (1, 2, 8, 32)
# Words of the made-up texts: a headline, a sentence, a paragraph.
DEFAULT_LENGTHS = (4, 24, 96)
_EXAMPLE_SIGNATURES = ("classify", "regress")


def write_warm_up(
    version_folder: str | os.PathLike,
    examples: Sequence[Mapping] = (),
    batch_sizes: Sequence[int] = DEFAULT_BATCH_SIZES,
) -> int:
    """Writes `assets.extra/tf_serving_warmup_requests` and returns how many requests it has.

    The file has predict requests of every batch size for `serving_default`, classify and regress requests if the model
    has these signatures, and one small request for every other signature. The SavedModel runs all of them first, since
    a failing request keeps a server from loading the model.

    Args:
        version_folder: one version of a SavedModel.
        examples: rows for `serving_default`, input -> text or list of texts, such as {"text": "a wonderful film"},
            similar to the requests of clients. By default, made-up texts of several lengths.
        batch_sizes: the numbers of rows of the requests.

    Raises:
        InputError: there is no SavedModel, it does not accept or answer an example, there are more than 1000 requests,
            or the file cannot be written.
    """
    if not batch_sizes or min(batch_sizes) < 1:
        raise InputError(f"Batch sizes are whole numbers from 1. Received: {list(batch_sizes)}")
    version_folder = os.fspath(version_folder)
    model = read_saved_model(version_folder)
    if DEFAULT_SIGNATURE not in model.signatures:
        raise InputError(f"{version_folder} has no signature {DEFAULT_SIGNATURE}.")
    names = set(model.signatures[DEFAULT_SIGNATURE].inputs)
    for number, example in enumerate(examples, start=1):
        if set(example) != names:
            raise InputError(
                f"Example {number} has the inputs {', '.join(sorted(example)) or 'nothing'}, but the model takes "
                f"{', '.join(sorted(names))}."
            )
    logs = list(_logs(model, list(examples), sorted(set(batch_sizes))))
    if len(logs) > MOST_RECORDS:
        raise InputError(f"A server takes {MOST_RECORDS} warm-up requests at most. Received: {len(logs)}")
    replay(version_folder, logs)
    with atomic_file(os.path.join(version_folder, WARM_UP_FILE)) as file:
        for log in logs:
            file.write(framed_record(log.SerializeToString(deterministic=True)))
    return len(logs)


def replay(version_folder: str, logs: Sequence) -> None:
    """Runs every request in the SavedModel. Raises `InputError` with the number and error of one that fails."""
    load_text_operations()
    model = ServedModel(version_folder)
    try:
        for number, log in enumerate(logs, start=1):
            try:
                run_log(model, log)
            except StatusError as error:
                name = getattr(log, log.WhichOneof("log_type")).request.model_spec.signature_name
                raise InputError(
                    f"Warm-up request {number}, for the signature {name}, fails, so a server would not load the model: "
                    f"{error.message.strip().splitlines()[0]}"
                ) from error
    finally:
        model.close()


def _logs(model: SavedModelFiles, examples: list[Mapping], batch_sizes: Sequence[int]) -> Iterator:
    draw = random.Random(0)
    signature = model.signatures[DEFAULT_SIGNATURE]
    groups = [examples] if examples else [[made_up_row(signature, length, draw)] for length in DEFAULT_LENGTHS]
    # A request to a signature that XLA must compile would keep a stock server from loading the model.
    compiled = {finding.where.removeprefix("signature ").split(",")[0] for finding in check_compiled(model)}
    for rows in groups:
        for size in batch_sizes:
            batch = [rows[number % len(rows)] for number in range(size)]
            yield _log("predict", DEFAULT_SIGNATURE, as_arrays(batch))
            for name in _EXAMPLE_SIGNATURES:
                if name in set(model.signatures) - compiled:
                    yield _log(name, name, as_arrays(batch))
    for name in model.signatures:
        if name not in (DEFAULT_SIGNATURE, *_EXAMPLE_SIGNATURES) and name not in compiled:
            yield _log("predict", name, made_up_inputs(model, name, groups[0][:1]))


def _log(kind: str, signature: str, inputs: Mapping):
    """Returns the `PredictionLog` of a request; `kind` is predict, classify or regress."""
    from keras_bert.tf_serving.client.grpc_format import GrpcFormat
    from keras_bert.tf_serving.wire import messages

    log = messages.PredictionLog()
    request = getattr(GrpcFormat("", "", None, None), kind)(signature, inputs)
    getattr(log, f"{kind}_log").request.CopyFrom(request.message)
    return log
