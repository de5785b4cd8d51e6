"""The outputs of every kind of served model become the answers of `predict`, and texts that people read."""

import numpy as np
import pytest

from keras_bert import InputError, registry
from keras_bert.tasks.classification.answers import LabelAnswer, LabelsAnswer, ScoreAnswer, label_answers, label_arrays
from keras_bert.tasks.masked_lm.answers import Fill, FilledMask, FilledText
from keras_bert.tasks.multiple_choice.answers import ChoiceAnswer
from keras_bert.tasks.question_answering.answers import Candidate, FoundAnswer
from keras_bert.tasks.tagging.answers import EntityAnswer, TagsAnswer
from keras_bert.tasks.text_to_text.answers import WrittenText
from run_scripts.readable_answers import readable_answers

LABELS = np.array([[b"no", b"yes"]])
MASKS = {"probabilities": [[[0.5, 0.125], [1, 0], [0, 0]]], "positions": [[3, 4, -1]]}
SPANS = {"starts": [[3, 11, -1]], "ends": [[9, 12, -1]], "probabilities": [[0.5, 0.25, 0]]}
TAGS = {"words": [["\xc9".encode(), b"is"]], "tags": [[b"N", b"V"]]}
BEST = {"answer": [b"Ada"], "probability": [0.5], "start": [3], "end": [6], "null_score_difference": [-1.5]}
BEST_THREE = {"answers": [[b"Ada", b"", b""]], "starts": [[3, -1, -1]], "ends": [[6, -1, -1]]}
BEST_THREE |= {"probabilities": [[0.5, 0.25, 0]], "is_null": [[False, True, False]]}
CANDIDATE, PERSON = Candidate("Ada", 2, 5, 0.5, None, None), EntityAnswer("PER", 2, 7, "Ada \xff", 0.5)
WRITTEN = {"written": [b"a"], "score": [-0.5]}

CASES = [
    (
        {"label": [b"yes"], "probability": [0.75], "labels": LABELS, "probabilities": [[0.25, 0.75]]},
        {},
        LabelAnswer("yes", 0.75, {"no": 0.25, "yes": 0.75}),
        "  yes  0.7500\n  no   0.2500",
    ),
    (
        {"labels": LABELS, "probabilities": [[0.625, 0.75]], "is_given": [[True, True]]},
        {},
        LabelsAnswer(("yes", "no"), {"no": 0.625, "yes": 0.75}),
        "  yes, no\n  yes  0.7500\n  no   0.6250",
    ),
    (
        {"labels": LABELS, "probabilities": [[0.25, 0.125]], "is_given": [[False, False]]},
        {},
        LabelsAnswer((), {"no": 0.25, "yes": 0.125}),
        "  (no label)\n  no   0.2500\n  yes  0.1250",
    ),
    ({"score": [1.5]}, {}, ScoreAnswer(1.5), "  score  1.5000"),
    ({"labels": LABELS, "scores": [[1.5, -2]]}, {}, ScoreAnswer(1.5), "  no   1.5000\n  yes  -2.0000"),
    (
        {"choice": [1], "text": [b"b"], "probability": [0.75], "probabilities": [[0.25, 0.75, 0]]},
        {"choices": [["aa", b"b", b""]]},
        ChoiceAnswer(1, "b", 0.75, (0.25, 0.75)),
        "  aa  0.2500\n* b   0.7500",
    ),
    (
        {"choice": [-1], "text": [b""], "probability": [0], "probabilities": [np.zeros(0)]},
        {"choices": [[]]},
        ChoiceAnswer(-1, "", 0.0, ()),
        "  (no choice)",
    ),
    (
        MASKS | {"tokens": [[[b"fox", b"##es"], [b"dog", b"."], [b"", b""]]]},
        {"text": ["[MASK] [MASK]"]},
        FilledText(
            "[MASK] [MASK]",
            (
                FilledMask(None, (Fill("fox", None, 0.5, None), Fill("##es", None, 0.125, None))),
                FilledMask(None, (Fill("dog", None, 1.0, None), Fill(".", None, 0.0, None))),
            ),
            None,
        ),
        "  [MASK] 1:  fox 0.5000   ##es 0.1250\n  [MASK] 2:  dog 1.0000   . 0.0000",
    ),
    (
        {"tokens": np.zeros([1, 0, 2], object), "probabilities": np.zeros([1, 0, 2]), "positions": np.zeros([1, 0])},
        {"text": ["no mask"]},
        FilledText("no mask", (), None),
        "  (no [MASK] to fill)",
    ),
    (
        SPANS | {"entities": [["Ada \xff".encode(), b"x", b""]], "types": [[b"PER", b"LOC", b""]]},
        {"text": ["\xe9 Ada \xff, x"]},
        TagsAnswer((PERSON, EntityAnswer("LOC", 9, 10, "x", 0.25)), (), [], (), None),
        "  \xe9 [Ada \xff PER], [x LOC]\n  Ada \xff  PER  0.5000  2-7\n  x      LOC  0.2500  9-10",
    ),
    (
        {name: np.zeros([1, 0], object) for name in ("entities", "types", "starts", "ends", "probabilities")},
        {"text": ["the fox"]},
        TagsAnswer((), (), [], (), None),
        "  (nothing found)",
    ),
    (
        TAGS | {"starts": [[0, 4]], "ends": [[2, 6]], "probabilities": [[1.0, 0.5]]},
        {"text": ["\xc9  is"]},
        TagsAnswer((), ("\xc9", "is"), ["N", "V"], (1.0, 0.5), None),
        "  [\xc9 N]  [is V]\n  \xc9   N  1.0000  0-1\n  is  V  0.5000  3-5",
    ),
    (
        BEST | BEST_THREE,
        {"context": ["\xe9 Ada."]},
        FoundAnswer("Ada", 2, 5, 0.5, -1.5, (CANDIDATE, Candidate("", None, None, 0.25, None, None))),
        "  \xe9 [[Ada]].\n  Ada  0.5000\n    (no answer)  0.2500",
    ),
    (
        WRITTEN | {"target_ids": [[5, 0]], "alternatives": [[b"a", b""]], "alternative_scores": [[-0.5, -1]]},
        {},
        WrittenText("a", -0.5, (("a", -0.5), ("", -1.0))),
        "  a  -0.5000\n  (no text)  -1.0000",
    ),
    (WRITTEN, {}, WrittenText("a", -0.5, (("a", -0.5),)), "  a  -0.5000"),
]


@pytest.mark.parametrize(("outputs", "inputs", "answer", "text"), CASES)
def test_outputs_of_a_server_are_answers_that_print_readably(outputs, inputs, answer, text):
    outputs = {name: np.asarray(values) for name, values in outputs.items()}
    assert registry.served_answers(outputs, inputs) == [answer]
    assert readable_answers(outputs, inputs) == [text]


def test_a_batch_has_an_answer_for_each_row_and_an_empty_one_none():
    assert registry.served_answers({"score": np.array([0.5, 2])}, {}) == [ScoreAnswer(0.5), ScoreAnswer(2.0)]
    assert registry.served_answers({"score": np.array([])}, {}) == []
    vectors = registry.served_answers({"embedding": np.ones([2, 3])}, {})
    assert (vectors.dtype, vectors.shape) == (np.float32, (2, 3))
    assert readable_answers({"embedding": [np.arange(3.0)]}, {}) == ["  0.0000 1.0000 2.0000  (3 numbers)"]


def test_other_outputs_are_no_answers():
    assert registry.served_answers({"y": np.array([1])}, {}) is None
    entities = dict.fromkeys(("entities", "types", "starts", "ends", "probabilities"), np.array([[]]))
    assert registry.served_answers(entities, {"examples": [b""]}) is None  # characters of unknown texts


def test_a_regression_with_several_scores_names_them():
    [answer] = label_answers(
        label_arrays(np.array([[0.5, 2.0]], np.float32), ("price", "size"), "regression", (0.5, 0.5)), {}
    )
    assert answer == ScoreAnswer(0.5)
    assert answer.scores == {"price": 0.5, "size": 2.0}
    assert answer.readable() == "  price  0.5000\n  size   2.0000"


def test_another_threshold_needs_the_score_of_no_answer():
    answer = FoundAnswer("a", 0, 1, 1.0, None, (Candidate("a", 0, 1, 1.0, 2.0, 3.0),))
    with pytest.raises(InputError, match="has no null_score_difference"):
        answer.with_threshold(0.5)
