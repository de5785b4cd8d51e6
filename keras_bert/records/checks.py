"""Checks record files before training: whether they are complete, and whether the rows fit a model."""

import numpy as np
import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.record_files import detect_compression


def check_is_whole(path: str, first_record: bytes) -> None:
    """Raises `InputError` if the end of a plain file is missing. A compressed file is checked only when it is read."""
    if not detect_compression(path) and not _ends_with_a_record(path, len(first_record)):
        raise InputError(
            f"{path} is cut off in the middle of a record: the program that wrote it was stopped. Make it again."
        )


def _ends_with_a_record(path: str, first_length: int) -> bool:
    """Returns whether the file ends where a record ends. Reads only the end of the file.

    A record's frame is its length (8 bytes), a checksum (4), the record, and a checksum (4). So somewhere there must be
    a length that is exactly 16 bytes less than the distance from there to the end of the file.
    """
    size = tf.io.gfile.stat(path).length
    # The last record may be longer than the first: a number takes one to three bytes, mostly two.
    tail_size = min(size, 1024 + 16 * first_length)
    with tf.io.gfile.GFile(path, "rb") as file:
        file.seek(size - tail_size)
        tail = np.frombuffer(file.read(tail_size), np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(tail, 8)
    lengths = np.ascontiguousarray(windows).view("<u8").ravel()
    return bool((lengths + np.uint64(16) == tail_size - np.arange(len(lengths), dtype=np.uint64)).any())


def check_length(config: BertConfig, max_seq_length: int, path: str) -> None:
    """Raises `InputError` if the model has fewer positions than the rows of the file have columns."""
    try:
        config.check_sequence_length(max_seq_length)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
