"""Writes and reads configuration files of TensorFlow Serving, in protobuf's text format: models and batching.

Values are checked with the rules that the server applies when it starts. Every text is parsed again before it is
returned.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.client.request_batches import ROWS_OF_A_REQUEST

# Names that need no quoting in addresses, metrics and shells.
_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_LARGEST = 2**63 - 1
DEFAULT_METRICS_PATH = "/monitoring/prometheus/metrics"


@dataclasses.dataclass(frozen=True)
class Batching:
    """How a server joins requests: its `BatchingParameters` (session_bundle_config.proto). None means its default.

    Attributes:
        max_batch_size: the most rows of a request, and of a batch without splitting. The default accepts all requests
            of this package's clients.
        batch_timeout_micros: how long the first request of a batch waits for others.
        max_enqueued_batches: how many batches may wait; further requests are refused (UNAVAILABLE, 503).
        num_batch_threads: how many batches run at once.
        thread_pool_name: the name of these threads.
        enable_large_batch_splitting: whether requests are split to fill batches. This falsifies answers of variable
            width.
        max_execution_batch_size: with splitting, the most rows of a batch.
        allowed_batch_sizes: batches are padded to the next of these sizes.
        pad_variable_length_inputs: whether requests of different lengths are padded with the first value of each
            tensor. This falsifies the answers of models that take ids and a mask.

    Raises:
        InputError: the server would refuse a value or a combination of values.
    """

    max_batch_size: int | None = ROWS_OF_A_REQUEST
    batch_timeout_micros: int | None = 1000
    max_enqueued_batches: int | None = 100
    num_batch_threads: int | None = None
    thread_pool_name: str | None = None
    enable_large_batch_splitting: bool | None = None
    max_execution_batch_size: int | None = None
    allowed_batch_sizes: Sequence[int] = ()
    pad_variable_length_inputs: bool = False

    def __post_init__(self):
        for name, lowest in (
            ("max_batch_size", 1),
            ("batch_timeout_micros", 0),
            ("max_enqueued_batches", 1),
            ("num_batch_threads", 1),
            ("max_execution_batch_size", 1),
        ):
            value = getattr(self, name)
            if value is not None:
                _check_number(name, value, lowest)
        for name in ("enable_large_batch_splitting", "pad_variable_length_inputs"):
            if not isinstance(getattr(self, name), (bool, type(None))):
                raise InputError(f"{name} must be true or false. Received: {getattr(self, name)!r}")
        if self.thread_pool_name is not None and not self.thread_pool_name:
            raise InputError("thread_pool_name must not be empty.")
        self._check_splitting()
        self._check_allowed_sizes()

    def _check_splitting(self) -> None:
        if self.max_execution_batch_size is None:
            return
        if not self.enable_large_batch_splitting:
            raise InputError("max_execution_batch_size is for enable_large_batch_splitting, which is not switched on.")
        if self.max_execution_batch_size > (self.max_batch_size or _SERVER_MAX_BATCH_SIZE):
            raise InputError(
                f"max_execution_batch_size must be at most max_batch_size, which is "
                f"{self.max_batch_size or _SERVER_MAX_BATCH_SIZE}. Received: {self.max_execution_batch_size}"
            )

    def _check_allowed_sizes(self) -> None:
        sizes = list(self.allowed_batch_sizes)
        for size in sizes:
            _check_number("allowed_batch_sizes", size, 1)
        if any(size >= following for size, following in zip(sizes, sizes[1:], strict=False)):
            raise InputError(f"allowed_batch_sizes must grow from one to the next. Received: {sizes}")
        last = self.max_batch_size or _SERVER_MAX_BATCH_SIZE
        if sizes and sizes[-1] != last:
            raise InputError(f"The last of allowed_batch_sizes must be max_batch_size, {last}. Received: {sizes}")
        # bundle_factory_util.cc compares the last size with max_batch_size, batching_session.cc with this one.
        if sizes and self.max_execution_batch_size not in (None, last):
            raise InputError(
                f"With allowed_batch_sizes, max_execution_batch_size must be max_batch_size too, {last}. Received: "
                f"{self.max_execution_batch_size}"
            )

    @property
    def largest_request(self) -> int:
        """The rows of the largest request that the server accepts, with splitting too."""
        most = self.max_batch_size or _SERVER_MAX_BATCH_SIZE
        if not self.enable_large_batch_splitting:
            return most
        queue = self.max_enqueued_batches or _SERVER_MAX_ENQUEUED_BATCHES
        return min(most, queue * (self.max_execution_batch_size or most))

    def text(self) -> str:
        """Returns the file for `--batching_parameters_file`."""
        message = _message("BatchingParameters")
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "allowed_batch_sizes":
                message.allowed_batch_sizes.extend(value)
            elif field.name == "pad_variable_length_inputs":
                message.pad_variable_length_inputs = value
            elif value is not None:
                getattr(message, field.name).value = value
        return _text(message)


# The server's defaults.
_SERVER_MAX_BATCH_SIZE = 1000
_SERVER_MAX_ENQUEUED_BATCHES = 10


def read_batching(text: str) -> Batching:
    """Returns the parameters of a batching file's text. Raises `InputError` if servers would refuse it."""
    from google.protobuf import text_format

    try:
        message = text_format.Parse(text, _message("BatchingParameters"))
    except text_format.ParseError as error:
        raise InputError(f"This is no batching file of TensorFlow Serving: {error}") from error
    values = {}
    for field in dataclasses.fields(Batching):
        if field.name == "allowed_batch_sizes":
            values[field.name] = tuple(message.allowed_batch_sizes)
        elif field.name == "pad_variable_length_inputs":
            values[field.name] = message.pad_variable_length_inputs
        else:
            values[field.name] = getattr(message, field.name).value if message.HasField(field.name) else None
    return Batching(**values)


def read_batching_file(path: str) -> Batching:
    """Returns the parameters of a batching file. Raises `InputError` if it is unreadable or servers would refuse it."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read {path}: {error}") from error
    return read_batching(text)


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """One model of a server: a `ModelConfig` (model_server_config.proto).

    Attributes:
        name: the model's name in requests.
        base_path: the absolute path of its versions on the server.
        latest: how many of the highest versions are served.
        versions: if given, exactly these versions are served.
        labels: name -> version, for requests by label; a label of `versions` if these are given.

    Raises:
        InputError: the server would refuse a value or a combination of values.
    """

    name: str
    base_path: str
    latest: int = 1
    versions: Sequence[int] = ()
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        check_model_name(self.name)
        if not re.match(r"/|[a-z][a-z0-9+.-]*://", self.base_path):
            raise InputError(f"base_path must be an absolute path or an address. Received: {self.base_path!r}")
        _check_number("latest", self.latest, 1)
        for version in [*self.versions, *self.labels.values()]:
            _check_number("a version", version, 0)
        if len(set(self.versions)) != len(self.versions):
            raise InputError(f"Each version is given once. Received: {list(self.versions)}")
        for label, version in self.labels.items():
            if not label or re.search(r"\s|/", label):
                raise InputError(f"A label of a version must have no spaces and no slashes. Received: {label!r}")
            if self.versions and version not in self.versions:
                raise InputError(
                    f"The label {label} is for version {version}, which is not served. Served: {list(self.versions)}"
                )


def models_text(models: Sequence[ServedModel]) -> str:
    """Returns the file for `--model_config_file`.

    Raises:
        InputError: there is no model, or two have the same name.
    """
    names = [model.name for model in models]
    if not names or len(set(names)) != len(names):
        raise InputError(f"A server needs models of different names. Received: {', '.join(names) or 'none'}")
    message = _message("ModelServerConfig")
    for model in models:
        config = message.model_config_list.config.add(
            name=model.name, base_path=model.base_path, model_platform="tensorflow"
        )
        if model.versions:
            config.model_version_policy.specific.versions.extend(model.versions)
        else:
            config.model_version_policy.latest.num_versions = model.latest
        for label, version in sorted(model.labels.items()):
            config.version_labels[label] = version
    return _text(message)


def check_metrics_path(path: str) -> None:
    """Raises `InputError` for a path of metrics that does not start with a slash, needs quoting, or is below /v1."""
    if not re.fullmatch(r"(/[A-Za-z0-9_.~-]+)+", path):
        raise InputError(f"The path of the metrics must be like {DEFAULT_METRICS_PATH}. Received: {path!r}")
    if path.lower() == "/v1" or path.lower().startswith("/v1/"):
        raise InputError(f"Below /v1 servers answer requests to models. Give another path of metrics than {path}.")


def check_model_name(name: str) -> None:
    """Raises `InputError` for names that need quoting in addresses, shells or metrics."""
    if not _MODEL_NAME.fullmatch(name):
        raise InputError(
            f"The name of a model consists of letters, digits, '_', '.' and '-', and starts with a letter or a digit. "
            f"Received: {name!r}"
        )


def _check_number(name: str, value: int, lowest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= _LARGEST:
        raise InputError(f"{name} must be a whole number from {lowest} to 2^63 - 1. Received: {value!r}")


def _message(kind: str):
    from keras_bert.tf_serving.wire import messages

    return getattr(messages, kind)()


def _text(message) -> str:
    from google.protobuf import text_format

    text = text_format.MessageToString(message)
    assert text_format.Parse(text, type(message)()) == message
    return text
