"""The sides `ours` and, with --unpadded=1, `ours_unpadded`: `BertEncoder`, as `predict` and exports run it."""

import sys

import keras
import tensorflow as tf

from benchmarks.sides.answering import NAMES, Encoder, answer
from keras_bert.models.encoder import BertEncoder


class KerasBertEncoder(Encoder):
    def __init__(self, unpadded: bool):
        self.unpadded = unpadded

    def load(self, folder):
        encoder = BertEncoder.from_pretrained(folder)
        forward = unpadded_forward(encoder) if self.unpadded else padded_forward(encoder)
        spec = {name: tf.TensorSpec((None, None), tf.int32) for name in NAMES}
        self.forward = tf.function(forward, autograph=False, input_signature=[spec])
        self.forward.get_concrete_function()
        return f"keras_bert, Keras {keras.__version__}, TensorFlow {tf.__version__}"

    def prepare(self, batch):
        return {name: tf.constant(column) for name, column in batch.items()}

    def run(self, prepared):
        return self.forward(prepared).numpy()


def padded_forward(encoder: BertEncoder):
    return lambda features: encoder(features, training=False)["sequence_output"]


def unpadded_forward(encoder: BertEncoder):
    """Returns what computes the vectors without those of padding. THE ONE PLACE that knows how that is asked for."""
    unpadded = BertEncoder(encoder.config, unpadded=True)
    unpadded.set_weights(encoder.get_weights())
    return padded_forward(unpadded)


if __name__ == "__main__":
    answer(KerasBertEncoder("--unpadded=1" in sys.argv))
