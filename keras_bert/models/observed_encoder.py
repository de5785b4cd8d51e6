"""`observed`: gives the vectors and the attention scores of all layers of an encoder inside a task model."""

import contextlib
from collections.abc import Iterator

from keras_bert.layers.attention import SCORES
from keras_bert.layers.gathering import vectors_at


@contextlib.contextmanager
def observed(encoder, with_scores: bool) -> Iterator["ObservedEncoder"]:
    """A context in which the encoder computes all tokens, and the yielded object keeps what its layers computed."""
    encoder.observer = ObservedEncoder(encoder, with_scores)
    try:
        yield encoder.observer
    finally:
        encoder.observer = None


class ObservedEncoder:
    """Computes the outputs of an encoder and keeps those of its layers.

    Attributes:
        states: the embeddings and the outputs of the layers, `[B, S, H]` each.
        scores: pairs of the scores of each layer before the softmax, `[B, N, S, S]`, and their bias, `[B, 1, S, S]` or
            `[B, 1, 1, S]`, which is 0 where a token may attend; empty without scores.
    """

    def __init__(self, encoder, with_scores: bool):
        self._encoder = encoder
        self._with_scores = with_scores
        self.states, self.scores = [], []

    def encode(self, inputs, training=False) -> dict:
        """As `Encoder.encode`."""
        encoder = self._encoder
        before = encoder.output_hidden_states, encoder.output_attentions
        encoder.output_hidden_states, encoder.output_attentions = True, SCORES if self._with_scores else False
        try:
            outputs = encoder.encode(inputs, training=training)
        finally:
            encoder.output_hidden_states, encoder.output_attentions = before
        self.states, self.scores = outputs["hidden_states"], outputs.get("attentions", [])
        return outputs

    def encode_at(self, inputs, columns=None, training=False) -> dict:
        """As `Encoder.encode_at`."""
        outputs = self.encode(inputs, training=training)
        if columns is not None:
            outputs["sequence_output"] = vectors_at(outputs["sequence_output"], columns)
        return outputs
