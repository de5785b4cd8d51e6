"""Byte-level BPE inside the TensorFlow graph, with byte offsets: for tf.data and for SavedModels.

It returns the ids of byte_pair.py, and the same offsets in bytes. The steps:

1. Code points get one of four classes from the frozen Unicode table. Words begin where the classes of neighbours
   differ. This is GPT-2's pattern without a regular expression.
2. Each distinct word is looked up once in a table of the words that are one token.
3. The other words are cut between bytes that no token spans. All parts are joined at the same time: each round joins
   the best pair of each part, until no part has one.
4. The tokens of a text are its bytes in order, so the sum of their lengths gives the offsets.

All operations are core TensorFlow operations, which TF Serving includes.
"""

import itertools

import numpy as np
import tensorflow as tf

from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.byte_pair import BytePairTokenizer
from keras_bert.tokenization.byte_pair_words import WHITE_SPACE
from keras_bert.tokenization.exact_graph import (
    CodePointTable,
    as_strings,
    changes,
    flagged,
    rows_of_first,
    splits_behind_single,
    table,
)
from keras_bert.tokenization.graph_added_tokens import GraphAddedTokens
from keras_bert.tokenization.graph_nfc import GraphNfc
from keras_bert.tokenization.nfc import nfc_with_sources
from keras_bert.tokenization.tokenizer import GraphForm

_OTHER, _LETTER, _NUMBER, _SPACE = range(4)
_NO_CLASS = 4  # beyond the ends of a text
_NO_MERGE = np.int32(2**31 - 1)


class GraphBytePair(tf.Module, GraphForm):
    """Byte-level BPE in the graph: strings -> ids, equal to `BytePairTokenizer`.

    It works eagerly, in tf.data, in tf.function, and inside a saved tf.Module. Invalid UTF-8 is kept: its bytes have
    tokens too.

    Args:
        tokenizer: `BytePairTokenizer`.

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
        nfc = GraphNfc() if tokenizer.normalizes else None
        self._nfc = nfc
        if tokenizer.added_tokens:
            normalize = nfc_with_sources if nfc else None
            self._added = GraphAddedTokens(tokenizer.added_tokens, tokenizer.ids, normalize, nfc)
            # If there are tokens that match the normalised text, the texts between them are normalised already.
            self._nfc = None if any(token.normalized for token in tokenizer.added_tokens) else nfc
        self._classes = CodePointTable(_class_numbers())
        self._byte_ids = tf.constant(tokenizer.byte_ids, tf.int32)
        self._spans = tf.constant(_spanned_pairs(tokenizer))
        token_bytes = tokenizer.token_bytes
        self._lengths = tf.constant([len(token) for token in token_bytes], tf.int32)
        self._leading = tf.constant([len(token) - len(token.lstrip(b" ")) for token in token_bytes], tf.int32)
        self._trailing = tf.constant([len(token) - len(token.rstrip(b" ")) for token in token_bytes], tf.int32)
        self._num_tokens = len(token_bytes)
        joined = np.zeros(max(1, len(tokenizer.merges)), np.int32)
        for rank, number in tokenizer.pairs.values():
            joined[rank] = number
        self._joined = tf.constant(joined)
        keys = [left * self._num_tokens + right for left, right in tokenizer.pairs]
        ranks = [rank for rank, _ in tokenizer.pairs.values()]
        self._ranks = table(tf.constant(keys, tf.int64), tf.constant(ranks, tf.int32), _NO_MERGE)
        numbers = sorted({*tokenizer.byte_ids, *(number for _, number in tokenizer.pairs.values())})
        whole = [number for number in numbers if tokenizer.join(token_bytes[number]) == [number]]
        self._whole_words = table(
            tf.constant([token_bytes[number] for number in whole]), tf.constant(whole, tf.int32), np.int32(-1)
        )

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
        _, _, characters = _characters(texts)
        # Positions in the concatenation of all texts.
        lengths = tf.gather(self._lengths, ids.values)
        ends = tf.cumsum(lengths)
        starts = ends - lengths
        text_lengths = tf.strings.length(texts)
        starts = tf.gather(characters, tf.searchsorted(characters, starts, side="right") - 1)
        ends = tf.gather(tf.concat([characters, [tf.reduce_sum(text_lengths)]], 0), tf.searchsorted(characters, ends))
        first = tf.minimum(starts + tf.gather(self._leading, ids.values), ends)
        last = tf.maximum(ends - tf.gather(self._trailing, ids.values), first)
        if places is not None:
            first, last = places.of_spans(first, last)
        text_lengths = tf.strings.length(prefixed)
        added = text_lengths - tf.strings.length(sources)
        bases = tf.gather(tf.cumsum(text_lengths, exclusive=True) + added, ids.value_rowids())
        return ids, ids.with_values(tf.maximum(first - bases, 0)), ids.with_values(last - bases)

    def _prefixed(self, texts):
        if not self.tokenizer.add_prefix_space:
            return texts
        return _with_space(texts)

    def _normalized(self, texts):
        """Returns the normalised texts and their `Sources`, or the texts and None if they are not normalised."""
        return self._nfc(texts) if self._nfc else (texts, None)

    def _tokenize_pieces(self, texts) -> tf.RaggedTensor:
        """Returns ragged ids. Each distinct piece between spaces is tokenised once.

        A piece includes the preceding space. No word contains a single space in its middle, so texts can be split
        there. But a run of spaces is a word, so a text with such a run is one piece.
        """
        has_run = tf.strings.regex_full_match(texts, "(?s).*  .*")
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
        # The rows of the distinct words: first those that are one token, then the joined ones.
        (whole,) = flagged(is_whole, whole)
        values = tf.concat([whole, parts], 0)
        begins = splits_behind_single(tf.size(whole), part_splits)
        rows = tf.gather(rows_of_first(is_whole), places)
        firsts = tf.gather(begins, rows)
        counts = tf.gather(begins, rows + 1) - firsts
        token_splits = tf.concat([[0], tf.cumsum(counts)], 0)
        indices = tf.range(token_splits[-1]) + tf.repeat(firsts - token_splits[:-1], counts)
        splits = tf.cast(tf.gather(token_splits, word_splits), tf.int64)
        return tf.RaggedTensor.from_row_splits(tf.gather(values, indices), splits, validate=False)

    def _split(self, texts):
        """Splits texts into words.

        Returns:
            The words of all texts `(words,)`, and their row splits by text int32 `(texts + 1,)`.
        """
        points, rows, characters = _characters(texts)
        text_lengths = tf.strings.length(texts)
        text_starts = tf.cumsum(text_lengths, exclusive=True)
        begins = self._word_begins(points, changes(rows))
        word_rows, firsts = flagged(begins, rows, characters)
        ends = tf.concat([firsts[1:], [tf.reduce_sum(text_lengths)]], 0)[: tf.size(firsts)]
        words = tf.strings.substr(
            tf.gather(texts, word_rows), firsts - tf.gather(text_starts, word_rows), ends - firsts
        )
        word_splits = tf.searchsorted(word_rows, tf.range(tf.size(texts, tf.int64) + 1))
        return words, word_splits

    def _word_begins(self, points, begins_text):
        """Returns whether each character begins a word. `begins_text` marks the first character of each text."""
        classes = tf.cast(self._classes(points), tf.int32)
        ends_text = tf.concat([begins_text[1:], tf.ones_like(begins_text[:1])], 0)
        before = tf.where(begins_text, _NO_CLASS, _shifted(classes, 1, _NO_CLASS))
        behind = tf.where(ends_text, _NO_CLASS, _shifted(classes, -1, _NO_CLASS))
        follows_blank = ~begins_text & _shifted(tf.equal(points, ord(" ")), 1, False)
        # Letters, numbers, others: a word begins where the class changes, unless the space before has begun it.
        begins_run = tf.not_equal(classes, before) & ~follows_blank
        # The last white space before a word does not belong to the run of white space.
        begins_space = tf.not_equal(before, _SPACE) | (tf.not_equal(behind, _SPACE) & tf.not_equal(behind, _NO_CLASS))
        begins = tf.where(tf.equal(classes, _SPACE), begins_space, begins_run)
        begins = tf.cond(
            tf.reduce_any(begins & tf.equal(points, ord("'"))),
            lambda: _with_contractions(points, begins, ends_text),
            lambda: begins,
        )
        return begins | begins_text

    def _join(self, words):
        """Strings `(words,)` -> ids of all words int32 `(ids,)`, and row splits int32 `(words + 1,)`."""
        raw = tf.cast(tf.io.decode_raw(tf.strings.reduce_join(words)[tf.newaxis], tf.uint8)[0], tf.int32)
        word_of = tf.repeat(tf.range(tf.size(words)), tf.strings.length(words))
        spanned = tf.gather(self._spans, raw[:-1] * 256 + raw[1:])
        cuts = changes(word_of) | tf.concat([tf.zeros_like(raw[:1], tf.bool), ~spanned], 0)
        parts = tf.cumsum(tf.cast(cuts, tf.int32)) - 1
        (part_words,) = flagged(cuts, word_of)
        count = tf.size(part_words)
        none = tf.zeros([0], tf.int32)
        _, _, ids, parts = tf.while_loop(
            lambda ids, *_: tf.size(ids) > 0,
            lambda *state: self._join_best_pairs(*state, count),
            (tf.gather(self._byte_ids, raw), parts, none, none),
            shape_invariants=(tf.TensorShape([None]),) * 4,
        )
        order = tf.argsort(parts, stable=True)
        ids, words_of_ids = tf.gather(ids, order), tf.gather(part_words, tf.gather(parts, order))
        return ids, tf.searchsorted(words_of_ids, tf.range(tf.size(words) + 1))

    def _join_best_pairs(self, ids, parts, done_ids, done_parts, count):
        """Joins in every part all occurrences, from left to right, of the pair that comes first in the merges.

        A part without such a pair moves to `done_ids` and `done_parts`.
        """
        keys = tf.cast(ids[:-1], tf.int64) * self._num_tokens + tf.cast(ids[1:], tf.int64)
        ranks = tf.where(tf.equal(parts[1:], parts[:-1]), self._ranks.lookup(keys), _NO_MERGE)
        best = tf.math.unsorted_segment_min(ranks, parts[:-1], count)
        matches = tf.not_equal(ranks, _NO_MERGE) & tf.equal(ranks, tf.gather(best, parts[:-1]))
        # Overlapping matches arise in runs of one token, as in a a a a: there every second pair is joined.
        places = tf.range(tf.size(ranks))
        begins_run = matches & ~_shifted(matches, 1, False)
        (run_starts,) = flagged(begins_run, places)
        runs = tf.maximum(tf.cumsum(tf.cast(begins_run, tf.int32)) - 1, 0)
        run_starts = tf.gather(tf.concat([run_starts, [0]], 0), runs)
        is_joined = matches & tf.equal((places - run_starts) % 2, 0)
        joined = tf.gather(self._joined, tf.where(is_joined, ranks, 0))
        at_end = tf.zeros_like(ids[:1])
        ids = tf.where(_with_end(is_joined), tf.concat([joined, at_end], 0), ids)
        kept = tf.concat([tf.ones_like(ids[:1], tf.bool), ~is_joined], 0)
        goes_on = tf.not_equal(tf.gather(best, parts), _NO_MERGE)
        finished = flagged(kept & ~goes_on, ids, parts)
        ids, parts = flagged(kept & goes_on, ids, parts)
        return ids, parts, tf.concat([done_ids, finished[0]], 0), tf.concat([done_parts, finished[1]], 0)


def _characters(texts):
    """Returns the code points of all texts, the text of each, and the byte where each starts in their concatenation."""
    decoded, offsets = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="replace")
    rows = decoded.value_rowids()
    starts = tf.cumsum(tf.strings.length(texts), exclusive=True)
    return decoded.values, rows, tf.cast(offsets.values, tf.int32) + tf.gather(starts, rows)


def _with_contractions(points, begins, ends_text):
    """Makes 's 't 'm 'd 're 've 'll separate words if the apostrophe begins a word."""
    has_next = ~ends_text
    second = tf.where(has_next, _shifted(points, -1, 0), 0)
    third = tf.where(has_next & _shifted(has_next, -1, False), _shifted(points, -2, 0), 0)
    is_apostrophe = begins & tf.equal(points, ord("'"))
    is_short = is_apostrophe & _is_any_of(second, "stmd")
    pairs = [tf.equal(second, ord(pair[0])) & tf.equal(third, ord(pair[1])) for pair in ("re", "ve", "ll")]
    is_long = is_apostrophe & (pairs[0] | pairs[1] | pairs[2])
    begins &= ~_shifted(is_short | is_long, 1, False)
    return begins | _shifted(is_short, 2, False) | _shifted(is_long, 3, False)


def _is_any_of(points, characters: str):
    return tf.reduce_any(tf.equal(points[:, tf.newaxis], [ord(character) for character in characters]), axis=1)


def _shifted(values, places: int, fill):
    """Shifts values, filling with 0 here: [1, 2, 3] -> [0, 1, 2] by 1 place, [2, 3, 0] by -1."""
    padding = tf.fill([abs(places)], tf.cast(fill, values.dtype))
    if places > 0:
        return tf.concat([padding, values], 0)[: tf.size(values)]
    return tf.concat([values, padding], 0)[-places:]


def _with_end(flags):
    """[True] -> [True, False]"""
    return tf.concat([flags, [False]], 0)


def _with_space(texts):
    """["the", " fox", ""] -> [" the", " fox", ""]"""
    needs_space = ~tf.strings.regex_full_match(texts, "(?s)(| .*)")
    return tf.where(needs_space, tf.strings.join([" ", texts]), texts)


def _class_numbers() -> np.ndarray:
    """Returns the class of every code point: letter, number, white space or other."""
    classes = np.full(0x110000, _OTHER, np.uint8)
    classes[list(unicode_table.letters())] = _LETTER
    classes[list(unicode_table.numbers())] = _NUMBER
    classes[list(WHITE_SPACE)] = _SPACE
    return classes


def _spanned_pairs(tokenizer: BytePairTokenizer) -> np.ndarray:
    """Returns whether any joined token contains byte a followed by byte b, at index 256 a + b."""
    spanned = np.zeros(1 << 16, np.bool_)
    for _, number in tokenizer.pairs.values():
        for left, right in itertools.pairwise(tokenizer.token_bytes[number]):
            spanned[256 * left + right] = True
    return spanned
