"""The terms of logits equal values computed by hand, and a student learns its teacher's answers."""

import keras
import numpy as np
import pytest
from tiny_checkpoints import CONFIG, FEATURES, random_checkpoint

from keras_bert.checkpoints.pretrained import model_of
from keras_bert.checkpoints.resizing import with_layers
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.models.distiller import Distiller
from keras_bert.optimization import AdamW
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier

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
    found = terms(Distiller(student(), terms={"soft_targets": 0.3, "labels": 0.7}, temperature=2.0), logits)
    log_teacher, log_student = log_softmax(TEACHER / 2), log_softmax(logits / 2)
    divergence = (np.exp(log_teacher) * (log_teacher - log_student)).sum(axis=1).mean()
    cross_entropy = -log_softmax(logits)[[0, 1], LABELS].mean()
    assert found["soft_targets_loss"] == pytest.approx(0.3 * 4 * divergence, rel=1e-5)
    assert found["classification_loss"] == pytest.approx(0.7 * cross_entropy, rel=1e-5)


def test_several_labels_diverge_each_on_its_own():
    logits = np.zeros((2, 3), "float32")
    model = Distiller(student(problem_type="multi_label"), temperature=3.0)
    found = terms(model, logits, labels=np.eye(3, dtype="float32")[:2])
    yes = 1 / (1 + np.exp(-TEACHER / 3))
    divergence = (yes * np.log(yes / 0.5) + (1 - yes) * np.log((1 - yes) / 0.5)).mean()
    assert found["soft_targets_loss"] == pytest.approx(0.5 * 9 * divergence, rel=1e-5)


def test_scores_differ_by_their_square():
    one = student(problem_type="regression", labels=["score"])
    model = Distiller(one, terms={"soft_targets": 0.25, "labels": 0.75}, temperature=5.0)
    found = terms(model, np.array([[1.0], [2.0]]), labels=np.array([1.0, 5.0]), teacher_logits=np.array([[3.0], [2.0]]))
    assert found == {"soft_targets_loss": pytest.approx(0.25 * 2.0), "classification_loss": pytest.approx(0.75 * 4.5)}


def test_weights_of_examples_count_in_both_terms():
    logits = np.zeros((2, 3), "float32")
    model = Distiller(student())
    second = terms(model, logits, example_weights=np.array([0.0, 2.0], "float32"))
    expected = terms(model, logits[1:], labels=LABELS[1:], teacher_logits=TEACHER[1:])
    assert second == pytest.approx(expected)


def test_a_student_comes_to_say_what_its_teacher_says():
    small = student(CONFIG.replace(num_hidden_layers=1))
    distiller = Distiller(small, terms=["soft_targets"], temperature=2.0)
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


def test_a_prediction_is_the_cross_entropy_of_tinybert():
    logits = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 2.0]], "float32")
    found = terms(Distiller(student(), terms=["predictions:2"], temperature=3.0), logits)
    expected = -(np.exp(log_softmax(TEACHER / 3)) * log_softmax(logits / 3)).sum(axis=1).mean()
    assert found == {"predictions_loss": pytest.approx(2 * expected, rel=1e-6)}
    several = terms(Distiller(student(problem_type="multi_label"), terms=["predictions"], temperature=1.0), logits)
    yes, ours = 1 / (1 + np.exp(-TEACHER)), 1 / (1 + np.exp(-logits))
    expected = -(yes * np.log(ours) + (1 - yes) * np.log(1 - ours)).mean()
    assert several == {"predictions_loss": pytest.approx(expected, rel=1e-6)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"terms": ["logits"]}, "A term of distillation is one of labels, soft_targets, .* Received: logits:1"),
        ({"terms": ["labels:0"]}, "with a weight above 0, as in soft_targets:5. Received: labels:0"),
        ({"terms": ["labels:nan"]}, "Received: labels:nan"),
        ({"terms": ["labels:much"]}, "Received: labels:much"),
        ({"terms": []}, "Distillation needs one or more terms"),
        ({"temperature": 0.0}, "temperature must be a number above 0. Received: 0.0"),
        ({"terms": ["cosine"]}, "The terms cosine, .* and layer_map need a teacher. Received: none"),
    ],
)
def test_terms_and_temperatures_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        Distiller(student(), **arguments)
