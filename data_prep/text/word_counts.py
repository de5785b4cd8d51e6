"""Counting the words of any amount of text in bounded memory, in one process or several."""

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

from data_prep.text.ordered_map import ordered_map
from keras_bert.tokenization.wordpiece import split_at_white_space, words_of_stretch

# Text is counted in pieces of this many characters, whatever the number of processes, so that neither the result nor
# the memory depends on it.
_CHARACTERS_PER_PIECE = 8_000_000
# More different words than these are never held; the rarest go.
MAX_DIFFERENT_WORDS = 2_000_000
# Longer ones are addresses and noise; no piece is learnt from them.
_LONGEST_WORD = 100


def count_words(documents: Iterable[list[str]], do_lower_case: bool, *, num_processes: int = 1) -> Counter[str]:
    """Returns how often each word occurs, as `WordPieceTokenizer` splits and normalises text before it looks up pieces.

    The counts are exact until there are two million different words. Then, each time, words are forgotten from the
    rarest on until half are left; one that comes again is counted from zero, so that rare words count too little.

    Args:
        documents: lists of lines, as `corpus.read_documents` yields them.
        num_processes: the result is the same for any number. With more than one, the calling script needs the usual
            `if __name__ == "__main__":`.

    Example:
        >>> sorted(count_words([["The fox, the dog."]], do_lower_case=True).items())
        [(',', 1), ('.', 1), ('dog', 1), ('fox', 1), ('the', 2)]
    """
    count = functools.partial(_count_words_of_text, do_lower_case=do_lower_case)
    counts = Counter()
    for counts_of_piece in ordered_map(count, _pieces(documents), num_processes):
        counts.update(counts_of_piece)
        if len(counts) > MAX_DIFFERENT_WORDS:
            counts = _most_frequent(counts, MAX_DIFFERENT_WORDS // 2)
    return counts


def _pieces(documents: Iterable[list[str]]) -> Iterator[str]:
    """Yields texts of about `_CHARACTERS_PER_PIECE` characters."""
    lines, num_characters = [], 0
    for line in itertools.chain.from_iterable(documents):
        lines.append(line)
        num_characters += len(line)
        if num_characters >= _CHARACTERS_PER_PIECE:
            yield "\n".join(lines)
            lines, num_characters = [], 0
    yield "\n".join(lines)


def _count_words_of_text(text: str, do_lower_case: bool) -> Counter[str]:
    counts = Counter()
    # Most stretches repeat, so counting them before they are normalised saves most of the work.
    for stretch, count in Counter(split_at_white_space(text)).items():
        for word in _words_of_stretch(stretch, do_lower_case):
            counts[word] += count
    return counts


@functools.lru_cache(maxsize=1 << 18)
def _words_of_stretch(stretch: str, do_lower_case: bool) -> tuple[str, ...]:
    return tuple(word for word in words_of_stretch(stretch, do_lower_case) if len(word) <= _LONGEST_WORD)


def _most_frequent(counts: Counter[str], max_words: int) -> Counter[str]:
    """Drops the words that occur once, twice and so on, until at most `max_words` are left."""
    least = 2
    while len(counts) > max_words:
        counts = Counter({word: count for word, count in counts.items() if count >= least})
        least += 1
    return counts
