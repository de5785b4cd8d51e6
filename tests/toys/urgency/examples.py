"""Messages with their urgencies."""

import dataclasses
from collections.abc import Sequence

from keras_bert.program.columns import is_float32
from keras_bert.program.errors import InputError
from keras_bert.tasks.examples import check_examples, part_of


@dataclasses.dataclass(frozen=True)
class UrgencyExamples:
    """N messages, and N numbers from 0 to 1, or None."""

    texts: Sequence[str]
    urgencies: Sequence[float] | None = None
    weights: Sequence[float] | None = None
    source: str = "the examples"

    def __post_init__(self):
        check_examples(self, ("texts", "urgencies"))
        wrong = [value for value in self.urgencies or () if not (is_float32(value) and 0 <= value <= 1)]
        if wrong:
            raise InputError(f"{self.source}: an urgency must be a number from 0 to 1. Received: {wrong[0]!r:.100}")

    def __len__(self):
        return len(self.texts)

    def part(self, first: int, stop: int) -> "UrgencyExamples":
        return part_of(self, ("texts", "urgencies", "weights"), first, stop)
