"""The text files of a kit: the files of `templates/` with the values of one model filled in.

Values are filled in unquoted. `make_serving_kit` first refuses names, images and paths that would need quoting in
shells, YAML or addresses.
"""

import math
import pathlib
import re
import string
import textwrap

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.client.request_batches import ROWS_OF_A_REQUEST

_TEMPLATES = pathlib.Path(__file__).parent / "templates"
# Names that need no quoting in addresses, metrics and shells.
_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@-]*")
# Memory of the server itself in MiB, and memory for weights and batches per byte of the version on disk.
_SERVER_MEMORY, _MEMORY_PER_DISK = 512, 1.5

_JOINS_ANY_LENGTH = """\
Requests of different lengths are joined: `pad_variable_length_inputs` is on in `config/batching.config`."""
_JOINS_EQUAL_LENGTHS = """\
`pad_variable_length_inputs` is off in `config/batching.config`. Requests with a variable second axis (ids, lists of
texts) that come at once must have the same number of columns, or the server refuses them. Plain texts have no such
axis."""


class _Template(string.Template):
    # Shell scripts are full of "$".
    delimiter = "@@"


def kit_texts(
    *, name: str, version: int, num_requests: int, image: str, pads: bool, model_bytes: int, request: str
) -> dict[str, str]:
    """Returns the text files of a kit: path in the kit -> text.

    Args:
        name: the model's name in requests. Names of Kubernetes objects are made from it.
        num_requests: how many warm-up requests the version has.
        pads: whether the server joins requests of different lengths, and pads the short ones.
        model_bytes: the size of the version on disk, from which memory is estimated.
        request: the JSON of a sample request.
    """
    size = model_bytes / (1 << 20)
    values = {
        "name": name,
        "label": kubernetes_name(name),
        "version": version,
        "next_version": version + 1,
        "num_requests": num_requests,
        "image": image,
        # It accepts all requests of this package's clients.
        "largest_request": ROWS_OF_A_REQUEST,
        "pads": str(pads).lower(),
        "joining": _JOINS_ANY_LENGTH if pads else _JOINS_EQUAL_LENGTHS,
        "request": request,
        "model_bytes": f"{model_bytes:,}",
        # Room for four versions on disk, and for two in memory.
        "storage": max(1024, math.ceil(4 * size)),
        "memory_request": math.ceil(_SERVER_MEMORY + _MEMORY_PER_DISK * size),
        "memory_limit": math.ceil(_SERVER_MEMORY + 2 * _MEMORY_PER_DISK * size),
    }
    config = {path.name: _filled(path, values) for path in sorted((_TEMPLATES / "config").iterdir())}
    values["config"] = "".join(f"  {file}: |\n{textwrap.indent(text, '    ')}" for file, text in config.items())
    others = {path.name: _filled(path, values) for path in sorted(_TEMPLATES.iterdir()) if path.is_file()}
    return {**{f"config/{file}": text for file, text in config.items()}, **others}


def check_image(image: str) -> None:
    """Raises `InputError` for a Docker image whose name a shell or YAML would have to quote."""
    if not _IMAGE.fullmatch(image):
        raise InputError(
            f"The name of a Docker image has letters, digits and '_.:/@-', and starts with a letter or a digit. "
            f"Received: {image!r}"
        )


def check_model_name(name: str) -> None:
    """Raises `InputError` for names that need quoting in addresses, shells or metrics."""
    if not _MODEL_NAME.fullmatch(name):
        raise InputError(
            f"The name of a model consists of letters, digits, '_', '.' and '-', and starts with a letter or a digit. "
            f"Received: {name!r}"
        )


def kubernetes_name(name: str) -> str:
    """Returns a name with the characters that Kubernetes allows: `Sentiment_v1` -> `sentiment-v1`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:50].strip("-")


def _filled(template: pathlib.Path, values: dict) -> str:
    """Returns the text of a template with its placeholders, `@@{name}`, replaced by values."""
    return _Template(template.read_text("utf-8")).substitute(values)
