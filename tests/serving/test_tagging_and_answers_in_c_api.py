"""Exported taggers and question answering models answer like `predict` in TensorFlow's C API, on real text."""

import json
import types

import numpy as np
import pytest
from serving.test_export_in_c_api import serve, text_libraries
from signature_questions import Question
from tasks.question_answering.test_question_answering_signatures import (
    assert_as_predicted,
    squad,
    with_threshold_in_the_middle,
)
from tasks.question_answering.test_question_answering_signatures import new_model as new_answerer
from tasks.tagging.test_tagging_signatures import assert_entities, labels_of
from tasks.tagging.test_tagging_signatures import new_model as new_tagger

from keras_bert.serving.export import export_for_serving
from keras_bert.tokenization.vocabulary import Vocabulary

pytestmark = pytest.mark.slow

SENTENCES = [["J.", "Smith", "paid"], ["Zoë", "in", "U.S."]]


@pytest.fixture(scope="module")
def asked(shared_data, tmp_path_factory):
    """Two models, real texts, and the answers of the models' exports, which run in one process."""
    vocabulary = Vocabulary.from_file(shared_data("vocab/bert-base-cased-vocab.txt"))
    articles = shared_data("corpus/wikipedia_articles.txt").read_text("utf-8")[:100_000].split("\n")
    asked = types.SimpleNamespace(texts=[text for text in articles if len(text) > 20][:20])
    asked.questions, asked.contexts = map(list, zip(*squad(shared_data, 40)[:16], strict=True))
    asked.contexts[0] *= 20
    asked.tagger = new_tagger(labels_of("BI"), vocabulary)
    asked.answerer, asked.expected_answers = with_threshold_in_the_middle(
        new_answerer(vocabulary), asked.questions, asked.contexts
    )
    folders = {
        "tagger": export_for_serving(asked.tagger, tmp_path_factory.mktemp("tagger")),
        "answerer": export_for_serving(asked.answerer, tmp_path_factory.mktemp("answerer")),
    }
    requests = [
        Question("tagger", "serving_default", {"text": asked.texts}),
        Question("tagger", "words", {"words": SENTENCES, "num_words": [3, 3]}),
        Question("tagger", "serving_default", {"text": ["", "\udcff"]}),
        Question("answerer", "serving_default", {"question": asked.questions, "context": asked.contexts}),
        Question("answerer", "serving_default", {"question": ["", "who?"], "context": ["He.", ""]}),
    ]
    result = serve(requests, folders, text_libraries("_fast_bert_normalizer", "_fast_wordpiece_tokenizer"))
    assert result.returncode == 0, result.stderr
    result = json.loads(result.stdout)
    assert not result["tensorflow"]
    answers = [{name: as_array(*value) for name, value in answer.items()} for answer in result["answers"]]
    asked.of_texts, asked.of_words, asked.of_nothing, asked.answers, asked.no_answers = answers
    return asked


def as_array(shape, values):
    """Converts to an array of numbers or, as TensorFlow for Python does, of bytes."""
    if values and isinstance(values[0], str):
        values = np.array([value.encode() for value in values], object)
    return np.array(values).reshape(shape)


def rows_of(outputs):
    return {
        name: [types.SimpleNamespace(numpy=lambda row=row: row) for row in values] for name, values in outputs.items()
    }


def test_entities_in_the_c_api_are_those_of_predict(asked):
    for number, (text, answer) in enumerate(zip(asked.texts, asked.tagger.predict(asked.texts), strict=True)):
        assert_entities(
            rows_of(asked.of_texts), number, answer.entities, lambda end, text=text: len(text[:end].encode())
        )
    assert asked.of_nothing["entities"].shape == (2, 0)


def test_tags_of_words_in_the_c_api_are_those_of_predict(asked):
    outputs = dict(asked.of_words)
    tags, probabilities = outputs.pop("tags"), outputs.pop("probabilities")
    for number, answer in enumerate(asked.tagger.predict(SENTENCES)):
        assert tuple(tag.decode() for tag in tags[number]) == answer.tags
        np.testing.assert_allclose(probabilities[number], answer.probabilities, atol=1e-5)
        assert_entities(rows_of(outputs), number, answer.entities, probabilities="entity_probabilities")


def test_answers_in_the_c_api_are_those_of_predict(asked):
    assert_as_predicted(asked.answers, asked.contexts, asked.expected_answers)
    assert asked.no_answers["answer"].tolist() == [b"", b""]
    assert asked.no_answers["start"].tolist() == [-1, -1]
