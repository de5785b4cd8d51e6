"""Spans of texts -> words with tags, and a tagger that is trained on them and answers with them."""

import json

import keras
import numpy as np
import pytest
import tiny

from keras_bert import InputError, TokenClassifier
from keras_bert.tasks.base import Answered
from keras_bert.tasks.tagging.annotated_spans import labels_of_spans, read_spans, sentences_of_spans
from keras_bert.tasks.tagging.answers import EntityAnswer
from keras_bert.tasks.tagging.task import TaggingTask

pytestmark = pytest.mark.usefixtures("without_graphs")

VOCABULARY = tiny.vocabulary("ada lee wrote from bonn york - .")
CONFIG = tiny.config(VOCABULARY, dropout=0.0, hidden_size=16, initializer_range=0.2)
TEXTS = ["Ada Lee wrote from Bonn.", "From Bonn wrote Ada", "wrote"]
SPANS = [[[0, 7, "PER"], [19, 23, "LOC"]], [[5, 9, "LOC"], [16, 19, "PER"]], []]
WORDS = [["Ada", "Lee", "wrote", "from", "Bonn", "."], ["From", "Bonn", "wrote", "Ada"], ["wrote"]]
TAGS = [["B-PER", "I-PER", "O", "O", "B-LOC", "O"], ["O", "B-LOC", "O", "B-PER"], ["O"]]


def new_model(labels=None):
    return tiny.made(TokenClassifier, CONFIG, VOCABULARY, labels or labels_of_spans(SPANS), seed=0)


@pytest.fixture(scope="module")
def model():
    """A tagger that has learnt the texts by heart."""
    model = new_model()
    model.compile(optimizer=keras.optimizers.Adam(1e-2))
    model.fit(TEXTS * 8, SPANS * 8, batch_size=8, epochs=20, verbose=0)
    return model


def tags_of(text, *spans):
    sentences = sentences_of_spans([text], [read_spans(list(spans), text, "text 1")], "the examples")
    return sentences.tags[0], [note.partition(": ")[2] for note in sentences.notes]


def test_spans_that_fall_on_words_need_no_note():
    assert tags_of(TEXTS[0], *SPANS[0]) == (TAGS[0], [])
    assert tags_of(WORDS[0], [0, 2, "PER"], [4, 5, "LOC"]) == (TAGS[0], [])
    assert tags_of("Ada Lee", [0, 3, "PER"], [4, 7, "PER"]) == (["B-PER", "B-PER"], [])


def test_other_spans_are_set_to_the_words_that_they_touch_and_reported():
    tags, (note,) = tags_of("New York-Bonn wrote", [1, 6, "LOC"])
    assert tags == ["B-LOC", "I-LOC", "O"]
    assert note == "1 were set to the words that they touch: [1, 6, 'LOC'] 'ew Yo' -> 'New York-Bonn' (text 1)"
    assert tags_of("Ada  wrote", [0, 4, "PER"])[0] == ["B-PER", "O"]
    # The first of two spans has their common word. The second has the words after it, or is left out.
    tags, (note,) = tags_of("York-Bonn Lee", [0, 4, "A"], [5, 13, "B"])
    assert (tags, note.endswith("[5, 13, 'B'] 'Bonn Lee' -> 'Lee' (text 1)")) == (["B-A", "B-B"], True)
    tags, (note,) = tags_of("York-Bonn Lee", [0, 4, "A"], [5, 9, "B"])
    assert tags == ["B-A", "O"]
    assert "and 1 left out that have no word of their own: " in note
    assert tags_of("Ada  Lee", [3, 5, "X"])[1][0].endswith("[3, 5, 'X'] '  ' left out (text 1)")
    (note,) = tags_of("wrote " * 5, *([6 * word, 6 * word + 2, "X"] for word in range(5)))[1]
    assert (note[:11], note.count("->"), note[-3:]) == ("5 were set ", 3, "...")


def test_texts_with_spans_are_the_same_examples_as_words_with_tags(model):
    task = TaggingTask(model)
    objects = [[EntityAnswer(kind, start, end, "", 1.0) for start, end, kind in spans] for spans in SPANS]
    words = [[[0, 2, "PER"], [4, 5, "LOC"]], [[1, 2, "LOC"], [3, 4, "PER"]], []]
    for x, y in (
        (TEXTS, SPANS),
        (np.array(TEXTS, object), objects),
        (WORDS, words),
        ([TEXTS[0], *WORDS[1:]], [SPANS[0], *words[1:]]),
    ):
        found = task.examples(x, y)
        assert (found.words, found.tags) == (WORDS, TAGS)
    assert model.evaluate(TEXTS, SPANS) == model.evaluate(WORDS, TAGS)
    assert model.evaluate(TEXTS, SPANS)["f1"] == 1


def test_answers_are_spans_to_train_on(model, tmp_path):
    answers = model.predict(TEXTS)
    assert [answer.spans for answer in answers] == SPANS
    assert model.evaluate(TEXTS, [answer.spans for answer in answers])["f1"] == 1
    assert [answer.spans for answer in model.predict(WORDS[:1])] == [[[0, 2, "PER"], [4, 5, "LOC"]]]


@pytest.mark.parametrize("key", ["label", "spans"])
def test_predictions_are_written_in_the_form_that_was_read(model, tmp_path, key):
    task = TaggingTask(model)
    whole = [(0, len(TEXTS[2]))]
    places = [None, None, whole]
    examples = sentences_of_spans(TEXTS, None, "a", words=places, span_key=key)
    examples.spans[1][-2:] = [(10, 19)]  # a word that no rule finds
    examples.words[1][-2:] = ["wrote Ada"]
    example_rows = task.rows(examples)
    answers = task.answers(examples, example_rows, task.outputs(example_rows.rows))
    task.write_predictions(tmp_path, Answered(model, examples, example_rows, None, answers), "test")
    lines = list(map(json.loads, (tmp_path / "test_predictions.jsonl").read_text().splitlines()))
    objects = [{"start": 0, "end": 7, "label": "PER"}, {"start": 19, "end": 23, "label": "LOC"}]
    assert lines[0] == {"text": TEXTS[0], key: SPANS[0] if key == "label" else objects}
    assert [token["text"] for token in lines[1]["tokens"]] == ["From", "Bonn", "wrote Ada"]
    assert lines[2] == {"text": "wrote", key: []}


@pytest.mark.parametrize(
    ("labels", "x", "y", "message"),
    [
        (None, ["Ada"], [[[0, 3, "ORG"]]], r"Text 1: the span \[0, 3, 'ORG'\] 'Ada' has a type .* not know: LOC"),
        (None, [["Ada"]], [[[0, 2, "PER"]]], "not inside the text, which has 1 words"),
        (None, ["Ada", "Lee"], [[]], "There are 2 texts but 1 lists of spans"),
        (None, ["Ada", 3], [[], []], "Text 2 must be a string or a list of words"),
        (None, ["\x01"], [[]], "Text 1 is empty: it has no words"),
        (["NOUN", "VERB"], ["Ada"], [[[0, 3, "NOUN"]]], "does not know: none: its labels mark no entities"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(labels, x, y, message):
    with pytest.raises(InputError, match=message):
        new_model(labels).fit(x, y)
