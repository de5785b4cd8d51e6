"""What a loaded export of a `SpanClassifier` can do beside answering texts: other options of its answers."""

from typing import Any, ClassVar

from keras_bert.tasks.fitting import text_task
from keras_bert.tasks.question_answering.answers import Candidate, FoundAnswer
from keras_bert.tasks.question_answering.examples import QuestionExamples
from keras_bert.tasks.served_values import byte_places, padded

_BEST = {"answer": ("",), "start": (-1,), "end": (-1,), "probability": (0.0,)}
_CANDIDATES = {
    **{"answers": ("", None), "starts": (-1, None), "ends": (-1, None)},
    **{"probabilities": (0.0, None), "is_null": (False, None)},
}


class LoadedSpanClassifier:
    """Methods of loaded exports of a `SpanClassifier`."""

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        *,
        callbacks: Any = None,
        max_seq_length: int | None = None,
        n_best_size: int = 20,
        max_answer_length: int = 30,
        null_threshold: float | None = None,
        **unknown: Any,
    ) -> list:
        """Returns a `FoundAnswer` for each question; the arguments are those of `SpanClassifier.predict`."""
        arguments = {"batch_size": batch_size, "verbose": verbose, "callbacks": callbacks}
        options = {"n_best_size": n_best_size, "max_answer_length": max_answer_length, "null_threshold": null_threshold}
        return self._predict(x, {**arguments, "max_seq_length": max_seq_length, **options}, unknown)

    served_inputs: ClassVar = {"question": (), "context": ()}

    @property
    def served_outputs(self) -> dict[str, tuple]:
        difference = {} if self.null_threshold is None else {"null_score_difference": (0.0,)}
        return {**_BEST, **_CANDIDATES, **difference}

    def serve(self, question: list[str], context: list[str]) -> dict[str, Any]:
        """See `AnswerSignature`. An empty question or context has no answer."""
        ids = list(map(str, range(len(question))))
        examples = QuestionExamples(ids, question, context, may_be_empty=True)
        answers = text_task(self).answers(examples, *self.computed(examples))
        places = [[*byte_places(text).tolist(), -1] for text in context]  # the last is the byte of no answer
        best = [_in_bytes(*pair) for pair in zip(answers, places, strict=True)]
        candidates = [
            [(*_in_bytes(one, its_places), one.start is None) for one in answer.nbest]
            for answer, its_places in zip(answers, places, strict=True)
        ]
        differences = {"null_score_difference": [answer.null_score_difference for answer in answers]}
        return {
            **dict(zip(_BEST, zip(*best, strict=True), strict=True)),
            **padded(candidates, _CANDIDATES),
            **differences,
        }


def _in_bytes(answer: FoundAnswer | Candidate, places: list[int]) -> tuple[str, int, int, float]:
    start, end = (places[-1 if at is None else at] for at in (answer.start, answer.end))
    return answer.text, start, end, answer.probability
