"""Examples with a source text and a target text."""

import dataclasses
from collections.abc import Sequence

from keras_bert.program.errors import InputError
from keras_bert.tasks.examples import Examples, check_examples


@dataclasses.dataclass(frozen=True)
class TextToTextExamples(Examples):
    """Sources and their targets.

    Attributes:
        sources: N texts.
        targets: N texts, or None.
        source: where the examples come from, for messages.
        weights: N weights for training, 0 or more; or None.

    Raises:
        InputError: there are no examples, a text is empty, the lengths differ, or a weight is below 0.
    """

    per_example = ("sources", "targets", "weights")

    sources: Sequence[str]
    targets: Sequence[str] | None = None
    source: str = "the examples"
    weights: Sequence[float] | None = None

    def __post_init__(self):
        check_examples(self)
        for name, texts in (("source", self.sources), ("target", self.targets or ())):
            for number, text in enumerate(texts, start=1):
                if not isinstance(text, str) or not text.strip():
                    raise InputError(
                        f"{self.source}: the {name} of example {number} must be a text that is not empty. Received: "
                        f"{text!r:.100}"
                    )
