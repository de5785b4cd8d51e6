"""Windows and answers in the graph equal those in Python, for any logits."""

import itertools
import random

import numpy as np
import pytest
import span_answers
import tensorflow as tf
import tiny
from generated_texts import generated_texts
from span_answers import assert_served_answers

from keras_bert.tasks.question_answering.answer_search import ContextTokens, context_tokens, find_answers, graph_windows
from keras_bert.tasks.question_answering.answer_spans import AnswerOptions
from keras_bert.tasks.question_answering.rows import WindowOptions, make_windows
from keras_bert.tokenization.graph_wordpiece import GraphTokenizer

LETTERS = [letter for character in "abcdefghé東" for letter in (character, f"##{character}")]
VOCABULARY = tiny.vocabulary(".", ",", *LETTERS)


@pytest.fixture(scope="module")
def tokenizer():
    return GraphTokenizer(VOCABULARY, do_lower_case=False)


def in_graph(tokenizer, questions, contexts, window_options):
    asked = tokenizer.tokenize(tf.constant(questions))
    ids, starts, ends = tokenizer.tokenize_with_offsets(tf.constant(contexts))
    windows = graph_windows(asked, ids, VOCABULARY, window_options)
    return windows, ContextTokens(tf.constant(contexts), starts, ends)


def drawn_texts(rng, most_words, letters="aabbé"):
    """Words that repeat, so that many answers have the same text."""
    words = ["".join(rng.choices(letters, k=rng.randint(1, 3))) + rng.choice(["", "", ",", "."]) for _ in range(6)]
    return " ".join(rng.choices(words, k=rng.randint(1, most_words)))


def drawn_examples(seed, number):
    rng = random.Random(seed)
    questions = [drawn_texts(rng, 8) for _ in range(number)]
    contexts = [drawn_texts(rng, rng.choice([1, 5, 60])) for _ in range(number)]
    return questions, contexts


WINDOWS = [WindowOptions(16, 4, 5), WindowOptions(12, 1, 3), WindowOptions(40, 128, 6), WindowOptions(24, 7, 64 - 44)]


# In the rule for the best window, a hundred tokens less in a window outweigh a position closer to its middle.
@pytest.mark.parametrize("window_options", [*WINDOWS, WindowOptions(301, 128, 6)])
def test_windows_are_those_of_python(tokenizer, window_options):
    questions, contexts = drawn_examples(1, 20)
    contexts[3] = "\x00"  # not a token
    contexts[4:7] = ["a " * length for length in (297, 300, 700)]
    expected = make_windows(questions, contexts, tokenizer, window_options)
    windows, _ = in_graph(tokenizer, questions, contexts, window_options)
    np.testing.assert_array_equal(windows.rows.values, expected.rows.tokens["input_ids"])
    np.testing.assert_array_equal(windows.rows.row_splits, expected.rows.splits)
    np.testing.assert_array_equal(windows.question, expected.question)
    np.testing.assert_array_equal(windows.num_tokens, expected.num_tokens)
    np.testing.assert_array_equal(windows.first_columns, expected.first_column)
    in_context, may_begin = (flags.to_list() for flags in context_tokens(windows))
    best, splits = expected.best_window
    first_window = np.searchsorted(expected.question, expected.question)
    for number, question in enumerate(expected.question):
        first, count = expected.first_token[number], expected.num_tokens[number]
        is_best = best[splits[question] + first :][:count] == number - first_window[number]
        before = [False] * expected.first_column[number]
        assert in_context[number] == [*before, *[True] * count, False]
        assert may_begin[number] == [*before, *is_best, False]


def assert_same_answers(tokenizer, questions, contexts, window_options, options, logits_of):
    windows = make_windows(questions, contexts, tokenizer, window_options)
    logits = [logits_of(windows.rows.splits[-1]).astype(np.float32) for _ in range(2)]
    expected = span_answers.find_answers(windows, contexts, *logits, options)
    found = find_answers(*in_graph(tokenizer, questions, contexts, window_options), *logits, options)
    found = {name: values.numpy() for name, values in found.items()}
    assert_served_answers(found, contexts, expected, 1e-6)
    assert ("null_score_difference" in found) == (options.null_threshold is not None)
    assert found["answers"].shape[1] == max(len(answer.nbest) for answer in expected)


@pytest.mark.parametrize(
    ("window_options", "threshold"),
    [
        pytest.param(options, threshold, marks=pytest.mark.slow if number % 2 == (threshold is None) else ())
        for number, options in enumerate(WINDOWS)
        for threshold in (None, -1.5)
    ],
)
def test_answers_are_those_of_python_also_where_scores_are_equal(tokenizer, window_options, threshold):
    draw = np.random.default_rng(0)
    kinds = [
        lambda size: draw.normal(size=size),
        lambda size: draw.integers(-2, 3, size),
        lambda size: np.zeros(size),
        lambda size: draw.normal(size=size) * 1e-3 + 100,
    ]
    sizes = [AnswerOptions(20, 30, threshold), AnswerOptions(1, 3, threshold), AnswerOptions(3, 4, threshold)]
    for seed, (logits_of, options) in enumerate(itertools.product(kinds, sizes)):
        questions, contexts = drawn_examples(seed, 6)
        contexts[2] = "\x00 "  # not a token
        assert_same_answers(tokenizer, questions, contexts, window_options, options, logits_of)


def test_a_question_gets_the_best_possible_answer_where_the_best_logits_are_outside_of_the_context(tokenizer):
    questions, contexts = ["a b c d e f", "a"], ["a b c d e f g h " * 3, "a b"]
    for most in (1, 2):
        options, windows = AnswerOptions(most, 2, 0.0), WindowOptions(16, 4, 6)
        assert_same_answers(tokenizer, questions, contexts, windows, options, lambda size: -np.arange(size) % 7 * 1.0)


def test_a_text_that_repeats_thousands_of_times_has_one_answer_for_each_different_text(tokenizer):
    options = AnswerOptions(20, 30, None)
    assert_same_answers(tokenizer, ["a"], ["a " * 3000], WindowOptions(384, 128, 64), options, np.zeros)


def test_answers_in_any_texts_have_their_bytes(tokenizer):
    draw = np.random.default_rng(2)
    texts = [text.decode(errors="ignore") for _, text in itertools.islice(generated_texts(5), 120)]
    pairs = [(one, other) for one, other in itertools.pairwise(texts) if one.strip() and other.strip()]
    questions, contexts = map(list, zip(*pairs, strict=True))
    options = AnswerOptions(null_threshold=0.0)
    assert_same_answers(
        tokenizer, questions, contexts, WindowOptions(32, 8, 8), options, lambda size: draw.normal(size=size)
    )
