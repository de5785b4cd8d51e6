"""Splits plain texts into words for taggers: `U.S.` is one word, `London's` is `London` and `'s`.

Words are separated by white space. Punctuation and CJK characters, at which BERT's tokenizer splits, are separate
words, except where the usual corpora (CoNLL, the Penn Treebank) keep them together:

* `. - _ & @ /` between letters or digits: `U.S`, `e-mail`, `AT&T`; `,` and `:` between digits: `10,000`, `12:30`;
* a period after a single capital: `J. Smith`, `U.S.`;
* an apostrophe and the following letters: `London 's`, `they 're`;
* repeated punctuation: `...`, `!!!`.

Letters, capitals and digits are those of the frozen Unicode table. `serving/graph/words.py` finds the same
words in a TensorFlow graph.
"""

from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.wordpiece import word_spans

JOINERS = frozenset(".-_&@/")
DIGIT_JOINERS = frozenset(",:")
APOSTROPHES = frozenset("'\u2019")


def words_of_text(text: str) -> list[tuple[int, int]]:
    """Returns the start and end of each word of a text, in characters.

    >>> text = "J. Smith paid $10,000 in the U.S."
    >>> [text[start:end] for start, end in words_of_text(text)]
    ['J.', 'Smith', 'paid', '$', '10,000', 'in', 'the', 'U.S.']
    """
    spans = word_spans(text)
    words: list[tuple[int, int]] = []
    for number, (start, end) in enumerate(spans):
        touches = bool(words) and words[-1][1] == start
        next_start = spans[number + 1][0] if number + 1 < len(spans) else None
        after = text[next_start] if next_start == end else ""
        if touches and _belongs_together(text[words[-1][0] : start], text[start:end], after):
            words[-1] = (words[-1][0], end)
        else:
            words.append((start, end))
    return words


def _belongs_together(word: str, following: str, after: str) -> bool:
    """Returns whether `following` continues the adjacent `word`. `after` is the next adjacent character, or empty."""
    last = word[-1]
    if _is_alphanumeric(following[0]):
        # Punctuation was joined to a word because of the characters after it, or is an apostrophe.
        return word in APOSTROPHES or (last in JOINERS | DIGIT_JOINERS and _is_alphanumeric(word[-2:-1]))
    if following == last and not any(map(_is_alphanumeric, word)):
        return True
    if not _is_alphanumeric(last):
        return False
    is_initial = ord(last) in unicode_table.uppercase() and (len(word) == 1 or word[-2] == ".") and after != "."
    return (
        (following in JOINERS and _is_alphanumeric(after))
        or (following in DIGIT_JOINERS and _is_digit(last) and _is_digit(after))
        or (following == "." and is_initial)
    )


def _is_alphanumeric(character: str) -> bool:
    return character != "" and ord(character) in unicode_table.alphanumeric()


def _is_digit(character: str) -> bool:
    return character != "" and ord(character) in unicode_table.digits()
