"""The tokenised corpus: text turned into token ids once, then read from disk as often as needed.

A corpus is a folder:

    tokens.bin             every token id, one behind the other (uint16, or uint32 for larger vocabularies)
    sentence_offsets.bin   int64: sentence i is tokens[offsets[i] : offsets[i + 1]]
    document_offsets.bin   int64: document d has the sentences offsets[d] to offsets[d + 1] - 1
    vocab.txt              the vocabulary it was made with
    manifest.json          counts, number types, hash of the vocabulary, where the text came from

The arrays only ever grow at their end, and the manifest says how much of them counts. They are mapped into memory,
never loaded: any sentence is one index away, and memory does not grow with the text.
"""

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from keras_bert.atomic_output import atomic_folder
from keras_bert.errors import InputError
from keras_bert.tokenization.vocabulary import Vocabulary

FORMAT = "keras_bert tokenised corpus 1"

# Lines are tokenised in batches of about this many characters: large enough for the tokenizer to run at full speed.
_BATCH_CHARACTERS = 1_000_000

# Lines -> the ids of all of them, one behind the other, and the number of ids of each line.
Encoder = Callable[[Sequence[str]], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class TokenizedCorpus:
    """A tokenised corpus on disk, mapped into memory.

    Args:
        tokens: integers, shape (num_tokens,).
        sentence_offsets: int64, shape (num_sentences + 1,). No sentence is empty.
        document_offsets: int64, shape (num_documents + 1,). No document is empty.
        vocabulary: what the ids mean.
        manifest: the contents of `manifest.json`.

    Example:
        >>> corpus = TokenizedCorpus.open("corpus")
        >>> first_sentence = corpus.tokens[corpus.sentence_offsets[0] : corpus.sentence_offsets[1]]
    """

    tokens: np.ndarray
    sentence_offsets: np.ndarray
    document_offsets: np.ndarray
    vocabulary: Vocabulary
    manifest: dict[str, Any]

    @classmethod
    def open(cls, path: str | os.PathLike) -> "TokenizedCorpus":
        """Maps a corpus folder into memory.

        Raises:
            InputError: it is no tokenised corpus, a file is missing or too short, or its vocabulary was changed.
        """
        path = os.fspath(path)
        manifest = _read_manifest(path)
        vocabulary = Vocabulary.from_file(os.path.join(path, "vocab.txt"))
        if vocabulary.sha256 != manifest["vocabulary_sha256"]:
            raise InputError(f"{path}: vocab.txt is not the vocabulary that this corpus was tokenised with. Remake it.")
        return cls(
            tokens=_map(path, "tokens.bin", manifest["token_dtype"], manifest["num_tokens"]),
            sentence_offsets=_map(path, "sentence_offsets.bin", "int64", manifest["num_sentences"] + 1),
            document_offsets=_map(path, "document_offsets.bin", "int64", manifest["num_documents"] + 1),
            vocabulary=vocabulary,
            manifest=manifest,
        )

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def num_sentences(self) -> int:
        return len(self.sentence_offsets) - 1

    @property
    def num_documents(self) -> int:
        return len(self.document_offsets) - 1

    def shard_of_documents(self, num_shards: int, seed: int, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Returns the shard that each document, from number `start` to before `stop`, belongs to: int64.

        It follows from the document's number and the seed alone: more documents change no other's shard.
        """
        numbers = np.arange(start, self.num_documents if stop is None else stop)
        return (_hash(numbers, seed) % np.uint64(num_shards)).astype(np.int64)


def write_tokenized_corpus(
    documents: Iterable[Sequence[str]],
    path: str | os.PathLike,
    vocabulary: Vocabulary,
    encode: Encoder,
    description: dict[str, Any],
) -> TokenizedCorpus:
    """Tokenises documents into a new corpus folder, which appears whole or not at all.

    Sentences that yield no token, and documents that have no other, are left out and counted.

    Args:
        documents: each a sequence of its sentences, one by one.
        encode: turns a batch of sentences into ids (see `graph_encoder`).
        description: what else the manifest is to say: the source of the text and how it was read.

    Raises:
        InputError: there is no text in the documents, or the folder cannot be written to.
    """
    path = os.fspath(path)
    token_dtype = "uint16" if len(vocabulary) <= 2**16 else "uint32"
    counts = {"num_documents": 0, "num_sentences": 0, "num_tokens": 0}
    dropped = {"num_dropped_documents": 0, "num_dropped_sentences": 0, "num_unknown_tokens": 0}
    with atomic_folder(path) as folder:
        with (
            open(os.path.join(folder, "tokens.bin"), "wb") as token_file,
            open(os.path.join(folder, "sentence_offsets.bin"), "wb") as sentence_file,
            open(os.path.join(folder, "document_offsets.bin"), "wb") as document_file,
        ):
            sentence_file.write(np.zeros(1, np.int64).tobytes())
            document_file.write(np.zeros(1, np.int64).tobytes())
            for lines, num_lines in _batches(documents):
                tokens, lengths = encode(lines)
                lengths = np.asarray(lengths, np.int64)
                num_sentences = np.add.reduceat(lengths > 0, np.cumsum(num_lines) - num_lines)
                sentence_file.write((counts["num_tokens"] + np.cumsum(lengths[lengths > 0])).tobytes())
                document_ends = np.cumsum(num_sentences[num_sentences > 0])
                document_file.write((counts["num_sentences"] + document_ends).tobytes())
                token_file.write(np.asarray(tokens).astype(token_dtype).tobytes())
                counts["num_documents"] += len(document_ends)
                counts["num_sentences"] += int(num_sentences.sum())
                counts["num_tokens"] += len(tokens)
                dropped["num_dropped_documents"] += int((num_sentences == 0).sum())
                dropped["num_dropped_sentences"] += int((lengths == 0).sum())
                dropped["num_unknown_tokens"] += int((tokens == vocabulary.unk_id).sum())
        if not counts["num_tokens"]:
            raise InputError("There is no text in the input: not one line yields a token.")
        vocabulary.save(os.path.join(folder, "vocab.txt"))
        manifest = {
            "format": FORMAT,
            **counts,
            **dropped,
            "token_dtype": token_dtype,
            "vocabulary_sha256": vocabulary.sha256,
            **description,
        }
        with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    return TokenizedCorpus.open(path)


def graph_encoder(vocabulary: Vocabulary, do_lower_case: bool) -> Encoder:
    """Returns the encoder that runs the tokenizer as a TensorFlow graph, on all cores."""
    import tensorflow as tf

    from keras_bert.tokenization.graph_wordpiece import GraphTokenizer

    tokenizer = GraphTokenizer(vocabulary, do_lower_case=do_lower_case)

    # Nothing here is for AutoGraph to convert, and looking for it takes two seconds.
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def tokenize(lines):
        ids = tokenizer.tokenize(lines)
        return ids.flat_values, ids.row_lengths()

    def encode(lines):
        ids, lengths = tokenize(tf.constant(lines, tf.string))
        return ids.numpy(), lengths.numpy()

    return encode


def _batches(documents: Iterable[Sequence[str]]) -> Iterator[tuple[list[str], np.ndarray]]:
    """Gathers documents into batches: their lines, and the number of lines of each document."""
    lines, num_lines, num_characters = [], [], 0
    for document in documents:
        if not document:
            continue
        lines.extend(document)
        num_lines.append(len(document))
        num_characters += sum(map(len, document))
        if num_characters >= _BATCH_CHARACTERS:
            yield lines, np.array(num_lines)
            lines, num_lines, num_characters = [], [], 0
    if lines:
        yield lines, np.array(num_lines)


def _read_manifest(path: str) -> dict[str, Any]:
    name = os.path.join(path, "manifest.json")
    try:
        with open(name, encoding="utf-8") as file:
            manifest = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} is no tokenised corpus: it has no manifest.json") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise InputError(f"{name} is damaged: it is not JSON. Make the corpus again.") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else None
        raise InputError(f"{path} is no tokenised corpus of this version: expected {FORMAT!r}, found {found!r}")
    return manifest


def _map(path: str, name: str, dtype: str, length: int) -> np.ndarray:
    """Maps the first `length` numbers of a file; what lies behind them was never finished and does not count."""
    file = os.path.join(path, name)
    size = os.path.getsize(file) if os.path.exists(file) else 0
    if size < length * np.dtype(dtype).itemsize:
        raise InputError(
            f"{file} is cut off: {size} bytes instead of {length * np.dtype(dtype).itemsize}. Make the corpus again."
        )
    return np.memmap(file, dtype, mode="r", shape=(length,)).view(np.ndarray)


def _hash(numbers: np.ndarray, seed: int) -> np.ndarray:
    """SplitMix64 of each number, for a stream that the seed picks: int64 (n,) -> uint64 (n,)."""
    value = numbers.astype(np.uint64) + np.uint64(seed % 2**32) * np.uint64(2**32 + 1)
    value = (value + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
