"""Examples with a question and a text that holds the answer, and where in the text the answer is."""

import dataclasses
import re
from collections.abc import Sequence

from keras_bert.program.errors import InputError


@dataclasses.dataclass(frozen=True)
class Answer:
    """A part of a context: its text, and the character that it begins at."""

    text: str
    start: int


@dataclasses.dataclass(frozen=True)
class QuestionExamples:
    """Questions about contexts, with or without answers.

    Attributes:
        ids: N names of the questions, all different.
        questions: N texts, none of them empty.
        contexts: N texts, none of them empty; questions about the same text repeat it.
        answers: for each question its answers, none for one that the context does not answer; or None.
        source: where they are from, for messages.
        weights: how much each question counts in training, N numbers; or None.

    Raises:
        InputError: there are none, one is empty or there twice, or the numbers disagree.
    """

    ids: Sequence[str]
    questions: Sequence[str]
    contexts: Sequence[str]
    answers: Sequence[Sequence[Answer]] | None = None
    source: str = "the examples"
    weights: Sequence[float] | None = None

    def __post_init__(self):
        if not self.questions:
            raise InputError(f"{self.source}: there is no question.")
        names = ("ids", "questions", "contexts", "answers", "weights")
        columns = {name: getattr(self, name) for name in names}
        counts = {name: len(values) for name, values in columns.items() if values is not None}
        if len(set(counts.values())) > 1:
            raise InputError(f"{self.source}: there must be as many of each. Received: {counts}")
        seen = set()
        for name, question, context in zip(self.ids, self.questions, self.contexts, strict=True):
            if name in seen:
                raise InputError(f"{self.source}: the id {name!r} is there twice. Answers are given by id.")
            seen.add(name)
            if not question.strip() or not context.strip():
                kind = "context" if question.strip() else "question"
                raise InputError(f"{self.source}: the {kind} of {name!r} is empty. Remove it or fill it in.")

    def __len__(self):
        return len(self.questions)

    def part(self, first: int, stop: int) -> "QuestionExamples":
        """Returns the questions `first:stop`."""
        answers, weights = (values and values[first:stop] for values in (self.answers, self.weights))
        return QuestionExamples(
            self.ids[first:stop], self.questions[first:stop], self.contexts[first:stop], answers, self.source, weights
        )


def find_answer(context: str, answer: Answer) -> tuple[int, int] | None:
    """Returns the characters `start:end` of an answer in its context, or None where it does not occur.

    It need not stand where it says: many data sets count in other units, or cut the context. The nearest occurrence
    is taken; white space may differ.

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
