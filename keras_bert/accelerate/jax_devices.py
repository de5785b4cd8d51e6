"""Data parallelism on Keras' JAX backend. Import this module on that backend only."""

from typing import Any

import jax
import keras


class DataParallel(keras.distribution.DataParallel):
    """Keras' data parallelism, for batches of any size.

    Keras divides batches before the step, and fails if the last batch of an epoch has a number of rows that the devices
    cannot share. Here each device gets the whole batch, and the step calls `divided`: a device then computes its rows,
    or all rows of a batch that cannot be divided. The rows of a batch are few bytes, compared with its computation.
    """

    def get_data_layout(self, data_shape: Any) -> keras.distribution.TensorLayout:
        return keras.distribution.TensorLayout([None] * len(data_shape), self.device_mesh)

    def divided(self, batch: Any) -> Any:
        """Returns the batch, whose arrays are divided along their first axis among the devices."""

        def divide(values):
            if values.shape[0] % self.device_mesh.devices.size:
                return values
            layout = super(DataParallel, self).get_data_layout(values.shape)
            return jax.lax.with_sharding_constraint(values, layout.backend_layout)

        return jax.tree.map(divide, batch)


def divided_among_devices(batch: Any) -> Any:
    """Returns a batch of a step, divided as the current `DataParallel` divides it; without one, the batch itself."""
    distribution = keras.distribution.distribution()
    return distribution.divided(batch) if isinstance(distribution, DataParallel) else batch


def num_devices() -> int:
    """Returns the number of devices that share a batch."""
    distribution = keras.distribution.distribution()
    return 1 if distribution is None else int(distribution.device_mesh.devices.size)
