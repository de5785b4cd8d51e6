"""Writes the answers of a model in the formats of google-research/bert and SQuAD's scripts."""

import os
from collections.abc import Sequence

from keras_bert.program.json_files import write_json
from keras_bert.tasks.question_answering.answers import FoundAnswer
from keras_bert.tasks.question_answering.examples import QuestionExamples
from keras_bert.tasks.question_answering.scores import score_question
from keras_bert.tasks.report_files import write_table


def write_answers(folder: str | os.PathLike, ids: Sequence[str], answers: Sequence[FoundAnswer]) -> None:
    """Writes `predictions.json`, `nbest_predictions.json` and, if answers may be "none", `null_odds.json`."""
    keys = ("text", "probability", "start_logit", "end_logit")
    columns = {
        "predictions": [answer.text for answer in answers],
        "nbest_predictions": [[{key: getattr(one, key) for key in keys} for one in answer.nbest] for answer in answers],
    }
    odds = [answer.null_score_difference for answer in answers]
    if None not in odds:
        columns["null_odds"] = odds
    for name, values in columns.items():
        write_json(os.path.join(folder, f"{name}.json"), dict(zip(ids, values, strict=True)), indent=4)


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
            rows.append((score.f1, answer.probability, [" ".join(text.split()) for text in texts]))
    rows.sort(key=lambda row: (row[0], -row[1]))
    header = ["id", "question", "answers", "predicted", "f1", "probability"]
    write_table(path, header, ([*texts, f"{f1:.4f}", f"{probability:.4f}"] for f1, probability, texts in rows))
