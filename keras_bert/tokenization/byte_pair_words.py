"""Splits a text into words, as GPT-2 and Llama 3 do before byte-level BPE.

Reference: openai/gpt-2, `encoder.py`; the pattern in Llama 3's `tokenizer.json`.
"""

import functools
import re

from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.nfc import character_class

# White_Space of Unicode 14.0: `\s` in the pattern of GPT-2. Python's `\s` would add U+001C to U+001F.
WHITE_SPACE = frozenset(
    [*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
)
# As tokenizer.json of Llama 3 has it.
LLAMA_3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def split_words(text: str) -> list[str]:
    """Splits a text as GPT-2 does: "don't go" -> ["don", "'t", " go"]. A word includes the preceding space."""
    return _word_pattern().findall(text)


def split_words_as_llama_3(text: str) -> list[str]:
    """Splits a text as Llama 3 does: "(don't) 2024" -> ["(don", "'t", ")", " ", "202", "4"]."""
    return _llama_3_word_pattern().findall(text)


def _classes() -> tuple[str, str, str]:
    """Returns the letters, numbers and white space of Unicode 14.0 as the inside of brackets."""
    letters, numbers, space = map(character_class, (unicode_table.letters(), unicode_table.numbers(), WHITE_SPACE))
    return letters, numbers, space


@functools.cache
def _word_pattern() -> re.Pattern:
    letters, numbers, space = _classes()
    return re.compile(
        rf"'(?:[stmd]|re|ve|ll)| ?[{letters}]+| ?[{numbers}]+| ?[^{space}{letters}{numbers}]+"
        rf"|[{space}]+(?![^{space}])|[{space}]+"
    )


@functools.cache
def _llama_3_word_pattern() -> re.Pattern:
    letters, numbers, space = _classes()
    return re.compile(
        rf"'(?i:[stmd]|re|ve|ll)|[^\r\n{letters}{numbers}]?[{letters}]+|[{numbers}]{{1,3}}"
        rf"| ?[^{space}{letters}{numbers}]+[\r\n]*|[{space}]*[\r\n]+|[{space}]+(?![^{space}])|[{space}]+"
    )
