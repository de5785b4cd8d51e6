"""What users run: `fit` and `predict` of every task as compiled functions compute what single operations compute."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_models import CHOICES, CONFIG, SECOND_TEXTS, TEXTS, VOCABULARY, assert_same_answers

from keras_bert import (
    CrossEncoder,
    MaskedLM,
    MultipleChoice,
    MultiVectorEncoder,
    SentenceEncoder,
    SequenceClassifier,
    SpanClassifier,
    SparseEncoder,
    TextToText,
    TokenClassifier,
)
from keras_bert.optimization import AdamW

ONE, TWO = TEXTS[:4], SECOND_TEXTS[:4]
WORDS = [["the", "fox"], ["of", "中"], ["walking", "is"], ["the", "the"]]
SPANS = [{"text": [text[:3]], "answer_start": [0]} for text in ONE]
# Name -> a new model, what it is trained on, and how it answers.
TASKS = {
    "classes": (lambda: SequenceClassifier(CONFIG, labels=["a", "b"]), ONE, ["a", "b", "a", "a"]),
    "several labels": (
        lambda: SequenceClassifier(CONFIG, labels=["a", "b"], problem_type="multi_label"),
        ONE,
        [["a"], [], ["a", "b"], ["b"]],
    ),
    "a score for a pair": (
        lambda: SequenceClassifier(CONFIG, problem_type="regression"),
        (ONE, TWO),
        [0.5, 0.0, 1.0, 2.0],
    ),
    "tags": (lambda: TokenClassifier(CONFIG, ["A", "B"]), WORDS, [["A", "B"]] * 4),
    "questions": (lambda: SpanClassifier(CONFIG), (TWO, ONE), SPANS),
    "choices": (lambda: MultipleChoice(CONFIG), (ONE[:3], CHOICES), [0, 2, 1]),
    "masked words": (lambda: MaskedLM(CONFIG), ONE, None),
    "ranking": (lambda: CrossEncoder(CONFIG), (ONE, TWO), [1.0, 0.0, 0.0, 1.0]),
    "vectors": (lambda: SentenceEncoder(CONFIG), (ONE, TWO), [0.5, 0.0, 0.3, 1.0]),
    "sparse vectors": (lambda: SparseEncoder(CONFIG), (ONE, TWO), None),
    "vectors of tokens": (lambda: MultiVectorEncoder(CONFIG, dense=[{"units": 8}]), (ONE, TWO), None),
    "written texts": (lambda: TextToText(CONFIG), ONE, TWO),
}
ASKS = {
    "masked words": lambda model: model.predict(["the [MASK] fox"], top_k=2, verbose=0),
    "vectors": lambda model: model.encode(ONE),
    "sparse vectors": lambda model: model.encode_document(ONE).toarray(),
    "vectors of tokens": lambda model: model.encode_query(ONE),
    "written texts": lambda model: model.predict(ONE, max_new_tokens=3, verbose=0),
}


def trained_and_asked(name):
    """Returns the losses of two updates, and the answers before the first one and after the last one."""
    make, x, y = TASKS[name]
    keras.utils.set_random_seed(1)
    model = make()
    model.vocabulary = VOCABULARY
    model.new_parts.set_trained()
    ask = ASKS.get(name, lambda model: model.predict(x, verbose=0))
    before = ask(model)
    model.compile(AdamW(1e-4), jit_compile=False)
    losses = model.fit(x, *([] if y is None else [y]), batch_size=8, epochs=2, verbose=0).history["loss"]
    return losses, before, ask(model)


@pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eagerly`")  # but for tf.data
@pytest.mark.filterwarnings("ignore:You are using a softmax over axis")
@pytest.mark.parametrize("name", TASKS)
def test_graphs_compute_what_single_operations_compute(name):
    losses, *answers = trained_and_asked(name)
    assert losses[1] != losses[0]
    tf.config.run_functions_eagerly(True)
    try:
        expected_losses, *expected = trained_and_asked(name)
    finally:
        tf.config.run_functions_eagerly(False)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-4)
    assert_same_answers(answers, expected, 1e-3)
