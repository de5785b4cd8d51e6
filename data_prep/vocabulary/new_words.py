"""Finds the words of a text that would be worth a token of their own in an existing WordPiece vocabulary."""

from collections.abc import Mapping

from keras_bert.tokenization.wordpiece import WordPieceTokenizer

# A rarer word is seen too seldom to learn its vector.
_MIN_COUNT = 10


def find_new_words(counts: Mapping[str, int], tokenizer: WordPieceTokenizer, num_words: int) -> list[str]:
    """Returns the words whose own token would shorten the text most, the best first.

    A word that occurs n times and has k pieces saves n · (k - 1) tokens. Words must have a letter and occur ten times.

    A new token also begins longer words: with `nano`, `nanotube` becomes `nano ##tube`. Words that would make a longer
    word unknown, because the rest of it has no pieces, are left out.

    Args:
        counts: word -> how often it occurs, see `count_words`.

    Example:
        >>> from keras_bert import Vocabulary
        >>> tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "nano", "##tube", "##s", "the"]
        >>> counts = {"nanotubes": 20, "nanotube": 30, "the": 500}
        >>> find_new_words(counts, WordPieceTokenizer(Vocabulary(tokens)), 2)
        ['nanotubes', 'nanotube']
    """
    savings = {}
    for word, count in counts.items():
        if count >= _MIN_COUNT and any(map(str.isalpha, word)):
            pieces = tokenizer.encode(word)
            if len(pieces) > 1 and tokenizer.vocabulary.unk_id not in pieces:
                savings[word] = count * (len(pieces) - 1)
    new = set(sorted(savings, key=lambda word: (-savings[word], word))[:num_words])
    while spoilers := _spoilers(counts, tokenizer, new):
        new -= spoilers
    return sorted(new, key=lambda word: (-savings[word], word))


def _spoilers(counts: Mapping[str, int], tokenizer: WordPieceTokenizer, new: set[str]) -> set[str]:
    """Returns the new words that make longer words unknown."""
    unknown = [tokenizer.vocabulary.unk_id]
    extended = tokenizer.replace(tokens=(*tokenizer.tokens, *sorted(new)))
    found = set()
    for word in counts:
        beginning = next((word[:end] for end in range(len(word) - 1, 0, -1) if word[:end] in new), None)
        if beginning and extended.encode(word) == unknown and tokenizer.encode(word) != unknown:
            found.add(beginning)
    return found
