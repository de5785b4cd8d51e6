"""What lies beside record files and says more about them: a manifest and a vocabulary."""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from keras_bert.program.errors import InputError
from keras_bert.records.manifests import listed_files, read_manifests, real_path, values_of, vocabulary_hashes
from keras_bert.tokenization.kinds import find_vocabulary, load_vocabulary
from keras_bert.tokenization.tokenizer import TokenTable


class Surroundings(NamedTuple):
    """The vocabulary of the records, a line that says where it is, the mask rate that the records were made with, and
    the number of records of each file. What is not known is None or missing.
    """

    vocabulary: TokenTable | None
    note: str
    mask_rate: float | None
    num_records: dict[str, int]


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
    num_records = {
        path: entry["num_records"]
        for manifest_path, manifest in manifests
        for path, entry in listed_files(manifest_path, manifest)
        if isinstance(entry.get("num_records"), int)
    }
    vocabulary, note = _find_vocabulary(folders, hashes, vocab_file)
    return Surroundings(vocabulary, f"vocabulary: {note}", rates.pop() if len(rates) == 1 else None, num_records)


def check_against_manifest(num_read: Mapping[str, int], expected: Mapping[str, int]) -> list[str]:
    """Returns in words which files have another number of records than their manifest says, and which are missing."""
    warnings = [
        f"{path} has {number:,} records, but its manifest says {expected[real_path(path)]:,}"
        for path, number in num_read.items()
        if expected.get(real_path(path), number) != number
    ]
    missing = [path for path in expected if "://" not in path and not os.path.exists(path)]
    if missing:
        warnings.append(f"{len(missing)} of the {len(expected)} files in the manifest are missing: {missing[0]} first")
    return warnings


def _find_vocabulary(folders: Sequence[str], hashes: set[str], vocab_file: str | None) -> tuple[TokenTable | None, str]:
    if vocab_file is not None:
        vocabulary = load_vocabulary(vocab_file)
        differs = hashes and vocabulary.sha256 not in hashes
        return vocabulary, f"{vocab_file}{', which is not the one that the manifest has' if differs else ''}"
    for folder in dict.fromkeys(place for beside in folders for place in (beside, os.path.dirname(beside))):
        try:
            vocabulary = find_vocabulary(folder)
        except InputError:
            continue
        if vocabulary is not None and (not hashes or vocabulary.sha256 in hashes):
            return vocabulary, folder
    return None, "there is none of these records beside them, so ids are shown (--vocab_file names one)"
