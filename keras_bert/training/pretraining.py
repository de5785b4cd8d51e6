"""The pre-training run: from TFRecords to a model folder and `eval_results.txt`."""

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.accelerate.backend import require_tensorflow
from keras_bert.models.encoder_base import Encoder
from keras_bert.models.task_model import TaskModel
from keras_bert.optimization import GrowingBatchSchedule, PhasedSchedule
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.datasets import naming_damaged_records, pretraining_dataset
from keras_bert.records.dynamic_masking import FallingRate
from keras_bert.tasks.masked_lm.model import MaskedLM
from keras_bert.training.evaluations import BestModel, Evaluations, finished_model, save_trained
from keras_bert.training.extension import ends_of_run, extended_schedule, former_end_of, open_run_folder
from keras_bert.training.finished_runs import best_step
from keras_bert.training.optimizer_choice import OptimizerChoice, averaged_weights
from keras_bert.training.pretraining_evaluation import PretrainingEvaluation
from keras_bert.training.pretraining_options import (
    DEFAULT_OBJECTIVE,
    MEGATRON,
    USUAL,
    PretrainingRunOptions,
    pretrainer_class,
)
from keras_bert.training.pretraining_phase import PretrainingPhase, Stage, stages_of
from keras_bert.training.resumable_fit import MIN_STEPS_FOR_XLA, compile_for_training, resumable_fit
from keras_bert.training.run_card import write_facts
from keras_bert.training.run_folder import RunFolder, exclusive_training
from keras_bert.training.starting_point import StartingPoint, check_same_vocabulary, trained_model
from keras_bert.training.strategies import any_worker
from keras_bert.training.time_budget import TimeBudget

# The record index of each phase, so that a resumed run does not count the records again.
_INDEX_FILES = ("record_index.npz", "record_index_phase2.npz")
# The score of the best model: the loss that is optimised.
_MAIN_SCORE = "loss"


@exclusive_training
def train_pretrainer(
    output_dir: str | os.PathLike,
    train_files: str | Sequence[str],
    start: StartingPoint,
    options: PretrainingRunOptions | None = None,
) -> TaskModel:
    """Pre-trains the model of an objective, as google-research/bert and /electra `run_pretraining.py` do.

    It accepts all records that `create_pretraining_data` writes: packed rows, records without a next-sentence task, and
    records without masks, which get new masks in every epoch.

    Called again with the same arguments, it continues from the newest checkpoint in `output_dir`; a finished run
    returns at once. In the scope of a tf.distribute strategy, it trains on the devices of that strategy and computes
    the same as on one device, so a run may continue with another number of devices. Batch sizes count all devices
    together.

    Args:
        output_dir: the folder of the run, see `RunFolder`. The trained model is in its `model` folder.
        train_files: TFRecord files, wildcard patterns or folders, see `pretraining_dataset`.
        start: a checkpoint, or the config of a model to train from scratch. Its vocabulary goes into the model folder,
            and is used to mask records without masks.
        options: the options of the run; `PretrainingRunOptions()` by default.

    Returns:
        The trained model, with averaged weights if `ema_momentum` is set.

    Raises:
        InputError: files, folder, config and vocabulary do not fit together, or another process trains in the folder.
    """
    options = options or PretrainingRunOptions()
    if options.mem_len:
        require_tensorflow("A memory between batches (mem_len)")
    phases = options.phases(train_files)
    stages = stages_of(phases)
    ends = ends_of_run(output_dir, stages[-1].end, options.extend_to)
    schedule = _schedule(phases, options.optimizer)
    schedule = extended_schedule(schedule, options.optimizer, phases[-1].learning_rate, ends)
    keras.utils.set_random_seed(options.seed)
    model_class = pretrainer_class(options.objective)
    if options.initialization != USUAL and start.init_checkpoint:
        raise InputError(
            f"initialization={options.initialization} is for a new model, but the weights come from init_checkpoint, "
            f"{start.init_checkpoint}. Leave out one of the two."
        )
    model = start.make(model_class, **options.model_arguments)
    if options.initialization == MEGATRON:
        scale_output_projections(model)
    if model.vocabulary is None:
        print("No vocabulary was given. The model folder will have none, so the model takes token ids but no texts.")
    make_datasets = _dataset_makers(stages, phases, model, options)
    # Each phase's dataset is made once now, so that errors of the second phase appear before the first phase.
    first_makers = {stage.phase: make for stage, make in zip(reversed(stages), reversed(make_datasets), strict=True)}
    datasets = [first_makers[number]() for number in range(len(phases))]
    settings = _settings(model, start, options, phases, datasets)
    folder = open_run_folder(output_dir, settings, options.keep_checkpoint_max, ends)
    # In an extension the records of the last phase go on.
    stages[-1] = dataclasses.replace(stages[-1], end=ends[-1])
    if options.keep_best and any_worker(os.path.isdir(folder.model_path)):
        return finished_model(folder, model_class)
    # XLA is possible, since all batches of a stage have one shape. The choice depends on the length of the whole run,
    # so that a resumed run computes the same.
    trained = options.distillation.distiller(model, MaskedLM) if options.distillation else model
    compile_for_training(
        trained,
        options.optimizer.make(
            0.0 if options.max_train_hours else schedule, beta_2=options.adam_beta_2, bias_correction=False
        ),
        options,
        with_xla=ends[-1] >= MIN_STEPS_FOR_XLA,
    )
    if options.mem_len:
        from keras_bert.encoders.stream_memory import remember  # needs TensorFlow

        remember(trained, options.mem_len, phases[0].train_batch_size)
    hours = options.max_train_hours
    budget = TimeBudget(folder, trained, schedule, ends[-1], hours) if hours else None
    make_evaluations = _evaluations_maker(trained, model, folder, options, former_end_of(ends))
    best = _train(trained, model, stages, make_datasets, folder, options, make_evaluations, budget)
    write_facts(folder.path, train_records=_num_records(folder), updates=folder.latest_step())
    save_trained(trained, model, folder, best)
    return model


def _num_records(folder: RunFolder) -> int:
    """Returns the number of records of all phases, from their indexes."""
    counts = 0
    for path in filter(os.path.isfile, map(folder.file, _INDEX_FILES)):
        with np.load(path) as index:
            counts += int(index["counts"].sum())
    return counts


def _settings(
    model: TaskModel, start: StartingPoint, options: PretrainingRunOptions, phases, datasets
) -> dict[str, object]:
    """Returns the settings that must not change when the run is resumed."""
    settings = {"run": "pretraining", **start.settings(model), **options.settings()}
    for suffix, phase, dataset in zip(("", "_phase2"), phases, datasets, strict=False):
        of_phase = phase.settings(dataset.element_spec[features.MASKED_LM_IDS].shape[1])
        settings |= {name + suffix: value for name, value in of_phase.items()}
    return settings


def _evaluations_maker(trained, model: TaskModel, folder: RunFolder, options: PretrainingRunOptions, former_end: int):
    """Returns a function that takes the last step of a stage and returns the `Evaluations` for this stage, or None."""
    evaluation = options.keep_best or options.evaluation
    if not evaluation:
        return lambda end: None
    dataset = evaluation.dataset(model)
    if trained is not model:
        model.compile(optimizer=None)  # for its evaluation
    evaluate = functools.partial(evaluation.results, model, dataset)
    when = {
        "evaluate_steps": options.steps_between_evaluations,
        "with_weights": functools.partial(averaged_weights, trained),
    }

    def make(end: int) -> Evaluations:
        start = folder.restore_checkpoint(trained)  # the newest checkpoint may be damaged
        if not options.keep_best:
            return Evaluations(folder, start, end, evaluate, _MAIN_SCORE, **when)
        when_best = {"less_is_better": True, "after_step": former_end, **when}
        return BestModel(folder, start, end, model, evaluate, _MAIN_SCORE, **when_best)

    return make


def _schedule(phases: Sequence[PretrainingPhase], optimizer: OptimizerChoice):
    """Returns the learning rate schedule of a run. A second phase has its own warm-up."""
    schedules = []
    for number, phase in enumerate(phases, start=1):
        try:
            schedule = optimizer.schedule(phase.learning_rate, phase.num_train_steps, phase.num_warmup_steps)
        except InputError as error:
            raise error if len(phases) == 1 else InputError(f"Phase {number}: {error}") from None
        if phase.batch_growth:
            schedule = GrowingBatchSchedule(schedule, phase.batch_sizes, phase.batch_growth_steps)
        schedules.append(schedule)
    return PhasedSchedule(*schedules, stages_of(phases[:1])[-1].end) if len(phases) > 1 else schedules[0]


def _dataset_makers(
    stages: Sequence[Stage], phases: Sequence[PretrainingPhase], model: TaskModel, options: PretrainingRunOptions
):
    """Returns `pretraining_dataset` for each stage, with its arguments filled in."""
    end = options.masked_lm_prob_end
    return [
        functools.partial(
            pretraining_dataset,
            stage.train_files,
            stage.batch_size,
            max_seq_length=phases[stage.phase].max_seq_length,
            max_predictions_per_seq=phases[stage.phase].max_predictions_per_seq,
            seed=options.seed,
            config=model.config,
            vocabulary=model.vocabulary,
            masking=options.masking,
            default_masking=model.masking,
            # The update of batch b of the dataset is `stage.start - stage.first_batch + b`.
            falling_rate=end and FallingRate(end, stages[-1].end, stage.start - stage.first_batch),
            in_streams=options.mem_len > 0,
        )
        for stage in stages
    ]


def _train(
    trained,
    model: TaskModel,
    stages: Sequence[Stage],
    make_datasets: Sequence[Callable],
    folder: RunFolder,
    options: PretrainingRunOptions,
    make_evaluations: Callable[[int], Evaluations | None],
    budget: TimeBudget | None,
) -> BestModel | None:
    """Trains a compiled model, or its `Distiller`, in one stage after the other, from the newest checkpoint.

    Returns the callback that has kept the best weights, or None without `keep_best`.
    """
    evaluations = None
    for stage, make_dataset in zip(stages, make_datasets, strict=True):
        index_path = folder.file(_INDEX_FILES[stage.phase])
        evaluations = make_evaluations(stage.end)
        if budget:
            budget.start_at(folder.restore_checkpoint(trained), evaluations)
            if budget.is_used_up:
                break
        if stage.start:
            print(f"phase {stage.phase + 1}: steps {stage.start} to {stage.end} with batches of {stage.batch_size}")
            # Shapes differ, so the step is traced again, as in a process that starts in this stage.
            trained.make_train_function(force=True)
        with naming_damaged_records(stage.train_files, model.config):
            resumable_fit(
                trained,
                functools.partial(_dataset_at, make_dataset, index_path, stage),
                folder,
                options,
                num_train_steps=stage.end,
                batch_size=stage.batch_size,
                stuck_input_seconds=options.stuck_input_seconds,
                source=f"the records {stage.train_files}",
                evaluations=evaluations,
                first_callbacks=[budget] if budget else [],
            )
    return evaluations if isinstance(evaluations, BestModel) else None


def _dataset_at(make_dataset: Callable, index_path: str, stage: Stage, step: int) -> tf.data.Dataset:
    """Returns the batches of a stage from step `step` of the run on."""
    first = stage.first_batch + step - stage.start
    return make_dataset(start_step=first, index_path=index_path)


def evaluate_pretrainer(
    output_dir: str | os.PathLike,
    eval_files: str | Sequence[str],
    *,
    init_checkpoint: str | os.PathLike | None = None,
    objective: str = DEFAULT_OBJECTIVE,
    **options: Any,
) -> dict[str, float]:
    """Evaluates a pre-trained model and writes `eval_results.txt` with Google's names.

    Args:
        output_dir: the folder of a finished run, or an empty one if `init_checkpoint` is given.
        eval_files, **options: the attributes of `PretrainingEvaluation`.
        init_checkpoint: a checkpoint in any format, for when `output_dir` has no model.
        objective: that of the run.

    Returns:
        The loss and the metrics of the pre-trainer, and `global_step`. If the records have no next-sentence task,
        `next_sentence_accuracy` is NaN, and `n/a` in the file.

    Raises:
        InputError: there is no model, or the records do not fit it.
    """
    evaluation = PretrainingEvaluation(eval_files, **options)
    folder = RunFolder(output_dir)
    model = trained_model(pretrainer_class(objective), folder, StartingPoint(init_checkpoint=init_checkpoint))
    check_same_vocabulary(evaluation.vocabulary, model.vocabulary, folder.path)
    dataset = evaluation.dataset(model)
    model.compile(optimizer=None)
    results = evaluation.results(model, dataset) | {"global_step": best_step(folder) or folder.latest_step()}
    written = {name: "n/a" if math.isnan(value) else value for name, value in results.items()}
    print(folder.write_results(written), end="")
    return results


def scale_output_projections(model) -> None:
    """Gives the output projections of a new model the standard deviation `initializer_range / sqrt(2 * layers)`.

    They are the last dense layers of attention and of feed-forward parts, whose outputs are added to their inputs. Two
    for each layer make up the sum; so its variance does not grow with the number of layers. The initial kernels are
    scaled, so all others stay as they are. Encoders with rotary positions begin like this anyway. All encoders of a
    model are scaled, such as ELECTRA's generator and discriminator.

    Raises:
        InputError: an encoder has no layers, or layers of another form.

    Reference: Shoeybi et al., 2019, arXiv 1909.08053, section 3; Warner et al., 2024, arXiv 2412.13663, for ModernBERT.
    """
    for encoder in (layer for layer in model._flatten_layers() if isinstance(layer, Encoder)):
        blocks, config = getattr(encoder, "blocks", ()), encoder.config
        if not blocks or not all(hasattr(block, "output_dense") for block in blocks):
            raise InputError(
                f"initialization={MEGATRON} scales the output projections of attention and feed-forward parts, which a "
                f"{config.model_type} does not have. Use initialization={USUAL}."
            )
        deviation = config.initializer_range / (2 * config.num_hidden_layers) ** 0.5
        for block in blocks:
            for dense in (block.attention.output_dense, block.output_dense):
                dense.kernel.assign(dense.kernel * (deviation / dense.kernel_initializer.stddev))
