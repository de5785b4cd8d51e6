"""Records as protobuf itself writes them, one at a time."""

import numpy as np
import tensorflow as tf


def serialize(values, features):
    """Name -> list of numbers, for each of `features`, as one serialised `tf.train.Example`."""
    example = tf.train.Example()
    for feature in features:
        numbers = np.asarray(values[feature.name])
        assert numbers.shape == (feature.length,), feature
        target = example.features.feature[feature.name]
        lists = target.float_list if feature.dtype == "float32" else target.int64_list
        lists.value.extend(numbers.tolist())
    return example.SerializeToString(deterministic=True)
