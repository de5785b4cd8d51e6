"""The pre-training run: TFRecords in, model folder and `eval_results.txt` out."""

import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence

import keras
import tensorflow as tf

from keras_bert.accelerate.backend import require_tensorflow
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.optimization import PhasedSchedule
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.datasets import naming_damaged_records, pretraining_dataset
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.training.best_model import BestModel, forget_best_weights, kept_step
from keras_bert.training.optimizer_choice import OptimizerChoice, averaged_weights, take_averages
from keras_bert.training.pretraining_evaluation import PretrainingEvaluation
from keras_bert.training.pretraining_options import PretrainingRunOptions
from keras_bert.training.pretraining_phase import PretrainingPhase
from keras_bert.training.resumable_fit import compile_for_training, resumable_fit
from keras_bert.training.run_folder import RunFolder, training_alone
from keras_bert.training.starting_point import StartingPoint, check_same_vocabulary, trained_model
from keras_bert.training.strategies import is_any

# Compiling the step takes as long as some dozens of steps.
_MIN_STEPS_FOR_XLA = 200
# Where the records of each phase begin: a run that goes on does not count them again.
_INDEX_FILES = ("record_index.npz", "record_index_phase2.npz")
# The score of the best model: what is optimised.
_MAIN_SCORE = "loss"


@training_alone
def train_pretrainer(
    output_dir: str | os.PathLike,
    train_files: str | Sequence[str],
    start: StartingPoint,
    options: PretrainingRunOptions | None = None,
) -> BertPretrainer:
    """Pre-trains a BERT on masked words and next sentences, as google-research/bert `run_pretraining.py` does.

    It takes all forms of records that `create_pretraining_data` writes: packed rows, records without a sentence task,
    and records without masks, which get new masks in every epoch.

    Called again with the same arguments it goes on from the newest checkpoint in `output_dir`, and returns at once what
    is finished. Called within the scope of a tf.distribute strategy, it trains on the devices of that, and computes
    what one device would: it may go on with another number of them. Batch sizes are those of an update.

    Args:
        output_dir: the run's folder, see `RunFolder`; the trained model is in its `model` folder.
        train_files: TFRecord files, globs or folders, as `pretraining_dataset` takes them.
        start: a checkpoint, or the config of a model to train from scratch. Its vocabulary goes into the model folder,
            and masks records without masks.
        options: `PretrainingRunOptions()` by default.

    Returns:
        The trained model: with `ema_momentum`, the averaged weights.

    Raises:
        InputError: files, folder, config and vocabulary do not go together, or another process trains in that folder.
    """
    require_tensorflow("Pre-training")
    options = options or PretrainingRunOptions()
    phases = options.phases(train_files)
    schedule = _schedule(phases, options.optimizer)
    keras.utils.set_random_seed(options.seed)
    model = start.make(BertPretrainer)
    if model.vocabulary is None:
        print("No vocabulary was given: the model folder will have no vocab.txt, so it takes token ids and no text.")
    datasets_from = [_dataset_from(phase, model, options) for phase in phases]
    # All are made now: after the first phase it would be late to find that the second one cannot be.
    datasets = [dataset_from() for dataset_from in datasets_from]
    settings = _settings(model, start, options, phases, datasets)
    folder = RunFolder(output_dir, settings, options.keep_checkpoint_max)
    if options.keep_best and is_any(os.path.isdir(folder.model_path)):
        return _finished_model(folder)
    # All batches of a phase have one shape. By the length of the whole run, so that a resumed one computes the same.
    compile_for_training(
        model,
        options.optimizer.make(schedule, beta_2=options.adam_beta_2, bias_correction=False),
        with_xla=sum(phase.num_train_steps for phase in phases) >= _MIN_STEPS_FOR_XLA,
        steps_per_execution=options.steps_per_execution,
        gradient_accumulation_steps=options.gradient_accumulation_steps,
        gradient_checkpointing=options.gradient_checkpointing,
    )
    best = _train(model, phases, datasets_from, folder, options)
    _save_trained(model, folder, best)
    return model


def _finished_model(folder: RunFolder) -> BertPretrainer:
    """Returns the best model of a run that is finished."""
    print(f"{folder.path}: the training is finished")
    forget_best_weights(folder)  # a kill may have come before it
    return BertPretrainer.from_pretrained(folder.model_path)


def _save_trained(model: BertPretrainer, folder: RunFolder, best: BestModel | None) -> None:
    """Gives the model the weights that the run has found, the best, averaged or last ones, and saves it."""
    if best:
        best.restore()
    else:
        take_averages(model)
    folder.save_model(model)
    forget_best_weights(folder)


def _settings(
    model: BertPretrainer, start: StartingPoint, options: PretrainingRunOptions, phases, datasets
) -> dict[str, object]:
    """Returns what must stay the same for a run to be the same run."""
    settings = {
        "run": "pretraining",
        "config": model.config.to_dict(),
        "vocabulary": model.vocabulary.sha256 if model.vocabulary else None,
        "init_checkpoint": os.path.abspath(start.init_checkpoint) if start.init_checkpoint else None,
        "dtype": keras.mixed_precision.dtype_policy().name,
        **options.settings(),
    }
    for suffix, phase, dataset in zip(("", "_phase2"), phases, datasets, strict=False):
        of_phase = phase.settings(dataset.element_spec[features.MASKED_LM_IDS].shape[1])
        settings |= {name + suffix: value for name, value in of_phase.items()}
    return settings


def _best_model_from(model: BertPretrainer, folder: RunFolder, options: PretrainingRunOptions):
    """Returns a function from the last step of a phase to the `BestModel` that evaluates in it."""
    dataset = options.keep_best.dataset(model)

    def best_model(end: int) -> BestModel:
        return BestModel(
            folder,
            folder.restore_checkpoint(model),  # not the newest there is, if that one is damaged
            end,
            model,
            functools.partial(options.keep_best.results, model, dataset),
            _MAIN_SCORE,
            less_is_better=True,
            evaluate_steps=options.steps_between_evaluations,
            with_weights=functools.partial(averaged_weights, model),
        )

    return best_model


def _schedule(phases: Sequence[PretrainingPhase], optimizer: OptimizerChoice):
    """Returns the learning rates of a run; those of a second phase begin with its own warm-up."""
    schedules = []
    for number, phase in enumerate(phases, start=1):
        try:
            schedules.append(optimizer.schedule(phase.learning_rate, phase.num_train_steps, phase.num_warmup_steps))
        except InputError as error:
            raise error if len(phases) == 1 else InputError(f"Phase {number}: {error}") from None
    return PhasedSchedule(*schedules, phases[0].num_train_steps) if len(phases) > 1 else schedules[0]


def _dataset_from(phase: PretrainingPhase, model: BertPretrainer, options: PretrainingRunOptions):
    """Returns `pretraining_dataset` with the arguments of a phase."""
    return functools.partial(
        pretraining_dataset,
        phase.train_files,
        phase.train_batch_size,
        max_seq_length=phase.max_seq_length,
        max_predictions_per_seq=phase.max_predictions_per_seq,
        seed=options.seed,
        config=model.config,
        vocabulary=model.vocabulary,
        masking=options.masking,
    )


def _train(
    model,
    phases: Sequence[PretrainingPhase],
    datasets_from: Sequence[Callable],
    folder: RunFolder,
    options: PretrainingRunOptions,
) -> BestModel | None:
    """Trains a compiled model in one phase after the other, from the newest checkpoint of any of them.

    Returns:
        The callback that has kept the best weights, if `options` ask for them.
    """
    best_from = _best_model_from(model, folder, options) if options.keep_best else None
    end, best = 0, None
    for number, (phase, dataset_from) in enumerate(zip(phases, datasets_from, strict=True), start=1):
        start, end = end, end + phase.num_train_steps
        if number > 1:
            print(f"phase {number}: steps {start} to {end}")
            # A graph of its own, as in a process that is started in this phase: the shapes are others.
            model.make_train_function(force=True)
        best = best_from(end) if best_from else None
        with naming_damaged_records(phase.train_files, model.config):
            resumable_fit(
                model,
                functools.partial(_after, dataset_from, folder.file(_INDEX_FILES[number - 1]), start),
                folder,
                num_train_steps=end,
                batch_size=phase.train_batch_size,
                save_checkpoints_steps=options.save_checkpoints_steps,
                tensorboard=options.tensorboard,
                stuck_input_seconds=options.stuck_input_seconds,
                source=f"the records {phase.train_files}",
                **({"first_callbacks": [best]} if best else {}),
            )
    return best


def _after(dataset_from: Callable, index_path: str, start: int, step: int) -> tf.data.Dataset:
    """Returns the batches of a phase that begins at step `start`, from step `step` of the run on."""
    return dataset_from(start_step=step - start, index_path=index_path)


def evaluate_pretrainer(
    output_dir: str | os.PathLike,
    eval_files: str | Sequence[str],
    *,
    vocabulary: Vocabulary | None = None,
    init_checkpoint: str | os.PathLike | None = None,
    max_seq_length: int | None = None,
    max_predictions_per_seq: int | None = None,
    eval_batch_size: int = 8,
    max_eval_steps: int = 100,
    masking: Mapping[str, object] | None = None,
) -> dict[str, float]:
    """Evaluates a pre-trained model and writes `eval_results.txt` with Google's names.

    Records without masks get the same ones every time, as long as `eval_batch_size` stays the same.

    Args:
        output_dir: the folder of a finished run, or an empty one if `init_checkpoint` is given.
        vocabulary: for records without masks, when the model has none of its own.
        init_checkpoint: the checkpoint, of any format, to evaluate when `output_dir` has no model.
        max_seq_length, max_predictions_per_seq, masking: as `pretraining_dataset` takes them.
        max_eval_steps: evaluates at most this many batches.

    Returns:
        The results: `METRICS` and `global_step`. Where the records have no sentence task, `next_sentence_accuracy` is
        NaN, and `n/a` in the file.

    Raises:
        InputError: there is no model, or the files do not go with it.
    """
    evaluation = PretrainingEvaluation(
        eval_files, eval_batch_size, max_eval_steps, max_seq_length, max_predictions_per_seq, masking, vocabulary
    )
    folder = RunFolder(output_dir)
    model = trained_model(BertPretrainer, folder, StartingPoint(init_checkpoint=init_checkpoint))
    check_same_vocabulary(vocabulary, model.vocabulary, folder.path)
    dataset = evaluation.dataset(model)
    model.compile(optimizer=None)
    results = evaluation.results(model, dataset) | {"global_step": kept_step(folder) or folder.latest_step()}
    written = {name: "n/a" if math.isnan(value) else value for name, value in results.items()}
    print(folder.write_results(written), end="")
    return results
