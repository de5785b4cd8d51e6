"""What lies beside record files and says more about them: a manifest, a vocabulary, the other files of their set."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from keras_bert.errors import InputError
from keras_bert.json_files import parse_json
from keras_bert.tokenization.vocabulary import Vocabulary

_SHARD = re.compile(r"(?P<prefix>.*)-(?P<shard>\d{5,})-of-(?P<num_shards>\d{5,})(?P<suffix>.*)", re.S)


class Surroundings(NamedTuple):
    """The vocabulary of the records, the mask rate they were made with, and the number of records of each file.

    What is not known is None or missing. `notes` says in words what was found.
    """

    vocabulary: Vocabulary | None
    mask_rate: float | None
    num_records: dict[str, int]
    notes: list[str]


def look_around(paths: Sequence[str], vocab_file: str | None = None) -> Surroundings:
    """Reads the manifests beside the records, and finds `vocab.txt` there or in the folder above.

    A vocabulary that is found, and not named by the user, is only used when it is the one whose hash the manifest has.

    Raises:
        InputError: the vocabulary that the user named cannot be read.
    """
    folders = sorted({os.path.dirname(os.path.abspath(path)) for path in paths})
    manifests = {folder: list(_manifests(folder)) for folder in folders}
    found = [manifest for of_folder in manifests.values() for manifest in of_folder]
    hashes = {value for manifest in found for value in _values(manifest, "vocabulary_sha256")}
    rates = {value for manifest in found for value in _values(manifest, "masked_lm_prob")}
    vocabulary, notes = _find_vocabulary(folders, hashes, vocab_file)
    num_records = {
        os.path.join(folder, entry["name"]): entry["num_records"]
        for folder, of_folder in manifests.items()
        for manifest in of_folder
        for entry in manifest.get("files", [])
        if isinstance(entry, dict) and {"name", "num_records"} <= set(entry)
    }
    return Surroundings(vocabulary, rates.pop() if len(rates) == 1 else None, num_records, notes)


def check_against_manifest(num_read: Mapping[str, int], surroundings: Surroundings) -> list[str]:
    """Returns in words which files have another number of records than their manifest says."""
    return [
        f"{path} has {number:,} records, but its manifest says {expected:,}"
        for path, number in num_read.items()
        if (expected := surroundings.num_records.get(os.path.abspath(path), number)) != number
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
) -> tuple[Vocabulary | None, list[str]]:
    if vocab_file is not None:
        vocabulary = Vocabulary.from_file(vocab_file)
        differs = hashes and vocabulary.sha256 not in hashes
        return vocabulary, [
            f"vocabulary: {vocab_file}{', which is not the one that the manifest has' if differs else ''}"
        ]
    places = dict.fromkeys(place for folder in folders for place in (folder, os.path.dirname(folder)))
    for path in (os.path.join(place, "vocab.txt") for place in places):
        if os.path.isfile(path):
            try:
                vocabulary = Vocabulary.from_file(path)
            except InputError:
                continue
            if not hashes or vocabulary.sha256 in hashes:
                return vocabulary, [f"vocabulary: {path}"]
    return None, ["vocabulary: there is none of these records beside them, so ids are shown (--vocab_file names one)"]


def _manifests(folder: str) -> Iterator[dict]:
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.endswith("manifest.json"):
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    manifest = parse_json(file.read(), name)
            except (OSError, InputError):
                continue
            if isinstance(manifest, dict):
                yield manifest


def _values(manifest: Mapping[str, Any], key: str) -> Iterator[Any]:
    """All values that a key has, at any depth."""
    for name, value in manifest.items():
        if name == key:
            yield value
        elif isinstance(value, dict):
            yield from _values(value, key)
