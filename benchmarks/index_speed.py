"""Measures an index of random vectors, if asked beside that of another checkout, and prints a Markdown table.

    python -m benchmarks.index_speed --num_vectors=100000 --other=../before

Each side is one process that lives through all rounds, and the sides take turns at every action. The vectors have
length 1; every text has an id and numbers for filters, which keep 50, 10 and 1 % of the texts. Searches are exact. To
add or to delete is to load the index, change 100 texts and save it. Memory is what is not mapped from files.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from absl import flags

from keras_bert.program.command_line import run_command

FLAGS = flags.FLAGS
KEPT = {"half": 2, "tenth": 10, "hundredth": 100}
ACTIONS = ["build", "load", "one query", "256 queries"]
ACTIONS += [f"{queries}, a filter of a {name}" for name in KEPT for queries in ("one query", "256 queries")]
ACTIONS += ["add", "delete"]
CHANGED = 100


def define_flags() -> None:
    flags.DEFINE_integer("num_vectors", 100_000, "Vectors of an index.", lower_bound=2 * CHANGED)
    flags.DEFINE_integer("dimension", 384, "Numbers of a vector.", lower_bound=1)
    flags.DEFINE_integer("rounds", 5, "How often each action is measured.", lower_bound=1)
    flags.DEFINE_string("other", None, "A folder of another checkout, for ratios.")


def main() -> None:
    from benchmarks.tables import ratio_of, table_lines

    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    trees = [here] + ([FLAGS.other] if FLAGS.other else [])
    with tempfile.TemporaryDirectory() as folder:
        sides = [started(tree, os.path.join(folder, str(number))) for number, tree in enumerate(trees)]
        found = {action: [[] for _ in sides] for action in ACTIONS}
        for turn in range(FLAGS.rounds + 1):  # the first is not counted
            for action in ACTIONS:
                for number in range(len(sides))[:: 1 if turn % 2 else -1]:
                    seconds = answered(sides[number], action)
                    found[action][number] += [seconds] * bool(turn)
        for side in sides:
            side.stdin.close()
            side.wait()
        memory = []
        for number, tree in enumerate(trees):  # processes that have built nothing
            with started(tree, os.path.join(folder, str(number))) as side:
                memory.append([answered(side, action) for action in (*ACTIONS[1:4], "memory")][-1])
    rows = [
        [action, f"{1000 * statistics.median(of[0]):,.2f}", *(ratio_of(of[0], one) for one in of[1:])]
        for action, of in found.items()
    ]
    rows.append(["memory after load and searches, MB", *(f"{size:,.0f}" for size in memory)])
    print(f"{FLAGS.num_vectors:,} random vectors of {FLAGS.dimension} numbers, NumPy {np.__version__}\n")
    print("\n".join(table_lines(["action", "ms", "to the other: ratio"][: 1 + len(trees)], rows)))


def started(tree: str, folder: str) -> subprocess.Popen:
    """Starts a process in which `keras_bert` is that of a checkout."""
    sizes = json.dumps([FLAGS.num_vectors, FLAGS.dimension, folder])
    environment = os.environ | {"PYTHONPATH": os.path.abspath(tree)}
    command = [sys.executable, os.path.abspath(__file__), sizes]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def answered(side: subprocess.Popen, action: str) -> float:
    print(action, file=side.stdin, flush=True)
    return json.loads(side.stdout.readline())


class Side:
    """One of the processes."""

    def __init__(self, count: int, dimension: int, folder: str):
        from keras_bert.embeddings import vector_index

        vector_index.search_vectors = lambda model, texts, *_, **__: self.vectors[: len(texts)]
        vector_index.model_fingerprint = lambda model: ""
        self.index_class, self.folder, self.count, self.dimension = vector_index.VectorIndex, folder, count, dimension
        self.vectors, self.queries = self._random(count, 0), self._random(256, 1)
        self.texts = [f"the text with the number {number}" for number in range(count)]
        self.metadata = {name: np.arange(count) % every for name, every in KEPT.items()}
        self.added = 0

    def _random(self, count: int, seed: int) -> np.ndarray:
        vectors = np.random.default_rng(seed).standard_normal((count, self.dimension), dtype=np.float32)
        vectors /= np.sqrt(np.einsum("nd,nd->n", vectors, vectors))[:, None]
        return vectors

    def measure(self, action: str) -> float:
        """Returns the seconds of an action, of one query for searches; or megabytes of memory."""
        if action == "memory":
            return self.memory
        if action == "build":
            shutil.rmtree(self.folder, ignore_errors=True)
        start = time.perf_counter()
        if action == "build":
            ids = [f"d{number}" for number in range(self.count)]
            index = self.index_class.build(None, self.texts, ids=ids, metadata=self.metadata, exact=True)
            index.save(self.folder)
            return time.perf_counter() - start
        if action == "load":
            self.before = private_memory()
            self.index = self.index_class.load(self.folder)
            return time.perf_counter() - start
        if action in ("add", "delete"):
            index = self.index_class.load(self.folder)
            if action == "add":
                new, self.added = range(self.added, self.added + CHANGED), self.added + CHANGED
                metadata = {name: [1] * CHANGED for name in KEPT}
                index.append(None, self.texts[:CHANGED], ids=[f"new{n}" for n in new], metadata=metadata, exact=True)
            else:
                index.delete([f"d{number}" for number in range(0, self.count, self.count // CHANGED)][:CHANGED])
            index.save(self.folder, replace=True)
            return time.perf_counter() - start
        queries, _, name = action.partition(", a filter of a ")
        where = {name: 0} if name else None
        groups = [query[None] for query in self.queries[:20]] if queries == "one query" else [self.queries]
        for group in groups:
            self.index.nearest(group, 10, where=where)
        self.memory = private_memory() - self.before
        return (time.perf_counter() - start) / len(groups)


def private_memory() -> float:
    """Returns the memory in MB that is not mapped from files."""
    with open("/proc/self/status", encoding="utf-8") as file:
        found = dict(line.split(":") for line in file)
    return int(found["RssAnon"].split()[0]) / 1000


def serve() -> None:
    side = Side(*json.loads(sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(side.measure(line.strip())), flush=True)


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    serve() if len(sys.argv) == 2 and sys.argv[1].startswith("[") else command()
