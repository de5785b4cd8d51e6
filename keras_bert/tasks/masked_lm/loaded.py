"""What a loaded export of a `MaskedLM` can do beside answering texts: limits of earlier SavedModels, and evaluation."""

from collections.abc import Mapping

import numpy as np

from keras_bert.program.errors import InputError


class LoadedMaskedLM:
    """Methods of loaded exports of a `MaskedLM`, or of the masked-LM part of a `BertPretrainer`."""

    def __init__(self, folder, engine):
        super().__init__(folder, engine)
        # SavedModels of earlier versions answer with the probabilities of their `top_k` tokens only.
        self._has_all_tokens = getattr(engine, "has_raw_outputs", True)

    def predict(self, x, *args, **options) -> list:
        """Returns the most probable tokens for each mask of texts; the options are those of `fill_masks`.

        The default of `top_k` is that of the export.
        """
        from keras_bert.tasks.masked_lm import task

        self._check_texts(x)
        if self.top_k is not None:
            options = {"top_k": self.top_k, **options}
        if not self._has_all_tokens and ("targets" in options or options["top_k"] > self.top_k):
            raise InputError(
                f"This SavedModel was exported with top_k={self.top_k} by an earlier version and has no probabilities "
                "of other tokens. Export the model again."
            )
        return task.predict_texts(self, x, *args, **{"max_seq_length": self.max_seq_length, **options})

    def evaluate(self, x, *args, **options) -> dict[str, float]:
        """Returns loss, masked_lm_accuracy and perplexity on texts that are masked at random."""
        from keras_bert.tasks.masked_lm import task

        self._check_texts(x)
        if not self._has_all_tokens:
            raise InputError(
                "This SavedModel of an earlier version has the probabilities of few tokens only. Export it again."
            )
        return task.evaluate_texts(self, x, *args, **{"max_seq_length": self.max_seq_length, **options})

    def predict_on_batch(self, batch: Mapping[str, np.ndarray]):
        """Returns the outputs for a batch of features."""
        return self.engine.run(batch)
