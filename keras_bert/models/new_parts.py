"""The parts of a model that its checkpoint did not have, until something trains them."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from keras import ops


class NewParts:
    """Parts that were newly initialised, until they are trained.

    They are trained together: all of them as soon as `set_trained` is called, or one of their weights is not what it
    was. So a training loop of one's own and `load_weights` count, too.

    Args:
        parts: name of a part -> its Keras variables, with their first values.
        source: the checkpoint that did not have them, in words.
    """

    def __init__(self, parts: Mapping[str, Sequence] | None = None, source: str = ""):
        self.source = source
        self.reported: set[str] = set()  # the parts that a user has been warned of
        self._parts = dict(parts or {})
        self._first_values = self._values()

    def untrained(self) -> tuple[str, ...]:
        """Returns the names of the parts that nothing has trained, in their order; none as soon as one is trained."""
        if self._parts and self._values() != self._first_values:
            self.set_trained()
        return tuple(self._parts)

    def set_trained(self) -> None:
        """Has all parts count as trained from now on."""
        self._parts = {}

    def _values(self) -> str:
        """Returns the SHA-256 of all weights, which takes less memory than a copy of them."""
        digest = hashlib.sha256()
        for variables in self._parts.values():
            for variable in variables:
                digest.update(np.ascontiguousarray(ops.convert_to_numpy(variable)).tobytes())
        return digest.hexdigest()
