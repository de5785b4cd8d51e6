"""The training step of task models on Keras' JAX backend.

Keras' own step computes sums over all devices, so a batch can be divided among devices as it is. This file adds
gradient accumulation, by the sums that `distributed_model.py` describes, and keeps the values of a model available
while `fit` holds them.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import keras
from jax import numpy as jnp

from keras_bert.accelerate.jax_devices import divided_among_devices

# The values that Keras passes from step to step, in its order.
_STATE = ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables")


def train_step(model, keras_step: Callable, state: tuple, data: Any) -> tuple[dict, tuple]:
    """Returns the metrics and the state after a batch, as `keras_step(state, data)`, the step of Keras."""
    data = divided_among_devices(data)
    num_parts = _num_parts(model, data)
    if num_parts == 1:
        return keras_step(state, data)
    trainable, non_trainable, optimizer_values, metrics = state
    weights = _loss_weights(model, trainable, non_trainable, data)
    # Every part has rows of all devices.
    parts = jax.tree.map(lambda values: _in_parts(values, num_parts), data)

    def add_part(sums, part):
        gradients, *state_of_part = sums
        gradient = jax.grad(functools.partial(_part_loss, model), has_aux=True)
        more, state_of_part = gradient(trainable, *state_of_part, optimizer_values, part, weights, num_parts)
        return ([total + one for total, one in zip(gradients, more, strict=True)], *state_of_part), None

    zeros = [jnp.zeros(values.shape, jnp.promote_types(values.dtype, "float32")) for values in trainable]
    (gradients, non_trainable, metrics), _ = jax.lax.scan(add_part, (zeros, non_trainable, metrics), parts)
    trainable, optimizer_values = model.optimizer.stateless_apply(optimizer_values, gradients, trainable)
    with keras.StatelessScope(state_mapping=zip(model.metrics_variables, metrics, strict=True)):
        logs = model.get_metrics_result()
    return logs, (trainable, non_trainable, optimizer_values, metrics)


def _num_parts(model, data) -> int:
    """Returns the smallest number of equal parts of a batch from `gradient_accumulation_steps` on."""
    num_rows = jax.tree.leaves(data)[0].shape[0]
    first = min(model.gradient_accumulation_steps, num_rows)
    return next(number for number in range(first, num_rows + 1) if num_rows % number == 0)


def _loss_weights(model, trainable, non_trainable, data) -> list:
    """Returns the weights of the loss terms in the whole batch.

    They do not depend on the predictions, so XLA removes the forward pass from this computation.
    """
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    with keras.StatelessScope(state_mapping=_mapping(model, trainable, non_trainable)):
        terms = model.trained_loss_terms(x, y, model(x, training=False), sample_weight)
    return [term.weight for term in terms]


def _part_loss(model, trainable, non_trainable, metrics, optimizer_values, part, weights, num_parts):
    """Returns the loss of a part, divided by the weights of the whole batch, and (non-trainable, metric values)."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(part)
    state = _mapping(model, trainable, non_trainable)
    state += [*zip(model.metrics_variables, metrics, strict=True)]
    state += [*zip(model.optimizer.variables, optimizer_values, strict=True)]
    with keras.StatelessScope(state_mapping=state, collect_losses=True) as scope:
        predictions = model(x, training=True)
        terms = model.trained_loss_terms(x, y, predictions, sample_weight)
        shares = zip(terms, weights, strict=True)
        losses = [dataclasses.replace(term, weight=weight).value for term, weight in shares]
        # Losses of `add_loss` and regularisers are means, or equal in all parts.
        losses += [keras.ops.sum(loss) / num_parts for loss in model.losses]
        model._report([*terms, *model.reported_metric_terms(x, y, predictions, sample_weight)])
        loss = model.optimizer.scale_loss(sum(losses))

    def after(variables, values):
        found = map(scope.get_current_value, variables)
        return [old if new is None else new for new, old in zip(found, values, strict=True)]

    return loss, (after(model.non_trainable_variables, non_trainable), after(model.metrics_variables, metrics))


def _mapping(model, trainable, non_trainable) -> list[tuple]:
    pairs = [*zip(model.trainable_variables, trainable, strict=True)]
    return pairs + [*zip(model.non_trainable_variables, non_trainable, strict=True)]


def state_for_step(model, get_state: Callable, purge_model_variables: bool, **names: bool) -> tuple:
    """Returns the values for the next step, as `get_state` of Keras, and notes them.

    Keras takes them from the variables, and knows them only in a local variable of `fit` until the step is done. So
    they would be lost if the batch of the step cannot be read.
    """
    state = get_state(purge_model_variables=purge_model_variables, **names)
    if purge_model_variables:
        model._jax_state = dict(zip([name for name in _STATE if names.get(name)], state, strict=True))
    return state


def has_lost_state(model) -> bool:
    """Returns whether a step that failed while it ran has deleted its inputs."""
    held = getattr(model, "_jax_state", None) or {}
    return any(array.is_deleted() for arrays in held.values() for array in arrays)


def held_values(model) -> dict[int, Any]:
    """Returns the arrays of the last finished step by the id of their variable, while `fit` holds them.

    Otherwise the variables have their values, and the result is empty. The next step deletes the arrays.
    """
    if not getattr(model, "_jax_state", None) or model._jax_state_synced:
        return {}
    variables = {name: getattr(model, name, ()) for name in _STATE}
    variables["optimizer_variables"] = model.optimizer.variables
    pairs = [pair for name, values in model._jax_state.items() for pair in zip(variables[name], values, strict=True)]
    return {id(variable): values for variable, values in pairs}


def _in_parts(values, num_parts: int):
    """Returns `[parts, B / parts, ...]` of `[B, ...]`: part p has the rows p, p + parts, p + 2 parts, ..."""
    return jnp.swapaxes(values.reshape(-1, num_parts, *values.shape[1:]), 0, 1)
