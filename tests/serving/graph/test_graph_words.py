"""The graph finds the same words at the same positions as the Python code."""

import itertools
import random

import pytest
import tensorflow as tf
from generated_texts import generated_texts

from keras_bert.serving.graph.words import GraphWords, spell
from keras_bert.tokenization.text_words import words_of_text


@pytest.fixture(scope="module")
def graph_words():
    """Returns the words of each string and their positions in bytes."""
    module = GraphWords()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def find(texts):
        found = module(texts)
        words = spell(found.points, found.first_points, found.end_points)
        return found.starts.with_values(words), found.starts, found.ends

    def as_lists(texts):
        words, starts, ends = (column.to_list() for column in find(tf.constant(texts, tf.string, shape=[len(texts)])))
        return [list(zip(*columns, strict=True)) for columns in zip(words, starts, ends, strict=True)]

    return as_lists


def words_in_python(text: str):
    """Returns the same by `words_of_text`."""
    places = [0, *itertools.accumulate(len(character.encode()) for character in text)]
    return [(text[start:end].encode(), places[start], places[end]) for start, end in words_of_text(text)]


def assert_same(graph_words, texts):
    for text, found in zip(texts, graph_words([text.encode() for text in texts]), strict=True):
        assert found == words_in_python(text), repr(text)


def test_words_are_parted_and_joined_as_in_python(graph_words):
    texts = [
        "J. Smith paid $10,000 in the U.S.",
        "London's mayor; they\u2019re (AP) ''s 's' 'n'",
        "AT&T... 12:30, wait!!! A..B A.. a. A.b. A-B. x.B.",
        "東京 is big. Zoe\u0308 caf\u00e9\u00a0bar \u2014 \u00bfqu\u00e9? na\u200dive U\u200b.S.",
        *("", " \u200b\n", "\u200bx\u200b.y", ". a", "a", ",5"),
        "\U0001f600\U0001f600 \ufa6e\ufa6e \u24d0. \u24b6.",
    ]
    assert_same(graph_words, texts)
    words = [word.decode() for word, _, _ in graph_words(["Zo\u00eb's U.S. 3,5".encode()])[0]]
    assert words == ["Zo\u00eb", "'s", "U.S.", "3,5"]
    assert graph_words([]) == []


def test_words_of_random_texts_are_those_of_python(graph_words):
    rng = random.Random(0)
    pools = ["aZ1", ".-_&@/,:'\u2019!", " "]
    pools.append("\u00c9\u00b2\u2167\u24b6\u4e00\ufa6e\u0301\u200b\u20ac\U0001f600\ufffd\x85")
    made = ["".join(rng.choice(rng.choice(pools)) for _ in range(rng.randint(1, 30))) for _ in range(3000)]
    assert_same(graph_words, made)
    generated = [text.decode(errors="ignore") for _, text in itertools.islice(generated_texts(3), 1500)]
    assert_same(graph_words, generated)


def test_words_of_real_text_are_those_of_python(graph_words, shared_data):
    text = shared_data("corpus/wikipedia_articles.txt").read_text("utf-8")[:300_000]
    assert_same(graph_words, text.split("\n"))


def test_bytes_that_are_no_utf_8_are_in_no_word(graph_words):
    kinds = ("invalid UTF-8", "random bytes")
    texts = [text for kind, text in itertools.islice(generated_texts(4), 600) if kind in kinds]
    for text, found in zip(texts, graph_words(texts), strict=True):
        expected = [word for word, _, _ in words_in_python(text.decode(errors="ignore"))]
        assert [word for word, _, _ in found] == expected, text
        assert [text[start:end].decode(errors="ignore").encode() for _, start, end in found] == expected, text
