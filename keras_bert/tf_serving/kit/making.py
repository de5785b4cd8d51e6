"""Makes a serving kit: a folder with a model and everything that TensorFlow Serving needs beside it."""

import dataclasses
import json
import logging
import os
import pathlib
import re
import shutil
from collections.abc import Mapping, Sequence

from keras_bert.program.atomic_output import atomic_folder, check_output_folder
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import check_links
from keras_bert.program.long_work import long_work
from keras_bert.tf_serving.batching_parameters import Batching
from keras_bert.tf_serving.client.request_batches import ROWS_OF_A_REQUEST
from keras_bert.tf_serving.kit.kit_texts import check_image, check_model_name, kit_texts
from keras_bert.tf_serving.kit.warm_up import DEFAULT_BATCH_SIZES, write_warm_up
from keras_bert.tf_serving.saved_model_check.batching import check_batching
from keras_bert.tf_serving.saved_model_check.checking import check
from keras_bert.tf_serving.saved_model_check.padding import unsafe_inputs
from keras_bert.tf_serving.saved_model_check.reading import read_saved_model
from keras_bert.tf_serving.saved_model_check.report import ERROR
from keras_bert.tf_serving.saved_model_check.served_operations import DEFAULT_VERSIONS, VERSIONS
from keras_bert.tf_serving.saved_model_check.signatures import DEFAULT_SIGNATURE, shape_of
from keras_bert.tf_serving.versions import find_version_folder

_logger = logging.getLogger(__name__)
DEFAULT_IMAGE = "tensorflow/serving:2.19.1"
# It accepts all requests of this package's clients.
DEFAULT_BATCHING = Batching(max_batch_size=ROWS_OF_A_REQUEST, batch_timeout_micros=1000, max_enqueued_batches=100)


def make_serving_kit(
    saved_model: str | os.PathLike,
    output_dir: str | os.PathLike,
    *,
    name: str | None = None,
    batching: Batching | None = None,
    examples: Sequence[Mapping] = (),
    warm_up_batch_sizes: Sequence[int] | None = None,
    image: str = DEFAULT_IMAGE,
) -> str:
    """Writes a folder with a copy of a SavedModel and all that a server needs beside it; returns the folder.

    The SavedModel is checked first and runs its warm-up requests, so the model in the kit loads and answers.

    Args:
        saved_model: a SavedModel, or a folder of versions, of which the highest is copied.
        output_dir: must not exist or be empty; it appears complete or not at all.
        name: the model's name in requests; by default the name of the folder of its versions.
        batching: how the server joins requests. By default it accepts the largest requests of this package's clients.
            Requests of different lengths are then joined if every signature takes the lengths of its rows, so that
            padding does no harm. A `batching` that refuses requests of these clients is logged as a warning.
        examples: rows for warm-up requests, see `write_warm_up`.
        warm_up_batch_sizes: the numbers of rows of these requests. By default those of 1, 2, 8 and 32 that `batching`
            accepts.
        image: the Docker image of TensorFlow Serving. If its tag begins with another version than the default's, the
            SavedModel is checked for that version only.

    Raises:
        InputError: there is no SavedModel, its check finds errors, `batching` falsifies its answers or refuses the
            warm-up requests, a file is a link out of the folder, the name or image needs quoting, or the folder cannot
            be written.
    """
    source = find_version_folder(saved_model)
    version, folder_name = _version_and_name(source)
    name = folder_name if name is None else name
    check_model_name(name)
    check_image(image)
    check_output_folder(output_dir)
    check_links(source, *_folders_in(source))
    _check_servable(source, _versions_of(image))
    signatures = read_saved_model(source).signatures
    if batching is None:
        # Without padding, requests with ids of different lengths fail when they are joined.
        is_safe = not any(map(unsafe_inputs, signatures.values()))
        batching = dataclasses.replace(DEFAULT_BATCHING, pad_variable_length_inputs=is_safe)
    if warm_up_batch_sizes is None:
        warm_up_batch_sizes = sorted({min(size, batching.largest_request) for size in DEFAULT_BATCH_SIZES})
    _check_requests(signatures, batching, warm_up_batch_sizes)
    with long_work(f"making the kit {os.fspath(output_dir)}"), atomic_folder(output_dir) as folder:
        copy = os.path.join(folder, "models", name, str(version))
        shutil.copytree(source, copy)
        with long_work("running warm-up requests"):
            num_requests = write_warm_up(copy, examples, warm_up_batch_sizes)
        texts = kit_texts(
            name=name,
            version=version,
            num_requests=num_requests,
            image=image,
            batching=batching,
            model_bytes=sum(file.stat().st_size for file in pathlib.Path(copy).rglob("*") if file.is_file()),
            request=_sample_request(signatures),
        )
        _write_texts(folder, texts)
    return os.fspath(output_dir)


def _write_texts(folder: str, texts: Mapping[str, str]) -> None:
    for path, text in texts.items():
        file = pathlib.Path(folder, path)
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
        if file.suffix == ".sh":
            file.chmod(0o755)


def _folders_in(source: str) -> list[str]:
    return [
        os.path.relpath(os.path.join(parent, name), source) for parent, names, _ in os.walk(source) for name in names
    ]


def _version_and_name(source: str) -> tuple[int, str]:
    parent, last = os.path.split(os.path.abspath(source))
    if last.isascii() and last.isdigit():
        return int(last), os.path.basename(parent)
    return 1, last


def _versions_of(image: str) -> tuple[str, ...]:
    """Returns the TensorFlow Serving versions to check for: the version of the image, or the default versions."""
    tag = re.search(r":(2\.\d+)(?![^.-])", image)
    return (tag[1],) if image != DEFAULT_IMAGE and tag and tag[1] in VERSIONS else DEFAULT_VERSIONS


def _check_servable(source: str, versions: Sequence[str]) -> None:
    report = check(source, versions)
    if report.errors:
        raise InputError(
            f"TensorFlow Serving cannot serve {source}: {report.errors[0].where}: {report.errors[0].happens} "
            f"{len(report.errors)} such errors in all; see check_saved_model."
        )


def _check_requests(signatures: Mapping, batching: Batching, warm_up_batch_sizes: Sequence[int]) -> None:
    """Raises `InputError` if a server with this batching would refuse the version or falsify its answers."""
    for finding in check_batching(batching, signatures, max(warm_up_batch_sizes, default=0)):
        text = f"{finding.where}: {finding.happens} Do: {finding.remedy}"
        if finding.severity == ERROR:
            raise InputError(text)
        _logger.warning("Warning: %s", text)


def _sample_request(signatures: Mapping) -> str:
    inputs = signatures[DEFAULT_SIGNATURE].inputs
    rows = {key: ["..."] if len(shape_of(tensor) or ()) == 1 else [["..."]] for key, tensor in sorted(inputs.items())}
    # The README has it in single quotes, in a block of code.
    return json.dumps({"inputs": rows}).replace("'", "\\u0027").replace("`", "\\u0060")
