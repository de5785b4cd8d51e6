"""The side `plain`: the same computation by hand in TensorFlow's operations, see `benchmarks.plain_tensorflow`."""

import tensorflow as tf

from benchmarks.plain_tensorflow import plain_encoder
from benchmarks.sides.answering import NAMES, Encoder, answer
from keras_bert.models.encoder import BertEncoder


class PlainEncoder(Encoder):
    def load(self, folder):
        spec = tf.TensorSpec((None, None), tf.int32)
        self.forward = plain_encoder(BertEncoder.from_pretrained(folder)).get_concrete_function(spec, spec, spec)
        return f"TensorFlow {tf.__version__}"

    def prepare(self, batch):
        return [tf.constant(batch[name]) for name in NAMES]

    def run(self, prepared):
        return self.forward(*prepared).numpy()


if __name__ == "__main__":
    answer(PlainEncoder())
