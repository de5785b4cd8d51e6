"""The index of variables is read as TensorFlow reads it."""

import numpy as np
import tensorflow as tf

from keras_bert.program.variables_index import read_index


def test_the_index_of_variables_is_read_as_tensorflow_reads_it(tmp_path):
    variables = {f"kernel_{number}": tf.Variable(tf.random.normal((number % 5 + 1, 3))) for number in range(400)}
    prefix = tf.train.Checkpoint(**variables).write(str(tmp_path / "checkpoint"))
    num_shards, tensors = read_index(prefix + ".index")
    assert num_shards == 1
    expected = dict(tf.train.list_variables(prefix))
    assert {tensor.name: list(tensor.shape) for tensor in tensors} == expected
    data = (tmp_path / "checkpoint.data-00000-of-00001").read_bytes()
    reader = tf.train.load_checkpoint(prefix)
    for tensor in tensors[1::50]:
        values = np.frombuffer(data[tensor.offset : tensor.offset + tensor.size], np.float32)
        np.testing.assert_array_equal(values.reshape(tensor.shape), reader.get_tensor(tensor.name))
