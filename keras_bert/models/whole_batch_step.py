"""The training step for losses over all texts of a batch, on several devices or in several parts.

In-batch negatives make the loss of each example depend on all other examples. The step computes:

1. the vectors of each part of the batch, without keeping anything for a backward pass;
2. the loss over the vectors of all parts and devices, and its gradient for each vector;
3. the vectors of each part again, now with a backward pass from the gradients of step 2.

So memory is needed for one part, plus one vector for each text. Both passes use the same dropout masks. The result is
that of one device with the whole batch.

Reference: Gao et al., 2021, arXiv 2101.06983 (GradCache).
"""

import keras
import tensorflow as tf

from keras_bert.accelerate.updates import add_gradient, dense_gradient
from keras_bert.models.distributed_model import BatchParts, apply_gradients, seed_states, seeds_of_part
from keras_bert.models.losses import compared_parts
from keras_bert.records import features


def cached_step(model, data) -> None:
    """Runs one training step of a model that `compares_batch` on this device's share of a batch; see the module."""
    device = tf.distribute.get_replica_context()
    parts = BatchParts(data, model.gradient_accumulation_steps)
    first_number = device.replica_id_in_sync_group * parts.count
    values = [tf.convert_to_tensor(variable.value) for variable in model.trainable_variables]

    def vectors_of(part, number):
        x, _, _ = keras.utils.unpack_x_y_sample_weight(part)
        seeds = zip(seed_states(model), seeds_of_part(model, first_number + number), strict=True)
        with keras.StatelessScope(state_mapping=[*zip(model.trainable_variables, values, strict=True), *seeds]):
            return model(x, training=True)

    def differentiable(part, number):
        with tf.GradientTape() as tape:
            tape.watch(values)
            return tape, vectors_of(part, number)

    def gradients_of(tape, vectors, vector_gradients):
        gradients = tape.gradient(vectors, values, output_gradients=vector_gradients)
        model._is_used = [gradient is not None for gradient in gradients]
        return [gradient for gradient in gradients if gradient is not None]

    if parts.count == 1:  # nothing is computed twice
        tape, own = differentiable(data, 0)
        term, own_gradients = _loss_and_gradients(model, device, data, own)
        gradients = [dense_gradient(gradient) for gradient in gradients_of(tape, own, own_gradients)]
    else:
        own = _vectors_of_parts(model, parts, data, vectors_of)
        term, own_gradients = _loss_and_gradients(model, device, data, own)

        def add_gradients(total, part, number):
            gradients = gradients_of(*differentiable(part, number), parts.cut(own_gradients, number))
            found = iter(gradients)
            used = zip(total, model._is_used, strict=True)
            return [add_gradient(one, next(found)) if is_used else one for one, is_used in used]

        gradients = parts.fold(add_gradients, [tf.zeros_like(value) for value in values])
        gradients = [one for one, is_used in zip(gradients, model._is_used, strict=True) if is_used]
    _report(model, device, term)
    gradients = device.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
    apply_gradients(model, gradients)


def _vectors_of_parts(model, parts, data, vectors_of):
    """Returns the vectors `[B, ..., D]` of all parts."""
    x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
    axes = x[features.INPUT_IDS].shape[1:]
    shape = [None, *(axes if model.has_token_outputs else axes[:-1]), model.vector_size]
    results = tf.TensorArray(model._logits_dtype, parts.count, infer_shape=False, element_shape=shape)
    results = parts.fold(lambda results, part, number: results.write(number, vectors_of(part, number)), results)
    return results.concat()


def evaluation_step(model, data) -> None:
    """Reports the loss of a batch that is divided among the devices."""
    device = tf.distribute.get_replica_context()
    x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
    _report(model, device, model.loss_term(*_gathered_batch(device, data, model(x, training=False))))


def _report(model, device, term) -> None:
    # All devices have computed the loss of the whole batch, and the reports of all devices are added up.
    replicas = tf.cast(device.num_replicas_in_sync, term.weight.dtype)
    model._reports[term.name].update_state(term.numerator / replicas, term.weight / replicas)


def _loss_and_gradients(model, device, data, own):
    """Returns the loss of the batch on all devices, and its gradient for this device's vectors `own`."""
    size = tf.shape(own)[:1]
    sizes = device.all_gather(size, axis=0)
    vectors, *others = _gathered_batch(device, data, own)
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        term = model.loss_term(vectors, *others)
        loss = model.optimizer.scale_loss(term.value)
    first = tf.reduce_sum(sizes[: device.replica_id_in_sync_group])
    return term, tape.gradient(loss, vectors)[first : first + size[0]]


def _gathered_batch(device, data, own) -> list:
    """Returns the arguments of the `loss_term` of a model for the whole batch; `own` are this device's vectors."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    parts = compared_parts(x, y, own, sample_weight)
    if device.num_replicas_in_sync == 1:
        return list(parts)
    return [None if part is None else device.all_gather(tf.convert_to_tensor(part), axis=0) for part in parts]
