"""The side `products_tensorflow`: nothing but the matrix products of the encoder, in TensorFlow.

The products with weights are those of `[B * S, H]`, the two of attention are those of B * N matrices. What the encoder
does between them is left out, and no number moves: so this is what is left when all else is free.
"""

import tensorflow as tf

from benchmarks.sides.answering import Encoder, answer
from benchmarks.sides.product_weights import product_weights, read_config, token_vectors


class TensorFlowProducts(Encoder):
    def load(self, folder):
        config = read_config(folder)
        weights = [{name: tf.constant(matrix) for name, matrix in product_weights(config).items()}]
        weights *= config["num_hidden_layers"]
        self.hidden_size, heads = config["hidden_size"], config["num_attention_heads"]

        @tf.function(autograph=False)
        def products(hidden, length):
            apart = (-1, length, self.hidden_size // heads)
            unused = []
            for layer in weights:
                query, key, value = (tf.matmul(hidden, layer[name]) for name in ("query", "key", "value"))
                scores = tf.matmul(tf.reshape(query, apart), tf.reshape(key, apart), transpose_b=True)
                unused.append(tf.matmul(scores, tf.reshape(value, apart)))
                # The values go on: those above would grow from layer to layer.
                inner = tf.matmul(tf.matmul(value, layer["output"]), layer["up"])
                hidden = tf.matmul(inner, layer["down"])
            return [hidden, *unused]

        spec = tf.TensorSpec((None, self.hidden_size), tf.float32)
        self.products = products.get_concrete_function(spec, tf.TensorSpec((), tf.int32))
        return f"TensorFlow {tf.__version__}"

    def prepare(self, batch):
        rows, length = batch["input_ids"].shape
        return tf.constant(token_vectors(rows * length, self.hidden_size)), tf.constant(length)

    def run(self, prepared):
        return self.products(*prepared)[0].numpy()


if __name__ == "__main__":
    answer(TensorFlowProducts())
