"""Decodes tags under the rules of their scheme: no entity begins with I-, and in BIOES each one ends with E- or S-.

The answer is the allowed sequence with the largest sum of logits, found by Viterbi's algorithm. Of equal sequences, it
is the one with the lowest label at the last word where they differ. Logits are added instead of log-probabilities: the
order of the sequences is the same, and Python and graphs (`graph_tagging.py`) add equal numbers.
"""

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.options import Allowed
from keras_bert.tasks.tagging.tag_schemes import BIO, IOB1, OUTSIDE, TagLabels, TagScheme

# How a tagger chooses the tags of a sentence: the best allowed sequence, or the best tag of each word by itself.
VITERBI, INDEPENDENT = "viterbi", "independent"
DECODING = Allowed(str, choices=(VITERBI, INDEPENDENT))


def allowed_transitions(labels: TagLabels, decoding: str) -> np.ndarray | None:
    """Returns which label may follow which, bool `[L + 1, L + 1]`; None if each word is decoded by itself.

    The last row stands for the beginning of a sentence, and the last column for its end. Raises `InputError` if the L
    labels mark no entities, or if one of them can be in no allowed sequence.
    """
    DECODING.checked("decoding", decoding)
    scheme = labels.scheme
    if decoding == INDEPENDENT:
        return None
    if scheme is None:
        raise InputError(
            "decoding='viterbi' needs labels that mark entities, such as B-PER, I-PER and O. Received: "
            f"{', '.join(labels.labels[:10])}. Give decoding='independent'."
        )
    parts = [name.partition("-")[::2] for name in (*labels.names, OUTSIDE)]
    is_answer = np.array([*labels.is_answer, True])
    allowed = np.array([[_may_follow(left, right, scheme) for right in parts] for left in parts])
    allowed &= is_answer & is_answer[:, None]
    reaches = allowed | np.eye(len(parts), dtype=bool)
    reaches = reaches @ reaches @ reaches  # no label is further from the ends of a sentence
    lost = is_answer & ~(reaches[-1] & reaches[:, -1])
    if lost.any():
        names = ", ".join(np.array([*labels.labels, ""])[lost])
        raise InputError(
            f"In {scheme.name}, no sequence of tags may have {names}: other labels of the same type are missing. Add "
            "them to the labels of the model, or give decoding='independent'."
        )
    return allowed


def _may_follow(left: tuple[str, str], right: tuple[str, str], scheme: TagScheme) -> bool:
    """Returns whether a tag may follow another one; both are pairs of a letter and a type, and O has no type."""
    if scheme in (BIO, IOB1):
        needs_entity = right[0] == ("B" if scheme == IOB1 else "I")
        return not needs_entity or left[1] == right[1]
    is_open, goes_on = left[0] in (scheme.begin, scheme.inside), right[0] in (scheme.inside, scheme.end)
    return is_open == goes_on and (not is_open or left[1] == right[1])


def decode_tags(logits: np.ndarray, word_splits: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
    """Returns the label of each word, int `[W]`, from logits, float64 `[W, L]`, and `allowed_transitions`.

    The words of sentence n are at `word_splits[n]:word_splits[n + 1]`; these are int `[N + 1]`.
    """
    best = logits.argmax(axis=1)
    if allowed is None:
        return best
    edge = [logits.shape[1]]
    for first, end in zip(word_splits[:-1], word_splits[1:], strict=True):
        path = np.concatenate([edge, best[first:end], edge])
        if not allowed[path[:-1], path[1:]].all():  # otherwise the best tags are the best sequence
            best[first:end] = _viterbi(logits[first:end], np.where(allowed, 0, -np.inf))
    return best


def _viterbi(logits: np.ndarray, penalties: np.ndarray) -> list[int]:
    """Returns the labels of a sentence of one word or more; penalties are 0, or -inf for what may not follow."""
    scores, links = logits[0] + penalties[-1, :-1], []
    for of_word in logits[1:]:
        sums = scores[:, None] + penalties[:-1, :-1]
        links.append(sums.argmax(axis=0))
        scores = sums.max(axis=0) + of_word
    path = [int((scores + penalties[:-1, -1]).argmax())]
    for link in reversed(links):
        path.append(int(link[path[-1]]))
    return path[::-1]
