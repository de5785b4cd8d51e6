"""The runs of `SpanClassifier`: writes answers in Google's files, and scores them. `fine_tune` trains it."""

import dataclasses
import os
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.tasks.base import Answered, text_task
from keras_bert.tasks.calibration import write_reliability
from keras_bert.tasks.question_answering.answer_spans import QuestionAnsweringOptions
from keras_bert.tasks.question_answering.answers import FoundAnswer
from keras_bert.tasks.question_answering.examples import QuestionExamples
from keras_bert.tasks.question_answering.task import write_answers, write_errors
from keras_bert.training.finished_runs import ask_model, calibrate_answered, load_trained_model, write_eval_results
from keras_bert.training.run_folder import RunFolder


def predict_answers(
    output_dir: str | os.PathLike,
    examples: QuestionExamples,
    *,
    questions: QuestionAnsweringOptions | None = None,
    tune_null_threshold: bool = False,
    calibrate: bool = False,
    max_seq_length: int | None = None,
    predict_batch_size: int = 8,
    **model: Any,
) -> list[FoundAnswer]:
    """Answers questions and writes `predictions.json` and `nbest_predictions.json`; see docs/question_answering.md.

    If the model may give no answer, it also writes `null_odds.json`. If the examples have answers, it also writes
    `eval_results.txt` with the official scores, `errors.tsv` with the wrong answers, the worst and most certain first,
    and how often answers are right, see `write_reliability`.

    Args:
        output_dir: the folder of a finished run, or an empty one if `init_checkpoint` is given.
        questions: the options for questions and contexts.
        tune_null_threshold: whether to choose the threshold with the best F1 on these examples, which must have
            answers, and store it in the run's model folder.
        calibrate: whether to calibrate the model on these examples first, and to save it in the folder of the run.
        max_seq_length, predict_batch_size: see `ask_model`.
        **model: further arguments of `load_trained_model`.

    Returns:
        The answers in the order of the examples.

    Raises:
        InputError: there is no model, the threshold cannot be tuned, or the examples determine no temperature.
    """
    questions = questions or QuestionAnsweringOptions()
    folder = RunFolder(output_dir)
    loaded = load_trained_model(output_dir, "SpanClassifier", **model)
    for name, value in questions.model_arguments().items():
        if name != "null_threshold" or questions.null_threshold is not None or loaded.null_threshold is None:
            setattr(loaded, name, value)
    if tune_null_threshold and (loaded.null_threshold is None or not examples.answers):
        raise InputError(
            "To tune the threshold for no answer, the questions must have answers, and the model must be able to give "
            "none. Train it with --version_2_with_negative, and give a --predict_file with answers."
        )
    sizes = {"n_best_size": questions.n_best_size, "max_answer_length": questions.max_answer_length}
    answered = ask_model(loaded, examples, max_seq_length, predict_batch_size, **sizes)
    if calibrate:
        temperature = calibrate_answered(answered, folder).temperature
        outputs = {name: logits / temperature for name, logits in answered.outputs.items()}
        answers = text_task(loaded).answers(examples, answered.example_rows, outputs, **sizes)
        answered = dataclasses.replace(answered, outputs=outputs, answers=answers)
    answered, further = _tuned(answered, folder) if tune_null_threshold else (answered, {})
    if examples.answers is not None:
        write_eval_results(folder, text_task(loaded).scores(examples, answered.answers), **further)
        write_errors(folder.file("errors.tsv"), examples, answered.answers)
        write_reliability(folder.path, answered)
    write_answers(folder.path, examples.ids, answered.answers)
    print(f"{folder.file('predictions.json')}: {len(answered.answers)} answers")
    return answered.answers


def _tuned(answered: Answered, folder: RunFolder) -> tuple[Answered, dict[str, float]]:
    """Decides the answers again with the threshold of the best F1, and stores it in the run's model folder."""
    threshold = text_task(answered.model).scores(answered.examples, answered.answers)["best_f1_thresh"]
    answered.model.null_threshold = threshold
    answers = [answer.with_threshold(threshold) for answer in answered.answers]
    if os.path.isdir(folder.model_path):
        from keras_bert.checkpoints.model_folder import set_model_arguments

        set_model_arguments(folder.model_path, null_threshold=threshold)
        print(f"{folder.model_path}: a question now has no answer if the odds for none are above {threshold:.6g}")
    else:
        print(f"The best threshold is {threshold:.6g}. It is not stored, because the run has no model folder.")
    return dataclasses.replace(answered, answers=answers), {"null_score_diff_threshold": threshold}
