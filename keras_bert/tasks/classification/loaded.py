"""What a loaded export of a `SequenceClassifier`, and the model, can do beside answering: probabilities, zero shot."""

from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.label_types import label_value
from keras_bert.tasks.base import text_task
from keras_bert.tasks.classification.examples import TextExamples
from keras_bert.tasks.classification.task import probabilities_of
from keras_bert.tasks.classification.thresholds import as_thresholds, check_answer_options, check_several_labels
from keras_bert.tasks.classification.zero_shot import ZeroShotTask


class LoadedSequenceClassifier:
    """Methods of loaded exports of a `SequenceClassifier`."""

    def __init__(self, folder, engine, runtime):
        super().__init__(folder, engine, runtime)
        self.label_values = tuple(label_value(label, self.label_type) for label in self.labels)

    @property
    def thresholds(self) -> tuple[float, ...] | None:
        """The threshold of each label; None if all are 0.5."""
        return self._thresholds

    @thresholds.setter
    def thresholds(self, value: Any) -> None:
        if value is not None:
            check_several_labels(self.problem_type, "thresholds")
            value = as_thresholds(value, self.labels, label_type=self.label_type, name="thresholds")
        self._thresholds = value

    def predict_on_texts(self, x: Any, **options: Any) -> list:
        check_answer_options(self, options.get("top_k"), options.get("threshold"))
        return super().predict_on_texts(x, **options)

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
        self: Any, x: Any, batch_size: int | None = None, verbose: Any = "auto", *, max_seq_length: int | None = None
    ) -> np.ndarray:
        """Returns the probabilities of the labels, float32 `[N, labels]`, in the order of `labels`.

        Those of `multi_label` are independent of each other; otherwise each row sums up to 1.

        Args:
            x: N texts or pairs of texts, as for `predict`.
            batch_size, verbose, max_seq_length: as for `predict`.

        Raises:
            InputError: as `predict`, or the model has scores.
        """
        if self.problem_type == "regression":
            raise InputError("A regression has scores, and no probabilities. Use predict(texts)[0].score.")
        answers = self.predict(x, batch_size=batch_size, verbose=verbose, max_seq_length=max_seq_length)
        return probabilities_of(answers).astype(np.float32)

    def zero_shot(
        self: Any,
        texts: Any,
        labels: Any,
        hypothesis_template: str = "This example is {}.",
        multi_label: bool = False,
        *,
        batch_size: int | None = None,
        max_seq_length: int | None = None,
        verbose: Any = "auto",
    ) -> list:
        """Returns answers with labels that the model was not trained on, if it was trained for entailment.

        It reads each text with the sentence about each label as a pair. The scores are those of the pipeline
        "zero-shot-classification" of transformers. A SavedModel must be one for pairs, `text_pairs=True`.

        Args:
            texts: N single texts, as for `predict`.
            labels: L different names.
            hypothesis_template: the sentence, with {} in the place of the label.
            multi_label: whether each label is judged by itself, entailment against contradiction. Otherwise the
                probabilities of the labels of a text sum up to 1. One label alone is judged by itself.
            batch_size: pairs computed at once, 32 by default.
            max_seq_length: as for `predict`. The texts are cut, the sentences are not.
            verbose: 0 shows no progress.

        Returns:
            A `LabelAnswer` for each text, or a `LabelsAnswer` if labels are judged by themselves. `probabilities` has
            the most probable label first.

        Raises:
            InputError: none of the model's labels begins with "entail"; a label is empty or there twice; the template
                has no {}; texts are missing, or a sentence leaves no room for a text; or it is a SavedModel for single
                texts.
        """
        task = ZeroShotTask(self, labels, hypothesis_template, multi_label)
        return task.answers_to(texts, batch_size, max_seq_length, verbose)
