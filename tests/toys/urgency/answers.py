"""The answers of `UrgencyModel`."""

import dataclasses

from keras_bert.tasks import answer_operations


@dataclasses.dataclass(frozen=True)
class Urgency:
    """How urgent a message is, from 0 to 1."""

    urgency: float

    def readable(self, asked=None) -> str:
        return f"  urgency {self.urgency:.4f}"


def urgency_arrays(outputs, ops=answer_operations):
    """Returns `urgency`, float `[N]`, from the outputs of the model, logits `[N, 1]`; `ops` computes on such arrays."""
    return {"urgency": ops.sigmoid(outputs[:, 0])}


def urgency_answers(arrays, inputs) -> list[Urgency] | None:
    """Returns the answers in these arrays, also those of a server; None if they are those of another task."""
    return [Urgency(float(value)) for value in arrays["urgency"]] if arrays.keys() == {"urgency"} else None
