"""The fine-tuning run: labelled texts in; classifier, `eval_results.txt` and `test_results.tsv` out."""

import dataclasses
import os
from collections import Counter

import keras
import numpy as np

from keras_bert.atomic_output import atomic_file
from keras_bert.config import BertConfig
from keras_bert.errors import InputError
from keras_bert.input_pipeline import classification_dataset
from keras_bert.models.sequence_classifier import BertSequenceClassifier
from keras_bert.optimization import AdamW, WarmupLinearDecay
from keras_bert.tasks.classification import TextExamples, label_ids, labels_of
from keras_bert.tokenization.graph_wordpiece import GraphTokenizer
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.training.resumable_fit import compile_for_training, resumable_fit
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.starting_point import starting_model, trained_model


def train_classifier(
    output_dir: str | os.PathLike,
    train: TextExamples,
    *,
    config: BertConfig | None = None,
    vocabulary: Vocabulary | None = None,
    init_checkpoint: str | os.PathLike | None = None,
    do_lower_case: bool | None = None,
    max_seq_length: int = 128,
    train_batch_size: int = 32,
    learning_rate: float = 5e-5,
    num_train_epochs: float = 3.0,
    warmup_proportion: float = 0.1,
    save_checkpoints_steps: int = 1000,
    steps_per_execution: int = 1,
    seed: int = 12345,
    tensorboard: bool = False,
) -> BertSequenceClassifier:
    """Trains a classifier of texts, as google-research/bert `run_classifier.py` does.

    Called again with the same arguments it goes on from the newest checkpoint in `output_dir`, and returns at once what
    is finished.

    Args:
        output_dir: the run's folder, see `RunFolder`; the trained model is in its `model` folder.
        train: examples with labels. The classes are the labels that occur, sorted.
        config, vocabulary: the model to train from scratch; both come from `init_checkpoint` if it is given.
        init_checkpoint: a checkpoint of any format to start from.
        do_lower_case: the casing; `None` takes that of `init_checkpoint`, else that of the config.
        max_seq_length: longer texts are cut.
        num_train_epochs: passes over the examples; may be a fraction.
        warmup_proportion: the part of training in which the learning rate rises.
        steps_per_execution: updates between two returns to Python.

    Returns:
        The trained model.

    Raises:
        InputError: examples, folder, config and vocabulary do not go together; the message says which.
    """
    if train_batch_size < 1 or num_train_epochs <= 0 or not 0 <= warmup_proportion <= 1:
        raise InputError(
            "train_batch_size must be at least 1, num_train_epochs more than 0 and warmup_proportion between 0 and 1. "
            f"Received: {train_batch_size}, {num_train_epochs}, {warmup_proportion}"
        )
    labels = labels_of(train)
    keras.utils.set_random_seed(seed)
    model = starting_model(BertSequenceClassifier, config, vocabulary, init_checkpoint, do_lower_case, labels=labels)
    _check_has_vocabulary(model)
    model.config.check_sequence_length(max_seq_length)
    num_train_steps = max(1, int(len(train) / train_batch_size * num_train_epochs))
    num_warmup_steps = int(num_train_steps * warmup_proportion)
    settings = {
        "run": "classifier",
        "train_examples": train.sha256(),
        "config": model.config.to_dict(),
        "vocabulary": model.vocabulary.sha256,
        "init_checkpoint": os.path.abspath(init_checkpoint) if init_checkpoint else None,
        "labels": labels,
        "max_seq_length": max_seq_length,
        "train_batch_size": train_batch_size,
        "learning_rate": learning_rate,
        "num_train_epochs": num_train_epochs,
        "warmup_proportion": warmup_proportion,
        "random_seed": seed,
        "dtype": keras.mixed_precision.dtype_policy().name,
    }
    folder = RunFolder(output_dir, settings)
    schedule = WarmupLinearDecay(learning_rate, num_train_steps, num_warmup_steps)
    # Without XLA: batches are as long as their longest text.
    compile_for_training(model, AdamW(schedule), with_xla=False, steps_per_execution=steps_per_execution)
    resumable_fit(
        model,
        _dataset(model, train, train_batch_size, max_seq_length, shuffle=True, repeat=True, seed=seed),
        folder,
        num_train_steps=num_train_steps,
        batch_size=train_batch_size,
        save_checkpoints_steps=save_checkpoints_steps,
        tensorboard=tensorboard,
    )
    if not os.path.isdir(folder.model_path):
        model.save_pretrained(folder.model_path)
    return model


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
        `eval_accuracy`, `eval_loss`, `global_step` and `loss`, as Google's script writes them, and
        `eval_majority_rate`, the accuracy of always answering the most frequent label of `dev`.

    Raises:
        InputError: there is no classifier, or a label that it does not know.
    """
    folder = RunFolder(output_dir)
    model = _check_has_vocabulary(trained_model(BertSequenceClassifier, folder, init_checkpoint))
    dataset = _dataset(model, dev, eval_batch_size, max_seq_length)
    model.compile(optimizer=None)
    found = model.evaluate(dataset, return_dict=True, verbose=0)
    majority_label, majority_count = Counter(dev.labels).most_common(1)[0]
    results = {
        "eval_accuracy": float(found["accuracy"]),
        "eval_loss": float(found["loss"]),
        "eval_majority_rate": majority_count / len(dev),
        "global_step": folder.latest_step(),
        "loss": float(found["loss"]),
    }
    print(folder.write_results(results), end="")
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
    """Predicts and writes `test_results.tsv`: a line per example, a probability per label, no header.

    Returns:
        The probabilities, float32 `(examples, labels)`, in the order of the model's labels.

    Raises:
        InputError: there is no classifier.
    """
    folder = RunFolder(output_dir)
    model = _check_has_vocabulary(trained_model(BertSequenceClassifier, folder, init_checkpoint))
    unlabelled = dataclasses.replace(test, labels=None)
    logits = model.predict(_dataset(model, unlabelled, predict_batch_size, max_seq_length), verbose=0)
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
    with atomic_file(folder.file("test_results.tsv")) as file:
        # Nine digits give the float32 back.
        file.writelines(("\t".join(f"{value:.9g}" for value in row) + "\n").encode() for row in probabilities)
    print(f"{folder.file('test_results.tsv')}: the columns are {', '.join(model.labels)}")
    return probabilities


def _dataset(model, examples: TextExamples, batch_size: int, max_seq_length: int, **order):
    model.config.check_sequence_length(max_seq_length)
    tokenizer = GraphTokenizer(model.vocabulary, model.config.do_lower_case)
    ids = None if examples.labels is None else label_ids(examples, model.labels)
    return classification_dataset(
        examples.texts, examples.second_texts, ids, tokenizer, batch_size, max_seq_length, **order
    )


def _check_has_vocabulary(model) -> BertSequenceClassifier:
    if model.vocabulary is None:
        raise InputError("Texts need a vocabulary: give the vocab.txt (vocab_file) that belongs to the model.")
    return model
