"""Computes, before training, what a loss learns from another model."""

import dataclasses
import os
from typing import Any

import numpy as np

from keras_bert import registry
from keras_bert.program.errors import InputError
from keras_bert.tasks.embedding.examples import SentenceExamples
from keras_bert.tasks.fitting import text_task


def teacher_labels(teacher: Any, examples: SentenceExamples, gives_vectors: bool, batch_size: int) -> np.ndarray:
    """Returns what a teacher gives for N examples of C texts.

    Args:
        teacher: a `CrossEncoder`, whose scores are those of `predict`; a `SentenceEncoder`, whose scores are dot
            products with the anchor; or the folder of one.
        gives_vectors: whether its vectors are wanted instead of its scores.
        batch_size: examples computed at once.

    Returns:
        float32 `[N, C - 1]`, or vectors `[N, C, G]`.

    Raises:
        InputError: the teacher scores no texts, or it has no vectors.
    """
    if isinstance(teacher, str | os.PathLike):
        from keras_bert.checkpoints.pretrained import from_pretrained

        teacher = from_pretrained(None, teacher)
    entry = registry.task_of(teacher)
    task = text_task(teacher) if entry is not None and entry.text_task else None
    if task is None or not task.scores_texts:
        raise InputError(
            f"A teacher of texts is a CrossEncoder or a SentenceEncoder. Received: {type(teacher).__name__}"
        )
    plain = dataclasses.replace(examples, scores=None, labels=None, weights=None, loss=None)
    example_rows = task.rows(plain)
    found = task.answers(plain, example_rows, task.outputs(example_rows.rows, batch_size)).astype(np.float32)
    has_vectors = found.ndim == 3
    if gives_vectors and not has_vectors:
        raise InputError(f"A guide is a SentenceEncoder, which has vectors. Received: {type(teacher).__name__}")
    if has_vectors and not gives_vectors:
        found = np.sum(found[:, :1] * found[:, 1:], axis=-1)
    return found if gives_vectors else found.reshape(len(examples), -1)
