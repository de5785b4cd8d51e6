"""Answers from logits equal those of Google's algorithm, reimplemented with loops, and cases checked by hand."""

import math

import numpy as np
import pytest
import tiny
from span_answers import find_answers

from keras_bert import GraphTokenizer, InputError
from keras_bert.tasks.question_answering.answer_spans import AnswerOptions
from keras_bert.tasks.question_answering.rows import WindowOptions, make_windows

VOCABULARY = tiny.vocabulary(*tiny.pieces(), ".", "é", *"日本語")
TOKENIZER = GraphTokenizer(VOCABULARY)
FEW = AnswerOptions(3, 3)


def loop_answers(context, offsets, windows, options):
    """Returns (text, start logit, end logit) of the n-best of one question, the odds of no answer, and the answer.

    Reimplements `write_predictions` from its description, with loops over windows, starts and ends.

    Args:
        offsets: (start, end) characters of each context token.
        windows: for each window its first context token, its first column, and the logits of its tokens.
    """
    candidates = []
    null_start, null_end = min(((starts[0], ends[0]) for _, _, starts, ends in windows), key=sum)
    for number, (first_token, first_column, starts, ends) in enumerate(windows):
        last_column = len(starts) - 2
        for start in sorted(range(len(starts)), key=lambda column: -starts[column])[: options.n_best_size]:
            for end in sorted(range(len(ends)), key=lambda column: -ends[column])[: options.n_best_size]:
                if not (first_column <= start <= end <= last_column and end - start < options.max_answer_length):
                    continue
                token = start - first_column + first_token
                if best_window(token, windows) != number:
                    continue
                text = context[offsets[token][0] : offsets[end - first_column + first_token][1]]
                candidates.append((text, starts[start], ends[end]))
    if not candidates:
        return None
    if options.null_threshold is not None:
        candidates.append(("", null_start, null_end))
    nbest = []
    for text, start, end in sorted(candidates, key=lambda candidate: -(candidate[1] + candidate[2])):
        if text not in [other for other, _, _ in nbest] and len(nbest) < options.n_best_size:
            nbest.append((text, start, end))
    if options.null_threshold is None:
        return nbest, None, nbest[0][0]
    if "" not in [text for text, _, _ in nbest]:
        nbest.append(("", null_start, null_end))
    best = next((entry for entry in nbest if entry[0]), None)
    if best is None:
        return None
    odds = null_start + null_end - best[1] - best[2]
    return nbest, odds, "" if odds > options.null_threshold else best[0]


def best_window(token, windows):
    scores = []
    for first_token, first_column, starts, _ in windows:
        length = len(starts) - 1 - first_column
        is_inside = first_token <= token < first_token + length
        context = min(token - first_token, first_token + length - 1 - token)
        scores.append(context + 0.01 * length if is_inside else -math.inf)
    return scores.index(max(scores))


@pytest.mark.parametrize("null_threshold", [None, 0.0, -6.0])
@pytest.mark.parametrize("n_best_size", [2, 7, 20])
def test_answers_are_those_of_googles_algorithm(null_threshold, n_best_size):
    generator = np.random.default_rng(n_best_size)
    options = AnswerOptions(n_best_size, 5, null_threshold)
    contexts = ["  ".join(generator.choice([*tiny.LETTERS[:9]], length)) for length in generator.integers(1, 60, 150)]
    questions = [" ".join(generator.choice([*tiny.LETTERS], length)) for length in generator.integers(1, 4, 150)]
    windows = make_windows(questions, contexts, TOKENIZER, WindowOptions(24, 6, 3))
    # Few different numbers: many candidates have equal scores.
    logits = generator.integers(-8, 8, (2, windows.rows.splits[-1])).astype(np.float32) / 2
    found = find_answers(windows, contexts, *logits, options)
    num_compared = 0
    for number, answer in enumerate(found):
        rows = np.flatnonzero(windows.question == number)
        shown = [
            (
                windows.first_token[row],
                windows.first_column[row],
                *logits[:, slice(*windows.rows.splits[row : row + 2])].tolist(),
            )
            for row in rows
        ]
        offsets = list(zip(*windows.offsets(number), strict=True))
        expected = loop_answers(contexts[number], offsets, shown, options)
        if expected is None:  # Google's code returns no answer at all
            continue
        nbest, odds, text = expected
        num_compared += 1
        assert [(entry.text, entry.start_logit, entry.end_logit) for entry in answer.nbest] == nbest
        assert (answer.null_score_difference, answer.text) == (odds, text)
        total = sum(math.exp(start + end) for _, start, end in nbest)
        for entry in answer.nbest:
            assert entry.probability == pytest.approx(math.exp(entry.start_logit + entry.end_logit) / total)
            assert not entry.text or contexts[number][entry.start : entry.end] == entry.text
    assert num_compared >= (80 if n_best_size == 2 else 140)


def answer_of(context, peaks, options=FEW, length=12):
    """Returns the answer to the question "q" if all logits are 0 except `peaks`: column -> (start, end)."""
    windows = make_windows(["q"], [context], TOKENIZER, WindowOptions(length, 4, 3))
    start_logits, end_logits = np.zeros((2, windows.rows.splits[-1]), np.float32)
    for place, (start, end) in peaks.items():
        start_logits[place], end_logits[place] = start, end
    (answer,) = find_answers(windows, [context], start_logits, end_logits, options)
    return answer


def test_an_answer_is_the_characters_of_the_context_and_says_where_they_are():
    # [CLS] q [SEP] cafe ##... : columns from 3
    answer = answer_of("Un  E\u0301  日本語.\r\nB", {5: (9, 0), 7: (0, 9)}, length=16)
    context = "Un  E\u0301  日本語.\r\nB"
    assert answer.text == "E\u0301  日本"
    assert (answer.start, answer.end) == (4, 10)
    assert context[answer.start : answer.end] == answer.text
    assert 0.9 < answer.probability <= 1
    assert answer.has_answer
    assert answer.null_score_difference is None


def test_where_no_combination_is_possible_the_best_possible_answer_is_taken():
    # The only best start is in the question, and the only best end is at [CLS].
    answer = answer_of("a b c d e f", {0: (0, 9), 1: (9, 0), 5: (0, 3), 4: (2, 0), 7: (4, 0)}, AnswerOptions(1, 3))
    assert answer.text == "b c"
    answer = answer_of("a b c", {0: (9, 9)}, AnswerOptions(1, 3, 0.0))
    assert (answer.text, answer.best_text, answer.null_score_difference) == ("", "a", 18.0)


def test_over_the_threshold_there_is_no_answer():
    peaks = {0: (3, 3), 4: (2, 2)}
    for threshold, text in ((1.9, ""), (2.0, "b")):
        answer = answer_of("a b c", peaks, AnswerOptions(3, 3, threshold))
        assert (answer.text, answer.has_answer) == (text, bool(text))
        assert answer.null_score_difference == 2.0
        assert answer.best_text == "b"
        probabilities = {entry.text: entry.probability for entry in answer.nbest}
        assert answer.probability == probabilities[text]
        assert (answer.start, answer.end) == ((2, 3) if text else (None, None))
    assert answer_of("a b c", peaks).text == "b"


def test_a_context_without_tokens_has_no_answer():
    assert answer_of("\u200d", {}).text == ""
    answer = answer_of("\u200d", {}, AnswerOptions(null_threshold=0.0))
    assert (answer.text, answer.has_answer, answer.probability) == ("", False, 1.0)
    assert answer.null_score_difference == 1e6


def test_the_answers_do_not_depend_on_how_many_windows_are_taken_at_once(monkeypatch):
    contexts = ["a b c d e f g h i j"[: 2 * n + 1] for n in (9, 0, 5)] * 4
    windows = make_windows(["q"] * 12, contexts, TOKENIZER, WindowOptions(8, 2, 3))
    logits = np.random.default_rng(3).normal(size=(2, windows.rows.splits[-1])).astype(np.float32)
    expected = find_answers(windows, contexts, *logits, AnswerOptions(4, 3, 0.5))
    for at_once in (1, 5):
        monkeypatch.setattr("keras_bert.tasks.question_answering.answer_spans._WINDOWS_AT_ONCE", at_once)
        assert find_answers(windows, contexts, *logits, AnswerOptions(4, 3, 0.5)) == expected


def test_scores_that_are_not_numbers_are_refused():
    with pytest.raises(InputError, match=r"not finite numbers \(NaN or infinite\)"):
        answer_of("a b", {3: (float("nan"), 0)})
