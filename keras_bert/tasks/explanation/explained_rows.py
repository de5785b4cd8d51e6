"""`ExplainedRow`: which outputs of a token row are explained, and where its tokens are in the texts."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.tasks.label_names import label_name
from keras_bert.tasks.text_rows import tokenize_texts


class TextPiece(NamedTuple):
    """The place of a token: the characters `start:end` of text number `text`, in the word `word_start:word_end`."""

    text: int
    start: int
    end: int
    word_start: int
    word_end: int


@dataclasses.dataclass(frozen=True)
class ExplainedRow:
    """A row whose outputs are explained. The explained number is the sum of some of the model's outputs."""

    example: int
    row: int  # its number among the rows of all examples
    target: str  # the name of the explained answer
    outputs: tuple[int, ...]  # indices into the flattened outputs of the row; start logits come before end logits
    columns: tuple[int, ...]  # the tokens whose vectors these outputs are computed from; empty for all of the row
    texts: tuple[str, ...]  # of the example
    pieces: Sequence[TextPiece | None]  # the place of each token of the row; None for [CLS] and [SEP]
    weight: float = 1.0  # the share of the row in the output of the example


def pieces_of_row(ids: np.ndarray, texts: Sequence[str], tokenizer, first_tokens: Sequence[int] = ()) -> list:
    """Returns the place of each token of a row [CLS] text [SEP] or [CLS] text [SEP] text [SEP], int (S,).

    `first_tokens` are the numbers of the first tokens of the texts that are in the row, 0 by default.
    """
    vocabulary = tokenizer.vocabulary
    special, firsts = (vocabulary.cls_id, vocabulary.sep_id), first_tokens or [0] * len(texts)
    places = [iter(_places(text, number, tokenizer)[firsts[number] :]) for number, text in enumerate(texts)]
    pieces, number, before = [], -1, vocabulary.cls_id
    for id_ in ids.tolist():
        number += id_ not in special and before in special
        pieces.append(None if id_ in special else next(places[number]))
        before = id_
    return pieces


def pieces_of_masked_row(ids: np.ndarray, text: str, tokenizer) -> list:
    """As `pieces_of_row`, for a row of `masked_rows`: a text with literal [MASK] tokens."""
    mask, start, pieces = tokenizer.vocabulary.special_tokens.mask, 0, []
    for number, part in enumerate(text.split(mask)):
        if number:
            end = start + len(mask)
            pieces.append(TextPiece(0, start, end, start, end))
            start = end
        pieces += [TextPiece(0, *(start + place for place in piece[1:])) for piece in _places(part, 0, tokenizer)]
        start += len(part)
    return [None, *pieces[: len(ids) - 2], None]


def _places(text: str, number: int, tokenizer) -> list[TextPiece]:
    tokens, vocabulary = tokenize_texts([text], tokenizer), tokenizer.vocabulary
    spans = list(zip(tokens.starts.tolist(), tokens.ends.tolist(), strict=True))
    words = []
    for id_, (start, end) in zip(tokens.ids.tolist(), spans, strict=True):
        continues = words and vocabulary.continues_word(vocabulary.tokens[id_]) and not text[words[-1][1] : start]
        if continues:
            words[-1][1] = end
            words.append(words[-1])
        else:
            words.append([start + len(text[start:end]) - len(text[start:end].lstrip()), end])
    return [TextPiece(number, *span, *word) for span, word in zip(spans, words, strict=True)]


def number_of(value, names: Sequence[str], kind: str) -> int:
    """Returns the index of a label, given as a name or an index. `names` are strings, or a range for choices.

    Raises `InputError` if `value` is neither, or if it is the index of one label and the name of another one.
    """
    is_index = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= value < len(names)
    if is_index and isinstance(names[0], str):
        value = label_name(value, names, "A target of explain")
    if value in names:
        return list(names).index(value)
    raise InputError(
        f"A target of explain must be a {kind} of the model: {', '.join(map(str, names))[:300]}. Received: "
        f"{value!r:.100}"
    )


def pools_all_tokens(model) -> bool:
    """Returns whether the answers of a model are computed from the mean of all tokens, not from the first one."""
    return hasattr(model, "sentence_head") or getattr(model.config, "classifier_pooling", "cls") == "mean"
