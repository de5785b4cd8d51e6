"""Exports of a RoBERTa, a ModernBERT and an ALBERT answer texts in TensorFlow's C API as in Python.

Of a family, only the tokenizer needs operations of its own. So two tasks are enough: one reads ids, the other offsets
too. `test_export_in_c_api.py` has all tasks of a BERT, `test_scenarios.py` those of every family in Python.
"""

import json

import pytest
from serving.test_export_in_c_api import serve, text_libraries
from signature_questions import Question, assert_answers
from tiny_families import TEXTS, new

from keras_bert import SequenceClassifier, SpanClassifier

OTHERS = ["the dog?", "", "fox, fox!", "Größe 中 \udcff"]


QUESTIONS = [
    Question("classifier", "serving_default", {"text": [*TEXTS, *OTHERS], "text_b": [*OTHERS, *TEXTS]}),
    Question("answerer", "serving_default", {"question": OTHERS, "context": [text * 9 for text in TEXTS]}),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "operations"), [("roberta", []), ("modernbert", []), ("albert", ["_sentencepiece_tokenizer"])]
)
def test_answers_of_two_tasks(family, operations, tmp_path):
    classifier, answerer = new(SequenceClassifier, family, labels=["dog", "fox"]), new(SpanClassifier, family)
    folders = {
        "classifier": classifier.export_for_serving(tmp_path / "classifier", text_pairs=True),
        "answerer": answerer.export_for_serving(tmp_path / "answerer"),
    }
    result = serve(QUESTIONS, folders, text_libraries(*operations))
    assert result.returncode == 0, result.stderr
    result = json.loads(result.stdout)
    assert not result["tensorflow"]
    assert_answers(QUESTIONS, result["answers"], folders)
