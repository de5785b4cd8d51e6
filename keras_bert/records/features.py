"""Defines every record: the names, dtypes and lengths of its features. Parses and checks records.

The names are those of google-research/bert. Only this module knows the two other names of TF Model Garden
(`GARDEN_NAMES`). Records are `tf.train.Example`s with lists of fixed length.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from keras_bert.program.errors import InputError

INPUT_IDS = "input_ids"
INPUT_MASK = "input_mask"
SEGMENT_IDS = "segment_ids"
MASKED_LM_POSITIONS = "masked_lm_positions"
MASKED_LM_IDS = "masked_lm_ids"
MASKED_LM_WEIGHTS = "masked_lm_weights"
NEXT_SENTENCE_LABELS = "next_sentence_labels"
NEXT_SENTENCE_WEIGHTS = "next_sentence_weights"
CLS_POSITIONS = "cls_positions"
POSITION_IDS = "position_ids"
TOKEN_VECTORS = "token_vectors"
GLOBAL_MASK = "global_mask"
PREDICTION_ORDER = "prediction_order"
REUSE_LEN = "reuse_len"
NUM_STREAMS = "num_streams"
STREAM_ROW = "stream_row"
MEMORY = "memory"
MEMORY_MASK = "memory_mask"
LABEL_IDS = "label_ids"
TARGET_IDS = "target_ids"
TARGET_MASK = "target_mask"
IS_REAL_EXAMPLE = "is_real_example"
EXAMPLE_WEIGHTS = "example_weights"
TEACHER_LOGITS = "teacher_logits"
TEXT_NUMBERS = "text_numbers"
SCORE_MASK = "score_mask"
UNIQUE_IDS = "unique_ids"
START_POSITIONS = "start_positions"
END_POSITIONS = "end_positions"
IS_IMPOSSIBLE = "is_impossible"
SENTENCE_ID = "sentence_id"
SUB_SENTENCE_ID = "sub_sentence_id"

# The label of tokens without a label, which count in no loss and no metric.
NO_LABEL = -1

# TF Model Garden's name -> ours.
GARDEN_NAMES = {"input_word_ids": INPUT_IDS, "input_type_ids": SEGMENT_IDS}
_TO_GARDEN = {name: garden_name for garden_name, name in GARDEN_NAMES.items()}


@dataclasses.dataclass(frozen=True)
class Feature:
    """A list in a record: `length` numbers of dtype "int64" or "float32", which form `rows` rows of equal length."""

    name: str
    length: int
    dtype: str = "int64"
    rows: int = 1


def token_features(max_seq_length: int) -> list[Feature]:
    """Returns the inputs of every model: ids, mask and segments, each of `max_seq_length` numbers."""
    return [Feature(name, max_seq_length) for name in (INPUT_IDS, INPUT_MASK, SEGMENT_IDS)]


def pretraining_features(
    max_seq_length: int,
    max_predictions_per_seq: int,
    max_sequences_per_row: int = 1,
    *,
    has_sentence_task: bool = True,
    has_order: bool = False,
    has_streams: bool = False,
) -> list[Feature]:
    """Returns the features of google-research/bert `create_pretraining_data.py`, and those that this project adds.

    Args:
        max_seq_length: columns in a row.
        max_predictions_per_seq: masks in a row. 0 for records without masks, which are masked while they are read.
        max_sequences_per_row: above 1, a row has several sequences. `input_mask` numbers them, `cls_positions` has
            their first columns, and each has a next-sentence label and weight. Unused entries are 0.
        has_sentence_task: False for records without a next-sentence task. Their next-sentence weights are all 0.
        has_order: whether each token has a rank in the order of predictions. 0: all others know it.
        has_streams: whether a row continues in the next batch. Then it has the number of streams, which is the number
            of rows in a batch, its number in its stream, and how many of its tokens are the memory of the next row.
    """
    result = token_features(max_seq_length)
    if max_predictions_per_seq:
        result += [
            Feature(MASKED_LM_POSITIONS, max_predictions_per_seq),
            Feature(MASKED_LM_IDS, max_predictions_per_seq),
            Feature(MASKED_LM_WEIGHTS, max_predictions_per_seq, "float32"),
        ]
    result.append(Feature(NEXT_SENTENCE_LABELS, max_sequences_per_row))
    if max_sequences_per_row > 1:
        result.append(Feature(CLS_POSITIONS, max_sequences_per_row))
    if max_sequences_per_row > 1 or not has_sentence_task:
        result.append(Feature(NEXT_SENTENCE_WEIGHTS, max_sequences_per_row, "float32"))
    if has_order:
        result.append(Feature(PREDICTION_ORDER, max_seq_length))
    if has_streams:
        result += [Feature(NUM_STREAMS, 1), Feature(STREAM_ROW, 1), Feature(REUSE_LEN, 1)]
    return result


def classification_features(max_seq_length: int) -> list[Feature]:
    """Returns the features of google-research/bert `run_classifier.py`."""
    return [*token_features(max_seq_length), Feature(LABEL_IDS, 1), Feature(IS_REAL_EXAMPLE, 1)]


def regression_features(max_seq_length: int) -> list[Feature]:
    """Returns the features of classification with a score instead of a label, as in TF Model Garden."""
    return [*token_features(max_seq_length), Feature(LABEL_IDS, 1, "float32"), Feature(IS_REAL_EXAMPLE, 1)]


def multi_label_features(max_seq_length: int, num_labels: int) -> list[Feature]:
    """Returns the features of classification with a 0 or 1 for each label."""
    return [*token_features(max_seq_length), Feature(LABEL_IDS, num_labels), Feature(IS_REAL_EXAMPLE, 1)]


def multiple_choice_features(max_seq_length: int, num_choices: int) -> list[Feature]:
    """Returns the features of one multiple-choice question: the joined rows of its choices, and the correct choice."""
    rows = [dataclasses.replace(one, rows=num_choices) for one in token_features(num_choices * max_seq_length)]
    return [*rows, Feature(LABEL_IDS, 1), Feature(IS_REAL_EXAMPLE, 1)]


def tagging_features(max_seq_length: int) -> list[Feature]:
    """Returns the features of TF Model Garden `tagging_data_lib.py`: a label, or `NO_LABEL`, for each token.

    A long sentence has several rows, which `sub_sentence_id` numbers.
    """
    numbers = [Feature(SENTENCE_ID, 1), Feature(SUB_SENTENCE_ID, 1)]
    return [*token_features(max_seq_length), Feature(LABEL_IDS, max_seq_length), *numbers]


def question_answering_features(max_seq_length: int, *, has_answers: bool) -> list[Feature]:
    """Returns the features of google-research/bert `run_squad.py`, for training (`has_answers`) or prediction."""
    result = [Feature(UNIQUE_IDS, 1), *token_features(max_seq_length)]
    if has_answers:
        result += [Feature(name, 1) for name in (START_POSITIONS, END_POSITIONS, IS_IMPOSSIBLE)]
    return result


def to_garden_names(batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the batch under TF Model Garden's names."""
    return {_TO_GARDEN.get(name, name): values for name, values in batch.items()}


def with_garden_names(features: Sequence[Feature]) -> list[Feature]:
    """Returns the features under TF Model Garden's names."""
    return [dataclasses.replace(feature, name=_TO_GARDEN.get(feature.name, feature.name)) for feature in features]


def parse(
    serialized,
    features: Sequence[Feature],
    aliases: Mapping[str, str] | None = None,
    check: Callable[[Mapping], None] | None = None,
):
    """Parses a batch of serialised records, inside `tf.data`.

    Args:
        serialized: string tensor `(batch,)`.
        features: the features of the records.
        aliases: our name -> the name in the records (see `aliases_in_record`).
        check: called with a dict name -> tensor `(batch, length)`, while integers are still int64.

    Returns:
        dict name -> tensor `(batch, length)`, or `(batch, rows, length / rows)` for features with several rows.
        Integers are int32.
    """
    import tensorflow as tf

    aliases = aliases or {}
    specification = {
        aliases.get(feature.name, feature.name): tf.io.FixedLenFeature([feature.length], tf.as_dtype(feature.dtype))
        for feature in features
    }
    parsed = tf.io.parse_example(serialized, specification)
    result = {feature.name: parsed[aliases.get(feature.name, feature.name)] for feature in features}
    if check is not None:
        check(result)
    for feature in features:
        if feature.rows > 1:
            shape = [-1, feature.rows, feature.length // feature.rows]
            result[feature.name] = tf.reshape(result[feature.name], shape)
    return {name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value for name, value in result.items()}


def aliases_in_record(serialized: bytes) -> dict[str, str]:
    """Returns our name -> the name in the record, for names that differ (in TF Model Garden's records)."""
    return {GARDEN_NAMES[name]: name for name in _lists(serialized) if name in GARDEN_NAMES}


def numbers_in_record(serialized: bytes) -> dict[str, np.ndarray]:
    """Returns the lists of one serialised record, by our names: int64, float32, or object for bytes.

    Raises:
        InputError: the bytes are not a `tf.train.Example`.
    """
    lists = _lists(serialized)
    return {GARDEN_NAMES.get(name, name): np.array(values, dtype) for name, (dtype, values) in lists.items()}


_DTYPES = {"int64_list": "int64", "float_list": "float32", "bytes_list": "object"}
_KINDS = {"int64": "integers", "float32": "floats", "object": "bytes"}


def kind_of(dtype) -> str:
    """Returns the dtype of a list in words: "integers", "floats" or "bytes"."""
    return _KINDS[str(dtype)]


def _lists(serialized: bytes) -> dict[str, tuple[str, Sequence]]:
    """Returns name in the record -> (dtype, values)."""
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    try:
        lists = tf.train.Example.FromString(serialized).features.feature
    except DecodeError:
        raise InputError(
            "The file holds records that are not tf.train.Example messages. Give files of BERT records."
        ) from None
    kinds = {name: value.WhichOneof("kind") or "int64_list" for name, value in lists.items()}
    return {name: (_DTYPES[kind], getattr(lists[name], kind).value) for name, kind in kinds.items()}


def check_record(serialized: bytes, features: Sequence[Feature], path: str) -> None:
    """Raises `InputError` if a record of `path` does not have these features. Names the first that differs."""
    lists = {GARDEN_NAMES.get(name, name): values for name, values in _lists(serialized).items()}
    for feature in features:
        if feature.name not in lists:
            raise InputError(
                f"{path}: its records have no {feature.name}. They have: {', '.join(sorted(lists)) or 'nothing'}"
            )
        dtype, values = lists[feature.name]
        if dtype != feature.dtype and len(values):
            raise InputError(
                f"{path}: {feature.name} holds {kind_of(dtype)}, but {kind_of(feature.dtype)} are expected. Make the "
                "records again."
            )
        if len(values) != feature.length:
            raise InputError(
                f"{path}: {feature.name} has {len(values)} numbers in its records, but {feature.length} are "
                "expected. Use the max_seq_length and max_predictions_per_seq that the records were written with."
            )
