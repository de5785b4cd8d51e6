"""The answers of `TextToText`: written texts."""

import dataclasses
from collections.abc import Mapping
from typing import Any

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


def writing_arrays(texts: Any, scores: Any) -> dict[str, Any]:
    """Returns the best text of each source and its score, `[B]`, and of several, `[B, A]`, also the alternatives."""
    best = {"written": texts[:, 0], "score": scores[:, 0]}
    return best if texts.shape[1] == 1 else best | {"alternatives": texts, "alternative_scores": scores}


def written_texts(arrays: Mapping[str, Any], inputs: Mapping) -> list[WrittenText] | None:
    """Returns an answer for each source from what `writing_arrays` or a server returns; None for another task's."""
    if not arrays.keys() >= {"written", "score"}:
        return None
    found = []
    for row in rows_of(arrays):
        texts = map(text_of, row.get("alternatives", [row["written"]]))
        scores = map(float, row.get("alternative_scores", [row["score"]]))
        alternatives = tuple(zip(texts, scores, strict=True))
        found.append(WrittenText(*alternatives[0], alternatives))
    return found
