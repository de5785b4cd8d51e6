"""Muon is the published algorithm for the matrices of an encoder's layers, and AdamW for all other variables."""

import contextlib

import keras
import numpy as np
import pytest
from optimization.test_optimization import copy_of, keras_steps, random_problem, to_numpy

from keras_bert.checkpoints.model_weights import adam_slots_of
from keras_bert.optimization import AdamW, Muon, WarmupLinearDecay
from keras_bert.optimization.muon import orthogonalized
from keras_bert.program.errors import InputError

SHAPES = {
    "encoder/embeddings/token_embeddings": (7, 4),
    "encoder/layer_0/attention/query/kernel": (4, 4),
    "encoder/layer_0/attention/query/bias": (4,),
    "encoder/layer_0/intermediate_dense/kernel": (4, 9),
    "encoder/layer_1/output_dense/kernel": (9, 4),
    "encoder/pooler/dense/kernel": (4, 4),
    "bert_pretrainer/masked_lm_head/dense/kernel": (4, 4),
    "bert_pretrainer/next_sentence_head/kernel": (4, 2),
}
MATRICES = [name for name in SHAPES if "/layer_" in name and name.endswith("kernel")]


def made_variables(dtype="float64"):
    draw, variables = np.random.default_rng(0), {}
    for path, shape in SHAPES.items():
        *scopes, name = path.split("/")
        with contextlib.ExitStack() as stack:
            for scope in scopes:
                stack.enter_context(keras.name_scope(scope))
            variables[path] = keras.Variable(draw.normal(size=shape), dtype=dtype, name=name)
    return variables


def train(optimizer, num_steps=5, dtype="float64"):
    """Returns the weights after updates with random gradients."""
    variables, draw = made_variables(dtype), np.random.default_rng(1)
    for _ in range(num_steps):
        gradients = [keras.ops.convert_to_tensor(draw.normal(size=shape), dtype=dtype) for shape in SHAPES.values()]
        optimizer.apply(gradients, list(variables.values()))
    return {path: np.asarray(keras.ops.cast(variable, "float64")) for path, variable in variables.items()}


def test_matrices_of_layers_are_updated_as_by_keras_and_all_others_as_by_adamw():
    found = train(Muon(0.01, weight_decay=0.1, global_clipnorm=None), dtype="float32")
    rest = [path for path in SHAPES if path not in MATRICES]
    theirs = train(keras.optimizers.Muon(0.01, weight_decay=0.1, exclude_layers=rest), dtype="float32")
    ours = train(AdamW(0.01, weight_decay=0.1, global_clipnorm=None), dtype="float32")
    for path, value in found.items():
        expected = theirs if path in MATRICES else ours
        np.testing.assert_allclose(value, expected[path], rtol=1e-5, atol=1e-6, err_msg=path)
    assert len(MATRICES) == 3


@pytest.mark.parametrize("shape", [(4, 4), (3, 8), (8, 3)])
def test_the_iteration_makes_singular_values_near_1_and_keeps_the_directions(shape):
    matrix = np.random.default_rng(2).normal(size=shape)
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    expected = s / np.linalg.norm(matrix)
    for _ in range(5):  # the iteration on a diagonal matrix is its polynomial
        expected = 3.4445 * expected - 4.775 * expected**3 + 2.0315 * expected**5
    found = np.asarray(orthogonalized(keras.ops.convert_to_tensor(matrix)))
    np.testing.assert_allclose(found, u @ np.diag(expected) @ v, rtol=1e-6, atol=1e-8)
    assert 0.6 < expected.min() <= expected.max() < 1.3


def test_the_update_of_a_large_matrix_has_the_root_mean_square_0_2():
    with keras.name_scope("layer_0"):
        variable = keras.Variable(np.zeros((64, 16)), name="kernel")
    gradient = keras.ops.convert_to_tensor(np.random.default_rng(3).normal(size=(64, 16)), "float32")
    Muon(1.0, weight_decay=0.0).apply([gradient], [variable])
    assert np.sqrt(np.mean(np.square(to_numpy(variable)))) == pytest.approx(0.2, rel=0.2)


def test_a_matrix_has_one_moment_in_float32():
    optimizer = Muon(0.01)
    train(optimizer, 1, dtype="bfloat16")
    moments = {variable.path: slots for variable, *slots in optimizer.slots()}
    for path, (momentum, velocity) in moments.items():
        assert momentum.dtype == "float32"
        assert (velocity is None) == (path in MATRICES), path
    assert len(optimizer.variables) == 2 + 2 * len(SHAPES) - len(MATRICES)  # and the step and the rate


def test_layer_decay_and_averages_apply_to_matrices():
    (plain,), (decayed,) = ([train(Muon(0.1, layer_decay=share, use_ema=True), 1)] for share in (1.0, 0.5))
    start = {path: np.asarray(variable) for path, variable in made_variables().items()}
    for path, share in zip(MATRICES, [0.25, 0.25, 0.5], strict=True):
        np.testing.assert_allclose(decayed[path] - start[path], share * (plain[path] - start[path]), rtol=1e-5)


def test_muon_survives_serialisation():
    optimizer = Muon(WarmupLinearDecay(1e-2, 20, 5), weight_decay=0.02, momentum=0.9, beta_2=0.98, layer_decay=0.9)
    copy = copy_of(optimizer)
    assert type(copy) is Muon
    assert copy.get_config() == optimizer.get_config()
    one, other = train(optimizer, 2), train(copy, 2)
    assert all(np.array_equal(value, other[path]) for path, value in one.items())


def test_muon_on_vectors_is_refused():
    weights, gradients = random_problem(num_steps=1)
    with pytest.raises(InputError, match="Muon is for the matrices of an encoder's layers, but among .* is none"):
        keras_steps(Muon(0.1), weights, gradients)
    with pytest.raises(InputError, match="momentum must be a number of at least 0 and below 1. Received: 1.0"):
        Muon(0.1, momentum=1.0)


def test_a_checkpoint_with_adams_moments_needs_adam():
    class Model:
        optimizer = Muon(0.1)

    with pytest.raises(InputError, match="AdamW has trained, and this Model has Muon"):
        adam_slots_of(Model())
