"""`explain` of task models on texts: a score for each token of the answer's text."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from keras_bert.accelerate.backend import require_tensorflow
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_choice, check_whole
from keras_bert.program.user_inputs import as_list
from keras_bert.records import features
from keras_bert.records.token_rows import batch_size_of
from keras_bert.tasks.base import text_task
from keras_bert.tasks.explanation.explained_rows import ExplainedRow
from keras_bert.tasks.text_rows import parts_of

METHODS = ("integrated_gradients", "attention_rollout")
QUADRATURES = ("gausslegendre", "riemann_trapezoid")
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
    """The scores of the tokens for one answer of a model. A notebook shows its texts in colour.

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

    def _repr_html_(self) -> str:
        return Explanations([self])._repr_html_()


class Explanations(list):
    """A list with an `Explanation` for each example. A notebook shows their texts in colour."""

    def _repr_html_(self) -> str:
        from keras_bert.tasks.explanation.page import explanation_part

        return explanation_part(self)


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
) -> Explanations:
    """Explains a model's answers to examples of its task; the other arguments are those of `TextModel.explain`."""
    require_tensorflow("Explaining")
    check_choice("method", method, METHODS)
    check_choice("quadrature", quadrature, QUADRATURES)
    check_whole("steps", steps, at_least=2, at_most=10_000)
    if not hasattr(model, "encoder") or not hasattr(model.encoder.embeddings, "look_up"):
        raise InputError(f"{type(model).__name__} has no answers that explain can explain.")
    if not len(examples):
        raise InputError("There is nothing to explain: no text.")
    task = text_task(model)
    is_one = targets is None or isinstance(targets, (str, int))
    targets = [targets] * len(examples) if is_one else as_list(targets, "targets")
    if len(targets) != len(examples):
        raise InputError(f"{len(examples)} examples need as many targets. Received: {len(targets)} targets.")
    chosen, rows = task.rows_to_explain(examples, targets, max_seq_length, batch_size_of(batch_size))
    rows = dataclasses.replace(rows, rows_per_example=1, labels={})
    explain = _explainer(model, method, steps, quadrature, baseline)
    parts = [[] for _ in range(len(examples))]
    for row in chosen:
        batch = rows.batch(np.array([row.row]))
        inputs = {name: batch[name] for name in model.feature_names}
        parts[row.example].append((row, explain(row, inputs)))
    return Explanations(_joined(part, method, model.vocabulary) for part in parts)


def quadrature(steps: int, name: str = "gausslegendre") -> tuple[np.ndarray, np.ndarray]:
    """Returns points and weights of an integral from 0 to 1, float64 `(steps,)` both.

    >>> quadrature(3, "riemann_trapezoid")
    (array([0. , 0.5, 1. ]), array([0.16666667, 0.33333333, 0.16666667]))

    Args:
        steps: the number of points.
        name: `gausslegendre`, or `riemann_trapezoid`: equal steps, where both ends count half and, as in captum, the
            weights add up to (steps - 1) / steps.
    """
    if name == "gausslegendre":
        points, weights = np.polynomial.legendre.leggauss(steps)
        return (1 + points) / 2, weights / 2
    weights = np.full(steps, 1 / steps)
    weights[[0, -1]] /= 2
    return np.linspace(0, 1, steps), weights


class _RowScores(NamedTuple):
    ids: np.ndarray
    scores: np.ndarray
    output: float | None = None
    baseline_output: float | None = None


def _explainer(model, method: str, steps: int, quadrature_name: str, baseline: str) -> Callable[..., _RowScores]:
    """Returns a function of an `ExplainedRow` and its features `[1, S]` that computes the scores of its tokens."""
    import tensorflow as tf

    from keras_bert.accelerate.traced_functions import traced
    from keras_bert.tasks.explanation import gradients

    ids_of_rows = tf.TensorSpec([None, None], tf.int32)
    features_of_rows = dict.fromkeys(model.feature_names, ids_of_rows)

    def compiled(function, *specs):
        compute = functools.partial(function, model)
        return traced(model, ("explanation", method), compute, [features_of_rows, ids_of_rows, *specs])

    if method == "attention_rollout":
        rollout_scores = compiled(gradients.rollout_scores)

        def rollout(row: ExplainedRow, inputs: dict) -> _RowScores:
            ids = inputs[features.INPUT_IDS][0]
            columns = row.columns or range(len(ids))
            return _RowScores(ids, rollout_scores(inputs, np.array([columns], np.int32)).numpy()[0])

        return rollout

    gradient_scores = compiled(gradients.gradient_scores, ids_of_rows, tf.TensorSpec([None], tf.float32))
    points, weights = quadrature(steps, quadrature_name)
    # The ends of the line give the outputs for the baseline and for the row.
    points = np.concatenate([[0.0], points, [1.0]]).astype(np.float32)
    weights = np.concatenate([[0.0], weights, [0.0]])

    def integrated_gradients(row: ExplainedRow, inputs: dict) -> _RowScores:
        ids = inputs[features.INPUT_IDS]
        others = (gradients.baseline_of(ids, model.vocabulary, baseline).numpy(), np.array([row.outputs], np.int32))
        scores, outputs = np.zeros(ids.size), []
        for part in parts_of(len(points), ids.size, _TOKENS_AT_ONCE):
            repeat = functools.partial(np.repeat, repeats=len(points[part]), axis=0)
            repeated = {name: repeat(values) for name, values in inputs.items()}
            products, found = gradient_scores(repeated, *map(repeat, others), points[part])
            scores += weights[part] @ products.numpy().astype(np.float64)
            outputs += found.numpy().tolist()
        return _RowScores(ids[0], scores, outputs[-1], outputs[0])

    return integrated_gradients


def _joined(rows: Sequence[tuple[ExplainedRow, _RowScores]], method: str, vocabulary) -> Explanation:
    """Joins the rows of an example. Tokens that are in several windows get the sum of their scores."""
    found: dict = {}
    for number, (row, result) in enumerate(rows):
        for column, (piece, id_, score) in enumerate(zip(row.pieces, result.ids, result.scores, strict=True)):
            # The pieces of a tagged word have the same place, so the column tells them apart in a single row.
            key = (number, column) if piece is None or len(rows) == 1 else piece
            _, _, before = found.get(key, (None, None, 0.0))
            found[key] = piece, vocabulary.tokens[id_], before + row.weight * float(score)
    first, scores = rows[0][0], []
    for piece, token, score in found.values():
        text, start, end, word_start, word_end = piece or (None, -1, -1, -1, -1)
        word = token if text is None else first.texts[text][word_start:word_end]
        scores.append(TokenScore(token, text, start, end, word, word_start, score))
    tokens = tuple(scores)
    if method == "attention_rollout":
        return Explanation(first.target, tokens, first.texts, method)
    output, at_baseline = (
        sum(row.weight * getattr(result, name) for row, result in rows) for name in ("output", "baseline_output")
    )
    error = sum(token.score for token in tokens) - (output - at_baseline)
    return Explanation(first.target, tokens, first.texts, method, output, at_baseline, error)
