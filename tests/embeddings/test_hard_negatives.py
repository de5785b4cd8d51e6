"""Hard negatives: the most similar texts of a corpus that are not relevant."""

import pytest

from keras_bert.embeddings import vector_search
from keras_bert.embeddings.hard_negatives import mine_hard_negatives
from keras_bert.program.errors import InputError

pytestmark = pytest.mark.usefixtures("without_graphs")

# The first query is nearest to "right", then "near", "far" and "other".
VECTORS = {
    "query": (1.0, 0.0),
    "same": (1.0, 0.0),
    "right": (0.9, 0.43589),
    "near": (0.88, 0.47497),
    "far": (0.7, 0.71414),
    "other": (0.0, 1.0),
    "turned": (0.0, 1.0),
}


@pytest.fixture(autouse=True)
def vectors(use_vectors):
    use_vectors(VECTORS.__getitem__)


def test_a_text_that_is_nearly_as_similar_as_the_positive_is_no_negative():
    corpus = ["near", "far", "other"]
    mined = mine_hard_negatives(None, ["query"], ["right"], corpus=corpus, num_negatives=2)
    assert mined.columns == (["query"], ["right"], ["far"], ["other"])
    mined = mine_hard_negatives(None, ["query"], ["right"], corpus=corpus, num_negatives=2, relative_margin=0.0)
    assert mined.columns == (["query"], ["right"], ["near"], ["far"])


def test_below_a_cosine_of_zero_the_margin_lies_below_the_positive_too(monkeypatch):
    cosines = {"against": -0.6, "nearly": -0.59, "below": -0.62, "far below": -0.8}
    for text, cosine in cosines.items():
        monkeypatch.setitem(VECTORS, text, (cosine, (1 - cosine**2) ** 0.5))
    corpus = ["nearly", "below", "far below"]
    mined = mine_hard_negatives(None, ["query"], ["against"], corpus=corpus)
    assert mined.columns == (["query"], ["against"], ["far below"])
    mined = mine_hard_negatives(None, ["query"], ["against"], corpus=corpus, relative_margin=0.0)
    assert mined.columns == (["query"], ["against"], ["below"])


@pytest.mark.parametrize("positives", [["right", "far"], ["far", "right"]])
def test_positives_of_equal_anchors_are_no_negatives(positives):
    mined = mine_hard_negatives(None, ["query", "query", "turned"], [*positives, "other"])
    assert mined.columns == (["query", "query", "turned"], [*positives, "other"], ["other", "other", "far"])


def test_the_anchor_itself_is_no_negative():
    mined = mine_hard_negatives(None, ["query"], ["same"], corpus=["near", "query", "right"], relative_margin=0.0)
    assert mined == ((["query"], ["same"], ["right"]), 0)


def test_anchors_without_enough_negatives_are_left_out_and_counted():
    mined = mine_hard_negatives(None, ["query", "turned"], ["far", "other"], num_negatives=1)
    assert mined.num_left_out == 0
    mined = mine_hard_negatives(None, ["query", "turned"], ["other", "other"], corpus=["far"])
    assert mined == ((["turned"], ["other"], ["far"]), 1)


@pytest.mark.parametrize("at_once", [1 << 24, 100])
def test_many_positives_and_texts_above_the_margin_hide_no_negative(monkeypatch, at_once):
    monkeypatch.setattr(vector_search, "MOST_AT_ONCE", at_once)
    positives = [f"right {number}" for number in range(60)]
    near = [f"near {number}" for number in range(500)]
    for text in (*positives, *near):
        monkeypatch.setitem(VECTORS, text, VECTORS[text.partition(" ")[0]])
    anchors = ["query"] * 60
    mined = mine_hard_negatives(None, [*anchors, "turned"], [*positives, "other"], corpus=["far"], num_negatives=2)
    assert mined == (([*anchors, "turned"], [*positives, "other"], ["far"] * 61, ["other"] * 60 + ["right 0"]), 0)
    mined = mine_hard_negatives(None, ["query"], ["right"], corpus=[*near, "far"])
    assert mined == ((["query"], ["right"], ["far"]), 0)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((["query"], []), {}, "equally many, at least one. Received: 1 and 0"),
        (([], []), {}, "equally many, at least one"),
        ((["query"], ["right"]), {"num_negatives": 0}, "num_negatives must be a whole number of at least 1"),
        ((["query"], ["right"]), {"relative_margin": 2}, "relative_margin must be a number"),
        ((["query"], ["right"]), {}, "No anchor has 1 texts below the margin.*1 different texts"),
        ((["query"], [3]), {}, "Positive 1 must be a string"),
    ],
)
def test_what_cannot_be_mined_is_refused(arguments, options, message):
    with pytest.raises(InputError, match=message):
        mine_hard_negatives(None, *arguments, **options)
