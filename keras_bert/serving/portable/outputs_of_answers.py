"""Turns answers of the signature `tokens` back into outputs of the model, for SavedModels without `raw_outputs`.

Exports of earlier versions lack that signature. The logarithms of their probabilities are logits with the same answers;
those of tokens that a masked-LM model does not propose share the rest of the probability.
"""

from collections.abc import Mapping

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.records import features

_SMALLEST = np.finfo(np.float32).tiny
_decoded = np.frompyfunc(lambda text: text.decode("utf-8", "replace"), 1, 1)
# Ending of the name of all alternatives -> the output with the best one.
_OF_BEST = {"s": "written", "_scores": "score"}


def outputs_of_answers(
    answers: Mapping[str, np.ndarray], given: Mapping[str, np.ndarray], vocabulary, folder: str
) -> np.ndarray | dict[str, np.ndarray]:
    """Returns outputs of the model, float32.

    Args:
        answers: the outputs of the signature.
        given: the features of the batch.
        vocabulary: the tokens of the model.
        folder: the SavedModel.

    Raises:
        InputError: the signature has not the outputs of an exported model.
    """
    try:
        return _outputs(answers, given, vocabulary)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(
            f"The signature tokens of {folder} has not the outputs of an exported model: {error!s:.100}. Export the "
            "model again."
        ) from error


def _outputs(answers: Mapping[str, np.ndarray], given: Mapping[str, np.ndarray], vocabulary):
    if "start_logits" in answers or "embedding" in answers:
        return answers.get("embedding", answers)
    if "tokens" in answers:
        return {"masked_lm_logits": _masked_lm_logits(answers, given[features.MASKED_LM_POSITIONS], vocabulary)}
    if "written" in answers:
        texts, scores = (answers.get(f"alternative{name}", answers[best][:, None]) for name, best in _OF_BEST.items())
        return {"texts": _decoded(texts), "scores": scores}
    if "is_given" in answers:
        probabilities = np.clip(answers["probabilities"], _SMALLEST, 1 - np.finfo(np.float32).epsneg)
        return np.log(probabilities) - np.log1p(-probabilities)
    if "scores" in answers:
        return answers["scores"]
    if "score" in answers:
        return answers["score"][:, None]
    probabilities = answers.get("tag_probabilities", answers.get("probabilities"))
    return np.log(np.maximum(probabilities, _SMALLEST))


def _masked_lm_logits(answers: Mapping[str, np.ndarray], columns: np.ndarray, vocabulary) -> np.ndarray:
    """Returns the logarithms of probabilities of all tokens at `columns`, `[B, P, V]`."""
    tokens, probabilities, positions = (answers[name] for name in ("tokens", "probabilities", "positions"))
    num_tokens = len(vocabulary)
    rest = np.maximum(1 - probabilities.sum(axis=-1), 0) / max(1, num_tokens - probabilities.shape[-1])
    result = np.zeros((*columns.shape, num_tokens), np.float32)
    for row, number in np.ndindex(*columns.shape):
        (places,) = np.nonzero(positions[row] == columns[row, number])
        if not len(places):
            continue  # a column that only fills up the row
        place = places[0]
        values = result[row, number]
        values[:] = np.log(max(rest[row, place], _SMALLEST))
        ids = [vocabulary.ids[token.decode("utf-8")] for token in tokens[row, place]]
        values[ids] = np.log(np.maximum(probabilities[row, place], _SMALLEST))
    return result
