"""One shard of documents -> finished pre-training records: the unit of work, a pure function of what it is given."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from data_prep import masking
from data_prep.sentence_pairs import NUM_SPECIAL_TOKENS, SentencePairs, draw_sentence_pairs
from data_prep.tokenized_corpus import TokenizedCorpus
from keras_bert import features
from keras_bert.errors import InputError
from keras_bert.tokenization.vocabulary import Vocabulary

# Rows that are masked in one array operation. Part of what decides the bytes: draws are made batch by batch.
_BATCH_ROWS = 1024


@dataclasses.dataclass(frozen=True)
class PretrainingOptions:
    """What decides the records besides the text; names and defaults are those of google-research/bert.

    Raises:
        InputError: a value is out of range.
    """

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    random_seed: int = 12345
    dupe_factor: int = 10
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    do_whole_word_mask: bool = False

    def __post_init__(self):
        for name, lowest in (
            ("max_seq_length", 8),
            ("max_predictions_per_seq", 1),
            ("dupe_factor", 1),
            ("random_seed", 0),
        ):
            if getattr(self, name) < lowest:
                raise InputError(f"{name} must be {lowest} or more. Received: {getattr(self, name)}")
        if not 0.0 < self.masked_lm_prob <= 1.0:
            raise InputError(f"masked_lm_prob must be above 0 and at most 1. Received: {self.masked_lm_prob}")
        if not 0.0 <= self.short_seq_prob <= 1.0:
            raise InputError(f"short_seq_prob must be from 0 to 1. Received: {self.short_seq_prob}")

    @property
    def features(self) -> list[features.Feature]:
        """The record that these options give."""
        return features.pretraining_features(self.max_seq_length, self.max_predictions_per_seq)


def shard_batches(
    corpus: TokenizedCorpus, options: PretrainingOptions, shard: int, num_shards: int
) -> Iterator[tuple[dict[str, np.ndarray], float]]:
    """Makes all records of one shard, batch by batch: feature name -> array (batch, length), and the batch's share of
    the whole shard.

    Pass by pass: each of the `dupe_factor` passes reads every document once, with draws of its own, and its examples
    come in random order. Every draw comes from a generator for (seed, pass, shard), so a pass is the same whatever
    else is made, in whatever process.
    """
    documents = np.flatnonzero(corpus.shard_of_documents(num_shards, options.random_seed) == shard)
    is_continuation = np.array([token.startswith("##") for token in corpus.vocabulary.tokens])
    replacement_ids = masking.real_token_ids(corpus.vocabulary.tokens)
    for number in range(options.dupe_factor):
        rng = np.random.Generator(np.random.PCG64([options.random_seed, number, shard]))
        pairs = draw_sentence_pairs(
            corpus.sentence_offsets,
            corpus.document_offsets[documents],
            corpus.document_offsets[documents + 1],
            max_seq_length=options.max_seq_length,
            short_seq_prob=options.short_seq_prob,
            rng=rng,
        )
        pairs = pairs.take(np.argsort(rng.random(len(pairs)), kind="stable"))
        for start in range(0, len(pairs), _BATCH_ROWS):
            batch = pairs.take(slice(start, start + _BATCH_ROWS))
            rows, is_text = lay_out_rows(corpus.tokens, batch, options.max_seq_length, corpus.vocabulary)
            masked = _mask(rows, is_text, options, corpus.vocabulary, is_continuation, replacement_ids, rng)
            labels = batch.is_random_next[:, None].astype(np.int64)
            share = len(batch) / len(pairs) / options.dupe_factor
            yield {**rows, **masked, features.NEXT_SENTENCE_LABELS: labels}, share


def lay_out_rows(
    tokens: np.ndarray, pairs: SentencePairs, max_seq_length: int, vocabulary: Vocabulary
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Gathers the tokens of B pairs into rows.

    Returns:
        `input_ids`, `input_mask` and `segment_ids`, int64 (B, max_seq_length), and bool (B, max_seq_length): which
        columns hold text, and not a special token.

    Example:
        segments `em ##bed` and `is fun`, length 8 -> `[CLS] em ##bed [SEP] is fun [SEP] [PAD]`,
        mask 1 1 1 1 1 1 1 0, segments 0 0 0 0 1 1 1 0
    """
    column = np.arange(max_seq_length)[None, :]
    first_end = 1 + pairs.first_lengths[:, None]
    second_start = first_end + 1
    second_end = second_start + pairs.second_lengths[:, None]
    in_first = (column > 0) & (column < first_end)
    is_text = in_first | ((column >= second_start) & (column < second_end))
    source = np.where(in_first, pairs.first_starts[:, None] - 1, pairs.second_starts[:, None] - second_start) + column
    # Columns outside both segments would point anywhere; token 0 always exists.
    input_ids = np.take(tokens, np.where(is_text, source, 0)).astype(np.int64)
    input_ids = np.where(is_text, input_ids, vocabulary.pad_id)
    input_ids[:, 0] = vocabulary.cls_id
    input_ids[(column == first_end) | (column == second_end)] = vocabulary.sep_id
    rows = {
        features.INPUT_IDS: input_ids,
        features.INPUT_MASK: (column <= second_end).astype(np.int64),
        features.SEGMENT_IDS: ((column >= second_start) & (column <= second_end)).astype(np.int64),
    }
    return rows, is_text


def _mask(rows, is_text, options, vocabulary, is_continuation, replacement_ids, rng) -> dict[str, np.ndarray]:
    """The masked `input_ids` and the three lists of targets."""
    input_ids = rows[features.INPUT_IDS]
    lengths = rows[features.INPUT_MASK].sum(axis=1)
    num_to_predict = masking.count_predictions(
        lengths, options.masked_lm_prob, options.max_predictions_per_seq, lengths - NUM_SPECIAL_TOKENS
    )
    if options.do_whole_word_mask:
        # A segment that was cut at its front may begin inside a word; the rest of that word counts as one.
        word_starts = ~is_continuation[input_ids]
        word_starts[:, 1:] |= ~is_text[:, :-1]
        chosen = masking.choose_words(is_text, word_starts, num_to_predict, rng)
    else:
        chosen = masking.choose_tokens(is_text, num_to_predict, rng)
    masked = masking.mask_rows(
        input_ids, chosen, options.max_predictions_per_seq, vocabulary.mask_id, replacement_ids, rng
    )
    return {
        features.INPUT_IDS: masked.input_ids,
        features.MASKED_LM_POSITIONS: masked.positions,
        features.MASKED_LM_IDS: masked.ids,
        features.MASKED_LM_WEIGHTS: masked.weights,
    }
