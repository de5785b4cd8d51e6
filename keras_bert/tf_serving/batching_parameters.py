"""How TensorFlow Serving joins requests: its `BatchingParameters`, as an object and as a file."""

import dataclasses
import os
from collections.abc import Sequence

from keras_bert.program.errors import InputError
from keras_bert.tf_serving.wire.text_files import read_text_message, text_of

_LARGEST = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class Batching:
    """The fields of TensorFlow Serving's batching file (session_bundle_config.proto), with the server's defaults.

    Attributes:
        max_batch_size: the most rows of a request, with splitting too, and of a batch without splitting.
        batch_timeout_micros: how long a batch waits for more rows. While all threads are busy, batches fill up in any
            case.
        max_enqueued_batches: how many batches of a signature may wait; further requests are refused (UNAVAILABLE, 503).
        num_batch_threads: how many batches run at once; None means one for each core.
        thread_pool_name: the name of these threads.
        enable_large_batch_splitting: whether requests with more rows than `max_execution_batch_size` are split. This
            falsifies answers of variable width.
        max_execution_batch_size: with splitting, the most rows of a batch.
        allowed_batch_sizes: batches are padded to the next of these sizes, with copies of the first row.
        pad_variable_length_inputs: whether requests of different lengths are joined, padded with the first value of
            each tensor. This falsifies the answers of models that take ids and a mask.

    Raises:
        InputError: the server would refuse a value or a combination of values.
    """

    max_batch_size: int = 1000
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 10
    num_batch_threads: int | None = None
    thread_pool_name: str | None = None
    enable_large_batch_splitting: bool = False
    max_execution_batch_size: int | None = None
    allowed_batch_sizes: Sequence[int] = ()
    pad_variable_length_inputs: bool = False

    def __post_init__(self):
        _check_number("max_batch_size", self.max_batch_size, 1)
        _check_number("batch_timeout_micros", self.batch_timeout_micros, 0)
        _check_number("max_enqueued_batches", self.max_enqueued_batches, 1)
        for name in ("num_batch_threads", "max_execution_batch_size"):
            if getattr(self, name) is not None:
                _check_number(name, getattr(self, name), 1)
        for name in ("enable_large_batch_splitting", "pad_variable_length_inputs"):
            if not isinstance(getattr(self, name), bool):
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
        if self.max_execution_batch_size > self.max_batch_size:
            raise InputError(
                f"max_execution_batch_size must be at most max_batch_size, which is {self.max_batch_size}. "
                f"Received: {self.max_execution_batch_size}"
            )

    def _check_allowed_sizes(self) -> None:
        sizes, last = list(self.allowed_batch_sizes), self.max_batch_size
        for size in sizes:
            _check_number("allowed_batch_sizes", size, 1)
        if sizes != sorted(set(sizes)):
            raise InputError(f"allowed_batch_sizes must grow from one to the next. Received: {sizes}")
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
        if not self.enable_large_batch_splitting:
            return self.max_batch_size
        return min(
            self.max_batch_size, self.max_enqueued_batches * (self.max_execution_batch_size or self.max_batch_size)
        )

    def text(self) -> str:
        """Returns the file for `--batching_parameters_file`, with the values that differ from the server's defaults."""
        from keras_bert.tf_serving.wire import messages

        message = messages.BatchingParameters()
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value == field.default:
                continue
            if field.name == "allowed_batch_sizes":
                message.allowed_batch_sizes.extend(value)
            elif field.name == "pad_variable_length_inputs":
                message.pad_variable_length_inputs = value
            else:
                getattr(message, field.name).value = value
        return text_of(message)


def read_batching_file(path: str | os.PathLike) -> Batching:
    """Returns the parameters of a batching file. Raises `InputError` if it is unreadable or servers would refuse it."""
    from keras_bert.tf_serving.wire import messages

    message = read_text_message(path, messages.BatchingParameters)
    given = {}
    for field in dataclasses.fields(Batching):
        if field.name == "allowed_batch_sizes":
            given[field.name] = tuple(message.allowed_batch_sizes)
        elif field.name == "pad_variable_length_inputs":
            given[field.name] = message.pad_variable_length_inputs
        elif message.HasField(field.name):
            given[field.name] = getattr(message, field.name).value
    try:
        return Batching(**given)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _check_number(name: str, value: int, lowest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= _LARGEST:
        raise InputError(f"{name} must be a whole number from {lowest} to 2^63 - 1. Received: {value!r}")
