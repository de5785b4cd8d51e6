"""Examples with a question, a context, and the answers in the context."""

import dataclasses
import re
from collections.abc import Sequence

from keras_bert.program.errors import InputError
from keras_bert.tasks.examples import Examples, check_weights


@dataclasses.dataclass(frozen=True)
class Answer:
    """A part of a context: its text, and the index of its first character."""

    text: str
    start: int


@dataclasses.dataclass(frozen=True)
class QuestionExamples(Examples):
    """N questions about contexts, with or without answers, and with or without weights for training.

    Raises:
        InputError: there are no questions, a text is empty, an id is there twice, or the lengths differ.
    """

    per_example = ("ids", "questions", "contexts", "answers", "weights")

    ids: Sequence[str]
    questions: Sequence[str]
    contexts: Sequence[str]  # questions about the same text repeat it
    answers: Sequence[Sequence[Answer]] | None = None  # no answers to a question that the context does not answer
    source: str = "the examples"  # where the examples come from, for messages
    weights: Sequence[float] | None = None
    may_be_empty: bool = False  # whether questions and contexts may be empty

    def __post_init__(self):
        if not self.questions:
            raise InputError(f"{self.source}: there is no question.")
        columns = {name: getattr(self, name) for name in self.per_example}
        counts = {name: len(values) for name, values in columns.items() if values is not None}
        if len(set(counts.values())) > 1:
            raise InputError(f"{self.source}: the columns must have the same length. Received: {counts}")
        check_weights(self)
        seen = set()
        for name, question, context in zip(self.ids, self.questions, self.contexts, strict=True):
            if name in seen:
                raise InputError(f"{self.source}: the id {name!r} is there twice. Answers are given by id.")
            seen.add(name)
            if not self.may_be_empty and (not question.strip() or not context.strip()):
                kind = "context" if question.strip() else "question"
                raise InputError(f"{self.source}: the {kind} of {name!r} is empty. Remove it or fill it in.")


def find_answer(context: str, answer: Answer) -> tuple[int, int] | None:
    """Returns the characters `start:end` of an answer in its context, or None if it does not occur.

    `answer.start` may be wrong: many data sets count in other units, or cut the context. The occurrence nearest to it
    is returned; white space may differ.

    >>> find_answer("A b, a b, a b.", Answer("a  b", 7))
    (5, 8)
    """
    if answer.start >= 0 and answer.text.strip() and context.startswith(answer.text, answer.start):
        return answer.start, answer.start + len(answer.text)
    words = answer.text.split()
    if not words:
        return None
    matches = re.finditer(r"\s+".join(map(re.escape, words)), context)
    return min((match.span() for match in matches), key=lambda span: abs(span[0] - answer.start), default=None)
