"""Trains a small classifier on texts, on what a large one computes for them."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert.models.distiller import LABELS, Distiller, checked_terms, label_order, needs_layers
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.datasets import rows_dataset
from keras_bert.records.token_rows import RowBatches, TokenRows
from keras_bert.tasks.base import text_task
from keras_bert.tasks.examples import complete_examples
from keras_bert.tasks.fitting import LEARNING_RATE, first_step, recipe_optimizer
from keras_bert.tasks.prediction import predict_rows


def distill(
    student: Any,
    teacher: Any,
    x: Any,
    y: Any = None,
    *,
    terms: Any = None,
    layer_map: Sequence[int] | None = None,
    temperature: float = 2.0,
    batch_size: int = 32,
    epochs: int = 3,
    learning_rate: float = LEARNING_RATE,
    max_seq_length: int | None = None,
    seed: int = 12345,
    validation_data: Any = None,
    verbose: Any = "auto",
    callbacks: Any = None,
    initial_epoch: int = 0,
    validation_steps: int | None = None,
    validation_freq: Any = 1,
) -> Any:
    """Trains `student` on texts, on what `teacher` computes for them and on their labels; see `Distiller` for the loss.

    If the terms are of logits only, these are computed once, before training, and the teacher may have another
    vocabulary. Otherwise the teacher computes every batch.

    Args:
        student, teacher: two `SequenceClassifier`s with the same labels and the same `problem_type`. The teacher may be
            the folder of one.
        x, y: texts and labels as for `fit`; labels are needed for the term `labels`.
        terms, layer_map, temperature: see `Distiller`.
        learning_rate: the peak rate; the rate rises for a tenth of the updates and then falls to 0.
        batch_size, epochs, max_seq_length, seed: as for `fit`.
        validation_data, verbose, callbacks, initial_epoch, validation_steps, validation_freq: as for `keras.Model.fit`.

    Returns:
        The `History` of Keras.

    Raises:
        InputError: the models differ in labels or `problem_type`, or labels are missing.

    Example:
        teacher = SequenceClassifier.from_pretrained("teacher")
        student = SequenceClassifier.from_pretrained("teacher", keep_layers=[0, 2, 4])
        distill(student, teacher, texts, labels)

    Reference: Hinton et al., 2015, arXiv 1503.02531; Turc et al., 2019, arXiv 1908.08962; Jiao et al., 2019, arXiv
    1909.10351.
    """
    if isinstance(teacher, str | os.PathLike):
        teacher = type(student).from_pretrained(teacher)
    layers_of = teacher if terms is not None and needs_layers(checked_terms(terms)) else None
    distiller = Distiller(student, layers_of, terms, layer_map=layer_map, temperature=temperature)
    rows = _rows_to_learn(distiller, teacher if layers_of is None else None, x, y, max_seq_length, batch_size)
    steps = len(RowBatches(rows, batch_size))
    distiller.compile(recipe_optimizer(steps, epochs, initial_epoch, callbacks, learning_rate), jit_compile=False)
    start = first_step(distiller, steps, initial_epoch)
    dataset = rows_dataset(rows, batch_size, shuffle=True, repeat=True, seed=seed, start_step=start)
    options = {"epochs": epochs, "initial_epoch": initial_epoch, "steps_per_epoch": steps, "verbose": verbose}
    options |= {"validation_data": validation_data, "validation_steps": validation_steps}
    return distiller.fit(dataset, callbacks=callbacks, validation_freq=validation_freq, **options)


def _rows_to_learn(distiller, teacher, x, y, max_seq_length: int | None, batch_size: int) -> TokenRows:
    """Returns the rows of texts with their labels and, if there is a teacher, its logits."""
    student = distiller.student
    task = text_task(student)
    examples = complete_examples(task, x, y)
    if y is None and LABELS in distiller.terms:
        raise InputError(f"The term {LABELS} needs labels. Received: none. Give labels, or other terms.")
    rows = task.rows(examples, max_seq_length).rows
    if teacher is None:
        return rows
    logits = teacher_logits(teacher, student, examples, max_seq_length, batch_size)
    return rows.with_labels(**{features.TEACHER_LOGITS: logits})


def teacher_logits(teacher, student, examples, max_seq_length: int | None, batch_size: int = 32) -> np.ndarray:
    """Returns the logits of a teacher for N examples, float32 (N, labels), in the order of the student's labels."""
    order = label_order(teacher, student)
    task = text_task(teacher)
    positions = teacher.config.max_sequence_length
    unlabelled = dataclasses.replace(examples, labels=None, weights=None)
    example_rows = task.rows(unlabelled, positions if max_seq_length is None else min(max_seq_length, positions))
    return predict_rows(teacher, example_rows.rows, batch_size)[:, order].astype(np.float32)
