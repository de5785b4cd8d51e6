"""Texts beyond the model's length, in overlapping windows: vectors and labels, in Python and in exports."""

import numpy as np
import pytest
import tensorflow as tf
from tiny_checkpoints import CONFIG, random_checkpoint
from tiny_models import made_signatures

from keras_bert import InputError, SentenceEncoder, SequenceClassifier, TokenClassifier
from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.records.segments import cut_windows

pytestmark = pytest.mark.usefixtures("without_graphs")

SHORT, LONG = "the quick fox", "the quick brown fox the quick fox brown the fox fox brown quick quick the brown the"
TEXTS = [SHORT, LONG, "brown", LONG[10:]]
LENGTH, STRIDE = 8, 3  # 6 tokens of the text in each window


@pytest.fixture
def folder(tmp_path):
    checkpoint = random_checkpoint(form.CLASSIFIER, labels=("no", "yes"))
    write_checkpoint(checkpoint, tmp_path / "folder")
    return tmp_path / "folder"


def windows(text):
    """The windows of a text as texts, and their numbers of tokens with [CLS] and [SEP]; each word is a token."""
    words = text.split()
    starts = [start for start in range(0, max(len(words) - LENGTH + 2, 0) + STRIDE, STRIDE)]
    starts = [start for number, start in enumerate(starts) if not number or starts[number - 1] + 6 < len(words)]
    cut = [words[start : start + 6] for start in starts]
    return [" ".join(part) for part in cut], np.array([len(part) + 2 for part in cut])


def test_rows_are_cut_as_the_docstring_says():
    tokens = tf.ragged.constant([[1, 2, 3, 4, 5, 6], [7], [], [1, 2, 3, 4, 5]], tf.int32)
    found, row = cut_windows(tokens, room=4, stride=2)
    assert found.to_list() == [[1, 2, 3, 4], [3, 4, 5, 6], [7], [], [1, 2, 3, 4], [3, 4, 5]]
    assert row.numpy().tolist() == [0, 0, 1, 2, 3, 3]


def test_the_vector_of_a_long_text_is_the_weighted_mean_of_its_windows(folder):
    encoder = SentenceEncoder.from_pretrained(folder, max_seq_length=LENGTH, doc_stride=STRIDE)
    plain = SentenceEncoder.from_pretrained(folder)
    expected = []
    for text in TEXTS:
        parts, weights = windows(text)
        vector = (plain.encode(parts) * weights[:, None]).sum(axis=0)
        expected.append(vector / np.linalg.norm(vector))
    assert len(windows(LONG)[0]) == 5
    np.testing.assert_allclose(encoder.encode(TEXTS, batch_size=2), expected, atol=1e-6)
    served = made_signatures(encoder, {})
    np.testing.assert_allclose(served["embed"](text=tf.constant(TEXTS))["embedding"], expected, atol=1e-5)
    scores = served["score"](text=tf.constant(TEXTS[:2]), text_b=tf.constant(TEXTS[2:]))["score"]
    np.testing.assert_allclose(scores, (np.array(expected)[:2] * expected[2:]).sum(axis=1), atol=1e-5)
    assert served["embed"](text=tf.constant([], tf.string))["embedding"].shape == (0, CONFIG.hidden_size)


@pytest.mark.parametrize("problem_type", ["classification", "multi_label"])
def test_the_label_of_a_long_text_comes_from_all_its_windows(problem_type, folder):
    arguments = {"problem_type": problem_type, "labels": ["no", "yes"]}
    model = SequenceClassifier.from_pretrained(folder, doc_stride=STRIDE, **arguments)
    plain = SequenceClassifier.from_pretrained(folder, **arguments)
    found = [list(answer.probabilities.values()) for answer in model.predict(TEXTS, max_seq_length=LENGTH, verbose=0)]
    for text, probabilities in zip(TEXTS, found, strict=True):
        parts, weights = windows(text)
        of_windows = [list(answer.probabilities.values()) for answer in plain.predict(parts, verbose=0)]
        logits = np.log(of_windows) - (0 if problem_type == "classification" else np.log1p(-np.array(of_windows)))
        # Softmax ignores a constant that is added to a window's logits; with two labels only their difference counts.
        if problem_type == "classification":
            difference = ((logits[:, 1] - logits[:, 0]) * weights).sum() / weights.sum()
            np.testing.assert_allclose(probabilities[1], 1 / (1 + np.exp(-difference)), atol=1e-6)
        else:
            mean = (logits * weights[:, None]).sum(axis=0) / weights.sum()
            np.testing.assert_allclose(probabilities, 1 / (1 + np.exp(-mean)), atol=1e-6)
    served = made_signatures(model, {"max_seq_length": LENGTH})["serving_default"](text=tf.constant(TEXTS))
    np.testing.assert_allclose(served["probabilities"], found, atol=1e-5)


def test_the_stride_is_saved_and_windows_are_trained_with_the_label_of_their_text(folder, tmp_path):
    model = SequenceClassifier.from_pretrained(folder, doc_stride=STRIDE)
    history = model.fit(TEXTS, ["yes", "no", "yes", "no"], max_seq_length=LENGTH, batch_size=64, verbose=0)
    assert len(history.history["loss"]) == 1
    assert 0 <= model.evaluate(TEXTS, ["yes", "no", "yes", "no"], max_seq_length=LENGTH, verbose=0)["accuracy"] <= 1
    model.save_pretrained(tmp_path / "saved")
    assert from_pretrained(None, tmp_path / "saved").doc_stride == STRIDE
    plain = SequenceClassifier.from_pretrained(folder)
    assert "doc_stride" not in plain.get_config()


@pytest.mark.parametrize("doc_stride", [0, -1, 2.5, True])
def test_a_stride_that_is_none_is_refused(doc_stride):
    for model_class in (SentenceEncoder, SequenceClassifier, TokenClassifier):
        labels = {} if model_class is SentenceEncoder else {"labels": ["a", "b"]}
        with pytest.raises(InputError, match=f"doc_stride must be a whole number .* 1. Received: {doc_stride}"):
            model_class(CONFIG, doc_stride=doc_stride, **labels)
