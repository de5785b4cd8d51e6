"""Makes batches for `fit`, `evaluate` and `predict` from TFRecord files and rows of tokens."""

import contextlib
import functools
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from keras_bert.accelerate.backend import keep_tensorflow_off_gpus, on_tensorflow
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError, named
from keras_bert.program.options import check_whole
from keras_bert.program.record_files import detect_compression, iterate_records
from keras_bert.records import features
from keras_bert.records.dynamic_masking import DynamicMasking, FallingRate
from keras_bert.records.form import RecordForm, read_form
from keras_bert.records.manifests import check_vocabulary
from keras_bert.records.mixed_rows import MixedRows
from keras_bert.records.order import RecordOrder
from keras_bert.records.token_rows import TokenRows
from keras_bert.records.values import OUT_OF_RANGE, Range, check_batch, check_values, value_ranges
from keras_bert.tokenization.tokenizer import TokenTable

# Records that Python hands to TensorFlow in one call. A call for a single record takes 20 times as long as reading it.
_RECORDS_AT_ONCE = 256
# On JAX, rows of this many columns or a multiple, since each shape takes seconds to compile.
_COLUMNS_ON_JAX = 32

keep_tensorflow_off_gpus()


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
    vocabulary: TokenTable | None = None,
    masking: Mapping[str, object] | None = None,
    default_masking: Mapping[str, object] | None = None,
    falling_rate: FallingRate | None = None,
    start_step: int = 0,
    shard_index: int = 0,
    num_shards: int = 1,
    index_path: str | os.PathLike | None = None,
    in_streams: bool = False,
) -> tf.data.Dataset:
    """Makes batches of pre-training records, those of google-research/bert and TF Model Garden included.

    The beginning and the end of each file are checked first. Damage in between shows up only while a file is read: see
    `naming_damaged_records`.

    Args:
        patterns: plain, gzip or zstd files, folders (all `*.tfrecord*` in them) or wildcard patterns; one, several
            separated by commas, or a sequence.
        batch_size: rows in a batch.
        max_seq_length: columns in a row; by default as in the first record.
        max_predictions_per_seq: masks in a row; by default as in the first record. For records without masks, the
            largest number of masks in a row, by default enough for all its sequences.
        shuffle: whether to shuffle files and records, differently in every epoch; see `RecordOrder`. The records are
            counted first.
        repeat: whether to repeat for ever with full batches only, for training. Otherwise there is one epoch, whose
            last batch may be smaller, for evaluation.
        seed: the same seed gives the same batches in the same order with the same masks.
        config: config of the model. Lengths and ids must fit it.
        vocabulary: vocabulary of the model. Records whose manifest names another vocabulary are refused. Records
            without masks need it: NumPy masks them on the host while they are read, differently in every epoch; see
            `DynamicMasking`.
        masking: options for records without masks, name -> value: `masked_lm_prob`, `do_whole_word_mask`,
            `max_ngram_size` and the other fields of `MaskingOptions`, and `replacement_tokens`.
        default_masking: defaults of these options, without effect for records with masks.
        falling_rate: for records without masks: how their `masked_lm_prob` falls; by default it stays.
        start_step: the number of batches to skip. With `shuffle` they are neither parsed nor masked, and at most one
            window of records is read for them.
        shard_index, num_shards: the rows of every batch from `shard_index * batch_size // num_shards` up to those of
            the next shard. `batch_size` counts the rows of all shards together. They have the masks of the undivided
            batch, because each shard reads all records and masks whole batches.
        index_path: with `shuffle`, a file that keeps the number and the offsets of the records, so that they are
            counted only once.
        in_streams: whether each row continues the row at its place in the batch before, as a memory between batches
            needs. The records are then read in their order, whatever `shuffle` is.

    Returns:
        A dataset of dicts name -> tensor `(batch, length)` with all pre-training features: int32, and float32 for
        `masked_lm_weights`. `next_sentence_labels` are `(batch, 1)`. For packed rows of at most K sequences,
        `next_sentence_labels`, `cls_positions` and `next_sentence_weights` (float32) are `(batch, K)`.

    Raises:
        InputError: nothing matches; a file has no records or is cut off; its records lack a feature, have other lengths
            than requested, another form than the other files, ids outside the config's vocabulary, or were made with
            another vocabulary; the shard does not exist; the vocabulary is missing; `masking` is given for records that
            have masks; the records are XLNet's but the config is not; with `in_streams`, their rows do not continue, or
            continue in batches of another size.

    Example:
        dataset = pretraining_dataset("records", batch_size=32)
        model.fit(dataset, steps_per_epoch=1000)
    """
    check_whole("batch_size", batch_size, at_least=1)
    first_records, form = read_form(patterns, max_seq_length, max_predictions_per_seq)
    if vocabulary is not None:
        check_vocabulary(first_records, vocabulary)
    ranges = value_ranges(form.max_seq_length, config)
    _check_files(first_records, form, ranges, config)
    if in_streams:
        _check_streams(form, next(iter(first_records)), batch_size)
    defaults = {**(default_masking or {}), "max_predictions_per_seq": max_predictions_per_seq}
    masks = _dynamic_masking(form, next(iter(first_records)), defaults, vocabulary, masking, seed, falling_rate)
    rows = _rows_of_shard(batch_size, shard_index, num_shards)
    # The masks of a row depend on those of the whole batch.
    read_rows = (0, batch_size) if masks else rows
    if shuffle and not in_streams:
        order = RecordOrder(list(first_records), seed, index_path)
        batches = _shuffled_batches(order, batch_size, read_rows, start_step, repeat)
    else:
        batches = _batches_in_order(list(first_records), batch_size, read_rows, start_step, repeat)
    check = functools.partial(check_batch, ranges=ranges)
    parse = functools.partial(features.parse, features=form.features, aliases=form.aliases, check=check)
    batches = batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    if masks is not None:
        batches = masks.apply(batches, start_step)
        if num_shards > 1:
            batches = batches.map(lambda batch: {name: values[slice(*rows)] for name, values in batch.items()})
    return _prefetched(batches)


def _check_streams(form: RecordForm, path: str, batch_size: int) -> None:
    """Raises `InputError` if the rows of a batch do not continue in the next batch of this size."""
    if not form.num_streams:
        raise InputError(
            f"{path}: its rows do not continue in the next batch, as a memory (mem_len) needs: they are in random "
            f"order. Make records with num_streams={batch_size}, or leave out mem_len."
        )
    if form.num_streams != batch_size:
        raise InputError(
            f"{path}: its rows continue in batches of {form.num_streams} rows (num_streams), but a batch has "
            f"{batch_size}. Use batches of that size."
        )


def _check_files(first_records: Mapping[str, bytes], form: RecordForm, ranges: list[Range], config: BertConfig | None):
    """Raises `InputError` if a file is cut off, or if its first record does not fit the model."""
    for path, record in first_records.items():
        if form.has_order and config is not None and not config.family.predicts_from_queries:
            raise InputError(
                f"{path}: its records are XLNet's, whose predicted tokens are not masked, but the model is a "
                f"{config.model_type}. Make records without reuse_len."
            )
        # Only a plain file: a compressed one is checked when it is read.
        if not detect_compression(path) and not _ends_with_a_record(path, len(record)):
            raise InputError(
                f"{path} is cut off in the middle of a record: the program that wrote it was stopped. Make it again."
            )
        if config is not None:
            with named(path):
                config.check_sequence_length(form.max_seq_length)
        check_values(record, ranges, path)


def _rows_of_shard(batch_size: int, shard_index: int, num_shards: int) -> tuple[int, int]:
    """Returns the first row of a shard and the first row of the next one."""
    if not 0 <= shard_index < num_shards <= batch_size:
        raise InputError(
            f"A batch of {batch_size} has no part {shard_index} of {num_shards}. Use at most as many parts as rows, "
            "and count parts from 0."
        )
    return shard_index * batch_size // num_shards, (shard_index + 1) * batch_size // num_shards


def rows_dataset(
    rows: TokenRows | MixedRows,
    batch_size: int,
    *,
    shuffle: bool = False,
    repeat: bool = False,
    seed: int = 0,
    start_step: int | Callable[[], int] = 0,
) -> tf.data.Dataset:
    """Makes batches of rows of similar length, each padded to its longest row.

    `RowBatches` and `MixedBatches` say in which order.

    Args:
        shuffle: whether to shuffle the examples, differently in every epoch. Otherwise the longest come first.
        repeat: whether to repeat for ever.
        seed: the same seed gives the same batches in the same order.
        start_step: the number of batches to skip; or a function of it, which is called when the reading begins.

    Returns:
        A dataset of dicts name -> tensor: `input_ids`, `input_mask` and `segment_ids`, int32 `(batch, length)` or
        `(batch, choices, length)`, and the columns of `rows.labels`. The last batch of an epoch may be smaller.

    Raises:
        InputError: there are no rows, or `batch_size` is below 1.
    """
    if not len(rows):
        raise InputError("There is no example to make a batch of. Give at least one.")
    batches = rows.batches(batch_size, seed if shuffle else None)
    example = rows.batch(np.array([0]))
    per_token = (*rows.tokens, features.INPUT_MASK, features.TARGET_IDS, features.TARGET_MASK)
    signature = {}
    for name, values in example.items():
        shape = [None, *(values.shape[1:] if rows.has_fixed_shapes else [None] * (values.ndim - 1))]
        signature[name] = tf.TensorSpec([*shape[:-1], None] if name in per_token else shape, values.dtype)

    # AutoGraph has nothing to convert here, and would search for two seconds.
    def first() -> int:
        return start_step() if callable(start_step) else start_step

    def from_step():
        return batches.from_step(first(), None if repeat else 1)

    if not on_tensorflow():
        from_step = functools.partial(_in_few_widths, from_step, rows)
    from_step = tf.autograph.experimental.do_not_convert(from_step)
    cardinality = tf.data.INFINITE_CARDINALITY if repeat else max(0, len(batches) - first())
    dataset = tf.data.Dataset.from_generator(from_step, output_signature=signature)
    return _prefetched(dataset.apply(tf.data.experimental.assert_cardinality(cardinality)))


def _in_few_widths(from_step: Callable, rows: TokenRows | MixedRows) -> Iterator[dict[str, np.ndarray]]:
    """Pads the rows of batches to a multiple of `_COLUMNS_ON_JAX`, at most to the longest row of all."""
    longest = max(int(part.lengths.max()) for part in getattr(rows, "parts", [rows]))
    padding = {features.INPUT_MASK: 0, **dict.fromkeys(rows.tokens, 0), **getattr(rows, "padding", {})}
    for batch in from_step():
        width = batch[features.INPUT_MASK].shape[-1]
        missing = max(0, min(-(-width // _COLUMNS_ON_JAX) * _COLUMNS_ON_JAX, longest) - width)
        for name, number in padding.items():
            places = [(0, 0)] * (batch[name].ndim - 1) + [(0, missing)]
            batch[name] = np.pad(batch[name], places, constant_values=number)
        yield batch


def _prefetched(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    # The autotuning thread sleeps for up to a minute, and TensorFlow 2.21 often fails to wake it at the end. Then `fit`
    # and `predict`, which drop the iterator, would wait about as long as they have used it.
    options.autotune.enabled = False
    return dataset.prefetch(2).with_options(options)


@contextlib.contextmanager
def naming_damaged_records(patterns: str | Sequence[str], config: BertConfig | None = None) -> Iterator[None]:
    """Turns TensorFlow's errors about damaged records into an `InputError` that names the file and the record.

    TensorFlow does not name the file. It is found by reading all files again. Use it around code that reads
    `pretraining_dataset(patterns, config=config)`, such as `fit`.

    Raises:
        InputError: a file is damaged, cut off or missing; its records have different forms; a number is outside the
            range of its feature, such as a token id outside the vocabulary.
    """
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        # TensorFlow keeps only the text of an exception that Python code raises inside a dataset.
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
            "A record could not be read before, but now all records can: the disk failed, or a file was still being "
            "written. Run the same command again."
        ) from None


def _find_damage(patterns: str | Sequence[str], config: BertConfig | None) -> None:
    """Reads all records and raises `InputError` at the first one that cannot be used."""
    print("\nA record cannot be read. Searching for its file.", file=sys.stderr)
    first_records, form = read_form(patterns)
    ranges = value_ranges(form.max_seq_length, config)
    for path in first_records:
        for number, record in enumerate(iterate_records(path), start=1):
            features.check_record(record, form.features, f"{path}: record {number}")
            check_values(record, ranges, f"{path}: record {number}")


def _dynamic_masking(form, path, defaults, vocabulary, masking, seed, falling_rate) -> DynamicMasking | None:
    """Returns the masking for records without masks, or None for records with masks."""
    if form.max_predictions_per_seq:
        given = [*sorted(masking or ()), *(["masked_lm_prob_end"] if falling_rate else [])]
        if given:
            raise InputError(
                f"{path}: its records have masks, so {', '.join(given)} would have no effect. Leave it out, "
                "or write records without masks (create_pretraining_data --dynamic_masking)."
            )
        return None
    if vocabulary is None:
        raise InputError(
            f"{path}: its records have no masks. To mask them while they are read, give the vocabulary that they were "
            "made with (--vocab_file)."
        )
    return DynamicMasking(form, vocabulary, {**defaults, **(masking or {})}, seed, falling_rate)


def _shuffled_batches(
    order: RecordOrder, batch_size: int, rows: tuple[int, int], start_step: int, repeat: bool
) -> tf.data.Dataset:
    """Returns batches of serialised records in shuffled order, from a step on."""
    groups = functools.partial(order.batches, batch_size, rows, start_step, None if repeat else 1)
    # AutoGraph has nothing to convert here, and would search for two seconds.
    groups = tf.autograph.experimental.do_not_convert(groups)
    spec = tf.TensorSpec([None, rows[1] - rows[0] if repeat else None], tf.string)
    batches = tf.data.Dataset.from_generator(groups, output_signature=spec).unbatch()
    # Without the cardinality, Keras would warn that an endless dataset has ended.
    return batches.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)) if repeat else batches


def _batches_in_order(
    paths: Sequence[str], batch_size: int, rows: tuple[int, int], start_step: int, repeat: bool
) -> tf.data.Dataset:
    """Returns batches of serialised records in the order of the files. Records before the step are read and skipped."""
    compressions = [detect_compression(path) for path in paths]
    # TensorFlow's reader has no zstd, and a dataset has one reader for all files. So one zstd file is enough to decide.
    read = _read_in_python if "ZSTD" in compressions else tf.data.TFRecordDataset
    records = tf.data.Dataset.from_tensor_slices((list(paths), compressions)).flat_map(read)
    if repeat:
        records = records.repeat()
    batches = records.batch(batch_size, drop_remainder=repeat).skip(start_step)
    return batches if rows == (0, batch_size) else batches.map(lambda batch: batch[slice(*rows)])


def _read_in_python(path: tf.Tensor, compression: tf.Tensor) -> tf.data.Dataset:
    """Returns the records of one file, read by our own reader, which runs in this process and holds Python's lock."""
    del compression  # the reader detects it
    chunks = tf.data.Dataset.from_generator(
        _record_chunks, args=(path,), output_signature=tf.TensorSpec([None], tf.string)
    )
    return chunks.unbatch()


def _record_chunks(path: bytes) -> Iterator[np.ndarray]:
    """Yields the records of a file in arrays of `_RECORDS_AT_ONCE`."""
    records = iterate_records(path.decode())
    while chunk := list(itertools.islice(records, _RECORDS_AT_ONCE)):
        yield np.array(chunk, object)


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
