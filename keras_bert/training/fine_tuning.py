"""The fine-tuning run of every task: trains a model on examples and evaluates it meanwhile."""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from keras_bert.accelerate.backend import require_tensorflow
from keras_bert.models.distiller import needs_layers
from keras_bert.models.trainable_parts import enable_lora, freeze, what_is_trained
from keras_bert.program.atomic_output import atomic_file, save_array
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.datasets import rows_dataset
from keras_bert.records.token_rows import TokenRows, row_length
from keras_bert.tasks.base import Answered, TextTask, text_task
from keras_bert.tasks.classification.sentence_classifier import SentenceClassifier
from keras_bert.tasks.distillation import teacher_logits
from keras_bert.training.evaluations import BestModel, finished_model, save_trained
from keras_bert.training.fine_tuning_options import FineTuningOptions
from keras_bert.training.optimizer_choice import averaged_weights
from keras_bert.training.resumable_fit import compile_for_training, resumable_fit
from keras_bert.training.run_card import write_facts
from keras_bert.training.run_folder import RunFolder, exclusive_training
from keras_bert.training.starting_point import StartingPoint
from keras_bert.training.strategies import any_worker, call_in_chief, check_batch_size, is_chief, wait_for_all


@exclusive_training
def fine_tune(
    output_dir: str | os.PathLike,
    model_class: type,
    train: Any,
    dev: Any = None,
    *,
    start: StartingPoint,
    options: FineTuningOptions | None = None,
    model_arguments: Mapping[str, Any] | None = None,
):
    """Trains a task model on examples.

    Called again with the same arguments, it continues from the newest checkpoint in `output_dir`; a finished run
    returns at once. In the scope of a tf.distribute strategy, it trains on the devices of that strategy and computes
    the same as on one device. With several workers, the first one evaluates and writes.

    Args:
        output_dir: the folder of the run, see `RunFolder`. The trained model is in its `model` folder.
        model_class: a task model that takes texts.
        train: examples with labels, of the class that the task defines.
        dev: examples with labels to evaluate on while training; needed for `keep_best`.
        start: the initial weights, config and vocabulary.
        options: the options of the run; `FineTuningOptions()` by default.
        model_arguments: the model's constructor arguments besides the config, such as the labels.

    Returns:
        The trained model.

    Raises:
        InputError: examples, folder and model do not fit together, or another process trains in the folder.
    """
    options = options or FineTuningOptions()
    if options.keep_best and dev is None:
        raise InputError("keep_best needs dev examples to evaluate on. Give some, or leave keep_best out.")
    check_batch_size(options.train_batch_size, options.gradient_accumulation_steps)
    model_arguments = dict(model_arguments or {})
    keras.utils.set_random_seed(options.seed)
    model = start.make(model_class, **model_arguments)
    task = text_task(model)
    options = dataclasses.replace(
        options, max_seq_length=row_length(model.config, options.max_seq_length, task.usual_length)
    )
    if options.class_weight is not None:
        train = dataclasses.replace(train, weights=task.class_weights(train, options.class_weight))
    task.before_training(train)
    rows = task.rows(train, options.max_seq_length).print_notes().rows
    _prepare(model, options)
    settings = run_settings(model, task, train, dev, start, options, model_arguments)
    folder = RunFolder(output_dir, settings, options.keep_checkpoint_max)
    write_facts(folder.path, train_examples=len(train), dev_examples=None if dev is None else len(dev))
    if any_worker(os.path.isdir(folder.model_path)):
        return finished_model(folder, model_class)
    if options.distillation and not needs_layers(options.distillation.terms):
        rows = rows.with_labels(**{features.TEACHER_LOGITS: _teacher_logits(folder, model, train, options)})
    rows = task.taught(rows, train, 2 * options.train_batch_size, functools.partial(_kept, folder))
    _train_and_save(model, task, rows, dev, folder, options)
    return model


def run_settings(model, task: TextTask, train, dev, start: StartingPoint, options, model_arguments) -> dict[str, Any]:
    """Returns the settings that must not change when the run is resumed. Its arguments are those of `fine_tune`."""
    return {
        "run": task.name,
        "train_examples": _content_hash(train),
        "model": model_arguments,
        **start.settings(model),
        **options.settings(),
        **({"dev_examples": _content_hash(dev)} if options.keep_best else {}),
    }


def _prepare(model, options: FineTuningOptions) -> None:
    """Chooses the loss of a model, and freezes parts of it or adds LoRA, as the options say."""
    model.choose_loss(options.loss)
    freeze(
        model,
        embeddings=options.freeze_embeddings,
        num_layers=options.freeze_layers,
        whole_encoder=options.freeze_encoder,
    )
    if options.lora_rank:
        enable_lora(model, options.lora_rank, alpha=options.lora_alpha, parts=options.lora_parts)
    if what_is_trained(model):
        print(what_is_trained(model))


def _train_and_save(model, task: TextTask, rows: TokenRows, dev, folder: RunFolder, options: FineTuningOptions) -> None:
    """Trains a model from the newest checkpoint, and saves it with the best, averaged or last weights."""
    trained = model
    if options.distillation:
        with_layers = needs_layers(options.distillation.terms)
        trained = options.distillation.distiller(model, type(model) if with_layers else None)
    steps_per_epoch = len(rows.batches(options.train_batch_size, options.seed))
    num_train_steps = max(1, round(steps_per_epoch * options.num_train_epochs))
    schedule = options.optimizer.schedule(
        options.learning_rate, num_train_steps, int(num_train_steps * options.warmup_proportion)
    )
    task.before_updates(num_train_steps)
    optimizer = options.optimizer.make(schedule, layer_decay=options.layer_decay)
    # Without XLA, because each batch has the length of its longest text.
    compile_for_training(trained, optimizer, options, with_xla=False)
    steps = (num_train_steps, steps_per_epoch)
    best = _best_model(trained, task, dev, folder, options, *steps) if options.keep_best else None
    if best is None or not best.is_exhausted:
        resumable_fit(
            trained,
            lambda start_step: rows_dataset(
                rows, options.train_batch_size, shuffle=True, repeat=True, seed=options.seed, start_step=start_step
            ),
            folder,
            options,
            num_train_steps=num_train_steps,
            batch_size=options.train_batch_size,
            evaluations=best,
        )
    save_trained(trained, model, folder, best)


def _best_model(
    trained, task: TextTask, dev, folder: RunFolder, options: FineTuningOptions, num_train_steps, steps_per_epoch
) -> BestModel:
    """Returns the callback that evaluates the task's model while it, or its `Distiller`, is trained."""
    if options.optimizer.ema_momentum:
        print("The averaged weights are evaluated and kept (ema_momentum).")
    return BestModel(
        folder,
        folder.restore_checkpoint(trained),  # the newest checkpoint may be damaged
        num_train_steps,
        task.model,
        _evaluation(task, dev, options),
        options.main_score or task.main_score,
        evaluate_steps=options.eval_steps or steps_per_epoch,
        patience=options.patience,
        # The model folder will have the averaged weights, so they are evaluated.
        with_weights=functools.partial(averaged_weights, trained),
    )


def _evaluation(task: TextTask, dev, options: FineTuningOptions) -> Callable[[], dict[str, float]]:
    """Returns a function that returns the scores of the task's model with its current weights; ties count as wrong."""
    example_rows = task.rows(dev, options.max_seq_length).print_notes()

    def evaluate():
        outputs = task.outputs(example_rows.rows, options.train_batch_size)
        answers = task.answers(dev, example_rows, outputs)
        scores = task.scores_of(Answered(task.model, dev, example_rows, outputs, answers), is_worst=True)
        return {name: float(value) for name, value in scores.items()}

    return functools.partial(call_in_chief, evaluate)


def _teacher_logits(folder: RunFolder, student, train, options: FineTuningOptions) -> np.ndarray:
    """Returns the teacher's logits for the examples, see `_kept`."""
    from keras_bert.checkpoints.pretrained import from_pretrained

    def logits():
        teacher = from_pretrained(type(student), options.distillation.teacher)
        return teacher_logits(teacher, student, train, options.max_seq_length, 2 * options.train_batch_size)

    return _kept(folder, "teacher_logits", logits)


def _kept(folder: RunFolder, name: str, compute: Callable[[], np.ndarray]) -> np.ndarray:
    """Returns an array that is computed once and stored in the run's folder as NAME.npy.

    If several workers train, all compute it and then read the file of the first.
    """
    path = folder.file(f"{name}.npy")
    if not any_worker(not os.path.isfile(path)):
        return np.load(path)
    values = compute()
    if is_chief():
        with atomic_file(path) as file:
            save_array(file, values)
    wait_for_all()
    return np.load(path)


def _content_hash(examples) -> str:
    """Returns a hash of the content of examples, without the names of their files."""
    content = {
        field.name: getattr(examples, field.name)
        for field in dataclasses.fields(examples)
        if field.name not in ("source", "locations")
    }
    if "parts" in content:  # several data sets
        content["parts"] = [_content_hash(part) for part in content["parts"]]
    return hashlib.sha256(repr(content).encode("utf-8")).hexdigest()


@exclusive_training
def train_few_shot(
    output_dir: str | os.PathLike,
    train: Any,
    *,
    start: StartingPoint,
    options: FineTuningOptions,
    model_arguments: Mapping[str, Any],
) -> SentenceClassifier:
    """Trains a `SentenceClassifier` and writes it to the `model` folder of a run. A finished run returns at once.

    Such a run takes seconds to minutes, so it writes no checkpoints: after an interruption it starts again.

    Args:
        train: `TextExamples` with labels.
        options: of these, epochs, batch size, learning rate, maximum length and seed are used.
        model_arguments: the labels.

    Raises:
        InputError: the examples are pairs, have one label only, or do not fit the folder.
    """
    require_tensorflow("Few-shot training (few_shot)")
    if train.second_texts is not None:
        raise InputError(f"{train.source}: few-shot training takes single texts. Received: pairs")
    keras.utils.set_random_seed(options.seed)
    model = start.make(SentenceClassifier, **model_arguments)
    settings = run_settings(model, text_task(model), train, None, start, options, dict(model_arguments))
    folder = RunFolder(output_dir, settings, options.keep_checkpoint_max)
    write_facts(folder.path, train_examples=len(train))
    if os.path.isdir(folder.model_path):
        return finished_model(folder, SentenceClassifier)
    model.fit_few_shot(
        train.texts,
        train.labels,
        epochs=max(1, round(options.num_train_epochs)),
        batch_size=options.train_batch_size,
        learning_rate=options.learning_rate,
        max_seq_length=options.max_seq_length,
        seed=options.seed,
    )
    folder.save_model(model)
    return model
