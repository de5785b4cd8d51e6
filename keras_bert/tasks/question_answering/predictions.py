"""Writes the answers of a model in the formats of google-research/bert and SQuAD's scripts."""

import os
from collections.abc import Sequence

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.json_files import write_json
from keras_bert.tasks.question_answering.answers import FoundAnswer
from keras_bert.tasks.question_answering.examples import QuestionExamples
from keras_bert.tasks.question_answering.scores import score_question


def write_answers(folder: str | os.PathLike, ids: Sequence[str], answers: Sequence[FoundAnswer]) -> None:
    """Writes `predictions.json`, `nbest_predictions.json` and, if answers may be "none", `null_odds.json`."""
    named = dict(zip(ids, answers, strict=True))
    nbest = {
        name: [
            {
                "text": candidate.text,
                "probability": candidate.probability,
                "start_logit": candidate.start_logit,
                "end_logit": candidate.end_logit,
            }
            for candidate in answer.nbest
        ]
        for name, answer in named.items()
    }
    _write_json(folder, "predictions.json", {name: answer.text for name, answer in named.items()})
    _write_json(folder, "nbest_predictions.json", nbest)
    if all(answer.null_score_difference is not None for answer in answers):
        _write_json(folder, "null_odds.json", {name: answer.null_score_difference for name, answer in named.items()})


def write_errors(path: str | os.PathLike, examples: QuestionExamples, answers: Sequence[FoundAnswer]) -> None:
    """Writes a TSV file of wrongly answered questions: id, question, right answers, answer, F1, probability.

    The lowest F1 comes first; ties are sorted by probability, the highest first.
    """
    always = all(examples.answers)
    rows = []
    for number, answer in enumerate(answers):
        right_answers = [right.text for right in examples.answers[number]]
        score = score_question(right_answers, answer.text, as_in_1_1=always)
        if not score.exact:
            shown = " | ".join(dict.fromkeys(right_answers))
            texts = (examples.ids[number], examples.questions[number], shown, answer.text)
            rows.append((score.f1, -answer.probability, [" ".join(text.split()) for text in texts]))
    rows.sort(key=lambda row: row[:2])
    with atomic_file(path) as file:
        file.write(b"id\tquestion\tanswers\tpredicted\tf1\tprobability\n")
        for f1, probability, texts in rows:
            file.write(("\t".join([*texts, f"{f1:.4f}", f"{-probability:.4f}"]) + "\n").encode("utf-8", "replace"))


def _write_json(folder: str | os.PathLike, name: str, value: dict) -> None:
    write_json(os.path.join(folder, name), value, indent=4)
