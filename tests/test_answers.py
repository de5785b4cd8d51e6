"""The outputs of every kind of exported model as answers that people read."""

import numpy as np
import pytest

from keras_bert.tf_serving.answers import can_read, read_answers

LABELS = np.array([[b"no", b"yes"]])


@pytest.mark.parametrize(
    ("outputs", "inputs", "text"),
    [
        (
            {"label": [b"yes"], "probability": [0.75], "labels": LABELS, "probabilities": [[0.25, 0.75]]},
            {},
            "  yes  0.7500\n  no   0.2500",
        ),
        (
            {"labels": LABELS, "probabilities": [[0.25, 0.75]], "is_given": [[False, True]]},
            {},
            "  yes\n  yes  0.7500\n  no   0.2500",
        ),
        (
            {"labels": LABELS, "probabilities": [[0.25, 0.125]], "is_given": [[False, False]]},
            {},
            "  (no label)\n  no   0.2500\n  yes  0.1250",
        ),
        ({"score": [1.5]}, {}, "  score  1.5000"),
        ({"labels": LABELS, "scores": [[1.5, -2]]}, {}, "  no   1.5000\n  yes  -2.0000"),
        (
            {"choice": [1], "text": [b"b"], "probability": [0.75], "probabilities": [[0.25, 0.75, 0]]},
            {"choices": [["aa", b"b"]]},
            "  aa  0.2500\n* b   0.7500",
        ),
        (
            {"choice": [-1], "text": [b""], "probability": [0], "probabilities": [np.zeros(0)]},
            {"choices": [[]]},
            "  (no choice)",
        ),
        (
            {
                "tokens": [[[b"fox", b"##es"], [b"dog", b"."], [b"", b""]]],
                "probabilities": [[[0.5, 0.125], [1, 0], [0, 0]]],
                "positions": [[3, 4, -1]],
            },
            {},
            "  [MASK] 1:  fox 0.5000   ##es 0.1250\n  [MASK] 2:  dog 1.0000   . 0.0000",
        ),
        (
            {
                "entities": [["Ada \xff".encode(), b"", b"x"]],
                "types": [[b"PER", b"", b"LOC"]],
                "starts": [[0, -1, 7]],
                "ends": [[4, -1, 8]],
                "probabilities": [[0.5, 0, 0.25]],
            },
            {},
            "  Ada ÿ  PER  0.5000  0-4\n  x      LOC  0.2500  7-8",
        ),
        (
            {"words": [[b"a"]], "tags": [[b"DT"]], "starts": [[0]], "ends": [[1]], "probabilities": [[1.0]]},
            {},
            "  a  DT  1.0000  0-1",
        ),
        (
            {
                "answer": [b"Ada"],
                "probability": [0.5],
                "start": [0],
                "end": [3],
                "answers": [[b"Ada", b"", b""]],
                "starts": [[0, -1, -1]],
                "ends": [[3, -1, -1]],
                "probabilities": [[0.5, 0.25, 0]],
                "is_null": [[False, True, False]],
            },
            {},
            "  Ada  0.5000\n    (no answer)  0.2500",
        ),
        ({"embedding": [np.arange(3.0)]}, {}, "  0.0000 1.0000 2.0000  (3 numbers)"),
    ],
)
def test_answers_print_readably(outputs, inputs, text):
    assert can_read(outputs)
    [answer] = read_answers(outputs, inputs)
    assert str(answer) == text


def test_a_batch_has_an_answer_for_each_row_and_an_empty_one_none():
    assert [answer.scores for answer in read_answers({"score": [0.5, 2]}, {})] == [[("score", 0.5)], [("score", 2.0)]]
    assert read_answers({"score": []}, {}) == []
    assert not can_read({"y": [1]})
