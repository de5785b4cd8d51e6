"""The answers of `MaskedLM`: the predicted tokens for each mask of a text."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from keras_bert.tasks.masked_lm.masked_texts import MaskedRow, put_tokens
from keras_bert.tasks.served_values import rows_of, text_of


@dataclasses.dataclass(frozen=True)
class Fill:
    """A predicted token for one mask.

    Attributes:
        token: the token as in the vocabulary; with `##` it continues the word before it.
        token_id: the id of the token. None from a server.
        score: the probability of the token among all tokens of the vocabulary.
        text: the text with this token in place of the mask; other masks are unchanged. None from a server, since only
            the tokenizer can join tokens and texts.
    """

    token: str
    token_id: int | None
    score: float
    text: str | None


@dataclasses.dataclass(frozen=True)
class FilledMask:
    """The predictions for one mask.

    Attributes:
        start: the character of the text where [MASK] begins. None from a server.
        fills: the predicted tokens, the likeliest first.
    """

    start: int | None
    fills: tuple[Fill, ...]


@dataclasses.dataclass(frozen=True)
class FilledText:
    """The predictions for the masks of a text.

    Attributes:
        text: the text.
        masks: the predictions for its masks, in order.
        filled_text: the text with the likeliest token at each mask. None from a server.
    """

    text: str
    masks: tuple[FilledMask, ...]
    filled_text: str | None

    table_columns: ClassVar = ("mask", "start", "token", "token_id", "score", "text")  # of a table of no masks

    def __str__(self) -> str:
        shown = [] if self.filled_text is None else [self.filled_text]
        return "\n".join([*shown, self.readable()])

    def table_rows(self) -> list[dict[str, Any]]:
        """Returns a row for each predicted token of each mask, with the number of the mask from 0."""
        return [
            {"mask": number, "start": mask.start, **dataclasses.asdict(fill)}
            for number, mask in enumerate(self.masks)
            for fill in mask.fills
        ]

    def readable(self, asked: Mapping | None = None) -> str:
        """Returns a line for each mask."""
        if not self.masks:
            return "  (no [MASK] to fill)"
        return "\n".join(
            f"  [MASK] {number}:  " + "   ".join(f"{fill.token} {fill.score:.4f}" for fill in mask.fills)
            for number, mask in enumerate(self.masks, start=1)
        )


def filled_text(text: str, row: MaskedRow, masks: Sequence[tuple[np.ndarray, np.ndarray]], tokenizer) -> FilledText:
    """Returns the answer for a text.

    Args:
        row: the tokens of the text.
        masks: for each mask the ids of the predicted tokens and their probabilities, the likeliest first.
        tokenizer: a `Tokenizer`.
    """
    filled = []
    for number, (ids, scores) in enumerate(masks):
        fills = []
        for token_id, score in zip(ids.tolist(), scores.tolist(), strict=True):
            placed = [token_id if place == number else None for place in range(len(masks))]
            fills.append(Fill(tokenizer.tokens[token_id], token_id, score, put_tokens(text, placed, tokenizer)))
        filled.append(FilledMask(row.starts[number], tuple(fills)))
    best = put_tokens(text, [mask.fills[0].token_id for mask in filled], tokenizer)
    return FilledText(text, tuple(filled), best)


def served_answers(outputs: Mapping[str, np.ndarray], inputs: Mapping) -> list[FilledText] | None:
    """Returns the answers in the outputs of a served masked-LM model; None if the outputs are those of another task.

    Args:
        inputs: `text`.
    """
    if outputs.keys() != {"tokens", "probabilities", "positions"} or "text" not in inputs:
        return None
    answers = []
    for row, text in zip(rows_of(outputs), inputs["text"], strict=True):
        masks = zip(row["positions"], row["tokens"], row["probabilities"], strict=True)
        filled = [_served_mask(tokens, scores) for position, tokens, scores in masks if position >= 0]
        answers.append(FilledText(text_of(text), tuple(filled), None))
    return answers


def _served_mask(tokens: Sequence, scores: Sequence) -> FilledMask:
    fills = (Fill(text_of(token), None, float(score), None) for token, score in zip(tokens, scores, strict=True))
    return FilledMask(None, tuple(fills))
