"""WordPiece inside the TensorFlow graph by core operations alone, with byte offsets.

It needs no tensorflow-text, where it is made and where it is served. The ids and offsets are those of `GraphTokenizer`.
The steps:

1. Texts are cut at single spaces, and each different part is tokenised once.
2. A part that is a token as it stands is looked up in a table.
3. The others take the exact path (exact_graph.py). It cuts words into the longest tokens by a trie: a tree with a node
   for every beginning of a token. From all characters of all words at the same time, the longest path is followed, one
   character a step. Then all words are read at the same time, one piece a step.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from keras_bert.tokenization.exact_graph import (
    ExactTokenizer,
    as_strings,
    behind_single,
    flagged,
    indices_of_rows,
    shifted,
    starts_in_rows,
    table,
)
from keras_bert.tokenization.graph_wordpiece import added_tokens_of
from keras_bert.tokenization.tokenizer import GraphForm
from keras_bert.tokenization.unicode_table import MAX_CHARACTERS_PER_WORD
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

# Nodes of the trie: above the tokens that begin a word, and above those that continue one.
_WORD_BEGIN, _WORD_INSIDE = 0, 1
_CONTINUES = "##"
# Stands behind each word. No character has this number.
_WORD_END = 0x110000
_NUM_POINTS = _WORD_END + 1


class CoreWordPiece(tf.Module, GraphForm):
    """WordPiece in the graph by core operations: strings -> ids, equal to `WordPieceTokenizer`.

    It works eagerly, in tf.data, in tf.function, and inside a saved tf.Module.

    Example:
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "quick", "##est"])
        >>> CoreWordPiece(WordPieceTokenizer(vocabulary)).tokenize(["The quickest", ""])
        <tf.RaggedTensor [[5, 6, 7], []]>
    """

    def __init__(self, tokenizer: WordPieceTokenizer):
        super().__init__()
        self.vocabulary = tokenizer.vocabulary
        self._pieces = TriePieces(tokenizer)
        exact = ExactTokenizer(self._pieces, tokenizer.rules)
        self._exact = tf.function(exact.__call__, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
        self._added = added_tokens_of(tokenizer, exact)

    def _plain_ids(self, texts) -> tf.RaggedTensor:
        return self._plain_ids_with_offsets(texts)[0]

    def _plain_ids_with_offsets(self, texts) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        texts = as_strings(texts)
        parts = tf.strings.split(texts, " ")
        # A part begins behind the space that ends the part before it.
        begins = starts_in_rows(parts, tf.strings.length(parts.values) + 1)
        different, numbers = tf.unique(parts.values)
        is_whole, whole = self._pieces.find_whole(different)
        ids, splits, starts, ends = self._exact(*flagged(~is_whole, different))
        (lengths,) = flagged(is_whole, tf.strings.length(different))
        rows, splits = behind_single(is_whole, splits)
        indices = indices_of_rows(splits, tf.gather(rows, numbers))
        ids = tf.gather(tf.concat([whole, ids], 0), indices.values)
        starts = tf.gather(tf.concat([tf.zeros_like(lengths), tf.cast(starts, tf.int32)], 0), indices.values)
        ends = tf.gather(tf.concat([lengths, tf.cast(ends, tf.int32)], 0), indices.values)
        begins = tf.repeat(begins, indices.row_lengths())
        text_splits = tf.gather(indices.row_splits, parts.row_splits)
        return tuple(
            tf.RaggedTensor.from_row_splits(values, text_splits, validate=False)
            for values in (ids, starts + begins, ends + begins)
        )


class TriePieces(tf.Module):
    """Cuts words into pieces, equal to `TextPieces`."""

    def __init__(self, tokenizer: WordPieceTokenizer):
        super().__init__()
        self._unk_id = tokenizer.unk_id
        self._max_characters = tokenizer.rules.max_characters
        children, ids, lengths = _trie(tokenizer.piece_ids)
        keys, nodes = np.array(list(children.items()), np.int64).T
        self._children = table(tf.constant(keys), tf.constant(nodes, tf.int32), -1)
        self._ids = tf.constant(ids, tf.int32)
        self._lengths = tf.constant(lengths, tf.int32)
        # The tokens that texts contain as they stand. Most words are such tokens, so their paths are not followed.
        whole = [number for token, number in tokenizer.piece_ids.items() if tokenizer.encode(token) == [number]]
        node_of = {number: node for node, number in reversed(list(enumerate(ids)))}
        self._whole_words = table(
            tf.constant([tokenizer.tokens[number] for number in whole], tf.string),
            tf.constant([node_of[number] for number in whole], tf.int32),
            -1,
        )

    def find_whole(self, words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns whether each word, strings `(words,)`, is a token as it stands, and the ids of those that are."""
        nodes = self._whole_words.lookup(words)
        is_whole = nodes >= 0
        return is_whole, tf.gather(self._ids, *flagged(is_whole, nodes))

    def __call__(self, points: tf.Tensor, word_starts: tf.Tensor):
        """As `TextPieces.__call__`."""
        words = tf.cumsum(tf.cast(word_starts, tf.int32)) - 1
        indices = tf.range(tf.size(points))
        (firsts,) = flagged(word_starts, indices)
        ends = shifted(firsts, -1, tf.size(points))
        # With the ends of words between them, character i of word w is at place i + w.
        num_words = tf.size(firsts)
        first_places = firsts + tf.range(num_words)
        places = indices + words
        marked = _put(tf.fill([tf.size(points) + num_words], _WORD_END), places, points)
        spelled = tf.RaggedTensor.from_row_splits(points, tf.concat([firsts, [tf.size(points)]], 0), validate=False)
        whole = self._whole_words.lookup(tf.strings.unicode_encode(spelled, "UTF-8"))
        reached = _put(tf.zeros_like(marked), first_places, tf.maximum(whole, 0))
        is_cut = whole < 0
        (starts,) = flagged(tf.gather(is_cut & (ends - firsts <= self._max_characters), words), places)
        reached = self._longest_paths(marked, first_places, starts, reached)
        lengths = tf.gather(self._lengths, reached)
        is_read = _put(tf.zeros_like(marked, tf.bool), first_places, tf.ones_like(first_places, tf.bool))
        is_read = _read_pieces(*flagged(is_cut, first_places), lengths, is_read) & tf.not_equal(marked, _WORD_END)
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

    def _longest_paths(self, marked, first_places, starts, reached):
        """Puts the last node of the longest path from each of the `starts` into `reached`."""

        def follow(starts, nodes, step, reached):
            points = tf.gather(marked, starts + step)
            children = self._children.lookup(_key(tf.cast(nodes, tf.int64), tf.cast(points, tf.int64)))
            starts, nodes = flagged(children >= 0, starts, children)
            return starts, nodes, step + 1, _put(reached, starts, nodes)

        roots = _put(
            tf.fill(tf.shape(marked), _WORD_INSIDE), first_places, tf.fill(tf.shape(first_places), _WORD_BEGIN)
        )
        *_, reached = tf.while_loop(
            lambda starts, *_: tf.size(starts) > 0,
            follow,
            (starts, tf.gather(roots, starts), 0, reached),
            shape_invariants=(tf.TensorShape([None]), tf.TensorShape([None]), tf.TensorShape([]), marked.shape),
        )
        return reached


def _read_pieces(places, lengths, is_read):
    """Marks in `is_read` the places that are reached by going on from `places`, from piece to piece."""
    nexts = tf.range(tf.size(lengths)) + lengths

    def go_on(places, is_read):
        after = tf.gather(nexts, places)
        (after,) = flagged(tf.not_equal(after, places), after)
        return after, _put(is_read, after, tf.ones_like(after, tf.bool))

    _, is_read = tf.while_loop(
        lambda places, _: tf.size(places) > 0,
        go_on,
        (places, is_read),
        shape_invariants=(tf.TensorShape([None]), lengths.shape),
    )
    return is_read


def _put(values, indices, new):
    """[5, 6, 7], [2], [9] -> [5, 6, 9]"""
    return tf.tensor_scatter_nd_update(values, indices[:, tf.newaxis], new)


def _key(node, point):
    """Returns the key of the child of a node for a character."""
    return node * _NUM_POINTS + point


def _trie(piece_ids: Mapping[str, int]) -> tuple[dict[int, int], list[int], list[int]]:
    """Returns the children by `_key`, and for each node the id and length of the longest token on the path to it."""
    children: dict[int, int] = {}
    ids, lengths, parents, depths = [-1, -1], [0, 0], [-1, -1], [0, 0]
    for token, number in piece_ids.items():
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
