"""Measures exact and approximate search in the vectors of a file, and prints a Markdown table.

    python -m benchmarks.search_speed --vectors=FILE.npy

The file is float32 [N, H] of unit length, as `embed_sentences --output_format=npy` writes it. Randomly
drawn vectors are the queries; the index has the others. Both kinds of search take turns; the table has medians.
"""

import argparse
import resource
import statistics
import time

import numpy as np

from benchmarks.tables import table_lines
from keras_bert.embeddings.neighbour_graph import build_graph, import_faiss
from keras_bert.embeddings.vector_index import VectorIndex

TOP_K = 10


def timed(function, *arguments, **options):
    """Returns a call's wall-clock seconds, processor seconds and result."""
    start, processor = time.perf_counter(), time.process_time()
    result = function(*arguments, **options)
    return time.perf_counter() - start, time.process_time() - processor, result


def peak_memory() -> float:
    """Returns the largest resident memory of this process so far in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_queries(index: VectorIndex, queries: np.ndarray, singles: int, rounds: int) -> dict[bool, list]:
    """Returns, for exact and for approximate search, [(queries/s one by one, queries/s at once, numbers), ...]."""
    found = {True: [], False: []}
    for _ in range(rounds):
        for exact, results in found.items():
            seconds = [timed(index.nearest, query[None], TOP_K, exact=exact)[0] for query in queries[:singles]]
            at_once, _, (numbers, _) = timed(index.nearest, queries, TOP_K, exact=exact)
            results.append((1 / statistics.median(seconds), len(queries) / at_once, numbers))
    return found


def share_of_same(numbers: np.ndarray, expected: np.ndarray) -> float:
    """Returns the recall: [[1, 2]], [[2, 3]] -> 0.5."""
    return float(np.mean([len({*row} & {*other}) / len(other) for row, other in zip(numbers, expected, strict=True)]))


def measure(vectors: np.ndarray, num_queries: int, singles: int, rounds: int, builds: int) -> None:
    order = np.random.default_rng(0).permutation(len(vectors))
    queries, vectors = vectors[order[:num_queries]], vectors[np.sort(order[num_queries:])]
    faiss = import_faiss()
    before = peak_memory()
    times = []
    for _ in range(builds):
        *seconds, graph = timed(build_graph, vectors)
        times.append(seconds)
    built = np.median(times, axis=0)
    index = VectorIndex(vectors, [""] * len(vectors), "", {}, graph)
    found = measure_queries(index, queries, singles, rounds)
    print(f"{len(vectors):,} vectors of {vectors.shape[1]} numbers, {num_queries:,} queries, FAISS {faiss.__version__}")
    print(f"Peak memory of building and searching: {peak_memory() - before:,.0f} MB beside the vectors\n")
    build = [*(f"{value:.0f}" for value in built), f"{graph.nbytes / 1e6:.1f}"]
    rows = []
    for exact, results in found.items():
        one, many = (statistics.median(result[column] for result in results) for column in (0, 1))
        recall = share_of_same(results[0][2], found[True][0][2])
        cells = ["exact", "-", "-", "-"] if exact else ["graph", *build]
        rows.append([*cells, f"{one:,.0f}", f"{many:,.0f}", f"{recall:.4f}"])
    columns = ["search", "build, s", "of the processor", "file, MB", "queries/s, one at a time", "many at once"]
    print("\n".join(table_lines([*columns, f"recall@{TOP_K}"], rows)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", required=True, help="a .npy file, float32 [N, H]")
    parser.add_argument("--num_vectors", type=int, help="use this many of the vectors, the first ones")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--singles", type=int, default=200, help="queries that are also asked one by one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--builds", type=int, default=1)
    arguments = parser.parse_args()
    vectors = np.load(arguments.vectors)[: arguments.num_vectors]
    measure(vectors, arguments.queries, arguments.singles, arguments.rounds, arguments.builds)


if __name__ == "__main__":
    main()
