"""Leaves out documents of a tokenised text that repeat an earlier one, or that the vocabulary fits badly."""

from typing import Any

import numpy as np

from data_prep.tokenized.tokenized_corpus import SentenceArrays, hash_numbers

# The names of the filters in `TextSettings` and in manifests -> the counts of what they left out.
FILTERS = {
    "max_tokens_per_character": "num_incompressible_documents",
    "drop_near_duplicates": "num_repeated_documents",
}
_TOKENS_IN_A_ROW = 4
# Two documents that share 75 % of all their groups have an equal key with probability 0.77, with 85 % 0.99, with 50 %
# 0.05: 1 - (1 - share ** 8) ** 14. Penedo et al., 2024, arXiv 2406.17557, section 3.4.
NUM_KEYS, _HASHES_PER_KEY = 14, 8
_HASHES = NUM_KEYS * _HASHES_PER_KEY
# A table has this many places: 235 MB for all keys, however long the text is. A later document takes the place of an
# earlier one with the same hash; so of texts with many millions of documents, some repetitions far apart are kept.
_PLACES = 2**22
_GROUPS_AT_ONCE = 4096
_DOCUMENTS_AT_ONCE = 1000


class RepeatedDocuments:
    """Finds documents that nearly equal an earlier one, by MinHash of all groups of four consecutive tokens.

    What is left out depends on the documents and their order only, and memory is bounded.

    Reference: Broder, 1997, "On the resemblance and containment of documents".
    """

    def __init__(self, num_places: int = _PLACES):
        self._table = np.zeros((NUM_KEYS, num_places), np.uint32)

    def is_new(self, keys: np.ndarray) -> np.ndarray:
        """Returns which documents repeat none before them, and remembers these: uint64 `(D, 14)` -> bool `(D,)`."""
        rows = np.arange(NUM_KEYS)
        places = (keys % np.uint64(self._table.shape[1])).astype(np.int64)
        prints = (keys >> np.uint64(32)).astype(np.uint32) | np.uint32(1)  # 0 is an empty place
        is_new = np.ones(len(keys), bool)
        for number, (place, fingerprint) in enumerate(zip(places, prints, strict=True)):
            is_new[number] = not (self._table[rows, place] == fingerprint).any()
            if is_new[number]:
                self._table[rows, place] = fingerprint
        return is_new

    def remember(self, documents: SentenceArrays) -> None:
        """Remembers the documents of a corpus, as if each had just been added."""
        for start in range(0, documents.num_documents, _DOCUMENTS_AT_ONCE):
            offsets = documents.sentence_offsets[documents.document_offsets[start : start + _DOCUMENTS_AT_ONCE + 1]]
            self.is_new(document_keys(documents.tokens[offsets[0] : offsets[-1]], np.diff(offsets)))


def document_keys(tokens: np.ndarray, num_tokens: np.ndarray) -> np.ndarray:
    """Returns the keys of D documents, of which near duplicates have some in common: uint64 `(D, 14)`.

    `tokens` are the ids of all documents, one after the other; `num_tokens`, int `(D,)`, at least 1 for each.
    """
    factors, summands = hash_numbers(np.arange(2 * _HASHES), seed=1).reshape(2, _HASHES) | np.uint64(1)
    smallest = np.empty((len(num_tokens), _HASHES), np.uint64)
    for number, document in enumerate(np.split(tokens, np.cumsum(num_tokens)[:-1]) if len(num_tokens) else ()):
        groups = _groups(document)
        smallest[number] = np.iinfo(np.uint64).max
        for start in range(0, len(groups), _GROUPS_AT_ONCE):
            hashes = (groups[start : start + _GROUPS_AT_ONCE, None] ^ summands) * factors
            np.minimum(smallest[number], hashes.min(axis=0), out=smallest[number])
    keys = np.zeros((len(num_tokens), NUM_KEYS), np.uint64)
    for hashes in smallest.reshape(-1, NUM_KEYS, _HASHES_PER_KEY).transpose(2, 0, 1):
        keys = hash_numbers(keys ^ hashes, seed=0)
    return keys


def _groups(document: np.ndarray) -> np.ndarray:
    """Returns a hash of each group of consecutive tokens: uint64. A shorter document is one group."""
    num_groups = max(1, len(document) - _TOKENS_IN_A_ROW + 1)
    groups = np.zeros(num_groups, np.uint64)
    for offset in range(min(_TOKENS_IN_A_ROW, len(document))):
        groups = hash_numbers(groups ^ document[offset : offset + num_groups].astype(np.uint64), seed=0)
    return groups


def in_effect(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings without filters that leave nothing out, as manifests record them."""
    return {name: value for name, value in settings.items() if value or name not in FILTERS}


def left_out_lines(manifest: dict[str, Any]) -> list[str]:
    """Returns a line for each filter of a corpus: how many documents it left out, and why."""
    reasons = {
        "max_tokens_per_character": f"of more than {manifest.get('max_tokens_per_character')} tokens per character",
        "drop_near_duplicates": "that nearly equal an earlier one",
    }
    return [
        f"left out        {manifest[count]:>15,}   documents {reasons[name]}"
        for name, count in FILTERS.items()
        if count in manifest
    ]
