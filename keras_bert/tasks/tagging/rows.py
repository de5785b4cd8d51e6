"""Makes token rows of words with tags.

The first piece of a word has the label of its tag. The other pieces, [CLS], [SEP] and padding have the label -1 and are
ignored, as in TF Model Garden. So do words of overlapping rows, except in one row each.
"""

import bisect
import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from keras_bert.program.options import check_whole
from keras_bert.records import features
from keras_bert.records.token_rows import TokenRanges, TokenRows, join_segments
from keras_bert.tasks.text_rows import token_lists
from keras_bert.tokenization.token_lists import TokenLists


def tagged_rows(
    words: Sequence[Sequence[str]],
    tags: Sequence[Sequence[int]] | None,
    tokenizer,
    max_seq_length: int,
    first_sentence_id: int = 0,
    doc_stride: int | None = None,
) -> tuple[TokenRows, Counter]:
    """Makes rows [CLS] pieces [SEP] of sentences. A sentence that is too long is cut between words into several rows.

    With a `doc_stride` these rows overlap. Each word has its label in one row only: the one with the most context, see
    `rows_with_most_context`.

    A word without pieces (a control character), or with more pieces than fit in a row, becomes one [UNK], so that no
    word and no tag is lost.

    Args:
        words: N lists of words.
        tags: N lists of label ids; None gives the first pieces the label 0, so that they can be found.
        tokenizer: a `GraphForm` or a `PythonForm`.
        max_seq_length: tokens in a row. Below 3 raises `InputError`.
        doc_stride: the largest number of pieces between the beginnings of two rows of a sentence, unless a single word
            has more; None cuts into rows that do not overlap.

    Returns:
        rows of `input_ids`, `segment_ids` and `label_ids`, with the labels `sentence_id` and `sub_sentence_id`, int64
        (rows, 1); and a `Counter` of `cut_sentences` and `unknown_words`.

    Reference: TF Model Garden `tagging_data_lib.py`.
    """
    room = max_seq_length - 2
    check_whole("max_seq_length", max_seq_length, at_least=3)
    pieces, piece_splits, num_unknown = pieces_of_words(
        (word for sentence in words for word in sentence), tokenizer, room
    )
    labels = np.zeros(len(piece_splits) - 1, np.int64)
    if tags is not None:
        labels[:] = [tag for sentence in tags for tag in sentence]

    parts = _rows(np.cumsum([0, *map(len, words)]), piece_splits, room, min(doc_stride or room, room))
    sentence_ids, sub_sentence_ids, first_words, stop_words = np.array(parts, np.int64).T
    firsts = piece_splits[first_words]
    lengths = piece_splits[stop_words] - firsts
    rows, _ = join_segments([TokenRanges(pieces, firsts, lengths)], max_seq_length, tokenizer.vocabulary)
    label_ids = np.full(rows.splits[-1], features.NO_LABEL, np.int32)
    best_rows = rows_with_most_context(first_words, stop_words, piece_splits)
    label_ids[rows.splits[best_rows] + piece_splits[:-1] - firsts[best_rows] + 1] = labels
    rows = dataclasses.replace(
        rows,
        tokens={**rows.tokens, features.LABEL_IDS: label_ids},
        labels={
            features.SENTENCE_ID: first_sentence_id + sentence_ids[:, None],
            features.SUB_SENTENCE_ID: sub_sentence_ids[:, None],
        },
        padding={**rows.padding, features.LABEL_IDS: features.NO_LABEL},
    )
    return rows, Counter(cut_sentences=len(set(sentence_ids[sub_sentence_ids > 0])), unknown_words=num_unknown)


def pieces_of_words(words: Iterable[str], tokenizer, room: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns the pieces of all words, int32 (pieces,), their splits by word, (words + 1,), and the number of words
    that became [UNK] because they have no pieces or too many."""
    found = token_lists(words, tokenizer.tokenize_words)
    ids, lengths = found
    is_replaced = (lengths == 0) | (lengths > room)
    if not is_replaced.any():
        return ids, found.splits, 0
    new_lengths = np.where(is_replaced, 1, lengths)
    pieces = np.full(new_lengths.sum(), tokenizer.vocabulary.unk_id, np.int32)
    pieces[~np.repeat(is_replaced, new_lengths)] = ids[~np.repeat(is_replaced, lengths)]
    return pieces, TokenLists(pieces, new_lengths).splits, int(is_replaced.sum())


def _rows(word_splits: np.ndarray, piece_splits: np.ndarray, room: int, stride: int) -> list[tuple[int, int, int, int]]:
    """Fills rows with as many words as fit; returns (sentence, part, first word, word after the last) of each row.

    The next row of a sentence begins at the last word that begins at most `stride` pieces later, or at the next word.
    """
    rows = []
    piece_splits = piece_splits.tolist()
    for sentence, (first, stop) in enumerate(zip(word_splits[:-1].tolist(), word_splits[1:].tolist(), strict=True)):
        after = first
        part = 0
        while after < stop:
            # The last word whose pieces still fit.
            after = bisect.bisect_right(piece_splits, piece_splits[first] + room, first, stop + 1) - 1
            rows.append((sentence, part, first, after))
            part += 1
            first = max(first + 1, bisect.bisect_right(piece_splits, piece_splits[first] + stride, first, stop + 1) - 1)
    return rows


def rows_with_most_context(first_words: np.ndarray, stop_words: np.ndarray, piece_splits: np.ndarray) -> np.ndarray:
    """Returns, for each word, the row that shows it with the most context on its shorter side.

    As in question answering, a hundredth of the row's length is added, and the first of equal rows wins. Context is
    counted in pieces, before the first piece of the word and after its last one.

    >>> rows_with_most_context(np.array([0, 2]), np.array([5, 6]), np.arange(7)).tolist()
    [0, 0, 0, 0, 1, 1]

    Row r has the words `first_words[r]:stop_words[r]`, int64 (rows,) both, and word w the pieces
    `piece_splits[w]:piece_splits[w + 1]`, int64 (words + 1,). The result, int64 (words,), is in ascending order for the
    rows of sentences one after the other.

    Reference: google-research/bert `run_squad.py` `_check_is_max_context`.
    """
    num_words = stop_words - first_words
    # All pairs (row, word).
    row = np.repeat(np.arange(len(num_words)), num_words)
    word = np.arange(len(row)) - np.repeat(np.cumsum(num_words) - num_words - first_words, num_words)
    begin, end = piece_splits[first_words[row]], piece_splits[stop_words[row]]
    context = np.minimum(piece_splits[word] - begin, end - piece_splits[word + 1])
    score = 100 * context + end - begin
    order = np.lexsort((row, -score, word))
    return row[order][np.unique(word[order], return_index=True)[1]]
