"""Compares two runs of one training command: settings that differ, learning curves, and scores.

    compare_runs runs/a runs/b --picture=curves.png

Prints the settings of the two output_dirs that differ, losses and evaluations at some steps, and eval_results.txt of
both. The picture has both learning curves; it needs matplotlib. Runs of different tasks are refused.
"""

from absl import flags

from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError


def define_flags() -> None:
    flags.DEFINE_string("picture", None, "Also draw the learning curves of both runs, as this PNG file.")


def main(first: str, second: str) -> None:
    from keras_bert.training.learning_curves import draw_learning_curves
    from keras_bert.training.run_comparison import compare_runs

    comparison = compare_runs(first, second)
    print(comparison, end="")
    picture = flags.FLAGS.picture
    if picture and not any(comparison.curves):
        raise InputError(
            "Neither run has a history.jsonl with losses, so there is nothing to draw. Leave out --picture."
        )
    if picture and draw_learning_curves(picture, dict(zip("AB", comparison.folders, strict=True))):
        print(f"\n{picture}: the learning curves")


def command() -> None:
    run_command(main, define_flags, arguments=("RUN_A", "RUN_B"))


if __name__ == "__main__":
    command()
