import random
from collections import Counter

import pytest
import tiny

from data_prep.text.corpus import read_documents
from data_prep.vocabulary import word_counts
from data_prep.vocabulary.word_counts import count_words
from keras_bert.tokenization.wordpiece import WordPieceTokenizer


def test_words_are_those_that_the_tokenizer_looks_up():
    counts = count_words([["The CAFÉ, the fox.", "東京 a\u200bb"]], do_lower_case=True)
    assert counts == {"the": 2, "cafe": 1, ",": 1, "fox": 1, ".": 1, "東": 1, "京": 1, "ab": 1}
    assert count_words([["The CAFÉ"]], do_lower_case=False) == {"The": 1, "CAFÉ": 1}


def test_wikipedia_has_the_words_of_the_tokenizer(shared_data):
    documents = [document for number, document in enumerate(read_documents(str(shared_data("corpus")))) if number < 20]
    counts = count_words(documents, do_lower_case=True)
    tokenizer = WordPieceTokenizer(tiny.vocabulary(*counts))
    expected = Counter(token for document in documents for line in document for token in tokenizer.tokenize(line))
    assert counts == expected


def test_words_of_more_than_a_hundred_characters_are_noise():
    assert count_words([["a" * 100, "b" * 101]], do_lower_case=True) == {"a" * 100: 1}


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(word_counts, "_CHARACTERS_PER_PIECE", 1000)


def random_documents():
    generator = random.Random(0)
    words = [f"word{int(generator.paretovariate(0.5)) % 5000}" for _ in range(20_000)]
    lines = [" ".join(words[start : start + 10]) for start in range(0, 20_000, 10)]
    return [lines[first : first + 10] for first in range(0, 2_000, 10)]


def test_pieces_and_processes_do_not_change_the_counts(small_pieces):
    expected = Counter(word for document in random_documents() for line in document for word in line.split())
    assert count_words(random_documents(), True) == expected
    assert count_words(random_documents(), True, num_processes=2) == expected


def test_the_rarest_words_go_first():
    counts = Counter({"a": 4, "b": 2, "c": 1, "d": 3})
    assert word_counts._most_frequent(counts, 2) == {"a": 4, "d": 3}
    assert word_counts._most_frequent(counts, 4) == counts


def test_a_full_table_forgets_the_rarest_words_and_stays_bounded(small_pieces, monkeypatch):
    exact = count_words(random_documents(), True)
    monkeypatch.setattr(word_counts, "MAX_DIFFERENT_WORDS", 400)
    bounded = count_words(random_documents(), True)
    assert len(bounded) <= 400 < len(exact)
    assert bounded == count_words(random_documents(), True, num_processes=2)
    for word, count in exact.most_common(20):
        assert bounded[word] == count
