"""The training step for several devices and for gradient accumulation: the base of the task models on TensorFlow.

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
from typing import Any

import keras
import tensorflow as tf

from keras_bert.accelerate.traced_functions import forget_stale_steps
from keras_bert.accelerate.updates import dense_gradient
from keras_bert.program.errors import InputError


class DistributedModel(keras.Model):
    """A Keras model whose `fit` and `evaluate` give the same results under every tf.distribute strategy.

    Create the model within the scope of the strategy. Subclasses provide `trained_loss_terms`,
    `reported_metric_terms` (see `TaskModel`) and the metrics in `_reports`. With one device and one part, Keras' own
    step runs, since it computes the same.

    Attributes:
        between_batches: None, or an object for what a batch in training leaves to the next one. On each device,
            `recall(data)` returns the share of a batch with it, `keep(predictions)` stores what the outputs leave.
            `variables` is the state that checkpoints of a run have. Set it after `compile`.
    """

    gradient_accumulation_steps = 1
    between_batches: Any = None

    @property
    def _needs_own_step(self) -> bool:
        if self.distribute_strategy.num_replicas_in_sync > 1 or self.gradient_accumulation_steps > 1:
            return True
        if self.between_batches is not None:
            return True
        # The gradient of an embedding has one slice for every lookup. For a row that is looked up twice, Keras'
        # optimisers clip the two slices separately instead of their sum, which gives a wrong gradient.
        inner = _inner(self.optimizer)
        clips = inner is not None and (inner.clipnorm or inner.global_clipnorm or inner.clipvalue)
        return bool(clips) and not getattr(inner, "sums_slices", False)

    def _prepare_optimizer(self) -> None:
        """Builds the optimiser before the step is traced: variables made in a trace would cause a second trace."""
        if self.optimizer is None:
            return
        inner = _inner(self.optimizer)
        if inner._distribution_strategy is not self.distribute_strategy and self._needs_own_step:
            raise InputError(
                "The optimizer was not created for the tf.distribute strategy of the model. Create it within the same "
                "`with strategy.scope():` as the model."
            )
        known = {id(variable) for variable in inner._trainable_variables}
        if inner.built and any(id(variable) not in known for variable in self.trainable_variables):
            raise InputError(
                f"This {type(self).__name__} was compiled before it got new weights to train (by LoRA, unfreezing or "
                "new layers), which its optimizer does not know. Call compile(optimizer=...) again."
            )
        if not self.optimizer.built:
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)
        # Our own step has summed the gradients over all devices, and Keras' step runs on one device only. The optimiser
        # must not sum them again: XLA cannot compile a MirroredStrategy's sum of slices, not even that of one GPU.
        inner.sums_devices, inner._all_reduce_sum_gradients = False, list

    def fit(self, x: Any = None, *args: Any, validation_data: Any = None, **kwargs: Any) -> Any:
        if isinstance(validation_data, tf.data.Dataset):
            validation_data = self._shared_by_workers(validation_data)
        return super().fit(self._shared_by_workers(x), *args, validation_data=validation_data, **kwargs)

    def evaluate(self, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        return super().evaluate(self._shared_by_workers(x), *args, **kwargs)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        return super().predict(self._shared_by_workers(x), *args, **kwargs)

    def _shared_by_workers(self, x):
        """Returns a data set of which every worker takes its share of each batch, in order.

        Otherwise TensorFlow may divide the files among the workers instead.
        """
        if not isinstance(x, tf.data.Dataset) or self.distribute_strategy.num_replicas_in_sync == 1:
            return x
        options = tf.data.Options()
        if x.options().experimental_distribute.auto_shard_policy == tf.data.experimental.AutoShardPolicy.AUTO:
            options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
        return x.with_options(options)

    def make_train_function(self, force: bool = False) -> Any:
        forget_stale_steps(self)
        if self.train_function is not None and not force:
            return self.train_function
        self._prepare_optimizer()
        if not self._needs_own_step:
            return super().make_train_function(force)
        if self.between_batches is not None and self.gradient_accumulation_steps > 1:
            raise InputError(
                "gradient_accumulation_steps does not work with a memory between batches (mem_len). Leave out one of "
                "the two, or use smaller batches."
            )
        self._part_function = self._part_gradients
        if self.jit_compile is True and not self.run_eagerly:
            self._part_function = tf.function(self._part_gradients, jit_compile=True, autograph=False)
        self.train_function = self._step_function(self._divided_step)
        return self.train_function

    def make_test_function(self, force: bool = False) -> Any:
        if self.distribute_strategy.num_replicas_in_sync == 1:
            return super().make_test_function(force)
        forget_stale_steps(self)
        if self.test_function is None or force:
            self.test_function = self._step_function(self.test_step)
        return self.test_function

    def _step_function(self, device_step):
        """Returns a function that takes `steps_per_execution` batches of an iterator and returns the metrics."""

        def step(batch):
            self.distribute_strategy.run(device_step, args=(batch,))
            # Read outside of `strategy.run`, a metric is the sum over all devices.
            return self.get_metrics_result()

        if not self.run_eagerly:
            step = tf.function(step, reduce_retracing=True, autograph=False)

        def steps(iterator):
            if not isinstance(iterator, (tf.data.Iterator, tf.distribute.DistributedIterator)):
                return self._step_on_own_batch(step, next(iterator))
            logs = None
            for _ in range(self.steps_per_execution):
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

    def _step_on_own_batch(self, step, batch):
        if self.distribute_strategy.num_replicas_in_sync > 1:
            raise InputError(
                "train_on_batch and test_on_batch do not divide a batch among the devices of a tf.distribute strategy. "
                "Use fit and evaluate."
            )
        return step(batch)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Creates the variables of the metrics that were given to `compile`; the model's weights exist already.

        Keras' own version fails with several workers, because it averages a batch over them.
        """
        metrics = self._compile_metrics
        if self._distribute_strategy is None or metrics is None or metrics.built:
            return
        if iterator is not None:
            for _, _, batches in iterator:
                data_batch = next(batches)
                break
        local = keras.tree.map_structure(
            lambda values: self.distribute_strategy.experimental_local_results(values)[0], data_batch
        )
        with self.distribute_strategy.scope():
            self._symbolic_build(data_batch=local)

    # The following methods run on each device, on its share of the batch.

    def _divided_step(self, data) -> None:
        device = tf.distribute.get_replica_context()
        if self.between_batches is not None:
            data = self.between_batches.recall(data)
        parts = BatchParts(data, self.gradient_accumulation_steps)
        weights = device.all_reduce(tf.distribute.ReduceOp.SUM, parts.sum(self._loss_weights))
        values = [tf.convert_to_tensor(variable.value) for variable in self.trainable_variables]
        scale = self.optimizer.scale_loss(tf.ones([], weights.dtype))
        first_number = device.replica_id_in_sync_group * parts.count

        def gradients_and_sums(part, number):
            return self._part_function(values, self._seeds(first_number + number), part, weights, scale)

        if not self._needs_predictions:
            gradients, sums = parts.sum(gradients_and_sums)
        else:  # `compile` allows this with one part only
            gradients, sums, predictions = gradients_and_sums(data, 0)
            if self.between_batches is not None:
                self.between_batches.keep(predictions)
            if self._compile_metrics is not None:
                x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
                self.compute_metrics(x, y, predictions, sample_weight)
        for name, (numerator, weight) in sums.items():
            self._reports[name].update_state(numerator, weight)
        gradients = device.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        variables = [
            variable for variable, is_used in zip(self.trainable_variables, self._is_used, strict=True) if is_used
        ]
        self.optimizer.apply(gradients, variables)

    @property
    def _needs_predictions(self) -> bool:
        return self._compile_metrics is not None or self.between_batches is not None

    def _loss_weights(self, part, number) -> tf.Tensor:
        """Returns the weights of the loss terms, float (terms,).

        They do not depend on the predictions, so TensorFlow prunes the forward pass from this computation.
        """
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(part)
        with keras.StatelessScope():
            terms = self.trained_loss_terms(x, y, self(x, training=False), sample_weight)
        return tf.stack([term.weight for term in terms])

    def _seeds(self, number) -> list[tf.Tensor]:
        """Returns the seeds of the layers' random generators for one part, int (2,) each.

        They are derived from the step and from the number of the part among the parts of all devices.
        """
        step = tf.convert_to_tensor(self.optimizer.iterations.value)

        def seed_of(state):
            seed = tf.random.experimental.stateless_fold_in(tf.cast(state.value, tf.int64), step)
            return tf.cast(tf.random.experimental.stateless_fold_in(seed, number), state.dtype)

        return [seed_of(state) for state in self._seed_states()]

    def _seed_states(self) -> list[keras.Variable]:
        return [state for state in self.non_trainable_variables if state.path.endswith("seed_generator_state")]

    def _part_gradients(self, values, seeds, part, weights, scale):
        """Returns the gradients of one part, and its contribution to the metrics: name -> (numerator, weight).

        Args:
            values: the trainable weights, in the order of `trainable_variables`.
            seeds: see `_seeds`.
            part: features, or features and labels, or those and the weights of the examples.
            weights: float (terms,), the weights of the loss terms in the whole batch.
            scale: the factor by which the loss is multiplied before differentiation.
        """
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(part)
        state = [*zip(self.trainable_variables, values, strict=True), *zip(self._seed_states(), seeds, strict=True)]
        num_parts = self.distribute_strategy.num_replicas_in_sync * self.gradient_accumulation_steps
        with keras.StatelessScope(state_mapping=state, collect_losses=True), tf.GradientTape() as tape:
            tape.watch(values)
            predictions = self(x, training=True)
            terms = self.trained_loss_terms(x, y, predictions, sample_weight)
            shares = zip(terms, tf.unstack(weights), strict=True)
            losses = [dataclasses.replace(term, weight=weight).value for term, weight in shares]
            # Losses of `add_loss` and regularisers are means, or equal in all parts.
            losses += [loss / num_parts for loss in self.losses]
            loss = tf.add_n([tf.cast(loss, weights.dtype) for loss in losses]) * scale
        gradients = tape.gradient(loss, values)
        self._is_used = [gradient is not None for gradient in gradients]
        gradients = [dense_gradient(gradient) for gradient in gradients if gradient is not None]
        if self._compile_metrics is None:
            terms += self.reported_metric_terms(x, y, predictions, sample_weight)
        sums = {term.name: (term.numerator, term.weight) for term in terms}
        return (gradients, sums, predictions) if self._needs_predictions else (gradients, sums)


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
