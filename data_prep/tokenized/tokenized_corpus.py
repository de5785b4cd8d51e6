"""The tokenised corpus: text is converted to token ids once, and then read from disk as often as needed.

A corpus is a folder:

    tokens.bin             all token ids, concatenated (uint16, or uint32 for larger vocabularies)
    sentence_offsets.bin   int64: sentence i is tokens[offsets[i] : offsets[i + 1]]
    document_offsets.bin   int64: document d has the sentences offsets[d] to offsets[d + 1] - 1
    vocab.txt              the vocabulary of the ids; for byte-level BPE vocab.json and merges.txt
    manifest.json          counts, dtypes, the source of the text, hashes of the vocabulary and of the parts
    progress.json          only while text is being added, or if that was stopped: see `corpus_writer`

The arrays only grow at their end, part by part, and the manifest has their valid lengths. They are memory-mapped, never
loaded: any sentence can be accessed directly, and memory does not grow with the text.
"""

import dataclasses
import hashlib
import os
from typing import Any

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.json_files import read_json
from keras_bert.tokenization.kinds import load_vocabulary
from keras_bert.tokenization.tokenizer import TokenTable

FORMAT = "keras_bert tokenised corpus 3"
MANIFEST_NAME = "manifest.json"
PROGRESS_NAME = "progress.json"
LOCK_NAME = ".lock"
ARRAY_FILES = ("tokens.bin", "sentence_offsets.bin", "document_offsets.bin")

_OFFSETS_AT_ONCE = 1_000_000


@dataclasses.dataclass(frozen=True)
class SentenceArrays:
    """Documents of sentences as three arrays.

    Args:
        tokens: uint16 or uint32, shape (num_tokens,).
        sentence_offsets: int64, shape (num_sentences + 1,), starting with 0: sentence i is
            `tokens[offsets[i] : offsets[i + 1]]`. No sentence is empty.
        document_offsets: int64, shape (num_documents + 1,), starting with 0: document d has the sentences `offsets[d]`
            to `offsets[d + 1] - 1`, at least one.
    """

    tokens: np.ndarray
    sentence_offsets: np.ndarray
    document_offsets: np.ndarray

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def num_sentences(self) -> int:
        return len(self.sentence_offsets) - 1

    @property
    def num_documents(self) -> int:
        return len(self.document_offsets) - 1

    def by_file(self) -> dict[str, np.ndarray]:
        """Returns the arrays by the names of their files."""
        return dict(zip(ARRAY_FILES, (self.tokens, self.sentence_offsets, self.document_offsets), strict=True))


@dataclasses.dataclass(frozen=True)
class TokenizedCorpus(SentenceArrays):
    """A tokenised corpus on disk, mapped into memory, with the vocabulary of its ids and its `manifest.json`."""

    vocabulary: TokenTable
    manifest: dict[str, Any]
    path: str

    @classmethod
    def open(cls, path: str | os.PathLike) -> "TokenizedCorpus":
        """Maps a corpus folder into memory.

        Raises `InputError` if it is no tokenised corpus, a file is missing or too short, or its vocabulary was changed.
        """
        path = os.fspath(path)
        manifest = read_manifest(path)
        vocabulary = load_vocabulary(path)
        if vocabulary.sha256 != manifest["vocabulary_sha256"]:
            raise InputError(
                f"{path}: its vocabulary was changed after this corpus was tokenised. Make the corpus again."
            )
        return cls(**vars(map_arrays(path, manifest)), vocabulary=vocabulary, manifest=manifest, path=path)

    def shard_of_documents(self, num_shards: int, seed: int, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Returns the shard of each document from `start` to `stop`: int64 (stop - start,).

        It depends on the document's number and the seed only, so additional documents do not move the others.
        """
        return shard_of_documents(np.arange(start, self.num_documents if stop is None else stop), num_shards, seed)

    def check_offsets(self) -> None:
        """Raises `InputError` unless the offsets cut all tokens into sentences, and all sentences into documents."""
        ends = (self.num_tokens, self.num_sentences)
        for name, end in zip(ARRAY_FILES[1:], ends, strict=True):
            offsets = self.by_file()[name]
            is_right = offsets[0] == 0 and offsets[-1] == end
            for start in range(0, len(offsets), _OFFSETS_AT_ONCE):
                part = offsets[start : start + _OFFSETS_AT_ONCE + 1]
                is_right = is_right and bool((part[1:] > part[:-1]).all())
            if not is_right:
                raise InputError(
                    f"{os.path.join(self.path, name)} is damaged: its offsets do not rise from 0 to {end}. Make the "
                    "corpus again."
                )

    def verify(self) -> None:
        """Reads every byte. Raises `InputError` if a part differs from what was written."""
        starts = dict.fromkeys(ARRAY_FILES, 0)
        arrays = self.by_file()
        for number, part in enumerate(self.manifest["parts"]):
            sizes = array_sizes({**part, "token_dtype": self.manifest["token_dtype"]}, is_first=number == 0)
            for name, size in sizes.items():
                data = arrays[name].view(np.uint8)[starts[name] : starts[name] + size]
                if hashlib.sha256(data).hexdigest() != part["sha256"][name]:
                    raise InputError(
                        f"{os.path.join(self.path, name)} is damaged: part {number + 1} of "
                        f"{len(self.manifest['parts'])} (bytes {starts[name]:,} to {starts[name] + size:,}) differs "
                        "from what was written. Make the corpus again."
                    )
                starts[name] += size


def array_sizes(manifest: dict[str, Any], is_first: bool = True) -> dict[str, int]:
    """Returns the size in bytes of each array's file. Offsets have a leading 0 in the first part only."""
    return {name: length * dtype.itemsize for name, (dtype, length) in _array_types(manifest, is_first).items()}


def _array_types(manifest: dict[str, Any], is_first: bool = True) -> dict[str, tuple[np.dtype, int]]:
    """Returns the dtype and the length of each array by the name of its file."""
    offset = np.dtype(np.int64)
    types = (
        (np.dtype(manifest["token_dtype"]), manifest["num_tokens"]),
        (offset, manifest["num_sentences"] + is_first),
        (offset, manifest["num_documents"] + is_first),
    )
    return dict(zip(ARRAY_FILES, types, strict=True))


def read_manifest(path: str) -> dict[str, Any]:
    """Returns the content of `manifest.json`. Raises `InputError` if it is missing, damaged or of another format."""
    name = os.path.join(path, MANIFEST_NAME)
    if not os.path.exists(name):
        if os.path.exists(os.path.join(path, PROGRESS_NAME)):
            raise InputError(f"{path} is not finished. Run the command that made it again to resume.")
        raise InputError(f"{path} is not a tokenised corpus: it has no manifest.json.")
    try:
        manifest = read_json(name)
    except InputError:
        raise InputError(f"{name} is damaged: it is not JSON. Make the corpus again.") from None
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if found != FORMAT:
        raise InputError(
            f"{path} is not a tokenised corpus of this version: expected {FORMAT!r}, found {found!r}. Make it again "
            "with tokenize_corpus."
        )
    for count in ("num_tokens", "num_sentences", "num_documents"):
        if type(manifest.get(count)) is not int or manifest[count] < 0:
            raise InputError(
                f"{name} is damaged: {count} is {manifest.get(count)!r}, not a count. Make the corpus again."
            )
    if manifest.get("token_dtype") not in ("uint16", "uint32"):
        raise InputError(
            f"{name} is damaged: token_dtype is {manifest.get('token_dtype')!r}, not uint16 or uint32. Make the corpus "
            "again."
        )
    return manifest


def map_arrays(path: str, manifest: dict[str, Any]) -> SentenceArrays:
    """Maps the arrays of a corpus into memory. Raises `InputError` if a file is missing or too short."""
    return SentenceArrays(*(_map(os.path.join(path, name), *of) for name, of in _array_types(manifest).items()))


def _map(file: str, dtype: np.dtype, length: int) -> np.ndarray:
    """Maps the first `length` numbers of a file. Numbers after them belong to an unfinished part."""
    size, needed = os.path.getsize(file) if os.path.exists(file) else 0, length * dtype.itemsize
    if size < needed:
        raise InputError(f"{file} is cut off: {size} bytes instead of {needed}. Make the corpus again.")
    return np.memmap(file, dtype, mode="r", shape=(length,)).view(np.ndarray)


def shard_of_documents(numbers: np.ndarray, num_shards: int, seed: int) -> np.ndarray:
    """Returns the shards of documents with these numbers: int64 (n,) -> int64 (n,)."""
    return (hash_numbers(numbers, seed) % np.uint64(num_shards)).astype(np.int64)


def hash_numbers(numbers: np.ndarray, seed: int) -> np.ndarray:
    """Returns SplitMix64 of each number, in a stream that the seed selects: an integer array -> uint64, same shape."""
    value = numbers.astype(np.uint64) + np.uint64(seed % 2**32) * np.uint64(2**32 + 1)
    value = (value + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
