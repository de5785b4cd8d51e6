"""The answers of `TextToText`: written texts."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from keras_bert.tasks.served_values import rows_of, text_of


@dataclasses.dataclass(frozen=True)
class WrittenText:
    """A text that the model wrote for a source.

    Attributes:
        text: the best text.
        score: its score, see `tasks/text_to_text/beam_search.py`.
        alternatives: the `num_answers` best texts and their scores, the best first.
    """

    text: str
    score: float
    alternatives: tuple[tuple[str, float], ...] = dataclasses.field(repr=False)

    def readable(self, asked: Mapping | None = None) -> str:
        """Returns a line for each alternative."""
        return "\n".join(f"  {text or '(no text)'}  {score:.4f}" for text, score in self.alternatives)


def written_texts(texts: Iterable[Sequence[str]], scores: Iterable[Sequence[float]]) -> list[WrittenText]:
    """Returns an answer for each source, from the texts and the scores of its alternatives, the best first."""
    return [
        WrittenText(*found[0], tuple(found))
        for found in (list(zip(*alternatives, strict=True)) for alternatives in zip(texts, scores, strict=True))
    ]


def served_answers(outputs: Mapping[str, np.ndarray], inputs: Mapping) -> list[WrittenText] | None:
    """Returns the answers in the outputs of a served `TextToText`; None if the outputs are those of another task."""
    if not outputs.keys() >= {"written", "score"}:
        return None
    rows = [
        (row.get("alternatives", [row["written"]]), row.get("alternative_scores", [row["score"]]))
        for row in rows_of(outputs)
    ]
    return written_texts(
        (list(map(text_of, texts)) for texts, _ in rows), (list(map(float, scores)) for _, scores in rows)
    )
