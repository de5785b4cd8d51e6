"""What the tasks on `SentenceExamples` share: a loss for each data set, several data sets, and teachers."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.mixed_rows import MixedRows
from keras_bert.tasks.base import ExampleRows, TextTask
from keras_bert.tasks.embedding.examples import ROUND_ROBIN, DataSets, SentenceExamples


class SentenceTask(TextTask):
    """A task on `SentenceExamples`, whose model is a `ChosenLoss`.

    Attributes:
        main_scores: the kind of examples -> `main_score`.
    """

    scores_texts = True
    main_scores: Mapping[str, str]

    def default_loss(self, kind: str) -> Any:
        """Returns the loss of examples of a kind that name none; None if there is none."""
        raise NotImplementedError

    def mixed_loss(self, losses: Sequence, examples: DataSets) -> Any:
        """Returns the loss of several data sets."""
        raise NotImplementedError

    def check_kind(self, examples: SentenceExamples) -> None:
        """Raises `InputError` if no loss can learn from the examples."""

    def rows_of(self, examples: SentenceExamples, max_seq_length: int | None = None) -> ExampleRows:
        """Returns the rows of one data set; the arguments are those of `rows`."""
        raise NotImplementedError

    def loss_for(self, examples: SentenceExamples) -> Any:
        """Returns the loss for a data set: that of the user, of the data set or of its kind; None if there is none."""
        return self.model.loss_choice or self.model.as_loss(examples.loss) or self.default_loss(examples.kind)

    def before_training(self, examples: SentenceExamples | DataSets) -> None:
        """Chooses the loss, and checks that it can learn from the examples."""
        self.main_score = self.main_scores.get(examples.kind, self.main_score)
        forget_traces(self.model)
        if not isinstance(examples, DataSets):
            self.model.set_loss_of_examples(self._checked_loss(examples))
            return
        if self.model.loss_choice is not None:
            raise InputError(
                f"Each data set has its own loss, but the model was given {self.model.loss_choice}. Name the losses in "
                "the data sets, and set model.loss_choice = None."
            )
        losses = [self._checked_loss(part) for part in examples.parts]
        self.model.set_loss_of_examples(self.mixed_loss(losses, examples))

    def _checked_loss(self, examples: SentenceExamples) -> Any:
        self.check_kind(examples)
        loss = self.loss_for(examples)
        if loss is None:
            raise InputError(
                f"{examples.source}: there is no loss, and for {examples.kind} one must be named, such as "
                "loss='margin_mse'."
            )
        loss.check(examples, self.model)
        return loss

    def rows(self, examples: SentenceExamples | DataSets, max_seq_length: int | None = None) -> ExampleRows:
        if not isinstance(examples, DataSets):
            return self.rows_of(examples, max_seq_length)
        parts = [self.rows_of(part, max_seq_length) for part in examples.parts]
        rows: Any = MixedRows(tuple(part.rows for part in parts), examples.sampler == ROUND_ROBIN)
        return ExampleRows(rows, [note for part in parts for note in part.notes])

    def taught(self, rows: Any, examples: Any, batch_size: int, kept: Callable | None = None) -> Any:
        kept = kept or (lambda name, compute: compute())
        if not isinstance(examples, DataSets):
            return self._taught(rows, examples, batch_size, kept, "teacher_labels")
        pairs = enumerate(zip(rows.parts, examples.parts, strict=True), start=1)
        parts = [self._taught(*pair, batch_size, kept, f"teacher_labels_{number}") for number, pair in pairs]
        return dataclasses.replace(rows, parts=tuple(parts))

    def _taught(self, rows: Any, examples: SentenceExamples, batch_size: int, kept: Callable, name: str) -> Any:
        loss = self.loss_for(examples)
        if loss is None or loss.teacher is None:
            return rows
        # Only now, because it imports the functions that import this module.
        from keras_bert.tasks.embedding.teachers import teacher_labels

        labels = kept(name, lambda: teacher_labels(loss.teacher, examples, loss.teaches_vectors, batch_size))
        return rows.with_labels(**{features.LABEL_IDS: labels})


def forget_traces(model) -> None:
    """Lets the next `fit` trace its step anew.

    Its features may have another number of axes than before. TensorFlow would generalise the two to an unknown number,
    which the model cannot take.
    """
    model.train_function = model.test_function = None
