import numpy as np
import pytest
from numpy_bert import NumpyBert, log_likelihood, scatter_weights, weights_by_name
from tiny_checkpoints import CONFIG

from keras_bert.program.errors import InputError
from keras_bert.tasks.multiple_choice.model import MultipleChoice

pytestmark = pytest.mark.usefixtures("without_graphs")


def examples(size=4, choices=3, length=6, seed=0):
    generator = np.random.default_rng(seed)
    ids = generator.integers(5, 10, (size, choices, length)).astype("int32")
    mask = np.arange(length) < generator.integers(2, length + 1, (size, choices, 1))
    segments = generator.integers(0, 2, ids.shape).astype("int32")
    return {"input_ids": ids, "input_mask": mask.astype("int32"), "segment_ids": segments}


X, LABEL_IDS = examples(), np.array([2, 0, 1, 1], "int32")


def compiled():
    model = MultipleChoice(CONFIG)
    scatter_weights(model)
    model.compile(optimizer="sgd")
    return model


def test_logits_and_results_are_those_of_the_paper_written_in_numpy(eagerly):
    model = compiled()
    numpy_bert = NumpyBert(weights_by_name(model) | weights_by_name(model.encoder), CONFIG)
    hidden = [numpy_bert.rows(**{name: array[:, choice] for name, array in X.items()})[0][-1] for choice in range(3)]
    logits = np.concatenate([numpy_bert.dense("choice_scorer", numpy_bert.pooled(rows)) for rows in hidden], axis=1)
    predicted = model.predict(X, verbose=0)
    assert predicted.dtype == "float32"
    np.testing.assert_allclose(predicted, logits, rtol=0, atol=1e-5)
    losses, is_right = -log_likelihood(logits, LABEL_IDS), logits.argmax(1) == LABEL_IDS
    expected = {"loss": losses.mean(), "accuracy": is_right.mean()}
    assert model.evaluate(X, LABEL_IDS, verbose=0, return_dict=True) == pytest.approx(expected, rel=1e-5)
    filled = {**X, "label_ids": LABEL_IDS[:, None], "is_real_example": np.array([[1], [1], [1], [0]])}
    expected = {"loss": losses[:3].mean(), "accuracy": is_right[:3].mean()}
    assert model.evaluate(filled, verbose=0, return_dict=True) == pytest.approx(expected, rel=1e-5)


def test_wrong_shapes_and_missing_labels_are_refused():
    model = compiled()
    with pytest.raises(InputError, match=r"must be an array \[batch, choices, length\]. Received the shape \(4, 6\)"):
        model({name: array[:, 0] for name, array in X.items()})
    with pytest.raises(InputError, match="on pairs .features, label ids., or on features that hold label_ids"):
        model.fit(X, verbose=0)
