"""Reads pairs of a query and a document that answers it, and the corpus in which the document must be found."""

import os
from collections.abc import Sequence

from data_prep.finetuning.beir_folder import BeirFolder
from data_prep.finetuning.tables import Column, read_rows
from keras_bert.program.errors import InputError


def read_search_pairs(
    path: str | os.PathLike,
    columns: Sequence[Column] = ("query", "document"),
    *,
    corpus_files: Sequence[str | os.PathLike] = (),
    has_header: bool = True,
) -> BeirFolder:
    """Reads a table of pairs as a judged collection, whose corpus is the documents of this table and of others.

    The texts are their own ids, so equal documents are one, and a query has all documents of its rows.

    Args:
        path: the table of pairs, see `tables.read_rows`.
        columns: those of the query and of the document, by name or number from 0.
        corpus_files: further tables with the column of the document.
        has_header: whether the first line of `.tsv` and `.csv` files has the names of the columns.

    Raises:
        InputError: there are not two columns or no pairs, a file cannot be read, or a text is missing.
    """
    if len(columns) != 2:
        raise InputError(f"Pairs have two columns: query and document. Received: {', '.join(map(str, columns))}")
    query_column, document_column = columns
    corpus: dict[str, str] = {}
    relevant: dict[str, set[str]] = {}
    for row in read_rows(os.fspath(path), has_header=has_header):
        query, document = row.text(query_column, "query"), row.text(document_column, "document")
        corpus[document] = document
        relevant.setdefault(query, set()).add(document)
    for file in corpus_files:
        texts = (row.text(document_column, "document") for row in read_rows(os.fspath(file), has_header=has_header))
        corpus.update((text, text) for text in texts)
    if not relevant:
        raise InputError(f"{os.fspath(path)} has no pairs, so nothing can be found.")
    return BeirFolder(corpus, {query: query for query in relevant}, relevant)
