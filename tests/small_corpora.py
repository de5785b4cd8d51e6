"""Tokenised corpora of a few sentences, whose tokens are numbers."""

import pathlib

import numpy as np
import tiny

from data_prep.tokenized.tokenized_corpus import TokenizedCorpus

VOCABULARY = tiny.vocabulary("a")


def offsets(lengths):
    """Where each of consecutive ranges of these lengths begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def generator(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


def corpus_of(documents):
    """A corpus of documents that are lists of sentence lengths; token i of the corpus is the number i."""
    lengths = [length for document in documents for length in document]
    return TokenizedCorpus(
        tokens=np.arange(sum(lengths), dtype=np.uint16),
        sentence_offsets=offsets(lengths),
        document_offsets=offsets(list(map(len, documents))),
        vocabulary=VOCABULARY,
        manifest={},
        path="",
    )


def as_lists(block):
    """The tokens of each sentence of each document."""
    tokens = block.tokens.tolist()
    sentences = [tokens[a:b] for a, b in zip(block.sentence_offsets[:-1], block.sentence_offsets[1:], strict=True)]
    return [sentences[a:b] for a, b in zip(block.document_offsets[:-1], block.document_offsets[1:], strict=True)]


def texts_of(corpus):
    """The documents of a tokenised corpus, each a list of sentences, as text again."""
    names = corpus.vocabulary.tokens
    return [[" ".join(names[number] for number in sentence) for sentence in part] for part in as_lists(corpus)]


def contents(folder):
    """The bytes of each file of a folder, by name."""
    return {path.name: path.read_bytes() for path in sorted(pathlib.Path(folder).iterdir())}
