"""Reads judged collections for search: documents, queries, and which documents are relevant."""

import itertools
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from data_prep.finetuning.tables import Column, Row, column_names, read_rows
from data_prep.text.text_lines import read_lines
from keras_bert.program.errors import InputError

_logger = logging.getLogger(__name__)
_QRELS_ENDINGS = (".tsv", ".txt", ".qrels", ".trec", ".jsonl")
_QRELS_COLUMNS = ("query-id", "corpus-id", "score")


class BeirFolder(NamedTuple):
    """A collection, in the order of the arguments of `evaluate_search`."""

    corpus: dict[str, str]  # the id of each document -> its title and its text, with one blank between
    queries: dict[str, str]  # the id of each query -> its text
    relevant: dict[str, set[str]]  # the id of each judged query -> the documents with a score of 1 or more; maybe none


def read_beir_folder(path: str | os.PathLike, split: str = "test", *, strict: bool = False) -> BeirFolder:
    """Reads `corpus.jsonl` (`_id`, `title`, `text`), `queries.jsonl` (`_id`, `text`) and `qrels/SPLIT.tsv`.

    The last has a header line, `query-id`, `corpus-id` and `score` with tabs between, and whole numbers as scores.
    Or it is a qrels file of TREC, with the columns query, iteration, document and score; then its name may also end in
    `.txt`, `.qrels` or `.trec`. If it judges a pair twice, the last score counts. A document may lack one of its texts.

    Texts without a character and judgements of ids without a text are left out, and of texts with the same id the last
    counts, as in BEIR's own program. A warning has their numbers.

    Args:
        strict: whether such faults are refused.

    Raises:
        InputError: a file is missing or has other columns, a score is no whole number, no document is relevant, or
            there are faults and `strict`.

    Reference: Thakur et al., 2021, "BEIR", arXiv 2104.08663.
    """
    corpus_file, queries_file = (os.path.join(path, name) for name in ("corpus.jsonl", "queries.jsonl"))
    qrels_files = [os.path.join(path, "qrels", f"{split}{ending}") for ending in _QRELS_ENDINGS]
    qrels_file = next(filter(os.path.isfile, qrels_files), qrels_files[0])
    _check_files(os.fspath(path), [corpus_file, queries_file, qrels_file])
    faults = _Faults()
    corpus = _texts_by_id(read_rows(corpus_file), ("title", "text"), "documents", faults)
    queries = _texts_by_id(read_rows(queries_file), ("text",), "queries", faults)
    grades: dict[str, dict[str, int]] = {}
    for where, query, document, score in _judgements(qrels_file):
        try:
            grade = int(score.removesuffix(".0"))
        except ValueError:
            raise InputError(f"{where}: the score must be a whole number. Received: {score!r:.100}") from None
        if query not in queries:
            faults.add("judgements of queries without a text", f"{where}: {query!r}")
        elif document not in corpus:
            faults.add("judgements of documents without a text", f"{where}: {document!r}")
        else:
            grades.setdefault(query, {})[document] = grade
    faults.report(os.fspath(path), strict)
    relevant = {query: {name for name, grade in judged.items() if grade > 0} for query, judged in grades.items()}
    if not any(relevant.values()):
        raise InputError(f"{qrels_file} has no document with a score of 1 or more, so nothing can be found.")
    return BeirFolder(corpus, queries, relevant)


class _Faults:
    """Counts the faults of each kind, and remembers the place of the first."""

    def __init__(self):
        self._found: dict[str, list] = {}

    def add(self, kind: str, place: str) -> None:
        self._found.setdefault(kind, [0, place])[0] += 1

    def report(self, path: str, strict: bool) -> None:
        if not self._found:
            return
        kinds = "; ".join(f"{count:,} {kind} (the first: {place})" for kind, (count, place) in self._found.items())
        if strict:
            raise InputError(f"{path} has {kinds}. Mend them, or leave --strict (strict=True) out.")
        _logger.warning("%s: left out: %s. --strict (strict=True) refuses such folders.", path, kinds)


def _check_files(path: str, files: Iterable[str]) -> None:
    missing = [os.path.relpath(file, path) for file in files if not os.path.isfile(file)]
    if missing:
        folder = os.path.join(path, "qrels")
        splits = (
            sorted(os.path.splitext(name)[0] for name in os.listdir(folder) if name.endswith(_QRELS_ENDINGS))
            if os.path.isdir(folder)
            else []
        )
        raise InputError(
            f"{path} must have corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv, as the data sets of BEIR have. "
            f"Missing: {', '.join(missing)}. Splits that are there: {', '.join(splits) or 'none'}"
        )


def _texts_by_id(rows: Iterable[Row], columns: Sequence[str], what: str, faults: _Faults) -> dict[str, str]:
    """Returns the id of each row -> its texts in these columns, with a blank between."""
    found: dict[str, str] = {}
    for row in rows:
        name = row.label("_id", "id")
        parts = [row.text(part, may_be_empty=True) for part in columns if row.values.get(part) is not None]
        text = " ".join(parts).strip()
        if not text:
            faults.add(f"{what} without a text", f"{row.where}: {name!r}")
            continue
        if name in found:
            faults.add(f"{what} before others with the same id", f"{row.where}: {name!r}")
        found[name] = text
    return found


def _judgements(path: str) -> Iterator[tuple[str, str, str, str]]:
    """Yields the place of each judgement, its query, document and score."""
    lines = ((number, line.split()) for number, line in enumerate(read_lines(path), start=1) if line.strip())
    first = next(lines, (0, []))
    if len(first[1]) == 4 and first[1][3].lstrip("-").isdigit():
        for number, columns in itertools.chain([first], lines):
            where = f"{path}: line {number}"
            if len(columns) != 4:
                raise InputError(f"{where} must have the 4 columns of TREC's qrels. Received: {len(columns)}")
            yield where, columns[0], columns[2], columns[3]
        return
    for row in read_rows(path):
        missing = [name for name in _QRELS_COLUMNS if name not in row.values]
        if missing:
            raise InputError(
                f"{row.header or row.where}: expected the columns {', '.join(_QRELS_COLUMNS)}, named in a header line, "
                f"or the four columns of TREC's qrels, without a header. Missing: {', '.join(missing)}"
            )
        query, document, score = (str(row.values[name]).strip() for name in _QRELS_COLUMNS)
        yield row.where, query, document, score


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
        path, has_header: as in `tables.read_rows`.
        columns: those of the query and of the document, by name or number from 0; maybe also that of wrong documents,
            which belong to the corpus. A column may have lists of documents. By default "query" and "document", or
            FlagEmbedding's "query", "pos" and "neg".
        corpus_files: further tables with the column of the document.

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
