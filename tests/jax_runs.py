"""A program for the tests of runs on JAX: carries out the runs that a JSON file names, in one process.

    KERAS_BACKEND=jax python tests/jax_runs.py FILE

The file has a list of runs: {"output", "records", "start": a model folder, "devices": a strategy, "dtype", "stop_at": a
step after which SIGTERM comes, "options": those of `PretrainingRunOptions`}. Each writes its run folder.
"""

import json
import os
import signal
import sys

import keras
from tiny_pretraining import VOCABULARY

from keras_bert.program.errors import InputError
from keras_bert.training.callbacks import TrainingLog
from keras_bert.training.optimizer_choice import OptimizerChoice
from keras_bert.training.pretraining import train_pretrainer
from keras_bert.training.pretraining_evaluation import PretrainingEvaluation
from keras_bert.training.pretraining_options import PretrainingRunOptions
from keras_bert.training.pretraining_phase import PretrainingPhase
from keras_bert.training.starting_point import StartingPoint
from keras_bert.training.strategies import make_strategy


def send_sigterm_after(step: int) -> None:
    """Makes SIGTERM come in each run after this step."""
    on_steps = TrainingLog.on_steps

    def on_steps_with_signal(log, previous, logs):
        on_steps(log, previous, logs)
        if log.step == step:
            os.kill(os.getpid(), signal.SIGTERM)

    TrainingLog.on_steps = on_steps_with_signal


def run(
    output, records, start, devices="off", dtype="float32", optimizer=None, keep_best=False, phase2=None, **options
):
    keras.config.set_dtype_policy(dtype)
    evaluation = PretrainingEvaluation(records) if keep_best else None
    options |= {"optimizer": OptimizerChoice(**(optimizer or {})), "keep_best": evaluation}
    options |= {"second_phase": PretrainingPhase(**phase2) if phase2 else None}
    point = StartingPoint(vocabulary=VOCABULARY, init_checkpoint=start)
    with make_strategy(devices).scope():
        return train_pretrainer(output, records, point, PretrainingRunOptions(**options))


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        runs = json.load(file)
    original = TrainingLog.on_steps
    for given in runs:
        TrainingLog.on_steps = original
        if "stop_at" in given:
            send_sigterm_after(given.pop("stop_at"))
        try:
            run(**given)
        except SystemExit as stopped:
            print(f"{given['output']}: stopped with {stopped.code}")
        except InputError as error:
            print(f"{given['output']}: {error}")


if __name__ == "__main__":
    main()
