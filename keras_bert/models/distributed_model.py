"""The training step of task models on TensorFlow, for several devices and for gradient accumulation.

Keras' own step averages the losses of the devices, clips each device's gradients separately, and uses the same dropout
masks on all devices. Here every term of the loss is a sum and a weight:

1. The weights are added up over all devices and parts of the batch.
2. Each part divides its loss by the weight of the whole batch.
3. The gradients are added up over parts and devices, then clipped, then applied once.

So the result does not depend on how a batch is divided: one device, N devices, or N parts on one device.

Reference: google-research/bert `run_pretraining.py` computes the same sums on one device.
docs/decisions/one_step_for_all_devices.md lists what Keras 3.15's `fit` computes wrongly under tf.distribute.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_bert.accelerate.traced_functions import forget_stale_steps
from keras_bert.accelerate.updates import dense_gradient
from keras_bert.program.errors import InputError


def _needs_own_step(model) -> bool:
    if model.distribute_strategy.num_replicas_in_sync > 1 or model.gradient_accumulation_steps > 1:
        return True
    if model.between_batches is not None:
        return True
    # The gradient of an embedding has one slice for every lookup. For a row that is looked up twice, Keras'
    # optimisers clip the two slices separately instead of their sum, which gives a wrong gradient.
    inner = _inner(model.optimizer)
    clips = inner is not None and (inner.clipnorm or inner.global_clipnorm or inner.clipvalue)
    return bool(clips) and not getattr(inner, "sums_slices", False)


def _prepare_optimizer(model) -> None:
    """Builds the optimiser before the step is traced: variables made in a trace would cause a second trace."""
    if model.optimizer is None:
        return
    inner = _inner(model.optimizer)
    if inner._distribution_strategy is not model.distribute_strategy and _needs_own_step(model):
        raise InputError(
            "The optimizer was not created for the tf.distribute strategy of the model. Create it within the same "
            "`with strategy.scope():` as the model."
        )
    known = {id(variable) for variable in inner._trainable_variables}
    if inner.built and any(id(variable) not in known for variable in model.trainable_variables):
        raise InputError(
            f"This {type(model).__name__} was compiled before it got new weights to train (by LoRA, unfreezing or "
            "new layers), which its optimizer does not know. Call compile(optimizer=...) again."
        )
    if not model.optimizer.built:
        with model.distribute_strategy.scope():
            model.optimizer.build(model.trainable_variables)
    # Our own step has summed the gradients over all devices, and Keras' step runs on one device only. The optimiser
    # must not sum them again: XLA cannot compile a MirroredStrategy's sum of slices, not even that of one GPU.
    inner.sums_devices, inner._all_reduce_sum_gradients = False, list


def shared_by_workers(model, x):
    """Returns a data set of which every worker takes its share of each batch, in order.

    Otherwise TensorFlow may divide the files among the workers instead.
    """
    if not isinstance(x, tf.data.Dataset) or model.distribute_strategy.num_replicas_in_sync == 1:
        return x
    options = tf.data.Options()
    if x.options().experimental_distribute.auto_shard_policy == tf.data.experimental.AutoShardPolicy.AUTO:
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return x.with_options(options)


def train_function(model, make_function: Callable, force: bool) -> Any:
    """Returns the train function of a `TaskModel`; Keras' own, by `make_function(force)`, if it computes the same."""
    if model.train_function is not None and not force:
        return model.train_function
    _prepare_optimizer(model)
    if not _needs_own_step(model):
        return make_function(force)
    if model.between_batches is not None and model.gradient_accumulation_steps > 1:
        raise InputError(
            "gradient_accumulation_steps does not work with a memory between batches (mem_len). Leave out one of the "
            "two, or use smaller batches."
        )
    model._part_function = functools.partial(_part_gradients, model)
    if model.jit_compile is True and not model.run_eagerly:
        model._part_function = tf.function(model._part_function, jit_compile=True, autograph=False)
    model.train_function = _step_function(model, _device_steps(model)[0])
    return model.train_function


def test_function(model, make_function: Callable, force: bool) -> Any:
    """Returns the test function of a `TaskModel`; Keras' own, by `make_function(force)`, on one device."""
    if model.distribute_strategy.num_replicas_in_sync == 1:
        return make_function(force)
    model.warn_if_untrained()
    forget_stale_steps(model)
    if model.test_function is None or force:
        model.test_function = _step_function(model, _device_steps(model)[1])
    return model.test_function


def _device_steps(model) -> tuple[Callable, Callable]:
    """Returns the steps of training and evaluation on each device: functions of the model and its share of a batch."""
    if not model.compares_batch:
        return _divided_step, lambda model, data: model.test_step(data)
    from keras_bert.models.whole_batch_step import cached_step, evaluation_step

    return cached_step, evaluation_step


def _step_function(model, device_step):
    """Returns a function that takes `steps_per_execution` batches of an iterator and returns the metrics."""

    def on_device(batch):
        device_step(model, batch)

    def step(batch):
        model.distribute_strategy.run(on_device, args=(batch,))
        # Read outside of `strategy.run`, a metric is the sum over all devices.
        return model.get_metrics_result()

    if not model.run_eagerly:
        step = tf.function(step, reduce_retracing=True, autograph=False)

    def steps(iterator):
        if not isinstance(iterator, (tf.data.Iterator, tf.distribute.DistributedIterator)):
            return _step_on_own_batch(model, step, next(iterator))
        logs = None
        for _ in range(model.steps_per_execution):
            # The batch is taken outside of the step: a step that met the end of the data would be half done.
            try:
                batch = next(iterator)
            except (StopIteration, tf.errors.OutOfRangeError):
                if logs is None:
                    raise
                break
            logs = step(batch)
        return logs

    return steps


def _step_on_own_batch(model, step, batch):
    if model.distribute_strategy.num_replicas_in_sync > 1:
        raise InputError(
            "train_on_batch and test_on_batch do not divide a batch among the devices of a tf.distribute strategy. "
            "Use fit and evaluate."
        )
    return step(batch)


def build_metrics(model, iterator=None, data_batch=None) -> None:
    """Creates the variables of the metrics that were given to `compile`; the model's weights exist already.

    Keras' own version fails with several workers, because it averages a batch over them.
    """
    metrics = model._compile_metrics
    if model._distribute_strategy is None or metrics is None or metrics.built:
        return
    if iterator is not None:
        for _, _, batches in iterator:
            data_batch = next(batches)
            break
    local = keras.tree.map_structure(
        lambda values: model.distribute_strategy.experimental_local_results(values)[0], data_batch
    )
    with model.distribute_strategy.scope():
        model._symbolic_build(data_batch=local)


# The following functions run on each device, on its share of the batch.


def _divided_step(model, data) -> None:
    device = tf.distribute.get_replica_context()
    if model.between_batches is not None:
        data = model.between_batches.recall(data)
    parts = BatchParts(data, model.gradient_accumulation_steps)
    weights = device.all_reduce(tf.distribute.ReduceOp.SUM, parts.sum(functools.partial(_loss_weights, model)))
    values = [tf.convert_to_tensor(variable.value) for variable in model.trainable_variables]
    scale = model.optimizer.scale_loss(tf.ones([], weights.dtype))
    first_number = device.replica_id_in_sync_group * parts.count

    def gradients_and_sums(part, number):
        return model._part_function(values, seeds_of_part(model, first_number + number), part, weights, scale)

    if not _needs_predictions(model):
        gradients, sums = parts.sum(gradients_and_sums)
    else:  # `compile` allows this with one part only
        gradients, sums, predictions = gradients_and_sums(data, 0)
        if model.between_batches is not None:
            model.between_batches.keep(predictions)
        if model._compile_metrics is not None:
            x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
            model.compute_metrics(x, y, predictions, sample_weight)
    for name, (numerator, weight) in sums.items():
        model._reports[name].update_state(numerator, weight)
    gradients = device.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
    apply_gradients(model, gradients)


def apply_gradients(model, gradients) -> None:
    """Updates the weights with the gradients of those that the loss depends on."""
    used = zip(model.trainable_variables, model._is_used, strict=True)
    model.optimizer.apply(gradients, [variable for variable, is_used in used if is_used])


def _needs_predictions(model) -> bool:
    return model._compile_metrics is not None or model.between_batches is not None


def _loss_weights(model, part, number) -> tf.Tensor:
    """Returns the weights of the loss terms, float (terms,).

    They do not depend on the predictions, so TensorFlow prunes the forward pass from this computation.
    """
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(part)
    with keras.StatelessScope():
        terms = model.trained_loss_terms(x, y, model(x, training=False), sample_weight)
    return tf.stack([term.weight for term in terms])


def seeds_of_part(model, number) -> list[tf.Tensor]:
    """Returns the seeds of the layers' random generators for one part, int (2,) each.

    They are derived from the step and from the number of the part among the parts of all devices.
    """
    step = tf.convert_to_tensor(model.optimizer.iterations.value)

    def seed_of(state):
        seed = tf.random.experimental.stateless_fold_in(tf.cast(state.value, tf.int64), step)
        return tf.cast(tf.random.experimental.stateless_fold_in(seed, number), state.dtype)

    return [seed_of(state) for state in seed_states(model)]


def seed_states(model) -> list[keras.Variable]:
    return [state for state in model.non_trainable_variables if state.path.endswith("seed_generator_state")]


def _part_gradients(model, values, seeds, part, weights, scale):
    """Returns the gradients of one part, and its contribution to the metrics: name -> (numerator, weight).

    Args:
        values: the trainable weights, in the order of `trainable_variables`.
        seeds: see `seeds_of_part`.
        part: features, or features and labels, or those and the weights of the examples.
        weights: float (terms,), the weights of the loss terms in the whole batch.
        scale: the factor by which the loss is multiplied before differentiation.
    """
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(part)
    state = [*zip(model.trainable_variables, values, strict=True), *zip(seed_states(model), seeds, strict=True)]
    num_parts = model.distribute_strategy.num_replicas_in_sync * model.gradient_accumulation_steps
    with keras.StatelessScope(state_mapping=state, collect_losses=True), tf.GradientTape() as tape:
        tape.watch(values)
        predictions = model(x, training=True)
        terms = model.trained_loss_terms(x, y, predictions, sample_weight)
        shares = zip(terms, tf.unstack(weights), strict=True)
        losses = [dataclasses.replace(term, weight=weight).value for term, weight in shares]
        # Losses of `add_loss` and regularisers are means, or equal in all parts.
        losses += [loss / num_parts for loss in model.losses]
        loss = tf.add_n([tf.cast(loss, weights.dtype) for loss in losses]) * scale
    gradients = tape.gradient(loss, values)
    model._is_used = [gradient is not None for gradient in gradients]
    gradients = [dense_gradient(gradient) for gradient in gradients if gradient is not None]
    if model._compile_metrics is None:
        terms += model.reported_metric_terms(x, y, predictions, sample_weight)
    sums = {term.name: (term.numerator, term.weight) for term in terms}
    return (gradients, sums, predictions) if _needs_predictions(model) else (gradients, sums)


def _inner(optimizer):
    """Returns the optimiser itself, without the `LossScaleOptimizer` around it."""
    return getattr(optimizer, "inner_optimizer", optimizer)


class BatchParts:
    """A batch cut along its first axis.

    Args:
        batch: nested structure of tensors with the same first axis. If `count` does not divide the axis, the last parts
            are smaller or empty.
        count: number of parts.
    """

    def __init__(self, batch, count: int):
        self.count = count
        self._batch = batch

    def sum(self, function):
        """Returns the sum of `function(part, part_number)`, a nested structure of tensors, over all parts."""
        if self.count == 1:
            return function(self._batch, 0)
        total = function(self._part(0), 0)

        def add(number, total):
            more = function(self._part(number), number)
            return number + 1, tf.nest.map_structure(tf.add, total, more)

        # In parallel, the iterations would need the memory of several parts.
        state = [tf.constant(1), total]
        return tf.while_loop(lambda number, _: number < self.count, add, state, parallel_iterations=1)[1]

    def fold(self, function, state):
        """Returns the last result of `state = function(state, part, part_number)`, one part after the other.

        `state` is a nested structure of tensors. In contrast to `sum`, no part is outside the loop, where TensorFlow
        might compute it once for two purposes and keep its results in between.
        """
        return tf.while_loop(
            lambda number, _: number < self.count,
            lambda number, state: (number + 1, function(state, self._part(number), number)),
            [tf.constant(0), state],
            parallel_iterations=1,
        )[1]

    def _part(self, number):
        return tf.nest.map_structure(functools.partial(self.cut, number=number), self._batch)

    def cut(self, values, number):
        """Returns part `number` of a tensor whose first axis is that of the batch; None stays None."""
        if values is None:
            return None
        size = values.shape[0]
        if size is not None and size % self.count == 0:  # all parts have the same static shape, as XLA requires
            lengths = values.shape[1:] if values.shape.is_fully_defined() else tf.unstack(tf.shape(values)[1:])
            return tf.reshape(values, [self.count, size // self.count, *lengths])[number]
        size = -(-tf.shape(values)[0] // self.count)
        return values[number * size : (number + 1) * size]
