"""The parts of a model that its checkpoint lacked, and the warning that they are not trained."""

import hashlib
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from keras import ops

from keras_bert.program.errors import UntrainedWarning


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

    def warn(self, model_name: str, random_outputs: str, parts: Sequence[str] | None) -> None:
        """Does what `BertModel.warn_if_untrained` says."""
        untrained = [part for part in self.untrained() if parts is None or part in parts]
        if not set(untrained) - self.reported:
            return
        self.reported.update(untrained)
        names = " and ".join(part.removeprefix("encoder/") for part in untrained)
        warnings.warn(
            f"This {model_name} is not trained: {self.source} has no {names} for it, so new weights were drawn at "
            f"random, and {random_outputs}. Train it first (fit, or a command with --do_train), or load a checkpoint "
            f"that has {names}.",
            UntrainedWarning,
            stacklevel=4,
        )
