"""The answers of `TextToText`: written texts; and the options of the search for them. Imports no Keras."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.program.options import Options, documented, option
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


@documented
@dataclasses.dataclass(frozen=True)
class SearchOptions(Options):
    """The options of a search.

    Attributes:
        num_answers: the number of best hypotheses to return, at most `num_beams`.

    Raises:
        InputError: a number is out of range.
    """

    num_beams: int = option(4, "Hypotheses that are continued for each source; 1 for greedy search.", at_least=1)
    max_new_tokens: int = option(64, "The largest number of written tokens, the end token included.", at_least=1)
    min_new_tokens: int = option(0, "The end token is not written before this many tokens.", at_least=0)
    length_penalty: float = option(
        1.0, "Scores are divided by the length to this power; above 0 it favours long answers."
    )
    num_answers: int = option(1, at_least=1)

    def __post_init__(self):
        super().__post_init__()
        if self.min_new_tokens >= self.max_new_tokens:
            raise InputError(
                f"min_new_tokens must be below max_new_tokens={self.max_new_tokens}. Received: {self.min_new_tokens}"
            )
        if self.num_answers > self.num_beams:
            raise InputError(
                f"num_answers must be at most num_beams={self.num_beams}. Received: {self.num_answers}. Use more beams."
            )
