"""The side `keras_hub`: KerasHub's backbone on TensorFlow, called in a `tf.function`.

KerasHub reads the folder of transformers itself.
"""

import keras
import keras_hub
import tensorflow as tf

from benchmarks.sides.answering import Encoder, answer


class KerasHubEncoder(Encoder):
    def load(self, folder):
        backbone = keras_hub.models.Backbone.from_preset(folder)
        taken = {tensor.name for tensor in backbone.inputs}

        @tf.function(autograph=False, reduce_retracing=True)
        def forward(token_ids, padding_mask, segment_ids):
            inputs = {"token_ids": token_ids, "padding_mask": padding_mask, "segment_ids": segment_ids}
            outputs = backbone({name: values for name, values in inputs.items() if name in taken}, training=False)
            return outputs["sequence_output"] if isinstance(outputs, dict) else outputs

        spec = tf.TensorSpec((None, None), tf.int32)
        self.forward = forward.get_concrete_function(spec, spec, spec)
        return f"keras-hub {keras_hub.__version__}, Keras {keras.__version__}, TensorFlow {tf.__version__}"

    def prepare(self, batch):
        return [tf.constant(batch[name]) for name in ("input_ids", "input_mask", "segment_ids")]

    def run(self, prepared):
        return self.forward(*prepared).numpy()


if __name__ == "__main__":
    answer(KerasHubEncoder())
