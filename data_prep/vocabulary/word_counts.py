"""Counts the words of any amount of text in bounded memory, in one process or several."""

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from data_prep.text.corpus import input_size, read_documents
from data_prep.text.ordered_map import ordered_map
from keras_bert.program.long_work import progress_bar
from keras_bert.tokenization.wordpiece import split_at_white_space, words_of_stretch

# Text is counted in pieces of this many characters, whatever the number of processes, so that neither the result nor
# the memory depends on it.
_CHARACTERS_PER_PIECE = 8_000_000
# At most this many distinct words are kept; the rarest are dropped.
MAX_DIFFERENT_WORDS = 2_000_000
# Longer words are mostly addresses and noise; they are not counted.
_LONGEST_WORD = 100
# Learners that take text instead of counts get at most this many words; larger counts are scaled down.
_MAX_WORDS_TO_LEARNER = 50_000_000


def count_words(
    documents: Iterable[list[str]],
    do_lower_case: bool,
    *,
    num_processes: int = 1,
    words_of: Callable[[str, bool], Iterable[str]] = words_of_stretch,
) -> Counter[str]:
    """Returns how often each word occurs.

    The counts are exact up to two million distinct words. Whenever this is exceeded, the rarest words are dropped until
    half are left. A dropped word that occurs again is counted from zero, so the counts of rare words are too low.

    Args:
        documents: lists of lines, as `corpus.read_documents` yields them.
        num_processes: the result is the same for any number.
        words_of: a module-level function of a stretch of text without white space and of `do_lower_case`, which
            normalises the stretch and splits it into words. By default it does what `WordPieceTokenizer` does before it
            looks up pieces.

    Example:
        >>> sorted(count_words([["The fox, the dog."]], do_lower_case=True).items())
        [(',', 1), ('.', 1), ('dog', 1), ('fox', 1), ('the', 2)]
    """
    count = functools.partial(_count_words_of_text, do_lower_case=do_lower_case, words_of=words_of)
    counts = Counter()
    for counts_of_piece in ordered_map(count, _pieces(documents), num_processes):
        counts.update(counts_of_piece)
        if len(counts) > MAX_DIFFERENT_WORDS:
            counts = _most_frequent(counts, MAX_DIFFERENT_WORDS // 2)
    return counts


def count_words_of_files(
    input_file: str | Sequence[str],
    do_lower_case: bool,
    *,
    text_field: str = "text",
    tfds_data_dir: str | None = None,
    show_progress: bool = True,
    **counting: Any,
) -> Counter[str]:
    """Returns how often each word of a text occurs: `count_words` of `corpus.read_documents`, whose arguments it has.

    Raises `InputError` if the text cannot be read.
    """
    size = input_size(input_file, tfds_data_dir=tfds_data_dir)
    with progress_bar(desc="counting words", total=size, unit="B", unit_scale=True, disable=not show_progress) as bar:
        reading = {"text_field": text_field, "tfds_data_dir": tfds_data_dir, "on_progress": bar.update}
        return count_words(read_documents(input_file, **reading), do_lower_case, **counting)


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


def text_with_counts(counts: dict[str, int], scale: float) -> Iterator[str]:
    """Yields text in which every word occurs as often as it should, the most frequent words first."""
    for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        rest = int(count * scale)
        while rest > 0:
            repeats = min(rest, 1000)
            yield f"{word} " * repeats
            rest -= repeats


def learner_scale(counts: Counter[str]) -> float:
    """Returns the factor for `text_with_counts` that keeps the text short enough to learn from: 1 or less."""
    return min(1.0, _MAX_WORDS_TO_LEARNER / counts.total())


def _count_words_of_text(text: str, do_lower_case: bool, words_of) -> Counter[str]:
    counts = Counter()
    # Most stretches repeat, so counting them before normalisation saves most of the work.
    for stretch, count in Counter(split_at_white_space(text)).items():
        for word in _kept_words(stretch, do_lower_case, words_of):
            counts[word] += count
    return counts


@functools.lru_cache(maxsize=1 << 18)
def _kept_words(stretch: str, do_lower_case: bool, words_of) -> tuple[str, ...]:
    return tuple(word for word in words_of(stretch, do_lower_case) if len(word) <= _LONGEST_WORD)


def _most_frequent(counts: Counter[str], max_words: int) -> Counter[str]:
    """Drops the words that occur once, twice and so on, until at most `max_words` are left."""
    least = 2
    while len(counts) > max_words:
        counts = Counter({word: count for word, count in counts.items() if count >= least})
        least += 1
    return counts
