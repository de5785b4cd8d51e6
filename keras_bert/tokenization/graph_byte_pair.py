"""Byte-level BPE inside the TensorFlow graph, with byte offsets: for tf.data and for SavedModels.

It returns the ids of byte_pair.py, and the same offsets in bytes. The steps:

1. Texts are split into words by graph_byte_pair_words.py.
2. Each distinct word is looked up once in a table of the words that are one token.
3. The other words are cut between bytes that no token spans. All parts are joined at the same time: each round joins
   the best pair of each part, until no part has one.
4. The tokens of a text are its bytes in order, so the sum of their lengths gives the offsets.

All operations are core TensorFlow operations, which TF Serving includes.
"""

import itertools

import numpy as np
import tensorflow as tf

from keras_bert.tokenization.byte_pair import BytePairTokenizer, Pairs
from keras_bert.tokenization.exact_graph import (
    CodePointTable,
    as_strings,
    behind_single,
    changes,
    flagged,
    indices_of_rows,
    shifted,
    table,
)
from keras_bert.tokenization.graph_added_tokens import GraphAddedTokens
from keras_bert.tokenization.graph_byte_pair_words import class_numbers, gpt_2_word_begins, llama_3_word_begins
from keras_bert.tokenization.graph_nfc import GraphNfc
from keras_bert.tokenization.nfc import nfc_with_sources
from keras_bert.tokenization.tokenizer import GraphForm
from keras_bert.tokenization.unicode_table import WHITE_SPACE, character_class

_NO_MERGE = np.int32(2**31 - 1)


class GraphBytePair(tf.Module, GraphForm):
    """Byte-level BPE in the graph: strings -> ids, equal to `BytePairTokenizer`.

    It works eagerly, in tf.data, in tf.function, and inside a saved tf.Module. Invalid UTF-8 is kept: its bytes have
    tokens too.

    Example:
        >>> from keras_bert.tokenization.byte_pair import byte_alphabet
        >>> tokens = [*byte_alphabet(), "th", "the", "Ġthe", "<s>", "</s>", "<pad>", "<unk>", "<mask>"]
        >>> ids = {token: number for number, token in enumerate(tokens)}
        >>> tokenizer = BytePairTokenizer(ids, [("t", "h"), ("th", "e"), ("Ġ", "the")])
        >>> GraphBytePair(tokenizer).tokenize(["the the", ""])
        <tf.RaggedTensor [[257, 258], []]>
    """

    def __init__(self, tokenizer: BytePairTokenizer):
        super().__init__()
        self.tokenizer = self.vocabulary = tokenizer
        with tf.init_scope():  # also inside of a tf.function
            self._set_up(tokenizer)

    def _set_up(self, tokenizer: BytePairTokenizer) -> None:
        """Makes the tables."""
        nfc = GraphNfc() if tokenizer.normalizes else None
        self._nfc = nfc
        if tokenizer.added_tokens:
            normalize = nfc_with_sources if nfc else None
            self._added = GraphAddedTokens(tokenizer.added_tokens, tokenizer.ids, normalize, nfc)
            # If there are tokens that match the normalised text, the texts between them are normalised already.
            self._nfc = None if any(token.normalized for token in tokenizer.added_tokens) else nfc
        self._num_tokens = len(tokenizer.tokens)
        pairs = as_arrays(tokenizer.pairs)
        lefts, rights, ranks, numbers = pairs
        joined = np.zeros(max(1, len(tokenizer.merges)), np.int32)
        joined[ranks] = numbers
        self._joined = tf.constant(joined)
        makes_earlier = np.zeros(len(joined), np.bool_)
        makes_earlier[ranks_before_earlier(pairs)] = True
        self._makes_earlier = tf.constant(makes_earlier) if makes_earlier.any() else None
        self._ranks = table(tf.constant(lefts * self._num_tokens + rights), tf.constant(ranks, tf.int32), _NO_MERGE)
        self._set_up_units(tokenizer)
        self._whole_words = table(*self._words_of_one_token(tokenizer), np.int32(-1))

    def _set_up_units(self, tokenizer) -> None:
        """Makes what the splitting of texts needs."""
        self._classes = CodePointTable(class_numbers(tokenizer.splits_as_llama_3))
        self._byte_ids = tf.constant(tokenizer.byte_ids, tf.int32)
        self._spans = tf.constant(_spanned_pairs(tokenizer))
        token_bytes = tokenizer.token_bytes
        self._lengths = tf.constant([len(token) for token in token_bytes], tf.int32)
        self._leading = tf.constant([len(token) - len(token.lstrip(b" ")) for token in token_bytes], tf.int32)
        self._trailing = tf.constant([len(token) - len(token.rstrip(b" ")) for token in token_bytes], tf.int32)
        # White space beside a space: the space may belong to a longer word. \C is any byte, also of invalid UTF-8.
        self._run = f"\\C*(?: [{character_class(WHITE_SPACE)}]|[{character_class(WHITE_SPACE)}] )\\C*"

    def _words_of_one_token(self, tokenizer) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the words that are one token, and these tokens."""
        possible = tokenizer.possible_words
        words, numbers = tf.constant([*possible], tf.string), tf.constant([*possible.values()], tf.int32)
        if tokenizer.ignores_merges:
            return words, numbers
        # Joining them all at once takes less time here than one by one in Python.
        ids, splits = self._join(words)
        is_whole = tf.equal(splits[1:] - splits[:-1], 1) & tf.equal(tf.gather(ids, splits[:-1]), numbers)
        return tuple(flagged(is_whole, words, numbers))

    def _plain_ids(self, texts) -> tf.RaggedTensor:
        texts, _ = self._normalized(self._prefixed(as_strings(texts)))
        return self._tokenize_pieces(texts)

    def _plain_ids_of_words(self, words) -> tf.RaggedTensor:
        texts, _ = self._normalized(_with_space(as_strings(words)))
        return self._tokenize(texts)

    def _plain_ids_with_offsets(self, texts) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        sources = as_strings(texts)
        prefixed = self._prefixed(sources)
        texts, places = self._normalized(prefixed)
        ids = self._tokenize(texts)
        _, _, places_of = characters(texts)
        # Positions in the concatenation of all texts.
        lengths = tf.gather(self._lengths, ids.values)
        ends = tf.cumsum(lengths)
        starts = ends - lengths
        text_lengths = tf.strings.length(texts)
        starts = tf.gather(places_of, tf.searchsorted(places_of, starts, side="right") - 1)
        ends = tf.gather(tf.concat([places_of, [tf.reduce_sum(text_lengths)]], 0), tf.searchsorted(places_of, ends))
        first = tf.minimum(starts + tf.gather(self._leading, ids.values), ends)
        last = tf.maximum(ends - tf.gather(self._trailing, ids.values), first)
        if places is not None:
            first, last = places.of_spans(first, last)
        text_lengths = tf.strings.length(prefixed)
        added = text_lengths - tf.strings.length(sources)
        bases = tf.gather(tf.cumsum(text_lengths, exclusive=True) + added, ids.value_rowids())
        return ids, ids.with_values(tf.maximum(first - bases, 0)), ids.with_values(last - bases)

    def _prefixed(self, texts):
        return _with_space(texts) if self.tokenizer.add_prefix_space else texts

    def _normalized(self, texts):
        """Returns the normalised texts and their `Sources`, or the texts and None if they are not normalised."""
        return self._nfc(texts) if self._nfc else (texts, None)

    def _tokenize_pieces(self, texts) -> tf.RaggedTensor:
        """Returns ragged ids. Each distinct piece between spaces is tokenised once.

        A piece includes the preceding space. No word contains a single space in its middle, so texts can be split
        there. But a run of white space is a word, so a text with such a run is one piece.
        """
        has_run = tf.strings.regex_full_match(texts, self._run)
        pieces = tf.strings.split(tf.where(has_run, "", texts), " ")
        firsts = pieces.row_starts()
        values = tf.tensor_scatter_nd_update(
            tf.strings.join([" ", pieces.values]),
            firsts[:, tf.newaxis],
            tf.where(has_run, texts, tf.gather(pieces.values, firsts)),
        )
        different, places = tf.unique(values)
        ids = tf.gather(self._tokenize(different), places)
        splits = tf.gather(ids.row_splits, pieces.row_splits)
        return tf.RaggedTensor.from_row_splits(ids.values, splits, validate=False)

    def _tokenize(self, texts) -> tf.RaggedTensor:
        words, word_splits = self._split(texts)
        different, places = tf.unique(words)
        whole = self._whole_words.lookup(different)
        is_whole = whole >= 0
        parts, part_splits = self._join(*flagged(~is_whole, different))
        values = tf.concat([*flagged(is_whole, whole), parts], 0)
        rows, splits = behind_single(is_whole, part_splits)
        indices = indices_of_rows(splits, tf.gather(rows, places))
        splits = tf.gather(indices.row_splits, word_splits)
        return tf.RaggedTensor.from_row_splits(tf.gather(values, indices.values), splits, validate=False)

    def _split(self, texts):
        """Returns the words of all texts `(words,)`, and their row splits by text int32 `(texts + 1,)`."""
        points, rows, places = characters(texts)
        text_lengths = tf.strings.length(texts)
        text_starts = tf.cumsum(text_lengths, exclusive=True)
        begins = self._word_begins(points, changes(rows))
        word_rows, firsts = flagged(begins, rows, places)
        ends = shifted(firsts, -1, tf.reduce_sum(text_lengths))
        words = tf.strings.substr(
            tf.gather(texts, word_rows), firsts - tf.gather(text_starts, word_rows), ends - firsts
        )
        word_splits = tf.searchsorted(word_rows, tf.range(tf.size(texts, tf.int64) + 1))
        return words, word_splits

    def _word_begins(self, points, begins_text):
        """Returns whether each character begins a word. `begins_text` marks the first character of each text."""
        classes = tf.cast(self._classes(points), tf.int32)
        find = llama_3_word_begins if self.tokenizer.splits_as_llama_3 else gpt_2_word_begins
        return find(points, classes, begins_text) | begins_text

    def _join(self, words):
        """Strings `(words,)` -> ids of all words int32 `(ids,)`, and row splits int32 `(words + 1,)`."""
        units, word_of, spanned = self._units(words)
        cuts = changes(word_of) | tf.concat([tf.zeros_like(units[:1], tf.bool), ~spanned], 0)
        parts = tf.cumsum(tf.cast(cuts, tf.int32)) - 1
        (part_words,) = flagged(cuts, word_of)
        count = tf.size(part_words)
        none = tf.zeros([0], tf.int32)
        _, _, ids, parts = tf.while_loop(
            lambda ids, *_: tf.size(ids) > 0,
            lambda *state: self._join_best_pairs(*state, count),
            (units, parts, none, none),
            shape_invariants=(tf.TensorShape([None]),) * 4,
        )
        order = tf.argsort(parts, stable=True)
        ids, words_of_ids = tf.gather(ids, order), tf.gather(part_words, tf.gather(parts, order))
        return ids, tf.searchsorted(words_of_ids, tf.range(tf.size(words) + 1))

    def _units(self, words):
        """Returns the tokens of words before any are joined, the word of each, and whether a token may span two."""
        raw = bytes_of(words)
        word_of = tf.repeat(tf.range(tf.size(words)), tf.strings.length(words))
        return tf.gather(self._byte_ids, raw), word_of, tf.gather(self._spans, raw[:-1] * 256 + raw[1:])

    def _join_best_pairs(self, ids, parts, done_ids, done_parts, count):
        """Joins in every part all occurrences, from left to right, of the pair that comes first in the merges.

        A part without such a pair moves to `done_ids` and `done_parts`.
        """
        ranks = tf.where(tf.equal(parts[1:], parts[:-1]), self._ranks_of(ids[:-1], ids[1:]), _NO_MERGE)
        best = tf.math.unsorted_segment_min(ranks, parts[:-1], count)
        matches = tf.not_equal(ranks, _NO_MERGE) & tf.equal(ranks, tf.gather(best, parts[:-1]))
        # Overlapping matches arise in runs of one token, as in a a a a: there every second pair is joined.
        places = tf.range(tf.size(ranks))
        begins_run = matches & ~shifted(matches, 1, False)
        (run_starts,) = flagged(begins_run, places)
        runs = tf.maximum(tf.cumsum(tf.cast(begins_run, tf.int32)) - 1, 0)
        run_starts = tf.gather(tf.concat([run_starts, [0]], 0), runs)
        is_joined = matches & tf.equal((places - run_starts) % 2, 0)
        joined = tf.gather(self._joined, tf.where(is_joined, ranks, 0))
        if self._makes_earlier is not None:
            is_joined &= self._is_in_turn(is_joined, joined, ranks, ids, parts, count)
        ids = tf.where(tf.concat([is_joined, [False]], 0), tf.concat([joined, ids[:1]], 0), ids)
        kept = tf.concat([tf.ones_like(ids[:1], tf.bool), ~is_joined], 0)
        goes_on = tf.not_equal(tf.gather(best, parts), _NO_MERGE)
        finished = flagged(kept & ~goes_on, ids, parts)
        ids, parts = flagged(kept & goes_on, ids, parts)
        return ids, parts, tf.concat([done_ids, finished[0]], 0), tf.concat([done_parts, finished[1]], 0)

    def _is_in_turn(self, is_joined, joined, ranks, ids, parts, count):
        """Returns whether each place is joined before its part has a pair that comes earlier in the merges.

        Such a pair is that of a joined token and a neighbour. A place is joined after those on its left.
        """
        places = tf.range(tf.size(ranks))
        may_stop = is_joined & tf.gather(self._makes_earlier, tf.where(is_joined, ranks, 0))
        follows_joined = shifted(is_joined, 2, False)
        places_of, numbers, limits, follows_joined = flagged(may_stop, places, joined, ranks, follows_joined)
        parts_of, no_part, no_id = tf.gather(parts, places_of), tf.constant([-1]), tf.constant([0])
        padded_ids, padded_parts = tf.concat([no_id, ids, no_id], 0), tf.concat([no_part, parts, no_part], 0)
        lefts = tf.where(follows_joined, numbers, tf.gather(padded_ids, places_of))
        rights = tf.gather(padded_ids, places_of + 3)
        is_earlier = [
            tf.equal(tf.gather(padded_parts, neighbours), parts_of) & (self._ranks_of(*pair) < limits)
            for neighbours, pair in ((places_of, (lefts, numbers)), (places_of + 3, (numbers, rights)))
        ]
        stops, stopped = flagged(is_earlier[0] | is_earlier[1], places_of, parts_of)
        return places <= tf.gather(tf.math.unsorted_segment_min(stops, stopped, count), parts[:-1])

    def _ranks_of(self, lefts, rights):
        """Returns the place of each pair of tokens in the merges, or `_NO_MERGE`."""
        return self._ranks.lookup(tf.cast(lefts, tf.int64) * self._num_tokens + tf.cast(rights, tf.int64))


def as_arrays(pairs: Pairs) -> np.ndarray:
    """Packs merges: `{(left, right): (rank, joined)}` -> int64 `[4, pairs]` of left, right, rank and joined."""
    numbers = itertools.chain.from_iterable((*pair, *found) for pair, found in pairs.items())
    return np.fromiter(numbers, np.int64, 4 * len(pairs)).reshape(-1, 4).T


def ranks_before_earlier(pairs: np.ndarray) -> np.ndarray:
    """Returns the ranks of the merges after which an earlier merge may be next: they create a token that it joins.

    All occurrences of any other pair can be joined at once. SentencePiece's merges, in the order of their results, have
    many such ranks; those that Hugging Face's trainer writes have none. `pairs` is what `as_arrays` returns.
    """
    lefts, rights, ranks, joined = pairs
    earliest = np.full(pairs.max(initial=0) + 1, np.iinfo(np.int64).max)
    for numbers in (lefts, rights):
        np.minimum.at(earliest, numbers, ranks)
    return np.sort(ranks[earliest[joined] < ranks])


def bytes_of(texts):
    """Returns the bytes of all texts, int32."""
    return tf.cast(tf.io.decode_raw(tf.strings.reduce_join(texts)[tf.newaxis], tf.uint8)[0], tf.int32)


def characters(texts):
    """Returns the code points of all texts, the text of each, and the byte where each starts in their concatenation."""
    decoded, offsets = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="replace")
    rows = decoded.value_rowids()
    starts = tf.cumsum(tf.strings.length(texts), exclusive=True)
    return decoded.values, rows, tf.cast(offsets.values, tf.int32) + tf.gather(starts, rows)


def _with_space(texts):
    """["the", " fox", ""] -> [" the", " fox", ""]"""
    needs_space = ~tf.strings.regex_full_match(texts, "(| \\C*)")
    return tf.where(needs_space, tf.strings.join([" ", texts]), texts)


def _spanned_pairs(tokenizer: BytePairTokenizer) -> np.ndarray:
    """Returns whether any joined token contains byte a followed by byte b, at index 256 a + b."""
    spanned = np.zeros(1 << 16, np.bool_)
    for _, number in tokenizer.pairs.values():
        for left, right in itertools.pairwise(tokenizer.token_bytes[number]):
            spanned[256 * left + right] = True
    return spanned
