"""Running text as one stream of tokens on disk, read through a memory map.

A stream is a folder:

    tokens.bin          all token ids (uint16, or uint32 for larger vocabularies)
    stream_vocab.json   the vocabulary of the ids
    manifest.json       the format, the number of tokens, their dtype, hashes, and the files of the text

For batches of B rows the stream is cut into B parts of equal length. Row r of each batch continues row r of the batch
before, so a model can remember what it has read.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from keras_bert.program.atomic_output import atomic_folder
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import member, read_json_object
from keras_bert.program.options import check_whole
from keras_bert.program.printing import recordable
from keras_bert.records import features
from keras_bert.tokenization.stream_vocabulary import StreamVocabulary

FORMAT = "keras_bert token stream 2"
MANIFEST_FILE, TOKENS_FILE = "manifest.json", "tokens.bin"


@dataclasses.dataclass(frozen=True)
class TokenStream:
    """A stream on disk, mapped into memory.

    Attributes:
        tokens: integers `(num_tokens,)`.
        vocabulary: their vocabulary.
        sha256: hash of the vocabulary and the tokens.
        path: the folder.
    """

    tokens: np.ndarray
    vocabulary: StreamVocabulary
    sha256: str
    path: str

    @classmethod
    def open(cls, path: str | os.PathLike) -> "TokenStream":
        """Maps a folder into memory. Raises `InputError` if it holds no stream, or if its files do not fit together."""
        path = os.fspath(path)
        file, tokens_file = os.path.join(path, MANIFEST_FILE), os.path.join(path, TOKENS_FILE)
        values = read_json_object(file) if os.path.isfile(file) else {}
        if values.get("format") != FORMAT:
            raise InputError(
                f"{path} is not a token stream of this version. Make one with data_prep.create_language_model_data. "
                "Records of create_pretraining_data are shuffled, so no memory can pass from one to the next."
            )
        dtype, num_tokens = member(values, "token_dtype", str, file, ""), member(values, "num_tokens", int, file, -1)
        vocabulary = StreamVocabulary.find(path)
        size = os.path.getsize(tokens_file) if os.path.isfile(tokens_file) else 0
        if vocabulary is None or vocabulary.sha256 != values.get("vocabulary_sha256"):
            raise InputError(f"{path}: the vocabulary is missing or was changed. Make the stream again.")
        if dtype not in ("uint16", "uint32") or num_tokens < 1 or size != num_tokens * np.dtype(dtype).itemsize:
            raise InputError(
                f"{path} is damaged: {TOKENS_FILE} has {size:,} bytes, but {MANIFEST_FILE} says {num_tokens:,} tokens "
                f"of {dtype or 'no dtype'}. Make the stream again."
            )
        tokens = np.memmap(tokens_file, dtype, mode="r")
        if (largest := int(tokens.max())) >= len(vocabulary):
            raise InputError(
                f"{path} is damaged: {TOKENS_FILE} has the id {largest}, but the vocabulary has {len(vocabulary)} "
                "tokens. Make the stream again."
            )
        return cls(tokens, vocabulary, member(values, "sha256", str, file, ""), path)

    def tokens_per_row(self, batch_size: int, length: int) -> int:
        """Returns how many tokens each row of a batch reads before it begins again.

        Raises:
            InputError: this is less than one segment of `length` tokens, or a number is below 1.
        """
        check_whole("batch_size", batch_size, at_least=1)
        check_whole("length", length, at_least=1)
        count = (len(self.tokens) - 1) // batch_size
        if count < length:
            raise InputError(
                f"{self.path} has {len(self.tokens):,} tokens, too few for {batch_size} rows with segments of {length} "
                f"and the token that follows: {batch_size * length + 1:,}. Use smaller batches or more text."
            )
        return count

    def segments(self, batch_size: int, length: int) -> Iterator[dict[str, np.ndarray]]:
        """Yields the batches of one pass; the last one has shorter segments if needed. For evaluation."""
        per_row = self.tokens_per_row(batch_size, length)
        for first in range(0, per_row, length):
            yield self._batch(batch_size, per_row, first, min(length, per_row - first))

    def dataset(self, batch_size: int, length: int, start_step: int = 0) -> Any:
        """Returns the endless batches of training from a step on, a `tf.data.Dataset`.

        Each pass leaves out the tokens behind the last whole segment of each row. It begins with an empty memory:
        `stream_row`, int `[B, 1]`, is the number of the segment in the pass.
        """
        import tensorflow as tf

        per_row = self.tokens_per_row(batch_size, length)
        steps_per_pass = per_row // length
        names = (features.INPUT_IDS, features.TARGET_IDS, features.STREAM_ROW)

        def read(step):
            batch = self._batch(batch_size, per_row, int(step) % steps_per_pass * length, length)
            return [batch[name] for name in names]

        def make(step):
            values = tf.numpy_function(read, [step], [tf.int32] * len(names))
            for value, shape in zip(values, [(batch_size, length)] * 2 + [(batch_size, 1)], strict=True):
                value.set_shape(shape)
            return dict(zip(names, values, strict=True))

        return tf.data.Dataset.range(start_step, np.iinfo(np.int64).max).map(make).prefetch(2)

    def _batch(self, batch_size: int, per_row: int, first: int, length: int) -> dict[str, np.ndarray]:
        starts = np.arange(batch_size)[:, None] * per_row + first
        tokens = self.tokens[starts + np.arange(length + 1)].astype(np.int32)
        return {
            features.INPUT_IDS: tokens[:, :-1],
            features.TARGET_IDS: tokens[:, 1:],
            features.STREAM_ROW: np.full((batch_size, 1), first // length, np.int32),
        }


def write_stream(
    path: str | os.PathLike, lines: Iterable[str], vocabulary: StreamVocabulary, sources: Sequence[str]
) -> dict[str, Any]:
    """Writes the stream of a text into a new or empty folder, atomically, and returns its manifest.

    `lines` are those of the text with their ends, and `sources` the names of its files, for the manifest.

    Raises:
        InputError: there is no text, or the folder cannot be written.
    """
    dtype = np.dtype("uint16" if len(vocabulary) <= 1 << 16 else "uint32")
    digest, num_tokens, num_unknown = hashlib.sha256(vocabulary.sha256.encode()), 0, 0
    unknown = vocabulary.unk_id
    with atomic_folder(path) as folder:
        with open(os.path.join(folder, TOKENS_FILE), "wb") as file:
            for line in lines:
                ids = vocabulary.encode(line)
                data = np.asarray(ids, dtype).tobytes()
                file.write(data)
                digest.update(data)
                num_tokens += len(ids)
                num_unknown += ids.count(unknown)
        if not num_tokens:
            raise InputError(f"There is no text in {', '.join(sources)}.")
        manifest = {
            "format": FORMAT,
            "num_tokens": num_tokens,
            "num_unknown": num_unknown,
            "token_dtype": dtype.name,
            "vocabulary_sha256": vocabulary.sha256,
            "sha256": digest.hexdigest(),
            "sources": recordable(sources),
        }
        vocabulary.save(folder)
        with open(os.path.join(folder, MANIFEST_FILE), "w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=2)
    return manifest
