"""Cuts words into the longest pieces of a vocabulary, in core TensorFlow operations.

The tokens form a trie: a tree with a node for every beginning of a token. From all characters of all words at the same
time, the longest path is followed, one character a step. Then all words are read at the same time, one piece a step.
"""

import numpy as np
import tensorflow as tf

from keras_bert.tokenization.exact_graph import flagged
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.tokenization.wordpiece import MAX_CHARACTERS_PER_WORD

# Nodes of the trie: above the tokens that begin a word, and above those that continue one.
_WORD_BEGIN, _WORD_INSIDE = 0, 1
_CONTINUES = "##"
# Stands behind each word. No character has this number.
_WORD_END = 0x110000
_NUM_POINTS = _WORD_END + 1


class TriePieces(tf.Module):
    """Cuts words into pieces, equal to `TextPieces`.

    Args:
        vocabulary: `Vocabulary`.
    """

    def __init__(self, vocabulary: Vocabulary):
        super().__init__()
        self._unk_id = vocabulary.unk_id
        children, ids, lengths = _trie(vocabulary)
        self._children = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                np.fromiter(children.keys(), np.int64, len(children)),
                np.fromiter(children.values(), np.int32, len(children)),
            ),
            np.int32(-1),
        )
        self._ids = tf.constant(ids, tf.int32)
        self._lengths = tf.constant(lengths, tf.int32)

    def __call__(self, points: tf.Tensor, needs_stand_in: tf.Tensor, word_starts: tf.Tensor):
        """As `TextPieces.__call__`; it ignores `needs_stand_in`."""
        del needs_stand_in
        words = tf.cumsum(tf.cast(word_starts, tf.int32)) - 1
        indices = tf.range(tf.size(points))
        (firsts,) = flagged(word_starts, indices)
        ends = tf.concat([firsts[1:], [tf.size(points)]], 0)[: tf.size(firsts)]
        # With the ends of words between them, character i of word w is at place i + w.
        num_words = tf.size(firsts)
        first_places = firsts + tf.range(num_words)
        places = indices + words
        marked = _put(tf.fill([tf.size(points) + num_words], _WORD_END), places, points)
        (starts,) = flagged(tf.gather(ends - firsts <= MAX_CHARACTERS_PER_WORD, words), places)
        reached = self._longest_paths(marked, first_places, starts)
        lengths = tf.gather(self._lengths, reached)
        is_read = _read_pieces(first_places, lengths) & tf.not_equal(marked, _WORD_END)
        (found,) = flagged(is_read, tf.range(tf.size(marked)))
        piece_words = tf.searchsorted(first_places, found, side="right") - 1
        # A word with a part that is not in the vocabulary is one unknown piece.
        (unknown_words,) = flagged(tf.equal(tf.gather(lengths, found), 0), piece_words)
        is_unknown = _put(tf.fill([num_words], False), unknown_words, tf.ones_like(unknown_words, tf.bool))
        left = ~tf.gather(is_unknown, piece_words) | tf.equal(found, tf.gather(first_places, piece_words))
        found, piece_words = flagged(left, found, piece_words)
        is_unknown = tf.gather(is_unknown, piece_words)
        ids = tf.where(is_unknown, self._unk_id, tf.gather(self._ids, tf.gather(reached, found)))
        first = found - piece_words
        last = tf.where(is_unknown, tf.gather(ends, piece_words), first + tf.gather(lengths, found)) - 1
        return ids, piece_words, first, last

    def _longest_paths(self, marked, first_places, starts):
        """Returns for every place the last node of the longest path of its characters, 0 without a path."""

        def follow(starts, nodes, step, reached):
            points = tf.gather(marked, starts + step)
            children = self._children.lookup(_key(tf.cast(nodes, tf.int64), tf.cast(points, tf.int64)))
            starts, nodes = flagged(children >= 0, starts, children)
            return starts, nodes, step + 1, _put(reached, starts, nodes)

        roots = _put(tf.fill(tf.shape(marked), _WORD_INSIDE), first_places, tf.fill(tf.shape(first_places), _WORD_BEGIN))
        *_, reached = tf.while_loop(
            lambda starts, *_: tf.size(starts) > 0,
            follow,
            (starts, tf.gather(roots, starts), 0, tf.zeros_like(marked)),
            shape_invariants=(tf.TensorShape([None]), tf.TensorShape([None]), tf.TensorShape([]), marked.shape),
        )
        return reached


def _read_pieces(first_places, lengths):
    """Returns whether each place is reached from the first place of its word by going from piece to piece."""
    nexts = tf.range(tf.size(lengths)) + lengths

    def go_on(places, is_reached):
        after = tf.gather(nexts, places)
        (after,) = flagged(tf.not_equal(after, places), after)
        return after, _put(is_reached, after, tf.ones_like(after, tf.bool))

    _, is_reached = tf.while_loop(
        lambda places, _: tf.size(places) > 0,
        go_on,
        (first_places, _put(tf.zeros_like(lengths, tf.bool), first_places, tf.ones_like(first_places, tf.bool))),
        shape_invariants=(tf.TensorShape([None]), lengths.shape),
    )
    return is_reached


def _put(values, indices, new):
    """[5, 6, 7], [2], [9] -> [5, 6, 9]"""
    return tf.tensor_scatter_nd_update(values, indices[:, tf.newaxis], new)


def _key(node, point):
    """Returns the key of the child of a node for a character."""
    return node * _NUM_POINTS + point


def _trie(vocabulary: Vocabulary) -> tuple[dict[int, int], list[int], list[int]]:
    """Returns the children by `_key`, and for each node the id and length of the longest token on the path to it."""
    children: dict[int, int] = {}
    ids, lengths, parents, depths = [-1, -1], [0, 0], [-1, -1], [0, 0]
    for number, token in enumerate(vocabulary.tokens):
        continues = token.startswith(_CONTINUES) and token != _CONTINUES
        # "#" is punctuation, so words that begin with "##" do not exist.
        letters = token.removeprefix(_CONTINUES) if continues else token
        if not letters or len(letters) > MAX_CHARACTERS_PER_WORD:
            continue
        node = _WORD_INSIDE if continues else _WORD_BEGIN
        for letter in letters:
            parent, node = node, children.setdefault(_key(node, ord(letter)), len(ids))
            if node == len(ids):
                parents.append(parent)
                depths.append(depths[parent] + 1)
                ids.append(-1)
                lengths.append(0)
        ids[node], lengths[node] = number, depths[node]
    for node, parent in enumerate(parents):
        if ids[node] < 0 and parent >= 0:
            ids[node], lengths[node] = ids[parent], lengths[parent]
    return children, ids, lengths
