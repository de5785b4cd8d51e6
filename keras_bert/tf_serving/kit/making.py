"""A serving kit: one folder with a model, ready for TensorFlow Serving."""

import json
import logging
import os
import re
import shutil
from collections.abc import Mapping, Sequence

from keras_bert.program.atomic_output import atomic_folder, check_output_folder
from keras_bert.program.errors import InputError
from keras_bert.tf_serving.kit.kubernetes import kubernetes_manifest
from keras_bert.tf_serving.kit.server_files import (
    DEFAULT_METRICS_PATH,
    Batching,
    ServedModel,
    check_model_name,
    models_text,
    monitoring_text,
)
from keras_bert.tf_serving.kit.start_scripts import bare_script, docker_script
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

_README = """\
# {name}, ready to serve

| file | what it is |
|---|---|
| `models/{name}/{version}/` | the model, with {num_requests} warm-up requests in `assets.extra/` |
| `config/models.config` | which models and versions are served |
| `config/batching.config` | how requests are joined; `load_test_server` proposes values for your machine |
| `config/monitoring.config` | metrics for Prometheus at `{metrics_path}` |
| `serve_with_docker.sh` | starts the server in Docker ({image}) |
| `serve.sh` | starts an installed `tensorflow_model_server` |
| `kubernetes.yaml` | the same for Kubernetes |

Start it, then ask:

```bash
./serve_with_docker.sh &
curl http://localhost:8501/v1/models/{name}
curl -d '{request}' http://localhost:8501/v1/models/{name}:predict
```

{joining}

A request has at most {largest_request} rows: `max_batch_size` in `config/batching.config`.

A new version is a new folder `models/{name}/{next_version}`. Copy it under a name that is no number, then rename it:
the server takes it within ten seconds and drops the old one when the new one answers.

Both scripts and the image listen without a password and without encryption. The scripts open the ports to this machine
only, unless `LISTEN=0.0.0.0` is set for Docker; `serve.sh` has no such setting, since `tensorflow_model_server` always
listens on all addresses: keep a firewall before it.
"""

_JOINS_ANY_LENGTH = """\
Requests of different lengths are joined: `pad_variable_length_inputs` is on in `config/batching.config`."""
_JOINS_EQUAL_LENGTHS = """\
`pad_variable_length_inputs` is off in `config/batching.config`. Requests with a variable second axis (ids, lists of
texts) that come at once must have the same number of columns, or the server refuses them. Plain texts have no such
axis."""


def make_serving_kit(
    saved_model: str | os.PathLike,
    output_dir: str | os.PathLike,
    *,
    name: str | None = None,
    batching: Batching | None = None,
    examples: Sequence[Mapping] = (),
    warm_up_batch_sizes: Sequence[int] | None = None,
    image: str = DEFAULT_IMAGE,
    metrics_path: str = DEFAULT_METRICS_PATH,
) -> str:
    """Writes a folder with a copy of a SavedModel and all that a server needs beside it; returns the folder.

    The SavedModel is checked first, and its warm-up requests are answered, so what is in the kit loads and answers.

    Args:
        saved_model: a SavedModel, or the folder of its versions, of which the highest is taken.
        output_dir: must not exist or be empty; it appears whole or not at all.
        name: what requests call the model; by default the name of the folder of its versions.
        batching: how the server joins requests. By default it takes requests as large as clients of this package send,
            and requests of different lengths are joined where every signature says where a row ends, so that padding
            does no harm. One that refuses the requests of these clients is logged as a warning.
        examples: rows for warm-up requests, see `write_warm_up`.
        warm_up_batch_sizes: how many rows these requests have. By default 1, 2, 8 and 32, as far as `batching` takes
            such requests.
        image: the Docker image of TensorFlow Serving. If its tag begins with another version than the default's, the
            SavedModel has to fit that one only.
        metrics_path: where the server gives its metrics.

    Raises:
        InputError: there is no SavedModel, its check finds errors, `batching` falsifies its answers or refuses the
            warm-up requests, or the folder cannot be written.
    """
    source = find_version_folder(saved_model)
    version, folder_name = _version_and_name(source)
    name = folder_name if name is None else name
    check_model_name(name)
    check_output_folder(output_dir)
    batching = _checked_batching(source, batching, _versions_of(image))
    if warm_up_batch_sizes is None:
        warm_up_batch_sizes = sorted({min(size, batching.largest_request) for size in DEFAULT_BATCH_SIZES})
    _check_requests(source, batching, warm_up_batch_sizes)
    config = {
        "models.config": models_text([ServedModel(name, f"/models/{name}")]),
        "batching.config": batching.text(),
        "monitoring.config": monitoring_text(metrics_path),
    }
    with atomic_folder(output_dir) as folder:
        copy = os.path.join(folder, "models", name, str(version))
        shutil.copytree(source, copy)
        num_requests = write_warm_up(copy, examples, warm_up_batch_sizes)
        for file, text in config.items():
            _write(os.path.join(folder, "config", file), text)
        size = sum(os.path.getsize(os.path.join(parent, file)) for parent, _, files in os.walk(copy) for file in files)
        manifest = kubernetes_manifest(name, image, config, metrics_path, size)
        _write(os.path.join(folder, "kubernetes.yaml"), manifest)
        _write(os.path.join(folder, "serve_with_docker.sh"), docker_script(name, image), executable=True)
        _write(os.path.join(folder, "serve.sh"), bare_script(name), executable=True)
        readme = _readme_text(name, version, num_requests, image, metrics_path, _sample_request(copy), batching)
        _write(os.path.join(folder, "README.md"), readme)
    return os.fspath(output_dir)


def _version_and_name(source: str) -> tuple[int, str]:
    parent, last = os.path.split(os.path.abspath(source))
    if last.isascii() and last.isdigit():
        return int(last), os.path.basename(parent)
    return 1, last


def _versions_of(image: str) -> tuple[str, ...]:
    """Returns the versions of TensorFlow Serving that a SavedModel must fit: one, if another image names it."""
    tag = re.search(r":(2\.\d+)(?![^.-])", image)
    return (tag[1],) if image != DEFAULT_IMAGE and tag and tag[1] in VERSIONS else DEFAULT_VERSIONS


def _checked_batching(source: str, batching: Batching | None, versions: Sequence[str]) -> Batching:
    """Returns how the server is to join requests to a SavedModel, which is checked too."""
    report = check(source, versions)
    if report.errors:
        raise InputError(
            f"TensorFlow Serving cannot serve {source}: {report.errors[0].where}: {report.errors[0].happens} "
            f"{len(report.errors)} such errors in all; see check_saved_model."
        )
    signatures = read_saved_model(source).signatures
    unsafe = {name: inputs for name in signatures if (inputs := unsafe_inputs(signatures[name]))}
    if batching is None:
        # Without padding, servers refuse to join ids of different lengths, and requests fail.
        return Batching(pad_variable_length_inputs=not unsafe)
    if batching.pad_variable_length_inputs and unsafe:
        name, inputs = next(iter(unsafe.items()))
        raise InputError(
            f"pad_variable_length_inputs would falsify the answers of the signature {name}: servers fill "
            f"{', '.join(inputs)} with its first value, and nothing says where a row ends. Leave it off."
        )
    return batching


def _check_requests(source: str, batching: Batching, warm_up_batch_sizes: Sequence[int]) -> None:
    """Raises `InputError` when a server with this batching would refuse the version or falsify its answers."""
    signatures = read_saved_model(source).signatures
    for finding in check_batching(batching, signatures, max(warm_up_batch_sizes, default=0)):
        text = f"{finding.where}: {finding.happens} Do: {finding.remedy}"
        if finding.severity == ERROR:
            raise InputError(text)
        _logger.warning("Warning: %s", text)


def _readme_text(
    name: str, version: int, num_requests: int, image: str, metrics_path: str, request: str, batching: Batching
) -> str:
    return _README.format(
        name=name,
        version=version,
        next_version=version + 1,
        num_requests=num_requests,
        metrics_path=metrics_path,
        image=image,
        request=request,
        largest_request=batching.largest_request,
        joining=_JOINS_ANY_LENGTH if batching.pad_variable_length_inputs else _JOINS_EQUAL_LENGTHS,
    )


def _sample_request(folder: str) -> str:
    inputs = read_saved_model(folder).signatures[DEFAULT_SIGNATURE].inputs
    rows = {key: ["..."] if len(shape_of(tensor) or ()) == 1 else [["..."]] for key, tensor in sorted(inputs.items())}
    return json.dumps({"inputs": rows})


def _write(path: str, text: str, executable: bool = False) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    if executable:
        os.chmod(path, 0o755)
