"""Draws the losses and scores of a training run."""

import os

from keras_bert.tasks.report_files import BLUE, draw
from keras_bert.training.callbacks import read_history
from keras_bert.training.run_folder import EVALUATIONS_FILE

_LOSS = "loss"


def draw_learning_curves(path: str | os.PathLike, folder: str | os.PathLike) -> bool:
    """Draws the losses of a run on the left axis, and its first other score on the right one, into a PNG file.

    Returns:
        Whether there was something to draw and matplotlib to do so.
    """
    curves: dict[str, list[tuple[int, float]]] = {}  # name -> (step, value)
    for file, prefix in (("history.jsonl", ""), (EVALUATIONS_FILE, "eval_")):
        for line in read_history(os.path.join(folder, file)):
            for name, value in line.items():
                if name == _LOSS or prefix and name != "step":
                    curves.setdefault(prefix + name, []).append((line["step"], value))
    if not curves:
        return False
    score = next((name for name in curves if not name.endswith(_LOSS)), None)

    def on(axis):
        for name, style in ((_LOSS, "-"), (f"eval_{_LOSS}", ".--"), (score, ".:")):
            if name not in curves:
                continue
            place = axis
            if name == score:
                place = axis.twinx()
                place.set_ylabel(score)
            steps, values = zip(*curves[name], strict=True)
            place.plot(steps, values, style, color=BLUE, label=name)
        axis.set_xlabel("step")
        axis.set_ylabel("loss")
        axis.grid(alpha=0.3)
        axis.figure.legend(loc="outside upper center", ncols=3, fontsize=8, frameon=False)

    return draw(path, (7.0, 4.0), on)
