"""Serialises records with protobuf, one at a time."""

import numpy as np
import tensorflow as tf


def serialize(values, features):
    """Returns a record (name -> list of numbers) as one serialised `tf.train.Example`."""
    example = tf.train.Example()
    for feature in features:
        numbers = np.asarray(values[feature.name])
        assert numbers.shape == (feature.length,), feature
        target = example.features.feature[feature.name]
        lists = target.float_list if feature.dtype == "float32" else target.int64_list
        lists.value.extend(numbers.tolist())
    return example.SerializeToString(deterministic=True)
