"""bge-m3: three kinds of vectors of a text by one pass through the encoder, and their combined scores.

Reference: Chen et al., 2024, arXiv 2402.03216; FlagEmbedding 1.4, `BGEM3FlagModel`.
"""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_bert.checkpoints.checkpoint import TOKEN_SCORES, TOKEN_VECTORS
from keras_bert.checkpoints.formats import read_checkpoint
from keras_bert.checkpoints.pretrained import model_of
from keras_bert.models.encoder_base import Encoder
from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import is_float32
from keras_bert.records import features
from keras_bert.tasks.embedding.scores import unit_vectors
from keras_bert.tasks.multi_vector.max_sim import max_sim
from keras_bert.tasks.prediction import forward_function, run_batches
from keras_bert.tasks.sparse.checkpoint import unscored_ids
from keras_bert.tasks.text_rows import checked_length, each_text, text_rows, tokenizer_of


class M3Vectors(NamedTuple):
    """The vectors of N texts.

    Attributes:
        dense: float32 `[N, H]`, of length 1: the first token.
        sparse: `scipy.sparse.csr_array` `[N, V]`, float32: the weights of the tokens in each text.
        tokens: for each text float32 `[tokens - 1, D]`, each of length 1: all tokens but the first.
    """

    dense: np.ndarray
    sparse: Any
    tokens: list[np.ndarray]


class BgeM3:
    """The encoder of bge-m3 with its three heads.

        model = BgeM3("hf://BAAI/bge-m3")
        queries, documents = model.encode(["what is a cat?"]), model.encode(texts)
        scores = model.similarity(queries, documents, weights=(0.4, 0.2, 0.4))  # [queries, documents]

    `SentenceEncoder`, `SparseEncoder` and `MultiVectorEncoder` load the heads one by one, to train or export them.

    Args:
        path: a folder with `sparse_linear.pt` and `colbert_linear.pt`, or `hf://owner/name`.

    Raises:
        InputError: the folder cannot be read, or has no such heads.
    """

    def __init__(self, path: str | os.PathLike):
        checkpoint = read_checkpoint(path)
        if not {TOKEN_SCORES, TOKEN_VECTORS} <= set(checkpoint.heads):
            raise InputError(f"{path} has no sparse_linear.pt and colbert_linear.pt. BgeM3 needs a folder like bge-m3.")
        self.encoder = model_of(Encoder, checkpoint)
        self._heads = [
            tuple(checkpoint.tensors[f"{part}/{name}"].read().astype(np.float32) for name in ("kernel", "bias"))
            for part in (TOKEN_SCORES, TOKEN_VECTORS)
        ]
        self._unscored_ids = unscored_ids(checkpoint.tokenizer)

    def encode(self, texts: Any, *, batch_size: int = 32, max_seq_length: int | None = None) -> M3Vectors:
        """Returns the vectors of texts.

        Args:
            texts: strings; a single one is a list of one.
            batch_size: texts computed at once.
            max_seq_length: longer texts are cut to this many tokens; None for all positions of the model. FlagEmbedding
                has 512.

        Raises:
            InputError: a text is not a string, or the model has no vocabulary or fewer positions.
        """
        from scipy.sparse import csr_array, vstack

        config, (scoring, projection) = self.encoder.config, self._heads
        longest = checked_length(config, max_seq_length)
        rows, *_ = text_rows(list(each_text(texts)), None, tokenizer_of(self.encoder), longest)
        dense = np.zeros((len(rows), config.hidden_size), np.float32)
        sparse: list = [None] * len(rows)
        tokens: list = [None] * len(rows)
        forward = forward_function(self.encoder, key="bge_m3", choose=lambda outputs, _: outputs["sequence_output"])
        for numbers, outputs in run_batches(forward, rows, batch_size):
            for number, hidden in zip(numbers, np.asarray(outputs, np.float32), strict=True):
                ids = rows.tokens[features.INPUT_IDS][rows.splits[number] : rows.splits[number + 1]]
                hidden = hidden[: len(ids)]
                dense[number] = unit_vectors(hidden[0])
                tokens[number] = unit_vectors(hidden[1:] @ projection[0] + projection[1])
                weights = np.zeros((1, config.vocab_size), np.float32)
                np.maximum.at(weights[0], ids, (hidden @ scoring[0] + scoring[1])[:, 0])
                weights[0, self._unscored_ids] = 0
                sparse[number] = csr_array(weights)
        empty = csr_array((0, config.vocab_size), dtype=np.float32)
        return M3Vectors(dense, vstack([empty, *sparse], format="csr"), tokens)

    def similarity(
        self, queries: M3Vectors, documents: M3Vectors, weights: Sequence[float] = (1.0, 1.0, 1.0)
    ) -> np.ndarray:
        """Returns the scores of all queries and documents, float32 `[queries, documents]`.

        These are the means, with the given weights, of the product of the dense vectors, of that of the sparse vectors,
        and of MaxSim divided by the number of the query's vectors.

        Args:
            queries, documents: what `encode` returns.
            weights: those of dense, sparse and token vectors. A score of weight 0 is not computed.

        Raises:
            InputError: the weights are not three numbers from 0, one of them above 0.
        """
        weights = tuple(weights)
        if len(weights) != 3 or not all(is_float32(weight) and weight >= 0 for weight in weights) or not sum(weights):
            raise InputError(f"weights must be three numbers from 0, one of them above 0. Received: {weights}")
        scores = (
            lambda: queries.dense @ documents.dense.T,
            lambda: (queries.sparse @ documents.sparse.T).toarray(),
            lambda: max_sim(queries.tokens, documents.tokens, is_mean=True),
        )
        parts = [weight * score() for weight, score in zip(weights, scores, strict=True) if weight]
        return (sum(parts) / sum(weights)).astype(np.float32)
