"""Splits a text into words, as GPT-2 does before byte-level BPE.

Reference: openai/gpt-2, `encoder.py`.
"""

import functools
import re

from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.nfc import character_class

# White_Space of Unicode 14.0: `\s` in the pattern of GPT-2. Python's `\s` would add U+001C to U+001F.
WHITE_SPACE = frozenset(
    [*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
)


def split_words(text: str) -> list[str]:
    """Splits a text as GPT-2 does: "don't go" -> ["don", "'t", " go"]. A word includes the preceding space."""
    return _word_pattern().findall(text)


@functools.cache
def _word_pattern() -> re.Pattern:
    """Returns GPT-2's pattern, with the letters, numbers and white space of Unicode 14.0."""
    letters, numbers, space = map(character_class, (unicode_table.letters(), unicode_table.numbers(), WHITE_SPACE))
    return re.compile(
        rf"'(?:[stmd]|re|ve|ll)| ?[{letters}]+| ?[{numbers}]+| ?[^{space}{letters}{numbers}]+"
        rf"|[{space}]+(?![^{space}])|[{space}]+"
    )
