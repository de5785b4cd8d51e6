"""`BertModel`: the base class of encoders and task models: config, saving and loading."""

import functools
import hashlib
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar, Unpack

import keras
import numpy as np
from keras import ops

from keras_bert.accelerate.traced_functions import forget_stale_steps
from keras_bert.config import BertConfig
from keras_bert.config.signature_options import ExportOptions, SignatureOptions
from keras_bert.models.layer_settings import (
    LAYER_SETTINGS,
    NameWithTokenizer,
    check_can_be_written,
    load_lora,
    restore_settings,
    save_lora,
    settings_of,
    write_file,
)
from keras_bert.models.shown_arguments import show_arguments, showing, with_constructor_arguments
from keras_bert.program.errors import InputError, UntrainedWarning
from keras_bert.records import features
from keras_bert.tokenization.kinds import as_tokenizer, find_vocabulary
from keras_bert.tokenization.tokenizer import TokenTable


class NewParts:
    """The newly initialised parts of a model.

    All of them count as trained as soon as `set_trained` is called or one of their weights has changed. So a custom
    training loop and `load_weights` are noticed too.

    Args:
        parts: name of a part -> its Keras variables, which hold their initial values.
        source: a description of the checkpoint that lacks them, for messages.
    """

    def __init__(self, parts: Mapping[str, Sequence] | None = None, source: str = ""):
        self.source = source
        self.reported: set[str] = set()  # the parts that a warning has named
        self._parts = dict(parts or {})
        self._first_values = self._values()

    def untrained(self) -> tuple[str, ...]:
        """Returns the names of the parts, in order, or an empty tuple if any of them has been trained."""
        if self._parts and self._values() != self._first_values:
            self.set_trained()
        return tuple(self._parts)

    def set_trained(self) -> None:
        """Marks all parts as trained."""
        self._parts = {}

    def _values(self) -> str:
        """Returns the SHA-256 of all weights; a copy of the weights would take as much memory again."""
        digest = hashlib.sha256()
        for variables in self._parts.values():
            for variable in variables:
                digest.update(np.ascontiguousarray(ops.convert_to_numpy(variable)).tobytes())
        return digest.hexdigest()

    def warn(self, model_name: str, random_outputs: str, parts: Sequence[str] | None) -> None:
        """Does what `BertModel.warn_if_untrained` says."""
        untrained = [part for part in self.untrained() if parts is None or part in parts]
        if not set(untrained) - self.reported:
            return
        self.reported.update(untrained)
        names = " and ".join(part.removeprefix("encoder/") for part in untrained)
        warnings.warn(
            f"This {model_name} is not trained: {self.source} has no {names} for it, so new weights were drawn at "
            f"random, and {random_outputs}. Train it first (fit, or a command with --do_train), or load a checkpoint "
            f"that has {names}.",
            UntrainedWarning,
            stacklevel=4,
        )


# jedi, which completes names in Jupyter and in many editors, does not follow `Self`.
_Model = TypeVar("_Model", bound="BertModel")


class BertModel(keras.Model):
    """A Keras model made from a `BertConfig`.

    Subclasses build all their weights in `__init__`, so a model can be counted, loaded and saved before its first call.

    Attributes:
        kind: the name of the model's entry in `registry.TASKS`, if there is one.
        feature_names: the required keys of the input dictionary. Other keys, such as labels, may be in it too.
        feature_axes: the axes of each of these features.
        has_more_axes: whether there may be further axes before them.
        has_token_outputs: whether the model returns outputs for each token, `[B, S, ...]`, instead of `[B, ...]`.
        uses_pooler: whether the outputs depend on the encoder's pooler.
        new_parts: the `NewParts` that the outputs depend on; empty in a model that was not loaded from a checkpoint.
        config: the `BertConfig`.
        tokenizer: makes the model's ids from texts, or None. It is saved with the model.
        vocabulary: its tokens. A `Vocabulary` that is set gets the casing of the config; a tokenizer has its own.
    """

    kind: str | None = None
    feature_axes: Sequence[str] = ("batch", "length")
    has_more_axes = False
    feature_names: Sequence[str] = (features.INPUT_IDS, features.INPUT_MASK, features.SEGMENT_IDS)
    has_token_outputs: bool = False
    uses_pooler: bool = True
    # The part of the warning that names the random outputs of an untrained model.
    _random_outputs: str = "its answers are random"

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if "from_pretrained" not in vars(cls):
            cls.from_pretrained = with_constructor_arguments(cls.from_pretrained.__func__, cls)  # type: ignore
        show_arguments(cls)

    def __init__(self, config: BertConfig, **kwargs: Any):
        super().__init__(**kwargs)
        if not isinstance(config, BertConfig):
            raise InputError(
                f"{type(self).__name__} is made from a BertConfig. Received: {config!r}. "
                "Use BertConfig.from_json_file(path) or BertConfig.from_size(name, vocab_size)."
            )
        self.config = config
        if not self.takes_segments:
            self.feature_names = tuple(name for name in self.feature_names if name != features.SEGMENT_IDS)
        self._tokenizer: Any = None
        self.new_parts = NewParts()

    @property
    def tokenizer(self) -> Any:
        return self._tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: TokenTable | None) -> None:
        self._tokenizer = as_tokenizer(tokenizer, self.config.do_lower_case)
        self.config = self.config.with_casing_of(self._tokenizer)

    @property
    def vocabulary(self) -> TokenTable | None:
        return None if self.tokenizer is None else self.tokenizer.vocabulary

    @vocabulary.setter
    def vocabulary(self, vocabulary: TokenTable | None) -> None:
        self.tokenizer = vocabulary

    @property
    def takes_segments(self) -> bool:
        """Whether the model takes `segment_ids`: it has at least two segments."""
        return self.config.type_vocab_size > 1

    def get_config(self) -> dict[str, Any]:
        settings = settings_of(self)
        changes = {LAYER_SETTINGS: settings} if settings else {}
        name = NameWithTokenizer(self.name)  # keras.models.clone_model passes on the config only
        name.tokenizer = self.tokenizer
        return {**super().get_config(), "name": name, "config": self.config.to_dict(), **changes}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> Self:
        arguments = {**config, "config": BertConfig.from_dict(config["config"])}
        settings = arguments.pop(LAYER_SETTINGS, {})
        model = cls(**arguments)
        if settings:
            restore_settings(model, settings)
        model.tokenizer = getattr(config.get("name"), "tokenizer", None)
        return model

    def load_weights(self, filepath: str | os.PathLike, *args: Any, **kwargs: Any) -> None:
        """As `keras.Model.load_weights`. A `.weights.h5` file whose tensors would expand is refused."""
        if os.fspath(filepath).endswith("weights.h5"):
            from keras_bert.checkpoints.keras_weights_file import read_keras_weights

            read_keras_weights(filepath)
        super().load_weights(filepath, *args, **kwargs)

    def save_own_variables(self, store: Any) -> None:
        save_lora(self, store)

    def load_own_variables(self, store: Any) -> None:
        load_lora(self, store)

    def save(
        self, filepath: str | os.PathLike, overwrite: bool = True, zipped: bool | None = None, **kwargs: Any
    ) -> None:
        """As `keras.Model.save`, but a `.keras` file appears completely or not at all.

        Raises:
            InputError: `filepath` is an HDF5 file, from which Keras cannot load such a model, or cannot be written.
        """
        if os.fspath(filepath).endswith((".h5", ".hdf5")):
            raise InputError(
                f"{os.fspath(filepath)}: Keras cannot load a {type(self).__name__} from HDF5, which has no place for "
                'its vocabulary. Use model.save("model.keras") or save_pretrained("folder").'
            )
        settings_of(self)  # raises before anything is written
        save = functools.partial(super().save, zipped=zipped, **kwargs)
        write_file(save, filepath, overwrite, ".keras")

    def save_weights(
        self, filepath: str | os.PathLike, overwrite: bool = True, max_shard_size: float | None = None
    ) -> None:
        """As `keras.Model.save_weights`, but a `.weights.h5` file appears completely or not at all.

        Raises:
            InputError: `filepath` cannot be written.
        """
        save = functools.partial(super().save_weights, max_shard_size=max_shard_size)
        write_file(save, filepath, overwrite, ".weights.h5")

    def quantize(self, mode: Any = None, config: Any = None, filters: Any = None, **kwargs: Any) -> None:
        """As `keras.Model.quantize`, for dense layers: Keras would warn of each layer that it cannot quantise."""
        filters = (lambda layer: type(layer) is keras.layers.Dense) if filters is None else filters
        super().quantize(mode, config=config, filters=filters, **kwargs)

    def save_assets(self, dir_path: str) -> None:
        # Keras calls this for `.keras` files. Pickle and copy.deepcopy have the same content.
        if self.tokenizer is not None:
            self.tokenizer.save(dir_path)

    def load_assets(self, dir_path: str) -> None:
        # The folder is missing if nothing in it was saved.
        self.tokenizer = find_vocabulary(dir_path) if dir_path and os.path.isdir(dir_path) else None
        if self.tokenizer is not None:
            self.config.check_vocabulary(len(self.tokenizer))

    def save_pretrained(
        self,
        path: str | os.PathLike,
        vocabulary: TokenTable | None = None,
        format: str = "keras_bert",
        include_optimizer: bool = False,
    ) -> None:
        """Writes a checkpoint folder.

        Args:
            path: the folder.
            vocabulary: a `Vocabulary` or a tokenizer; by default the model's own.
            format: `keras_bert` (a model folder), `google` (a TensorFlow 1 checkpoint) or `huggingface`.
            include_optimizer: whether to save the moments of `AdamW` too; in Google's format only.

        Raises:
            InputError: the format cannot hold the model, or the files cannot be written.
        """
        from keras_bert.checkpoints.pretrained import save_pretrained

        check_can_be_written(self, "a checkpoint folder")
        save_pretrained(self, path, vocabulary, format, include_optimizer)

    @classmethod
    def from_pretrained(
        cls: type[_Model],
        path: str | os.PathLike,
        *,
        max_position_embeddings: int | None = None,
        new_tokens: Sequence[str] = (),
        keep_layers: Sequence[int] | None = None,
        do_lower_case: bool | None = None,
        trust_pickle: bool = False,
        base: str | os.PathLike | None = None,
        **arguments: Any,
    ) -> _Model:
        """Reads a checkpoint of any format.

        Unless a model folder has all weights, one printed line reports which parts were loaded, newly initialised and
        ignored. Until new parts are trained, predictions raise a warning, see `warn_if_untrained`.

        Args:
            path: the folder or file of the checkpoint, or the name of a model in the cache of Hugging Face.
            max_position_embeddings: number of positions; the position table is cut, or extended by repeating it.
            new_tokens: tokens to add to the vocabulary; each embedding starts as the mean of the token's current
                pieces.
            keep_layers: the numbers of the layers to keep, from 0, to start a small model from a large one.
            do_lower_case: the casing, if the files do not state it or state it wrongly.
            trust_pickle: whether a `pytorch_model.bin` may run code.
            base: for a folder with an adapter of PEFT, its base model; None for the one that the adapter names.
            **arguments: the constructor's arguments besides the config, such as `labels`; each class shows its own. An
                argument that is not given has the value that was saved; the default shown is for files without one.

        Returns:
            The model; its `vocabulary` is that of the checkpoint, or None.

        Raises:
            InputError: the checkpoint cannot be read, or does not have the weights that the class needs, or an argument
                is unknown.
        """
        from keras_bert.checkpoints.pretrained import from_pretrained

        return from_pretrained(
            cls,
            path,
            max_position_embeddings=max_position_embeddings,
            new_tokens=new_tokens,
            keep_layers=keep_layers,
            do_lower_case=do_lower_case,
            trust_pickle=trust_pickle,
            base=base,
            **arguments,
        )

    @showing(SignatureOptions)
    def export_for_serving(
        self,
        path: str | os.PathLike,
        *,
        format: str = "saved_model",
        dtype: str | None = None,
        weights: str | None = None,
        core_operations: bool = False,
        **options: Unpack[ExportOptions],
    ) -> str:
        """Writes the next version of a SavedModel, or a folder for LiteRT or ONNX Runtime, and returns its path.

        `keras_bert.serving.load(path)` runs the exports of all formats but `huggingface-onnx`, whose folders are for
        programs that are not ours (`portable/hugging_face_folder.py`). Those for LiteRT and ONNX Runtime are folders,
        see `portable/folder.py`; they take tokens, and `load` has the tokenizer. The following is about SavedModels.

        The `signatures.py` of each task describes its signatures. The graph contains the tokenizer; `assets` contains
        its files and `bert_config.json` for people and clients. The written SavedModel is read again and checked for
        operations that servers lack (`saved_model_check`).

        Args:
            path: the folder of the versions `1`, `2`, ...; it may be a model folder. The new version gets the next
                number. It is written atomically. For other formats than SavedModels: a new or empty folder.
            format: `saved_model`, `litert`, `onnx` or `huggingface-onnx`.
            dtype: `float32`, or `bfloat16` for the weights and the computation: half the size, and faster if the
                processor supports it. By default the model's own dtypes. Outputs are always float32.
            weights: `int8` stores matrices with 8 bits: about a quarter of the size. SavedModels compute in float32;
                LiteRT and ONNX Runtime also multiply 8-bit integers, and take `float16` too.
            core_operations: whether the graph uses core TensorFlow operations only. Then neither the export nor the
                server needs tensorflow-text. The answers are the same; texts are tokenised more slowly. Not for
                SentencePiece.
            max_seq_length: longer texts are cut to this number of tokens; None for all positions of the model. Give the
                length that the model was trained with if it is shorter.
            text_pairs: whether a classifier or an encoder takes two texts.
            top_k: how many tokens a masked-LM model proposes for each [MASK], or a `SparseEncoder` returns for each
                text.
            pooling: how an encoder pools the vectors of tokens, one of `config.POOLINGS`; None for `mean`.
            normalize: whether an encoder divides the vector of a text by its length, so that products are cosines. None
                stands for what a `SentenceEncoder` does, and true for other encoders.
            prompt: the name of the prompt that a `SentenceEncoder` puts before each text, or a `CrossEncoder` before
                each query; None for its default.
            num_beams, max_new_tokens, length_penalty, num_answers: how a `TextToText` writes, see `SearchOptions`.
            zero_shot: the sentence about a label, such as "This example is {}.", with which a classifier for entailment
                gets the signature `zero_shot`.

        LiteRT and ONNX exports take `max_seq_length`, `pooling` and `normalize`, those of classifiers also
        `text_pairs`, which decides the inputs of `serving_default`; the others are arguments of `predict` there.
        `huggingface-onnx` takes `pooling` and `normalize`.

        Raises:
            InputError: the model has no vocabulary or cannot be exported, an option is unknown or out of range, `path`
                is a file or cannot be written to, or the disk is full.
        """
        from keras_bert.serving.export import export_for_serving

        how: dict[str, Any] = {"format": format, "dtype": dtype, "weights": weights, "core_operations": core_operations}
        return export_for_serving(self, path, **how, **options)

    def export(
        self,
        filepath: str | os.PathLike,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """As `keras.Model.export`, without a need for `input_signature`: the file takes features of any size."""
        if input_signature is not None or kwargs:
            return super().export(filepath, format, verbose, input_signature, **kwargs)
        from keras_bert.serving.export import export

        return export(self, filepath, format, verbose)

    def make_train_function(self, force: bool = False) -> Any:
        forget_stale_steps(self)
        return super().make_train_function(force)

    def make_test_function(self, force: bool = False) -> Any:
        self.warn_if_untrained()  # Keras calls this when `evaluate` or `test_on_batch` begins
        forget_stale_steps(self)
        return super().make_test_function(force)

    def make_predict_function(self, force: bool = False) -> Any:
        self.warn_if_untrained()
        forget_stale_steps(self)
        return super().make_predict_function(force)

    def warn_if_untrained(self, parts: Sequence[str] | None = None) -> None:
        """Warns, once for each model, that its answers are random because newly initialised parts are not trained.

        Args:
            parts: the parts, such as `masked_lm_head`, that the answers depend on; by default all that the model uses.

        Raises:
            UntrainedWarning: in commands, where this warning is an error.
        """
        self.new_parts.warn(type(self).__name__, self._random_outputs, parts)

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        # Checked before `call`: Keras adds several lines to each error that `call` raises.
        self._check_inputs(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def _check_inputs(self, inputs) -> None:
        """Raises `InputError` if a feature is missing or has other axes, or if rows exceed the model's positions."""
        self._check_features(inputs, self.feature_names)
        shape: tuple = getattr(inputs[features.INPUT_IDS], "shape", ())
        axes = ("...", *self.feature_axes[1:]) if self.has_more_axes else self.feature_axes
        if len(shape) < len(axes) or (len(shape) > len(axes) and not self.has_more_axes):
            raise InputError(
                f"{features.INPUT_IDS} must be an array [{', '.join(axes)}]. Received the shape {tuple(shape)}"
            )
        if shape[-1] is not None:
            self.config.check_sequence_length(shape[-1])

    def _check_features(self, inputs, names: Sequence[str]) -> None:
        is_dictionary = isinstance(inputs, Mapping)
        missing = [name for name in names if name not in inputs] if is_dictionary else names
        if missing:
            raise InputError(
                f"{type(self).__name__} takes a dictionary with {', '.join(names)}. Missing: {', '.join(missing)}. "
                f"Received: {', '.join(map(str, inputs)) if is_dictionary else type(inputs).__name__}"
                f"{'' if is_dictionary else '. Make it from texts: text_features(model, texts).'}"
            )
        # A single row would be repeated for all rows of another feature.
        shapes = {name: tuple(getattr(inputs[name], "shape", None) or ()) for name in names}
        numbers = {name: shape[0] for name, shape in shapes.items() if shape and shape[0] is not None}
        if len(set(numbers.values())) > 1:
            raise InputError(
                "All features must have equally many rows. Received: "
                + ", ".join(f"{number} of {name}" for name, number in numbers.items())
            )

    @property
    def _logits_dtype(self) -> str:
        """The dtype of logits and losses: float32, also in mixed precision; float64 in a float64 model."""
        return keras.backend.result_type(self.compute_dtype, "float32")
