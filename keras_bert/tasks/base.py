"""`TextTask`: converts texts to model inputs, and model outputs to answers and scores."""

import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TextIO

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.printing import LONGEST_LINE, printable
from keras_bert.records import features
from keras_bert.records.token_rows import TokenRows
from keras_bert.tasks.examples import read_examples
from keras_bert.tasks.prediction import Calls, predict_rows
from keras_bert.tasks.text_rows import TextRows, checked_length, text_rows, tokenizer_of


@dataclasses.dataclass(frozen=True)
class ExampleRows:
    """The rows of examples. Tasks that need more data to interpret the outputs use a subclass.

    Attributes:
        rows: the token rows, with labels if the examples have them.
        notes: sentences that report how many texts were cut or left out.
        windows: for texts that were cut into overlapping windows, the example of each row; or None.
    """

    rows: TokenRows
    notes: Sequence[str] = ()
    windows: np.ndarray | None = dataclasses.field(default=None, kw_only=True)

    def print_notes(self, file: TextIO | None = None) -> "ExampleRows":
        """Prints the notes, on standard output by default, and returns this object."""
        for note in self.notes:
            # In one piece, so that lines of several threads do not mix.
            print(printable(note, LONGEST_LINE) + "\n", end="", file=file)
        return self

    def outputs_of_examples(self, outputs: np.ndarray) -> np.ndarray:
        """Returns the outputs of examples `[N, ...]` from those of rows: the mean over windows, weighted by tokens."""
        if self.windows is None:
            return outputs
        return mean_over_windows(outputs, self.windows, np.diff(self.rows.splits))


def mean_over_windows(outputs: np.ndarray, examples: np.ndarray, num_tokens: np.ndarray) -> np.ndarray:
    """Returns the means of the outputs of windows, float `[V, D]`, weighted by their numbers of tokens, int `[V]`.

    `examples`, int `[V]`, has the example of each window, in order from 0.

    >>> mean_over_windows(np.array([[1.0], [4.0], [7.0]]), np.array([0, 0, 1]), np.array([1, 2, 5])).tolist()
    [[3.0], [7.0]]
    """
    weights = num_tokens.astype(np.float64)
    totals = np.zeros((examples[-1] + 1, outputs.shape[1]))
    np.add.at(totals, examples, outputs * weights[:, None])
    return (totals / np.bincount(examples, weights)[:, None]).astype(outputs.dtype)


def check_labels_of_rows(rows: TokenRows, purpose: str) -> None:
    """Raises `InputError` if rows have no labels. `purpose` ends the message, such as "to train on"."""
    if not rows.labels:
        raise InputError(f"There are no labels {purpose}.")


def as_returned(scores: dict[str, float], return_dict: bool) -> dict[str, float] | list[float]:
    """Returns scores as `evaluate` does.

    >>> as_returned({"accuracy": 0.5, "loss": 2.0}, return_dict=False)
    [2.0, 0.5]
    """
    return scores if return_dict else [scores[name] for name in sorted(scores, key=lambda name: name != "loss")]


@dataclasses.dataclass(frozen=True)
class Answered:
    """Examples, their rows, the outputs of a model for the rows, and an answer for each example."""

    model: Any
    examples: Any
    example_rows: ExampleRows
    outputs: Any
    answers: list


def text_task(model: Any) -> "TextTask":
    """Returns the task of a model or an export, with its vocabulary and labels. Raises `InputError` without one."""
    task_class = getattr(model, "task_class", None)
    if task_class is None:
        advice = " A model of your own names its task first: see docs/extending.md."
        advice = advice if hasattr(model, "task_class") else ""
        raise InputError(f"{type(model).__name__} takes features, not texts. Received: texts.{advice}")
    return task_class(model)


class TextTask:
    """One task on texts, for one model. Each model class has its own task class, its attribute `task_class`.

    `predict` and `evaluate` call the methods below in this order: `examples`, `rows`, `outputs`, `answers`, `scores`.

    Args:
        model: a task model that has a vocabulary.

    Attributes:
        model: the model.
        tokenizer: its tokenizer, see `tokenizer_of`.
        name: the name of the task in run folders.
        main_score: the name of the score that selects the best of several models; higher is better.
        example_rank: number of axes of one example's text: 0 for a string, 1 for a list of words.
        usual_length: default number of tokens in a row, see `row_length`.
        output_options: the names of the options of `outputs`, which users may give to `predict`.
        may_be_blank: whether a text may be empty or white space only.
        labels_may_be_missing: whether None is a label, as for questions without an answer.
        scores_texts: whether a model of the task can be a teacher of those that rank texts.

    Raises:
        InputError: the model has no vocabulary.
    """

    name: str
    main_score = "accuracy"
    example_rank = 0
    usual_length = 128
    output_options: Sequence[str] = ()
    may_be_blank = False
    labels_may_be_missing = False
    scores_texts = False

    def __init__(self, model):
        self.model = model
        self.tokenizer = tokenizer_of(model)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        *,
        max_seq_length: int | None = None,
        verbose: Any = "auto",
        callbacks: Any = None,
        **options: Any,
    ) -> Any:
        """Returns an answer for each text. The arguments are those of `TextModel.predict`.

        Args:
            **options: those of `answers`, and `output_options`.
        """
        output_options = {name: options.pop(name) for name in self.output_options if name in options}
        columns = () if hasattr(x, "element_spec") else self.text_columns(x) or (x,)
        lists = [column for column in columns if hasattr(column, "__len__") and not isinstance(column, (str, bytes))]
        if lists and not any(map(len, lists)):
            return self.no_answers(len(columns))
        examples = read_examples(self, x)
        example_rows = self.rows(examples, max_seq_length).print_notes(sys.stderr)
        calls = Calls(self.model, callbacks, "predict")
        outputs = self.outputs(example_rows.rows, batch_size, verbose, calls, **output_options)
        calls.end()
        return self.answers(examples, example_rows, outputs, **options)

    def evaluate(
        self,
        x: Any,
        y: Any = None,
        batch_size: int | None = None,
        *,
        max_seq_length: int | None = None,
        sample_weight: Any = None,
        skip_missing: bool = False,
        verbose: Any = "auto",
        callbacks: Any = None,
        return_dict: bool = True,
    ) -> dict[str, float] | list[float]:
        """Returns the official scores on texts with labels. The arguments are those of `TextModel.evaluate`."""
        examples = read_examples(self, x, y, sample_weight, skip_missing)
        example_rows = self.rows(examples, max_seq_length).print_notes(sys.stderr)
        check_labels_of_rows(example_rows.rows, "to compare with: give evaluate(texts, labels)")
        calls = Calls(self.model, callbacks, "test")
        outputs = self.outputs(example_rows.rows, batch_size, verbose, calls)
        answers = self.answers(examples, example_rows, outputs)
        scores = self.scores_of(Answered(self.model, examples, example_rows, outputs, answers))
        calls.end(scores)
        return as_returned(scores, return_dict)

    def text_columns(self, x) -> tuple | None:
        """Returns the columns of texts in the argument `x` of `fit` or `predict`, or None if it is one column."""
        return x if isinstance(x, tuple) and x and not isinstance(x[0], (str, bytes, type(None), float)) else None

    def examples(self, x, y=None, sample_weight=None) -> Any:
        """Converts the arguments of `fit` or `predict` to examples.

        Args:
            x: the texts, as lists, arrays or tuples of these.
            y: the labels, or None.
            sample_weight: the weights of the examples, N numbers, or None.

        Raises:
            InputError: something is empty, missing, or does not fit the model.
        """
        raise NotImplementedError

    def before_training(self, examples) -> None:
        """Sets those attributes of the model that depend on its training examples."""

    def before_updates(self, num_updates: int) -> None:
        """Tells the model how many updates a run has; the next `fit` of features may be only its last part."""

    def rows(self, examples, max_seq_length: int | None = None) -> ExampleRows:
        """Makes token rows of the result of `examples`, of at most `max_seq_length` tokens, or of all positions."""
        raise NotImplementedError

    def taught(
        self, rows: Any, examples: Any, batch_size: int, kept: Callable = lambda name, compute: compute()
    ) -> Any:
        """Returns the rows to train on with what a teacher computes for them in batches; without a teacher, `rows`.

        `kept` takes a name and a function that computes an array, and returns the array, which it may have kept.
        """
        return rows

    def outputs(self, rows: TokenRows, batch_size: int | None = None, verbose="auto", calls: Calls | None = None):
        """Returns the outputs of the model for rows; the arguments are those of `predict_rows`."""
        return predict_rows(self.model, rows, batch_size, verbose, calls)

    def no_answers(self, num_columns: int) -> Any:
        """Returns what `answers` returns for no examples of so many columns."""
        return []

    def answers(self, examples, example_rows: ExampleRows, outputs) -> list:
        """Converts `outputs` for `example_rows.rows` to answers, one for each example."""
        raise NotImplementedError

    def scores(self, examples, answers: Sequence, is_worst: bool = False) -> dict[str, float]:
        """Returns the official scores of answers, name -> value. The examples must have labels.

        Tasks that choose among texts return the mean over all orders of texts with equal scores. With `is_worst`, ties
        count against the model: so a model that scores all texts alike is never kept as the best.
        """
        raise NotImplementedError

    def scores_of(self, answered: Answered, is_worst: bool = False) -> dict[str, float]:
        """Returns `scores`. Tasks override this if their answers are too little for scores, and the outputs are not."""
        return self.scores(answered.examples, answered.answers, is_worst)

    def without_labels(self, examples):
        """Returns examples for prediction. Tasks that reject labels unknown to the model remove the labels here."""
        return examples

    def scores_of_guessing(self, examples) -> dict[str, float]:
        """Returns the scores of a baseline that ignores the texts; an empty dictionary by default."""
        return {}

    def comparison(self, examples, scores: Mapping[str, float]) -> str | None:
        """Returns a sentence that compares the scores with the baseline, or None."""
        return None

    def write_report(self, folder: str | os.PathLike, answered: Answered, scores: Mapping[str, float]) -> None:
        """Writes a human-readable report on an evaluation into an existing folder."""
        raise NotImplementedError

    def write_predictions(self, folder: str | os.PathLike, answered: Answered, name: str) -> None:
        """Writes the answers to files in an existing folder. The file names begin with `name`."""
        raise NotImplementedError

    def scores_of_predictions(self, examples, answers: Sequence) -> dict[str, float]:
        """Returns the scores of predictions if the examples have labels; an empty dictionary by default."""
        return {}

    def class_weights(self, examples, class_weight: Mapping | str):
        """Converts class weights, label -> weight or "balanced", to example weights.

        Raises `InputError` if the task has no classes of examples.
        """
        raise InputError(f"{type(self.model).__name__} has no classes to weight. Leave class_weight out.")

    def logits_and_labels(
        self, examples, example_rows: ExampleRows, outputs
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Returns the arguments of `fit_temperature` in `tasks/calibration.py`: None for logits if the answers have no
        probabilities, and for labels if there are none. `outputs` are those for `example_rows.rows`.
        """
        return None, None

    def rows_to_explain(
        self, examples, targets: Sequence, max_seq_length: int | None, batch_size: int
    ) -> tuple[list, TokenRows]:
        """Returns an `ExplainedRow` for each row that the explanations of the answers need, and all rows.

        `targets` are what to explain, one for each example; None for the model's answer. Raises `InputError` if one is
        not valid, or the task has no explanations.
        """
        example_rows = self.rows(examples, max_seq_length).print_notes(sys.stderr)
        outputs = predict_rows(self.model, example_rows.rows, batch_size, verbose=0)
        return self.explained_rows(examples, example_rows, outputs, targets), example_rows.rows

    def explained_rows(self, examples, example_rows: ExampleRows, outputs, targets: Sequence) -> list:
        """Returns the rows of `rows_to_explain`; `outputs` is the result of `predict_rows` for `example_rows.rows`."""
        raise InputError(f"{type(self.model).__name__} has no answers that explain can explain.")

    def row_ids(self, example_rows: ExampleRows, row: int) -> np.ndarray:
        """Returns the token ids of a row, int32 (S,)."""
        rows = example_rows.rows
        return rows.tokens[features.INPUT_IDS][rows.splits[row] : rows.splits[row + 1]]

    def _with_labels(self, rows: TokenRows, labels: np.ndarray | None, weights) -> TokenRows:
        """Adds `label_ids` and `example_weights` to rows, unless they are None."""
        if labels is not None:
            rows = rows.with_labels(**{features.LABEL_IDS: labels})
        if weights is not None:
            rows = rows.with_labels(**{features.EXAMPLE_WEIGHTS: np.asarray(weights, np.float32)})
        return rows

    def text_rows(
        self, texts: Iterable[str], second_texts: Iterable[str] | None, max_seq_length: int | None, **options
    ) -> TextRows:
        """Returns the rows of texts, or of pairs; `options` are those of `text_rows`."""
        return text_rows(texts, second_texts, self.tokenizer, self.checked_length(max_seq_length), **options)

    def _notes_of_cuts(
        self, examples, is_cut: np.ndarray, max_seq_length: int | None, what: str = "texts were"
    ) -> list[str]:
        """Returns a note that reports how many are cut, or no note."""
        length, num_cut = self.checked_length(max_seq_length), int(is_cut.sum())
        return [f"{examples.source}: {num_cut} of {is_cut.size} {what} cut to {length} tokens"] if num_cut else []

    def checked_length(self, max_seq_length: int | None) -> int:
        """Returns `max_seq_length`; None selects the number of the model's positions. Raises `InputError`."""
        return checked_length(self.model.config, max_seq_length)
