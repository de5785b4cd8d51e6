"""Fine-tunes the same weights with this package and with transformers + torch, and compares the official scores.

    python -m benchmarks.finetuning_quality --model=FOLDER --data=FOLDER --other_python=PYTHON --output_dir=quality

Every run is a process of its own that writes its predictions into OUTPUT/ours or OUTPUT/transformers. Runs whose file
exists are not repeated, so an interrupted comparison continues. The same code scores both sides. The last lines are the
tables of docs/results_quality.md: the scores of each seed, the difference of the means, and the allowed difference: one
point, or the pooled standard deviation over the seeds if that is more.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys

from absl import flags

from benchmarks import finetuning_examples as examples
from benchmarks.finetuning_examples import RECIPES
from benchmarks.tables import table_lines
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS

SIDES = {"ours": "benchmarks.keras_bert_finetuning", "transformers": "benchmarks.transformers_finetuning"}


def define_flags() -> None:
    flags.DEFINE_string("model", None, "A Hugging Face folder that both sides start from.", required=True)
    flags.DEFINE_string("data", None, "A folder with glue, wnut17, squad and codah.", required=True)
    flags.DEFINE_string("output_dir", None, "Where predictions are written.", required=True)
    flags.DEFINE_string("other_python", None, "A Python with torch and transformers; without it, ours alone is run.")
    flags.DEFINE_list("tasks", list(RECIPES), f"Some of {', '.join(RECIPES)}.")
    flags.DEFINE_integer("threads", 1, "Threads of a run. Runs come one after another.")


def main() -> None:
    check_tasks(FLAGS.tasks)
    pythons = {"ours": sys.executable} | ({"transformers": FLAGS.other_python} if FLAGS.other_python else {})
    for task in FLAGS.tasks:
        for seed in RECIPES[task].seeds:
            for side, python in pythons.items():
                run_if_missing(side, python, task, seed)
    results = read_results(pathlib.Path(FLAGS.output_dir))
    print("\n".join([*score_table(results, pathlib.Path(FLAGS.data)), "", *time_table(results)]))


def check_tasks(tasks: list[str]) -> None:
    """Raises `InputError` if the comparison does not have one of these tasks."""
    if unknown := [task for task in tasks if task not in RECIPES]:
        raise InputError(f"--tasks: there is no {', '.join(unknown)}. There are: {', '.join(RECIPES)}")


def threads_environment(threads: int) -> dict[str, str]:
    """Returns the environment variables that let both sides compute with so many threads."""
    return {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "0"}


def run_if_missing(side: str, python: str, task: str, seed: int) -> None:
    """Runs one side of one task in a process; its output goes into a file beside its predictions."""
    output = pathlib.Path(FLAGS.output_dir, side, f"{task}-{seed}.json")
    if output.exists():
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    arguments = {"model": FLAGS.model, "data": FLAGS.data, "task": task, "seed": seed, "threads": FLAGS.threads}
    command = [python, "-m", SIDES[side], f"--output={output}"]
    command += [f"--{name}={value}" for name, value in arguments.items()]
    print(f"{side}: {task}, seed {seed}", file=sys.stderr, flush=True)
    environment = os.environ | threads_environment(FLAGS.threads)
    with open(output.with_suffix(".log"), "w") as log:
        status = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env=environment).returncode
    if status:
        raise InputError(f"{side}, {task}, seed {seed} ended with {status}: see {log.name}")


def read_results(folder: pathlib.Path) -> dict[tuple[str, str, int], dict]:
    """Returns the results that the runs have written: (side, task, seed) -> the content of the file."""
    results = {}
    for side in SIDES:
        for path in sorted(folder.glob(f"{side}/*.json")):
            result = json.loads(path.read_text(encoding="utf-8"))
            results[side, result["task"], result["seed"]] = result
    return results


def scores_of(task: str, predictions: dict, data: pathlib.Path) -> dict[str, float]:
    """Returns the official scores in percent, named as in `RECIPES`."""
    if task == "WNUT-17":
        return {f"{split} entity F1": entity_f1(predictions[split], data, split) for split in ("dev", "test")}
    if task == "SQuAD":
        return squad_figures(predictions["dev"], data)
    from sklearn import metrics

    if task == "CODAH":
        gold = examples.read_multiple_choice(data, "dev")[2]
    else:
        gold = examples.read_classification(data, task, "dev")[2]
    given = predictions["dev"]
    if task == "CoLA":
        return {"dev Matthews": 100 * metrics.matthews_corrcoef(gold, given)}
    scores = {"dev accuracy": 100 * metrics.accuracy_score(gold, given)}
    return scores | ({"dev F1": 100 * metrics.f1_score(gold, given)} if task == "MRPC" else {})


def entity_f1(predicted: list[list[str]], data: pathlib.Path, split: str) -> float:
    from keras_bert.tasks.tagging.scores import entity_scores

    return 100 * entity_scores(examples.read_tagged_sentences(data, split)[1], predicted).micro.f1


def squad_figures(predicted: dict[str, str], data: pathlib.Path) -> dict[str, float]:
    from keras_bert.tasks.question_answering.scores import squad_scores

    questions = examples.read_questions(data, "dev")
    answers = {question["id"]: [answer["text"] for answer in question["answers"]] for question in questions}
    scores = squad_scores(answers, predicted, as_in_1_1=True)
    return {"dev F1": scores["f1"], "dev EM": scores["exact"]}


def allowed_difference(columns: list[list[float]]) -> float:
    """Returns one point, or the pooled standard deviation of the sides' seeds if that is more.

    >>> allowed_difference([[70.0, 76.0], [71.0, 73.0]]) == ((18 + 2) / 2) ** 0.5
    True
    """
    variances = [statistics.variance(values) if len(values) > 1 else 0.0 for values in columns]
    return max(1.0, statistics.fmean(variances) ** 0.5)


def score_table(results: dict, data: pathlib.Path) -> list[str]:
    """Returns the lines of a table: a row for each score, the seeds of each side, means and their difference."""
    rows = []
    for task, recipe in RECIPES.items():
        found = {side: {} for side in SIDES}
        for seed in recipe.seeds:
            for side in SIDES:
                if (side, task, seed) in results:
                    found[side][seed] = scores_of(task, results[side, task, seed]["predictions"], data)
        for score in recipe.scores:
            columns = [[scores[score] for scores in found[side].values()] for side in SIDES]
            if not any(columns):
                continue
            cells = [task, score, *(" ".join(f"{value:.1f}" for value in values) for values in columns)]
            cells += [f"{statistics.fmean(values):.2f}" if values else "" for values in columns]
            if all(columns):
                cells += [f"{statistics.fmean(columns[0]) - statistics.fmean(columns[1]):+.2f}"]
                cells += [f"{allowed_difference(columns):.2f}"]
            else:
                cells += ["", ""]
            rows.append(cells)
    means = ("ours, mean", "transformers, mean", "difference", "allowed")
    return table_lines(["task", "score", "ours, by seed", "transformers, by seed", *means], rows)


def time_table(results: dict) -> list[str]:
    """Returns the lines of a table: processor and wall-clock seconds of training, means over the seeds."""
    rows = []
    for task, recipe in RECIPES.items():
        for side in SIDES:
            runs = [results[side, task, seed] for seed in recipe.seeds if (side, task, seed) in results]
            if not runs:
                continue
            epochs = [
                statistics.fmean(seconds) for seconds in zip(*(run["epoch_seconds"] for run in runs), strict=True)
            ]
            processor = statistics.fmean(run["cpu_seconds"] for run in runs)
            seconds = " ".join(f"{value:.0f}" for value in epochs)
            rows.append([task, side, str(len(runs)), f"{processor:.0f}", seconds])
    return table_lines(["task", "side", "runs", "processor s", "wall-clock s, by epoch"], rows)


if __name__ == "__main__":
    run_command(main, define_flags)
