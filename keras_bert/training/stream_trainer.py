"""`StreamTrainer`: trains a language model on streams of text and keeps the memory of each stream between updates."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from keras_bert.models.base import TaskModel
from keras_bert.models.losses import LossTerm
from keras_bert.models.transformer_xl import TransformerXL
from keras_bert.program.errors import InputError
from keras_bert.records import features


class StreamTrainer(TaskModel):
    """Trains a `TransformerXL` on batches whose rows continue those of the batch before.

    The memory of all rows is a variable, so it is in the checkpoints of a run. Under a tf.distribute strategy each
    device reads its own rows of it, and a run may continue on another number of devices.

    Args:
        language_model: the model. Afterwards, use this model.
        batch_size: rows of a batch, on all devices together.

    Call arguments and returns: those of the model. Batches are those of `TokenStream.dataset`.
    """

    feature_names = (features.INPUT_IDS,)
    loss_names = TransformerXL.loss_names
    # The new memory is among the predictions.
    _needs_predictions = True

    def __init__(self, language_model: TransformerXL, batch_size: int, **kwargs: Any):
        super().__init__(language_model.config, **kwargs)
        self.language_model = language_model
        self.remembered = {
            name: self.add_weight(
                name=name,
                shape=zeros.shape,
                dtype=zeros.dtype.name,
                initializer="zeros",
                trainable=False,
                autocast=False,
                aggregation="only_first_replica",  # all have the same
            )
            for name, zeros in language_model.empty_memory(batch_size).items()
        }
        self.built = True

    def call(self, inputs: Mapping[str, Any], training: bool = False) -> dict[str, Any]:
        return self.language_model(inputs, training=training)

    def loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        return self.language_model.loss_terms(x, y, y_pred, sample_weight)

    def metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        return []

    def fit(self, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        is_stream = features.STREAM_STARTS in getattr(x, "element_spec", ())
        if self.remembered and (not is_stream or kwargs.get("shuffle")):
            raise InputError(
                "A memory needs segments that continue those of the batch before. Received: shuffled segments, or "
                "records. Use TokenStream.dataset, or a config with mem_len 0."
            )
        return super().fit(x, *args, **kwargs)

    def train_step(self, data: Any) -> Any:
        return super().train_step(self._with_memory(data))

    def _divided_step(self, data) -> None:
        super()._divided_step(self._with_memory(data))

    def _with_memory(self, data) -> dict[str, Any]:
        """Returns a batch, or the share of a device, with the memory of its rows. It is empty where a stream starts."""
        if not self.remembered:
            return data
        starts = data[features.STREAM_STARTS]
        count, device = tf.shape(starts)[0], tf.distribute.get_replica_context()
        count = starts.shape[0] or count
        first = device.replica_id_in_sync_group * count
        rows = {name: weight.value[first : first + count] for name, weight in self.remembered.items()}
        for values in rows.values():
            values.set_shape([starts.shape[0], *values.shape[1:]])
        rows[features.MEMORY_MASK] *= (1 - starts)[:, None]
        return {**data, **rows}

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        device = tf.distribute.get_replica_context()
        for name, weight in self.remembered.items():
            values = y_pred[name]
            if device.num_replicas_in_sync > 1:
                values = device.all_gather(values, axis=0)
            weight.assign(values)
        return super().compute_metrics(x, y, y_pred, sample_weight)
