import numpy as np
import pytest
from small_corpora import as_lists, corpus_of, offsets

from data_prep.pretraining import document_dealing
from data_prep.pretraining.document_block import DocumentBlock, shard_blocks
from data_prep.pretraining.document_dealing import Dealing, cut_into_parts, part_sentences


def sentences_of_shards(corpus, dealing):
    """The numbers of the sentences that each shard gets, part by part."""
    return [
        [list(range(*part)) for ranges in dealing.shard_ranges(corpus, shard) for part in ranges.tolist()]
        for shard in range(dealing.num_shards)
    ]


@pytest.mark.parametrize(
    ("num_sentences", "least", "expected"),
    [
        ([3, 7], 2, [0, 3, 5, 7, 10]),
        ([10], 3, [0, 3, 6, 10]),
        ([1, 1], 2, [0, 1, 2]),
        ([5], 9, [0, 5]),
        ([], 2, [0]),
    ],
)
def test_a_document_is_cut_into_equal_parts_of_enough_sentences(num_sentences, least, expected):
    assert cut_into_parts(offsets(num_sentences), least).tolist() == expected


def test_parts_have_256_sentences_or_half_of_what_there_is_and_never_one():
    assert [part_sentences(number) for number in (1, 3, 4, 7, 300, 511, 10**9)] == [2, 2, 2, 3, 150, 255, 256]


def test_in_parts_every_file_gets_the_same_number_of_sentences_and_none_twice():
    corpus = corpus_of([[2] * 50, [1], [3] * 29])
    shards = sentences_of_shards(corpus, Dealing(8, seed=1, num_sentences=80))
    assert [sum(map(len, parts)) for parts in shards] == [10] * 8
    assert [sentence for parts in shards for part in parts for sentence in part] == list(range(80))
    # Parts of five sentences or more, which end where a document ends.
    assert shards[0] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert shards[5] == [[50], list(range(51, 60))]


@pytest.mark.parametrize("slice_documents", [3, 1_000_000])
@pytest.mark.parametrize("num_shards", [1, 4, 23])
@pytest.mark.parametrize("in_parts", [False, True])
def test_chunk_by_chunk_documents_are_dealt_out_as_from_the_whole_corpus(
    monkeypatch, slice_documents, num_shards, in_parts
):
    monkeypatch.setattr(document_dealing, "_SLICE_DOCUMENTS", slice_documents)
    rng = np.random.default_rng(num_shards)
    corpus = corpus_of([rng.integers(1, 5, rng.integers(1, 40)).tolist() for _ in range(30)])
    dealing = Dealing(num_shards, 5, corpus.num_sentences if in_parts else None)
    dealt = [[] for _ in range(num_shards)]
    for start, stop in ((0, 7), (7, 7), (7, 8), (8, 30)):
        first_sentence = int(corpus.document_offsets[start])
        chunk = corpus.document_offsets[start : stop + 1] - first_sentence
        for shard, ranges, numbers in dealing.deal(chunk, start, first_sentence):
            for (first, end), number in zip((ranges + first_sentence).tolist(), numbers.tolist(), strict=True):
                dealt[shard].append(list(range(first, end)))
                # The number is that of the document that the part belongs to.
                assert corpus.document_offsets[number] <= first < end <= corpus.document_offsets[number + 1]
    assert dealt == sentences_of_shards(corpus, dealing)
    assert sorted(sum(sum(dealt, []), [])) == list(range(corpus.num_sentences))


def test_the_parts_of_a_file_are_the_documents_of_its_blocks():
    corpus = corpus_of([[2] * 20])
    (ranges,) = shard_blocks(corpus, Dealing(2, 0, num_sentences=20), 1)
    documents = as_lists(DocumentBlock.gather_ranges(corpus, ranges))
    assert documents == [[[2 * n, 2 * n + 1] for n in part] for part in (range(10, 15), range(15, 20))]
