"""Labels that nobody has trained on: a model trained for entailment judges a sentence about each label.

For the label "travel", the model reads the pair of the text and "This example is travel.".

Reference: Yin et al., 2019, arXiv 1909.00161; the defaults are those of the pipeline of transformers.
"""

import dataclasses
import sys
from collections.abc import Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import as_list
from keras_bert.records.token_rows import TokenRanges, join_segments
from keras_bert.tasks.base import ExampleRows
from keras_bert.tasks.classification.answers import label_answers, likeliest_first
from keras_bert.tasks.classification.examples import TextExamples
from keras_bert.tasks.classification.task import ClassificationTask
from keras_bert.tasks.examples import complete_examples
from keras_bert.tasks.label_names import check_labels
from keras_bert.tasks.text_rows import token_lists

TEMPLATE = "This example is {}."


class ZeroShotTask(ClassificationTask):
    """Texts -> L labels that are given here, by a model with a label for entailment.

    The arguments and errors are those of `LoadedSequenceClassifier.zero_shot`. Answers have the probabilities in the
    order of `labels`.
    """

    def __init__(self, model, labels: Sequence[str], hypothesis_template: str = TEMPLATE, multi_label: bool = False):
        labels = as_list(labels, "labels")
        if any(isinstance(label, list) for label in labels):
            raise InputError(
                f"labels must be names for all texts. Received: {labels!r:.100}. Where texts have labels of their own, "
                "call zero_shot for the texts of each list."
            )
        labels = check_labels(labels, fewest=1)
        if not all(label.strip() for label in labels):
            raise InputError(f"labels must not be empty. Received: {list(labels)}")
        check_template(hypothesis_template)
        super().__init__(model, labels, "multi_label" if multi_label or len(labels) == 1 else "classification")
        self._entailment = entailment_of(model)
        self._hypotheses = [hypothesis_template.replace("{}", label) for label in labels]

    def answers_to(self, texts, batch_size: int | None, max_seq_length: int | None, verbose) -> list:
        """Returns an answer for each text; see `zero_shot` of `SequenceClassifier`."""
        if not isinstance(texts, (str, tuple)):
            texts = as_list(texts, "texts")
        if not texts:
            return []
        examples = complete_examples(self, texts)
        longest = max_seq_length or getattr(self.model, "max_seq_length", None)  # a loaded export has one
        example_rows = self.rows(examples, longest).print_notes(sys.stderr)
        outputs = self.outputs(example_rows.rows, batch_size, verbose)
        return [
            dataclasses.replace(answer, probabilities=likeliest_first(answer.probabilities))
            for answer in self.answers(examples, example_rows, outputs)
        ]

    def rows(self, examples: TextExamples, max_seq_length: int | None = None) -> ExampleRows:
        """Returns L rows for each text. Only the texts are cut, never the sentences about the labels."""
        if examples.second_texts is not None:
            raise InputError(f"{examples.source}: labels without training are for single texts. Received: pairs.")
        texts, hypotheses = (
            token_lists(column, self.tokenizer.tokenize) for column in (examples.texts, self._hypotheses)
        )
        vocabulary, length = self.tokenizer.vocabulary, self.checked_length(max_seq_length)
        room = length - vocabulary.special_tokens.num_special(2) - hypotheses.lengths
        if room.min() < 1:
            raise InputError(
                f"{self._hypotheses[room.argmin()]!r:.200} leaves no room for a text in rows of {length} tokens. "
                "Shorten the label or hypothesis_template, or raise max_seq_length."
            )
        text, label = (grid.ravel() for grid in np.indices((len(texts.lengths), len(room))))
        first = TokenRanges(texts.values, texts.firsts[text], np.minimum(texts.lengths[text], room[label]))
        second = TokenRanges(hypotheses.values, hypotheses.firsts[label], hypotheses.lengths[label])
        rows, _ = join_segments([first, second], length, vocabulary)
        return ExampleRows(rows, self._notes_of_cuts(examples, texts.lengths > room.min(), max_seq_length))

    def answers(self, examples: TextExamples, example_rows: ExampleRows, outputs: np.ndarray) -> list:
        """Compares the labels by their logits of entailment, or by itself each one's entailment with contradiction."""
        logits = outputs.astype(np.float64).reshape(len(examples), len(self.labels), -1)
        scores = logits[:, :, self._entailment]
        if self.problem_type == "multi_label":
            scores = scores - logits[:, :, contradiction_of(self._entailment)]  # their softmax is the sigmoid of this
        return label_answers(self.arrays(scores, self.labels), {})


def check_template(template, name: str = "hypothesis_template") -> None:
    """Raises `InputError` unless an argument is a sentence with {}."""
    if not isinstance(template, str) or "{}" not in template:
        raise InputError(
            f"{name} must be a sentence with {{}} in the place of the label, such as {TEMPLATE!r}. Received: "
            f"{template!r:.200}"
        )


def entailment_of(model) -> int:
    """Returns the label id of entailment. Raises `InputError` if the model has none."""
    found = [number for number, label in enumerate(model.labels) if label.casefold().startswith("entail")]
    if not found or model.problem_type != "classification":
        raise InputError(
            "Labels without training need a model trained for entailment: one label per pair of texts, and a label "
            f"that begins with 'entail'. Received: a model for {model.problem_type} with the labels "
            f"{', '.join(model.labels)}"
        )
    return found[0]


def contradiction_of(entailment: int) -> int:
    """Returns the position of contradiction: the first label, or the last if entailment is the first."""
    return 0 if entailment else -1
