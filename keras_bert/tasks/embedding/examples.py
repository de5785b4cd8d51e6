"""Examples for training and scoring sentence embeddings."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.program.options import check_choice
from keras_bert.program.user_inputs import is_float32
from keras_bert.tasks.examples import check_weights, part_of

PAIRS, SCORES, LISTS, LABELS, TEXTS = "pairs", "scores", "lists of scores", "labels", "texts"
PROPORTIONAL, ROUND_ROBIN = "proportional", "round_robin"


@dataclasses.dataclass(frozen=True)
class SentenceExamples:
    """N examples of C texts each.

    Attributes:
        columns: C lists of N texts. With C >= 2 the first is the anchor, the second its positive, and the others are
            hard negatives.
        scores: N numbers, how similar the two texts of a pair are. With C > 2, N lists: the scores of all texts but the
            anchor, such as those of a teacher; or the margins, by how much the positive exceeds each hard negative. Or
            None.
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
        if self.scores is not None and len(self.columns) == 1:
            raise InputError(f"{self.source}: scores belong to pairs of texts. Received: 1 column")
        if self.labels is not None and len(self.columns) != 1:
            raise InputError(f"{self.source}: labels belong to single texts. Received: {len(self.columns)} columns")
        if self.scores is not None and len(self.columns) > 2:
            self._check_lists()
        for number, score in enumerate(self.scores if self.kind == SCORES else (), start=1):
            if not is_float32(score):
                raise InputError(
                    f"{self.source}: the score of example {number} must be a number. Received: {score!r:.100}"
                )
        check_weights(self)

    def _check_lists(self) -> None:
        """Makes a list of each example's scores; a single margin may be a number. Raises `InputError`."""
        num_texts = len(self.columns) - 1
        lists = [list(scores) if isinstance(scores, Sequence) else [scores] for scores in self.scores or ()]
        for number, scores in enumerate(lists, start=1):
            if len(scores) not in (num_texts, num_texts - 1) or not all(map(is_float32, scores)):
                raise InputError(
                    f"{self.source}: the scores of example {number} must be {num_texts} numbers, one for each text "
                    f"after the first, or {num_texts - 1} margins. Received: {self.scores[number - 1]!r:.100}"
                )
            if len(scores) != len(lists[0]):
                raise InputError(
                    f"{self.source}: all examples must have scores, or all margins. Received: {len(lists[0])} numbers "
                    f"in example 1, {len(scores)} in example {number}"
                )
        object.__setattr__(self, "scores", lists)

    def check_for(self, loss: str, kinds: Sequence[str], fewest_texts: int, has_teacher: bool) -> None:
        """Raises `InputError` unless a loss of this name can learn from examples of these kinds with so many texts.

        With `has_teacher`, a teacher computes the scores of pairs.
        """
        if has_teacher and self.kind == LISTS:
            raise InputError(
                f"{self.source}: {loss} has a teacher, and the examples have scores. Leave one of them out."
            )
        kind = LISTS if has_teacher and self.kind == PAIRS and LISTS in kinds else self.kind
        if kind in kinds and len(self.columns) >= fewest_texts:
            return
        advice = ". Give the scores of a teacher, or the teacher itself" if LISTS in kinds else ""
        raise InputError(
            f"{self.source}: {loss} learns from {' or '.join(kinds)}, with {fewest_texts} texts or more in an example. "
            f"Received: {self.kind}, with {len(self.columns)}{advice}"
        )

    def check_for_negatives(self, what: str) -> None:
        """Raises `InputError` if all first texts are equal; `what` they are, such as "queries"."""
        if len(set(self.columns[0])) < 2:
            raise InputError(f"{self.source}: in-batch negatives need two different {what} or more. Received: one")

    def __len__(self):
        return len(self.columns[0])

    def part(self, first: int, stop: int) -> "SentenceExamples":
        """Returns the examples `first:stop`."""
        columns = [column[first:stop] for column in self.columns]
        return part_of(self, ("scores", "labels", "weights"), first, stop, columns=columns)

    def check_labels(self) -> None:
        """Raises `InputError` if no label occurs twice, so that no two texts belong together."""
        labels = self.labels or ()
        if len(set(labels)) == len(labels):
            raise InputError(
                f"{self.source}: every text has a label of its own, {labels[0]!r:.100} and others, so no two texts "
                "belong together. Pairs are given as two columns: (texts, second_texts)."
            )

    @property
    def kind(self) -> str:
        """What can be learnt from the examples: `PAIRS`, `SCORES`, `LISTS`, `LABELS`, or nothing from `TEXTS`."""
        if self.scores is not None:
            return SCORES if len(self.columns) == 2 else LISTS
        if self.labels is not None:
            return LABELS
        return PAIRS if len(self.columns) > 1 else TEXTS

    @property
    def is_ranked(self) -> bool:
        """Whether an example is a query and the texts that may answer it."""
        return self.kind in (PAIRS, LISTS)


@dataclasses.dataclass(frozen=True)
class DataSets:
    """Several data sets for one training. Each batch is of one of them, and has its loss.

    Attributes:
        parts: the data sets. Each has its `loss`, or that of its kind.
        sampler: `proportional`: an epoch has all batches of all data sets in random order. `round_robin`: the data sets
            take turns, and an epoch ends with the smallest one.

    Raises:
        InputError: there is no data set, or the sampler is unknown.

    Reference: sentence-transformers `MultiDatasetBatchSamplers`.
    """

    parts: Sequence[SentenceExamples]
    sampler: str = PROPORTIONAL
    source = "the data sets"
    weights = None

    def __post_init__(self):
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts or not all(isinstance(part, SentenceExamples) for part in self.parts):
            raise InputError(f"DataSets takes one or more SentenceExamples. Received: {self.parts!r:.100}")
        check_choice("sampler", self.sampler, (PROPORTIONAL, ROUND_ROBIN))

    def __len__(self):
        return sum(map(len, self.parts))

    def part(self, first: int, stop: int) -> "DataSets":
        raise InputError("Several data sets have no validation_split. Give validation_data.")

    @property
    def kind(self) -> str:
        """The kind of the first data set, which decides what is evaluated."""
        return self.parts[0].kind


def data_sets_of(examples: SentenceExamples | DataSets) -> Sequence[SentenceExamples]:
    """Returns several data sets, or a list of one."""
    return examples.parts if isinstance(examples, DataSets) else [examples]
