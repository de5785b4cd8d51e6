"""Predicted tags as the lines of a CoNLL file."""

from collections.abc import Iterator, Sequence

from keras_bert.tasks.tagging.examples import TaggedSentences


def conll_lines(sentences: TaggedSentences, predicted: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields the lines of a CoNLL file: a line per word with its tags, and an empty line after each sentence.

    Columns are separated by spaces, as conlleval requires, or by tabs if a word contains a space. If there are several
    documents, each begins with a -DOCSTART- line with the same number of columns.
    """
    separator = "\t" if any(len(word.split()) > 1 for words in sentences.words for word in words) else " "
    tags = [predicted] if sentences.tags is None else [sentences.tags, predicted]
    documents = sentences.documents or [0] * len(sentences)
    previous = -1 if documents[-1] else 0
    for number, words in enumerate(sentences.words):
        if documents[number] != previous:
            yield separator.join(["-DOCSTART-", *["O"] * len(tags)])
            yield ""
            previous = documents[number]
        for columns in zip(words, *(column[number] for column in tags), strict=True):
            yield separator.join(columns)
        yield ""
