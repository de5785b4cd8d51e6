"""The side `ours_jax`: our encoder on Keras' JAX backend, on a GPU if JAX finds one."""

import jax
import keras

import keras_bert
from benchmarks.sides.answering import Encoder, answer, dtype_of_side


class EncoderOnJax(Encoder):
    def load(self, folder):
        encoder = keras_bert.Encoder.from_pretrained(folder)
        kinds = (encoder.trainable_variables, encoder.non_trainable_variables)
        self.weights = [[variable.value for variable in variables] for variables in kinds]

        def forward(weights, features):
            outputs, _ = encoder.stateless_call(*weights, features, training=False)
            return outputs["sequence_output"]

        self.forward = jax.jit(forward)
        return f"keras_bert, Keras {keras.__version__}, JAX {jax.__version__}, {jax.devices()[0].device_kind}"

    def prepare(self, batch):
        return jax.device_put(batch)

    def run(self, prepared):
        return self.forward(self.weights, prepared).block_until_ready()


if __name__ == "__main__":
    if dtype_of_side() != "float32":
        keras.config.set_dtype_policy(f"mixed_{dtype_of_side()}")
    answer(EncoderOnJax())
