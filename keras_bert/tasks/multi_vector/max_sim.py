"""MaxSim of vectors in NumPy, and the names of the losses over it."""

from collections.abc import Iterator, Sequence

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.tasks.embedding.loss_table import Loss

EMPTY_DOCUMENT = -1e9  # the score of a document without vectors: it ranks last
_TOKENS_AT_ONCE = 4096  # of queries, and of documents


def max_sim(queries: Sequence[np.ndarray], documents: Sequence[np.ndarray], is_mean: bool = False) -> np.ndarray:
    """Returns the MaxSim of queries and documents: each vector of a query has its largest product with the vectors of
    the document, and these are added up.

    >>> query, document = np.float32([[1, 0], [0, 1]]), np.float32([[2, 0], [0, 1], [1, 0]])
    >>> max_sim([query], [document]).tolist()
    [[3.0]]

    Args:
        queries, documents: Q arrays, and N arrays, float `[tokens, D]`.
        is_mean: whether each score is divided by the number of the query's vectors.

    Returns:
        float32 `[Q, N]`. A document without vectors has -1e9.

    Raises `InputError` if the vectors are no lists of such arrays, or have different sizes.
    """
    queries, documents = _checked(queries, "queries"), _checked(documents, "documents")
    if len({vectors.shape[1] for vectors in (*queries, *documents)}) > 1:
        sizes = sorted({vectors.shape[1] for vectors in (*queries, *documents)})
        raise InputError(f"All vectors must have one size. Received: {sizes}. Use one model for all.")
    scores = np.zeros((len(queries), len(documents)), np.float32)
    for columns, some in _parts(documents):
        firsts, values = _joined(some)
        for rows, others in _parts(queries):
            starts, vectors = _joined(others)
            best = np.maximum.reduceat(vectors @ values.T, firsts, axis=1)
            scores[np.ix_(rows, columns)] = np.add.reduceat(best, starts, axis=0)
    scores[:, [not len(vectors) for vectors in documents]] = EMPTY_DOCUMENT
    if is_mean:
        scores /= np.maximum([[len(vectors)] for vectors in queries], 1).astype(np.float32).reshape(-1, 1)
    return scores


def _checked(texts: Sequence[np.ndarray], name: str) -> list[np.ndarray]:
    found = [np.asarray(vectors, np.float32) for vectors in texts]
    wrong = next((vectors.shape for vectors in found if vectors.ndim != 2), None)
    if wrong is not None:
        raise InputError(f"{name} must be a list of arrays [tokens, D]. Received an array of the shape {list(wrong)}")
    return found


def _parts(texts: list[np.ndarray]) -> Iterator[tuple[list[int], list[np.ndarray]]]:
    """Yields the numbers and the vectors of some texts, of at most `_TOKENS_AT_ONCE` vectors unless it is one text."""
    numbers: list[int] = []
    count = 0
    for number, vectors in enumerate(texts):
        if numbers and count + len(vectors) > _TOKENS_AT_ONCE:
            yield numbers, [texts[one] for one in numbers]
            numbers, count = [], 0
        if len(vectors):
            numbers, count = [*numbers, number], count + len(vectors)
    if numbers:
        yield numbers, [texts[one] for one in numbers]


def _joined(texts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Returns where the vectors of each text begin, and all vectors."""
    lengths = [len(vectors) for vectors in texts]
    return np.cumsum([0, *lengths[:-1]]), np.concatenate(texts)


# The losses over MaxSim by name, and what each needs. Commands read them for `--help`.
_LOSSES = "keras_bert.tasks.multi_vector.losses"
_TAUGHT = "queries, documents, others; a teacher or its scores"

MAX_SIM_LOSSES = {
    "in_batch_negatives": Loss(
        f"{_LOSSES}.MaxSimInBatchNegatives",
        "queries, documents, perhaps others",
        "MultiVectorMultipleNegativesRankingLoss",
    ),
    "distillation": Loss(f"{_LOSSES}.MaxSimDistillation", _TAUGHT, "MultiVectorDistillKLDivLoss"),
    "margin_mse": Loss(f"{_LOSSES}.MaxSimMarginMSE", _TAUGHT, "MultiVectorMarginMSELoss"),
}
