"""Examples for training and scoring sparse vectors."""

import dataclasses
from collections.abc import Sequence

from keras_bert.program.columns import is_float32
from keras_bert.program.errors import InputError
from keras_bert.tasks.embedding.examples import SentenceExamples
from keras_bert.tasks.held_out import part_of


@dataclasses.dataclass(frozen=True)
class SparseExamples(SentenceExamples):
    """N examples of C texts each: a query, its document, and other documents.

    Attributes:
        margins: for each example, a teacher's score of its document less that of each other document: C - 2 numbers;
            or None.

    Raises:
        InputError: as `SentenceExamples`, or a margin is no number.
    """

    margins: Sequence[Sequence[float]] | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.margins is None:
            return
        if len(self.margins) != len(self):
            raise InputError(
                f"{self.source}: there must be a teacher's score for each example. Received: {len(self)} examples, "
                f"{len(self.margins)} scores"
            )
        if len(self.columns) < 3:
            raise InputError(
                f"{self.source}: a teacher's scores belong to a query and two documents or more. Received: "
                f"{len(self.columns)} columns"
            )

    @classmethod
    def with_scores(cls, columns: Sequence[Sequence[str]], scores: Sequence | None, **options) -> "SparseExamples":
        """Returns examples with a teacher's scores.

        Args:
            columns: C lists of N texts.
            scores: for each example a margin, or C - 2 margins, or C - 1 scores of the documents; None for no teacher.
            options: other attributes.
        """
        if scores is None:
            return cls(columns, **options)
        source, others = options.get("source", "the examples"), len(columns) - 2
        margins = [_margins(one, others, source, number) for number, one in enumerate(scores, start=1)]
        return cls(columns, margins=margins, **options)

    def part(self, first: int, stop: int) -> "SparseExamples":
        """Returns the examples `first:stop`."""
        columns = [column[first:stop] for column in self.columns]
        return part_of(self, ("margins", "weights"), first, stop, columns=columns)


def _margins(scores, others: int, source: str, number: int) -> list[float]:
    found = list(scores) if isinstance(scores, (list, tuple)) or hasattr(scores, "tolist") else [scores]
    wrong = [score for score in found if not is_float32(score)]
    if wrong or len(found) not in (others, others + 1):
        raise InputError(
            f"{source}: the teacher's scores of example {number} must be {max(others, 1)} margins or "
            f"{max(others, 1) + 1} scores, for its documents. Received: {scores!r:.100}"
        )
    return found if len(found) == others else [found[0] - score for score in found[1:]]
