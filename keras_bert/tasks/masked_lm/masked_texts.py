"""Texts in which a literal [MASK] stands for a token, and what tokens make of them."""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.tokenization.user_inputs import as_texts
from keras_bert.tokenization.vocabulary import MASK

_NO_SPACE_BEFORE = re.compile(r" (?=[.,;:!?%)\]}…。、，！？；：）])")
_NO_SPACE_AFTER = re.compile(r"(?<=[(\[{$£€（]) ")
# "don ' t" and "fox ' s": between letters, an apostrophe or hyphen joins.
_JOINED = re.compile(r"(?<=\w) (['’-]) (?=\w)")


@dataclasses.dataclass(frozen=True)
class MaskedRow:
    """The tokens of a text with masks.

    Attributes:
        ids: int32 (tokens,), [CLS] and [SEP] included.
        positions: int32 (M,), where the masked tokens are.
        starts: M numbers: the character of the text at which each [MASK] begins.
    """

    ids: np.ndarray
    positions: np.ndarray
    starts: tuple[int, ...]


def encode_masked_texts(texts: Sequence[str], tokenizer, max_seq_length: int) -> list[MaskedRow]:
    """Makes a row, [CLS] text [SEP], of each text; every literal [MASK] becomes the one token of that name.

    Args:
        texts: N strings, each with one [MASK] or more.
        tokenizer: a `WordPieceTokenizer`.
        max_seq_length: most tokens in a row. Longer texts are cut at their end.

    Raises:
        InputError: a text has no [MASK], or one of its masks lies beyond `max_seq_length`.

    Example:
        "the [MASK] fox" -> ids of [CLS] the [MASK] fox [SEP], positions [2], starts (4,)
    """
    return [_encode(number, text, tokenizer, max_seq_length) for number, text in enumerate(texts, start=1)]


def _encode(number: int, text: str, tokenizer, max_seq_length: int) -> MaskedRow:
    vocabulary = tokenizer.vocabulary
    parts = text.split(MASK)
    if len(parts) == 1:
        raise InputError(f"Text {number} has no {MASK}, so there is nothing to fill in. Received: {_shown(text)}")
    ids, positions = [vocabulary.cls_id], []
    for part_number, part in enumerate(parts):
        if part_number:
            positions.append(len(ids))
            ids.append(vocabulary.mask_id)
        ids += tokenizer.encode(part)
    if positions[-1] > max_seq_length - 2:
        raise InputError(
            f"Text {number} is too long: it has {len(ids) + 1} tokens, of which {max_seq_length} are read, and "
            f"{MASK} number {next(n for n, at in enumerate(positions, 1) if at > max_seq_length - 2)} lies beyond "
            f"them. Shorten the text before it, or give a larger max_seq_length. Received: {_shown(text)}"
        )
    ids = [*ids[: max_seq_length - 1], vocabulary.sep_id]
    starts = np.cumsum([len(part) + len(MASK) for part in parts[:-1]]) - len(MASK)
    return MaskedRow(np.array(ids, np.int32), np.array(positions, np.int32), tuple(starts.tolist()))


def put_tokens(text: str, tokens: Sequence[str | None]) -> str:
    """Puts tokens in the places of the masks of a text; None leaves a mask as it is.

    >>> put_tokens("I was play [MASK] the [MASK].", ["##ing", None])
    'I was playing the [MASK].'
    """
    first, *others = text.split(MASK)
    for token, part in zip(tokens, others, strict=True):
        token = MASK if token is None else token
        if token.startswith("##") and len(token) > 2:
            first, token = first.rstrip(), token[2:]
        first += token + part
    return first


def join_tokens(tokens: Sequence[str]) -> str:
    """Writes tokens as text. White space is lost in tokens, so what it was like is a guess.

    >>> join_tokens(["he", "was", "play", "##ing", ",", "wasn", "'", "t", "he", "?"])
    "he was playing, wasn't he?"
    """
    text = ""
    for token in tokens:
        is_continuation = token.startswith("##") and len(token) > 2
        text += token[2:] if is_continuation else f" {token}"
    text = _JOINED.sub(r"\1", text.strip())
    return _NO_SPACE_AFTER.sub("", _NO_SPACE_BEFORE.sub("", text))


def target_ids(targets: Sequence[str], tokenizer) -> np.ndarray:
    """Returns the id of each word, or piece of one, int32 (targets,).

    Raises:
        InputError: there are none, one is given twice, or one is not a single token of the vocabulary.
    """
    vocabulary = tokenizer.vocabulary
    targets = as_texts(targets, "target")
    if not targets:
        raise InputError("targets must name one word or more. Received: none")
    ids = []
    for target in targets:
        pieces = [vocabulary.ids[target]] if target in vocabulary.ids else tokenizer.encode(target)
        if len(pieces) != 1 or pieces == [vocabulary.unk_id]:
            cut = " ".join(vocabulary.tokens[piece] for piece in pieces) or "nothing"
            raise InputError(
                f"The target {target!r} is not one token of the vocabulary: there it is {cut}. A {MASK} stands for one "
                "token, so choose words that the vocabulary has."
            )
        ids.append(pieces[0])
    twice = {vocabulary.tokens[token_id] for token_id in ids if ids.count(token_id) > 1}
    if twice:
        raise InputError(f"Several targets are the same token: {', '.join(sorted(twice))}. Give each once.")
    return np.array(ids, np.int32)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
