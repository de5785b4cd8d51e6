"""Byte-fallback BPE of Gemma and mmBERT in Python, with character offsets, by the package tokenizers.

This is SentencePiece's BPE as Hugging Face stores it. What it does, in order:

1. Write every space as ▁. A ▁ in a text cannot be told from a space.
2. Every character is a token; a character that the vocabulary does not have is its bytes in UTF-8, such as <0xE2>.
3. Join neighbouring tokens by the merges, as byte-level BPE does, but in the whole text: no step makes words of it.

Offsets leave the spaces at the ends of a token out, as in byte_pair.py.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.tokenization.added_tokens import AddedToken
from keras_bert.tokenization.byte_pair import INVALID_BYTE, BytePairTokenizer, joined_parts
from keras_bert.tokenization.tokenizer import GEMMA_SPECIAL_TOKENS, SpecialTokens, text_bytes

SPACE_MARK = "▁"
_BYTE_NAMES = tuple(f"<0x{value:02X}>" for value in range(256))


class ByteFallbackTokenizer(BytePairTokenizer):
    """Text -> ids by BPE of characters, with bytes for unknown characters.

    Texts are str or bytes as for `BytePairTokenizer`: an invalid byte is the token of this byte.

    Args:
        ids: token -> id, for all ids from 0 on. The tokens must include all 256 bytes, <0x00> to <0xFF>.
        merges: pairs of tokens, in the order in which they are joined.
        special_tokens: names of the special tokens, by role.
        added_tokens: as for `BytePairTokenizer`. A str matches the text letter by letter.

    Raises:
        InputError: as `BytePairTokenizer`, or a merge contains the token of a byte.

    Example:
        >>> tokens = [f"<0x{value:02X}>" for value in range(256)] + ["<bos>", "<eos>", "<pad>", "<unk>", "<mask>"]
        >>> tokens += ["▁", "t", "h", "e", "th", "the", "▁the"]
        >>> merges = [("t", "h"), ("th", "e"), ("▁", "the")]
        >>> tokenizer = ByteFallbackTokenizer({token: number for number, token in enumerate(tokens)}, merges)
        >>> tokenizer.tokenize("the thé")
        ['the', '▁', 'th', '<0xC3>', '<0xA9>']
        >>> tokenizer.tokenize_with_offsets("the the")[1:]
        ([0, 4], [3, 7])

    Reference: Kudo and Richardson 2018, "SentencePiece"; huggingface/tokenizers, `BPE` with `byte_fallback`.
    """

    kind = "Byte-fallback BPE"
    falls_back = True
    fits_two_files = False
    _argument_names = ("ids", "merges", "special_tokens", "added_tokens")

    def __init__(
        self,
        ids: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        special_tokens: SpecialTokens = GEMMA_SPECIAL_TOKENS,
        added_tokens: Sequence[AddedToken | str] = (),
    ):
        super().__init__(ids, merges, special_tokens, added_tokens=added_tokens)
        names = {*_BYTE_NAMES}
        wrong = next((pair for pair in self.merges if not names.isdisjoint(pair)), None)
        if wrong:
            raise InputError(f"The merge {' '.join(wrong)} contains the token of a byte, which is not supported.")
        # Character -> its token. Each is joined from nothing.
        self.character_ids = {token: number for token, number in self.ids.items() if len(token) == 1}

    @functools.cached_property
    def before_space(self) -> frozenset[str]:
        """The characters that stand before ▁ inside a token that merges create."""
        joined = (left[-1] for left, right in self.merges if right[0] == SPACE_MARK)
        return frozenset(joined) - {SPACE_MARK}

    def text_ids(self) -> list[int]:
        """Returns the ids of bytes and characters, of the tokens joined from them, and of the added tokens."""
        return sorted({*super().text_ids(), *self.character_ids.values()})

    def continues_word(self, token: str) -> bool:
        return not token.startswith((SPACE_MARK, " "))

    def graph(self, core_operations: bool = False) -> Any:
        """Returns the `GraphByteFallback` of this tokenizer, which always uses core operations only."""
        from keras_bert.tokenization.graph_byte_fallback import GraphByteFallback

        return GraphByteFallback(self)

    @functools.cached_property
    def token_bytes(self) -> tuple[bytes, ...]:
        """The bytes of each token, in the order of the ids. Added and special tokens are their names in UTF-8."""
        values, plain = {name: value for value, name in enumerate(_BYTE_NAMES)}, self._unsplit_names()
        return tuple(
            bytes([values[token]])
            if token in values
            else token.encode()
            if token in plain
            else token.replace(SPACE_MARK, " ").encode()
            for token in self.tokens
        )

    @functools.cached_property
    def possible_words(self) -> dict[bytes, int]:
        """The words that may be one token, in UTF-8 with spaces -> the token. They are, if merges lead to it."""
        numbers = sorted({*self.character_ids.values(), *self.joined_ids})
        return {self.tokens[number].replace(SPACE_MARK, " ").encode(): number for number in numbers}

    def _encoded(self, text: str) -> tuple[list[int], Sequence[tuple[int, int]]]:
        return super()._encoded(text.replace(" ", SPACE_MARK))

    @functools.cached_property
    def _cut(self) -> re.Pattern:
        # Merges apply to the whole text, but none of them crosses such a place.
        crossing = re.escape("".join(sorted(self.before_space)))
        return re.compile(f"(?<=[^{SPACE_MARK}{crossing}])(?={SPACE_MARK})")

    def _encoded_invalid(self, text: str) -> tuple[list[int], Sequence[tuple[int, int]]]:
        parts: list[tuple] = []
        for part in re.split(f"({INVALID_BYTE.pattern})", text):
            if INVALID_BYTE.match(part):
                parts.append((1, [self.byte_ids[value] for value in text_bytes(part)], [(0, 1)]))
            else:
                parts.append((len(part), *super()._encoded_part(part)))
        return joined_parts(parts)

    def _byte_names(self) -> tuple[str, ...]:
        return _BYTE_NAMES
