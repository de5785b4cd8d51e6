"""Writes the numbers of a run for TensorBoard."""

import importlib.util
import os
import sys
from collections.abc import Mapping

from keras_bert.program.errors import InputError, how_to_install

_FOLDER = "tensorboard"


class TensorBoardLog:
    """Files for TensorBoard, in the folder `tensorboard` of a run. A resumed run adds to them.

    Raises:
        InputError: the package tensorboard is not installed.
    """

    def __init__(self, folder: str):
        if importlib.util.find_spec("tensorboard") is None:
            raise InputError(
                f"TensorBoard's files need the package tensorboard; history.jsonl has the same numbers. "
                f"{how_to_install('tensorboard')}"
            )
        import tensorflow as tf

        self._summary = tf.summary
        self._writer = tf.summary.create_file_writer(os.path.join(folder, _FOLDER))

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Writes the metrics of a step."""
        with self._writer.as_default(step=step):
            for name, value in values.items():
                self._summary.scalar(name, value)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def evaluation_names(scores: Mapping[str, float]) -> dict[str, float]:
    """Returns scores under names that tell them from the numbers of the training.

    >>> evaluation_names({"loss": 0.5, "test_accuracy": 0.9})
    {'eval_loss': 0.5, 'test_accuracy': 0.9}
    """
    return {name if name.startswith(("eval_", "test_")) else f"eval_{name}": scores[name] for name in scores}


def add_results(folder: str, results: Mapping[str, float], step: int) -> None:
    """Adds the scores of a finished run to its files for TensorBoard, if it has any."""
    if not os.path.isdir(os.path.join(folder, _FOLDER)):
        return
    try:
        log = TensorBoardLog(folder)
    except InputError as error:
        print(f"The scores are not written for TensorBoard. {error}", file=sys.stderr)
        return
    log.write(evaluation_names({name: results[name] for name in results if name != "global_step"}), step)
    log.close()
