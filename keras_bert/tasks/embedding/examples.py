"""Examples for training and scoring sentence embeddings."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from keras_bert.program.columns import is_float32
from keras_bert.program.errors import InputError
from keras_bert.tasks.held_out import part_of

PAIRS, SCORES, LABELS, TEXTS = "pairs", "scores", "labels", "texts"


@dataclasses.dataclass(frozen=True)
class SentenceExamples:
    """N examples of C texts each.

    Attributes:
        columns: C lists of N texts. With C >= 2 the first is the anchor, the second its positive, and the others are
            hard negatives.
        scores: N numbers, how similar the two texts of a pair are; or None.
        labels: N labels of single texts; or None.
        source: the origin of the examples, for messages.
        weights: N weights for training, 0 or more; or None.
        loss: the `EmbeddingLoss` to train with; None to choose it by `kind`.

    Raises:
        InputError: there are no examples, the columns are unequally long, a text is empty, or a number is not valid.
    """

    columns: Sequence[Sequence[str]]
    scores: Sequence[float] | None = None
    labels: Sequence[Any] | None = None
    source: str = "the examples"
    weights: Sequence[float] | None = None
    loss: Any = None

    def __post_init__(self):
        size = len(self.columns[0]) if self.columns else 0
        if not size:
            raise InputError(f"{self.source}: there is no example.")
        others = {f"column {number}": column for number, column in enumerate(self.columns, start=1)}
        others |= {"scores": self.scores, "labels": self.labels, "weights": self.weights}
        for name, values in others.items():
            if values is not None and len(values) != size:
                raise InputError(
                    f"{self.source}: all columns must be equally long. Received: {size} texts in column 1, "
                    f"{len(values)} in {name}"
                )
        for number, texts in enumerate(zip(*self.columns, strict=True), start=1):
            empty = next((text for text in texts if not isinstance(text, str) or not text.strip()), None)
            if empty is not None:
                raise InputError(
                    f"{self.source}: the texts of example {number} must not be empty. Received: {empty!r:.100}"
                )
        if self.scores is not None and len(self.columns) != 2:
            raise InputError(f"{self.source}: scores belong to pairs of texts. Received: {len(self.columns)} columns")
        if self.labels is not None and len(self.columns) != 1:
            raise InputError(f"{self.source}: labels belong to single texts. Received: {len(self.columns)} columns")
        for name in ("scores", "weights"):
            for number, value in enumerate(getattr(self, name) or (), start=1):
                if not is_float32(value) or (name == "weights" and value < 0):
                    raise InputError(
                        f"{self.source}: the {name[:-1]} of example {number} must be a number"
                        f"{' of 0 or more' if name == 'weights' else ''}. Received: {value!r:.100}"
                    )

    def __len__(self):
        return len(self.columns[0])

    def part(self, first: int, stop: int) -> "SentenceExamples":
        """Returns the examples `first:stop`."""
        columns = [column[first:stop] for column in self.columns]
        return part_of(self, ("scores", "labels", "weights"), first, stop, columns=columns)

    @property
    def kind(self) -> str:
        """What can be learnt from the examples: `PAIRS`, `SCORES`, `LABELS`, or nothing from `TEXTS`."""
        if self.scores is not None:
            return SCORES
        if self.labels is not None:
            return LABELS
        return PAIRS if len(self.columns) > 1 else TEXTS
