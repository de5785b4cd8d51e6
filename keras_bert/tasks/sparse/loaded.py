"""What a loaded export of a `SparseEncoder` can do beside answering texts."""

import numpy as np

from keras_bert.tasks.sparse.encoding import SparseEncoding


class LoadedSparseEncoder(SparseEncoding):
    """Methods of loaded exports of a `SparseEncoder`."""

    def __init__(self, folder, engine, runtime):
        super().__init__(folder, engine, runtime)
        self.check_prompts()
        self._static_weights: np.ndarray | None = None

    def static_weights(self) -> np.ndarray:
        if self._static_weights is None:
            ids = np.arange(self.config.vocab_size, dtype=np.int32)
            self._static_weights = self.signatures["query_weights"](input_ids=ids)["weights"]
        return self._static_weights
