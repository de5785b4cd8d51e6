"""The words of a plain text, for taggers, which are trained on words: `U.S.` is one, `London's` is `London` and `'s`.

White space parts words. What BERT's tokenizer would part further, punctuation and CJK characters, is a word of its own,
but for what the usual corpora (CoNLL, the Penn Treebank) keep together:

* `. - _ & @ /` between letters or digits: `U.S`, `e-mail`, `AT&T`; `,` and `:` between digits: `10,000`, `12:30`;
* the period behind a single capital: `J. Smith`, `U.S.`;
* an apostrophe with the letters behind it: `London 's`, `they 're`;
* the same punctuation several times: `...`, `!!!`.

What is a letter, a capital or a digit is what the frozen Unicode table says. `serving/signatures/graph_words.py` finds
the same words in a TensorFlow graph.
"""

from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.wordpiece import word_spans

JOINERS = frozenset(".-_&@/")
DIGIT_JOINERS = frozenset(",:")
APOSTROPHES = frozenset("'\u2019")


def words_of_text(text: str) -> list[tuple[int, int]]:
    """Returns where the words of a text begin and end, in characters.

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
    """Whether `following` goes on with `word`, which it touches. `after` is the character that touches it, or empty."""
    last = word[-1]
    if _is_alphanumeric(following[0]):
        # Punctuation that was joined to a word for what stands behind it, or an apostrophe.
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
