"""Text -> tokenised corpus: reads, splits and tokenises once, for several later runs."""

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from data_prep.text.corpus import TextCheck, as_patterns, input_size, list_sources, read_text_chunks, source_size
from data_prep.text.ordered_map import WorkerPool
from data_prep.text.text_chunks import TextChunk
from data_prep.tokenized.corpus_writer import (
    CorpusWriter,
    EncodedChunk,
    TextSource,
    check_same_settings,
    has_corpus,
    is_unfinished,
    open_corpus_writer,
)
from data_prep.tokenized.document_filters import FILTERS, RepeatedDocuments, document_keys
from data_prep.tokenized.tokenized_corpus import TokenizedCorpus
from keras_bert.program.errors import InputError
from keras_bert.program.long_work import progress_bar
from keras_bert.program.options import Options, documented, option
from keras_bert.program.printing import recordable
from keras_bert.tokenization.kinds import as_tokenizer, load_vocabulary
from keras_bert.tokenization.tokenizer import TokenTable
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

# Lines are tokenised in batches of about this many characters, whose intermediate results fit into the cache.
_BATCH_CHARACTERS = 300_000
# For less text, starting a process takes longer than it saves.
_BYTES_PER_PROCESS = 20_000_000

# Function from lines to the concatenated ids of all lines, and the number of ids of each line.
Encoder = Callable[[Sequence[str]], tuple[np.ndarray, np.ndarray]]


@documented
@dataclasses.dataclass(frozen=True)
class TextSettings(Options):
    """How text is read and tokenised."""

    do_lower_case: bool = option(True, "WordPiece: lower-case and strip accents, as for uncased vocabularies.")
    split_sentences: bool = option(False, "Lines are paragraphs: split them into sentences.")
    language: str = option("en", "ISO 639 code of the rules of split_sentences.", needs="split_sentences")
    text_field: str = option("text", "The field with the text, in JSON Lines and tensorflow_datasets.")
    max_tokens_per_character: float | None = option(
        None, "Leave out documents with more, such as tables; 0.3 in Geiping and Goldstein, 2022, section 4.4.", above=0
    )
    drop_near_duplicates: bool = option(
        False, "Leave out documents that share about 75 % of their groups of four tokens with an earlier one (MinHash)."
    )

    def with_tokenizer(self, vocabulary: TokenTable) -> tuple[Any, "TextSettings"]:
        """Returns the tokenizer of a vocabulary, and the settings, with the casing of a WordPiece, else false."""
        tokenizer = as_tokenizer(vocabulary, self.do_lower_case)
        lowers = isinstance(tokenizer, WordPieceTokenizer) and tokenizer.do_lower_case
        return tokenizer, dataclasses.replace(self, do_lower_case=lowers)


def tokenize_text(
    input_file: str | Sequence[str] | None,
    path: str | os.PathLike,
    vocabulary: TokenTable,
    settings: TextSettings | None = None,
    *,
    append: bool = False,
    pool: WorkerPool | None = None,
    show_progress: bool = False,
) -> TokenizedCorpus:
    """Tokenises text into the folder `path`, or opens that folder if it already has a corpus of this text.

    The result does not depend on the number of processes, nor on interruptions: the same call resumes the work.

    Args:
        input_file: as in `text.corpus.read_documents`; None to use an existing corpus, whatever its text.
        vocabulary: a `Vocabulary`, which gets the casing of the settings, or a tokenizer.
        append: whether to add this text to an existing corpus.
        pool: the processes that tokenise large texts; by default the current process.

    Raises:
        InputError: the input has no text, the folder cannot be written to, or the corpus in it was made from other
            text, with another vocabulary or with other settings.
    """
    path = os.fspath(path)
    tokenizer, settings = (settings or TextSettings()).with_tokenizer(vocabulary)
    patterns = as_patterns(input_file)
    if has_corpus(path) and not append:
        corpus = TokenizedCorpus.open(path)
        _check_same_text(corpus, tokenizer, patterns, settings)
        return corpus
    if not patterns:
        raise InputError("Give input_file, the text to read.")
    sizes = {name: source_size(name) for name in list_sources(patterns)}
    source = TextSource(patterns, sizes, dataclasses.asdict(settings))
    if append and not has_corpus(path) and not is_unfinished(path):
        raise InputError(f"There is no tokenised corpus in {path} to add text to.")
    pool = pool or WorkerPool(1)
    num_processes = max(1, min(pool.num_processes, source.num_bytes // _BYTES_PER_PROCESS))
    encode = functools.partial(encode_chunk, folder=path, vocabulary_sha256=tokenizer.sha256, settings=settings)
    with open_corpus_writer(path, tokenizer, source) as writer:
        if num_processes > 1:
            pool.preload("data_prep.tokenized.tokenizer_preload")
        encode_all = functools.partial(pool.map, encode, num_processes=num_processes)
        _add_text(writer, source, settings, encode_all, tokenizer.unk_id, show_progress)
        writer.finish()
    return TokenizedCorpus.open(path)


def _add_text(
    writer: CorpusWriter,
    source: TextSource,
    settings: TextSettings,
    encode_all: Callable[[Iterator[TextChunk]], Iterator[EncodedChunk]],
    unk_id: int,
    show_progress: bool,
) -> None:
    """Adds all chunks of a text that the corpus does not have yet."""
    check = TextCheck(source.input_file)
    repeated = RepeatedDocuments() if settings.drop_near_duplicates else None
    if repeated and (before := writer.documents_before()):
        repeated.remember(before)
    chunks = iter(read_text_chunks(source.input_file, text_field=settings.text_field))
    is_quiet = not show_progress
    with progress_bar(total=source.num_bytes, desc="tokenising", unit="B", unit_scale=True, disable=is_quiet) as bar:
        for chunk in itertools.islice(chunks, writer.num_chunks):
            # The documents of this chunk were counted by the run that tokenised it.
            check.add(chunk.source, 1, chunk.is_last)
            bar.update(chunk.source_bytes)
        bar.initial = bar.n
        for encoded in encode_all(chunks):
            check.add(encoded.source, encoded.num_documents_read, encoded.is_last)
            if repeated:
                encoded = encoded.keep(repeated.is_new(encoded.keys), FILTERS["drop_near_duplicates"], unk_id)
            writer.add(encoded)
            bar.update(encoded.source_bytes)
    check.finish()


def _check_same_text(
    corpus: TokenizedCorpus, vocabulary: TokenTable, patterns: list[str], settings: TextSettings
) -> None:
    if patterns:
        expected = {"input_file": recordable(patterns), "input_bytes": input_size(patterns)}
        expected |= dataclasses.asdict(settings)
    else:
        # Without input_file, the corpus determines the text.
        expected = {"do_lower_case": settings.do_lower_case}
    check_same_settings(corpus.path, corpus.manifest, vocabulary, expected)


def encode_chunk(chunk: TextChunk, folder: str, vocabulary_sha256: str, settings: TextSettings) -> EncodedChunk:
    """Tokenises one chunk of text in any process, with the vocabulary in a folder."""
    tokenizer, encode = _encoder(folder, vocabulary_sha256, settings.do_lower_case)
    return encode_chunk_with(encode, chunk, tokenizer, settings)


def encode_chunk_with(encode: Encoder, chunk: TextChunk, tokenizer: TokenTable, settings: TextSettings) -> EncodedChunk:
    """As `encode_chunk`, with an existing encoder, see `graph_encoder`.

    If the tokens of a word depend on the preceding space, sentences of a document are joined by a space, which belongs
    to the second sentence: the ids are those of the document as one text.
    """
    documents = chunk.documents()
    if settings.split_sentences:
        from data_prep.text.sentences import split_documents

        documents = split_documents(documents, settings.language)
    documents = list(documents)
    joint = " " if tokenizer.keeps_spaces else ""
    lines = [f"{joint}{line}" if number else line for document in documents for number, line in enumerate(document)]
    nothing = (np.zeros(0, np.int32), np.zeros(0, np.int64))
    tokens, lengths = map(np.concatenate, zip(nothing, *map(encode, _batches(lines)), strict=True))
    # Sentences without tokens, and documents without sentences, are left out.
    document_of_line = np.repeat(np.arange(len(documents)), [len(document) for document in documents])
    num_sentences = np.bincount(document_of_line[lengths > 0], minlength=len(documents))
    encoded = EncodedChunk(
        tokens=tokens.astype(np.uint16 if len(tokenizer) <= 2**16 else np.uint32),
        sentence_lengths=lengths[lengths > 0].astype(np.int32),
        document_lengths=num_sentences[num_sentences > 0].astype(np.int32),
        num_unknown_tokens=int(np.count_nonzero(tokens == tokenizer.unk_id)),
        num_dropped_sentences=int(np.count_nonzero(lengths == 0)),
        num_dropped_documents=int(np.count_nonzero(num_sentences == 0)),
        num_documents_read=len(documents),
        source=chunk.source,
        source_bytes=chunk.source_bytes,
        is_last=chunk.is_last,
    )
    num_characters = np.array([sum(map(len, document)) for document in documents], np.int64)[num_sentences > 0]
    if limit := settings.max_tokens_per_character:
        is_kept = encoded.num_tokens() <= limit * num_characters
        encoded = encoded.keep(is_kept, FILTERS["max_tokens_per_character"], tokenizer.unk_id)
    if settings.drop_near_duplicates:
        encoded = dataclasses.replace(encoded, keys=document_keys(encoded.tokens, encoded.num_tokens()))
    return encoded


@functools.lru_cache(maxsize=1)
def _encoder(folder: str, vocabulary_sha256: str, do_lower_case: bool) -> tuple[TokenTable, Encoder]:
    """Makes the encoder, once per process. The hash tells apart two vocabularies of one folder."""
    tokenizer = as_tokenizer(load_vocabulary(folder), do_lower_case)
    return tokenizer, graph_encoder(tokenizer)


def graph_encoder(tokenizer: Any) -> Encoder:
    """Returns an encoder that runs the graph of a tokenizer eagerly.

    For batches of this size that is as fast as a traced graph, and tracing takes as long as tokenising 15 MB.
    """
    import tensorflow as tf

    graph = tokenizer.graph()

    def encode(lines):
        ids = graph.tokenize(tf.constant(lines, tf.string))
        return ids.flat_values.numpy(), ids.row_lengths().numpy()

    return encode


def _batches(lines: list[str]):
    """Cuts lines into batches of about `_BATCH_CHARACTERS`."""
    start, num_characters = 0, 0
    for stop, line in enumerate(lines, start=1):
        num_characters += len(line)
        if num_characters >= _BATCH_CHARACTERS or stop == len(lines):
            yield lines[start:stop]
            start, num_characters = stop, 0
