"""`TextTask`: how a task model is trained on texts, and what its outputs say about them."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.token_rows import TokenRows
from keras_bert.tokenization.kinds import graph_tokenizer
from keras_bert.tokenization.tokenizer import GraphForm, TokenTable


@dataclasses.dataclass(frozen=True)
class Encoded:
    """Examples as the model takes them. Tasks that need more to read the outputs derive from it.

    Attributes:
        rows: with labels if the examples have them.
        notes: what was cut or left out, in words, with its number.
    """

    rows: TokenRows
    notes: Sequence[str] = ()

    def print_notes(self, file: TextIO | None = None) -> "Encoded":
        """Prints the notes, on standard output by default, and returns this object."""
        for note in self.notes:
            print(note, file=file)
        return self


@dataclasses.dataclass(frozen=True)
class Answered:
    """Examples and the answers of a model.

    Attributes:
        model: the model that was asked.
        examples: the examples.
        encoded: their rows, and notes.
        outputs: the outputs of the model for the rows.
        answers: one for each example.
    """

    model: Any
    examples: Any
    encoded: Encoded
    outputs: Any
    answers: list


# Tokenizers that are kept: a run makes several models with one vocabulary.
_MOST_TOKENIZERS = 4
_tokenizers: dict[tuple[str, bool], GraphForm] = {}


def shared_tokenizer(vocabulary: TokenTable, do_lower_case: bool) -> GraphForm:
    """Returns the tokenizer of a vocabulary, the same one for all models that have it."""
    key = (vocabulary.sha256, do_lower_case)
    if key not in _tokenizers:
        while len(_tokenizers) >= _MOST_TOKENIZERS:
            del _tokenizers[next(iter(_tokenizers))]
        _tokenizers[key] = graph_tokenizer(vocabulary, do_lower_case)
    return _tokenizers[key]


class TextTask:
    """One task on texts, for one model. There is one class for each class of models.

    Args:
        model: a task model that has a vocabulary.

    Attributes:
        name: what a run folder calls the task.
        main_score: the name of the score by which the best of several models is chosen; more is better.
        example_rank: the axes of one example's text: 0 for a string, 1 for a list of words.
        usual_length: tokens in a row where a run is not told how many, see `row_length`.

    Raises:
        InputError: the model has no vocabulary.
    """

    name: str
    main_score = "accuracy"
    example_rank = 0
    usual_length = 128

    def __init__(self, model):
        if model.vocabulary is None:
            raise InputError(
                f"Texts need the vocabulary of the model, and this {type(model).__name__} has none: load it with "
                "from_pretrained, or set model.vocabulary = load_vocabulary(path)."
            )
        self.model = model
        self.tokenizer = shared_tokenizer(model.vocabulary, model.config.do_lower_case)

    def examples(self, x, y=None, sample_weight=None) -> Any:
        """Converts the inputs of `fit` or `predict` to examples.

        Args:
            x: the texts, as lists, arrays or tuples of these.
            y: the labels, or None.
            sample_weight: a number for each example, or None.

        Raises:
            InputError: something is empty, missing, or does not fit the model.
        """
        raise NotImplementedError

    def before_training(self, examples) -> None:
        """Sets on the model what follows from the examples that it is going to learn."""

    def encode(self, examples, max_seq_length: int | None = None) -> Encoded:
        """Returns the rows of examples.

        Args:
            examples: what `examples` returned.
            max_seq_length: tokens in a row at most; by default as many as the model has positions.
        """
        raise NotImplementedError

    def answers(self, examples, encoded: Encoded, outputs) -> list:
        """Returns the model's answer to each example.

        Args:
            outputs: what `predict_rows` returned for `encoded.rows`.
        """
        raise NotImplementedError

    def scores(self, examples, answers: Sequence) -> dict[str, float]:
        """Returns the official scores of answers to examples with labels."""
        raise NotImplementedError

    def without_labels(self, examples):
        """Returns the examples as they are predicted: labels that the model does not know must not disturb."""
        return examples

    def scores_of_guessing(self, examples) -> dict[str, float]:
        """Returns scores of a guess that reads no text, to compare the official ones with; none by default."""
        return {}

    def comparison(self, examples, scores: Mapping[str, float]) -> str | None:
        """Returns a sentence that compares the scores with guessing, or None."""
        return None

    def write_report(self, folder: str | os.PathLike, answered: Answered, scores: Mapping[str, float]) -> None:
        """Writes the report on an evaluation, for people, into an existing folder."""
        raise NotImplementedError

    def write_predictions(self, folder: str | os.PathLike, answered: Answered, name: str) -> None:
        """Writes the answers into files of an existing folder. Their names begin with `name`."""
        raise NotImplementedError

    def scores_of_predictions(self, examples, answers: Sequence) -> dict[str, float]:
        """Returns the scores of predictions for examples that happen to have labels; none by default."""
        return {}

    def class_weights(self, examples, class_weight: Mapping | str):
        """Returns a weight for each example from one for each class, or from "balanced".

        Raises:
            InputError: the task has no classes of examples.
        """
        raise InputError(f"{type(self.model).__name__} has no classes to weight. Leave class_weight out.")

    def _with_labels(self, rows: TokenRows, labels: np.ndarray | None, weights) -> TokenRows:
        """Returns rows with `label_ids` and `example_weights`, where there are any."""
        if labels is not None:
            rows = rows.with_labels(**{features.LABEL_IDS: labels})
        if weights is not None:
            rows = rows.with_labels(**{features.EXAMPLE_WEIGHTS: np.asarray(weights, np.float32)})
        return rows

    def checked_length(self, max_seq_length: int | None) -> int:
        """Returns `max_seq_length`; if it is None, the number of the model's positions.

        Raises:
            InputError: the model has not so many positions.
        """
        if max_seq_length is None:
            return self.model.config.max_sequence_length
        self.model.config.check_sequence_length(max_seq_length)
        return max_seq_length
