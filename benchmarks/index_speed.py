"""Measures building and searching an index of random vectors in each precision, and prints a Markdown table.

    python -m benchmarks.index_speed --num_vectors=1000000

The vectors have length 1 and no texts behind them. Every row of the table is from processes of its own. Vectors are
mapped from a file, as after `VectorIndex.load`; the memory that searches add is what is held beside that file. Times
are medians of --rounds calls; those of a restricted search are divided by those of a search in everything. The filter
keeps half of the rows; deleted are 10 %. A graph of random vectors tells nothing about recall, and takes long to build.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from absl import flags

from benchmarks.tables import table_lines
from keras_bert.program.command_line import run_command

FLAGS = flags.FLAGS
COLUMNS = ("index", "build, s", "folder, MB", "search adds, MB", "queries/s, one at a time", "many at once")
COLUMNS += ("a filter of half: time of one", "of many", "10 % deleted: time of one", "of many")


def define_flags() -> None:
    flags.DEFINE_integer("num_vectors", 100_000, "Vectors of an index.", lower_bound=100)
    flags.DEFINE_integer("dimension", 384, "Numbers of a vector.", lower_bound=1)
    flags.DEFINE_integer("num_queries", 256, "Queries at once.", lower_bound=1)
    flags.DEFINE_integer("rounds", 5, "How often each search is measured.", lower_bound=1)
    flags.DEFINE_list("kinds", ["float32", "int8", "binary", "float32 graph", "int8 graph"], "Rows of the table.")
    flags.DEFINE_string("measure", None, "A row and a folder, for the processes of this command.")


def random_vectors(count: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((count, FLAGS.dimension), dtype=np.float32)
    vectors /= np.sqrt(np.einsum("nd,nd->n", vectors, vectors))[:, None]
    return vectors


def main() -> None:
    if FLAGS.measure:
        kind, folder, action = json.loads(FLAGS.measure)
        print(json.dumps(build(kind, folder) if action == "build" else search(folder)))
        return
    rows = []
    for kind in FLAGS.kinds:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "index")
            rows.append([kind, *in_a_process(kind, path, "build"), *in_a_process(kind, path, "search")])
    print(f"{FLAGS.num_vectors:,} random vectors of {FLAGS.dimension} numbers, NumPy {np.__version__}\n")
    print("\n".join(table_lines(COLUMNS, rows)))


def in_a_process(kind: str, folder: str, action: str) -> list[str]:
    names = ("num_vectors", "dimension", "num_queries", "rounds")
    same = [f"--{name}={FLAGS[name].value}" for name in names]
    command = [sys.executable, "-m", "benchmarks.index_speed", *same, f"--measure={json.dumps([kind, folder, action])}"]
    result = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def build(kind: str, folder: str) -> list[str]:
    """Quantises random vectors, makes the graph, writes the folder, and returns the seconds and the size of both."""
    from keras_bert.embeddings.neighbour_graph import build_graph
    from keras_bert.embeddings.quantised_vectors import StoredVectors
    from keras_bert.embeddings.vector_index import VectorIndex

    precision, _, graph = kind.partition(" ")
    vectors, count = random_vectors(FLAGS.num_vectors, 0), FLAGS.num_vectors
    start = time.perf_counter()
    stored = StoredVectors.of(vectors, precision)
    links = build_graph(stored.codes, ranges=stored.ranges) if graph else None
    seconds = time.perf_counter() - start
    halves = {"half": np.arange(count) % 2}
    VectorIndex(stored, ["x"] * count, "", {}, links, ids=range(count), metadata=halves).save(folder)
    size = sum(entry.stat().st_size for entry in os.scandir(folder) if entry.name.endswith(".npy"))
    return [f"{seconds:.1f}", f"{size / 1e6:,.0f}"]


def search(folder: str) -> list[str]:
    """Returns the memory that searches add, the queries per second, and how much longer restricted searches take."""
    from keras_bert.embeddings.vector_index import VectorIndex

    index, queries = VectorIndex.load(folder), random_vectors(FLAGS.num_queries, 1)
    before = private_memory()
    one, many = times(index, queries)
    added = private_memory() - before
    filtered = times(index, queries, where={"half": 0})
    index.delete(np.random.default_rng(2).choice(FLAGS.num_vectors, FLAGS.num_vectors // 10, replace=False))
    deleted = times(index, queries)
    ratios = [f"{new / old:.2f}" for found in (filtered, deleted) for new, old in zip(found, (one, many), strict=True)]
    return [f"{added:,.0f}", f"{1 / one:,.1f}", f"{len(queries) / many:,.0f}", *ratios]


def private_memory() -> float:
    """Returns the memory in MB that is not mapped from files."""
    with open("/proc/self/status", encoding="utf-8") as file:
        found = dict(line.split(":") for line in file)
    return int(found["RssAnon"].split()[0]) / 1000


def times(index, queries: np.ndarray, **options) -> tuple[float, float]:
    """Returns the median seconds of a search for one query, of the first 20, and for all at once, after a first one."""

    def median(groups) -> float:
        index.nearest(groups[0], 10, **options)
        seconds = []
        for group in groups * FLAGS.rounds:
            start = time.perf_counter()
            index.nearest(group, 10, **options)
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds)

    return median([query[None] for query in queries[:20]]), median([queries])


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
