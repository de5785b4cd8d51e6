"""The runs of `BertSequenceClassifier`: labelled texts in; the model, its scores and its answers out."""

import os
from collections import Counter
from collections.abc import Sequence

import numpy as np

from keras_bert.atomic_output import atomic_file
from keras_bert.models.sequence_classifier import BertSequenceClassifier
from keras_bert.tasks.classification import TextExamples, labels_of
from keras_bert.training.fine_tuning import FineTuningOptions, ask_trained_model, fine_tune, write_eval_results
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.starting_point import StartingPoint


def train_classifier(
    output_dir: str | os.PathLike,
    train: TextExamples,
    start: StartingPoint,
    options: FineTuningOptions | None = None,
    *,
    labels: Sequence[str] | None = None,
    problem_type: str = "classification",
) -> BertSequenceClassifier:
    """Trains a classifier of texts, as google-research/bert `run_classifier.py` does; see `fine_tune`.

    Args:
        labels: the classes in the order of their ids; by default those that occur in `train`, sorted.
        problem_type: what the labels are, see `BertSequenceClassifier`.
    """
    if labels is None:
        labels = ["score"] if problem_type == "regression" else labels_of(train)
    arguments = {"labels": list(labels), "problem_type": problem_type}
    return fine_tune(output_dir, BertSequenceClassifier, train, start=start, options=options, model_arguments=arguments)


def evaluate_classifier(
    output_dir: str | os.PathLike,
    dev: TextExamples,
    *,
    init_checkpoint: str | os.PathLike | None = None,
    max_seq_length: int = 128,
    eval_batch_size: int = 8,
) -> dict[str, float]:
    """Evaluates a classifier and writes `eval_results.txt`.

    Args:
        output_dir: the folder of a finished run, or an empty one if `init_checkpoint` is given.
        dev: examples with labels that the classifier knows.
        init_checkpoint: the model folder of a classifier, used when `output_dir` has no model.

    Returns:
        The official scores, each with `eval_` before its name, `global_step` and `loss`, as Google's script writes
        them, and of single labels `eval_majority_rate`, the accuracy of always answering the most frequent one of
        `dev`.

    Raises:
        InputError: there is no classifier, or a label that it does not know.
    """
    answered = ask_trained_model(
        output_dir,
        BertSequenceClassifier,
        dev,
        init_checkpoint=init_checkpoint,
        max_seq_length=max_seq_length,
        batch_size=eval_batch_size,
    )
    if answered.model.problem_type != "classification":
        return write_eval_results(output_dir, answered)
    majority_label, majority_count = Counter(dev.labels).most_common(1)[0]
    results = write_eval_results(output_dir, answered, eval_majority_rate=majority_count / len(dev))
    print(
        f"accuracy {results['eval_accuracy']:.4f} on {len(dev)} examples; always answering {majority_label!r} would "
        f"have {results['eval_majority_rate']:.4f}"
    )
    return results


def predict_classifier(
    output_dir: str | os.PathLike,
    test: TextExamples,
    *,
    init_checkpoint: str | os.PathLike | None = None,
    max_seq_length: int = 128,
    predict_batch_size: int = 8,
) -> np.ndarray:
    """Predicts and writes `test_results.tsv`: a line per example, a probability per label or a score, no header.

    Returns:
        What was written, float64 `(examples, labels)`, in the order of the model's labels.

    Raises:
        InputError: there is no classifier.
    """
    answered = ask_trained_model(
        output_dir,
        BertSequenceClassifier,
        test,
        init_checkpoint=init_checkpoint,
        max_seq_length=max_seq_length,
        batch_size=predict_batch_size,
    )
    model = answered.model
    if model.problem_type == "regression":
        values = np.asarray(answered.outputs, np.float64)
    else:
        values = np.array([list(answer.probabilities.values()) for answer in answered.answers])
    path = RunFolder(output_dir).file("test_results.tsv")
    with atomic_file(path) as file:
        # Nine digits give a float32 back.
        file.writelines(("\t".join(f"{value:.9g}" for value in row) + "\n").encode() for row in values)
    print(f"{path}: the columns are {', '.join(model.labels)}")
    return values
