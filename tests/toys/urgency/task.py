"""Messages -> rows, and outputs -> answers and scores."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import as_list, as_texts, is_float32
from keras_bert.tasks.base import ExampleRows, TextTask
from keras_bert.tasks.examples import Examples, check_examples
from keras_bert.tasks.explanation.explained_rows import ExplainedRow, number_of, pieces_of_row, pools_all_tokens
from toys.urgency.answers import urgency_answers, urgency_arrays


@dataclasses.dataclass(frozen=True)
class UrgencyExamples(Examples):
    """N messages, and N numbers from 0 to 1, or None."""

    per_example = ("texts", "urgencies", "weights")

    texts: Sequence[str]
    urgencies: Sequence[float] | None = None
    weights: Sequence[float] | None = None
    source: str = "the examples"

    def __post_init__(self):
        check_examples(self)
        wrong = [value for value in self.urgencies or () if not (is_float32(value) and 0 <= value <= 1)]
        if wrong:
            raise InputError(f"{self.source}: an urgency must be a number from 0 to 1. Received: {wrong[0]!r:.100}")


class UrgencyTask(TextTask):
    """Texts -> urgencies. `x` is N texts, `y` N numbers from 0 to 1."""

    name = "urgency"
    main_score = "within_a_tenth"

    def examples(self, x, y=None, sample_weight=None):
        return UrgencyExamples(as_texts(x), None if y is None else as_list(y, "urgencies"), sample_weight)

    def rows(self, examples, max_seq_length=None):
        rows, is_cut, _ = self.text_rows(examples.texts, None, max_seq_length)
        labels = None if examples.urgencies is None else np.array(examples.urgencies, np.float32)
        notes = self._notes_of_cuts(examples, is_cut, max_seq_length)
        return ExampleRows(self._with_labels(rows, labels, examples.weights), notes)

    def answers(self, examples, example_rows, outputs):
        return urgency_answers(urgency_arrays(outputs.astype(np.float64)), {})

    def scores(self, examples, answers, is_worst=False):
        errors = np.abs([answer.urgency for answer in answers] - np.array(examples.urgencies))
        return {"within_a_tenth": float((errors <= 0.1).mean()), "mean_absolute_error": float(errors.mean())}

    def explained_rows(self, examples, example_rows, outputs, targets):
        rows = []
        columns = () if pools_all_tokens(self.model) else (0,)
        for number, text in enumerate(examples.texts):
            if targets[number] is not None:
                number_of(targets[number], ("urgency",), "score")
            pieces = pieces_of_row(self.row_ids(example_rows, number), (text,), self.tokenizer)
            # The first output of the row is explained. It depends on the vectors of the tokens in `columns`.
            rows.append(ExplainedRow(number, number, "urgency", (0,), columns, (text,), pieces))
        return rows
