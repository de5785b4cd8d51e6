"""What a loaded export of a `SequenceClassifier` can do beside answering texts: labels without training."""

from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.zero_shot import TEMPLATE, zero_shot


class LoadedClassifier:
    """Methods of loaded exports of a `SequenceClassifier` or `SentenceClassifier`."""

    def __init__(self, folder, engine):
        super().__init__(folder, engine)
        self._has_logits = getattr(engine, "has_raw_outputs", True)  # those of earlier versions have probabilities

    def zero_shot(
        self,
        texts: Any,
        labels: Any,
        hypothesis_template: str = TEMPLATE,
        multi_label: bool = False,
        *,
        batch_size: int | None = None,
        max_seq_length: int | None = None,
        verbose: Any = "auto",
    ) -> list:
        """Returns the answers of `SequenceClassifier.zero_shot`. A SavedModel must be one for pairs, `text_pairs=True`.

        Args:
            texts, labels, hypothesis_template, multi_label, batch_size, verbose: as there.
            max_seq_length: texts are cut, so that rows have this many tokens; None for the length of the export.

        Raises:
            InputError: as there, or it is a SavedModel for single texts, or one without the signature `raw_outputs`.
        """
        if not self._has_logits:
            raise InputError(
                "This SavedModel of an earlier version has no logits for zero_shot. Export the model again."
            )
        options = {"labels": labels, "hypothesis_template": hypothesis_template, "multi_label": multi_label}
        return zero_shot(self, texts, batch_size, max_seq_length or self.max_seq_length, verbose, **options)
