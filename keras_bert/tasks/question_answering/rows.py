"""Encodes questions and contexts as windows.

A window is a row [CLS] question [SEP] part of the context [SEP]. A context that is too long for one window is cut into
several overlapping windows. Tokens and windows are those of google-research/bert `run_squad.py`. The tokenizer's
offsets map each context token to its characters.
"""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.tasks.tokenized_texts import TokenizedTexts, tokenize_texts

# The number of windows whose tokens are copied together; it limits the memory for indices.
_RANGES_AT_ONCE = 4096


@dataclasses.dataclass(frozen=True)
class WindowOptions:
    """How contexts are cut.

    Args:
        max_seq_length: tokens of a window, including the question and special tokens.
        doc_stride: tokens between the beginnings of two windows.
        max_query_length: longer questions are cut to this many tokens.
        num_special: special tokens of a window; 3 for [CLS] question [SEP] context [SEP].

    Raises:
        InputError: there is no room for the context, or a number is below 1.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64
    num_special: int = 3

    def __post_init__(self):
        if self.doc_stride < 1 or self.max_query_length < 1:
            raise InputError(
                "doc_stride and max_query_length must be 1 or more. "
                f"Received: {self.doc_stride} and {self.max_query_length}"
            )
        if self.max_seq_length <= self.max_query_length + self.num_special:
            raise InputError(
                f"A window of max_seq_length={self.max_seq_length} tokens has no room for a context beside a question "
                f"of max_query_length={self.max_query_length} and {self.num_special} special tokens. Raise "
                "max_seq_length or lower max_query_length."
            )

    @classmethod
    def of_model(cls, model, max_seq_length: int) -> "WindowOptions":
        """Returns the options of a `SpanClassifier`. At least half of a row is kept for the context."""
        num_special = model.vocabulary.special_tokens.num_special(2)
        max_query_length = max(1, min(model.max_query_length, (max_seq_length - num_special) // 2))
        return cls(max_seq_length, model.doc_stride, max_query_length, num_special)


@dataclasses.dataclass(frozen=True)
class Windows:
    """The windows of Q questions, in the order of the questions.

    There are W windows with T tokens in total. Context tokens are numbered from 0 in each context.

    Attributes:
        ids: int32 (T,), the concatenated rows, with special tokens and without padding.
        splits: int64 (W + 1,). Row w is `ids[splits[w]:splits[w + 1]]`.
        question: int (W,), the number of each window's question.
        first_token, num_tokens: int (W,), the first context token of each window, and their number.
        first_column: int (W,), the column of `first_token` in the row.
        context_of: int (Q,), the index in `contexts` of each question's context.
        contexts: the tokens of the distinct contexts.
        num_cut_questions: number of questions that were cut.
        options: how the contexts were cut.
        pad_id: the id of padding.
    """

    ids: np.ndarray
    splits: np.ndarray
    question: np.ndarray
    first_token: np.ndarray
    num_tokens: np.ndarray
    first_column: np.ndarray
    context_of: np.ndarray
    contexts: TokenizedTexts
    num_cut_questions: int
    options: WindowOptions
    pad_id: int

    @functools.cached_property
    def segment_ids(self) -> np.ndarray:
        """int32 (T,): 0 for [CLS] question [SEP], 1 for context [SEP]."""
        return (self.columns >= np.repeat(self.first_column, np.diff(self.splits))).astype(np.int32)

    @functools.cached_property
    def columns(self) -> np.ndarray:
        """int32 (T,): the column of each token in its row."""
        lengths = np.diff(self.splits)
        return np.arange(len(self.ids), dtype=np.int32) - np.repeat(self.splits[:-1].astype(np.int32), lengths)

    @functools.cached_property
    def rows(self) -> dict[str, np.ndarray]:
        """The rows with padding: `input_ids`, `input_mask`, `segment_ids`, int64 (W, options.max_seq_length)."""
        is_real = np.arange(self.options.max_seq_length) < np.diff(self.splits)[:, None]
        rows = {
            features.INPUT_IDS: np.full(is_real.shape, self.pad_id, np.int64),
            features.INPUT_MASK: is_real.astype(np.int64),
            features.SEGMENT_IDS: np.zeros(is_real.shape, np.int64),
        }
        rows[features.INPUT_IDS][is_real] = self.ids
        rows[features.SEGMENT_IDS][is_real] = self.segment_ids
        return rows

    def __len__(self):
        return len(self.question)

    def offsets(self, question: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the start and end characters of each context token of a question, int32 (tokens,) each."""
        return self.contexts.offsets(self.context_of[question])

    def positions(self, spans: Sequence[tuple[int, int] | None]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the columns of the first and the last token of the answers, int (W,) each; 0 if a window lacks the
        answer.

        Args:
            spans: for each question, the characters `start:end` of its answer in the context, or None.
        """
        return self.columns_of([self.tokens_of(question, span) for question, span in enumerate(spans)])

    def columns_of(self, tokens: Sequence[tuple[int, int] | None]) -> tuple[np.ndarray, np.ndarray]:
        """As `positions`, for answers that are given by their first and last context token."""
        found = np.array([pair or (-1, -1) for pair in tokens], np.int64).reshape(-1, 2)
        first, last = found[self.question].T
        is_seen = (first >= self.first_token) & (last < self.first_token + self.num_tokens)
        shift = self.first_column - self.first_token
        return np.where(is_seen, first + shift, 0), np.where(is_seen, last + shift, 0)

    def tokens_of(self, question: int, span: tuple[int, int] | None) -> tuple[int, int] | None:
        """Returns the first and the last context token that overlap the characters `span`, or None without overlap."""
        if span is None:
            return None
        starts, ends = self.offsets(question)
        first = int(np.searchsorted(ends, span[0], side="right"))
        last = int(np.searchsorted(starts, span[1], side="left")) - 1
        return (first, last) if first <= last else None

    @functools.cached_property
    def best_window(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns, for each context token, the window that shows it with the most context on its shorter side.

        Only this window may score answers that begin at the token.

        Returns:
            int64 (tokens,): the number of the window among those of its question, from 0, for the context tokens of all
            questions; and int64 (Q + 1,): the splits by question.

        Reference: google-research/bert `_check_is_max_context`.
        """
        num_tokens = self.contexts.lengths[self.context_of]
        splits = np.concatenate([[0], np.cumsum(num_tokens)])
        first_window = np.searchsorted(self.question, np.arange(len(num_tokens)))
        # All pairs (window, context token).
        window = np.repeat(np.arange(len(self)), self.num_tokens)
        left = np.arange(len(window)) - np.repeat(np.cumsum(self.num_tokens) - self.num_tokens, self.num_tokens)
        right = self.num_tokens[window] - 1 - left
        token = splits[self.question[window]] + self.first_token[window] + left
        # Google's formula, with its rounding, so that ties are resolved in the same way: the first window wins.
        score = np.minimum(left, right) + 0.01 * self.num_tokens[window]
        best_score = np.full(splits[-1], -1.0)
        np.maximum.at(best_score, token, score)
        best = np.full(splits[-1], len(self))
        np.minimum.at(best, token, np.where(score == best_score[token], window, len(self)))
        return best - np.repeat(first_window, num_tokens), splits


def make_windows(questions: Sequence[str], contexts: Sequence[str], tokenizer, options: WindowOptions) -> Windows:
    """Cuts contexts into windows.

    Args:
        questions, contexts: Q strings each. A context that repeats is tokenised once.
        tokenizer: a `GraphForm` or a `PythonForm`.

    Example, with windows of 8 tokens and doc_stride 2, a question of one token and a context a b c d e f:
        [CLS] q [SEP] a b c d [SEP]
        [CLS] q [SEP] c d e f [SEP]

    Reference: google-research/bert `convert_examples_to_features`.
    """
    number_of = {context: number for number, context in enumerate(dict.fromkeys(contexts))}
    context_of = np.array([number_of[context] for context in contexts], np.int64)
    tokens = tokenize_texts(list(number_of), tokenizer)
    asked = tokenize_texts(questions, tokenizer)
    num_cut = int((asked.lengths > options.max_query_length).sum())
    asked_lengths = np.minimum(asked.lengths, options.max_query_length)

    room = options.max_seq_length - asked_lengths - options.num_special
    step = np.minimum(room, options.doc_stride)
    lengths = tokens.lengths[context_of]
    num_windows = 1 + np.maximum(0, -(-(lengths - room) // step))
    question = np.repeat(np.arange(len(context_of)), num_windows)
    number = np.arange(len(question)) - np.repeat(np.cumsum(num_windows) - num_windows, num_windows)
    first_token = number * step[question]
    num_tokens = np.minimum(lengths[question] - first_token, room[question])
    first_column = asked_lengths[question] + options.num_special - 1

    vocabulary = tokenizer.vocabulary
    splits = np.concatenate([[0], np.cumsum(first_column + num_tokens + 1)])
    ids = np.full(splits[-1], vocabulary.sep_id, np.int32)
    ids[splits[:-1]] = vocabulary.cls_id
    _copy_ranges(ids, splits[:-1] + 1, asked.ids, asked.splits[question], asked_lengths[question])
    _copy_ranges(
        ids, splits[:-1] + first_column, tokens.ids, tokens.splits[context_of[question]] + first_token, num_tokens
    )
    return Windows(
        ids,
        splits,
        question,
        first_token,
        num_tokens,
        first_column,
        context_of,
        tokens,
        num_cut,
        options,
        vocabulary.pad_id,
    )


def _copy_ranges(target: np.ndarray, target_firsts, source: np.ndarray, source_firsts, lengths) -> None:
    """Copies ranges of a flat array: for each n, `lengths[n]` values from `source_firsts[n]` to `target_firsts[n]`.

    Example:
        target [0, 0, 0, 0, 0], target_firsts [3, 0], source [7, 8, 9], source_firsts [1, 0], lengths [2, 1]
        -> target [7, 0, 0, 8, 9]
    """
    for first in range(0, len(lengths), _RANGES_AT_ONCE):
        part = slice(first, first + _RANGES_AT_ONCE)
        counts = lengths[part]
        inside = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        target[np.repeat(target_firsts[part], counts) + inside] = source[
            np.repeat(source_firsts[part], counts) + inside
        ]
