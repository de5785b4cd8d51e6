"""Splits paragraphs into sentences with the library sentencex: rules and lists of abbreviations, without downloads.

It was the best of five libraries (docs/dependencies.md has the numbers).
"""

from collections.abc import Iterable, Iterator

from keras_bert.program.errors import InputError


def split_documents(documents: Iterable[list[str]], language: str = "en") -> Iterator[list[str]]:
    """Yields each document with its paragraphs split into sentences. No sentence extends over two paragraphs.

    Args:
        documents: lists of paragraphs, as `corpus.read_documents` yields them.
        language: ISO 639 code, which selects punctuation and abbreviations.

    Example:
        >>> list(split_documents([["Dr. Fox jumped. He ran.", "The end."]]))
        [['Dr. Fox jumped.', 'He ran.', 'The end.']]
    """
    for document in documents:
        yield [sentence for paragraph in document for sentence in split_sentences(paragraph, language)]


def split_sentences(paragraph: str, language: str = "en") -> list[str]:
    """Returns the stripped sentences of a paragraph, which together have all of its text.

    Raises `InputError` if the library sentencex is not installed.
    """
    try:
        import sentencex
    except ImportError:
        raise InputError(
            "Splitting sentences needs the package sentencex: pip install 'sentencex>=1.0.32,<2'"
        ) from None
    return [sentence for part in sentencex.segment(language, paragraph) if (sentence := part.strip())]
