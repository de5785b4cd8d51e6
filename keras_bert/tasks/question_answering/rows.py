"""Makes windows of questions and contexts, and locates the answers of training data in them.

A window is a row [CLS] question [SEP] part of the context [SEP]. A context that is too long for one window is cut into
several overlapping windows. Tokens and windows are those of google-research/bert `run_squad.py`.
"""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.options import Options, option
from keras_bert.records.token_rows import TokenRanges, TokenRows, cut_overlapping, join_segments
from keras_bert.tasks.question_answering.examples import QuestionExamples, find_answer
from keras_bert.tasks.text_rows import TokenizedTexts, token_lists, tokenize_texts

# The most question ids that a note lists.
_MOST_NAMES = 5


@dataclasses.dataclass(frozen=True)
class WindowOptions(Options):
    """How contexts are cut.

    Args:
        max_seq_length: tokens of a window, including the question and special tokens.
        doc_stride: tokens between the beginnings of two windows.
        max_query_length: longer questions are cut to this many tokens.
        num_special: special tokens of a window; 3 for [CLS] question [SEP] context [SEP].

    Raises:
        InputError: there is no room for the context.
    """

    max_seq_length: int = 384
    doc_stride: int = option(128, at_least=1)
    max_query_length: int = option(64, at_least=1)
    num_special: int = 3

    def __post_init__(self):
        super().__post_init__()
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
    """The W windows of Q questions, in the order of the questions. Tokens are numbered from 0 in each context."""

    rows: TokenRows
    question: np.ndarray  # int (W,), the number of each window's question
    first_token: np.ndarray  # int (W,), the first context token of each window
    num_tokens: np.ndarray  # int (W,), the number of context tokens
    first_column: np.ndarray  # int (W,), the column of `first_token` in the row
    context_of: np.ndarray  # int (Q,), the index in `contexts` of each question's context
    contexts: TokenizedTexts  # the distinct ones
    num_cut_questions: int
    options: WindowOptions

    def __len__(self):
        return len(self.question)

    def offsets(self, question: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the start and end characters of each context token of a question, int32 (tokens,) each."""
        return self.contexts.offsets(self.context_of[question])

    def positions(self, spans: Sequence[tuple[int, int] | None]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the columns of the first and the last token of the answers, int (W,) each; 0 if a window lacks the
        answer. `spans` has the characters `start:end` of the answer to each question in its context, or None."""
        tokens = [self.tokens_of(question, span) or (-1, -1) for question, span in enumerate(spans)]
        found = np.array(tokens, np.int64).reshape(-1, 2)
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
        splits = np.concatenate([[0], np.cumsum(self.contexts.lengths[self.context_of])])
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
        return best - np.searchsorted(self.question, self.question)[best], splits


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
    asked = token_lists(questions, tokenizer.tokenize)
    asked_lengths = np.minimum(asked.lengths, options.max_query_length)

    room = options.max_seq_length - asked_lengths - options.num_special
    begins = tokens.splits[context_of]
    parts, question = cut_overlapping(
        TokenRanges(tokens.ids, begins, tokens.lengths[context_of]), room, options.doc_stride
    )
    asked_in_rows = TokenRanges(asked.values, asked.firsts[question], asked_lengths[question])
    rows, _ = join_segments([asked_in_rows, parts], options.max_seq_length, tokenizer.vocabulary)
    return Windows(
        rows,
        question,
        parts.firsts - begins[question],
        parts.lengths,
        asked_in_rows.lengths + options.num_special - 1,
        context_of,
        tokens,
        int((asked.lengths > options.max_query_length).sum()),
        options,
    )


def check_training_questions(train: QuestionExamples, version_2_with_negative: bool) -> None:
    """Raises `InputError` if no question has an answer, or if one has none without `version_2_with_negative`."""
    if not any(train.answers):
        raise InputError(f"{train.source}: no question has an answer. There is nothing to train on.")
    without = next((name for name, answers in zip(train.ids, train.answers, strict=True) if not answers), None)
    if without is not None and not version_2_with_negative:
        raise InputError(
            f"{train.source}: the question {without!r} has no answer. If some questions are meant to have none, as in "
            "SQuAD 2.0, say so: --version_2_with_negative"
        )


def locate_answers(
    examples: QuestionExamples, windows: Windows
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Sequence[str]]:
    """Finds the first answer of each of Q questions in its W windows.

    Returns:
        the columns at which answers begin and end, int (W,) each. They are 0 for windows that do not contain the whole
        answer: as in google-research/bert, the model is trained to find no answer there. Then bool (Q,), false for
        questions that cannot be used for training: they have an answer, but it is not in the context or has no tokens.
        And sentences that report how many answers did not fit, and why.
    """
    spans, found, lost, moved, without_tokens, cut = [], [], [], [], [], []
    for number, answers in enumerate(examples.answers):
        answer = answers[0] if answers else None
        span = answer and find_answer(examples.contexts[number], answer)
        place = windows.tokens_of(number, span)
        spans.append(span)
        if answer and span is None:
            lost.append(number)
        elif answer and place is None:
            without_tokens.append(number)
        elif answer:
            found.append(number)
            starts, ends = windows.offsets(number)
            if span[0] != answer.start:
                moved.append(number)
            if starts[place[0]] < span[0] or ends[place[1]] > span[1]:
                cut.append(number)
    starts, ends = windows.positions(spans)
    is_seen = np.zeros(len(examples), bool)
    is_seen[windows.question[starts > 0]] = True
    unseen = [number for number in found if not is_seen[number]]
    is_known = np.ones(len(examples), bool)
    is_known[lost + without_tokens] = False
    kinds = [
        (lost, "have an answer that is not in their context: they are not used for training"),
        (without_tokens, "have an answer without tokens: they are not used for training"),
        (moved, "have an answer that is not at its answer_start: the nearest occurrence is used"),
        (cut, "have an answer that begins or ends inside a token: the whole token is used"),
        (unseen, "have an answer that no window contains in full: their windows are trained as having no answer"),
    ]
    return starts, ends, is_known, [_note(examples, *kind) for kind in kinds if kind[0]]


def _note(examples: QuestionExamples, numbers: list[int], what: str) -> str:
    names = ", ".join(map(str, (examples.ids[number] for number in numbers[:_MOST_NAMES])))
    more = ", ..." if len(numbers) > _MOST_NAMES else ""
    return f"{examples.source}: {len(numbers)} of {len(examples)} questions {what} ({names}{more})"
