"""What is looked at before records are trained on: whether a file has its end, and whether a model can take them."""

import numpy as np
import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.record_files import detect_compression


def check_is_whole(path: str, first_record: bytes) -> None:
    """Raises `InputError` when the end of a file is missing. What is packed shows that only when all of it is read."""
    if not detect_compression(path) and not _ends_with_a_record(path, len(first_record)):
        raise InputError(f"{path} is cut off in the middle of a record: whatever wrote it was stopped. Make it again.")


def _ends_with_a_record(path: str, first_length: int) -> bool:
    """Whether the end of the file is the end of a record; found without reading what is before the last one.

    A record is framed by its length (8 bytes), a checksum (4), its bytes, and a checksum (4). So 16 bytes and a
    record's length before the end, that very length must stand.
    """
    size = tf.io.gfile.stat(path).length
    # The last record may be longer than the first: numbers take one to three bytes each, mostly two.
    tail_size = min(size, 1024 + 16 * first_length)
    with tf.io.gfile.GFile(path, "rb") as file:
        file.seek(size - tail_size)
        tail = np.frombuffer(file.read(tail_size), np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(tail, 8)
    lengths = np.ascontiguousarray(windows).view("<u8").ravel()
    return bool((lengths + np.uint64(16) == tail_size - np.arange(len(lengths), dtype=np.uint64)).any())


def check_length(config: BertConfig, max_seq_length: int, path: str) -> None:
    """Raises `InputError` when the rows of a file are longer than a model of this config can take."""
    try:
        config.check_sequence_length(max_seq_length)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
