"""The fine-tuning run of every task: trains a model on examples and evaluates it meanwhile."""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_bert.accelerate.backend import require_tensorflow
from keras_bert.models.distiller import needs_layers
from keras_bert.models.trainable_parts import enable_lora, freeze, what_is_trained
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.datasets import rows_dataset
from keras_bert.records.token_rows import RowBatches, TokenRows, row_length
from keras_bert.tasks.base import TextTask
from keras_bert.tasks.distillation import teacher_logits
from keras_bert.tasks.fitting import text_task
from keras_bert.training.best_model import BestModel, remove_best_weights
from keras_bert.training.distillation import Distillation
from keras_bert.training.optimizer_choice import OptimizerChoice, averaged_weights, take_averages
from keras_bert.training.resumable_fit import compile_for_training, resumable_fit
from keras_bert.training.run_folder import KEEP_CHECKPOINT_MAX, RunFolder, exclusive_training
from keras_bert.training.seeds import check_seed
from keras_bert.training.starting_point import StartingPoint
from keras_bert.training.strategies import any_worker, call_in_chief, check_batch_size, is_chief, wait_for_all
from keras_bert.training.trackers import check_trackers


@dataclasses.dataclass(frozen=True)
class FineTuningOptions:
    """The options of a fine-tuning run, for every task.

    Attributes:
        max_seq_length: the largest number of tokens in a row; batches are as long as their longest row. None: 128, for
            question answering 384, or the number of positions of the model if it has fewer.
        train_batch_size: examples per update.
        learning_rate: the highest learning rate.
        num_train_epochs: passes over the examples; may be a fraction.
        warmup_proportion: the fraction of training in which the learning rate rises.
        save_checkpoints_steps: number of updates between two checkpoints.
        keep_checkpoint_max: the number of newest checkpoints to keep; 0 for all.
        steps_per_execution: number of updates between two returns to Python.
        gradient_accumulation_steps: the number of parts in which each batch is computed.
        gradient_checkpointing: whether layers are computed again in the backward pass, to save memory.
        seed: seed of new weights, dropout and the order of the examples.
        track: names of `trackers.TRACKERS` that get the training metrics too.
        keep_best: whether to evaluate while training and keep the best model instead of the last.
        eval_steps: number of updates between two of these evaluations; 0 for one per epoch.
        patience: training ends after this many evaluations without a better score; 0 for never.
        main_score: name of the score that decides which model is best; None for that of the task.
        class_weight: label -> weight, or "balanced" to give every class the same total weight.
        optimizer: the optimiser, its learning rates, and the averaging of weights.
        layer_decay: factor of the learning rate from each layer to the one below, see `AdamW`.
        freeze_embeddings, freeze_layers, freeze_encoder: the parts that are not trained, see `trainable_parts.freeze`.
        lora_rank: rank of LoRA, see `trainable_parts.enable_lora`; 0 for training without LoRA.
        lora_alpha, lora_parts: the scale of LoRA (None: the rank), and the parts of the model that get it.
        distillation: the teacher of a classifier and what it teaches; None for training on labels only.

    Raises:
        InputError: a number is out of range, or two options contradict each other.
    """

    max_seq_length: int | None = None
    train_batch_size: int = 32
    learning_rate: float = 5e-5
    num_train_epochs: float = 3.0
    warmup_proportion: float = 0.1
    save_checkpoints_steps: int = 1000
    keep_checkpoint_max: int = KEEP_CHECKPOINT_MAX
    steps_per_execution: int = 1
    gradient_accumulation_steps: int = 1
    gradient_checkpointing: bool = False
    seed: int = 12345
    track: tuple[str, ...] = ()
    keep_best: bool = False
    eval_steps: int = 0
    patience: int = 0
    main_score: str | None = None
    class_weight: Mapping[str, float] | str | None = None
    optimizer: OptimizerChoice = OptimizerChoice()
    layer_decay: float = 1.0
    freeze_embeddings: bool = False
    freeze_layers: int = 0
    freeze_encoder: bool = False
    lora_rank: int = 0
    lora_alpha: float | None = None
    lora_parts: Sequence[str] = ("attention",)
    distillation: Distillation | None = None

    def __post_init__(self):
        check_seed(self.seed)
        check_trackers(self.track)
        if self.train_batch_size < 1 or self.num_train_epochs <= 0 or not 0 <= self.warmup_proportion <= 1:
            raise InputError(
                "train_batch_size must be at least 1, num_train_epochs more than 0 and warmup_proportion between 0 and "
                f"1. Received: {self.train_batch_size}, {self.num_train_epochs}, {self.warmup_proportion}"
            )
        if (self.patience or self.eval_steps) and not self.keep_best:
            raise InputError("eval_steps and patience need keep_best. Add keep_best or leave them out.")
        if self.lora_rank and (self.freeze_embeddings or self.freeze_layers or self.freeze_encoder):
            raise InputError("LoRA freezes the encoder already. Leave out either lora_rank or the freeze options.")

    def settings(self) -> dict[str, Any]:
        """Returns the options that must not change when the run is resumed."""
        changeable = (
            "save_checkpoints_steps",
            "keep_checkpoint_max",
            "steps_per_execution",
            "gradient_accumulation_steps",
            "gradient_checkpointing",
            "track",
            "distillation",
            "optimizer",
        )
        settings = {name: value for name, value in dataclasses.asdict(self).items() if name not in changeable}
        distillation = self.distillation and self.distillation.settings()
        return settings | {"distillation": distillation} | self.optimizer.settings()


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
    require_tensorflow("A training run")
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
    if any_worker(os.path.isdir(folder.model_path)):
        print(f"{folder.path}: the training is finished")
        remove_best_weights(folder)  # in case a kill prevented it
        return model_class.from_pretrained(folder.model_path)
    if options.distillation and not needs_layers(options.distillation.terms):
        rows = rows.with_labels(**{features.TEACHER_LOGITS: _teacher_logits(folder, model, train, options)})
    _train(model, task, rows, dev, folder, options)
    folder.save_model(model)
    remove_best_weights(folder)
    return model


def run_settings(model, task: TextTask, train, dev, start: StartingPoint, options, model_arguments) -> dict[str, Any]:
    """Returns the settings that must not change when the run is resumed. Its arguments are those of `fine_tune`."""
    return {
        "run": task.name,
        "train_examples": _content_hash(train),
        "config": model.config.to_dict(),
        "vocabulary": model.vocabulary.sha256,
        "init_checkpoint": os.path.abspath(start.init_checkpoint) if start.init_checkpoint else None,
        "keep_layers": None if start.keep_layers is None else list(start.keep_layers),
        "model": model_arguments,
        "dtype": keras.mixed_precision.dtype_policy().name,
        **options.settings(),
        **({"dev_examples": _content_hash(dev)} if options.keep_best else {}),
    }


def _prepare(model, options: FineTuningOptions) -> None:
    """Freezes parts of a model or adds LoRA, as the options say."""
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


def _train(model, task: TextTask, rows: TokenRows, dev, folder: RunFolder, options: FineTuningOptions) -> None:
    """Trains a model from the newest checkpoint. Afterwards it has the best, averaged or last weights."""
    trained = model
    if options.distillation:
        with_layers = needs_layers(options.distillation.terms)
        trained = options.distillation.distiller(model, type(model) if with_layers else None)
    steps_per_epoch = len(RowBatches(rows, options.train_batch_size))
    num_train_steps = max(1, round(steps_per_epoch * options.num_train_epochs))
    schedule = options.optimizer.schedule(
        options.learning_rate, num_train_steps, int(num_train_steps * options.warmup_proportion)
    )
    optimizer = options.optimizer.make(schedule, layer_decay=options.layer_decay)
    # Without XLA, because each batch has the length of its longest text.
    compile_for_training(
        trained,
        optimizer,
        with_xla=False,
        steps_per_execution=options.steps_per_execution,
        gradient_accumulation_steps=options.gradient_accumulation_steps,
        gradient_checkpointing=options.gradient_checkpointing,
    )
    best = None
    if options.keep_best:
        best = _best_model(trained, task, dev, folder, options, num_train_steps, steps_per_epoch)
    if best is None or not best.is_exhausted:
        resumable_fit(
            trained,
            lambda start_step: rows_dataset(
                rows, options.train_batch_size, shuffle=True, repeat=True, seed=options.seed, start_step=start_step
            ),
            folder,
            num_train_steps=num_train_steps,
            batch_size=options.train_batch_size,
            save_checkpoints_steps=options.save_checkpoints_steps,
            track=options.track,
            first_callbacks=[best] if best else [],
        )
    if best:
        best.restore()
    else:
        take_averages(trained)


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
        scores = task.scores(dev, task.answers(dev, example_rows, outputs), is_worst=True)
        return {name: float(value) for name, value in scores.items()}

    return functools.partial(call_in_chief, evaluate)


def _teacher_logits(folder: RunFolder, student, train, options: FineTuningOptions) -> np.ndarray:
    """Returns the teacher's logits for the examples, which are computed once and stored in the run's folder.

    If several workers train, all compute them and then read the file of the first.
    """
    path = folder.file("teacher_logits.npy")
    if not any_worker(not os.path.isfile(path)):
        return np.load(path)
    from keras_bert.checkpoints.pretrained import from_pretrained

    teacher = from_pretrained(type(student), options.distillation.teacher)
    logits = teacher_logits(teacher, student, train, options.max_seq_length, 2 * options.train_batch_size)
    if is_chief():
        with atomic_file(path) as file:
            np.save(file, logits)
    wait_for_all()
    return np.load(path)


def _content_hash(examples) -> str:
    """Returns a hash of the content of examples, without the names of their files."""
    content = {
        field.name: getattr(examples, field.name)
        for field in dataclasses.fields(examples)
        if field.name not in ("source", "locations")
    }
    return hashlib.sha256(repr(content).encode("utf-8")).hexdigest()
