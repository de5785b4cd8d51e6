"""Tokenised corpora of a few sentences, whose tokens are numbers."""

import numpy as np
import tiny

from data_prep.tokenized.tokenized_corpus import TokenizedCorpus

VOCABULARY = tiny.vocabulary("a")


def corpus_of(documents):
    """A corpus of documents that are lists of sentence lengths; token i of the corpus is the number i."""
    lengths = [length for document in documents for length in document]
    return TokenizedCorpus(
        tokens=np.arange(sum(lengths), dtype=np.uint16),
        sentence_offsets=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
        document_offsets=np.concatenate([[0], np.cumsum([len(document) for document in documents], dtype=np.int64)]),
        vocabulary=VOCABULARY,
        manifest={},
        path="",
    )


def as_lists(block):
    """The tokens of each sentence of each document."""
    tokens = block.tokens.tolist()
    sentences = [tokens[a:b] for a, b in zip(block.sentence_offsets[:-1], block.sentence_offsets[1:], strict=True)]
    return [sentences[a:b] for a, b in zip(block.document_offsets[:-1], block.document_offsets[1:], strict=True)]
