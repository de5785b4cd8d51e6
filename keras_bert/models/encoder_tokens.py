"""`Tokens`: the tokens that an encoder has read from a batch of features."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, eq=False)
class Tokens:
    """The inputs of an encoder, int32. A family with more inputs adds them in a subclass.

    Attributes:
        ids: `[B, S]`.
        sequences: `[B, S]`, the number of each token's sequence in its row; 0 for padding.
        segments: `[B, S]`; None in models with fewer than two segments.
        positions: `[B, S]`, counted from 0; None in encoders without positions.
        cls_positions: `[B, K]`, the columns where the sequences of packed rows begin; None if rows are not packed.
        vectors: float `[B, S, E]`, used instead of the token embeddings of `ids`, or None.
    """

    ids: Any
    sequences: Any
    segments: Any
    positions: Any
    cls_positions: Any
    vectors: Any
