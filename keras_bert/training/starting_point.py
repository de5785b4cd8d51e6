"""Which model a run starts with: new, from a model folder, or the one that the run has trained."""

import dataclasses
import os
from collections.abc import Sequence

from keras_bert.checkpoints.model_folder import read_model_config
from keras_bert.config import BertConfig
from keras_bert.errors import InputError
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.training.run_folder import RunFolder


@dataclasses.dataclass(frozen=True)
class StartingPoint:
    """What a run starts with: a checkpoint, or the config and vocabulary of a new model.

    Attributes:
        config: not needed with `init_checkpoint`; if both are given they must agree.
        vocabulary: the same.
        init_checkpoint: a checkpoint of any format.
        do_lower_case: the casing; `None` takes that of `init_checkpoint`, else that of the config.
        keep_layers: the numbers of the layers to take from `init_checkpoint`; `None` takes all.
    """

    config: BertConfig | None = None
    vocabulary: Vocabulary | None = None
    init_checkpoint: str | os.PathLike | None = None
    do_lower_case: bool | None = None
    keep_layers: Sequence[int] | None = None

    def make(self, model_class: type, **arguments):
        """Returns a new `model_class`, with the weights of the checkpoint if there is one.

        Args:
            **arguments: what the constructor takes beside the config.

        Raises:
            InputError: nothing to start with was given, or what was given disagrees.
        """
        if self.keep_layers is not None and not self.init_checkpoint:
            raise InputError("keep_layers chooses from the layers of init_checkpoint, which was not given.")
        if self.init_checkpoint:
            model = self._load(model_class, arguments)
        elif self.config:
            config = self.config
            if self.do_lower_case is not None:
                config = config.replace(do_lower_case=self.do_lower_case)
            model = model_class(config, **arguments)
        else:
            raise InputError(
                "Give a config (bert_config_file) to train from scratch, or a model folder as init_checkpoint."
            )
        if self.vocabulary is not None:
            model.config.check_vocabulary(len(self.vocabulary))
            model.vocabulary = self.vocabulary
        return model

    def _load(self, model_class: type, arguments: dict):
        path, vocabulary = self.init_checkpoint, self.vocabulary
        model = model_class.from_pretrained(
            path, do_lower_case=self.do_lower_case, keep_layers=self.keep_layers, **arguments
        )
        if self.config:
            _check_same_config(_with_casing_of(model.config, self.config, self.do_lower_case), model.config, path)
        check_same_vocabulary(vocabulary, model.vocabulary, path)
        return model


def trained_model(model_class: type, folder: RunFolder, init_checkpoint: str | os.PathLike | None):
    """Returns the model that the run in `folder` has trained, or that of the model folder `init_checkpoint`.

    Raises:
        InputError: there is none, or it is of another class.
    """
    path = folder.model_path if os.path.isdir(folder.model_path) else init_checkpoint
    if not path:
        raise InputError(
            f"{folder.path} has no trained model. Train it to its end first (do_train), or name a model folder as "
            "init_checkpoint."
        )
    _, saved_class, _ = read_model_config(path)
    if not issubclass(saved_class, model_class):
        raise InputError(
            f"{path} holds a {saved_class.__name__}, and a {model_class.__name__} is needed here: train one from it "
            "first (do_train)."
        )
    return model_class.from_pretrained(path)


def check_same_vocabulary(given: Vocabulary | None, saved: Vocabulary | None, path: str | os.PathLike) -> None:
    """Raises `InputError` when a vocabulary that was given is another than that of the model at `path`."""
    if given and saved and given.sha256 != saved.sha256:
        raise InputError(
            f"The vocabulary that was given is not that of {path}. Leave it out: the model folder has its own."
        )


def _with_casing_of(saved: BertConfig, given: BertConfig, do_lower_case: bool | None) -> BertConfig:
    """Returns the given config with the saved casing, unless it says `False`.

    Google's files do not say the casing, so `True` can be a default and not what the user meant.
    """
    is_said = do_lower_case is None and not given.do_lower_case
    return given if is_said else given.replace(do_lower_case=saved.do_lower_case)


def _check_same_config(given: BertConfig, saved: BertConfig, path: str | os.PathLike) -> None:
    left, right = given.replace(extra={}).to_dict(), saved.replace(extra={}).to_dict()
    differences = [f"{key} is {left[key]!r} and {right[key]!r}" for key in left if left[key] != right[key]]
    if differences:
        raise InputError(
            f"The config that was given and that of {path} disagree: {'; '.join(differences)}. Leave the config out: "
            "the model folder has its own."
        )
