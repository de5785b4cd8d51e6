"""Which kind of pre-training records files hold: found by looking at the first record of each."""

import dataclasses
from collections.abc import Mapping, Sequence

from keras_bert.program.errors import InputError
from keras_bert.program.record_files import iterate_records
from keras_bert.records import features
from keras_bert.records.files import list_records

_MASKS = {features.MASKED_LM_POSITIONS, features.MASKED_LM_IDS, features.MASKED_LM_WEIGHTS}


@dataclasses.dataclass(frozen=True)
class RecordForm:
    """What tells one kind of pre-training records from another.

    Attributes:
        max_seq_length: columns of a row.
        max_predictions_per_seq: places for masked tokens in a row; 0 where records have no masks, which are then made
            while they are read.
        max_sequences_per_row: above 1, rows are packed with up to this many sequences.
        has_sentence_weights: whether the records weigh their next-sentence labels. Packed ones do, and those without
            a sentence task, where all weights are 0.
        aliases: our name -> the records' name, where they differ (TF Model Garden's).
    """

    max_seq_length: int
    max_predictions_per_seq: int
    max_sequences_per_row: int
    has_sentence_weights: bool
    aliases: Mapping[str, str]

    @classmethod
    def of_record(cls, serialized: bytes) -> "RecordForm":
        """Reads the form off one serialised record, whether or not it is complete.

        Raises:
            InputError: the bytes are no `tf.train.Example`.
        """
        lengths = features.lengths_in_record(serialized)
        has_masks = bool(_MASKS & set(lengths))
        return cls(
            max_seq_length=lengths.get(features.INPUT_IDS, 0),
            # Records with some of the three lists only have lost the rest: what is missing is named later.
            max_predictions_per_seq=max(1, lengths.get(features.MASKED_LM_POSITIONS, 0)) if has_masks else 0,
            max_sequences_per_row=lengths.get(features.CLS_POSITIONS, 1),
            has_sentence_weights=features.NEXT_SENTENCE_WEIGHTS in lengths,
            aliases=features.aliases_in_record(serialized),
        )

    @property
    def features(self) -> list[features.Feature]:
        """The features of such a record."""
        return features.pretraining_features(
            self.max_seq_length,
            self.max_predictions_per_seq,
            self.max_sequences_per_row,
            has_sentence_task=not self.has_sentence_weights,
        )

    @property
    def kind(self) -> str:
        """The form in words, without its lengths."""
        rows = "packed rows" if self.max_sequences_per_row > 1 else "rows of one sequence"
        masks = "with masks" if self.max_predictions_per_seq else "without masks"
        weights = "with" if self.has_sentence_weights else "without"
        names = "TF Model Garden's" if self.aliases else "Google's"
        return f"{rows} {masks}, {weights} next_sentence_weights, under {names} names"


def look_at_files(
    patterns: str | Sequence[str], max_seq_length: int | None = None, max_predictions_per_seq: int | None = None
) -> tuple[dict[str, bytes], RecordForm]:
    """Returns the first record of each file that `patterns` stand for, and the form that all of them have.

    Files without a record are passed over.

    Args:
        max_seq_length, max_predictions_per_seq: what the records must have; by default, what the first has. Records
            without masks have no number of predictions.

    Raises:
        InputError: nothing matches, no file has a record, or one cannot be read, lacks a feature or is of another
            form than asked for or than the first.
    """
    first_records = {path: record for path in list_records(patterns) if (record := next(iterate_records(path), None))}
    if not first_records:
        raise InputError(f"There is not one record in the files that match {patterns!r}.")
    form = None
    for path, record in first_records.items():
        try:
            found = RecordForm.of_record(record)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        if form is None:
            first_path = path
            form = dataclasses.replace(found, max_seq_length=max_seq_length or found.max_seq_length)
            if found.max_predictions_per_seq and max_predictions_per_seq:
                form = dataclasses.replace(form, max_predictions_per_seq=max_predictions_per_seq)
        elif found.kind != form.kind:
            raise InputError(
                f"{path} holds {found.kind}, but {first_path} holds {form.kind}. Train on files of one kind at a time."
            )
        features.check_record(record, form.features, path)
    return first_records, form
