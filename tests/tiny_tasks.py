"""A tiny model of every task, with a batch that it can be trained on."""

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.masked_lm.model import MaskedLM
from keras_bert.tasks.multiple_choice.model import MultipleChoice
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.tasks.question_answering.model import SpanClassifier
from keras_bert.tasks.tagging.model import TokenClassifier

CONFIG = BertConfig(
    vocab_size=20,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=8,
)
BATCH, LENGTH, PREDICTIONS, CHOICES = 4, 6, 2, 3
LABELS = ["a", "b", "c"]


def model_and_batch(kind: str):
    """Returns a model and its features, or a pair of features and labels: arrays, int32 and float32."""
    draw = np.random.default_rng(0)

    def ids(*shape, below=20):
        return draw.integers(0, below, shape).astype(np.int32)

    lead = (BATCH, CHOICES) if kind == "choice" else (BATCH,)
    x = {
        "input_ids": ids(*lead, LENGTH),
        "input_mask": np.ones((*lead, LENGTH), np.int32),
        "segment_ids": ids(*lead, LENGTH, below=2),
    }
    masked = {
        "masked_lm_positions": ids(BATCH, PREDICTIONS, below=LENGTH),
        "masked_lm_ids": ids(BATCH, PREDICTIONS),
        "masked_lm_weights": draw.integers(0, 2, (BATCH, PREDICTIONS)).astype(np.float32),
    }
    if kind == "pretrainer":
        return BertPretrainer(CONFIG), x | masked | {"next_sentence_labels": ids(BATCH, 1, below=2)}
    if kind == "packed":
        sequences = {
            "cls_positions": ids(BATCH, 2, below=LENGTH),
            "next_sentence_labels": ids(BATCH, 2, below=2),
            "next_sentence_weights": draw.integers(0, 2, (BATCH, 2)).astype(np.float32),
        }
        return BertPretrainer(CONFIG), x | masked | sequences
    if kind == "masked_lm":
        return MaskedLM(CONFIG), x | masked
    if kind == "classes":
        return SequenceClassifier(CONFIG, labels=LABELS), (x, ids(BATCH, below=3))
    if kind == "many":
        labels = ids(BATCH, 3, below=2).astype(np.float32)
        return SequenceClassifier(CONFIG, labels=LABELS, problem_type="multi_label"), (x, labels)
    if kind == "number":
        model = SequenceClassifier(CONFIG, labels=["score"], problem_type="regression")
        return model, (x, draw.random((BATCH, 1)).astype(np.float32))
    if kind == "tags":
        return TokenClassifier(CONFIG, labels=LABELS), (x, ids(BATCH, LENGTH, below=4) - 1)
    if kind == "span":
        return SpanClassifier(CONFIG), x | {
            "start_positions": ids(BATCH, below=LENGTH),
            "end_positions": ids(BATCH, below=LENGTH),
        }
    return MultipleChoice(CONFIG), (x, ids(BATCH, below=CHOICES))
