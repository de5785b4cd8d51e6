"""Appends to a tokenised corpus, in parts that count only after they are safe on disk.

While text is added, `progress.json` records how far it has come. Whatever stops the work, the next run truncates the
arrays to that point and resumes. `manifest.json`, which readers use, changes only after all text is added.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from data_prep.tokenized.document_filters import FILTERS, in_effect
from data_prep.tokenized.tokenized_corpus import (
    ARRAY_FILES,
    FORMAT,
    LOCK_NAME,
    MANIFEST_NAME,
    PROGRESS_NAME,
    SentenceArrays,
    array_sizes,
    map_arrays,
    read_manifest,
)
from keras_bert.program.atomic_output import check_output_folder, explain_write_errors
from keras_bert.program.errors import InputError
from keras_bert.program.folder_lock import only_writer
from keras_bert.program.json_files import write_json
from keras_bert.program.printing import recordable
from keras_bert.tokenization.tokenizer import Tokenizer, TokenTable

# A part has this many chunks, 64 MB of text: the most that is lost if the work is stopped.
_CHUNKS_PER_PART = 32
_COUNTS_OF_PARTS = ("num_documents", "num_sentences", "num_tokens")


@dataclasses.dataclass(frozen=True)
class EncodedChunk:
    """The token ids of a chunk of text, with the tokens of each sentence and the sentences of each document.

    No sentence and no document is empty: `num_dropped_sentences` and `num_dropped_documents` had no tokens;
    `num_documents_read` includes them. `keys` are the `document_keys` of the documents, if repetitions are left out,
    and `left_out` counts what filters left out. The other attributes are those of the `TextChunk`.
    """

    tokens: np.ndarray
    sentence_lengths: np.ndarray
    document_lengths: np.ndarray
    num_unknown_tokens: int
    num_dropped_sentences: int
    num_dropped_documents: int
    num_documents_read: int
    source: str
    source_bytes: int
    is_last: bool
    keys: np.ndarray | None = None
    left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def keep(self, is_kept: np.ndarray, count: str, unk_id: int) -> "EncodedChunk":
        """Returns the chunk with some of its D documents only: bool `(D,)`. `count` is the count of all others."""
        of_sentences = np.repeat(is_kept, self.document_lengths)
        tokens = self.tokens[np.repeat(of_sentences, self.sentence_lengths)]
        return dataclasses.replace(
            self,
            tokens=tokens,
            sentence_lengths=self.sentence_lengths[of_sentences],
            document_lengths=self.document_lengths[is_kept],
            num_unknown_tokens=int(np.count_nonzero(tokens == unk_id)),
            left_out={**self.left_out, count: int(np.count_nonzero(~is_kept))},
            keys=self.keys if self.keys is None else self.keys[is_kept],
        )

    def num_tokens(self) -> np.ndarray:
        """Returns the number of tokens of each document, int64 `(D,)`."""
        ends = np.cumsum(self.sentence_lengths, dtype=np.int64)[np.cumsum(self.document_lengths) - 1]
        return np.diff(ends, prepend=0)

    def counts(self) -> dict[str, int]:
        return {
            "num_documents": len(self.document_lengths),
            "num_sentences": len(self.sentence_lengths),
            "num_tokens": len(self.tokens),
            "num_dropped_documents": self.num_dropped_documents,
            "num_dropped_sentences": self.num_dropped_sentences,
            "num_unknown_tokens": self.num_unknown_tokens,
            **self.left_out,
        }


class CorpusWriter:
    """Adds chunks of tokens to a corpus folder; `num_chunks` of its text were added. `open_corpus_writer` makes one."""

    def __init__(self, path: str, state: dict[str, Any], sizes: dict[str, int]):
        self._path = path
        self._state = state
        self._sizes = sizes
        self._numbers = {name: number for number, name in enumerate(sizes)}
        self.num_chunks = state["progress"]["num_chunks"]
        is_empty = not state["num_tokens"]
        self._files = {
            name: _GrowingFile(os.path.join(path, name), 0 if is_empty else size)
            for name, size in array_sizes(state).items()
        }
        if is_empty:
            for name in ARRAY_FILES[1:]:
                self._files[name].write(np.zeros(1, np.int64))

    def add(self, chunk: EncodedChunk) -> None:
        """Writes the next chunk of the text."""
        state, progress = self._state, self._state["progress"]
        arrays = (
            chunk.tokens.astype(state["token_dtype"], copy=False),
            state["num_tokens"] + np.cumsum(chunk.sentence_lengths, dtype=np.int64),
            state["num_sentences"] + np.cumsum(chunk.document_lengths, dtype=np.int64),
        )
        for name, array in zip(ARRAY_FILES, arrays, strict=True):
            self._files[name].write(array)
        for name, number in chunk.counts().items():
            state[name] += number
        if self._numbers[chunk.source] == len(progress["begun_sources"]):
            progress["begun_sources"].append((recordable(chunk.source), self._sizes[chunk.source]))
        self.num_chunks += 1
        if self.num_chunks % _CHUNKS_PER_PART == 0:
            self.commit()

    def commit(self) -> None:
        """Writes everything to disk, so that it survives a kill."""
        parts = self._state["parts"]
        part = {name: self._state[name] - sum(before[name] for before in parts) for name in _COUNTS_OF_PARTS}
        if part["num_tokens"]:
            parts.append({**part, "sha256": {name: file.end_part() for name, file in self._files.items()}})
        self._state["progress"]["num_chunks"] = self.num_chunks
        write_json(os.path.join(self._path, PROGRESS_NAME), self._state, indent=1)

    def finish(self) -> None:
        """Makes all added text visible to readers. Raises `InputError` if no token was added."""
        if not self._state["num_tokens"]:
            if left_out := sum(self._state.get(count, 0) for count in FILTERS.values()):
                raise InputError(
                    f"All {left_out} documents of the text are left out. Give other text or a higher "
                    "max_tokens_per_character."
                )
            raise InputError("There is no text in the input: no line has a token. Give text with words.")
        self.commit()
        manifest = {name: value for name, value in self._state.items() if name != "progress"}
        write_json(os.path.join(self._path, MANIFEST_NAME), manifest, indent=1)
        os.remove(os.path.join(self._path, PROGRESS_NAME))

    def documents_before(self) -> SentenceArrays | None:
        """Returns the documents that the corpus had when the writer was opened, or None if it had none."""
        return map_arrays(self._path, self._state) if self._state["num_tokens"] else None

    def close(self) -> None:
        for file in self._files.values():
            file.close()


@dataclasses.dataclass(frozen=True)
class TextSource:
    """The text that is added to a corpus.

    `input_file` are names and patterns, as the user gave them; `sizes` the bytes on disk of each source, in reading
    order. `recorded_names` and `recorded_sizes` are the same for manifests: without secrets of URLs, which may differ
    when a run is resumed. All text of a corpus has the same `settings`.
    """

    input_file: list[str]
    sizes: dict[str, int]
    settings: dict[str, Any]

    @property
    def num_bytes(self) -> int:
        return sum(self.sizes.values())

    @property
    def recorded_names(self) -> list[str]:
        return recordable(self.input_file)

    @property
    def recorded_sizes(self) -> list[tuple[str, int]]:
        return [(recordable(name), size) for name, size in self.sizes.items()]


@contextlib.contextmanager
def open_corpus_writer(path: str, tokenizer: Tokenizer, source: TextSource) -> Iterator[CorpusWriter]:
    """Opens a corpus folder for writing: a new one, an unfinished one, or a finished one, to which text is added.

    Raises `InputError` if the folder contains something else, was made with other settings or from other text, is in
    use by another process, or cannot be written to.
    """
    is_new = not has_corpus(path) and not is_unfinished(path)
    # A process killed at its start may leave a lock file.
    if is_new and not (os.path.isdir(path) and os.listdir(path) == [LOCK_NAME]):
        check_output_folder(path)
    with contextlib.ExitStack() as stack:
        stack.enter_context(explain_write_errors(path))
        os.makedirs(path, exist_ok=True)
        stack.enter_context(only_writer(os.path.join(path, LOCK_NAME)))
        if is_unfinished(path):
            state = _resume(path, tokenizer, source)
        elif has_corpus(path):
            state = _append(path, tokenizer, source)
        else:
            state = {**empty_manifest(tokenizer, source), "progress": _no_progress(source.recorded_names)}
            write_json(os.path.join(path, PROGRESS_NAME), state, indent=1)
        if not has_corpus(path):
            tokenizer.save(path)
        writer = CorpusWriter(path, state, source.sizes)
        stack.callback(writer.close)
        try:
            yield writer
        except BaseException:
            if not has_corpus(path) and not state["parts"]:
                shutil.rmtree(path)  # no part was finished
            raise


def has_corpus(path: str) -> bool:
    """Returns whether there is a readable corpus."""
    return os.path.exists(os.path.join(path, MANIFEST_NAME))


def is_unfinished(path: str) -> bool:
    """Returns whether a run that made or extended a corpus was stopped. The same call resumes it."""
    return os.path.exists(os.path.join(path, PROGRESS_NAME))


def check_same_settings(path: str, manifest: dict[str, Any], vocabulary: TokenTable, settings: dict[str, Any]) -> None:
    """Raises `InputError` if a corpus was made with another vocabulary or other settings."""
    if manifest["vocabulary_sha256"] != vocabulary.sha256:
        raise InputError(f"{path} was tokenised with another vocabulary. Use that one, or name another folder.")
    for name, value in settings.items():
        found = manifest.get(name) if name in FILTERS else manifest[name]
        if (found or value) and found != value:
            raise InputError(
                f"{path} was made with {name}={found!r}, not {value!r}. Use the same, or name another folder."
            )


def empty_manifest(vocabulary: TokenTable, source: TextSource) -> dict[str, Any]:
    """Returns the manifest of a new, empty corpus for this text."""
    return {
        "format": FORMAT,
        **dict.fromkeys(_COUNTS_OF_PARTS, 0),
        **dict.fromkeys(("num_dropped_documents", "num_dropped_sentences", "num_unknown_tokens"), 0),
        **{count: 0 for name, count in FILTERS.items() if source.settings.get(name)},
        "token_dtype": "uint16" if len(vocabulary) <= 2**16 else "uint32",
        "vocabulary_sha256": vocabulary.sha256,
        "input_file": source.recorded_names,
        "input_bytes": source.num_bytes,
        **in_effect(source.settings),
        "parts": [],
    }


def _append(path: str, vocabulary: TokenTable, source: TextSource) -> dict[str, Any]:
    state = read_manifest(path)
    check_same_settings(path, state, vocabulary, source.settings)
    known = set(state["input_file"]) & set(source.recorded_names)
    if known:
        raise InputError(f"{path} already has the text of {min(known)}. Leave it out of input_file.")
    state["input_file"] = state["input_file"] + source.recorded_names
    state["input_bytes"] += source.num_bytes
    state["progress"] = _no_progress(source.recorded_names)
    return state


def _resume(path: str, vocabulary: TokenTable, source: TextSource) -> dict[str, Any]:
    with open(os.path.join(path, PROGRESS_NAME), encoding="utf-8") as file:
        state = json.load(file)
    check_same_settings(path, state, vocabulary, source.settings)
    progress = state["progress"]
    if progress["input_file"] != source.recorded_names:
        raise InputError(
            f"{path} is not finished: reading input_file={progress['input_file']!r} was stopped. Give the same "
            "input_file to resume, or remove the folder."
        )
    # Files that were not reached may have been repaired since; the others must be unchanged.
    begun = [tuple(read) for read in progress["begun_sources"]]
    if begun != source.recorded_sizes[: len(begun)]:
        changed = next((read[0] for read in begun if read not in source.recorded_sizes), begun[0][0])
        raise InputError(f"{changed} has changed since {path} was begun. Remove {path} and start again.")
    return state


def _no_progress(input_file: list[str]) -> dict[str, Any]:
    return {"input_file": input_file, "begun_sources": [], "num_chunks": 0}


class _GrowingFile:
    """A file of numbers that grows at its end, with a hash for each part."""

    def __init__(self, path: str, size: int):
        self._file = open(path, "r+b" if os.path.exists(path) else "w+b")  # noqa: SIM115 - closed by `close`
        if os.path.getsize(path) < size:
            raise InputError(f"{path} is cut off: {os.path.getsize(path)} bytes instead of {size}. Remove its folder.")
        # The bytes after `size` belong to an unfinished part.
        self._file.truncate(size)
        self._file.seek(size)
        self._hash = hashlib.sha256()

    def write(self, numbers: np.ndarray) -> None:
        data = numbers.tobytes()
        self._file.write(data)
        self._hash.update(data)

    def end_part(self) -> str:
        """Writes the part to disk and returns the hash of its bytes."""
        self._file.flush()
        os.fsync(self._file.fileno())
        digest, self._hash = self._hash.hexdigest(), hashlib.sha256()
        return digest

    def close(self) -> None:
        # Buffered numbers do not count, and cannot be written if the disk is full.
        with contextlib.suppress(OSError):
            self._file.close()
