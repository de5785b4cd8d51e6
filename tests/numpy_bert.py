"""A reference implementation of BERT's forward pass, written in NumPy and float64 from the two papers.

It shares only the names of the weights with keras_bert. Every packed sequence is cut out of its row and computed alone,
one head at a time, so no masks are needed.

References: Devlin et al., 2018 (the model, its embeddings and heads); Vaswani et al., 2017, section 3 (a layer).
"""

import math

import numpy as np

_erf = np.vectorize(math.erf)


def gelu_erf(x):
    return x * (1 + _erf(x / math.sqrt(2))) / 2


def gelu_tanh(x):
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


ACTIVATIONS = {"gelu": gelu_tanh, "gelu_erf": gelu_erf, "relu": lambda x: np.maximum(x, 0)}


def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


class NumpyBert:
    """Args: `weights`, part of a path -> array, such as "layer_0/attention/query/kernel"; `config`, a `BertConfig`."""

    def __init__(self, weights, config):
        self.weights = {name: np.asarray(array, "float64") for name, array in weights.items()}
        self.config = config

    def dense(self, name, x):
        return x @ self.weights[f"{name}/kernel"] + self.weights[f"{name}/bias"]

    def layer_norm(self, name, x):
        mean = x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + self.config.layer_norm_eps)
        return self.weights[f"{name}/gamma"] * (x - mean) / deviation + self.weights[f"{name}/beta"]

    def layer(self, index, x):
        """`[tokens, H]` -> the same, and the attention `[N, tokens, tokens]`."""
        name, width = f"layer_{index}", self.config.hidden_size // self.config.num_attention_heads
        query, key, value = (self.dense(f"{name}/attention/{part}", x) for part in ("query", "key", "value"))
        attention, heads = [], []
        for head in range(self.config.num_attention_heads):
            columns = slice(head * width, (head + 1) * width)
            attention.append(softmax(query[:, columns] @ key[:, columns].T / math.sqrt(width)))
            heads.append(attention[-1] @ value[:, columns])
        attended = self.dense(f"{name}/attention/output_dense", np.concatenate(heads, axis=1))
        x = self.layer_norm(f"{name}/attention_layer_norm", x + attended)
        activation = ACTIVATIONS[self.config.hidden_act]
        transformed = self.dense(f"{name}/output_dense", activation(self.dense(f"{name}/intermediate_dense", x)))
        return self.layer_norm(f"{name}/output_layer_norm", x + transformed), np.stack(attention)

    def sequence(self, ids, positions, segments):
        """One sequence without padding: list of L + 1 hidden states `[tokens, H]` and list of L attentions."""
        tables = (self.weights[f"embeddings/{name}_embeddings"] for name in ("token", "position", "segment"))
        x = sum(table[rows] for table, rows in zip(tables, (ids, positions, segments), strict=True))
        hidden_states, attentions = [self.layer_norm("embeddings/layer_norm", x)], []
        for index in range(self.config.num_hidden_layers):
            x, attention = self.layer(index, hidden_states[-1])
            hidden_states.append(x)
            attentions.append(attention)
        return hidden_states, attentions

    def rows(self, input_ids, input_mask, segment_ids):
        """int `[B, S]` each -> `hidden_states` `[L + 1, B, S, H]` and `attentions` `[L, B, N, S, S]`.

        Both are NaN at padding. Attention between two sequences is 0.
        """
        batch, length = input_ids.shape
        layers, heads = self.config.num_hidden_layers, self.config.num_attention_heads
        hidden_states = np.full((layers + 1, batch, length, self.config.hidden_size), np.nan)
        attentions = np.full((layers, batch, heads, length, length), np.nan)
        for row in range(batch):
            positions = positions_of(input_mask[row])
            real = np.flatnonzero(input_mask[row])
            for index in range(layers):
                attentions[index, row][:, real[:, None], real[None, :]] = 0
            for number in set(input_mask[row]) - {0}:
                columns = np.flatnonzero(input_mask[row] == number)
                states, maps = self.sequence(input_ids[row, columns], positions[columns], segment_ids[row, columns])
                hidden_states[:, row, columns] = states
                for index in range(layers):
                    attentions[index, row][:, columns[:, None], columns[None, :]] = maps[index]
        return hidden_states, attentions

    def pooled(self, sequence_output):
        return np.tanh(self.dense("pooler/dense", sequence_output[:, 0]))

    def masked_lm_logits(self, sequence_output, positions):
        vectors = np.stack([row[columns] for row, columns in zip(sequence_output, positions, strict=True)])
        vectors = ACTIVATIONS[self.config.hidden_act](self.dense("masked_lm_head/dense", vectors))
        vectors = self.layer_norm("masked_lm_head/layer_norm", vectors)
        return vectors @ self.weights["embeddings/token_embeddings"].T + self.weights["masked_lm_head/output_bias"]


def positions_of(numbers):
    """[0, 1, 1, 2, 2, 0] -> [0, 1, 2, 0, 1, 2]: one row of an `input_mask`, read from left to right."""
    positions, start, last = [], 0, 0
    for column, number in enumerate(numbers):
        if number and last and number != last:
            start = column
        last = number or last
        positions.append(column - start)
    return np.array(positions)


def log_likelihood(logits, labels):
    """Log of the probability of each label: `[..., C]`, `[...]` -> `[...]`."""
    return np.log(np.take_along_axis(softmax(np.asarray(logits, "float64")), labels[..., None], -1))[..., 0]


def weights_by_name(model):
    """Path in the model without the models' own names -> array: "encoder/layer_0/..." -> "layer_0/..."."""
    return {"/".join(weight.path.split("/")[1:]): np.asarray(weight) for weight in model.weights}


def scatter_weights(model, seed=0, spread=0.2):
    """Sets all weights to random numbers far from their initial values, so biases and LayerNorms have an effect."""
    generator = np.random.default_rng(seed)
    for weight in model.weights:
        centre = 1.0 if weight.path.endswith("gamma") else 0.0
        weight.assign(centre + spread * generator.standard_normal(weight.shape))
