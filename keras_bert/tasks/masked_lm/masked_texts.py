"""Makes token rows of texts with literal [MASK] tokens, and replaces [MASK] by predicted tokens.

Here [MASK] means the mask token of the vocabulary, which may have another name, such as <mask>.
"""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import as_texts
from keras_bert.tasks.text_rows import token_lists
from keras_bert.tokenization.tokenizer import SpecialTokens, TokenTable

_NO_SPACE_BEFORE = re.compile(r" (?=[.,;:!?%)\]}…。、，！？；：）])")
_NO_SPACE_AFTER = re.compile(r"(?<=[(\[{$£€（]) ")
# "don ' t" and "fox ' s": between letters, an apostrophe or hyphen joins.
_JOINED = re.compile(r"(?<=\w) (['’-]) (?=\w)")

_ASCII_SPACE = " \t\n\f\r"


@dataclasses.dataclass(frozen=True)
class MaskedRow:
    """The tokens of a text with masks.

    Attributes:
        ids: int32 (tokens,), [CLS] and [SEP] included.
        positions: int32 (M,), the columns of the masked tokens.
        starts: M ints, the character of the text at which each [MASK] begins.
    """

    ids: np.ndarray
    positions: np.ndarray
    starts: tuple[int, ...]


def masked_rows(texts: Sequence[str], tokenizer, max_seq_length: int, check: bool = True) -> list[MaskedRow]:
    """Makes a row [CLS] text [SEP] of each text, of at most `max_seq_length` tokens; [MASK] becomes the mask token.

    With `check`, raises `InputError` if a text has no [MASK], or one that is cut off. Else such masks have no entry.

    Example:
        "the [MASK] fox" -> ids of [CLS] the [MASK] fox [SEP], positions [2], starts (4,)
    """
    special_tokens = tokenizer.vocabulary.special_tokens
    mask = special_tokens.mask
    parts = [text.split(mask) for text in texts]
    for number, (text, its_parts) in enumerate(zip(texts, parts, strict=True), start=1):
        if check and len(its_parts) == 1:
            raise InputError(f"Text {number} has no {mask}, so there is nothing to fill in. Received: {_shown(text)}")
    stripped = [[*(before_mask(part, special_tokens) for part in before), last] for *before, last in parts]
    ids = iter(token_lists((part for its_parts in stripped for part in its_parts), tokenizer.tokenize).to_list())
    rows = []
    for number, (text, its_parts) in enumerate(zip(texts, parts, strict=True), start=1):
        row, positions = _joined([next(ids) for _ in its_parts], tokenizer.vocabulary)
        if check:
            _check_positions(number, text, row, positions, mask, max_seq_length)
        positions = [column for column in positions if column <= max_seq_length - 2]
        row = [*row[: max_seq_length - 1], tokenizer.vocabulary.sep_id]
        starts = np.cumsum([len(part) + len(mask) for part in its_parts[:-1]])[: len(positions)] - len(mask)
        rows.append(MaskedRow(np.array(row, np.int32), np.array(positions, np.int32), tuple(starts.tolist())))
    return rows


def _joined(parts: Sequence[list[int]], vocabulary: TokenTable) -> tuple[list[int], list[int]]:
    """Returns [CLS] and the ids of the parts with a mask between each two, and the columns of the masks."""
    ids, positions = [vocabulary.cls_id, *parts[0]], []
    for part in parts[1:]:
        positions.append(len(ids))
        ids += [vocabulary.mask_id, *part]
    return ids, positions


def _check_positions(number: int, text: str, ids, positions: list[int], mask: str, max_seq_length: int) -> None:
    beyond = next((count for count, at in enumerate(positions, 1) if at > max_seq_length - 2), None)
    if beyond is not None:
        raise InputError(
            f"Text {number} is too long: it has {len(ids) + 1} tokens, of which {max_seq_length} are read, and "
            f"{mask} number {beyond} lies beyond them. Shorten the text before it, or give a larger max_seq_length. "
            f"Received: {_shown(text)}"
        )


def before_mask(text: str, special_tokens: SpecialTokens) -> str:
    """Returns the text before a mask without the white space that belongs to the mask."""
    return text.rstrip(_ASCII_SPACE) if special_tokens.mask_takes_space else text


def put_tokens(text: str, token_ids: Sequence[int | None], tokenizer) -> str:
    """Replaces the masks of a text by tokens, in order; None leaves a mask unchanged.

    Example, for WordPiece:
        "I was play [MASK] the [MASK].", [id of ##ing, None] -> "I was playing the [MASK]."
    """
    special_tokens = tokenizer.vocabulary.special_tokens
    first, *others = text.split(special_tokens.mask)
    for token_id, part in zip(token_ids, others, strict=True):
        if token_id is None:
            token = special_tokens.mask
        elif tokenizer.keeps_spaces:
            first, token = before_mask(first, special_tokens), tokenizer.decode([token_id])
            token = token if first else token.lstrip(" ")
        else:
            token = tokenizer.tokens[token_id]
            if token.startswith("##") and len(token) > 2:
                first, token = first.rstrip(), token[2:]
        first += token + part
    return first


def join_tokens(tokens: Sequence[str]) -> str:
    """Converts tokens to text. Tokens do not record white space, so it is restored by rules.

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
    """Returns the token id of each word or word piece, int32 (targets,).

    Raises:
        InputError: there are no targets, two are the same token, or one is not a single token of the vocabulary.
    """
    vocabulary = tokenizer.vocabulary
    targets = as_texts(targets, "target")
    if not targets:
        raise InputError("targets must name one word or more. Received: none")
    ids = []
    for target in targets:
        pieces = _pieces_of_target(target, tokenizer)
        if len(pieces) != 1 or pieces == [vocabulary.unk_id]:
            cut = " ".join(vocabulary.tokens[piece] for piece in pieces) or "nothing"
            raise InputError(
                f"The target {target!r} must be a single token of the vocabulary. Its tokens are: {cut}. Choose "
                "words that the vocabulary has, since a mask stands for one token."
            )
        ids.append(pieces[0])
    twice = {vocabulary.tokens[token_id] for token_id in ids if ids.count(token_id) > 1}
    if twice:
        raise InputError(f"Several targets are the same token: {', '.join(sorted(twice))}. Give each once.")
    return np.array(ids, np.int32)


def _pieces_of_target(target: str, tokenizer) -> list[int]:
    """Returns the ids of a target: one id for a token of the vocabulary, otherwise those of a word in a text."""
    if target in tokenizer.ids:
        return [tokenizer.ids[target]]
    with_space = tokenizer.encode(f" {target}")
    return with_space if len(with_space) == 1 else tokenizer.encode(target)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
