"""The words of a plain text, for taggers, which are trained on words: `U.S.` is one, `London's` is `London` and `'s`.

White space parts words. What BERT's tokenizer would part further, punctuation and CJK characters, is a word of its own,
but for what the usual corpora (CoNLL, the Penn Treebank) keep together:

* `. - _ & @ /` between letters or digits: `U.S`, `e-mail`, `AT&T`; `,` and `:` between digits: `10,000`, `12:30`;
* the period behind a single capital: `J. Smith`, `U.S.`;
* an apostrophe with the letters behind it: `London 's`, `they 're`;
* the same punctuation several times: `...`, `!!!`.
"""

from keras_bert.tokenization.wordpiece import word_spans

_JOINERS = frozenset(".-_&@/")
_DIGIT_JOINERS = frozenset(",:")
_APOSTROPHES = frozenset("'\u2019")


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
    if following[0].isalnum():
        # Punctuation that was joined to a word for what stands behind it, or an apostrophe.
        return word in _APOSTROPHES or (last in _JOINERS | _DIGIT_JOINERS and word[-2:-1].isalnum())
    if following == last and not any(character.isalnum() for character in word):
        return True
    if not last.isalnum():
        return False
    is_initial = last.isupper() and (len(word) == 1 or word[-2] == ".") and after != "."
    return (
        (following in _JOINERS and after.isalnum())
        or (following in _DIGIT_JOINERS and last.isdigit() and after.isdigit())
        or (following == "." and is_initial)
    )
