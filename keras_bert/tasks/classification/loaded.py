"""What a loaded export of a `SequenceClassifier` can do beside answering texts: probabilities, and other labels."""

from typing import Any

import numpy as np

from keras_bert.program.label_types import label_value
from keras_bert.tasks.classification.examples import TextExamples
from keras_bert.tasks.classification.task import predict_proba
from keras_bert.tasks.classification.thresholds import as_thresholds, check_answer_options, check_several_labels
from keras_bert.tasks.classification.zero_shot import TEMPLATE, zero_shot
from keras_bert.tasks.fitting import text_task


class LoadedSequenceClassifier:
    """Methods of loaded exports of a `SequenceClassifier`."""

    def __init__(self, folder, engine, runtime):
        super().__init__(folder, engine, runtime)
        self.label_values = tuple(label_value(label, self.label_type) for label in self.labels)

    @property
    def thresholds(self) -> tuple[float, ...] | None:
        """The threshold of each label, as that of `SequenceClassifier`."""
        return self._thresholds

    @thresholds.setter
    def thresholds(self, value: Any) -> None:
        if value is not None:
            check_several_labels(self.problem_type, "thresholds")
            value = as_thresholds(value, self.labels, label_type=self.label_type, name="thresholds")
        self._thresholds = value

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        *,
        callbacks: Any = None,
        max_seq_length: int | None = None,
        top_k: int | None = None,
        threshold: Any = None,
        **unknown: Any,
    ) -> list:
        """Returns an answer for each text; the arguments are those of `SequenceClassifier.predict`."""
        check_answer_options(self, top_k, threshold)
        arguments = {"batch_size": batch_size, "verbose": verbose, "callbacks": callbacks, "top_k": top_k}
        return self._predict(x, {**arguments, "max_seq_length": max_seq_length, "threshold": threshold}, unknown)

    @property
    def served_inputs(self) -> dict[str, tuple]:
        return {"text": (), "text_b": ()} if self.text_pairs else {"text": ()}

    @property
    def served_outputs(self) -> dict[str, tuple]:
        count = len(self.labels)
        if self.problem_type == "regression":
            return {"score": (0.0,)} if count == 1 else {"labels": ("", count), "scores": (0.0, count)}
        of_labels = {"labels": ("", count), "probabilities": (0.0, count)}
        if self.problem_type == "multi_label":
            return {**of_labels, "is_given": (False, count)}
        return {**of_labels, "label": ("",), "probability": (0.0,)}

    def serve(self, text: list[str], text_b: list[str] | None = None) -> dict[str, Any]:
        """See `AnswerSignature`. An empty second text means a single text, as in a SavedModel."""
        seconds = text_b or [""] * len(text)
        task, outputs = text_task(self), np.zeros((len(text), len(self.labels)), np.float32)
        for are_pairs in (False, True):
            numbers = [number for number, second in enumerate(seconds) if bool(second.strip()) == are_pairs]
            if numbers:
                columns = [[column[number] for number in numbers] for column in (text, seconds)[: 1 + are_pairs]]
                rows, found = self.computed(TextExamples(*columns, may_be_empty=True))
                outputs[numbers] = rows.outputs_of_examples(found)
        return task.arrays(outputs, self.labels)

    def predict_proba(
        self, x: Any, batch_size: int | None = None, verbose: Any = "auto", *, max_seq_length: int | None = None
    ) -> np.ndarray:
        """Returns probabilities, float32 `[N, labels]`; see `SequenceClassifier.predict_proba`."""
        return predict_proba(self, x, batch_size=batch_size, verbose=verbose, max_seq_length=max_seq_length)

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
            InputError: as there, or it is a SavedModel for single texts.
        """
        options = {"labels": labels, "hypothesis_template": hypothesis_template, "multi_label": multi_label}
        return zero_shot(self, texts, batch_size, max_seq_length or self.max_seq_length, verbose, **options)
