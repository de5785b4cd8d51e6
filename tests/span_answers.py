"""Compares the outputs of a signature for question answering with answers of `predict`."""

import numpy as np
import pytest

from keras_bert.tasks.question_answering.answers import answer_arrays, answers_of, span_columns


def find_answers(windows, contexts, start_logits, end_logits, options) -> list:
    """Returns the answers in Python, as `predict`."""
    return answers_of(answer_arrays(*span_columns(windows, contexts, start_logits, end_logits, options), options))


def assert_served_answers(outputs, contexts, answers, tolerance=1e-5) -> None:
    """Asserts that rows of arrays hold these answers, with places in bytes, and nothing behind them."""
    for number, (context, answer) in enumerate(zip(contexts, answers, strict=True)):
        row = {name: values[number] for name, values in outputs.items()}
        rest = len(row["answers"]) - len(answer.nbest)

        def place(characters, context=context):
            return -1 if characters is None else len(context[:characters].encode())

        assert row["answer"].decode() == answer.text
        assert (row["start"], row["end"]) == (place(answer.start), place(answer.end))
        assert row["probability"] == pytest.approx(answer.probability, abs=tolerance)
        assert [text.decode() for text in row["answers"]] == [best.text for best in answer.nbest] + [""] * rest
        assert list(row["starts"]) == [place(best.start) for best in answer.nbest] + [-1] * rest
        assert list(row["ends"]) == [place(best.end) for best in answer.nbest] + [-1] * rest
        assert list(row["is_null"]) == [best.text == "" for best in answer.nbest] + [False] * rest
        probabilities = [best.probability for best in answer.nbest] + [0.0] * rest
        np.testing.assert_allclose(row["probabilities"], probabilities, atol=tolerance)
        assert ("null_score_difference" in row) == (answer.null_score_difference is not None)
        if answer.null_score_difference is not None:
            expected = pytest.approx(answer.null_score_difference, rel=tolerance, abs=tolerance)
            assert row["null_score_difference"] == expected
