"""The model that `keras_bert.serving.load` returns: the code of a task on the engine of another runtime.

A task reads a few attributes of its model, such as `labels`. This class has them, without Keras or TensorFlow.
"""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert import registry
from keras_bert.models.shown_arguments import check_options, options_of, with_added
from keras_bert.program.errors import InputError, how_to_install
from keras_bert.program.user_inputs import holds_texts, listed_texts
from keras_bert.serving.portable.checked_engine import CheckedEngine
from keras_bert.serving.portable.folder import EXPORT_FILE, SAVED_MODEL, PortableFolder
from keras_bert.serving.portable.runtimes import Runtime
from keras_bert.tasks.base import TextTask, text_task
from keras_bert.tf_serving.client.model_info import Tensor
from keras_bert.tf_serving.client.request_batches import as_arrays, map_strings

_SIGNATURE = "serving_default"
_DTYPES = {str: "string", int: "int32", float: "float", bool: "bool"}
_NUMPY_TYPES = {"string": object, "float": np.float32, "int32": np.int32, "bool": np.bool_}


class LoadedModel:
    """A model of an export. Answers are those of the Keras model that was exported.

    Args:
        folder: the content of the export, without its network.
        engine: runs its network.
        runtime: which runtime that is.

    Attributes:
        engine: `engine.run(features)` returns the outputs of the network.
        runtime: the `Runtime` that computes them, with its precision and the reason why it was taken.
        path: the folder of the export; of a SavedModel that of the version.
        kind, config, tokenizer, vocabulary, task_class: as of a Keras model.
        max_seq_length: longer texts are cut to this many tokens, unless `predict` gets another `max_seq_length`.

    Raises:
        InputError: a setting in `export.json` is not valid.
    """

    task_class: type[TextTask] | None = None

    def __init__(self, folder: PortableFolder, engine, runtime: Runtime):
        self.kind, task = folder.model, registry.task(folder.model)
        if task.onnx is None and folder.format != SAVED_MODEL:
            raise InputError(f"{folder.path}/{EXPORT_FILE}: the format of a {self.kind} is {SAVED_MODEL} only.")
        self.runtime = runtime
        self.path = os.path.dirname(folder.path) if folder.format == SAVED_MODEL else folder.path  # without "assets"
        self.config, self.tokenizer, self.vocabulary = folder.config, folder.tokenizer, folder.tokenizer.vocabulary
        self.max_seq_length = folder.max_seq_length
        for name, setting in task.export.settings.items():
            value = folder.settings.get(name, setting.default)
            if not setting.is_valid(value):
                raise InputError(
                    f"{folder.path}/{EXPORT_FILE}: the setting {name} is not valid. Received: {value!r:.100}"
                )
            setattr(self, name, tuple(value) if isinstance(value, list) else value)
        outputs = task.export.outputs(self)
        axes = {axis for axes in outputs.values() for axis in axes}
        self.has_token_outputs = "length" in axes
        self.feature_axes = ("batch", "choices", "length") if "choices" in axes else ("batch", "length")
        self._signatures = getattr(engine, "signatures", None)
        self.engine = CheckedEngine(engine, self.config, len(self.feature_axes), outputs)
        self.feature_names = self.engine.feature_names

    @property
    def signatures(self) -> Mapping[str, Any]:
        """The signatures of a SavedModel, or `serving_default` of another format: functions of arrays by name.

        `signatures["serving_default"](text=["a text"])` returns arrays by name, as a server does.
        """
        if self._signatures is None:
            return {_SIGNATURE: AnswerSignature(self)} if hasattr(self, "serve") else {}
        return self._signatures

    def computed(self, examples: Any) -> tuple[Any, Any]:
        """Returns the rows of examples of the task, and the outputs of the network for them. Texts may be empty."""
        task = text_task(self)
        rows = task.rows(examples, self.max_seq_length)
        return rows, task.outputs(rows.rows, verbose=0)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        *,
        callbacks: Any = None,
        max_seq_length: int | None = None,
        **options: Any,
    ) -> list:
        """Returns an answer for each text, as `predict(texts)` of the Keras model that was exported.

        Args:
            x: texts, as for the Keras model.
            batch_size: texts computed at once, 32 by default.
            verbose: 0 shows no progress.
            callbacks: Keras callbacks; their `on_predict_...` methods are called.
            max_seq_length: longer texts are cut to this many tokens; None for the length of the export.
            **options: the options of the task, as for the Keras model; others are refused.

        Raises:
            InputError: `x` has no texts, an option is unknown, or as the Keras model.
        """
        x, options = self._checked(self.predict, x, max_seq_length, options)
        return self.predict_on_texts(x, batch_size=batch_size, verbose=verbose, callbacks=callbacks, **options)

    def predict_on_texts(self, x: Any, **options: Any) -> list:
        """Returns an answer for each text, see `predict`."""
        return text_task(self).predict(x, **options)

    def evaluate(
        self,
        x: Any,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        *,
        sample_weight: Any = None,
        callbacks: Any = None,
        return_dict: bool = True,
        max_seq_length: int | None = None,
        skip_missing: bool = False,
        **options: Any,
    ) -> dict[str, float] | list[float]:
        """Returns the official scores on texts with labels; the arguments are those of `evaluate` of the Keras model.

        Raises:
            InputError: as `predict`.
        """
        x, options = self._checked(self.evaluate, x, max_seq_length, options)
        options |= {"sample_weight": sample_weight, "callbacks": callbacks}
        options |= {"return_dict": return_dict, "skip_missing": skip_missing}
        try:
            return text_task(self).evaluate(x, y, batch_size, verbose=verbose, **options)
        except ModuleNotFoundError as error:  # in the small install
            package = (error.name or "").partition(".")[0]
            if package not in ("scipy", "sklearn"):
                raise
            raise InputError(
                f"These scores need the package {package}, which is not installed. {how_to_install('scores')}"
            ) from None

    def _checked(self, verb: Callable, x: Any, max_seq_length: int | None, options: dict) -> tuple[Any, dict[str, Any]]:
        """Returns the texts, and the options with the length. Raises `InputError` for no texts or an unknown option."""
        if options:
            shown = inspect.signature(verb).parameters
            check_options(verb, "of this export", unknown=[name for name in options if name not in shown])
        x = listed_texts(x)
        if not holds_texts(x):
            raise InputError(f"A loaded export takes texts. Received: {type(x).__name__}. Give features to engine.run.")
        return x, {**options, "max_seq_length": self.max_seq_length if max_seq_length is None else max_seq_length}

    def warn_if_untrained(self, parts: Sequence[str] | None = None) -> None:
        """Does nothing: the export has reported parts that are not trained."""


class AnswerSignature:
    """A function of arrays or lists of strings by name that returns arrays by name, used as a `RunnableSignature`.

    Args:
        model: a loaded export whose task has `serve`, a function of lists of `str` by name that returns the outputs;
            `served_inputs`, name -> the axes after the first, where None is of any size; and `served_outputs`, name ->
            the value of unused entries, and these axes.
    """

    def __init__(self, model: Any):
        self._serve, served_outputs = model.serve, sorted(model.served_outputs.items())
        self.input_tensors = {
            name: Tensor("string", (None, *axes)) for name, axes in sorted(model.served_inputs.items())
        }
        self.output_tensors = {
            name: Tensor(_DTYPES[type(value)], (None, *axes)) for name, (value, *axes) in served_outputs
        }
        self.inputs, self.outputs = tuple(self.input_tensors), tuple(self.output_tensors)

    def __call__(self, **inputs: Any) -> dict[str, np.ndarray]:
        """Returns the outputs for N rows, strings as `bytes`. Raises `InputError` for inputs of other kinds."""
        arrays = as_arrays(inputs)
        found = {name: values.ndim for name, values in arrays.items() if values.dtype == object}
        expected = {name: len(tensor.shape) for name, tensor in self.input_tensors.items()}
        counts = set(map(len, arrays.values()))
        if found != expected or len(arrays) > len(found) or len(counts) > 1 or 0 in counts:
            taken = ", ".join(f"{name} {'[N, C]' if rank > 1 else '[N]'}" for name, rank in expected.items())
            received = ", ".join(f"{name} {list(a.shape)} of {_kind(a)}" for name, a in arrays.items())
            raise InputError(f"{_SIGNATURE} takes strings in N rows, one or more: {taken}. Received: {received}")
        texts = {name: map_strings(lambda text: text.decode("utf-8", "replace"), a) for name, a in arrays.items()}
        outputs = self._serve(**{name: values.tolist() for name, values in texts.items()})
        return {name: _as_array(outputs[name], tensor.dtype) for name, tensor in self.output_tensors.items()}


def _kind(array: np.ndarray) -> str:
    return "strings" if array.dtype == object else str(array.dtype)


def _as_array(values: Any, dtype: str) -> np.ndarray:
    array = np.asarray(values, _NUMPY_TYPES[dtype])
    return map_strings(lambda text: text.encode("utf-8"), array) if dtype == "string" else array


def loaded_class(kind: str) -> type:
    """Returns the class of loaded exports of a kind of model, with the methods and options of its task."""
    task = registry.task(kind)
    bases = (registry.imported(task.export.methods), LoadedModel) if task.export.methods else (LoadedModel,)
    loaded: Any = type(f"Loaded{kind}", bases, {})
    if task.text_task is not None:
        task_class = loaded.task_class = registry.imported(task.text_task)
        options = [*options_of(task_class.predict), *options_of(task_class.answers)]
        loaded.predict = with_added(loaded.predict, options)
        loaded.evaluate = with_added(loaded.evaluate, options_of(task_class.evaluate))
    return loaded
