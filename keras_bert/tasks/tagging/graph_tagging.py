"""Makes token rows from words, labels from logits, and tags and entities from labels, as a TensorFlow graph.

The rows are those of `tagged_rows` in `rows.py`. The rule for entities is that of `tag_schemes.py`, for any scheme:
whether a word begins an entity depends on its own label and the label of the word before it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.tasks.tagging.tag_schemes import OUTSIDE, Entity, TagScheme, read_entities, write_tags


def sentence_rows(
    words, splits, tokenize, vocabulary, max_seq_length: int, doc_stride: int | None = None
) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """Makes rows [CLS] pieces [SEP]. A sentence that is too long is cut between words into several rows.

    A word without pieces, or with more pieces than fit into a row, becomes one [UNK].

    Args:
        words: strings `[W]`, the words of B sentences.
        splits: int64 `[B + 1]`. The words of sentence n are at `splits[n]:splits[n + 1]`.
        tokenize: strings `[W]` -> RaggedTensor `[W, None]` of ids.
        doc_stride: the largest number of pieces between the beginnings of two rows of a sentence, unless a single word
            has more; None cuts into rows that do not overlap.

    Returns:
        The R rows, int32 RaggedTensor `[R, None]`; and int64 `[W]`, the index of the first token of each word in the
        concatenation of all rows. Of the rows that show a word it is the one with the most context.

    Example, with one piece per word and rows of 4:
        words a b c d, splits [0, 3, 4] -> [CLS] a b [SEP], [CLS] c [SEP], [CLS] d [SEP]; [1, 2, 5, 8]
        and with doc_stride 1 -> [CLS] a b [SEP], [CLS] b c [SEP], [CLS] d [SEP]; [1, 2, 6, 9]
    """
    room = max_seq_length - 2
    pieces = _pieces(tokenize(words), room, vocabulary.unk_id)
    firsts, stops = _words_of_rows(pieces.row_splits, splits, room, min(doc_stride or room, room))
    begins, ends = tf.gather(pieces.row_splits, firsts), tf.gather(pieces.row_splits, stops)
    shown = tf.ragged.range(begins, ends)
    of_rows = tf.stack([tf.size(firsts), 1])
    rows = tf.concat(
        [
            tf.fill(of_rows, vocabulary.cls_id),
            shown.with_values(tf.gather(pieces.values, shown.values)),
            tf.fill(of_rows, vocabulary.sep_id),
        ],
        axis=1,
    )
    best_rows = _rows_with_most_context(firsts, stops, pieces.row_splits)
    columns = pieces.row_splits[:-1] - tf.gather(begins, best_rows) + 1
    return rows, tf.gather(rows.row_starts(), best_rows) + columns


def _rows_with_most_context(firsts, stops, piece_splits) -> tf.Tensor:
    """Returns the row of each word, int64 `[W]`, as `rows_with_most_context` of `tasks/tagging/rows.py`."""
    words = tf.ragged.range(firsts, stops)
    row, word = words.value_rowids(), words.values
    begin = tf.gather(piece_splits, tf.gather(firsts, row))
    end = tf.gather(piece_splits, tf.gather(stops, row))
    context = tf.minimum(tf.gather(piece_splits, word) - begin, end - tf.gather(piece_splits, word + 1))
    score = 100 * context + end - begin
    num_words = tf.size(piece_splits, tf.int64) - 1
    best_score = tf.math.unsorted_segment_max(score, word, num_words)
    is_best = tf.equal(score, tf.gather(best_score, word))
    return tf.math.unsorted_segment_min(tf.where(is_best, row, row.dtype.max), word, num_words)


def _pieces(pieces: tf.RaggedTensor, room: int, unk_id: int) -> tf.RaggedTensor:
    """Replaces words without pieces, or with too many, by one [UNK]."""
    lengths = pieces.row_lengths()
    is_replaced = tf.equal(lengths, 0) | (lengths > room)
    values = tf.concat([pieces.values, [unk_id]], 0)
    firsts = tf.where(is_replaced, tf.size(pieces.values, tf.int64), pieces.row_starts())
    indices = tf.ragged.range(firsts, firsts + tf.where(is_replaced, tf.ones_like(lengths), lengths))
    return indices.with_values(tf.gather(values, indices.values))


def _words_of_rows(piece_splits, splits, room: int, stride: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the first word of each row and the word after its last, int64 `[R]` each.

    Words are added to a row while their pieces fit. The next row of a sentence begins at the last word that begins at
    most `stride` pieces later, or at the next word.

    For every word, the end of a row that starts there and the start of the row after it are known. The loop follows
    these links from the first word of each sentence, for all sentences at once.
    """
    num_words = tf.size(piece_splits, tf.int64) - 1
    ends = splits[1:]
    sentence_ends = tf.repeat(ends, ends - splits[:-1])
    stops = tf.minimum(_words_within(piece_splits, room), sentence_ends)
    nexts = tf.maximum(_words_within(piece_splits, stride), tf.range(1, num_words + 1))
    # After the last row of a sentence comes its end.
    nexts = tf.concat([tf.where(stops < sentence_ends, nexts, sentence_ends), [num_words]], 0)

    def step(words, found):
        # A finished sentence stays at its end.
        words = tf.where(words < ends, tf.gather(nexts, words), words)
        return words, tf.concat([found, tf.boolean_mask(words, words < ends)], 0)

    # Not a growing TensorArray: servers before TensorFlow 2.13 do not support it.
    begins = splits[:-1]
    _, found = tf.while_loop(
        lambda words, _: tf.reduce_any(words < ends),
        step,
        (begins, tf.boolean_mask(begins, begins < ends)),
        shape_invariants=(tf.TensorShape([None]), tf.TensorShape([None])),
    )
    firsts = tf.sort(found)
    return firsts, tf.gather(stops, firsts)


def _words_within(piece_splits, distance: int) -> tf.Tensor:
    """Returns, for each word, the last word that begins at most `distance` pieces later, int64 `[W]`."""
    return tf.searchsorted(piece_splits, piece_splits[:-1] + distance, side="right", out_type=tf.int64) - 1


def decode_tags(logits, splits, allowed: np.ndarray) -> tf.Tensor:
    """Returns the label of each word, int32 `[W]`, as `decode_tags` of `tasks/tagging/decoding.py`.

    The sentences whose best tags break a rule are decoded together. A further label, L, stands for the edges of a
    sentence: all words after its end have it.

    Args:
        logits: float64 `[W, L]`, finite.
        splits: int64 `[B + 1]`. The words of sentence n are at `splits[n]:splits[n + 1]`.
        allowed: bool `[L + 1, L + 1]`, which label may follow which.
    """
    best, edge = tf.argmax(logits, axis=1, output_type=tf.int32), len(allowed) - 1
    lengths = splits[1:] - splits[:-1]
    edges = tf.fill([tf.size(lengths), 1], edge)
    paths = tf.concat([edges, tf.RaggedTensor.from_row_splits(best, splits, validate=False), edges], axis=1)
    steps = tf.stack([paths.values[:-1], paths.values[1:]], axis=1)  # from one sentence to the next too: it is allowed
    is_wrong = tf.cast(~tf.gather_nd(allowed, steps), tf.int32)
    is_broken = tf.math.unsorted_segment_max(is_wrong, paths.value_rowids()[:-1], tf.size(lengths)) > 0

    words = tf.where(tf.repeat(is_broken, lengths))
    lengths = tf.boolean_mask(lengths, is_broken)
    impossible = tf.constant(-np.inf, logits.dtype)
    of_words = tf.RaggedTensor.from_row_lengths(tf.gather_nd(logits, words), lengths, validate=False)
    of_words = tf.pad(of_words.to_tensor(impossible), [[0, 0], [0, 1], [0, 0]], constant_values=impossible)
    is_word = tf.sequence_mask(lengths, tf.shape(of_words)[1])
    of_edges = tf.where(is_word, impossible, tf.zeros([], logits.dtype))
    lattice = tf.transpose(tf.concat([of_words, of_edges[:, :, tf.newaxis]], axis=2), [1, 0, 2])
    penalties = tf.constant(np.where(allowed, 0, -np.inf), logits.dtype)

    def step(state, of_word):
        sums = state[0][:, :, tf.newaxis] + penalties
        return tf.reduce_max(sums, axis=1) + of_word, tf.argmax(sums, axis=1, output_type=tf.int32)

    begin = tf.fill(tf.shape(lattice[0]), impossible)
    begin = tf.where(tf.range(edge + 1) == edge, tf.zeros([], logits.dtype), begin)
    _, links = tf.scan(step, lattice, (begin, tf.zeros_like(begin, tf.int32)))
    ends = tf.fill([tf.size(lengths)], edge)
    labels = tf.scan(lambda label, link: tf.gather(link, label, batch_dims=1), links, ends, reverse=True)
    found = tf.boolean_mask(tf.transpose(labels[1:]), is_word[:, :-1])
    return tf.tensor_scatter_nd_update(best, words, found)


_NO_TYPE = -1


class Entities(NamedTuple):
    """E entities of sentences with W words, which are numbered through all sentences."""

    firsts: tf.Tensor  # int64 (E,), the first word of each entity
    ends: tf.Tensor  # int64 (E,), the word after its last
    types: tf.Tensor  # strings (E,)
    probabilities: tf.Tensor  # float64 (E,), the probability of the type, averaged over the words
    numbers: tf.Tensor  # int32 (words in entities,), the entity of each word that is in one
    is_inside: tf.Tensor  # bool (W,), whether a word is in an entity


class EntityReader:
    """Reads entities from the L labels of a model, which are in one scheme."""

    def __init__(self, labels: Sequence[str], scheme: TagScheme):
        self._types = sorted({entity.type for label in labels for entity in read_entities([label])})
        self._type = np.full(len(labels), _NO_TYPE, np.int32)
        # Whether a label continues an entity of its type, and whether such an entity can continue after it.
        self._goes_on, self._stays_open = np.zeros((2, len(labels)), bool)
        for number, label in enumerate(labels):
            for entity in read_entities([label]):
                self._type[number] = self._types.index(entity.type)
                self._goes_on[number] = len(read_entities([f"I-{entity.type}", label])) == 1
                self._stays_open[number] = len(read_entities([label, f"I-{entity.type}"])) == 1
        self._tags = [tag for name in self._types for tag in _tags_by_place(name, scheme)]
        self._is_of_type = np.array([[label[2:] == name for name in self._types] for label in labels], np.float64)

    def __call__(self, label_ids: tf.Tensor, probabilities: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, Entities]:
        """Returns the corrected tags of words, strings (W,), and their entities.

        Each word has its most probable label, int (W,), probabilities, float64 (W, L), and the number of its sentence,
        int (W,), ascending.
        """
        types = tf.gather(self._type, label_ids)
        is_inside = types >= 0
        joins = tf.gather(self._goes_on, label_ids)[1:] & tf.gather(self._stays_open, label_ids)[:-1]
        joins &= tf.equal(types[1:], types[:-1]) & tf.equal(rows[1:], rows[:-1])
        neither = tf.zeros_like(is_inside[:1])
        begins = is_inside & ~tf.concat([neither, joins], 0)
        ends = is_inside & ~tf.concat([joins, neither], 0)
        place = 2 * tf.cast(~begins, tf.int32) + tf.cast(~ends, tf.int32)
        tags = tf.where(is_inside, tf.gather(self._tags, 4 * tf.maximum(types, 0) + place), OUTSIDE)

        numbers = tf.boolean_mask(tf.cumsum(tf.cast(begins, tf.int32)) - 1, is_inside)
        by_type = tf.boolean_mask(tf.matmul(probabilities, self._is_of_type), is_inside)
        of_words = tf.gather(by_type, tf.boolean_mask(types, is_inside), batch_dims=1)
        return tags, Entities(
            tf.where(begins)[:, 0],
            tf.where(ends)[:, 0] + 1,
            tf.gather(self._types, tf.boolean_mask(types, begins)),
            tf.math.segment_mean(of_words, numbers),
            numbers,
            is_inside,
        )


def _tags_by_place(entity_type: str, scheme: TagScheme) -> list[str]:
    """Returns the tags of a single word, and of the first, the last and the middle words of a longer entity."""
    single = write_tags([Entity(0, 1, entity_type)], 1, scheme)
    first, middle, last = write_tags([Entity(0, 3, entity_type)], 3, scheme)
    return [*single, first, last, middle]
