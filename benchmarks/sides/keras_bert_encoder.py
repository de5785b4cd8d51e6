"""The sides `ours` and, with --unpadded=1, `ours_unpadded`: our encoder, as `predict` and exports run it."""

import sys

import keras
import tensorflow as tf

from benchmarks.sides.answering import NAMES, Encoder, answer
from keras_bert.models.encoder_base import Encoder as OurEncoder


class KerasBertEncoder(Encoder):
    def __init__(self, unpadded: bool):
        self.unpadded = unpadded

    def load(self, folder):
        encoder = OurEncoder.from_pretrained(folder)
        encoder.unpadded = self.unpadded
        spec = {name: tf.TensorSpec((None, None), tf.int32) for name in NAMES}
        self.forward = tf.function(
            lambda features: encoder(features, training=False)["sequence_output"],
            autograph=False,
            input_signature=[spec],
        )
        self.forward.get_concrete_function()
        return f"keras_bert, Keras {keras.__version__}, TensorFlow {tf.__version__}"

    def prepare(self, batch):
        return {name: tf.constant(column) for name, column in batch.items()}

    def run(self, prepared):
        return self.forward(prepared).numpy()


if __name__ == "__main__":
    answer(KerasBertEncoder("--unpadded=1" in sys.argv))
