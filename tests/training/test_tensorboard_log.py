"""Numbers of a run for TensorBoard and for Keras callbacks of others."""

import importlib.util
import json

import keras
import numpy as np
import pytest
from pretraining_runs import pretrain
from tiny_pretraining import CONFIG, VOCABULARY

from keras_bert import InputError
from keras_bert.training.fine_tuning_options import FineTuningOptions
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.tensorboard_log import TensorBoardLog, add_results


def test_a_missing_package_is_named_and_ends_no_finished_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="need the package tensorboard; history.jsonl has the same"):
        TensorBoardLog(str(tmp_path))
    add_results(str(tmp_path), {"loss": 1.0}, 3)
    assert capsys.readouterr().err == ""
    (tmp_path / "tensorboard").mkdir()
    add_results(str(tmp_path), {"loss": 1.0}, 3)
    assert "The scores are not written for TensorBoard. TensorBoard's files need" in capsys.readouterr().err


class Losses(keras.callbacks.Callback):
    """The callback of a tracker."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])

    def __deepcopy__(self, memo):
        raise TypeError("a tracker holds a connection")


@pytest.mark.usefixtures("eagerly")
def test_a_run_calls_the_callbacks_of_the_user(records, tmp_path):
    tracker = Losses()
    options = {"train_batch_size": 8, "num_train_steps": 3, "num_warmup_steps": 1}
    pretrain(tmp_path / "run", records, CONFIG, VOCABULARY, **options, callbacks=(tracker,))
    assert len(tracker.losses) == 3
    assert np.isfinite(tracker.losses).all()
    assert "callbacks" not in json.loads((tmp_path / "run" / "run.json").read_text())
    settings = FineTuningOptions(num_train_epochs=1, callbacks=(tracker,), tensorboard=True).settings()
    assert not {"callbacks", "tensorboard"} & set(settings)


def test_run_json_gets_no_passwords_and_another_signature_resumes(tmp_path):
    for sig in ("abc", "123"):
        folder = RunFolder(tmp_path / "run", {"init_checkpoint": f"https://ada:word@host/x?sig={sig}"})
        assert folder.settings == {"init_checkpoint": "https://***@host/x?sig=***"}
        assert "word" not in (tmp_path / "run" / "run.json").read_text("utf-8")
