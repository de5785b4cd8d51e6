"""What a loaded export of a `MaskedLM` can do beside answering texts: limits of SavedModels, and evaluation."""

from collections.abc import Mapping

import numpy as np

from keras_bert.program.errors import InputError


class LoadedMaskedLM:
    """Methods of loaded exports of a `MaskedLM`, or of the masked-LM part of a `BertPretrainer`."""

    def predict(self, x, *args, **options) -> list:
        """Returns the most probable tokens for each mask of texts; the options are those of `fill_masks`.

        A SavedModel has the probabilities of its `top_k` tokens only: it takes neither `targets` nor a larger `top_k`.
        """
        from keras_bert.tasks.masked_lm import task

        self._check_texts(x)
        if self.top_k is not None:
            options = {"top_k": self.top_k, **options}
            if "targets" in options or options["top_k"] > self.top_k:
                raise InputError(
                    f"This SavedModel was exported with top_k={self.top_k} and has no probabilities of other tokens. "
                    "Export the model with a larger top_k, or for LiteRT or ONNX."
                )
        return task.predict_texts(self, x, *args, **{"max_seq_length": self.max_seq_length, **options})

    def evaluate(self, x, *args, **options) -> dict[str, float]:
        """Returns loss, masked_lm_accuracy and perplexity on texts that are masked at random."""
        from keras_bert.tasks.masked_lm import task

        self._check_texts(x)
        if self.top_k is not None:
            raise InputError("A SavedModel has the probabilities of few tokens only. Export for LiteRT or ONNX.")
        return task.evaluate_texts(self, x, *args, **{"max_seq_length": self.max_seq_length, **options})

    def predict_on_batch(self, batch: Mapping[str, np.ndarray]):
        """Returns the outputs for a batch of features."""
        return self.engine.run(batch)
