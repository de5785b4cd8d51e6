"""The answers of a served `SparseEncoder`: the tokens of a text with the largest weights."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from keras_bert.tasks.served_values import rows_of, text_of


@dataclasses.dataclass(frozen=True)
class TokenWeights:
    """The tokens of the vocabulary that a text weighs most.

    Attributes:
        tokens: the tokens, those with the largest weights first.
        ids: their numbers in the vocabulary.
        weights: their weights, above 0.
    """

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    weights: tuple[float, ...]

    def readable(self, asked: Mapping | None = None) -> str:
        """Returns a line for each token."""
        pairs = zip(self.tokens, self.weights, strict=True)
        return "\n".join(f"  {token}  {weight:.4f}" for token, weight in pairs) or "  (no token)"


def token_weights(arrays: Mapping[str, np.ndarray], inputs: Mapping) -> list[TokenWeights] | None:
    """Returns the answers in the outputs of a served `SparseEncoder`; None if they are those of another task."""
    if arrays.keys() != {"tokens", "token_ids", "weights"}:
        return None
    found = []
    for row in rows_of(arrays):
        values = zip(row["tokens"], row["token_ids"], row["weights"], strict=True)
        used = [(text_of(token), int(number), float(weight)) for token, number, weight in values if number >= 0]
        found.append(TokenWeights(*map(tuple, zip(*used, strict=True))) if used else TokenWeights((), (), ()))
    return found
