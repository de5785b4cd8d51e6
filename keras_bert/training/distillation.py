"""The teacher of a run and what its student learns from it."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keras_bert.program.errors import InputError
from keras_bert.program.options import Options, documented, option

if TYPE_CHECKING:
    from keras_bert.models.distiller import Distiller


@documented
@dataclasses.dataclass(frozen=True)
class Distillation(Options):
    """A teacher, and the terms of the loss of its student; see `Distiller`.

    Raises:
        InputError: a term is unknown, or its weight is not a positive number.
    """

    teacher: str | os.PathLike = option(
        dataclasses.MISSING, "The teacher: the folder of a trained model, for distillation."
    )
    terms: Mapping[str, float] | Sequence[str] = option(
        ("soft_targets:0.5", "labels:0.5"),
        "The terms of the student's loss, with weights: labels, soft_targets, predictions, cosine, attention_scores, "
        "hidden_states, embeddings.",
        flag="distill_terms",
        needs="teacher",
    )
    layer_map: Sequence[int] | None = option(
        None,
        "For each of the student's layers, the teacher's layer that it learns from, numbered from 0 (default: layers "
        "at equal distances).",
        flag="distill_layers",
        needs="teacher",
        at_least=0,
    )
    temperature: float = option(
        2.0, "The temperature that softens the teacher's probabilities.", needs="teacher", above=0
    )

    def __post_init__(self):
        super().__post_init__()
        from keras_bert.models.distiller import checked_terms

        object.__setattr__(self, "terms", checked_terms(self.terms))

    def settings(self) -> dict[str, Any]:
        """Returns the settings that must not change when the run is resumed."""
        return dataclasses.asdict(self) | {"teacher": os.path.abspath(self.teacher)}

    def distiller(self, student, teacher_class: type | None) -> "Distiller":
        """Returns the model that trains a student, a task model.

        The teacher is loaded now; without a `teacher_class`, its logits are among the features.

        Raises:
            InputError: teacher and student do not fit together.
        """
        from keras_bert.models.distiller import PREDICTIONS, SOFT_TARGETS, Distiller

        teacher = teacher_class.from_pretrained(self.teacher) if teacher_class else None
        if teacher is not None and {SOFT_TARGETS, PREDICTIONS} & set(self.terms) and teacher.new_parts.untrained():
            raise InputError(
                f"{self.teacher} has no {' and no '.join(teacher.new_parts.untrained())}, so the terms {SOFT_TARGETS} "
                f"and {PREDICTIONS} cannot be computed. Train it first, or choose other terms."
            )
        return Distiller(student, teacher, self.terms, layer_map=self.layer_map, temperature=self.temperature)
