"""Makes a serving kit: a folder with a model and everything that TensorFlow Serving needs beside it."""

import json
import os
import pathlib
import re
import shutil
from collections.abc import Mapping, Sequence

from keras_bert.program.atomic_output import atomic_folder, check_output_folder
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import check_links
from keras_bert.program.long_work import long_work
from keras_bert.tf_serving.client.request_batches import ROWS_OF_A_REQUEST
from keras_bert.tf_serving.kit.kit_texts import check_image, check_model_name, kit_texts
from keras_bert.tf_serving.kit.warm_up import DEFAULT_BATCH_SIZES, require_messages, write_warm_up
from keras_bert.tf_serving.saved_model_check.checking import require_servable, unsafe_inputs
from keras_bert.tf_serving.saved_model_check.reading import read_saved_model, shape_of
from keras_bert.tf_serving.saved_model_check.served_operations import DEFAULT_VERSIONS, VERSIONS
from keras_bert.tf_serving.versions import find_version_folder

DEFAULT_IMAGE = "tensorflow/serving:2.19.1"


def make_serving_kit(
    saved_model: str | os.PathLike,
    output_dir: str | os.PathLike,
    *,
    name: str | None = None,
    examples: Sequence[Mapping] = (),
    warm_up_batch_sizes: Sequence[int] = DEFAULT_BATCH_SIZES,
    image: str = DEFAULT_IMAGE,
) -> str:
    """Writes a folder with a copy of a SavedModel and all that a server needs beside it; returns the folder.

    The SavedModel is checked first and runs its warm-up requests, so the model in the kit loads and answers. The server
    joins requests of different lengths if every signature takes the lengths of its rows, so that padding does no harm.

    Args:
        saved_model: a SavedModel, or a folder of versions, of which the highest is copied.
        output_dir: must not exist or be empty; it appears complete or not at all.
        name: the model's name in requests; by default the name of the folder of its versions.
        examples: rows for warm-up requests, see `write_warm_up`.
        warm_up_batch_sizes: the numbers of rows of these requests, at most the 64 that the kit's server accepts.
        image: the Docker image of TensorFlow Serving. If its tag begins with another version than the default's, the
            SavedModel is checked for that version only.

    Raises:
        InputError: there is no SavedModel, its check finds errors, a warm-up request is too large or fails, a file is a
            link out of the folder, the name or image needs quoting, the folder cannot be written, or
            tensorflow-serving-api is not installed.
    """
    source = find_version_folder(saved_model)
    version, folder_name = _version_and_name(source)
    name = folder_name if name is None else name
    check_model_name(name)
    check_image(image)
    # Servers set up batching before they warm up, so a larger request would keep the version from loading.
    if max(warm_up_batch_sizes, default=0) > ROWS_OF_A_REQUEST:
        raise InputError(
            f"A request to the kit's server has at most {ROWS_OF_A_REQUEST} rows. Received warm-up requests of "
            f"{max(warm_up_batch_sizes)} rows."
        )
    require_messages()
    check_output_folder(output_dir)
    folders = [os.path.join(parent, name) for parent, names, _ in os.walk(source) for name in names]
    check_links(source, *(os.path.relpath(inner, source) for inner in folders))
    require_servable(source, _versions_of(image))
    signatures = read_saved_model(source).signatures
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
            pads=not any(map(unsafe_inputs, signatures.values())),
            model_bytes=sum(file.stat().st_size for file in pathlib.Path(copy).rglob("*") if file.is_file()),
            request=_sample_request(signatures),
        )
        for path, text in texts.items():
            file = pathlib.Path(folder, path)
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, "utf-8")
            if file.suffix == ".sh":
                file.chmod(0o755)
    return os.fspath(output_dir)


def _version_and_name(source: str) -> tuple[int, str]:
    parent, last = os.path.split(os.path.abspath(source))
    if last.isascii() and last.isdigit():
        return int(last), os.path.basename(parent)
    return 1, last


def _versions_of(image: str) -> tuple[str, ...]:
    """Returns the TensorFlow Serving versions to check for: the version of the image, or the default versions."""
    tag = re.search(r":(2\.\d+)(?![^.-])", image)
    return (tag[1],) if image != DEFAULT_IMAGE and tag and tag[1] in VERSIONS else DEFAULT_VERSIONS


def _sample_request(signatures: Mapping) -> str:
    inputs = signatures["serving_default"].inputs
    rows = {key: ["..."] if len(shape_of(tensor) or ()) == 1 else [["..."]] for key, tensor in sorted(inputs.items())}
    # The README has it in single quotes, in a block of code.
    return json.dumps({"inputs": rows}).replace("'", "\\u0027").replace("`", "\\u0060")
