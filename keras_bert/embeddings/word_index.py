"""Search by words: BM25, computed beforehand as the weights of a sparse matrix."""

import array
import dataclasses
import functools
import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert.embeddings.postings import Postings
from keras_bert.program.arrow_files import map_table, pa, write_table
from keras_bert.program.atomic_output import atomic_folder
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import check_links
from keras_bert.program.options import check_number
from keras_bert.program.user_inputs import as_texts
from keras_bert.tokenization.unicode_table import CJK_RANGES

# The columns of its files and their types.
_COLUMNS = ("word", "end", "document", "weight", "id")
_TYPES = ("large_string", "int64", "int32", "float", "large_string")


@dataclasses.dataclass(frozen=True)
class WordHit:
    """A text that was found: its number, counted from 0, its id, and its BM25 score, above 0."""

    number: int
    id: str
    score: float


class WordIndex:
    """The words of texts with their weights in each text: BM25 in the variant of Lucene.

    The score of a text adds up, for each word of a query, `idf * tf / (tf + k1 * (1 - b + b * length / mean_length))`.
    Here `tf` is how often the text has the word, and `idf = ln(1 + (N - df + 0.5) / (df + 0.5))`, where `df` of the N
    texts have the word. A word that a query has twice counts twice. `words_of` has the rule for words. The texts are
    not kept.

    Args:
        postings: the weights of V words in N texts.
        words: V different words.
        ids: N different strings.

    Example:
        index = WordIndex.build(["A cat sits on the mat.", "Stocks fell on Monday."], ids=["d1", "d2"])
        index.search(["the cat"], top_k=1)[0][0].id  # 'd1'
        index.save("my_words")

    Reference: Kamphuis et al., 2020, "Which BM25 Do You Mean?", the variant "Lucene (accurate)"; Lù, 2024, arXiv
    2407.03618 (scores as a sparse matrix).
    """

    def __init__(self, postings: Postings, words: list[str], ids: list[str]):
        self.postings, self.words, self.ids = postings, words, ids
        self._columns = {word: column for column, word in enumerate(words)}

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def build(cls, texts: Any, *, ids: Any = None, k1: float = 1.2, b: float = 0.75) -> "WordIndex":
        """Counts the words of texts.

        Args:
            texts: N strings.
            ids: N different strings; None for "0", "1" and so on.
            k1: how much repetitions of a word count, 0 or more.
            b: how much a long text is marked down, 0 to 1.

        Raises:
            InputError: there are no texts, one is empty, `ids` are not N different strings, or a number is out of
                range.
        """
        texts = checked_texts(texts, "text")
        ids = None if ids is None else as_texts(ids, "id")
        if ids is not None and (len(ids) != len(texts) or len(set(ids)) < len(ids)):
            raise InputError(
                f"Every text needs an id of its own. Received: {len(texts)} texts and {len(set(ids))} different ids"
            )
        check_number("k1", k1, at_least=0)
        check_number("b", b, at_least=0, at_most=1)
        return cls.of_texts(texts, ids, k1, b)

    @classmethod
    def of_texts(
        cls, texts: Sequence[str], ids: list[str] | None = None, k1: float = 1.2, b: float = 0.75
    ) -> "WordIndex":
        """As `build`, without its checks. Texts may be empty: a text without words is never found."""
        columns: dict[str, int] = {}
        flat, splits = array.array("i"), [0]
        for text in texts:
            flat.extend(columns.setdefault(word, len(columns)) for word in words_of(text))
            splits.append(len(flat))
        weights = _bm25(np.frombuffer(flat, np.int32), np.array(splits), len(columns), k1, b)
        return cls(Postings.of_rows(weights), list(columns), ids or [str(number) for number in range(len(texts))])

    def search(self, queries: Any, top_k: int = 5) -> list[list[WordHit]]:
        """Returns the best texts of each query, the earlier of equally good texts first.

        A text without a word of the query is not found, so there may be fewer than `top_k`.

        Raises:
            InputError: a query is empty, or `top_k` is below 1.
        """
        numbers, scores = self.nearest(queries, top_k)
        rows = (zip(*row, strict=True) for row in zip(numbers.tolist(), scores.tolist(), strict=True))
        return [[WordHit(number, self.ids[number], score) for number, score in row if number >= 0] for row in rows]

    def nearest(self, queries: Any, top_k: int, is_allowed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """As `search`, as arrays: see `Postings.nearest`."""
        from scipy.sparse import csr_array

        queries = checked_texts(queries, "query", may_be_none=True)
        known = [[self._columns[word] for word in words_of(query) if word in self._columns] for query in queries]
        flat = np.array([column for columns in known for column in columns], np.int32)
        splits = np.cumsum([0, *map(len, known)])
        counts = csr_array((np.ones(len(flat), np.float32), flat, splits), shape=(len(queries), len(self.words)))
        counts.sum_duplicates()
        return self.postings.nearest(counts, top_k, is_allowed)

    def save(self, path: str | os.PathLike) -> None:
        """Writes a new folder of three Arrow files: the words and where the weights of each end, the weights, the ids.

        Raises:
            InputError: the folder exists and is not empty, or cannot be written.
        """
        columns = self.postings.columns
        words, ids = (pa.array(values, pa.large_string()) for values in (self.words, self.ids))
        weights = {"document": columns.indices.astype(np.int32), "weight": columns.data}
        tables = {"words": {"word": words, "end": columns.indptr[1:].astype(np.int64)}, "weights": weights}
        with atomic_folder(path) as folder:
            for name, table in (tables | {"ids": {"id": ids}}).items():
                write_table(os.path.join(folder, f"{name}.arrow"), pa.table(table))

    @classmethod
    def load(cls, path: str | os.PathLike) -> "WordIndex":
        """Reads a folder that `save` wrote, into memory.

        Raises:
            InputError: it is no index of words, it is damaged, or a file is a link out of the folder.
        """
        from scipy.sparse import csr_array

        path = os.fspath(path)
        if not os.path.isfile(os.path.join(path, "words.arrow")):
            raise InputError(f"{path} is not an index of words: it has no words.arrow. Make one with WordIndex.save.")
        check_links(path)
        try:
            tables = [map_table(os.path.join(path, f"{name}.arrow")) for name in ("words", "weights", "ids")]
            names, types = zip(
                *((field.name, str(field.type)) for table in tables for field in table.schema), strict=True
            )
            if (names, types) != (_COLUMNS, _TYPES):
                raise ValueError(f"it has the columns {', '.join(names)} of {', '.join(types)}")
            words, ends, documents, weights, ids = (column for table in tables for column in table.columns)
            # In memory, because a file could change after the check.
            ends, documents, weights = (np.array(column.to_numpy()) for column in (ends, documents, weights))
            splits = np.append(0, ends)
            is_inside = 0 <= splits.min() <= splits.max() == splits[-1] == len(weights)  # differences could overflow
            if not is_inside or (np.diff(splits) < 0).any() or not np.isfinite(weights).all():
                raise ValueError("weights.arrow has weights that are not finite, or not as many as words.arrow says")
            if len(documents) and not 0 <= documents.min() <= documents.max() < len(ids):
                raise ValueError("weights.arrow has the number of no document")
            words, ids = words.to_pylist(), ids.to_pylist()
            if not ids or len(set(ids)) < len(ids) or len(set(words)) < len(words):
                raise ValueError("there are no ids, or an id or a word comes twice")
            return cls(Postings(csr_array((weights, documents, splits), shape=(len(words), len(ids)))), words, ids)
        except (OSError, ValueError) as error:
            raise InputError(f"The index of words {path} is damaged: {error}. Build it again.") from None


def words_of(text: str) -> list[str]:
    """Returns the words of a text: lower-cased runs of letters, digits, underscores and combining marks.

    Compatible forms of a character are equal (NFKC), and every Chinese ideograph is a word. There is no list of words
    to leave out, and no stemming, so the rule is the same for all languages.

    >>> words_of("The ﬁle's size: 2,5 MB"), words_of("用Ubuntu")
    (['the', 'file', 's', 'size', '2', '5', 'mb'], ['用', 'ubuntu'])
    """
    if text.isascii():
        return re.findall(r"\w+", text.lower())
    ideograph, word = _patterns()
    return word.findall(ideograph.sub(r" \g<0> ", unicodedata.normalize("NFKC", text).lower()))


@functools.cache
def _patterns() -> tuple[re.Pattern, re.Pattern]:
    ideographs = "".join(f"{chr(first)}-{chr(last)}" for first, last in CJK_RANGES)
    # Python's \w has no vowel signs, which are parts of words in Hindi and many other languages.
    marks = "".join(char for char in map(chr, range(sys.maxunicode)) if unicodedata.category(char)[0] == "M")
    return re.compile(f"[{ideographs}]"), re.compile(rf"[\w{marks}]+")


def checked_texts(texts: Any, what: str, may_be_none: bool = False) -> list[str]:
    """Returns texts as a list. Raises `InputError` if there are none, or one is empty; `what` names them."""
    texts = as_texts(texts, what)
    if not texts and not may_be_none:
        raise InputError(f"Expected at least one {what}. Received: none")
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            raise InputError(f"{what.capitalize()} {number} is empty. Received: {text!r}")
    return texts


def _bm25(columns: np.ndarray, splits: np.ndarray, num_words: int, k1: float, b: float) -> Any:
    """Returns the weights of words, a CSR array [N, V]. Text n has the `columns`, int32, from `splits[n]` on."""
    from scipy.sparse import csr_array

    lengths = np.diff(splits)
    counts = csr_array((np.ones(len(columns)), columns, splits), shape=(len(lengths), num_words))
    counts.sum_duplicates()
    num_texts = np.bincount(counts.indices, minlength=num_words)
    idf = np.log1p((len(lengths) - num_texts + 0.5) / (num_texts + 0.5))
    discounts = k1 * (1 - b + b * lengths / (lengths.mean() or 1))  # no text may have a word
    counts.data *= idf[counts.indices] / (counts.data + np.repeat(discounts, np.diff(counts.indptr)))
    return counts
