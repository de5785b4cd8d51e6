"""The side `keras_hub`: KerasHub's `BertBackbone` on TensorFlow, called in a `tf.function`.

KerasHub reads the folder of transformers itself. It has the tanh GELU only.
"""

import keras
import keras_hub
import tensorflow as tf

from benchmarks.sides.answering import Encoder, answer


class KerasHubEncoder(Encoder):
    def load(self, folder):
        backbone = keras_hub.models.BertBackbone.from_preset(folder)

        @tf.function(autograph=False, reduce_retracing=True)
        def forward(token_ids, padding_mask, segment_ids):
            inputs = {"token_ids": token_ids, "padding_mask": padding_mask, "segment_ids": segment_ids}
            return backbone(inputs, training=False)["sequence_output"]

        spec = tf.TensorSpec((None, None), tf.int32)
        self.forward = forward.get_concrete_function(spec, spec, spec)
        return f"keras-hub {keras_hub.__version__}, Keras {keras.__version__}, TensorFlow {tf.__version__}"

    def prepare(self, batch):
        return [tf.constant(batch[name]) for name in ("input_ids", "input_mask", "segment_ids")]

    def run(self, prepared):
        return self.forward(*prepared).numpy()


if __name__ == "__main__":
    answer(KerasHubEncoder())
