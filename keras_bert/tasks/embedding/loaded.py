"""What a loaded export of a `SentenceEncoder` can do beside answering texts."""

import hashlib
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from keras_bert.tasks.embedding.options import check_encode_options
from keras_bert.tasks.embedding.similarity import CosineSimilarity
from keras_bert.tasks.prediction import text_progress
from keras_bert.tasks.prompts import Prompts


class LoadedSentenceEncoder(CosineSimilarity, Prompts):
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
        """Returns the vectors of texts, float32 `[texts, D]`; the arguments are those of `SentenceEncoder.encode`."""
        from keras_bert.embeddings.text_vectors import sentence_embeddings

        check_encode_options(self.encode, unknown)
        with text_progress(texts, on_progress) as progress:
            return sentence_embeddings(
                self,
                texts,
                normalize=normalize,
                prompt=prompt,
                dimensions=dimensions,
                batch_size=batch_size,
                max_seq_length=max_seq_length,
                on_progress=progress,
            )
