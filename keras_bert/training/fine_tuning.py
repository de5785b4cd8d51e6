"""The fine-tuning run of every task: examples in; a trained model, its scores and its answers out."""

import dataclasses
import hashlib
import os
from collections.abc import Mapping
from typing import Any

import keras

from keras_bert.errors import InputError
from keras_bert.input_pipeline import rows_dataset
from keras_bert.optimization import AdamW, WarmupLinearDecay
from keras_bert.tasks.token_rows import RowBatches, TokenRows
from keras_bert.text_tasks.base import Encoded
from keras_bert.text_tasks.fitting import text_task
from keras_bert.text_tasks.prediction import predict_rows
from keras_bert.training.resumable_fit import compile_for_training, resumable_fit
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.starting_point import StartingPoint, trained_model


@dataclasses.dataclass(frozen=True)
class FineTuningOptions:
    """How a model is fine-tuned, whatever its task.

    Attributes:
        max_seq_length: the most tokens in a row; batches are as long as needed.
        train_batch_size: examples per update.
        learning_rate: the highest one.
        num_train_epochs: passes over the examples; may be a fraction.
        warmup_proportion: the part of training in which the learning rate rises.
        save_checkpoints_steps: updates between two checkpoints.
        steps_per_execution: updates between two returns to Python.
        seed: that of new weights, dropout and the order of the examples.
        tensorboard: whether to write the training metrics for TensorBoard too.

    Raises:
        InputError: a number makes no sense.
    """

    max_seq_length: int = 128
    train_batch_size: int = 32
    learning_rate: float = 5e-5
    num_train_epochs: float = 3.0
    warmup_proportion: float = 0.1
    save_checkpoints_steps: int = 1000
    steps_per_execution: int = 1
    seed: int = 12345
    tensorboard: bool = False

    def __post_init__(self):
        if self.train_batch_size < 1 or self.num_train_epochs <= 0 or not 0 <= self.warmup_proportion <= 1:
            raise InputError(
                "train_batch_size must be at least 1, num_train_epochs more than 0 and warmup_proportion between 0 and "
                f"1. Received: {self.train_batch_size}, {self.num_train_epochs}, {self.warmup_proportion}"
            )

    def settings(self) -> dict[str, Any]:
        """Returns what must stay the same for a run to be the same run."""
        free = ("save_checkpoints_steps", "steps_per_execution", "tensorboard")
        return {name: value for name, value in dataclasses.asdict(self).items() if name not in free}


@dataclasses.dataclass(frozen=True)
class Answered:
    """Examples, and what a model says about them.

    Attributes:
        model: the model that was asked.
        examples: the examples.
        encoded: their rows, and notes.
        outputs: what the model gave for the rows.
        answers: one for each example.
    """

    model: Any
    examples: Any
    encoded: Encoded
    outputs: Any
    answers: list


def fine_tune(
    output_dir: str | os.PathLike,
    model_class: type,
    train: Any,
    *,
    start: StartingPoint,
    options: FineTuningOptions | None = None,
    model_arguments: Mapping[str, Any] | None = None,
):
    """Trains a task model on examples.

    Called again with the same arguments it goes on from the newest checkpoint in `output_dir`, and returns at once what
    is finished.

    Args:
        output_dir: the run's folder, see `RunFolder`; the trained model is in its `model` folder.
        model_class: a task model that takes texts.
        train: examples with labels, of the class that the task has.
        start: what to start with.
        model_arguments: what the constructor takes beside the config, such as the labels.

    Returns:
        The trained model.

    Raises:
        InputError: examples, folder and model do not go together; the message says which.
    """
    options = options or FineTuningOptions()
    model_arguments = dict(model_arguments or {})
    keras.utils.set_random_seed(options.seed)
    model = start.make(model_class, **model_arguments)
    task = text_task(model)
    rows = _said(task.encode(train, options.max_seq_length)).rows
    settings = {
        "run": task.name,
        "train_examples": _content_hash(train),
        "config": model.config.to_dict(),
        "vocabulary": model.vocabulary.sha256,
        "init_checkpoint": os.path.abspath(start.init_checkpoint) if start.init_checkpoint else None,
        "model": model_arguments,
        "dtype": keras.mixed_precision.dtype_policy().name,
        **options.settings(),
    }
    folder = RunFolder(output_dir, settings)
    _train(model, rows, folder, options)
    if not os.path.isdir(folder.model_path):
        model.save_pretrained(folder.model_path)
    return model


def ask_trained_model(
    output_dir: str | os.PathLike,
    model_class: type,
    examples: Any,
    *,
    init_checkpoint: str | os.PathLike | None = None,
    max_seq_length: int = 128,
    batch_size: int = 8,
    **answer_options,
) -> Answered:
    """Runs the model of a finished run over examples.

    Args:
        output_dir: the folder of a finished run, or an empty one if `init_checkpoint` is given.
        examples: with or without labels.
        init_checkpoint: a model folder, used when `output_dir` has no model.
        **answer_options: what the task's `answers` takes beside the outputs.

    Raises:
        InputError: there is no such model.
    """
    model = trained_model(model_class, RunFolder(output_dir), init_checkpoint)
    task = text_task(model)
    encoded = _said(task.encode(examples, max_seq_length))
    outputs = predict_rows(model, encoded.rows, batch_size)
    return Answered(model, examples, encoded, outputs, task.answers(examples, encoded, outputs, **answer_options))


def write_eval_results(output_dir: str | os.PathLike, answered: Answered, **further: Any) -> dict[str, Any]:
    """Writes the official scores of answers to `eval_results.txt`, each with `eval_` before its name.

    Returns:
        What was written: the scores, `global_step`, `loss` as Google's scripts have it, and `further`.
    """
    folder = RunFolder(output_dir)
    scores = text_task(answered.model).scores(answered.examples, answered.answers)
    results = {f"eval_{name}": value for name, value in scores.items()} | further
    results["global_step"] = folder.latest_step()
    if "loss" in scores:
        results["loss"] = scores["loss"]
    print(folder.write_results(results), end="")
    return results


def _train(model, rows: TokenRows, folder: RunFolder, options: FineTuningOptions) -> None:
    steps_per_epoch = len(RowBatches(rows, options.train_batch_size))
    num_train_steps = max(1, round(steps_per_epoch * options.num_train_epochs))
    schedule = WarmupLinearDecay(
        options.learning_rate, num_train_steps, int(num_train_steps * options.warmup_proportion)
    )
    # Without XLA: batches are as long as their longest text.
    compile_for_training(model, AdamW(schedule), with_xla=False, steps_per_execution=options.steps_per_execution)
    resumable_fit(
        model,
        lambda start_step: rows_dataset(
            rows, options.train_batch_size, shuffle=True, repeat=True, seed=options.seed, start_step=start_step
        ),
        folder,
        num_train_steps=num_train_steps,
        batch_size=options.train_batch_size,
        save_checkpoints_steps=options.save_checkpoints_steps,
        tensorboard=options.tensorboard,
    )


def _content_hash(examples) -> str:
    """Returns a hash of what examples hold, wherever they are from."""
    content = {
        field.name: getattr(examples, field.name)
        for field in dataclasses.fields(examples)
        if field.name not in ("source", "places")
    }
    return hashlib.sha256(repr(content).encode("utf-8")).hexdigest()


def _said(encoded: Encoded) -> Encoded:
    for note in encoded.notes:
        print(note)
    return encoded
