"""The model that a run starts with: a new one, one from a checkpoint, or the run's own trained model."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import keras

from keras_bert.checkpoints.formats import read_checkpoint
from keras_bert.checkpoints.model_classes import heads_of
from keras_bert.checkpoints.pretrained import model_of
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.tokenization.tokenizer import TokenTable
from keras_bert.training.run_folder import RunFolder


@dataclasses.dataclass(frozen=True)
class StartingPoint:
    """The checkpoint, or the config and vocabulary of a new model, with which a run starts.

    With `init_checkpoint`, config and vocabulary are not needed, but must agree if given.
    """

    config: BertConfig | None = None
    vocabulary: TokenTable | None = None
    init_checkpoint: str | os.PathLike | None = None  # in any format
    do_lower_case: bool | None = None  # None for the choice of `init_checkpoint` or else of the config
    keep_layers: Sequence[int] | None = None  # the numbers of the layers to take from `init_checkpoint`; None for all
    new_tokens: Sequence[str] = ()  # to add to the vocabulary of `init_checkpoint`

    def settings(self, model: Any) -> dict[str, Any]:
        """Returns the settings that `run.json` records about the model that `make` returned."""
        return {
            "config": model.config.to_dict(),
            "vocabulary": model.vocabulary.sha256 if model.vocabulary else None,
            "init_checkpoint": os.path.abspath(self.init_checkpoint) if self.init_checkpoint else None,
            "keep_layers": self.keep_layers,
            "dtype": keras.mixed_precision.dtype_policy().name,
        }

    def make(self, model_class: type, **arguments):
        """Returns a new model, with the weights of the checkpoint if there is one.

        `arguments` are those of its constructor besides the config.

        Raises:
            InputError: neither a config nor a checkpoint is given, or config, vocabulary and checkpoint disagree.
        """
        if self.keep_layers is not None and not self.init_checkpoint:
            raise InputError("keep_layers selects layers of init_checkpoint. Give init_checkpoint too.")
        if self.init_checkpoint:
            model = model_class.from_pretrained(
                self.init_checkpoint,
                do_lower_case=self.do_lower_case,
                keep_layers=self.keep_layers,
                new_tokens=self.new_tokens,
                **arguments,
            )
            self.check_loaded(model)
        elif self.config:
            config = self.config
            if self.do_lower_case is not None:
                config = config.replace(do_lower_case=self.do_lower_case)
            model = model_class(config, **arguments)
        else:
            raise InputError(
                "Give a config (bert_config_file) to train from scratch, or a model folder as init_checkpoint."
            )
        self.give_vocabulary(model)
        return model

    def give_vocabulary(self, model) -> None:
        """Gives a model the vocabulary, if there is one. Raises `InputError` if it has another size."""
        if self.vocabulary is not None:
            vocabulary = self.vocabulary.of_size(model.config.vocab_size)
            model.config.check_vocabulary(len(vocabulary))
            model.vocabulary = vocabulary

    def check_loaded(self, model) -> None:
        """Raises `InputError` if config or vocabulary are not those of the model of the checkpoint."""
        if self.config:
            config = _with_casing_of(model.config, self.config, self.do_lower_case)
            _check_same_config(config, model.config, self.init_checkpoint)
        check_same_vocabulary(self.vocabulary, model.vocabulary, self.init_checkpoint)


def trained_model(model_class: type, folder: RunFolder, start: StartingPoint, **arguments):
    """Returns the trained model of the run in `folder`, or else the model of `start.init_checkpoint`.

    The model must already have the heads of `model_class`. `arguments` are constructor arguments besides the config,
    instead of those that were saved.

    Raises:
        InputError: there is no model, it was trained for another task, or config, vocabulary and checkpoint disagree.
    """
    if os.path.isdir(folder.model_path):
        start = StartingPoint(init_checkpoint=folder.model_path)
    if not start.init_checkpoint:
        raise InputError(
            f"{folder.path} has no trained model. Finish its training first (do_train), or give a checkpoint of a "
            "trained model as init_checkpoint."
        )
    checkpoint = read_checkpoint(start.init_checkpoint, start.do_lower_case)
    missing = [head for head in heads_of(model_class) if head not in checkpoint.heads]
    if missing:
        raise InputError(
            f"{checkpoint.path} holds a {checkpoint.kind}, but a {model_class.__name__} is needed here: it has no "
            f"{' and no '.join(missing)}. Train one from it first (do_train)."
        )
    model = model_of(model_class, checkpoint, **arguments)
    start.check_loaded(model)
    start.give_vocabulary(model)
    return model


def check_same_vocabulary(vocabulary: TokenTable | None, saved: TokenTable | None, path: str | os.PathLike) -> None:
    """Raises `InputError` if both vocabularies are given and differ. `saved` is that of the model at `path`."""
    if vocabulary and saved and vocabulary.sha256 != saved.sha256:
        raise InputError(f"The given vocabulary is not that of {path}. Leave it out: the model folder has its own.")


def _with_casing_of(saved: BertConfig, config: BertConfig, do_lower_case: bool | None) -> BertConfig:
    """Returns the config with the casing of the saved one, unless the config says `False`.

    Google's config files do not state the casing, so `True` may be only the default.
    """
    keeps_casing = do_lower_case is None and not config.do_lower_case
    return config if keeps_casing else config.replace(do_lower_case=saved.do_lower_case)


def _check_same_config(config: BertConfig, saved: BertConfig, path: str | os.PathLike) -> None:
    left, right = config.replace(extra={}).to_dict(), saved.replace(extra={}).to_dict()
    differences = [f"{key} is {left[key]!r} and {right[key]!r}" for key in left if left[key] != right[key]]
    if differences:
        raise InputError(
            f"The given config and that of {path} disagree: {'; '.join(differences)}. Leave the config out: the model "
            "folder has its own."
        )
