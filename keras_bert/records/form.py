"""Detects the kind of pre-training records in files from the first record of each."""

import dataclasses
from collections.abc import Mapping, Sequence

from keras_bert.program.errors import InputError, named
from keras_bert.program.record_files import iterate_records
from keras_bert.records import features
from keras_bert.records.files import list_records

_MASKS = {features.MASKED_LM_POSITIONS, features.MASKED_LM_IDS, features.MASKED_LM_WEIGHTS}


@dataclasses.dataclass(frozen=True)
class RecordForm:
    """The properties in which kinds of pre-training records differ."""

    max_seq_length: int  # columns in a row
    max_predictions_per_seq: int  # masks in a row; 0 for records without masks, which are masked while they are read
    max_sequences_per_row: int  # above 1, rows are packed with up to this many sequences
    # Whether next-sentence labels have weights. Packed records have them. So do records without a next-sentence task,
    # where all weights are 0.
    has_sentence_weights: bool
    aliases: Mapping[str, str]  # our name -> the name in the records, where they differ (TF Model Garden)
    has_order: bool = False  # whether tokens have ranks in the order of predictions
    num_streams: int = 0  # above 0, the rows of one batch, each of which continues in the next batch

    @classmethod
    def of_record(cls, serialized: bytes) -> "RecordForm":
        """Returns the form of one serialised record, even if it lacks some features.

        Raises:
            InputError: the bytes are not a `tf.train.Example`.
        """
        numbers = features.numbers_in_record(serialized)
        lengths = {name: len(values) for name, values in numbers.items()}
        streams = numbers.get(features.NUM_STREAMS)
        has_masks = bool(_MASKS & set(lengths))
        return cls(
            max_seq_length=lengths.get(features.INPUT_IDS, 0),
            # A record with only some of the three lists counts as masked. `check_record` then names the missing list.
            max_predictions_per_seq=max(1, lengths.get(features.MASKED_LM_POSITIONS, 0)) if has_masks else 0,
            max_sequences_per_row=lengths.get(features.CLS_POSITIONS, 1),
            has_sentence_weights=features.NEXT_SENTENCE_WEIGHTS in lengths,
            has_order=features.PREDICTION_ORDER in lengths,
            num_streams=int(streams[0]) if streams is not None and len(streams) else 0,
            aliases=features.aliases_in_record(serialized),
        )

    @property
    def features(self) -> list[features.Feature]:
        """The features of these records."""
        return features.pretraining_features(
            self.max_seq_length,
            self.max_predictions_per_seq,
            self.max_sequences_per_row,
            has_sentence_task=not self.has_sentence_weights,
            has_order=self.has_order,
            has_streams=self.num_streams > 0,
        )

    @property
    def kind(self) -> str:
        """The form in words, without lengths, for error messages."""
        rows = "packed rows" if self.max_sequences_per_row > 1 else "rows of one sequence"
        masks = "with masks" if self.max_predictions_per_seq else "without masks"
        weights = "with" if self.has_sentence_weights else "without"
        names = "TF Model Garden's" if self.aliases else "Google's"
        order = ", with an order of predictions" if self.has_order else ""
        streams = f", in {self.num_streams} streams" if self.num_streams else ""
        return f"{rows} {masks}, {weights} next_sentence_weights{order}{streams}, under {names} names"


def read_form(
    patterns: str | Sequence[str], max_seq_length: int | None = None, max_predictions_per_seq: int | None = None
) -> tuple[dict[str, bytes], RecordForm]:
    """Returns path -> first record of each file that matches `patterns`, and the form that all of them have.

    Files without records are left out. By default, the required lengths are those of the first record. Records without
    masks have no number of predictions to compare.

    Raises:
        InputError: nothing matches, no file has a record, or a record cannot be read, lacks a feature, or has another
            form than required or than the first.
    """
    first_records = {path: record for path in list_records(patterns) if (record := next(iterate_records(path), None))}
    if not first_records:
        raise InputError(f"The files that match {patterns!r} have no records. Give files with records.")
    form = None
    for path, record in first_records.items():
        with named(path):
            record_form = RecordForm.of_record(record)
        if form is None:
            first_path = path
            form = dataclasses.replace(record_form, max_seq_length=max_seq_length or record_form.max_seq_length)
            if record_form.max_predictions_per_seq and max_predictions_per_seq:
                form = dataclasses.replace(form, max_predictions_per_seq=max_predictions_per_seq)
        elif record_form.kind != form.kind:
            raise InputError(
                f"{path} holds {record_form.kind}, but {first_path} holds {form.kind}. Train on files of one kind at a "
                "time."
            )
        features.check_record(record, form.features, path)
    return first_records, form
