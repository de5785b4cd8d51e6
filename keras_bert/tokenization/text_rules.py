"""The settings by which WordPiece makes words of a text, for its forms in Python and in the graph."""

from typing import NamedTuple

from keras_bert.tokenization import unicode_table

# A longer word becomes one [UNK], unless a vocabulary states another number.
MAX_CHARACTERS_PER_WORD = 200


class TextRules(NamedTuple):
    """How a text becomes words.

    Attributes:
        lower_case: whether it is lower-cased.
        strip_accents: whether it is decomposed and non-spacing marks are dropped.
        chinese_chars: whether every CJK ideograph is a word.
        max_characters: a word with more characters is unknown.
    """

    lower_case: bool
    strip_accents: bool
    chinese_chars: bool = True
    max_characters: int = MAX_CHARACTERS_PER_WORD

    def changed_points(self) -> dict[int, tuple[int, ...]]:
        """Returns code point -> its replacement, if that differs. Marks are not dropped."""
        if not self.strip_accents:
            return unicode_table.lowered_points() if self.lower_case else {}
        return unicode_table.folded_points() if self.lower_case else unicode_table.decompositions()

    def dropped_marks(self) -> frozenset[int]:
        """Returns the marks that are dropped."""
        return unicode_table.nonspacing_marks() if self.strip_accents else frozenset()
