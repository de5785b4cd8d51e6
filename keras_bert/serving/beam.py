"""Exports in Apache Beam: models for `RunInference`, embeddings for `MLTransform` and `apache_beam.ml.rag`.

Workers need this version of the package, Beam and the runtime of the export; TensorFlow only for SavedModels.
"""

import copy
import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apache_beam
import numpy as np
from apache_beam.ml.inference.base import ModelHandler, PredictionResult, RunInference
from apache_beam.ml.rag.embeddings.base import create_rag_adapter
from apache_beam.ml.transforms.base import EmbeddingsManager, EmbeddingTypeAdapter

import keras_bert
from keras_bert.models.shown_arguments import check_options
from keras_bert.program.errors import InputError
from keras_bert.serving.portable.loading import export_class, load
from keras_bert.serving.portable.runtimes import Wanted
from keras_bert.tasks.embedding.encoding import SentenceEncoding


class LoadedModelHandler(ModelHandler[Any, PredictionResult, Any]):
    """Calls a method of an export for the elements of a PCollection, in Beam's `RunInference`.

    An element is a text or, for tasks with several columns, a tuple such as `(question, context)`. Each result is a
    `PredictionResult` of the element, what the method returns for it, and the path. The options of the method are
    Beam's `inference_args`. `KeyedModelHandler` keeps the keys of elements. A pipeline:

        handler = LoadedModelHandler("exports/minilm", method="encode")
        results = texts | RunInference(handler, inference_args={"prompt": "query"})

    Args:
        path: the folder of an export in any format, which all workers have at this path.
        method: a method that takes texts, such as "predict", "encode" or "encode_document".
        load_model_args: options of `keras_bert.serving.load`. With a process for each core, give `num_threads=1`.
        is_here: False if only the workers have the folder, as in their image. What the folder says is checked there.
        **batching: as for Beam's `ModelHandler`, such as `max_batch_size`, or `large_model=True` for one model in all
            processes of a machine. A batch is sorted by length before it is computed, so large ones are faster.

    Raises:
        InputError: there is no such export, method or option; in a worker: it has another version of this package.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        method: str = "predict",
        *,
        load_model_args: Mapping[str, Any] | None = None,
        is_here: bool = True,
        **batching: Any,
    ):
        self._path, self._method, self._version = os.path.abspath(path), method, keras_bert.__version__
        self._load_model_args = dict(load_model_args or {})
        _check_options(ModelHandler, batching)
        _check_options(load, self._load_model_args)
        Wanted(**self._load_model_args)
        super().__init__(**{"min_batch_size": 32, "max_batch_size": 1024, **batching})
        self._is_here = is_here
        if is_here:
            self._check(export_class(self._path))

    def _check(self, model: Any) -> None:
        """Raises `InputError` if a model, or the class of one, does not have the method."""
        if self._method.startswith("_") or not callable(getattr(model, self._method, None)):
            verbs = ("predict", "encode", "encode_query", "encode_document")
            has = " or ".join(repr(verb) for verb in verbs if hasattr(model, verb))
            raise InputError(f"{self._path}: the model has no method {self._method!r:.50}. Give {has}.")

    def load_model(self) -> Any:
        """Returns the model, in a worker."""
        check_version(self._version)
        model = load(self._path, **self._load_model_args)
        self._check(model)
        return model

    def run_inference(
        self, batch: Sequence[Any], model: Any, inference_args: Mapping[str, Any] | None = None
    ) -> Iterable[Any]:
        """Returns the result of each element of a batch."""
        answers = self._answers(batch, model, inference_args)
        return [PredictionResult(*one, self._path) for one in zip(batch, answers, strict=True)]

    def _answers(self, batch: Sequence[Any], model: Any, inference_args: Mapping[str, Any] | None) -> Any:
        texts = tuple(map(list, zip(*batch, strict=True))) if isinstance(batch[0], tuple) else list(batch)
        return getattr(model, self._method)(texts, **(inference_args or {}))

    def validate_inference_args(self, inference_args: Mapping[str, Any] | None) -> None:
        """Raises `InputError` for an option that the method does not have."""
        if self._is_here and inference_args:
            _check_options(getattr(export_class(self._path), self._method), inference_args)


def check_version(version: str) -> None:
    """Raises `InputError` in a worker that has another version of this package than the pipeline was made with."""
    if keras_bert.__version__ != version:
        raise InputError(
            f"The pipeline was made with version {version} of keras_bert, and this worker has "
            f"{keras_bert.__version__}. Install the same version on both."
        )


def _check_options(verb: Any, given: Mapping[str, Any]) -> None:
    check_options(verb, unknown=[name for name in given if name not in inspect.signature(verb).parameters])


class TextEmbeddings(EmbeddingsManager):
    """Puts the vectors of texts in the place of columns, in Beam's `MLTransform`, or into the chunks of its RAG types:

        embeddings = TextEmbeddings("exports/minilm", columns=["title", "body"])
        rows | MLTransform(write_artifact_location=folder).with_transform(embeddings)

    Args:
        path: the folder of an export that makes one vector for each text.
        columns: the columns of rows, as dictionaries or `beam.Row`. None: elements are `EmbeddableItem` (`Chunk`) of
            `apache_beam.ml.rag`, which get their `embedding`.
        inference_args: options of `encode`, such as `{"normalize": True}`.
        **options: those of `LoadedModelHandler`.

    Raises:
        InputError: as `LoadedModelHandler`, or the export makes no such vectors.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        columns: Sequence[str] | None = None,
        *,
        inference_args: Mapping[str, Any] | None = None,
        **options: Any,
    ):
        arguments = dict(inference_args or {})
        super().__init__(columns=columns and list(columns), type_adapter=create_rag_adapter(), inference_args=arguments)
        self._handler = _EmbeddingHandler(path, self.type_adapter, **options)

    def get_model_handler(self) -> ModelHandler:
        return self._handler

    def get_ptransform_for_processing(self, **_: Any) -> apache_beam.PTransform:
        return RunInference(self._handler, inference_args=self.inference_args)


class _EmbeddingHandler(LoadedModelHandler):
    """Replaces texts in elements by their vectors, as lists of numbers."""

    def __init__(self, path: str | os.PathLike, adapter: EmbeddingTypeAdapter, **options: Any):
        super().__init__(path, "encode", **options)
        self._adapter = adapter

    def _check(self, model: Any) -> None:
        kind = model if isinstance(model, type) else type(model)
        if not issubclass(kind, SentenceEncoding):
            raise InputError(f"{self._path} does not make one vector for each text. It is a {kind.__name__}.")

    def run_inference(
        self, batch: Sequence[Any], model: Any, inference_args: Mapping[str, Any] | None = None
    ) -> Iterable[Any]:
        vectors: np.ndarray = self._answers(self._adapter.input_fn(batch), model, inference_args)
        # Beam's adapters change what they get, and its elements must not change.
        return self._adapter.output_fn([copy.copy(element) for element in batch], vectors.tolist())
