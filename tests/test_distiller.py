"""The distillation loss equals values computed by hand, and a student learns its teacher's answers."""

import keras
import numpy as np
import pytest
from tiny_checkpoints import CONFIG, FEATURES, random_checkpoint

from keras_bert.checkpoints.pretrained import model_of
from keras_bert.checkpoints.resizing import with_layers
from keras_bert.models.distiller import Distiller
from keras_bert.models.encoder import BertEncoder
from keras_bert.models.sequence_classifier import SequenceClassifier
from keras_bert.optimization import AdamW
from keras_bert.program.errors import InputError

INPUTS = {name: FEATURES[name] for name in ("input_ids", "input_mask", "segment_ids")}
TEACHER = np.array([[2.0, -1.0, 0.5], [0.0, 1.0, -3.0]], "float32")
LABELS = np.array([0, 2], "int32")


def student(config=CONFIG, **arguments):
    keras.utils.set_random_seed(1)
    return SequenceClassifier(
        config.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
        **{"labels": ["a", "b", "c"], **arguments},
    )


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def terms(model, logits, labels=LABELS, **features):
    x = {**INPUTS, "teacher_logits": TEACHER, "label_ids": labels, **features}
    return {
        term.name: float(term.value) for term in model.loss_terms(x, None, keras.ops.convert_to_tensor(logits), None)
    }


def test_the_loss_is_that_of_the_paper():
    logits = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 2.0]], "float32")
    found = terms(Distiller(student(), alpha=0.3, temperature=2.0), logits)
    log_teacher, log_student = log_softmax(TEACHER / 2), log_softmax(logits / 2)
    divergence = (np.exp(log_teacher) * (log_teacher - log_student)).sum(axis=1).mean()
    cross_entropy = -log_softmax(logits)[[0, 1], LABELS].mean()
    assert found["distillation_loss"] == pytest.approx(0.3 * 4 * divergence, rel=1e-5)
    assert found["label_loss"] == pytest.approx(0.7 * cross_entropy, rel=1e-5)


def test_a_student_that_says_the_same_has_no_divergence():
    assert terms(Distiller(student(), alpha=1.0), TEACHER) == {"distillation_loss": pytest.approx(0.0, abs=1e-6)}


def test_several_labels_diverge_each_on_its_own():
    logits = np.zeros((2, 3), "float32")
    model = Distiller(student(problem_type="multi_label"), alpha=0.5, temperature=3.0)
    found = terms(model, logits, labels=np.eye(3, dtype="float32")[:2])
    yes = 1 / (1 + np.exp(-TEACHER / 3))
    divergence = (yes * np.log(yes / 0.5) + (1 - yes) * np.log((1 - yes) / 0.5)).mean()
    assert found["distillation_loss"] == pytest.approx(0.5 * 9 * divergence, rel=1e-5)


def test_scores_differ_by_their_square():
    model = Distiller(student(problem_type="regression", labels=["score"]), alpha=0.25, temperature=5.0)
    found = terms(model, np.array([[1.0], [2.0]]), labels=np.array([1.0, 5.0]), teacher_logits=np.array([[3.0], [2.0]]))
    assert found == {"distillation_loss": pytest.approx(0.25 * 2.0), "label_loss": pytest.approx(0.75 * 4.5)}


def test_weights_of_examples_count_in_both_terms():
    logits = np.zeros((2, 3), "float32")
    model = Distiller(student(), alpha=0.5)
    second = terms(model, logits, example_weights=np.array([0.0, 2.0], "float32"))
    expected = terms(model, logits[1:], labels=LABELS[1:], teacher_logits=TEACHER[1:])
    assert second == pytest.approx(expected)


def test_a_student_comes_to_say_what_its_teacher_says():
    small = student(CONFIG.replace(num_hidden_layers=1))
    distiller = Distiller(small, alpha=1.0, temperature=2.0)
    distiller.compile(optimizer=AdamW(0.02, weight_decay=0.0), jit_compile=False)
    history = distiller.fit({**INPUTS, "teacher_logits": TEACHER}, batch_size=2, epochs=40, verbose=0).history
    assert history["loss"][-1] < 0.05 < history["loss"][0]
    probabilities = np.exp(log_softmax(small.predict(INPUTS, verbose=0)))
    np.testing.assert_allclose(probabilities, np.exp(log_softmax(TEACHER)), atol=0.1)


def test_chosen_layers_of_a_teacher_are_the_start_of_a_student():
    config = CONFIG.replace(num_hidden_layers=4)
    checkpoint = random_checkpoint(config=config)
    whole, part = model_of(BertEncoder, checkpoint), model_of(BertEncoder, with_layers(checkpoint, [3, 1]))
    assert part.config.num_hidden_layers == 2
    for place, number in enumerate([3, 1]):
        for one, other in zip(part.blocks[place].weights, whole.blocks[number].weights, strict=True):
            np.testing.assert_array_equal(one.value.numpy(), other.value.numpy())
    np.testing.assert_array_equal(
        part.embeddings.token_embeddings.value.numpy(), whole.embeddings.token_embeddings.value.numpy()
    )


@pytest.mark.parametrize("keep", [[], [0, 4], [-1]])
def test_layers_that_there_are_not_cannot_be_kept(keep):
    checkpoint = random_checkpoint(config=CONFIG.replace(num_hidden_layers=4))
    with pytest.raises(InputError, match=r"keep_layers must be one or more numbers from 0 to 3. Received: \["):
        with_layers(checkpoint, keep)


@pytest.mark.parametrize("arguments", [{"alpha": 1.5}, {"temperature": 0.0}, {"alpha": float("nan")}])
def test_shares_and_temperatures_that_make_no_sense_are_refused(arguments):
    with pytest.raises(InputError, match="alpha must be between 0 and 1 and temperature above 0"):
        Distiller(student(), **arguments)
