"""What a loaded export of a `SentenceEncoder` can do beside answering texts."""

import numpy as np

from keras_bert.models.prompts import Prompts


class LoadedSentenceEncoder(Prompts):
    """Methods of loaded exports of a `SentenceEncoder`, or of an encoder with the pooling that its export got."""

    def __init__(self, folder, engine):
        super().__init__(folder, engine)
        self.check_prompts()

    def encode(self, texts, **options) -> np.ndarray:
        """Returns the vectors of texts, float32 `[texts, D]`; the options are those of `sentence_embeddings`."""
        from keras_bert.embeddings.text_vectors import sentence_embeddings

        return sentence_embeddings(self, texts, **options)
