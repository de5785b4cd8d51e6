"""`explain` of task models on texts: a score for each token of the answer's text."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from keras_bert.accelerate.backend import require_tensorflow
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_choice, check_whole
from keras_bert.records import features
from keras_bert.records.token_rows import TokenRows
from keras_bert.tasks.examples import complete_examples
from keras_bert.tasks.explanation.attributions import QUADRATURES, quadrature
from keras_bert.tasks.explanation.explained_rows import ExplainedRow
from keras_bert.tasks.fitting import batch_size_of, text_task
from keras_bert.tokenization.user_inputs import as_list

METHODS = ("integrated_gradients", "attention_rollout")
# The tokens of the rows that are computed at once; it limits the memory.
_TOKENS_AT_ONCE = 2048


@dataclasses.dataclass(frozen=True)
class TokenScore:
    """The score of a token.

    Attributes:
        token: the token in the vocabulary, such as "##ing".
        text: the number of its text: 0, or 1 in the second text of a pair; None for [CLS] and [SEP].
        start, end: its characters `start:end` in this text. The pieces of a word that is tagged have those of the word.
        word: the word that the token is part of.
        word_start: the first character of this word.
        score: positive if the token speaks for the answer, negative if against it. Those of attention rollout are
            positive and add up to 1.
    """

    token: str
    text: int | None
    start: int
    end: int
    word: str
    word_start: int
    score: float


@dataclasses.dataclass(frozen=True)
class Explanation:
    """The scores of the tokens for one answer of a model.

    Attributes:
        target: the explained answer: a label, a tag and its word, an answer, a choice, or a token in place of [MASK].
        tokens: the tokens in the order of the row.
        texts: the texts of the example.
        method: one of `METHODS`.
        output: the explained number: the logit of the label, the tag, the choice or the token, the score of a
            regression, or the sum of the start logit and the end logit. None for attention rollout.
        baseline_output: the same number for the baseline.
        completeness_error: the sum of the scores less (`output` - `baseline_output`); 0 but for the error of the
            quadrature. More `steps` make it smaller.
    """

    target: str
    tokens: tuple[TokenScore, ...] = dataclasses.field(repr=False)
    texts: tuple[str, ...] = dataclasses.field(repr=False)
    method: str
    output: float | None = None
    baseline_output: float | None = None
    completeness_error: float | None = None


def explain_texts(model, x, targets=None, **options) -> list[Explanation]:
    """Explains a model's answers to texts; the arguments are those of `TextModel.explain`."""
    return explain_examples(model, complete_examples(text_task(model), x), targets, **options)


def explain_examples(
    model,
    examples,
    targets=None,
    *,
    method: str = "integrated_gradients",
    steps: int = 50,
    quadrature: str = "gausslegendre",
    baseline: str = "pad",
    batch_size: int | None = None,
    max_seq_length: int | None = None,
) -> list[Explanation]:
    """Explains a model's answers to examples of its task; the other arguments are those of `TextModel.explain`."""
    require_tensorflow("Explaining")
    _check(model, method, steps, quadrature)
    if not len(examples):
        raise InputError("There is nothing to explain: no text.")
    task = text_task(model)
    is_one = targets is None or isinstance(targets, (str, int))
    targets = [targets] * len(examples) if is_one else as_list(targets, "targets")
    if len(targets) != len(examples):
        raise InputError(f"{len(examples)} examples need as many targets. Received: {len(targets)} targets.")
    chosen, rows = task.rows_to_explain(examples, targets, max_seq_length, batch_size_of(batch_size))
    rows = dataclasses.replace(rows, rows_per_example=1, labels={})
    explainer = _Explainer(model, method, steps, quadrature, baseline)
    parts = [[] for _ in range(len(examples))]
    for row in chosen:
        parts[row.example].append((row, explainer.explain(row, rows)))
    return [_joined(part, method, model.vocabulary) for part in parts]


def _check(model, method: str, steps: int, quadrature: str) -> None:
    check_choice("method", method, METHODS)
    check_choice("quadrature", quadrature, QUADRATURES)
    check_whole("steps", steps, at_least=2, at_most=10_000)
    if not hasattr(model, "encoder") or not hasattr(model.encoder.embeddings, "look_up"):
        raise InputError(f"{type(model).__name__} has no answers that explain can explain.")


@dataclasses.dataclass(frozen=True)
class _RowScores:
    ids: np.ndarray
    scores: np.ndarray
    output: float | None = None
    baseline_output: float | None = None


class _Explainer:
    """Computes the scores of rows, one row after the other and without padding."""

    def __init__(self, model, method: str, steps: int, quadrature_name: str, baseline: str):
        import tensorflow as tf

        from keras_bert.accelerate.traced_functions import traced
        from keras_bert.tasks.explanation import gradients

        self._model, self._method, self._baseline = model, method, baseline
        self._baseline_of = gradients.baseline_of
        points, weights = quadrature(steps, quadrature_name)
        # The ends of the line give the outputs for the baseline and for the row.
        self._points = np.concatenate([[0.0], points, [1.0]]).astype(np.float32)
        self._weights = np.concatenate([[0.0], weights, [0.0]])
        rows = tf.TensorSpec([None, None], tf.int32)
        inputs = {name: rows for name in model.feature_names}
        known: dict[str, tuple[Callable, list]] = {
            "attention_rollout": (gradients.rollout_scores, [inputs, rows]),
            "integrated_gradients": (
                gradients.gradient_scores,
                [inputs, rows, rows, tf.TensorSpec([None], tf.float32)],
            ),
        }
        compute, signature = known[method]
        self._compute = traced(model, ("explanation", method), functools.partial(compute, model), signature)

    def explain(self, row: ExplainedRow, rows: TokenRows) -> _RowScores:
        batch = rows.batch(np.array([row.row]))
        inputs = {name: batch[name] for name in self._model.feature_names}
        ids = inputs[features.INPUT_IDS][0]
        if self._method == "attention_rollout":
            columns = row.columns or range(len(ids))
            return _RowScores(ids, self._compute(inputs, np.array([columns], np.int32)).numpy()[0])
        baseline = self._baseline_of(ids[None], self._model.vocabulary, self._baseline).numpy()
        selected = np.array([row.outputs], np.int32)
        at_once = max(1, _TOKENS_AT_ONCE // len(ids))
        scores, outputs = np.zeros(len(ids)), []
        for first in range(0, len(self._points), at_once):
            points = self._points[first : first + at_once]
            one = (inputs, baseline, selected)
            repeated = ({name: _repeat(values, len(points)) for name, values in inputs.items()},)
            repeated += tuple(_repeat(values, len(points)) for values in one[1:])
            products, found = self._compute(*repeated, points)
            scores += self._weights[first : first + at_once] @ products.numpy().astype(np.float64)
            outputs += found.numpy().tolist()
        return _RowScores(ids, scores, outputs[-1], outputs[0])


def _repeat(values: np.ndarray, number: int) -> np.ndarray:
    return np.repeat(values, number, axis=0)


def _joined(rows: Sequence[tuple[ExplainedRow, _RowScores]], method: str, vocabulary) -> Explanation:
    """Joins the rows of an example. Tokens that are in several windows get the sum of their scores."""
    found: dict = {}
    for number, (row, result) in enumerate(rows):
        for column, (piece, id_, score) in enumerate(zip(row.pieces, result.ids, result.scores, strict=True)):
            # The pieces of a tagged word have the same place, so the column tells them apart in a single row.
            key = (number, column) if piece is None or len(rows) == 1 else piece
            _, _, before = found.get(key, (None, None, 0.0))
            found[key] = piece, vocabulary.tokens[id_], before + row.weight * float(score)
    first = rows[0][0]
    tokens = tuple(
        TokenScore(token, None, -1, -1, token, -1, score)
        if piece is None
        else TokenScore(
            token,
            piece.text,
            piece.start,
            piece.end,
            first.texts[piece.text][piece.word_start : piece.word_end],
            piece.word_start,
            score,
        )
        for piece, token, score in found.values()
    )
    if method == "attention_rollout":
        return Explanation(first.target, tokens, first.texts, method)
    output, at_baseline = (
        sum(row.weight * getattr(result, name) for row, result in rows) for name in ("output", "baseline_output")
    )
    error = sum(token.score for token in tokens) - (output - at_baseline)
    return Explanation(first.target, tokens, first.texts, method, output, at_baseline, error)
