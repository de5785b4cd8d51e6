"""Text -> tokenised corpus, once: the reading, splitting and tokenising that several runs can share."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from tqdm import tqdm

from data_prep.corpus import input_size, read_documents
from data_prep.tokenized_corpus import TokenizedCorpus, graph_encoder, write_tokenized_corpus
from keras_bert.atomic_output import check_output_folder
from keras_bert.errors import InputError
from keras_bert.tokenization.vocabulary import Vocabulary


def tokenize_text(
    input_file: str | Sequence[str] | None,
    path: str | os.PathLike,
    vocabulary: Vocabulary,
    *,
    do_lower_case: bool = True,
    split_sentences: bool = False,
    language: str = "en",
    text_field: str = "text",
    show_progress: bool = False,
) -> TokenizedCorpus:
    """Tokenises text into the folder `path`, or opens that folder when it already holds a corpus of this text.

    Args:
        input_file: what `data_prep.corpus.read_documents` takes; None to use a corpus that exists, whatever its text.
        split_sentences: the lines are paragraphs, to be split by the rules of `language`.

    Raises:
        InputError: the input has no text, the folder cannot be written to, or the corpus in it was made from other
            text, with another vocabulary or in another way.
    """
    path = os.fspath(path)
    patterns = [input_file] if isinstance(input_file, str) else list(input_file or ())
    source = {
        "input_file": patterns,
        "input_bytes": input_size(patterns) if patterns else None,
        "do_lower_case": do_lower_case,
        "split_sentences": split_sentences,
        "language": language,
        "text_field": text_field,
    }
    if os.path.exists(os.path.join(path, "manifest.json")):
        corpus = TokenizedCorpus.open(path)
        _check_same(corpus, path, vocabulary, source)
        return corpus
    check_output_folder(path)
    if not patterns:
        raise InputError("Give input_file, the text to read.")
    with _reading(source, show_progress) as documents:
        return write_tokenized_corpus(documents, path, vocabulary, graph_encoder(vocabulary, do_lower_case), source)


def _check_same(corpus: TokenizedCorpus, path: str, vocabulary: Vocabulary, source: dict[str, Any]) -> None:
    if corpus.vocabulary.sha256 != vocabulary.sha256:
        raise InputError(f"{path} was tokenised with another vocabulary. Use that one, or name another folder.")
    for name, value in source.items():
        # Without input_file, the corpus alone says what the text is.
        if corpus.manifest[name] != value and (name == "do_lower_case" or source["input_file"]):
            raise InputError(
                f"{path} was made with {name}={corpus.manifest[name]!r}, not {value!r}. Use the same, or name another "
                "folder."
            )


@contextlib.contextmanager
def _reading(source: dict[str, Any], show_progress: bool) -> Iterator[Iterator[list[str]]]:
    """Yields the documents as lists of sentences, under a progress bar in bytes."""
    with tqdm(
        total=source["input_bytes"], desc="tokenising", unit="B", unit_scale=True, disable=not show_progress
    ) as bar:
        documents = read_documents(source["input_file"], text_field=source["text_field"], on_progress=bar.update)
        if source["split_sentences"]:
            from data_prep.sentences import split_documents

            documents = split_documents(documents, source["language"])
        yield documents
