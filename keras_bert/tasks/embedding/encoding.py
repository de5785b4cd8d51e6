"""Texts -> vectors, and their cosines: of a `SentenceEncoder`, of its loaded exports and of servers.

Needs neither Keras nor TensorFlow.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from keras_bert.models.shown_arguments import check_options
from keras_bert.program.errors import InputError
from keras_bert.program.number_checks import check_numbers
from keras_bert.tasks.prediction import text_progress
from keras_bert.tasks.prompts import Prompts

_INSTEAD = {
    "normalize_embeddings": "Give normalize=True.",
    "show_progress_bar": "A bar appears after ten seconds. Give on_progress, a function of the texts in each batch.",
    "precision": "The vectors are float32. Round them afterwards.",
    "convert_to_tensor": "The vectors are arrays. Convert them afterwards, as by torch.from_numpy(vectors).",
    "convert_to_numpy": "The vectors are arrays already.",
    "prompt_name": "Give prompt, which is the name of a prompt.",
    "truncate_dim": "Give dimensions.",
}
# What a hint tells to give instead.
_NAMED = {"normalize_embeddings": "normalize", "prompt_name": "prompt", "truncate_dim": "dimensions"}


def check_encode_options(verb: Callable, unknown: Iterable[str]) -> None:
    """Raises `InputError` for the first of the options that `verb`, a model's `encode`, does not have."""
    unknown = list(unknown)
    if not unknown:  # reading a signature takes a few percent of the time for a short text
        return
    known = inspect.signature(verb).parameters
    # A hint may name an option that another kind of model has.
    hints = {name: hint for name, hint in _INSTEAD.items() if _NAMED.get(name) in (None, *known)}
    check_options(verb, unknown=unknown, instead=hints)


class SentenceEncoding:
    """The methods of a `SentenceEncoder`, and of its loaded exports: texts -> vectors -> cosines."""

    prompt, prompt_for, check_prompts = Prompts.prompt, Prompts.prompt_for, Prompts.check_prompts

    def encode(
        self,
        texts: Any,
        *,
        normalize: bool | None = None,
        prompt: str | None = None,
        dimensions: int | None = None,
        batch_size: int = 32,
        max_seq_length: int | None = None,
        on_progress: Callable[[int], None] | None = None,
        **unknown: Any,
    ) -> np.ndarray:
        """Returns the vectors of texts, float32 `[texts, D]`.

        Args:
            texts: strings; a single one is a list of one.
            normalize: whether to divide each vector by its length; None: as the model does.
            prompt: the name of the prompt that is put before each text; "" for none, None for the model's default.
            dimensions: the number of first components to keep, for models that were trained with `Matryoshka`; None for
                all.
            batch_size: texts computed at once.
            max_seq_length: longer texts are cut to this many tokens; None for the length of the model.
            on_progress: called after each batch with the number of texts in it; None shows a bar after ten seconds.
            **unknown: refused.

        Raises:
            InputError: the model has no vocabulary or no such prompt, a number is out of range, or an option is
                unknown.
        """
        from keras_bert.embeddings.text_vectors import sentence_embeddings

        check_encode_options(self.encode, unknown)
        options = {"normalize": normalize, "prompt": prompt, "dimensions": dimensions}
        options |= {"batch_size": batch_size, "max_seq_length": max_seq_length}
        with text_progress(texts, on_progress) as progress:
            return sentence_embeddings(self, texts, on_progress=progress, **options)

    def similarity(self, vectors: Any, others: Any) -> np.ndarray:
        """Returns the cosines of vectors `[N, D]` with others `[M, D]`: float32 `[N, M]`. `[D]` is one vector.

        Raises:
            InputError: the vectors have different sizes, or are not finite.
        """
        vectors, others = _units(vectors, others)
        return vectors @ others.T

    def similarity_pairwise(self, vectors: Any, others: Any) -> np.ndarray:
        """Returns the cosine of each vector `[N, D]` with that of the same number of others `[N, D]`: float32 `[N]`.

        Raises:
            InputError: as `similarity`, or the vectors are not equally many.
        """
        vectors, others = _units(vectors, others)
        if len(vectors) != len(others):
            raise InputError(f"Vectors and others must be equally many. Received: {len(vectors)} and {len(others)}")
        return np.einsum("nd,nd->n", vectors, others)


def _units(*given: Any) -> list[np.ndarray]:
    """Returns arrays `[N, D]` with vectors of length 1."""
    found = [np.atleast_2d(np.asarray(vectors, np.float32)) for vectors in given]
    if any(vectors.ndim != 2 for vectors in found) or len({vectors.shape[1] for vectors in found}) > 1:
        shapes = " and ".join(str(list(vectors.shape)) for vectors in found)
        raise InputError(f"The vectors must be arrays [texts, D] of one model. Received the shapes {shapes}")
    for vectors in found:
        check_numbers(vectors)
    return [vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12) for vectors in found]


class LoadedSentenceEncoder(SentenceEncoding):
    """Methods of loaded exports of a `SentenceEncoder`, or of an encoder with the pooling that its export got."""

    def __init__(self, folder, engine, runtime):
        super().__init__(folder, engine, runtime)
        self.check_prompts()
        if self.fingerprint and folder.weights != "float32":  # an index takes the vectors of one of these only
            self.fingerprint = hashlib.sha256(f"{self.fingerprint} {folder.weights}".encode()).hexdigest()

    served_inputs: ClassVar = {"text": ()}

    @property
    def served_outputs(self) -> dict[str, tuple]:
        return {"embedding": (0.0, self.embedding_size)}

    def serve(self, text: list[str]) -> dict[str, np.ndarray]:
        """See `AnswerSignature`."""
        return {"embedding": self.encode(text, on_progress=lambda count: None)}


def vectors_of_texts(arrays: Mapping[str, np.ndarray], inputs: Mapping) -> np.ndarray | None:
    """Returns the vectors in the outputs of a served encoder, float32 `[N, D]`; None for those of another task."""
    return np.asarray(arrays["embedding"], np.float32) if arrays.keys() == {"embedding"} else None
