"""The side `products_torch`: nothing but the matrix products of the encoder, in torch. See `tensorflow_products`."""

import torch

from benchmarks.sides.answering import Encoder, answer
from benchmarks.sides.product_weights import product_weights, read_config, token_vectors


class TorchProducts(Encoder):
    def load(self, folder):
        self.config = read_config(folder)
        self.weights = {name: torch.from_numpy(matrix) for name, matrix in product_weights(self.config).items()}
        return f"torch {torch.__version__}"

    def prepare(self, batch):
        rows, length = batch["input_ids"].shape
        return torch.from_numpy(token_vectors(rows * length, self.config["hidden_size"])), length

    def run(self, prepared):
        hidden, length = prepared
        apart = (-1, length, self.config["hidden_size"] // self.config["num_attention_heads"])
        layer = self.weights
        with torch.inference_mode():
            for _ in range(self.config["num_hidden_layers"]):
                query, key, value = (hidden @ layer[name] for name in ("query", "key", "value"))
                scores = torch.bmm(query.reshape(apart), key.reshape(apart).transpose(1, 2))
                torch.bmm(scores, value.reshape(apart))
                hidden = value @ layer["output"] @ layer["up"] @ layer["down"]
        return hidden


if __name__ == "__main__":
    answer(TorchProducts())
