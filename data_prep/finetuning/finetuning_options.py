"""The options of fine-tuning records. Nothing here imports TensorFlow, so that `--help` is quick."""

import dataclasses

from data_prep.finetuning.tables import Column
from keras_bert.program.errors import InputError
from keras_bert.program.options import Options, documented, option


@documented
@dataclasses.dataclass(frozen=True)
class FinetuningOptions(Options):
    """The user's options, except for files and vocabulary. Columns that are None have the task's default.

    `max_seq_length`: tokens in a record, special tokens included.
    """

    max_seq_length: int = option(128, at_least=3)
    text_column: Column | None = option(
        None,
        "The column of the text: its name, or its number from 0 (default: text, sentence, sentence1, premise or "
        "similar; tagging: 0 or tokens).",
    )
    second_text_column: Column | None = option(
        None, "The column of the second text, for pairs (default: sentence2 or similar)."
    )
    label_columns: tuple[Column, ...] = option(
        (),
        "The column of the label (default: label; tagging: the last, or tags). For multi_label also several columns "
        "of 0 and 1.",
        flag="label_column",
    )
    choice_columns: tuple[Column, ...] = option(
        (), "The columns of the choices, or one column with lists, for multiple_choice."
    )
    label_separator: str = option(",", "The separator of the labels in one column, for multi_label.")
    has_header: bool = option(True, "Whether the first line of .tsv and .csv files names the columns.")
    skip_missing: bool = option(False, "Leave out rows without a text or a label, and say how many.")
    labels: tuple[str, ...] = option((), "The labels in the order of their ids (default: those of train_file, sorted).")
    doc_stride: int = option(128, "Tokens between the starts of two windows of a context.", at_least=1)
    max_query_length: int = option(64, "Longer questions are cut to this many tokens.", at_least=1)
    version_2_with_negative: bool = option(False, "Some questions have no answer, as in SQuAD 2.0.")

    @property
    def label_column(self) -> Column:
        if len(self.label_columns) > 1:
            raise InputError(
                f"This task has one label column. Received: {', '.join(map(str, self.label_columns))}. Use "
                "--task=multi_label for several columns of 0 and 1."
            )
        return self.label_columns[0] if self.label_columns else "label"
