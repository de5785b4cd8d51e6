"""The answers of `UrgencyModel`."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Urgency:
    """How urgent a message is, from 0 to 1."""

    urgency: float

    def readable(self, asked=None) -> str:
        return f"  urgency {self.urgency:.4f}"


def urgency_answers(outputs: np.ndarray) -> list[Urgency]:
    """Returns an answer for each row of the model's outputs, logits `[N, 1]`."""
    return [Urgency(float(1 / (1 + np.exp(-logit)))) for logit in outputs[:, 0].astype(np.float64)]


def served_answers(outputs, inputs) -> list[Urgency] | None:
    """Returns the answers in the outputs of a server; None if the outputs are those of another task."""
    return [Urgency(float(value)) for value in outputs["urgency"]] if outputs.keys() == {"urgency"} else None
