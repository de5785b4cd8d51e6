"""Evaluates and predicts with the model of a finished fine-tuning run, for every task."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from keras_bert import registry
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import member, read_json_object
from keras_bert.program.options import check_whole
from keras_bert.records.token_rows import row_length
from keras_bert.tasks.base import Answered, TextTask, text_task
from keras_bert.tasks.calibration import Calibration, calibrate_on_outputs
from keras_bert.tasks.evaluation_report import write_report
from keras_bert.tokenization.tokenizer import TokenTable
from keras_bert.training.run_folder import RunFolder

# What `BestModel` writes about the best weights of a run.
BEST_FILE = "best.json"


def load_trained_model(
    output_dir: str | os.PathLike,
    kind: str,
    *,
    init_checkpoint: str | os.PathLike | None = None,
    vocabulary: TokenTable | None = None,
    do_lower_case: bool | None = None,
    doc_stride: int | None = None,
    thresholds: Any = None,
    decoding: str | None = None,
    **runtime: Any,
):
    """Returns the model of a finished run.

    Args:
        output_dir: the folder of a finished run, or an empty one if `init_checkpoint` is given.
        kind: the kind of model that the run has trained, a key of `registry.TASKS`.
        init_checkpoint: a checkpoint of such a model in any format, for when `output_dir` has no model; or an exported
            folder, which is taken in any case. An export is run without TensorFlow and Keras.
        vocabulary, do_lower_case: for this checkpoint, see `StartingPoint`.
        doc_stride, thresholds, decoding: for models that have them: replace those of the model. None keeps them.
        **runtime: how an export computes, the options of `keras_bert.serving.load`.

    Raises:
        InputError: there is no such model, `doc_stride` is below 1, or thresholds do not fit the model.
    """
    from keras_bert.serving.portable.loading import is_export, load_kind

    folder = RunFolder(output_dir)
    if init_checkpoint is not None and is_export(init_checkpoint):
        if vocabulary is not None or do_lower_case is not None:
            raise InputError(
                f"The export {os.fspath(init_checkpoint)} has its own vocabulary and casing. Give neither."
            )
        model = load_kind([kind], init_checkpoint, **runtime)
    else:
        from keras_bert.training.starting_point import StartingPoint, trained_model

        start = StartingPoint(None, vocabulary, init_checkpoint, do_lower_case)
        model = trained_model(registry.imported(registry.task(kind).model), folder, start)
    doc_stride = check_whole("doc_stride", doc_stride, at_least=1, or_none=True)
    for name, value in {"doc_stride": doc_stride, "thresholds": thresholds, "decoding": decoding}.items():
        if value is not None:
            setattr(model, name, value)
    return model


def ask_model(
    model,
    examples: Any,
    max_seq_length: int | None = None,
    batch_size: int = 8,
    with_labels: bool = True,
    make_task: Callable[[Any], TextTask] = text_task,
    **options,
) -> Answered:
    """Returns the examples of a model's task with the model's outputs and answers.

    Args:
        max_seq_length: see `FineTuningOptions`.
        with_labels: whether the model must know the labels of the examples.
        make_task: function of the model that returns its task.
        **options: options of the task's `answers` and `outputs`, such as `n_best_size`.

    Raises:
        InputError: the examples do not fit the model.
    """
    task = make_task(model)
    length = row_length(model.config, max_seq_length, task.usual_length)
    example_rows = task.rows(examples if with_labels else task.without_labels(examples), length).print_notes()
    chosen = {name: options.pop(name) for name in task.output_options if name in options}
    outputs = task.outputs(example_rows.rows, batch_size, **chosen)
    return Answered(model, examples, example_rows, outputs, task.answers(examples, example_rows, outputs, **options))


def evaluate_run(
    output_dir: str | os.PathLike,
    kind: str,
    dev: Any | Mapping[str, Any],
    *,
    max_seq_length: int | None = None,
    batch_size: int = 8,
    calibrate: bool = False,
    tune: Callable[[Answered], Any] | None = None,
    **model: Any,
) -> dict[str, float]:
    """Evaluates the model of a run. Writes `eval_results.txt`, and a readable report into `eval_report`.

    Args:
        output_dir, kind, **model: the arguments of `load_trained_model`.
        dev: examples with labels that the model knows, or several sets of them by name: `eval`, whose results come
            first, and for example `eval_mismatched`.
        max_seq_length, batch_size: see `ask_model`.
        calibrate: whether to calibrate the model on the set `eval` first, and to save it in the folder of the run.
        tune: changes the model, after that, by its outputs for the set `eval`, and returns what it has done, which is
            printed. The model is saved too.

    Returns:
        The content of `eval_results.txt`: the official scores and the scores of guessing, prefixed with the name of
        their set (`eval_accuracy`), `global_step`, and `loss` as in google-research/bert.

    Raises:
        InputError: there is no such model, it does not know a label, or the examples determine no temperature.
    """
    loaded = load_trained_model(output_dir, kind, **model)
    task, folder = text_task(loaded), RunFolder(output_dir)
    sets = dict(dev) if isinstance(dev, Mapping) else {"eval": dev}
    first, *others = sorted(sets, key=lambda name: name != "eval")
    if calibrate:
        calibrate_answered(ask_model(loaded, sets[first], max_seq_length, batch_size), folder)
    if tune:
        print(tune(ask_model(loaded, sets[first], max_seq_length, batch_size)))
        folder.replace_model(loaded)
    further = {}
    for name in (*others, first):
        answered = ask_model(loaded, sets[name], max_seq_length, batch_size)
        os.makedirs(folder.file(f"{name}_report"), exist_ok=True)
        scores = write_report(folder.file(f"{name}_report"), answered)
        shown = task.scores_of_guessing(sets[name]) | (scores if name != first else {})
        further |= {f"{name}_{score}": value for score, value in shown.items()}
    results = write_eval_results(folder, scores, **further)
    print(f"{folder.file(f'{first}_report')}: the report")
    comparison = task.comparison(sets[first], scores)
    if comparison:
        print(comparison)
    return results


def calibrate_answered(answered: Answered, folder: RunFolder) -> Calibration:
    """Calibrates a model on the outputs for examples that it was not trained on, and saves it as the model of a run.

    If the model keeps its old temperature, nothing is saved.

    Raises:
        InputError: the examples do not determine a temperature.
    """
    found = calibrate_on_outputs(answered)
    if found.temperature == 1.0:
        return found
    folder.replace_model(answered.model)
    print(
        f"Calibrated on {len(answered.examples)} examples: temperature {found.temperature:.4g}; expected calibration "
        f"error {found.error_before:.4f} before and {found.error_after:.4f} after, on the same examples."
    )
    return found


def predict_run(
    output_dir: str | os.PathLike,
    kind: str,
    test: Any,
    *,
    max_seq_length: int | None = None,
    batch_size: int = 8,
    name: str = "test",
    answer_options: Mapping[str, Any] | None = None,
    make_task: Callable[[Any], TextTask] = text_task,
    **model: Any,
) -> Answered:
    """Predicts with the model of a run and writes the files of the task's `write_predictions` into its folder.

    If the examples have labels that the task can score, it writes the scores to `NAME_results.txt`.

    Args:
        output_dir, kind, **model: the arguments of `load_trained_model`.
        test: examples; labels are not needed.
        max_seq_length, batch_size, make_task: as for `ask_model`, whose `options` are the `answer_options`.
        name: prefix of the file names.

    Raises:
        InputError: there is no such model.
    """
    loaded = load_trained_model(output_dir, kind, **model)
    task, folder = make_task(loaded), RunFolder(output_dir)
    answered = ask_model(loaded, test, max_seq_length, batch_size, False, make_task, **(answer_options or {}))
    task.write_predictions(folder.path, answered, name)
    scores = task.scores_of_predictions(test, answered.answers)
    if scores:
        results = {f"{name}_{score}": value for score, value in scores.items()}
        print(folder.write_results(results, f"{name}_results.txt"), end="")
    return answered


def best_step(folder: RunFolder) -> int | None:
    """Returns the step of the best weights of a finished run, or None if it did not evaluate while training."""
    path = folder.file(BEST_FILE)
    return member(read_json_object(path), "step", int, path) if os.path.isfile(path) else None


def write_eval_results(folder: RunFolder, scores: Mapping[str, float], **further: Any) -> dict[str, Any]:
    """Writes the result of a task's `scores` to `eval_results.txt`, with the prefix `eval_`, and prints them.

    Returns:
        The written values: the scores, `global_step`, `loss` as in Google's scripts, and `further`.
    """
    results = {f"eval_{name}": value for name, value in scores.items()} | further
    results["global_step"] = best_step(folder) or folder.latest_step()
    if "loss" in scores:
        results["loss"] = scores["loss"]
    print(folder.write_results(results), end="")
    return results
