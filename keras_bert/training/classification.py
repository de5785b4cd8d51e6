"""The runs of `SequenceClassifier`: labelled texts in; the model, its scores, a report and its answers out."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.models.sequence_classifier import SequenceClassifier
from keras_bert.program.atomic_output import atomic_file
from keras_bert.tasks.classification.examples import TextExamples, label_ids, labels_of, multi_hot_labels
from keras_bert.tasks.classification.glue_submission import write_submission
from keras_bert.tasks.classification.report import (
    write_label_report,
    write_label_set_report,
    write_regression_report,
)
from keras_bert.tasks.classification.task import probabilities_of
from keras_bert.tasks.fitting import text_task
from keras_bert.tasks.report_files import write_table
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.training.fine_tuning import (
    Answered,
    FineTuningOptions,
    ask_trained_model,
    fine_tune,
    write_eval_results,
)
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.starting_point import StartingPoint


def train_classifier(
    output_dir: str | os.PathLike,
    train: TextExamples,
    start: StartingPoint,
    options: FineTuningOptions | None = None,
    *,
    dev: TextExamples | None = None,
    labels: Sequence[str] | None = None,
    problem_type: str = "classification",
) -> SequenceClassifier:
    """Trains a classifier of texts, as google-research/bert `run_classifier.py` does; see `fine_tune`.

    Args:
        dev: examples to evaluate on while training, for `options.keep_best`.
        labels: the classes in the order of their ids; by default those that occur in `train`, sorted.
        problem_type: what the labels are, see `SequenceClassifier`.
    """
    if labels is None:
        labels = ["score"] if problem_type == "regression" else labels_of(train)
    arguments = {"labels": list(labels), "problem_type": problem_type}
    return fine_tune(
        output_dir, SequenceClassifier, train, dev, start=start, options=options, model_arguments=arguments
    )


def evaluate_classifier(
    output_dir: str | os.PathLike,
    dev: TextExamples | Mapping[str, TextExamples],
    *,
    init_checkpoint: str | os.PathLike | None = None,
    vocabulary: Vocabulary | None = None,
    do_lower_case: bool | None = None,
    max_seq_length: int | None = None,
    eval_batch_size: int = 8,
) -> dict[str, float]:
    """Evaluates a classifier; writes `eval_results.txt` and a report into `eval_report`, see `write_label_report`.

    Args:
        output_dir: the folder of a finished run, or an empty one if `init_checkpoint` is given.
        dev: examples with labels that the classifier knows; or several sets of them by name: `eval`, whose results come
            first, and for example `eval_mismatched`.
        init_checkpoint: a checkpoint of a classifier in any format, used when `output_dir` has no model.
        vocabulary, do_lower_case: as of `StartingPoint`, for that checkpoint.

    Returns:
        The official scores, each with the name of its set before its own (`eval_accuracy`), `global_step` and `loss`,
        as Google's script writes them, and of single labels `eval_majority_rate`, the accuracy of always answering the
        most frequent one of `dev`.

    Raises:
        InputError: there is no classifier, or a label that it does not know.
    """
    sets = dict(dev) if isinstance(dev, Mapping) else {"eval": dev}
    first, *others = sorted(sets, key=lambda name: name != "eval")
    asked = {
        "init_checkpoint": init_checkpoint,
        "vocabulary": vocabulary,
        "do_lower_case": do_lower_case,
        "max_seq_length": max_seq_length,
        "batch_size": eval_batch_size,
    }
    further = {}
    for name in (*others, first):
        answered = ask_trained_model(output_dir, SequenceClassifier, sets[name], **asked)
        scores = text_task(answered.model).scores(sets[name], answered.answers)
        if answered.model.problem_type == "classification":
            label, count = Counter(sets[name].labels).most_common(1)[0]
            further[f"{name}_majority_rate"] = count / len(sets[name])
        if name != first:
            further |= {f"{name}_{score}": value for score, value in scores.items()}
        _write_report(RunFolder(output_dir).file(f"{name}_report"), answered, scores)
    results = write_eval_results(output_dir, answered, scores, **further)
    print(f"{RunFolder(output_dir).file(f'{first}_report')}: the report")
    if answered.model.problem_type == "classification":
        print(
            f"accuracy {results['eval_accuracy']:.4f} on {len(sets[first])} examples; always answering {label!r} would "
            f"have {further[f'{first}_majority_rate']:.4f}"
        )
    return results


def predict_classifier(
    output_dir: str | os.PathLike,
    test: TextExamples,
    *,
    init_checkpoint: str | os.PathLike | None = None,
    vocabulary: Vocabulary | None = None,
    do_lower_case: bool | None = None,
    max_seq_length: int | None = None,
    predict_batch_size: int = 8,
    name: str = "test",
    submission: str | None = None,
) -> np.ndarray:
    """Predicts; writes `test_results.tsv`, a line per example and a probability per label, or a score, no header, and
    `test_predictions.tsv` with the texts and what was predicted.

    Args:
        name: what both files begin with.
        submission: the name of a GLUE submission, such as `MNLI-m`; writes its file, `MNLI-m.tsv`, too.

    Returns:
        What was written, float64 `(examples, labels)`, in the order of the model's labels.

    Raises:
        InputError: there is no classifier, or its labels are not those of the submission.
    """
    answered = ask_trained_model(
        output_dir,
        SequenceClassifier,
        test,
        init_checkpoint=init_checkpoint,
        vocabulary=vocabulary,
        do_lower_case=do_lower_case,
        max_seq_length=max_seq_length,
        batch_size=predict_batch_size,
    )
    model, answers = answered.model, answered.answers
    is_regression = model.problem_type == "regression"
    values = np.asarray(answered.outputs, np.float64) if is_regression else probabilities_of(answers)
    folder = RunFolder(output_dir)
    with atomic_file(folder.file(f"{name}_results.tsv")) as file:
        # Nine digits give a float32 back.
        file.writelines(("\t".join(f"{value:.9g}" for value in row) + "\n").encode() for row in values)
    header, cells = _predicted_cells(model.problem_type, answers)
    texts = [test.texts] if test.second_texts is None else [test.texts, test.second_texts]
    write_table(
        folder.file(f"{name}_predictions.tsv"),
        [*("text", "second_text")[: len(texts)], *header],
        ([*row, *cell] for *row, cell in zip(*texts, cells, strict=True)),
    )
    print(f"{folder.file(f'{name}_results.tsv')}: the columns are {', '.join(model.labels)}")
    if submission:
        path = write_submission(folder.path, submission, [cell[0] for cell in cells])
        print(f"{path}: for gluebenchmark.com")
    return values


def _predicted_cells(problem_type: str, answers: list) -> tuple[list[str], list[list]]:
    """Returns the names and the values of the columns that say what was predicted."""
    if problem_type == "regression":
        return ["score"], [[answer.score] for answer in answers]
    if problem_type == "multi_label":
        return ["labels"], [[", ".join(answer.labels)] for answer in answers]
    return ["label", "probability"], [[answer.label, answer.probability] for answer in answers]


def _write_report(folder: str, answered: Answered, scores: Mapping[str, float]) -> None:
    os.makedirs(folder, exist_ok=True)
    model, examples, answers = answered.model, answered.examples, answered.answers
    texts = (examples.texts, examples.second_texts)
    if model.problem_type == "regression":
        predicted = [answer.score for answer in answers]
        write_regression_report(folder, *texts, examples.labels, predicted, scores)
    elif model.problem_type == "multi_label":
        gold = multi_hot_labels(examples.labels, model.labels, examples.source)
        write_label_set_report(folder, *texts, gold, probabilities_of(answers), model.labels, scores)
    else:
        gold = label_ids(examples, model.labels)
        write_label_report(folder, *texts, gold, probabilities_of(answers), model.labels, scores)
