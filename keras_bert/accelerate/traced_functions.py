"""The traced functions that a model keeps, and the one rule for when they are thrown away.

A trace fixes everything that Python reads while it is made: which layers and weights there are, their dtypes, and
settings such as `unpadded`. All of these are attributes of the layers. So a model keeps its traces as long as all
attributes of all its layers are the same objects. That catches LoRA, quantisation, a replaced layer or table, another
vocabulary, config or dtype policy, and every option. Values of weights are not fixed.
"""

import threading
from collections.abc import Callable, Hashable
from typing import Any

import keras

from keras_bert.accelerate.backend import tensorflow_functions

# A model forgets the oldest of more functions: each has graphs of its own.
_MOST_FUNCTIONS = 8
# What the steps of training and evaluation fix besides the layers.
_OF_STEPS = ("loss_choice", "_loss_of_examples", "_warm_up", "between_batches", "gradient_accumulation_steps")
# What Keras and task models note on a model while it is compiled, trained and called. No trace of outputs reads it.
_NOTES = """optimizer history stop_training stop_evaluating stop_predicting temperature new_parts _reports _is_used
_part_function _compile_config _compiled_trainable_state _distribute_reduction_method _distributed_dataset
_eval_epoch_iterator _jax_state _jax_state_synced _traced _state_of_steps"""
# Another thread may forget the function that this one is about to return.
_changing_functions = threading.Lock()
_NOT_FIXED = frozenset([*vars(keras.Model(name="model")), *_NOTES.split(), *_OF_STEPS])


class _Kept:
    """What a model has in its `__dict__`: Keras would track an attribute, and save what is in lists of layers."""

    def __init__(self, state: list):
        self.state = state
        self.functions: dict = {}


def traced(model: keras.Model, key: Hashable, function: Callable, signature: list | None = None) -> Callable:
    """Returns `function` traced, or on other backends than TensorFlow `function` itself.

    Args:
        model: the model that the function computes, and that keeps its trace.
        key: tells functions of one model apart; it holds everything that `function` reads besides the model.
        function: takes and returns structures of tensors. Equal keys mean equal functions.
        signature: the `input_signature` of `tf.function`; None to trace for each dtype and number of axes.
    """
    if not tensorflow_functions:
        return function
    import tensorflow as tf

    state = _state(model)
    with _changing_functions:
        kept = model.__dict__.get("_traced")
        if kept is None or not _is_same(kept.state, state):
            kept = model.__dict__["_traced"] = _Kept(state)
        functions = kept.functions
        if key not in functions:
            while len(functions) >= _MOST_FUNCTIONS:
                del functions[next(iter(functions))]
            functions[key] = tf.function(
                function, input_signature=signature, reduce_retracing=signature is None, autograph=False
            )
        return functions[key]


def forget_stale_steps(model: keras.Model) -> None:
    """Makes Keras trace `train_function`, `test_function` and `predict_function` anew if the model is another now."""
    state = _state(model) + model.trainable_variables + [getattr(model, name, None) for name in _OF_STEPS]
    state += [model.jit_compile, model.run_eagerly, model.steps_per_execution]
    before = model.__dict__.get("_state_of_steps")
    model.__dict__["_state_of_steps"] = _Kept(state)
    if before is not None and not _is_same(before.state, state):
        model.train_function = model.test_function = model.predict_function = None


def _state(model) -> list[Any]:
    """Returns all layers of a model and what their attributes are. The list keeps these objects alive, so that an id
    is never that of a later object."""
    state = []
    for layer in model._flatten_layers():
        state += (layer, layer.dtype_policy)
        attributes = vars(layer).copy()  # at once, since another thread may add one, such as the first trace
        state += (value for name, value in attributes.items() if name not in _NOT_FIXED)
        state += layer._trainable_variables
        state += layer._non_trainable_variables
    return state


def _is_same(before: list, now: list) -> bool:
    return len(before) == len(now) and all(one is other for one, other in zip(before, now, strict=True))
