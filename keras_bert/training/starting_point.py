"""Which model a run starts with: new, from a model folder, or the one that the run has trained."""

import dataclasses
import os
from collections.abc import Sequence

from keras_bert.checkpoints.formats import read_checkpoint
from keras_bert.checkpoints.model_classes import heads_of
from keras_bert.checkpoints.pretrained import model_of
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
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
            model = model_class.from_pretrained(
                self.init_checkpoint, do_lower_case=self.do_lower_case, keep_layers=self.keep_layers, **arguments
            )
            self._check_loaded(model)
        elif self.config:
            config = self.config
            if self.do_lower_case is not None:
                config = config.replace(do_lower_case=self.do_lower_case)
            model = model_class(config, **arguments)
        else:
            raise InputError(
                "Give a config (bert_config_file) to train from scratch, or a model folder as init_checkpoint."
            )
        self._give_vocabulary(model)
        return model

    def make_trained(self, model_class: type):
        """Returns the model of the checkpoint, which must have been trained as a `model_class`.

        Raises:
            InputError: it has no such head, or what was given disagrees.
        """
        checkpoint = read_checkpoint(self.init_checkpoint, self.do_lower_case)
        missing = [head for head in heads_of(model_class) if head not in checkpoint.heads]
        if missing:
            raise InputError(
                f"{checkpoint.path} holds a {checkpoint.kind}, and a {model_class.__name__} is needed here: it has no "
                f"{' and no '.join(missing)}. Train one from it first (do_train)."
            )
        model = model_of(model_class, checkpoint)
        self._check_loaded(model)
        self._give_vocabulary(model)
        return model

    def _give_vocabulary(self, model) -> None:
        if self.vocabulary is not None:
            model.config.check_vocabulary(len(self.vocabulary))
            model.vocabulary = self.vocabulary

    def _check_loaded(self, model) -> None:
        path, vocabulary = self.init_checkpoint, self.vocabulary
        if self.config:
            _check_same_config(_with_casing_of(model.config, self.config, self.do_lower_case), model.config, path)
        check_same_vocabulary(vocabulary, model.vocabulary, path)


def trained_model(model_class: type, folder: RunFolder, start: StartingPoint):
    """Returns the model that the run in `folder` has trained; if there is none, that of `start.init_checkpoint`.

    What `StartingPoint.make` takes is taken here too, as far as it has the head of the model.

    Raises:
        InputError: there is no model, or it has been trained for something else.
    """
    if os.path.isdir(folder.model_path):
        start = StartingPoint(init_checkpoint=folder.model_path)
    if not start.init_checkpoint:
        raise InputError(
            f"{folder.path} has no trained model. Train it to its end first (do_train), or name a checkpoint of one as "
            "init_checkpoint."
        )
    return start.make_trained(model_class)


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
    keeps_given = do_lower_case is None and not given.do_lower_case
    return given if keeps_given else given.replace(do_lower_case=saved.do_lower_case)


def _check_same_config(given: BertConfig, saved: BertConfig, path: str | os.PathLike) -> None:
    left, right = given.replace(extra={}).to_dict(), saved.replace(extra={}).to_dict()
    differences = [f"{key} is {left[key]!r} and {right[key]!r}" for key in left if left[key] != right[key]]
    if differences:
        raise InputError(
            f"The config that was given and that of {path} disagree: {'; '.join(differences)}. Leave the config out: "
            "the model folder has its own."
        )
