"""Flags of all fine-tuning commands, with the names and defaults of google-research/bert, and the work they ask for."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags

from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_flag, define_option_flags, options_of_flags, refuse_unneeded_flags
from keras_bert.training.fine_tuning_options import FineTuningOptions, Grid
from run_scripts.asked_models import define_runtime_flags, refuse_runtime_flags
from run_scripts.run_flags import define_device_flags, define_keep_layers_flag, set_precision, strategy_of_flags

FLAGS = flags.FLAGS
_NOT_OF_EXPORTS = (
    "do_train",
    "calibrate",
    "tune_thresholds",
    "tune_null_threshold",
    "explain",
    "distribution_strategy",
)
# Part of the data, which --do_PART requests -> the flag that names its file, and its purpose in words.
_PARTS = {
    "train": ("train_file", "train on"),
    "eval": ("dev_file", "evaluate on"),
    "predict": ("test_file", "predict"),
}


def define_fine_tuning_flags(*, has_probabilities: bool = True) -> None:
    """Defines the flags of a command that trains, evaluates and predicts; probabilities can be calibrated."""
    flags.DEFINE_string("output_dir", None, "The folder of this run: new, empty, or that of a run to resume.")
    help = "A checkpoint of any format, with config and vocabulary; or an exported folder, to evaluate and predict."
    flags.DEFINE_string("init_checkpoint", None, help)
    flags.DEFINE_string("bert_config_file", None, "bert_config.json, to train from scratch.")
    flags.DEFINE_string("vocab_file", None, "To train from scratch: a vocab.txt, or a folder with a vocabulary.")
    flags.DEFINE_boolean("do_lower_case", None, "Whether the vocabulary is uncased. Default: as the checkpoint says.")
    flags.DEFINE_boolean("do_train", False, "Train.")
    flags.DEFINE_boolean("do_predict", False, "Predict.")
    flags.DEFINE_integer("predict_batch_size", 8, "Examples per prediction step.")
    define_option_flags(FineTuningOptions)
    define_device_flags()
    define_runtime_flags(None)
    define_keep_layers_flag()
    flags.DEFINE_boolean("grid", False, "Train and evaluate with all settings of the grid, each in its own folder.")
    define_option_flags(Grid)
    define_flag("seeds", None, "Train with each of these (default: random_seed), with or without --grid.", is_list=True)
    if has_probabilities:
        help = "Calibrate the probabilities on the dev examples before evaluating: temperature scaling."
        flags.DEFINE_boolean("calibrate", False, help)
    flags.mark_flag_as_required("output_dir")


def define_data_file_flags(examples: str, data_dir: str) -> None:
    """Defines the flags. The arguments describe the content of the files, and the file names in the folder."""
    flags.DEFINE_string("data_dir", None, f"A folder with train, dev and test files: {data_dir}.")
    flags.DEFINE_string("train_file", None, f"{examples} to train on: a file, or tfds:NAME@SPLIT.")
    flags.DEFINE_string("dev_file", None, f"{examples} to evaluate on.")
    flags.DEFINE_string("test_file", None, f"{examples} to predict; labels are not needed.")
    define_skip_missing_flag()
    # The names in create_finetuning_data.
    flags.DEFINE_alias("eval_file", "dev_file")
    flags.DEFINE_alias("predict_file", "test_file")
    flags.DEFINE_boolean("do_eval", False, "Evaluate on dev_file.")
    flags.DEFINE_integer("eval_batch_size", 8, "Examples per evaluation step.")


def define_skip_missing_flag() -> None:
    flags.DEFINE_boolean("skip_missing", False, "Leave out rows without a text or a label, and say how many.")


def requested_parts() -> list[str]:
    """Returns which of "train", "eval" and "predict" are requested. Raises `InputError` if none is."""
    parts = [part for part in _PARTS if FLAGS[f"do_{part}"].value]
    if not parts:
        raise InputError("Nothing to do. Give --do_train, --do_eval, --do_predict or several of them.")
    return parts


def data_files(endings: Sequence[str] | None = None) -> dict[str, str]:
    """Returns part -> file for the requested parts of "train", "eval" and "predict": named files, else the folder's.

    `endings` are those of files in the folder, by default of tables. Raises `InputError` if nothing is requested, or a
    file does not exist.
    """
    from data_prep.finetuning.data_folder import TABLE_ENDINGS, find_parts

    parts = requested_parts()
    found = {part: FLAGS[_PARTS[part][0]].value for part in parts}
    missing = [part for part in parts if not found[part]]
    in_folder = find_parts(FLAGS.data_dir, endings or TABLE_ENDINGS) if missing and FLAGS.data_dir else {}
    for part in missing:
        if part not in in_folder:
            flag, purpose = _PARTS[part]
            place = f" in {FLAGS.data_dir}" if FLAGS.data_dir else ""
            raise InputError(f"There is nothing to {purpose}{place}. Give --{flag}{'' if place else ' or --data_dir'}.")
    return {part: found[part] or in_folder[part] for part in parts}


def check_training_flags(*, has_train: bool, has_dev: bool, needed: str = "--do_eval and --dev_file") -> None:
    """Raises `InputError` if flags need files that are not given. Called before anything is trained.

    `needed` are the flags that give evaluation examples to the command, for messages.
    """
    if _asks_export():
        given = [name for name in _NOT_OF_EXPORTS if name in FLAGS and FLAGS[name].present]
        if given:
            raise InputError(
                f"{FLAGS.init_checkpoint} is an export, which predicts and does not change. Leave --{given[0]} out."
            )
    else:
        refuse_runtime_flags(FLAGS.init_checkpoint, "runtime")
    refuse_unneeded_flags(Grid, FineTuningOptions)
    has_several_runs = FLAGS.grid or FLAGS.seeds
    if has_several_runs and not (has_train and has_dev):
        raise InputError(f"A grid of runs needs training and evaluation. Give --do_train and {needed}.")
    if FLAGS.distribution_strategy == "tpu":
        raise InputError(
            "Fine-tuning batches are as long as their longest text, so a TPU would compile the step anew for each "
            "length. Use --distribution_strategy=mirrored; run_pretraining supports tpu."
        )
    if has_several_runs and FLAGS.distribution_strategy == "multi_worker_mirrored":
        raise InputError(
            "A grid needs a single process. Give one of its settings, or use --distribution_strategy=mirrored."
        )
    if (FLAGS.keep_best or FLAGS.early_stopping_patience or FLAGS.eval_steps) and has_train and not has_dev:
        raise InputError(f"--keep_best needs dev examples. Give {needed}.")


def run_task(
    kind: str,
    parts: Mapping[str, Any],
    main_score: str,
    *,
    model_arguments: Mapping[str, Any] | None = None,
    new_tokens: Sequence[str] = (),
    answer_options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> None:
    """Trains, evaluates and predicts with a model of a kind, as the flags say.

    Args:
        kind: the kind of model, a key of `registry.TASKS`.
        parts: the examples of "train", "eval" and "predict"; what has none is not done.
        main_score: the score that selects the best run of a grid, without `eval_`.
        model_arguments, answer_options: see `fine_tune` and `predict_run`.
        new_tokens: tokens to add to the vocabulary of the checkpoint.
        **settings: further settings of the trained model, see `load_trained_model`.
    """
    train, dev, test = (parts.get(part) for part in ("train", "eval", "predict"))
    check_training_flags(has_train=bool(train), has_dev=bool(dev))

    from keras_bert.training.finished_runs import evaluate_run, predict_run

    model = {**trained_model_flags(), **settings}

    def train_in(folder, options):
        from keras_bert import registry
        from keras_bert.training.fine_tuning import fine_tune

        model_class = registry.imported(registry.task(kind).model)
        start = dataclasses.replace(starting_point(), new_tokens=new_tokens)
        fine_tune(folder, model_class, train, dev, start=start, options=options, model_arguments=model_arguments)

    def evaluate_in(folder):
        calibrates = "calibrate" in FLAGS and FLAGS.calibrate
        return evaluate_run(folder, kind, dev, batch_size=FLAGS.eval_batch_size, calibrate=calibrates, **model)

    def predict_in(folder):
        predict_run(folder, kind, test, batch_size=FLAGS.predict_batch_size, answer_options=answer_options, **model)

    train_evaluate_predict(
        train_in if train else None, evaluate_in if dev else None, predict_in if test else None, main_score
    )


def train_evaluate_predict(
    train_in: Callable | None,
    evaluate_in: Callable | None,
    predict_in: Callable | None,
    main_score: str,
    others: Mapping[str, Any] | None = None,
) -> None:
    """Trains and evaluates once, or with all settings of the grid in the flags; then predicts.

    Training uses all devices of `--distribution_strategy`, the rest one device of the first worker. `train_in` is a
    function of a folder and `FineTuningOptions`; `evaluate_in`, of a folder, returns the content of `eval_results.txt`;
    `predict_in` is a function of the folder of the (best) run. None leaves a step out. `others` are options that the
    command determines.
    """
    keep_best = FLAGS.keep_best or bool(FLAGS.early_stopping_patience or FLAGS.eval_steps)
    options = options_of_flags(FineTuningOptions, **{"keep_best": keep_best, **(others or {})})
    if _asks_export():
        for work in filter(None, (evaluate_in, predict_in)):
            work(FLAGS.output_dir)
        return
    from keras_bert.training.strategies import run_in_chief

    set_precision()
    strategy = strategy_of_flags()

    def train_with(folder, options):
        with strategy.scope():
            train_in(folder, options)

    output_dir = FLAGS.output_dir
    if FLAGS.grid or FLAGS.seeds:
        output_dir = _run_grid(options, train_with, evaluate_in, options.main_score or main_score)
    else:
        if train_in:
            train_with(output_dir, options)
        if evaluate_in:
            run_in_chief(strategy, lambda: evaluate_in(output_dir))
    if predict_in:
        run_in_chief(strategy, lambda: predict_in(output_dir))


def _run_grid(options: FineTuningOptions, train_in: Callable, evaluate_in: Callable, main_score: str) -> str:
    """Trains and evaluates with all settings of the grid, prints the table, and returns the folder of the best run."""
    import keras

    from keras_bert.training.grid import cells, run_grid

    seeds = FLAGS.seeds or [options.seed]
    if FLAGS.grid:
        grid = options_of_flags(Grid, seeds=seeds)
    else:
        grid = Grid([options.train_batch_size], [options.learning_rate], [options.num_train_epochs], seeds)

    def run_cell(folder, cell):
        keras.backend.clear_session()  # also resets the precision
        set_precision()
        train_in(folder, dataclasses.replace(options, **dataclasses.asdict(cell)))
        results = evaluate_in(folder)
        return {name.removeprefix("eval_"): value for name, value in results.items() if name.startswith("eval_")}

    best = run_grid(FLAGS.output_dir, cells(grid), run_cell, main_score)
    with open(os.path.join(FLAGS.output_dir, "grid.txt"), encoding="utf-8") as file:
        print(file.read(), end="")
    return os.path.join(FLAGS.output_dir, best.name)


def starting_point():
    """Returns the `StartingPoint` of the flags: a checkpoint, or config and vocabulary of a new model."""
    from keras_bert.config import BertConfig
    from keras_bert.training.starting_point import StartingPoint

    config = BertConfig.from_json_file(FLAGS.bert_config_file) if FLAGS.bert_config_file else None
    return StartingPoint(config, _vocabulary(), FLAGS.init_checkpoint, FLAGS.do_lower_case, FLAGS.keep_layers)


def trained_model_flags() -> dict[str, Any]:
    """Returns the flags of the model for evaluation or prediction, if the run does not train."""
    model = {"init_checkpoint": FLAGS.init_checkpoint, "vocabulary": _vocabulary()}
    model |= {"do_lower_case": FLAGS.do_lower_case, "max_seq_length": FLAGS.max_seq_length}
    return model | ({"runtime": FLAGS.runtime, "precision": FLAGS.precision} if _asks_export() else {})


def _vocabulary():
    from keras_bert.tokenization.kinds import load_vocabulary

    return load_vocabulary(FLAGS.vocab_file) if FLAGS.vocab_file else None


def _asks_export() -> bool:
    """Returns whether --init_checkpoint is an exported folder, which runs without TensorFlow and Keras."""
    from keras_bert.serving.portable.loading import is_export

    return FLAGS.init_checkpoint is not None and is_export(FLAGS.init_checkpoint)
