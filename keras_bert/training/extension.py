"""Goes on with a finished pre-training run: `--extend_to`."""

import itertools
import os
from collections.abc import Sequence
from typing import Any

from keras_bert.optimization import PhasedSchedule, WarmupTrapezoid
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import member, read_json_object
from keras_bert.training.optimizer_choice import OptimizerChoice
from keras_bert.training.run_folder import EXTENDED_TO, SETTINGS_FILE, RunFolder
from keras_bert.training.strategies import any_worker, is_chief, wait_for_all

_WARMUP_SHARE = 0.01


def ends_of_run(output_dir: str | os.PathLike, num_train_steps: int, extend_to: int | None) -> list[int]:
    """Returns the steps at which a run ends: `num_train_steps`, the ends of its earlier extensions, and `extend_to`.

    A run that is being extended, or was, has its earlier ends without `extend_to` too.

    Raises:
        InputError: there is no run to extend, it has not finished, or `extend_to` is not above the step it has reached.
    """
    path = os.path.join(os.fspath(output_dir), SETTINGS_FILE)
    stored = read_json_object(path) if os.path.isfile(path) else {}
    ends = [num_train_steps, *member(stored, EXTENDED_TO, list, path, [])]
    if extend_to is None or (len(ends) > 1 and extend_to == ends[-1]):
        return ends
    if not stored:
        raise InputError(
            f"--extend_to goes on with a finished run, and {os.fspath(output_dir)} holds none. Give its output_dir, or "
            "train with --num_train_steps first."
        )
    if sum(stored.get(f"num_updates{phase}", 0) for phase in ("", "_phase2")) != num_train_steps:
        return ends  # `RunFolder` refuses the other settings
    reached = RunFolder(output_dir).latest_step()
    if extend_to <= max(reached, ends[-1]):
        what = "reached" if reached >= ends[-1] else "to reach first"
        raise InputError(
            f"--extend_to={extend_to} is not above step {max(reached, ends[-1])}, which the run in "
            f"{os.fspath(output_dir)} has {what}. Give more steps, counted from the beginning of the run."
        )
    if reached < ends[-1]:
        raise InputError(
            f"The run in {os.fspath(output_dir)} has checkpoints up to step {reached} of {ends[-1]}, so its optimizer "
            "cannot go on from the end. Run the same command without --extend_to first."
        )
    return [*ends, extend_to]


def extended_schedule(schedule: Any, optimizer: OptimizerChoice, peak: float, ends: Sequence[int]) -> Any:
    """Returns the learning rates of a run and its extensions.

    `schedule` is that of the run up to `ends[0]`, and `ends` is the result of `ends_of_run`. In each extension the rate
    rises to `peak`, the highest rate of the last phase, over 1 % of the new updates, and falls to the new end. A
    constant rate stays as it is.
    """
    for before, end in itertools.pairwise(ends):
        num_steps, num_warmup_steps = end - before, 0
        if optimizer.learning_rate_schedule != "constant" and num_steps > 1:
            num_warmup_steps = max(1, round(_WARMUP_SHARE * num_steps))
        if optimizer.learning_rate_schedule == "linear":
            # `WarmupLinearDecay` begins to fall under the warm-up and so misses the peak.
            further: Any = WarmupTrapezoid(
                peak, num_steps, num_warmup_steps, num_decay_steps=num_steps - num_warmup_steps
            )
        else:
            further = optimizer.schedule(peak, num_steps, num_warmup_steps)
        schedule = PhasedSchedule(schedule, further, before)
    return schedule


def former_end_of(ends: Sequence[int]) -> int:
    """Returns the step at which a run had finished before its last extension, or 0 if it was not extended."""
    return ends[-2] if len(ends) > 1 else 0


def open_run_folder(
    output_dir: str | os.PathLike, settings: dict[str, Any], keep_checkpoint_max: int, ends: Sequence[int]
) -> RunFolder:
    """Returns the folder of a run that ends at `ends[-1]`. The model of an earlier end gets the name `model-step-N`."""
    if len(ends) == 1:
        return RunFolder(output_dir, settings, keep_checkpoint_max)
    folder = RunFolder(output_dir, {**settings, EXTENDED_TO: list(ends[1:])}, keep_checkpoint_max)
    former = f"{folder.model_path}-step-{former_end_of(ends)}"
    is_due = folder.latest_step() < ends[-1] and os.path.isdir(folder.model_path) and not os.path.exists(former)
    if any_worker(is_due) and is_chief():
        os.rename(folder.model_path, former)
        print(f"{former}: the model so far")
    wait_for_all()
    return folder
