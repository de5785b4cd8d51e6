"""Runs the `tokens` signature of a SavedModel, and turns its answers back into the outputs of the model."""

import os
from collections.abc import Mapping

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.serving.portable.folder import EXPORT_FILE
from keras_bert.tf_serving.ask import load_text_operations

_SIGNATURE = "tokens"
_SMALLEST = np.finfo(np.float32).tiny
_decoded = np.frompyfunc(lambda text: text.decode("utf-8", "replace"), 1, 1)
# Ending of the name of all alternatives -> the output with the best one.
_OF_BEST = {"s": "written", "_scores": "score"}


class SavedModelEngine:
    """The network of a SavedModel of `export_for_serving`. It needs TensorFlow, and no Keras.

    The signature answers with probabilities. Their logarithms are logits with the same answers; those of tokens that a
    masked-LM model does not propose share the rest of the probability.

    Args:
        folder: the SavedModel.
        vocabulary: its tokens.

    Attributes:
        feature_names: the features that the network takes.

    Raises:
        InputError: the SavedModel is damaged or has no such signature.
    """

    def __init__(self, folder: str | os.PathLike, vocabulary):
        # Imported here because it takes seconds.
        import tensorflow as tf

        load_text_operations()
        try:
            # A signature works only as long as the loaded object exists, so keep the object.
            self._loaded = tf.saved_model.load(os.fspath(folder))
        except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
            raise InputError(f"Cannot load the SavedModel {os.fspath(folder)}: {error!s:.300}") from error
        self._tokens = self._loaded.signatures.get(_SIGNATURE)
        if self._tokens is None:
            raise InputError(f"{os.fspath(folder)} has no signature {_SIGNATURE}. Export the model again.")
        self._takes_segments = features.SEGMENT_IDS in self._tokens.structured_input_signature[1]
        self._vocabulary = vocabulary
        self._as_tensor = tf.constant
        self._errors = (KeyError, IndexError, TypeError, ValueError, tf.errors.OpError)
        self._folder = os.fspath(folder)
        names = [features.INPUT_IDS, features.INPUT_MASK, features.SEGMENT_IDS]
        is_masked_lm = "tokens" in self._tokens.structured_outputs
        self.feature_names = tuple(names + [features.MASKED_LM_POSITIONS] * is_masked_lm)

    def run(self, given: Mapping[str, np.ndarray]):
        """Returns the outputs of the model for a batch, float32; see `BertModel` of the exported class.

        Raises:
            InputError: a row has two texts, but the SavedModel was exported for single texts; or the signature has
                other inputs or outputs than `export.json` describes.
        """
        ids, segments = given[features.INPUT_IDS], given[features.SEGMENT_IDS]
        inputs = {"input_ids": ids, "lengths": given[features.INPUT_MASK].sum(axis=-1).astype(np.int32)}
        if self._takes_segments:
            inputs["segment_ids"] = segments
        elif segments.any():
            raise InputError("This SavedModel takes single texts. Export the model with text_pairs=True for pairs.")
        try:
            found = self._tokens(**{name: self._as_tensor(value) for name, value in inputs.items()})
            found = {name: value.numpy() for name, value in found.items()}
            return self._outputs(found, given)
        except self._errors as error:
            raise InputError(
                f"The signature {_SIGNATURE} of {self._folder} cannot answer as its {EXPORT_FILE} says: "
                f"{' '.join(str(error).split())[:300]}. Export the model again."
            ) from error

    def _outputs(self, found: Mapping[str, np.ndarray], given: Mapping[str, np.ndarray]):
        if "start_logits" in found or "embedding" in found:
            return found.get("embedding", found)
        if "tokens" in found:
            return {"masked_lm_logits": self._masked_lm_logits(found, given[features.MASKED_LM_POSITIONS])}
        if "written" in found:
            texts, scores = (found.get(f"alternative{name}", found[best][:, None]) for name, best in _OF_BEST.items())
            return {"texts": _decoded(texts), "scores": scores}
        if "is_given" in found:
            probabilities = np.clip(found["probabilities"], _SMALLEST, 1 - np.finfo(np.float32).epsneg)
            return np.log(probabilities) - np.log1p(-probabilities)
        if "scores" in found:
            return found["scores"]
        if "score" in found:
            return found["score"][:, None]
        probabilities = found.get("tag_probabilities", found.get("probabilities"))
        return np.log(np.maximum(probabilities, _SMALLEST))

    def _masked_lm_logits(self, found: Mapping[str, np.ndarray], columns: np.ndarray) -> np.ndarray:
        """Returns the logarithms of probabilities of all tokens at `columns`, `[B, P, V]`."""
        tokens, probabilities, positions = (found[name] for name in ("tokens", "probabilities", "positions"))
        num_tokens = len(self._vocabulary)
        rest = np.maximum(1 - probabilities.sum(axis=-1), 0) / max(1, num_tokens - probabilities.shape[-1])
        result = np.zeros((*columns.shape, num_tokens), np.float32)
        for row, number in np.ndindex(*columns.shape):
            (places,) = np.nonzero(positions[row] == columns[row, number])
            if not len(places):
                continue  # a column that only fills up the row
            place = places[0]
            values = result[row, number]
            values[:] = np.log(max(rest[row, place], _SMALLEST))
            ids = [self._vocabulary.ids[token.decode("utf-8")] for token in tokens[row, place]]
            values[ids] = np.log(np.maximum(probabilities[row, place], _SMALLEST))
        return result
