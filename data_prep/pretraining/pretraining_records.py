"""A block of documents -> finished pre-training records, as a pure function: the unit of work."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator

import numpy as np

from data_prep.pretraining.document_block import DocumentBlock, count_shard_tokens, shard_blocks
from data_prep.pretraining.document_dealing import Dealing
from data_prep.pretraining.full_sentences import draw_full_sentences
from data_prep.pretraining.permutation_rows import (
    NUM_SPECIAL,
    draw_permutation_rows,
    lay_out_permutation_rows,
    tokens_that_begin_words,
)
from data_prep.pretraining.record_folder import RecordCounts
from data_prep.pretraining.sentence_pairs import draw_sentence_pairs
from data_prep.pretraining.sequence_packing import pack_sequences
from data_prep.pretraining.token_sequences import TokenSequences, lay_out_rows
from data_prep.tokenized.tokenized_corpus import TokenizedCorpus
from keras_bert.program.errors import InputError
from keras_bert.program.options import Options, documented, option, same_option
from keras_bert.records import features
from keras_bert.records.encoding import encode_tfrecords
from keras_bert.records.masked_positions import REPLACEMENT_TOKENS, MaskingOptions
from keras_bert.records.masking import MaskingVocabulary, mask_batch
from keras_bert.tokenization.tokenizer import SpecialTokens, TokenTable

# The number of rows, and of tokens, made in one array operation: larger arrays do not fit the processor's cache. They
# affect the bytes, since random numbers are drawn batch by batch.
_BATCH_ROWS = 1024
_BATCH_TOKENS = 2**17

SENTENCE_TASKS = ("next_sentence", "sentence_order", "none")
# [CLS] token [SEP] is the shortest sequence, which limits the number of sequences in a row.
_SHORTEST_SEQUENCE = 3


@documented
@dataclasses.dataclass(frozen=True)
class PretrainingOptions(Options):
    """The options that determine the records besides the text; docs/pretraining_data.md explains each.

    Names and defaults are those of google-research/bert; `max_ngram_size` is TF Model Garden's.

    Raises:
        InputError: a value is out of range, or two values contradict each other.
    """

    max_seq_length: int = option(128, "Tokens in a record, special tokens included.", at_least=8)
    max_predictions_per_seq: int = same_option(MaskingOptions, "max_predictions_per_seq")
    random_seed: int = option(12345, "Seed of every draw.", at_least=0)
    dupe_factor: int = option(10, "The number of passes over the text, each with other masks and pairs.", at_least=1)
    masked_lm_prob: float = same_option(MaskingOptions, "masked_lm_prob")
    short_seq_prob: float = option(0.1, "Share of the documents with shorter pairs.", at_least=0, at_most=1)
    do_whole_word_mask: bool = same_option(MaskingOptions, "do_whole_word_mask")
    max_ngram_size: int = same_option(MaskingOptions, "max_ngram_size")
    ngram_geometric_p: float = same_option(MaskingOptions, "ngram_geometric_p")
    ngram_distribution: str = same_option(MaskingOptions, "ngram_distribution")
    whole_word_actions: bool = same_option(MaskingOptions, "whole_word_actions")
    sentence_task: str = option(
        "next_sentence", "Random second segments, swapped ones, or none: full sentences.", choices=SENTENCE_TASKS
    )
    max_sequences_per_row: int = option(1, "Above 1: pack up to this many examples into a record.", at_least=1)
    replacement_tokens: str = option(
        "text", "Draw random tokens from those of texts, or from the whole vocabulary.", choices=REPLACEMENT_TOKENS
    )
    dynamic_masking: bool = option(False, "Write records without masks, which are masked while they are read.")
    reuse_len: int = option(
        0, "Above 0: rows for XLNet, each of which begins this number of tokens after the one before.", at_least=0
    )
    perm_size: int = option(0, "XLNet: tokens permuted together (default: reuse_len).", needs="reuse_len", at_least=0)
    mask_alpha: int = option(6, "XLNet: mask_beta of so many tokens are predicted.", needs="reuse_len", at_least=1)
    mask_beta: int = option(1, "XLNet: tokens to predict of every mask_alpha.", needs="reuse_len", at_least=1)
    num_streams: int = option(
        0, "XLNet: above 0, the rows of a batch, in the order for a memory (--mem_len).", needs="reuse_len", at_least=0
    )

    def __post_init__(self):
        super().__post_init__()
        most = self.max_seq_length // _SHORTEST_SEQUENCE
        if self.max_sequences_per_row > most:
            raise InputError(
                f"max_sequences_per_row={self.max_sequences_per_row} sequences do not fit into "
                f"max_seq_length={self.max_seq_length} tokens. Use {most} or fewer."
            )
        masking = self.masking
        if self.dynamic_masking and (masking.masks_words or self.replacement_tokens != "text"):
            raise InputError(
                "With dynamic_masking, records are masked while they are read, so do_whole_word_mask, max_ngram_size "
                "and replacement_tokens have no effect here. Leave them out, and give them when reading."
            )
        if self.reuse_len:
            self._check_permutation()
        elif self.num_streams:
            raise InputError("num_streams are for XLNet's rows. Add reuse_len, or leave out num_streams.")

    def _check_permutation(self) -> None:
        most = self.max_seq_length - NUM_SPECIAL - 2
        if self.reuse_len > most:
            raise InputError(
                f"reuse_len must be at most {most}, so that a pair and its special tokens fit behind it in "
                f"max_seq_length={self.max_seq_length}. Received: {self.reuse_len}"
            )
        size, parts = self.perm_size or self.reuse_len, (self.reuse_len, self.max_seq_length - self.reuse_len)
        if size > self.reuse_len or any(part % size for part in parts):
            raise InputError(
                f"perm_size must be at most reuse_len={self.reuse_len} and divide both parts of a row, {parts[0]} and "
                f"{parts[1]} tokens. Received: {size}"
            )
        if self.mask_alpha < self.mask_beta:
            raise InputError(
                "mask_beta of every mask_alpha tokens are predicted, so mask_alpha must be at least mask_beta. "
                f"Received: mask_alpha={self.mask_alpha}, mask_beta={self.mask_beta}"
            )
        if self.max_predictions_per_seq > 2 * min(parts):
            raise InputError(
                f"Half of max_predictions_per_seq={self.max_predictions_per_seq} predictions do not fit into a part of "
                f"{min(parts)} tokens. Use at most {2 * min(parts)}."
            )
        others = ("dynamic_masking", "do_whole_word_mask", "max_ngram_size", "max_sequences_per_row", "sentence_task")
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        if given := [name for name in others if getattr(self, name) != defaults[name]]:
            raise InputError(f"With reuse_len, rows are XLNet's, which have no {' and no '.join(given)}. Leave it out.")

    @property
    def masking(self) -> MaskingOptions:
        """The subset of the options that masking uses."""
        names = [field.name for field in dataclasses.fields(MaskingOptions) if hasattr(self, field.name)]
        return MaskingOptions(**{name: getattr(self, name) for name in names})

    def in_effect(self) -> dict[str, object]:
        """Returns name -> value, without the options of XLNet's rows where there are none."""
        without = () if self.reuse_len else ("reuse_len", "perm_size", "mask_alpha", "mask_beta", "num_streams")
        return {name: value for name, value in dataclasses.asdict(self).items() if name not in without}

    @property
    def has_sentence_task(self) -> bool:
        return self.sentence_task != "none"

    @property
    def features(self) -> list[features.Feature]:
        """The features of a record with these options."""
        return features.pretraining_features(
            self.max_seq_length,
            0 if self.dynamic_masking else self.max_predictions_per_seq,
            self.max_sequences_per_row,
            has_sentence_task=self.has_sentence_task and not self.reuse_len,
            has_order=self.reuse_len > 0,
            has_streams=self.num_streams > 0,
        )


@dataclasses.dataclass(frozen=True)
class RecordForm:
    """What determines the bytes of records besides the text."""

    options: PretrainingOptions
    compression: str
    use_v2_feature_names: bool

    @property
    def record(self) -> list[features.Feature]:
        """The features, with the names that they have in the files."""
        return features.with_garden_names(self.options.features) if self.use_v2_feature_names else self.options.features

    def encode(self, batch: dict[str, np.ndarray]) -> tuple[bytes, RecordCounts]:
        """Returns the records of a batch as bytes of a file, and their counts."""
        named = features.to_garden_names(batch) if self.use_v2_feature_names else batch
        return encode_tfrecords(named, self.record), RecordCounts.of_batch(batch)


def shard_batches(
    corpus: TokenizedCorpus, options: PretrainingOptions, dealing: Dealing, shard: int
) -> Iterator[tuple[dict[str, np.ndarray], float]]:
    """Makes all records of one shard, batch by batch; see `block_batches`. Shares refer to the whole shard."""
    num_tokens = count_shard_tokens(corpus, dealing, shard)
    blocks = (DocumentBlock.gather_ranges(corpus, ranges) for ranges in shard_blocks(corpus, dealing, shard))
    return batches_of_blocks(blocks, num_tokens, options, corpus.vocabulary, shard)


def batches_of_blocks(
    blocks: Iterable[DocumentBlock], num_tokens: int, options: PretrainingOptions, vocabulary: TokenTable, shard: int
) -> Iterator[tuple[dict[str, np.ndarray], float]]:
    """Makes the records of all blocks of a shard, which have `num_tokens` tokens in total."""
    for number, block in enumerate(blocks):
        for batch, share in block_batches(block, options, vocabulary, shard, number):
            yield batch, share * block.num_tokens / num_tokens


def block_batches(
    block: DocumentBlock, options: PretrainingOptions, vocabulary: TokenTable, shard: int, block_number: int
) -> Iterator[tuple[dict[str, np.ndarray], float]]:
    """Makes all records of a block of documents, pass by pass; see `pass_batches`. Shares refer to all passes."""
    for number in range(options.dupe_factor):
        for batch, share in pass_batches(block, options, vocabulary, shard, block_number, number):
            yield batch, share / options.dupe_factor


def pass_batches(
    block: DocumentBlock,
    options: PretrainingOptions,
    vocabulary: TokenTable,
    shard: int,
    block_number: int,
    pass_number: int,
) -> Iterator[tuple[dict[str, np.ndarray], float]]:
    """Makes the records of one pass over a block of documents, in batches of up to 1024.

    A pass reads every document once, with its own random numbers, and its records come in random order. The random
    generator is seeded by (seed, pass, shard, block), so a pass does not depend on other passes or on the process.

    Yields:
        feature name -> array (batch, length), int32 and float32, for each of `options.features`; and the share of the
        pass's records that the batch has.
    """
    names = [feature.name for feature in options.features]
    rng = np.random.Generator(np.random.PCG64([options.random_seed, pass_number, shard, block_number]))
    make = _permutation_batches if options.reuse_len else _masked_batches
    for rows, share in make(block, options, vocabulary, rng):
        yield {name: rows[name] for name in names}, share


def _permutation_batches(block, options, vocabulary, rng) -> Iterator[tuple[dict[str, np.ndarray], float]]:
    begins_word = tokens_that_begin_words(vocabulary)
    block = DocumentBlock.gather(block, np.argsort(rng.random(block.num_documents), kind="stable"))
    rows = draw_permutation_rows(block, options, rng)
    for start in range(0, len(rows), size := _batch_rows(options)):
        batch = rows.take(slice(start, start + size))
        yield (
            lay_out_permutation_rows(block.tokens, batch, options, vocabulary, begins_word, rng),
            len(batch) / len(rows),
        )


def _batch_rows(options: PretrainingOptions) -> int:
    return max(min(_BATCH_ROWS, _BATCH_TOKENS // options.max_seq_length), 1)


def _masked_batches(block, options, vocabulary, rng) -> Iterator[tuple[dict[str, np.ndarray], float]]:
    masking_vocabulary = _masking_vocabulary(vocabulary, options.replacement_tokens)
    sequences = _draw_sequences(block, options, vocabulary.special_tokens, rng)
    order, row_offsets = pack_sequences(sequences.lengths(), options.max_seq_length, options.max_sequences_per_row, rng)
    num_rows = len(row_offsets) - 1
    for start in range(0, num_rows, size := _batch_rows(options)):
        offsets = row_offsets[start : start + size + 1]
        rows, is_text = lay_out_rows(
            block.tokens,
            sequences.take(order[offsets[0] : offsets[-1]]),
            offsets - offsets[0],
            options.max_seq_length,
            options.max_sequences_per_row,
            vocabulary,
        )
        if not options.dynamic_masking:
            input_ids, input_mask = rows[features.INPUT_IDS], rows[features.INPUT_MASK]
            rows.update(mask_batch(input_ids, is_text, input_mask, options.masking, masking_vocabulary, rng))
        yield rows, (len(offsets) - 1) / num_rows


@functools.lru_cache(maxsize=1)
def _masking_vocabulary(vocabulary: TokenTable, replacement_tokens: str) -> MaskingVocabulary:
    """Makes the vocabulary for masking, once for all passes."""
    return MaskingVocabulary.of(vocabulary, replacement_tokens)


def _draw_sequences(
    block: DocumentBlock, options: PretrainingOptions, special_tokens: SpecialTokens, rng: np.random.Generator
) -> TokenSequences:
    """Draws the sequences of one pass over the documents."""
    offsets = block.sentence_offsets, block.document_offsets
    if not options.has_sentence_task:
        return draw_full_sentences(*offsets, max_seq_length=options.max_seq_length, rng=rng)
    return draw_sentence_pairs(
        *offsets,
        max_seq_length=options.max_seq_length,
        short_seq_prob=options.short_seq_prob,
        rng=rng,
        in_order=options.sentence_task == "sentence_order",
        special_tokens=special_tokens,
    )
