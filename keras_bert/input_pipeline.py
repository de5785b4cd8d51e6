"""TFRecord files and rows of tokens -> batches for `fit`, `evaluate` and `predict`."""

import contextlib
import functools
import itertools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from keras_bert import features
from keras_bert.config import BertConfig
from keras_bert.dynamic_masking import DynamicMasking
from keras_bert.errors import InputError
from keras_bert.record_files import detect_compression, iterate_records
from keras_bert.record_form import look_at_files
from keras_bert.tasks.token_rows import RowBatches, TokenRows
from keras_bert.tokenization.vocabulary import Vocabulary

# Records that are mixed: about 10 MB at length 128.
_SHUFFLE_BUFFER = 10_000
# Files that are read at once.
_MOST_OPEN_FILES = 16
# Records that are handed from Python to TensorFlow at once.
_RECORDS_AT_ONCE = 256


def pretraining_dataset(
    patterns: str | Sequence[str],
    batch_size: int,
    *,
    max_seq_length: int | None = None,
    max_predictions_per_seq: int | None = None,
    shuffle: bool = True,
    repeat: bool = True,
    seed: int = 0,
    config: BertConfig | None = None,
    vocabulary: Vocabulary | None = None,
    masking: Mapping[str, object] | None = None,
) -> tf.data.Dataset:
    """Reads pre-training records, those of google-research/bert and of TF Model Garden alike, plain, gzip or zstd.

    The files are looked at first: the beginning of each, and whether its end is there. What is damaged in between shows
    while they are read: see `naming_damaged_records`.

    Args:
        patterns: files, folders (all `*.tfrecord*` in them) or patterns; one, several with commas, or a sequence.
        max_seq_length, max_predictions_per_seq: lengths in the records; taken from the first record when None. Where
            records have no masks, how many a row is to get at most; by default enough for all its sequences.
        shuffle: mixes the files and their records, anew in every epoch. Without it they come in order.
        repeat: starts over for ever and gives full batches only, for training. Without it one epoch is given whole,
            its last batch as small as it comes, for evaluation.
        seed: the same seed gives the same batches in the same order, with the same masks.
        config: the model that will take the batches; lengths and ids must fit it.
        vocabulary: that of the records. Only records without masks need it: they are masked while they are read, on
            the host and by NumPy, anew in every epoch; see `DynamicMasking`.
        masking: how records without masks are masked, name -> value: `masked_lm_prob`, `do_whole_word_mask`,
            `max_ngram_size` and the other fields of `MaskingOptions`, and `replacement_tokens`.

    Returns:
        A dataset of dict name -> tensor (batch, length) with all pre-training features: int32, and
        `masked_lm_weights` float32. `next_sentence_labels` are (batch, 1). Packed rows have K sequences at most:
        `next_sentence_labels`, `cls_positions` and `next_sentence_weights`, float32, are (batch, K).

    Raises:
        InputError: nothing matches; a file holds no records or is cut off; its records lack a feature, or have other
            lengths than asked for or another form than the other files, or ids that the config's vocabulary does not
            have; the vocabulary is missing, or `masking` is given for records that have masks.

    Example:
        >>> dataset = pretraining_dataset("records", batch_size=32)
        >>> model.fit(dataset, steps_per_epoch=1000)
    """
    _check_batch_size(batch_size)
    first_records, form = look_at_files(patterns, max_seq_length, max_predictions_per_seq)
    for path, record in first_records.items():
        _check_is_whole(path, record)
        if config is not None:
            _check_fits(features.parse([record], form.features, form.aliases), config, path)

    masks = _masks_to_make(form, next(iter(first_records)), max_predictions_per_seq, vocabulary, masking, seed)
    records = _read_files(list(first_records), shuffle, seed)
    if repeat:
        # After the shuffle: an epoch ends before the next begins, and each is in an order of its own.
        records = records.repeat()
    batches = records.batch(batch_size, drop_remainder=repeat).map(
        lambda batch: features.parse(batch, form.features, form.aliases), num_parallel_calls=tf.data.AUTOTUNE
    )
    if masks is not None:
        batches = masks.apply(batches)
    return _prefetched(batches)


def rows_dataset(
    rows: TokenRows,
    batch_size: int,
    *,
    shuffle: bool = False,
    repeat: bool = False,
    seed: int = 0,
    start_step: int = 0,
) -> tf.data.Dataset:
    """Batches of rows of like length, each padded to its longest; see `RowBatches` for the order.

    Args:
        rows: what a text task has encoded.
        shuffle: mixes the examples, anew in every epoch. Without it the longest come first.
        repeat: starts over for ever.
        seed: the same seed gives the same batches in the same order.
        start_step: the number of batches that were taken before.

    Returns:
        A dataset of dict name -> tensor: `input_ids`, `input_mask`, `segment_ids`, int32 (batch, length), or
        (batch, choices, length), and the columns of `rows.labels`. The last batch of an epoch may be smaller.

    Raises:
        InputError: there is no row, or `batch_size` is below 1.
    """
    if not len(rows):
        raise InputError("There is no example to make a batch of.")
    batches = RowBatches(rows, batch_size, seed if shuffle else None)
    example = rows.batch(np.array([0]))
    signature = {
        name: tf.TensorSpec([None, *(None if name in (*rows.tokens, features.INPUT_MASK) else n for n in shape)], dtype)
        for name, shape, dtype in ((name, values.shape[1:], values.dtype) for name, values in example.items())
    }
    # Nothing here is for AutoGraph to convert, and looking for it takes two seconds.
    from_step = tf.autograph.experimental.do_not_convert(
        functools.partial(batches.from_step, start_step, None if repeat else 1)
    )
    cardinality = tf.data.INFINITE_CARDINALITY if repeat else max(0, len(batches) - start_step)
    dataset = tf.data.Dataset.from_generator(from_step, output_signature=signature)
    return _prefetched(dataset.apply(tf.data.experimental.assert_cardinality(cardinality)))


def _prefetched(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    # The thread that tunes sleeps, twice as long every time, up to a minute. TensorFlow 2.21 often fails to wake it at
    # the end: then whoever drops the iterator, as `fit` and `predict` do, waits about as long as it was in use.
    options.autotune.enabled = False
    return dataset.prefetch(2).with_options(options)


def _check_batch_size(batch_size: int) -> None:
    if batch_size < 1:
        raise InputError(f"batch_size must be 1 or more. Received: {batch_size}")


@contextlib.contextmanager
def naming_damaged_records(patterns: str | Sequence[str]) -> Iterator[None]:
    """Turns TensorFlow's errors about records, which name no file, into an `InputError` that names file and record.

    It encloses what reads the datasets of `pretraining_dataset(patterns)`, such as `fit`. The file is found by reading
    all of them again.

    Raises:
        InputError: a file is damaged, cut off or gone, its records change their form on the way, or hold tokens that
            the vocabulary does not have.
    """
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        # Of what Python raises inside a dataset, only the text is left.
        message = re.search(r"InputError: (.+)", error.message)
        if message:
            raise InputError(message[1]) from None
        if "ParseExample" in error.message:
            _find_damage(patterns)
        raise
    except (tf.errors.DataLossError, tf.errors.NotFoundError, tf.errors.PermissionDeniedError) as error:
        _find_damage(patterns)
        if not isinstance(error, tf.errors.DataLossError):
            raise
        raise InputError(
            "A record could not be read, but now all can: the disk failed, or a file was still being written. Run the "
            "same again."
        ) from None


def _find_damage(patterns: str | Sequence[str]) -> None:
    """Reads all records and raises `InputError` at the first that cannot be used."""
    print("\nA record cannot be read. Looking for the file that it is in.", file=sys.stderr)
    first_records, form = look_at_files(patterns)
    for path in first_records:
        for number, record in enumerate(iterate_records(path), start=1):
            features.check_record(record, form.features, f"{path}: record {number}")


def _masks_to_make(form, path, max_predictions_per_seq, vocabulary, masking, seed) -> DynamicMasking | None:
    if form.max_predictions_per_seq:
        if masking:
            raise InputError(
                f"{path}: its records have masks, so {', '.join(sorted(masking))} would change nothing. Leave it out, "
                "or write records without masks (create_pretraining_data --dynamic_masking)."
            )
        return None
    if vocabulary is None:
        raise InputError(
            f"{path}: its records have no masks. They are made while reading, for which the vocabulary of the records "
            "is needed: give it (--vocab_file)."
        )
    return DynamicMasking(
        form, vocabulary, {**(masking or {}), "max_predictions_per_seq": max_predictions_per_seq}, seed
    )


def _read_files(paths: list[str], shuffle: bool, seed: int) -> tf.data.Dataset:
    """The serialised records of all files, in order or mixed; the same seed gives the same order."""
    compressions = [detect_compression(path) for path in paths]
    # TensorFlow's reader takes no zstd. A dataset cannot choose its reader by the file, so one such file decides.
    read = _read_in_python if "ZSTD" in compressions else tf.data.TFRecordDataset
    files = tf.data.Dataset.from_tensor_slices((paths, compressions))
    if not shuffle:
        return files.flat_map(read)
    records = files.shuffle(len(paths), seed=seed, reshuffle_each_iteration=True).interleave(
        read,
        cycle_length=min(len(paths), _MOST_OPEN_FILES),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    return records.shuffle(_SHUFFLE_BUFFER, seed=seed, reshuffle_each_iteration=True)


def _read_in_python(path: tf.Tensor, compression: tf.Tensor) -> tf.data.Dataset:
    """The records of one file, packed or not, by our own reader; it runs in this process and holds its lock."""
    del compression  # the reader finds it out
    chunks = tf.data.Dataset.from_generator(
        _record_chunks, args=(path,), output_signature=tf.TensorSpec([None], tf.string)
    )
    return chunks.unbatch()


def _record_chunks(path: bytes) -> Iterator[np.ndarray]:
    """Yields the records of a file by the hundred: handing over a single one costs 20 times the reading."""
    records = iterate_records(path.decode())
    while chunk := list(itertools.islice(records, _RECORDS_AT_ONCE)):
        yield np.array(chunk, object)


def _check_is_whole(path: str, first_record: bytes) -> None:
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


def _check_fits(record: Mapping[str, tf.Tensor], config: BertConfig, path: str) -> None:
    """Raises `InputError` when the first record of a file is not for a model of this config."""
    try:
        config.check_sequence_length(record[features.INPUT_IDS].shape[1])
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    for name in (features.INPUT_IDS, features.MASKED_LM_IDS):
        if name not in record:  # without masks
            continue
        ids = record[name].numpy()
        if ids.min() < 0 or ids.max() >= config.vocab_size:
            raise InputError(
                f"{path}: {name} holds {ids.max() if ids.min() >= 0 else ids.min()}, but the ids of this config go "
                f"from 0 to {config.vocab_size - 1} (vocab_size={config.vocab_size}). Use the config and vocabulary "
                "that the records were made with."
            )
