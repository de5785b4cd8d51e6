"""TFRecord files and rows of tokens -> batches for `fit`, `evaluate` and `predict`."""

import contextlib
import functools
import itertools
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.record_files import detect_compression, iterate_records
from keras_bert.records import features
from keras_bert.records.checks import check_is_whole, check_length
from keras_bert.records.dynamic_masking import DynamicMasking
from keras_bert.records.form import RecordForm, look_at_files
from keras_bert.records.manifests import check_vocabulary
from keras_bert.records.order import RecordOrder
from keras_bert.records.token_rows import RowBatches, TokenRows
from keras_bert.records.values import OUT_OF_RANGE, Range, check_batch, check_values, value_ranges
from keras_bert.tokenization.vocabulary import Vocabulary

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
    start_step: int = 0,
    shard_index: int = 0,
    num_shards: int = 1,
    index_path: str | os.PathLike | None = None,
) -> tf.data.Dataset:
    """Reads pre-training records, those of google-research/bert and of TF Model Garden alike, plain, gzip or zstd.

    The files are looked at first: the beginning of each, and whether its end is there. What is damaged in between shows
    while they are read: see `naming_damaged_records`.

    Args:
        patterns: files, folders (all `*.tfrecord*` in them) or patterns; one, several with commas, or a sequence.
        max_seq_length, max_predictions_per_seq: lengths in the records; taken from the first record when None. Where
            records have no masks, how many a row is to get at most; by default enough for all its sequences.
        shuffle: mixes the files and their records, anew in every epoch; `RecordOrder` says how. The records are counted
            first. Without it they come in order.
        repeat: starts over for ever and gives full batches only, for training. Without it one epoch is given whole,
            its last batch as small as it comes, for evaluation.
        seed: the same seed gives the same batches in the same order, with the same masks.
        config: the model that will take the batches; lengths and ids must fit it.
        vocabulary: that of the model. Records whose manifest names another are refused. Records without masks need it:
            they are masked while they are read, on the host and by NumPy, anew in every epoch; see `DynamicMasking`.
        masking: how records without masks are masked, name -> value: `masked_lm_prob`, `do_whole_word_mask`,
            `max_ngram_size` and the other fields of `MaskingOptions`, and `replacement_tokens`.
        start_step: the number of batches that were taken before: what follows is what would have followed. With
            `shuffle` nothing of what came before is parsed or masked, and at most one window of records is read for it.
        shard_index, num_shards: of every batch, the rows from `shard_index * batch_size // num_shards` on to those of
            the next shard: all shards together are the batch that one alone would have, with the same masks. Each
            reads all records, and masks the whole batch where records have no masks. `batch_size` is that of all.
        index_path: with `shuffle`, a file to keep the records' number and places in, so that they are counted once.

    Returns:
        A dataset of dict name -> tensor (batch, length) with all pre-training features: int32, and
        `masked_lm_weights` float32. `next_sentence_labels` are (batch, 1). Packed rows have K sequences at most:
        `next_sentence_labels`, `cls_positions` and `next_sentence_weights`, float32, are (batch, K).

    Raises:
        InputError: nothing matches; a file holds no records or is cut off; its records lack a feature, or have other
            lengths than asked for or another form than the other files, or ids that the config's vocabulary does not
            have, or were made with another vocabulary; there is no such shard; the vocabulary is missing, or `masking`
            is given for records that have masks.

    Example:
        >>> dataset = pretraining_dataset("records", batch_size=32)
        >>> model.fit(dataset, steps_per_epoch=1000)
    """
    _check_batch_size(batch_size)
    first_records, form = look_at_files(patterns, max_seq_length, max_predictions_per_seq)
    if vocabulary is not None:
        check_vocabulary(first_records, vocabulary)
    ranges = _ranges(form, config)
    for path, record in first_records.items():
        check_is_whole(path, record)
        if config is not None:
            check_length(config, form.max_seq_length, path)
        check_values(record, ranges, path)

    masks = _masks_to_make(form, next(iter(first_records)), max_predictions_per_seq, vocabulary, masking, seed)
    rows = _rows_of_shard(batch_size, shard_index, num_shards)
    # The masks of a row depend on those of the whole batch.
    read_rows = (0, batch_size) if masks else rows
    if shuffle:
        order = RecordOrder(list(first_records), seed, index_path)
        batches = _mixed_batches(order, batch_size, read_rows, start_step, repeat)
    else:
        batches = _batches_in_order(list(first_records), batch_size, read_rows, start_step, repeat)
    batches = batches.map(
        functools.partial(
            features.parse,
            features=form.features,
            aliases=form.aliases,
            check=functools.partial(check_batch, ranges=ranges),
        ),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    if masks is not None:
        batches = masks.apply(batches, start_step)
        if num_shards > 1:
            batches = batches.map(lambda batch: {name: values[slice(*rows)] for name, values in batch.items()})
    return _prefetched(batches)


def _ranges(form: RecordForm, config: BertConfig | None) -> list[Range]:
    return value_ranges(
        form.max_seq_length, config.vocab_size if config else None, config.type_vocab_size if config else None
    )


def _rows_of_shard(batch_size: int, shard_index: int, num_shards: int) -> tuple[int, int]:
    if not 0 <= shard_index < num_shards <= batch_size:
        raise InputError(
            f"A batch of {batch_size} has no part {shard_index} of {num_shards}. There must be a row for each part, "
            "and parts are counted from 0."
        )
    return shard_index * batch_size // num_shards, (shard_index + 1) * batch_size // num_shards


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
def naming_damaged_records(patterns: str | Sequence[str], config: BertConfig | None = None) -> Iterator[None]:
    """Turns TensorFlow's errors about records, which name no file, into an `InputError` that names file and record.

    It encloses what reads the datasets of `pretraining_dataset(patterns, config=config)`, such as `fit`. The file is
    found by reading all of them again.

    Raises:
        InputError: a file is damaged, cut off or gone, its records change their form on the way, or hold numbers that
            they cannot have, such as tokens that the vocabulary does not have.
    """
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        # Of what Python raises inside a dataset, only the text is left.
        message = re.search(r"InputError: (.+)", error.message)
        if message:
            raise InputError(message[1]) from None
        if "ParseExample" in error.message or OUT_OF_RANGE in error.message:
            _find_damage(patterns, config)
        raise
    except (tf.errors.DataLossError, tf.errors.NotFoundError, tf.errors.PermissionDeniedError) as error:
        _find_damage(patterns, config)
        if not isinstance(error, tf.errors.DataLossError):
            raise
        raise InputError(
            "A record could not be read, but now all can: the disk failed, or a file was still being written. Run the "
            "same again."
        ) from None


def _find_damage(patterns: str | Sequence[str], config: BertConfig | None) -> None:
    """Reads all records and raises `InputError` at the first that cannot be used."""
    print("\nA record cannot be read. Looking for the file that it is in.", file=sys.stderr)
    first_records, form = look_at_files(patterns)
    ranges = _ranges(form, config)
    for path in first_records:
        for number, record in enumerate(iterate_records(path), start=1):
            features.check_record(record, form.features, f"{path}: record {number}")
            check_values(record, ranges, f"{path}: record {number}")


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


def _mixed_batches(
    order: RecordOrder, batch_size: int, rows: tuple[int, int], start_step: int, repeat: bool
) -> tf.data.Dataset:
    """Batches of serialised records in their mixed order, from a step on."""
    several = functools.partial(order.batches, batch_size, rows, start_step, None if repeat else 1)
    # Nothing here is for AutoGraph to convert, and looking for it takes two seconds.
    several = tf.autograph.experimental.do_not_convert(several)
    spec = tf.TensorSpec([None, rows[1] - rows[0] if repeat else None], tf.string)
    batches = tf.data.Dataset.from_generator(several, output_signature=spec).unbatch()
    # Keras would warn that an endless dataset has ended, if it did not know.
    return batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)) if repeat else batches


def _batches_in_order(
    paths: Sequence[str], batch_size: int, rows: tuple[int, int], start_step: int, repeat: bool
) -> tf.data.Dataset:
    """Batches of serialised records as they stand in the files; what comes before the step is read and passed over."""
    compressions = [detect_compression(path) for path in paths]
    # TensorFlow's reader takes no zstd. A dataset cannot choose its reader by the file, so one such file decides.
    read = _read_in_python if "ZSTD" in compressions else tf.data.TFRecordDataset
    records = tf.data.Dataset.from_tensor_slices((list(paths), compressions)).flat_map(read)
    if repeat:
        records = records.repeat()
    batches = records.batch(batch_size, drop_remainder=repeat).skip(start_step)
    return batches if rows == (0, batch_size) else batches.map(lambda batch: batch[slice(*rows)])


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
