import numpy as np
import pytest
from small_corpora import as_lists, corpus_of

from data_prep.pretraining import document_block, document_dealing
from data_prep.pretraining.document_block import (
    DocumentBlock,
    blocks_of_gathered_shard,
    count_shard_tokens,
    shard_blocks,
)
from data_prep.pretraining.document_dealing import Dealing


@pytest.fixture(params=[1, 3, 1_000_000])
def slices(request, monkeypatch):
    """Works with slices of any size."""
    monkeypatch.setattr(document_dealing, "_SLICE_DOCUMENTS", request.param)
    monkeypatch.setattr(document_block, "_SLICE_TOKENS", request.param)


def blocks_of(corpus, seed, shard, num_shards):
    """The blocks of a shard when whole documents are dealt out."""
    ranges = shard_blocks(corpus, Dealing(num_shards, seed), shard)
    return [DocumentBlock.gather_ranges(corpus, of_block) for of_block in ranges]


@pytest.mark.usefixtures("slices")
def test_documents_are_copied_in_the_order_given():
    corpus = corpus_of([[1, 2], [3], [1, 1, 1], [2]])
    block = DocumentBlock.gather(corpus, np.array([2, 0, 3]))
    assert as_lists(block) == [[[6], [7], [8]], [[0], [1, 2]], [[9, 10]]]
    assert block.tokens.dtype == np.uint16
    assert (block.num_documents, block.num_sentences, block.num_tokens) == (3, 6, 8)
    assert as_lists(DocumentBlock.gather(corpus, np.zeros(0, np.int64))) == []


def test_a_part_of_a_document_is_a_document():
    corpus = corpus_of([[1], [2, 2, 2, 2]])
    assert as_lists(DocumentBlock.gather_ranges(corpus, np.array([[2, 4]]))) == [[[3, 4], [5, 6]]]


@pytest.mark.usefixtures("slices")
def test_blocks_hold_the_documents_of_the_shard_in_order(monkeypatch):
    monkeypatch.setattr(document_block, "BLOCK_TOKENS", 200)
    rng = np.random.default_rng(0)
    documents = [rng.integers(1, 9, rng.integers(1, 12)).tolist() for _ in range(100)]
    corpus = corpus_of(documents)
    shards = corpus.shard_of_documents(3, seed=1)
    everything = as_lists(DocumentBlock.gather(corpus, np.arange(100)))
    for shard in range(3):
        blocks = blocks_of(corpus, 1, shard, 3)
        expected = [everything[number] for number in np.flatnonzero(shards == shard)]
        assert [document for block in blocks for document in as_lists(block)] == expected
        assert len(blocks) > 2
        # Each block ends with the document that fills it; each document counts as at least 32 tokens.
        for block in blocks[:-1]:
            counted = [max(sum(map(len, document)), 32) for document in as_lists(block)]
            assert sum(counted[:-1]) < 200 <= sum(counted)
        assert count_shard_tokens(corpus, Dealing(3, 1), shard) == sum(block.num_tokens for block in blocks)


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize(
    ("tokens_of_documents", "expected"),
    [
        ([40, 40, 40, 40], [[40, 40], [40, 40]]),  # at least two documents, whatever their length
        ([40, 40, 40, 40, 40], [[40, 40], [40, 40, 40]]),  # a single one goes to the last block
        ([40], [[40]]),
        ([40, 40], [[40, 40]]),
        ([], []),
    ],
)
def test_a_block_has_two_documents_where_there_are_two(monkeypatch, tokens_of_documents, expected):
    monkeypatch.setattr(document_block, "BLOCK_TOKENS", 40)
    # The first document of the corpus belongs to the other shard.
    corpus = corpus_of([[1], *([length] for length in tokens_of_documents)])
    shards = np.array([1] + [0] * len(tokens_of_documents))
    monkeypatch.setattr(type(corpus), "shard_of_documents", lambda *arguments: shards[slice(*arguments[3:])])
    blocks = blocks_of(corpus, 0, 0, 2)
    assert [[sum(map(len, document)) for document in as_lists(block)] for block in blocks] == expected


def test_a_document_too_long_for_a_block_is_read_in_parts(monkeypatch):
    monkeypatch.setattr(document_block, "BLOCK_TOKENS", 100)
    corpus = corpus_of([[30, 30], [7] * 60, [150], [30, 30]])
    blocks = blocks_of(corpus, 0, 0, 1)
    sizes = [[[len(sentence) for sentence in document] for document in as_lists(block)] for block in blocks]
    # 15 sentences of 7 tokens fill a block. A sentence is never cut.
    assert sizes == [[[7] * 15]] * 4 + [[[150]]] + [[[30, 30], [30, 30]]]
    assert sum(block.num_tokens for block in blocks) == corpus.num_tokens


@pytest.mark.parametrize(
    ("num_sentences", "expected"), [(25, [10, 10, 5]), (24, [10, 14]), (15, [10, 5]), (14, [14]), (10, [10])]
)
def test_the_short_rest_of_a_long_document_goes_to_its_last_part(monkeypatch, num_sentences, expected):
    monkeypatch.setattr(document_block, "BLOCK_TOKENS", 100)
    corpus = corpus_of([[10] * num_sentences])
    assert [block.num_sentences for block in blocks_of(corpus, 0, 0, 1)] == expected


@pytest.mark.usefixtures("slices")
def test_a_shard_in_memory_is_cut_into_the_same_blocks(monkeypatch):
    monkeypatch.setattr(document_block, "BLOCK_TOKENS", 60)
    # Every tenth document is too long for a block.
    corpus = corpus_of([[9] * (20 if number % 10 == 3 else number % 7 + 1) for number in range(100)])
    for shard in range(2):
        numbers = np.flatnonzero(corpus.shard_of_documents(2, 5) == shard)
        gathered = DocumentBlock.gather(corpus, numbers)
        ranges = blocks_of_gathered_shard(gathered, numbers)
        in_memory = [as_lists(DocumentBlock.gather_ranges(gathered, of_block)) for of_block in ranges]
        expected = list(map(as_lists, blocks_of(corpus, 5, shard, 2)))
        assert in_memory == expected
        assert len(expected) > 10
