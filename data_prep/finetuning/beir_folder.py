"""Reads collections for search in the form of BEIR: documents, queries, and which documents are relevant."""

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from data_prep.finetuning.tables import Row, read_rows
from keras_bert.program.errors import InputError

_QRELS_COLUMNS = ("query-id", "corpus-id", "score")


class BeirFolder(NamedTuple):
    """A collection, in the order of the arguments of `evaluate_search`.

    Attributes:
        corpus: the id of each document -> its title and its text, with one blank between.
        queries: the id of each query -> its text.
        relevant: the id of each judged query -> the ids of the documents with a score of 1 or more; maybe none.
    """

    corpus: dict[str, str]
    queries: dict[str, str]
    relevant: dict[str, set[str]]


def read_beir_folder(path: str | os.PathLike, split: str = "test") -> BeirFolder:
    """Reads `corpus.jsonl` (`_id`, `title`, `text`), `queries.jsonl` (`_id`, `text`) and `qrels/SPLIT.tsv`.

    The last has a header line, `query-id`, `corpus-id` and `score` with tabs between, and whole numbers as scores. If
    it judges a pair twice, the last score counts. A document may lack its title or its text, but not both.

    Raises:
        InputError: a file is missing or has other columns, a text is missing, an id occurs twice or belongs to no text,
            a score is no whole number, or no document is relevant.

    Reference: Thakur et al., 2021, "BEIR", arXiv 2104.08663.
    """
    corpus_file, queries_file = (os.path.join(path, name) for name in ("corpus.jsonl", "queries.jsonl"))
    qrels_file = os.path.join(path, "qrels", f"{split}.tsv")
    _check_files(os.fspath(path), [corpus_file, queries_file, qrels_file])
    corpus = _texts_by_id(read_rows(corpus_file), _document)
    queries = _texts_by_id(read_rows(queries_file), lambda row: row.text("text", "query"))
    grades: dict[str, dict[str, int]] = {}
    for row in read_rows(qrels_file):
        query, document, grade = _judgement(row)
        for what, name, known, file in (
            ("query", query, queries, queries_file),
            ("document", document, corpus, corpus_file),
        ):
            if name not in known:
                raise InputError(f"{row.where}: {file} has no {what} {name!r}. Add it, or leave the line out.")
        grades.setdefault(query, {})[document] = grade
    relevant = {query: {name for name, grade in judged.items() if grade > 0} for query, judged in grades.items()}
    if not any(relevant.values()):
        raise InputError(f"{qrels_file} has no document with a score of 1 or more, so nothing can be found.")
    return BeirFolder(corpus, queries, relevant)


def _check_files(path: str, files: Iterable[str]) -> None:
    missing = [os.path.relpath(file, path) for file in files if not os.path.isfile(file)]
    if missing:
        folder = os.path.join(path, "qrels")
        splits = (
            sorted(name[:-4] for name in os.listdir(folder) if name.endswith(".tsv")) if os.path.isdir(folder) else []
        )
        raise InputError(
            f"{path} must have corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv, as the data sets of BEIR have. "
            f"Missing: {', '.join(missing)}. Splits that are there: {', '.join(splits) or 'none'}"
        )


def _texts_by_id(rows: Iterable[Row], text_of: Callable[[Row], str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for row in rows:
        name = row.label("_id", "id")
        if name in found:
            raise InputError(f"{row.where}: the id {name!r} occurs twice. Give every text an id of its own.")
        found[name] = text_of(row)
    return found


def _document(row: Row) -> str:
    parts = [row.text(name, may_be_empty=True) for name in ("title", "text") if row.values.get(name) is not None]
    document = " ".join(parts).strip()
    if not document:
        raise InputError(f"{row.where}: the document has no text. Fill in 'title' or 'text', or leave the line out.")
    return document


def _judgement(row: Row) -> tuple[str, str, int]:
    missing = [name for name in _QRELS_COLUMNS if name not in row.values]
    if missing:
        raise InputError(
            f"{row.where}: expected the columns {', '.join(_QRELS_COLUMNS)}, named in a header line. "
            f"Missing: {', '.join(missing)}"
        )
    query, document, score = (row.values[name].strip() for name in _QRELS_COLUMNS)
    try:
        return query, document, int(score)
    except ValueError:
        raise InputError(f"{row.where}: the score must be a whole number. Received: {score!r:.100}") from None
