"""The answers of `CrossEncoder`: scores, which are arrays, and ranked texts. A server's scores are `ScoreAnswer`."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# The activations of scores: names of functions of `answer_operations`.
SCORE_ACTIVATIONS = ("sigmoid", "linear", "tanh", "relu")


class RankedText(NamedTuple):
    """A text of a ranking: its number among the given texts from 0, the text, and its score."""

    number: int
    text: str
    score: float


def ranked_texts(scores: np.ndarray, texts: Sequence[str], top_k: int | None) -> list[RankedText]:
    """Returns the `top_k` texts with the highest scores, float `[texts]`, the best first; all for None."""
    order = np.argsort(-scores, kind="stable")[:top_k].tolist()
    return [RankedText(number, texts[number], float(scores[number])) for number in order]
