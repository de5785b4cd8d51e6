"""Reads pairs of a query and a document that answers it, and the corpus in which the document must be found."""

import os
from collections.abc import Sequence

from data_prep.finetuning.beir_folder import BeirFolder
from data_prep.finetuning.tables import Column, column_names, read_rows
from keras_bert.program.errors import InputError


def read_search_pairs(
    path: str | os.PathLike,
    columns: Sequence[Column] | None = None,
    *,
    corpus_files: Sequence[str | os.PathLike] = (),
    has_header: bool = True,
) -> BeirFolder:
    """Reads a table of pairs as a judged collection, whose corpus is the documents of this table and of others.

    The texts are their own ids, so equal documents are one, and a query has all documents of its rows.

    Args:
        path: the table of pairs, see `tables.read_rows`.
        columns: those of the query and of the document, by name or number from 0; maybe also that of wrong documents,
            which belong to the corpus. A column may have lists of documents. By default "query" and "document", or
            FlagEmbedding's "query", "pos" and "neg".
        corpus_files: further tables with the column of the document.
        has_header: whether the first line of `.tsv` and `.csv` files has the names of the columns.

    Raises:
        InputError: there are not two or three columns or no pairs, a file cannot be read, or a text is missing.
    """
    if columns is None:
        names = column_names(os.fspath(path), has_header=has_header)
        columns = ("query", "document")
        if "document" not in names and "pos" in names:
            columns = ("query", *(name for name in ("pos", "neg") if name in names))
    if len(columns) not in (2, 3):
        raise InputError(f"Pairs have two columns: query and document. Received: {', '.join(map(str, columns))}")
    query_column, document_column, *wrong_columns = columns
    corpus: dict[str, str] = {}
    relevant: dict[str, set[str]] = {}
    for row in read_rows(os.fspath(path), has_header=has_header):
        query, documents = row.text(query_column, "query"), row.texts([document_column], "document")
        relevant.setdefault(query, set()).update(documents)
        wrong_columns_filled = [column for column in wrong_columns if row.value(column, "document") != []]
        documents += [text for column in wrong_columns_filled for text in row.texts([column], "document")]
        corpus.update((text, text) for text in documents)
    for file in corpus_files:
        for row in read_rows(os.fspath(file), has_header=has_header):
            corpus.update((text, text) for text in row.texts([document_column], "document"))
    if not any(relevant.values()):
        raise InputError(f"{os.fspath(path)} has no pairs, so nothing can be found.")
    return BeirFolder(corpus, {query: query for query in relevant}, relevant)
