"""What lies beside record files and says more about them: a manifest, a vocabulary, the other files of their set."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from keras_bert.program.errors import InputError
from keras_bert.records.manifests import listed_files, read_manifests, real_path, values_of, vocabulary_hashes
from keras_bert.tokenization.kinds import find_vocabulary, load_vocabulary
from keras_bert.tokenization.tokenizer import TokenTable

_SHARD = re.compile(r"(?P<prefix>.*)-(?P<shard>\d{5,})-of-(?P<num_shards>\d{5,})(?P<suffix>.*)", re.S)


class Surroundings(NamedTuple):
    """The vocabulary of the records, the mask rate they were made with, and the number of records of each file.

    What is not known is None or missing. `notes` says in words what was found.
    """

    vocabulary: TokenTable | None
    mask_rate: float | None
    num_records: dict[str, int]
    notes: list[str]


def look_around(paths: Sequence[str], vocab_file: str | None = None) -> Surroundings:
    """Reads the manifests beside the records, and finds a vocabulary there or in the folder above.

    A vocabulary that is found, and not named by the user, is only used when it is the one whose hash the manifest has.

    Raises:
        InputError: the vocabulary that the user named cannot be read.
    """
    # A file that is a link has its manifest where it leads to.
    folders = sorted({os.path.dirname(place(path)) for path in paths for place in (os.path.abspath, real_path)})
    manifests = [found for folder in folders for found in read_manifests(folder)]
    hashes = {value for _, manifest in manifests for value in vocabulary_hashes(manifest)}
    rates = {value for _, manifest in manifests for value in values_of(manifest, "masked_lm_prob")}
    rates = {rate for rate in rates if isinstance(rate, int | float) and 0 < rate <= 1}
    vocabulary, notes = _find_vocabulary(folders, hashes, vocab_file)
    num_records = {
        path: entry["num_records"]
        for manifest_path, manifest in manifests
        for path, entry in listed_files(manifest_path, manifest)
        if isinstance(entry.get("num_records"), int)
    }
    return Surroundings(vocabulary, rates.pop() if len(rates) == 1 else None, num_records, notes)


def check_against_manifest(num_read: Mapping[str, int], surroundings: Surroundings) -> list[str]:
    """Returns in words which files have another number of records than their manifest says."""
    return [
        f"{path} has {number:,} records, but its manifest says {expected:,}"
        for path, number in num_read.items()
        if (expected := surroundings.num_records.get(real_path(path), number)) != number
    ]


def missing_shards(paths: Sequence[str]) -> list[str]:
    """Returns in words which sets of files (`a-00000-of-00010` and so on) are not whole where they are."""
    sets: dict[tuple[str, int, str], int] = {}
    for path in paths:
        match = _SHARD.fullmatch(path)
        if match and "://" not in path:  # asking for each file of a remote set would take longer than it is worth
            sets[match["prefix"], int(match["num_shards"]), match["suffix"]] = len(match["num_shards"])
    result = []
    for (prefix, num_shards, suffix), digits in sets.items():
        names = [f"{prefix}-{shard:0{digits}d}-of-{num_shards:0{digits}d}{suffix}" for shard in range(num_shards)]
        missing = [name for name in names if not os.path.exists(name)]
        if missing:
            result.append(f"{len(missing)} of the {num_shards} files of a set are missing, the first is {missing[0]}")
    return result


def _find_vocabulary(
    folders: Sequence[str], hashes: set[str], vocab_file: str | None
) -> tuple[TokenTable | None, list[str]]:
    if vocab_file is not None:
        vocabulary = load_vocabulary(vocab_file)
        differs = hashes and vocabulary.sha256 not in hashes
        return vocabulary, [
            f"vocabulary: {vocab_file}{', which is not the one that the manifest has' if differs else ''}"
        ]
    candidates = dict.fromkeys(place for folder in folders for place in (folder, os.path.dirname(folder)))
    for folder in candidates:
        try:
            vocabulary = find_vocabulary(folder)
        except InputError:
            continue
        if vocabulary is not None and (not hashes or vocabulary.sha256 in hashes):
            return vocabulary, [f"vocabulary: {folder or '.'}"]
    return None, ["vocabulary: there is none of these records beside them, so ids are shown (--vocab_file names one)"]
