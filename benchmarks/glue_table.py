"""Writes the GLUE scores of a run of one_gpu_day.sh as a table, OUTPUT/scores.md.

    python -m benchmarks.glue_table --output_dir=OUTPUT

Each task has its main score on the leaderboard: for MRPC and QQP the mean of accuracy and F1, for STS-B the mean of
Pearson's and Spearman's correlation.
"""

import pathlib
import statistics

from absl import flags

from benchmarks.tables import table_lines
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.scores import GLUE_MAIN_SCORES

FLAGS = flags.FLAGS
RESULTS = "eval_results.txt"


def define_flags() -> None:
    flags.DEFINE_string("output_dir", None, "The OUTPUT of one_gpu_day.sh.", required=True)


def main() -> None:
    folder = pathlib.Path(FLAGS.output_dir)
    text = "".join(f"{line}\n" for line in score_lines(folder))
    with atomic_file(folder / "scores.md") as file:
        file.write(text.encode())
    print(text, end="")


def score_lines(folder: pathlib.Path) -> list[str]:
    """Returns the lines of the table, below the losses of the runs of pre-training.

    Raises:
        InputError: no task is finished, or one has no such score.
    """
    losses = [
        f"{path.parent.name}: held-out masked-LM loss {float(results['masked_lm_loss']):.3f} after "
        f"{int(results['global_step']):,} updates"
        for path in sorted(folder.glob(f"*pretraining/{RESULTS}"), key=lambda path: path.stat().st_mtime)
        for results in [read_results(path)]
    ]
    rows, scores = [], []
    for task, score in GLUE_MAIN_SCORES.items():
        path = folder / "glue" / task / RESULTS
        if not path.exists():
            continue
        results = read_results(path)
        parts = [f"{part}_{score}" for part in ("eval", "eval_mismatched") if f"{part}_{score}" in results]
        if not parts:
            raise InputError(f"{path} has no eval_{score}.")
        scores.append(statistics.fmean(100 * float(results[part]) for part in parts))
        shown = " / ".join(f"{100 * float(results[part]):.1f}" for part in parts)
        rows.append([task, score.replace("_", " "), shown, f"{int(results['global_step']):,}"])
    if not rows:
        raise InputError(f"{folder}/glue has no finished task.")
    rows.append(["mean", "", f"{statistics.fmean(scores):.1f}", ""])
    return [*losses, "", *table_lines(["task", "score, on the dev examples", "%", "updates"], rows)]


def read_results(path: pathlib.Path) -> dict[str, str]:
    """Returns the values of an `eval_results.txt`."""
    return dict(line.split(" = ", 1) for line in path.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    run_command(main, define_flags)
