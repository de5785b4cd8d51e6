"""Exports of a RoBERTa, a ModernBERT and an ALBERT answer texts in TensorFlow's C API as in Python, in six tasks."""

import json

import pytest
import served_models
import tensorflow as tf
from served_models import Question
from test_export_in_c_api import serve, text_libraries
from test_families_on_texts import TEXTS, VOCABULARIES, config, new

from keras_bert import MaskedLM, MultipleChoice, SequenceClassifier, SpanClassifier, TokenClassifier
from keras_bert.models.encoders import encoder_class

OTHERS = ["the dog?", "", "fox, fox!", "Größe 中 \udcff"]


def models_and_questions(family):
    mask = VOCABULARIES[family].special_tokens.mask
    classifier = new(SequenceClassifier, family, labels=["dog", "fox"])
    models = {
        "classifier": (classifier, {"text_pairs": True}),
        "score": (new(SequenceClassifier, family, labels=["score"], problem_type="regression"), {}),
        "choice": (new(MultipleChoice, family), {}),
        "tagger": (new(TokenClassifier, family, labels=["O", "B-X", "I-X"]), {}),
        "answerer": (new(SpanClassifier, family), {}),
        "masked": (new(MaskedLM, family), {"top_k": 2}),
        "encoder": (new(encoder_class(config(family)), family), {}),
    }
    inputs = {
        "classifier": {"text": TEXTS, "text_b": OTHERS},
        "score": {"text": OTHERS},
        "choice": {"prompt": TEXTS, "choices": [["a fox", text] for text in OTHERS]},
        "tagger": {"text": [*TEXTS, *OTHERS]},
        "answerer": {"question": OTHERS, "context": [text * 9 for text in TEXTS]},
        "masked": {"text": [f"the {mask} fox", f"{mask}, the {mask}"]},
        "encoder": {"text": OTHERS},
    }
    return models, [Question(name, "serving_default", values) for name, values in inputs.items()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "operations"), [("roberta", []), ("modernbert", []), ("albert", ["_sentencepiece_tokenizer"])]
)
def test_answers_of_six_tasks(family, operations, tmp_path):
    models, questions = models_and_questions(family)
    folders = {name: model.export_for_serving(tmp_path / name, **options) for name, (model, options) in models.items()}
    result = serve(questions, folders, text_libraries(*operations))
    assert result.returncode == 0, result.stderr
    result = json.loads(result.stdout)
    assert not result["tensorflow"]
    for question, answer in zip(questions, result["answers"], strict=True):
        loaded = tf.saved_model.load(folders[question.model])
        expected = loaded.signatures["serving_default"](**served_models.as_tensors(question.inputs))
        expected = served_models.as_lists({name: value.numpy() for name, value in expected.items()})
        served_models.assert_same(answer, expected, 1e-5)
