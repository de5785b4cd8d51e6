"""Rows of a text in which every token occurs once, for tests of permutation records and of memories."""

import numpy as np
import tiny

from data_prep.pretraining.document_block import DocumentBlock
from data_prep.pretraining.pretraining_records import PretrainingOptions, block_batches

OPTIONS = PretrainingOptions(
    max_seq_length=32, max_predictions_per_seq=7, dupe_factor=1, reuse_len=16, perm_size=8, mask_alpha=4, num_streams=3
)
# Every token of the text occurs once, so a token tells its place.
WORDS = [*(f"w{n}" for n in range(1500)), *(f"##p{n}" for n in range(500))]
VOCABULARY = tiny.vocabulary(*np.random.default_rng(0).permutation(WORDS))


def block():
    lengths = np.random.default_rng(1).integers(1, 14, 260)
    lengths = lengths[: np.searchsorted(np.cumsum(lengths), 1500)]
    num_sentences = np.array([5] * (len(lengths) // 5))
    lengths = lengths[: num_sentences.sum()]
    return DocumentBlock.from_lengths(np.arange(5, 5 + lengths.sum(), dtype=np.uint16), lengths, num_sentences)


def rows(options=OPTIONS):
    batches = [batch for batch, _ in block_batches(block(), options, VOCABULARY, 0, 0)]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
