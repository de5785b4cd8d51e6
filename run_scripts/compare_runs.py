"""Compares two runs of one training command: settings that differ, learning curves, and scores.

    compare_runs runs/a runs/b --picture=curves.png

Prints the settings of the two output_dirs that differ, losses and evaluations at some steps, and eval_results.txt of
both. The picture has both learning curves; it needs matplotlib. Runs of different tasks are refused.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from absl import flags

from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import read_json_object

_MOST_STEPS = 12


def define_flags() -> None:
    flags.DEFINE_string("picture", None, "Also draw the learning curves of both runs, as this PNG file.")


@dataclasses.dataclass(frozen=True)
class RunComparison:
    """The differences between two runs of one task.

    Attributes:
        folders: the folders of the runs.
        settings: name of a setting that differs -> its value in each run, None if a run has no such setting.
        curves: for each run, see `curves_of_run`.
        scores: name of a score -> its value in each run, None if a run has no such score.
    """

    folders: tuple[str, str]
    settings: dict[str, tuple[Any, Any]]
    curves: tuple[dict, dict]
    scores: dict[str, tuple[float | None, float | None]]

    def __str__(self) -> str:
        from keras_bert.tasks.report_files import aligned

        parts = [f"A: {self.folders[0]}\nB: {self.folders[1]}\n"]
        for title, rows in (
            ("Settings that differ", self.settings),
            ("Learning curves, at some steps", self._curve_rows()),
            ("Scores", self.scores),
        ):
            shown = [[name, *map(_shown, values)] for name, values in rows.items()]
            parts.append(aligned([title, "A", "B"], shown) if rows else f"{title}: none\n")
        return "\n".join(parts)

    def _curve_rows(self) -> dict[str, tuple]:
        rows = {}
        for name in sorted(self.curves[0].keys() | self.curves[1].keys(), key=lambda name: (name != "loss", name)):
            sides = [dict(curves.get(name, ())) for curves in self.curves]
            steps = sorted(sides[0].keys() | sides[1].keys())
            every = -(-len(steps) // _MOST_STEPS)
            for step in steps[::-1][::every][::-1]:
                rows[f"{name}, step {step:,}"] = tuple(side.get(step) for side in sides)
        return rows


def compare_runs(first: str | os.PathLike, second: str | os.PathLike) -> RunComparison:
    """Compares two runs of one task, finished or not.

    Raises:
        InputError: a folder holds no run, or the runs are of different tasks.
    """
    from keras_bert.training.learning_curves import curves_of_run
    from keras_bert.training.run_folder import RunFolder

    folders = (os.path.abspath(os.fspath(first)), os.path.abspath(os.fspath(second)))
    settings = [_settings(folder) for folder in folders]
    tasks = [one.get("run") for one in settings]
    if tasks[0] != tasks[1]:
        raise InputError(
            f"The runs are of different tasks: {tasks[0]} in {folders[0]}, {tasks[1]} in {folders[1]}. Give two runs "
            "of one command."
        )
    return RunComparison(
        folders,
        {name: pair for name, pair in _pairs(*settings).items() if pair[0] != pair[1]},
        (curves_of_run(folders[0]), curves_of_run(folders[1])),
        _pairs(*(RunFolder(folder).read_results() for folder in folders)),
    )


def _settings(folder: str) -> dict[str, Any]:
    from keras_bert.training.run_card import read_facts
    from keras_bert.training.run_folder import SETTINGS_FILE

    path = os.path.join(folder, SETTINGS_FILE)
    if not os.path.isfile(path):
        raise InputError(f"{folder} holds no run: it has no {SETTINGS_FILE}. Give the output_dir of a training.")
    sizes = {name: value for name, value in read_facts(folder).items() if name != "command"}
    return _flat(read_json_object(path)) | sizes


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested settings as one dict with names such as `config.hidden_size`."""
    found = {}
    for name, value in values.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return found


def _pairs(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, tuple]:
    return {name: (first.get(name), second.get(name)) for name in sorted(first.keys() | second.keys())}


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def main(first: str, second: str) -> None:
    from keras_bert.training.learning_curves import draw_learning_curves

    comparison = compare_runs(first, second)
    print(comparison, end="")
    picture = flags.FLAGS.picture
    if picture and not any(comparison.curves):
        raise InputError("Neither run has a history.jsonl with losses to draw. Leave out --picture.")
    if picture and draw_learning_curves(picture, dict(zip("AB", comparison.folders, strict=True))):
        print(f"\n{picture}: the learning curves")


def command() -> None:
    run_command(main, define_flags, arguments=("RUN_A", "RUN_B"))


if __name__ == "__main__":
    command()
