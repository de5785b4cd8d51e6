"""Finds where words begin in the TensorFlow graph, as GPT-2 and Llama 3 split texts, without regular expressions.

Code points get classes from the frozen Unicode table. The classes of neighbours tell where words begin.

Reference: openai/gpt-2, `encoder.py`; the pattern in Llama 3's `tokenizer.json`.
"""

import numpy as np
import tensorflow as tf

from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.exact_graph import is_one_of, shifted, starts_of_runs
from keras_bert.tokenization.unicode_table import WHITE_SPACE

_OTHER, _LETTER, _NUMBER, _SPACE, _NEW_LINE = range(5)
_NO_CLASS = 5  # beyond the ends of a text


def class_numbers(has_new_lines: bool) -> np.ndarray:
    """Returns the class of every code point, and whether ends of lines have their own class, as Llama 3 needs."""
    classes = np.full(0x110000, _OTHER, np.uint8)
    classes[list(unicode_table.letters())] = _LETTER
    classes[list(unicode_table.numbers())] = _NUMBER
    classes[list(WHITE_SPACE)] = _SPACE
    if has_new_lines:
        classes[[ord("\r"), ord("\n")]] = _NEW_LINE
    return classes


def gpt_2_word_begins(points, classes, begins_text):
    """Returns whether each character begins one of GPT-2's words.

    All have the shape `(characters,)`: the code points of all texts, their classes, and whether each begins a text.
    """
    before, behind = _neighbours(classes, begins_text)
    follows_blank = ~begins_text & shifted(tf.equal(points, ord(" ")), 1, False)
    # Letters, numbers, others: a word begins where the class changes, unless the space before has begun it.
    begins_run = tf.not_equal(classes, before) & ~follows_blank
    # The last white space before a word does not belong to the run of white space.
    begins_space = tf.not_equal(before, _SPACE) | (tf.not_equal(behind, _SPACE) & tf.not_equal(behind, _NO_CLASS))
    begins = tf.where(tf.equal(classes, _SPACE), begins_space, begins_run)
    return _with_contractions(points, begins, begins_text, str)


def llama_3_word_begins(points, classes, begins_text):
    """As `gpt_2_word_begins`, for Llama 3's words. The ends of lines have their own class."""
    before, behind = _neighbours(classes, begins_text)
    is_line, is_blank = tf.equal(classes, _NEW_LINE), tf.equal(classes, _SPACE) | tf.equal(classes, _NEW_LINE)
    follows_blank = ~begins_text & shifted(tf.equal(points, ord(" ")), 1, False)
    begins_other = tf.not_equal(before, _OTHER) & ~follows_blank
    # A single other character, or the last white space, is one word with the letters behind it.
    takes_letters = (tf.equal(classes, _OTHER) & begins_other) | tf.equal(classes, _SPACE)
    begins_letters = tf.not_equal(before, _LETTER) & (begins_text | ~shifted(takes_letters, 1, False))
    places = tf.range(tf.size(points))
    run_starts = starts_of_runs(tf.not_equal(classes, before))
    begins_number = tf.equal((places - run_starts) % 3, 0)  # at most three digits
    # The ends of lines behind other characters belong to these. The rest of a run of white space is one word up to its
    # last end of a line, then one up to its last character, which begins the next word.
    is_taken = is_line & tf.equal(tf.gather(before, run_starts), _OTHER)
    blank_before = tf.equal(before, _SPACE) | tf.equal(before, _NEW_LINE)
    runs = tf.cumsum(tf.cast(begins_text | tf.not_equal(is_blank, blank_before), tf.int32))
    last_lines = tf.math.unsorted_segment_max(tf.where(is_line, places, -1), runs, tf.size(points) + 1)
    behind_lines = places > tf.gather(last_lines, runs)
    begins_blank = ~blank_before | (~begins_text & shifted(is_taken, 1, False))
    begins_blank |= behind_lines & tf.equal(before, _NEW_LINE)
    is_last = tf.not_equal(behind, _SPACE) & tf.not_equal(behind, _NEW_LINE) & tf.not_equal(behind, _NO_CLASS)
    begins_blank |= behind_lines & is_last
    begins = tf.where(tf.equal(classes, _OTHER), begins_other, begins_number)
    begins = tf.where(tf.equal(classes, _LETTER), begins_letters, begins)
    begins = tf.where(is_blank, begins_blank & ~is_taken, begins)
    return _with_contractions(points, begins, begins_text, _both_cases)


def _both_cases(letters: str) -> str:
    """As `(?i:...)` does, which counts the long s too: "st" -> "stSTſ" """
    return letters + letters.upper() + ("ſ" if "s" in letters else "")


def _neighbours(classes, begins_text):
    """Returns the classes of the characters before and behind each in its text."""
    before = tf.where(begins_text, _NO_CLASS, shifted(classes, 1, _NO_CLASS))
    return before, tf.where(shifted(begins_text, -1, True), _NO_CLASS, shifted(classes, -1, _NO_CLASS))


def _with_contractions(points, begins, begins_text, letters_of):
    """Makes 's 't 'm 'd 're 've 'll separate words if the apostrophe begins a word.

    `letters_of` returns letters with those that count as one of them.
    """
    is_apostrophe = begins & tf.equal(points, ord("'"))

    def divided():
        has_next = shifted(~begins_text, -1, False)
        second = tf.where(has_next, shifted(points, -1, 0), 0)
        third = tf.where(has_next & shifted(has_next, -1, False), shifted(points, -2, 0), 0)
        is_short = is_apostrophe & _is_any_of(second, letters_of("stmd"))
        pairs = [
            _is_any_of(second, letters_of(pair[0])) & _is_any_of(third, letters_of(pair[1]))
            for pair in ("re", "ve", "ll")
        ]
        is_long = is_apostrophe & (pairs[0] | pairs[1] | pairs[2])
        outside = begins & ~shifted(is_short | is_long, 1, False)
        return outside | shifted(is_short, 2, False) | shifted(is_long, 3, False)

    return tf.cond(tf.reduce_any(is_apostrophe), divided, lambda: begins)


def _is_any_of(points, characters: str):
    return is_one_of(points, [ord(character) for character in characters])
