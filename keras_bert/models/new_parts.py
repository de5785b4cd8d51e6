"""Tracks the parts of a model that its checkpoint did not contain, until they are trained."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from keras import ops


class NewParts:
    """The newly initialised parts of a model.

    All of them count as trained as soon as `set_trained` is called or one of their weights has changed. So a custom
    training loop and `load_weights` are noticed too.

    Args:
        parts: name of a part -> its Keras variables, which hold their initial values.
        source: a description of the checkpoint that lacks them, for messages.
    """

    def __init__(self, parts: Mapping[str, Sequence] | None = None, source: str = ""):
        self.source = source
        self.reported: set[str] = set()  # the parts that a warning has named
        self._parts = dict(parts or {})
        self._first_values = self._values()

    def untrained(self) -> tuple[str, ...]:
        """Returns the names of the parts, in order, or an empty tuple if any of them has been trained."""
        if self._parts and self._values() != self._first_values:
            self.set_trained()
        return tuple(self._parts)

    def set_trained(self) -> None:
        """Marks all parts as trained."""
        self._parts = {}

    def _values(self) -> str:
        """Returns the SHA-256 of all weights; a copy of the weights would take as much memory again."""
        digest = hashlib.sha256()
        for variables in self._parts.values():
            for variable in variables:
                digest.update(np.ascontiguousarray(ops.convert_to_numpy(variable)).tobytes())
        return digest.hexdigest()
