"""Examples for training and scoring a `MultiVectorEncoder`."""

import dataclasses
from collections.abc import Sequence

from keras_bert.program.columns import is_float32
from keras_bert.program.errors import InputError
from keras_bert.tasks.embedding.examples import PAIRS, SCORES, SentenceExamples
from keras_bert.tasks.held_out import part_of


@dataclasses.dataclass(frozen=True)
class MultiVectorExamples(SentenceExamples):
    """N queries, each with one document or more: C columns of N texts, as in `SentenceExamples`.

    Attributes:
        teacher_scores: for each example a teacher's scores of its C - 1 documents; or None.

    Raises:
        InputError: as `SentenceExamples`; or there is one column only, or a teacher's scores are other than that.
    """

    teacher_scores: Sequence[Sequence[float]] | None = None

    def __post_init__(self):
        super().__post_init__()
        num_documents = len(self.columns) - 1
        if num_documents < 1:
            raise InputError(
                f"{self.source}: queries are compared with documents. Give two columns or more: (queries, documents). "
                "encode_query and encode_document return vectors."
            )
        if self.teacher_scores is None:
            return
        if len(self.teacher_scores) != len(self):
            raise InputError(
                f"{self.source}: {len(self)} queries, but a teacher's scores for {len(self.teacher_scores)}."
            )
        for number, scores in enumerate(self.teacher_scores, start=1):
            is_row = hasattr(scores, "__len__") and not isinstance(scores, str) and len(scores) == num_documents
            if not is_row or not all(map(is_float32, scores)):
                raise InputError(
                    f"{self.source}: a teacher's scores of example {number} must be {num_documents} numbers, one for "
                    f"each document. Received: {scores!r:.100}"
                )

    def part(self, first: int, stop: int) -> "MultiVectorExamples":
        columns = [column[first:stop] for column in self.columns]
        return part_of(self, ("teacher_scores", "weights"), first, stop, columns=columns)

    @property
    def kind(self) -> str:
        """What can be learnt from the examples: `PAIRS`, or a teacher's `SCORES`."""
        return PAIRS if self.teacher_scores is None else SCORES
