"""The sides `ours`, `ours_unpadded` (--unpadded=1) and `ours_xla` (--xla=1): our encoder on TensorFlow.

`ours` is what `predict` and exports run.
"""

import sys

import keras
import tensorflow as tf

import keras_bert
from benchmarks.sides.answering import NAMES, Encoder, answer, dtype_of_side


class KerasBertEncoder(Encoder):
    def __init__(self, unpadded: bool, with_xla: bool):
        self.unpadded, self.with_xla = unpadded, with_xla

    def load(self, folder):
        encoder = keras_bert.Encoder.from_pretrained(folder)
        encoder.unpadded = self.unpadded
        spec = {name: tf.TensorSpec((None, None), tf.int32) for name in NAMES}
        self.forward = tf.function(
            lambda features: encoder(features, training=False)["sequence_output"],
            autograph=False,
            jit_compile=self.with_xla or None,
            input_signature=[spec],
        )
        self.forward.get_concrete_function()
        return f"keras_bert, Keras {keras.__version__}, TensorFlow {tf.__version__}"

    def prepare(self, batch):
        return {name: tf.constant(column) for name, column in batch.items()}

    def run(self, prepared):
        vectors = self.forward(prepared)
        tf.test.experimental.sync_devices()
        return vectors


if __name__ == "__main__":
    if dtype_of_side() != "float32":
        keras.config.set_dtype_policy(f"mixed_{dtype_of_side()}")
    answer(KerasBertEncoder("--unpadded=1" in sys.argv, "--xla=1" in sys.argv))
