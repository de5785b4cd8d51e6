"""The teacher of a run and what its student learns from it."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert.models.distiller import LABELS, PREDICTIONS, SOFT_TARGETS, Distiller, checked_terms
from keras_bert.program.errors import InputError


@dataclasses.dataclass(frozen=True)
class Distillation:
    """A teacher, and the terms of the loss of its student; see `Distiller`.

    Attributes:
        teacher: a checkpoint in any format.
        terms: names and weights of the terms, or a list of `name` and `name:weight`.
        layer_map: for each of the student's layers, the number of the teacher's layer, counted from 0.
        temperature: how soft the teacher's probabilities are.

    Raises:
        InputError: a term is unknown, or its weight is not a positive number.
    """

    teacher: str | os.PathLike
    terms: Mapping[str, float] | Sequence[str] = (f"{SOFT_TARGETS}:0.5", f"{LABELS}:0.5")
    layer_map: Sequence[int] | None = None
    temperature: float = 2.0

    def __post_init__(self):
        object.__setattr__(self, "terms", checked_terms(self.terms))

    def settings(self) -> dict[str, Any]:
        """Returns the settings that must not change when the run is resumed."""
        settings = dataclasses.asdict(self) | {"teacher": os.path.abspath(self.teacher)}
        return settings | {"layer_map": None if self.layer_map is None else list(self.layer_map)}

    def distiller(self, student, teacher_class: type | None = None) -> Distiller:
        """Returns the model that trains a student.

        Args:
            student: a task model.
            teacher_class: the class of the teacher, which is loaded now; None if its logits are among the features.

        Raises:
            InputError: teacher and student do not fit together.
        """
        teacher = teacher_class.from_pretrained(self.teacher) if teacher_class else None
        if teacher is not None and {SOFT_TARGETS, PREDICTIONS} & set(self.terms) and teacher.new_parts.untrained():
            raise InputError(
                f"{self.teacher} has no {' and no '.join(teacher.new_parts.untrained())}, so the terms {SOFT_TARGETS} "
                f"and {PREDICTIONS} cannot be computed. Train it first, or choose other terms."
            )
        return Distiller(student, teacher, self.terms, layer_map=self.layer_map, temperature=self.temperature)
