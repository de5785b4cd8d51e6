"""The runs of `MultipleChoice`: prompts with choices in; model, scores, report and predictions out."""

import os

from keras_bert.models.multiple_choice import MultipleChoice
from keras_bert.program.atomic_output import atomic_file
from keras_bert.tasks.fitting import text_task
from keras_bert.tasks.multiple_choice.examples import ChoiceExamples
from keras_bert.tasks.multiple_choice.report import write_choice_report
from keras_bert.tasks.multiple_choice.task import ChoiceAnswer
from keras_bert.tasks.report_files import write_table
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.training.fine_tuning import FineTuningOptions, ask_trained_model, fine_tune, write_eval_results
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.starting_point import StartingPoint

REPORT_FOLDER = "eval_report"


def train_multiple_choice(
    output_dir: str | os.PathLike,
    train: ChoiceExamples,
    start: StartingPoint,
    options: FineTuningOptions | None = None,
    *,
    dev: ChoiceExamples | None = None,
) -> MultipleChoice:
    """Trains a model that takes the right one of several choices; see `fine_tune`."""
    return fine_tune(output_dir, MultipleChoice, train, dev, start=start, options=options)


def evaluate_multiple_choice(
    output_dir: str | os.PathLike,
    dev: ChoiceExamples,
    *,
    init_checkpoint: str | os.PathLike | None = None,
    vocabulary: Vocabulary | None = None,
    do_lower_case: bool | None = None,
    max_seq_length: int | None = None,
    eval_batch_size: int = 8,
) -> dict[str, float]:
    """Evaluates a model; writes `eval_results.txt` and the folder `eval_report` (see `write_choice_report`).

    Args:
        output_dir: the folder of a finished run, or an empty one if `init_checkpoint` is given.
        dev: examples with answers.
        init_checkpoint: a checkpoint of such a model in any format, used when `output_dir` has no model.
        vocabulary, do_lower_case: as of `StartingPoint`, for that checkpoint.

    Returns:
        `eval_accuracy`, `eval_loss`, `eval_chance` (the accuracy of guessing), `loss` and `global_step`.

    Raises:
        InputError: there is no such model.
    """
    answered = ask_trained_model(
        output_dir,
        MultipleChoice,
        dev,
        init_checkpoint=init_checkpoint,
        vocabulary=vocabulary,
        do_lower_case=do_lower_case,
        max_seq_length=max_seq_length,
        batch_size=eval_batch_size,
    )
    results = write_eval_results(output_dir, answered, eval_chance=1 / dev.num_choices)
    task = text_task(answered.model)
    folder = RunFolder(output_dir).file(REPORT_FOLDER)
    os.makedirs(folder, exist_ok=True)
    write_choice_report(
        folder,
        dev.prompts,
        dev.choices,
        dev.answers,
        [answer.choice for answer in answered.answers],
        task.losses(dev, answered.answers),
        task.scores(dev, answered.answers),
    )
    print(f"{folder}: the report")
    return results


def predict_multiple_choice(
    output_dir: str | os.PathLike,
    test: ChoiceExamples,
    *,
    init_checkpoint: str | os.PathLike | None = None,
    vocabulary: Vocabulary | None = None,
    do_lower_case: bool | None = None,
    max_seq_length: int | None = None,
    predict_batch_size: int = 8,
) -> list[ChoiceAnswer]:
    """Predicts; writes `test_results.tsv`, a line per example and a probability per choice without a header, and
    `test_predictions.tsv` with the prompts, the numbers and texts of the choices that were taken, their probabilities.

    Returns:
        An answer for each example.

    Raises:
        InputError: there is no such model.
    """
    answered = ask_trained_model(
        output_dir,
        MultipleChoice,
        test,
        init_checkpoint=init_checkpoint,
        vocabulary=vocabulary,
        do_lower_case=do_lower_case,
        max_seq_length=max_seq_length,
        batch_size=predict_batch_size,
    )
    folder = RunFolder(output_dir)
    path = folder.file("test_results.tsv")
    with atomic_file(path) as file:
        # Nine digits give a float32 back.
        for answer in answered.answers:
            file.write(("\t".join(f"{value:.9g}" for value in answer.probabilities) + "\n").encode())
    print(f"{path}: a probability for each of the {test.num_choices} choices")
    rows = zip(test.prompts, answered.answers, strict=True)
    write_table(
        folder.file("test_predictions.tsv"),
        ["prompt", "choice", "text", "probability"],
        ([prompt, answer.choice, answer.text, answer.probability] for prompt, answer in rows),
    )
    return answered.answers
