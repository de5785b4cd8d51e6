"""Checks the features before a runtime gets them: LiteRT reads outside of its tables."""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.serving.portable.row_layouts import ArrangedEngine


class CheckedEngine:
    """An engine of a portable format, for one model.

    Args:
        engine: has `feature_names` and `run(features)`; and `layout`, if its rows are arranged, see `row_layouts.py`.
        config: the `BertConfig`.
        num_axes: the number of axes of the network's features: 2, or 3 for multiple choice. More leading axes, such as
            those of several texts per example, are joined to one and restored in the outputs.
        outputs: name of an output -> its axes: numbers, or names of axes of the features. The name of an only array is
            "". None: the rows are not arranged.

    Attributes:
        feature_names: the features that `run` takes.
        examples_at_once: the number of examples that one call should have, to be fast.
    """

    def __init__(self, engine, config, num_axes: int = 2, outputs: Mapping[str, Sequence] | None = None):
        if outputs is not None and hasattr(engine, "layout"):
            engine = ArrangedEngine(engine, outputs)
        self._engine = engine
        self.examples_at_once = getattr(engine, "examples_at_once", 1)
        self._config = config
        self._num_axes = num_axes
        self.feature_names = tuple(engine.feature_names)

    def run(self, given: Mapping[str, np.ndarray]):
        """Returns the outputs of the model for a batch.

        Args:
            given: int arrays `[..., S]`; other keys than `feature_names` are ignored.

        Raises:
            InputError: a feature is missing or has another shape, an id is not in the vocabulary, or the rows are
                longer than the model's positions.
        """
        missing = [name for name in self.feature_names if name not in given]
        if missing:
            raise InputError(
                f"The model takes {', '.join(self.feature_names)}. Missing: {', '.join(missing)}. Received: "
                f"{', '.join(given)}"
            )
        batch = {name: np.asarray(given[name], np.int32) for name in self.feature_names}
        self._check(batch)
        inner = 1 - self._num_axes
        leading = batch[features.INPUT_IDS].shape[:inner]
        if len(leading) > 1:
            batch = {name: values.reshape(-1, *values.shape[inner:]) for name, values in batch.items()}
        outputs = self._engine.run(batch)
        return outputs.reshape(*leading, *outputs.shape[1:]) if len(leading) > 1 else outputs

    def _check(self, batch: Mapping[str, np.ndarray]) -> None:
        ids = batch[features.INPUT_IDS]
        # Masked positions have as many rows, of another length.
        shared = {name: -1 if name == features.MASKED_LM_POSITIONS else None for name in batch}
        if ids.ndim < self._num_axes or any(
            values.ndim != ids.ndim or values.shape[: shared[name]] != ids.shape[: shared[name]]
            for name, values in batch.items()
        ):
            shapes = ", ".join(f"{name} {values.shape}" for name, values in batch.items())
            raise InputError(
                f"The features must be arrays of one shape, {self._num_axes} axes or more. Received: {shapes}"
            )
        self._config.check_sequence_length(ids.shape[-1])
        limits = {
            features.INPUT_IDS: (self._config.vocab_size, "the vocabulary has {} tokens"),
            # Models with fewer than two segments do not read the numbers.
            features.SEGMENT_IDS: (max(self._config.type_vocab_size, 2), "the model has {} segments"),
            features.MASKED_LM_POSITIONS: (ids.shape[-1], "the rows have {} columns"),
        }
        for name, values in batch.items():
            limit, reason = limits.get(name, (None, None))
            if limit is not None and values.size and not 0 <= values.min() <= values.max() < limit:
                wrong = values.min() if values.min() < 0 else values.max()
                raise InputError(
                    f"{name} must be from 0 to {limit - 1}, since {reason.format(limit)}. Received: {wrong}. Use the "
                    "tokenizer of the model."
                )
