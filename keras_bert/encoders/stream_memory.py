"""The memory that the rows of a batch leave to their continuations in the next batch: of Transformer-XL and XLNet.

It is part of the state of a run, not of the model: checkpoints of a run have it, model folders do not. Each device
keeps the memory of its own rows, so no memory travels between devices.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.accelerate.backend import on_tensorflow
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole
from keras_bert.records import features


def remember(model: Any, mem_len: int, num_streams: int) -> None:
    """Lets a compiled model train with a memory: a row attends to the tokens that the row at its place in the batch
    before has left. Evaluation has no memory.

    Args:
        model: a `TransformerXL`, or a `BertPretrainer` of XLNet.
        mem_len: the tokens that are remembered; 0 for no memory. A `TransformerXL` has it in its config.
        num_streams: rows in a batch of all devices together. The batches come from `TokenStream.dataset`, or for XLNet
            from `pretraining_dataset(..., in_streams=True)`.

    Raises:
        InputError: the model can have no memory, or a number is too small.
    """
    check_whole("mem_len", mem_len, at_least=0)
    check_whole("num_streams", num_streams, at_least=1 if mem_len else 0)
    model.between_batches = None
    if not mem_len:
        return
    is_pretrainer = model.kind == "BertPretrainer" and model.config.family.predicts_from_queries
    if not on_tensorflow() or not (is_pretrainer or model.config.is_language_model):
        raise InputError(
            "Only a BertPretrainer of XLNet and a TransformerXL have a memory, on TensorFlow. Received: "
            f"mem_len={mem_len} for a {type(model).__name__} of {model.config.model_type}."
        )
    shape = (model.config.num_hidden_layers, mem_len, model.config.hidden_size)
    model.between_batches = StreamMemory(model.distribute_strategy, num_streams, shape, model.compute_dtype)


class StreamMemory:
    """The inputs of all layers for the last tokens of every stream, as variables on the devices of a strategy.

    Args:
        strategy: the tf.distribute strategy of the model.
        num_streams: rows in a batch of all devices together; a multiple of their number, else `InputError`.
        shape: `(L, M, H)`: layers, tokens and hidden size.
        dtype: dtype of the vectors.

    Attributes:
        variables: the rows of all devices, as a checkpoint stores them.
    """

    def __init__(self, strategy: tf.distribute.Strategy, num_streams: int, shape: tuple[int, int, int], dtype: str):
        if num_streams % strategy.num_replicas_in_sync:
            raise InputError(
                f"{num_streams} streams cannot be divided evenly among {strategy.num_replicas_in_sync} devices. Use a "
                f"multiple of {strategy.num_replicas_in_sync}."
            )
        shapes = {features.MEMORY: shape, features.MEMORY_MASK: (shape[1],)}
        dtypes = {features.MEMORY: dtype, features.MEMORY_MASK: "float32"}
        num_local = num_streams // strategy.num_replicas_in_sync
        with strategy.scope():
            self._local = {
                name: tf.Variable(
                    tf.zeros((num_local, *of_row), dtypes[name]),
                    trainable=False,
                    synchronization=tf.VariableSynchronization.ON_READ,
                    name=name,
                )
                for name, of_row in shapes.items()
            }
        self.variables = [_RowsOfAllDevices(strategy, variable) for variable in self._local.values()]

    def recall(self, data: Any) -> Any:
        """Adds the memory to a device's share of a batch. Rows that begin a stream have none."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if features.STREAM_ROW not in x:
            raise InputError(
                "mem_len needs rows that continue in the next batch: TokenStream.dataset, or for XLNet "
                "pretraining_dataset(..., in_streams=True) on records with num_streams. Received: other rows."
            )
        found = {name: tf.convert_to_tensor(variable) for name, variable in self._local.items()}
        found[features.MEMORY_MASK] *= tf.cast(x[features.STREAM_ROW] > 0, tf.float32)
        return keras.utils.pack_x_y_sample_weight({**x, **found}, y, sample_weight)

    def keep(self, predictions: dict) -> None:
        """Stores the memory that a device's share of a batch leaves."""
        for name, variable in self._local.items():
            variable.assign(tf.cast(predictions[name], variable.dtype))


class _RowsOfAllDevices:
    """A variable of which each device has some rows, with the interface of one variable with all rows."""

    def __init__(self, strategy: tf.distribute.Strategy, local: tf.Variable):
        self._strategy = strategy
        self._local = local
        self.path = local.name.partition(":")[0]
        num_local, *of_row = local.shape
        self.shape = (num_local * strategy.num_replicas_in_sync, *of_row)
        # One function for all reads, because each is traced once.
        self._gather = tf.function(
            lambda: strategy.gather(strategy.run(lambda: tf.identity(local)), axis=0), autograph=False
        )

    @property
    def value(self) -> tf.Tensor:
        return self._gather()

    def assign(self, values: np.ndarray) -> None:
        num_local = len(values) // self._strategy.num_replicas_in_sync

        def assign_own_rows():
            first = tf.distribute.get_replica_context().replica_id_in_sync_group * num_local
            self._local.assign(tf.constant(values)[first : first + num_local])

        self._strategy.run(assign_own_rows)
