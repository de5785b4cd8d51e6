"""The answers of `MaskedLM`: the predicted tokens for each mask of a text."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from keras_bert.tasks import answer_operations
from keras_bert.tasks.masked_lm.masked_texts import put_tokens
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


def best_tokens(log_probabilities: Any, top_k: int, ops: Any = answer_operations) -> tuple[Any, Any]:
    """Returns the probabilities and the ids of the best tokens, the likeliest first: `[..., V]` to `[..., top_k]`."""
    best, ids = ops.top_k(log_probabilities, top_k)
    return ops.exp(best), ids


def filled_texts(arrays: Mapping[str, Any], inputs: Mapping, tokenizer: Any = None) -> list[FilledText] | None:
    """Returns an answer for each text from its best tokens; None if the arrays are those of another task.

    The arrays are the outputs of a server for the inputs `text`. With a tokenizer, which puts the tokens into the
    texts, rows may have different lengths, and there are also the `token_ids` of the tokens, and `starts`, the
    characters at which the masks begin.
    """
    if not arrays.keys() >= {"tokens", "probabilities", "positions"} or "text" not in inputs:
        return None
    rows = zip(rows_of(arrays), map(text_of, inputs["text"]), strict=True)
    return [_filled_text(row, text, tokenizer) for row, text in rows]


def _filled_text(row: Mapping[str, Any], text: str, tokenizer: Any) -> FilledText:
    count = sum(int(position) >= 0 for position in row["positions"])  # the others fill up the row

    def with_tokens(token_ids: dict[int, Any]) -> str | None:
        return put_tokens(text, [token_ids.get(number) for number in range(count)], tokenizer) if tokenizer else None

    masks = []
    for number in range(count):
        tokens, scores = row["tokens"][number], row["probabilities"][number]
        ids = row["token_ids"][number] if tokenizer else [None] * len(tokens)
        fills = (
            Fill(text_of(token), token_id, float(score), with_tokens({number: token_id}))
            for token, token_id, score in zip(tokens, ids, scores, strict=True)
        )
        masks.append(FilledMask(row["starts"][number] if tokenizer else None, tuple(fills)))
    best = {number: mask.fills[0].token_id for number, mask in enumerate(masks) if tokenizer}
    return FilledText(text, tuple(masks), with_tokens(best))
