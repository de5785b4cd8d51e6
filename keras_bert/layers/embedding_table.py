"""The base class of embeddings: a table of token vectors, which given vectors can replace."""

from keras import ops

from keras_bert.layers.bert_layer import BertLayer


class EmbeddingTable(BertLayer):
    """A layer that looks tokens up in a table.

    Attributes:
        token_embeddings: the table, `[vocab_size, hidden_size]`. Subclasses add it without autocast.
    """

    def look_up(self, input_ids):
        """Returns the rows of the table: int `[B, S]` -> float `[B, S, hidden_size]`."""
        return ops.take(self.token_embeddings, input_ids, axis=0)

    def vectors_of(self, input_ids, token_vectors=None):
        """Returns `token_vectors` if they are given, else those of the table.

        Keras casts given vectors to 16 bits in mixed precision, as inputs of a layer. They get the dtype of the table.
        """
        if token_vectors is None:
            return self.look_up(input_ids)
        return ops.cast(token_vectors, self.token_embeddings.dtype)
