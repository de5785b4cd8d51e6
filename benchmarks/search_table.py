"""Compares ways to search: synopses of Debian packages look for their descriptions, by words, vectors and re-ranking.

    python -m benchmarks.search_table --model=MINILM --data=FOLDER --output_dir=search

Each test synopsis ranks the descriptions of all packages, of which its own is relevant. `search_systems` has the ways,
and how each is trained. Each model is trained in a process of its own, and saved in OUTPUT/seed-N/WAY/model. Then a
process scores it in float32, one query at a time, and writes OUTPUT/seed-N/WAY/scores.json. What is finished is not
repeated, so an interrupted comparison continues, and two calls with different --systems can work side by side.
--again scores finished models again, from their stored vectors: for times on a quiet machine.

The last lines are the table of docs/results_search.md: means over the seeds, with the smallest and the largest score.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import time

from absl import flags

from benchmarks.search_systems import DEPTH, SYSTEMS, Run
from benchmarks.suite_flags import machine_lines, numbers_of_flag
from benchmarks.tables import table_lines
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS
TRAIN, SCORE = "train", "score"


def define_flags() -> None:
    flags.DEFINE_string("model", None, "The folder of all-MiniLM-L6-v2.", required=True)
    flags.DEFINE_string("data", None, "A folder with debian_train.tsv, debian_dev.tsv, debian_test.tsv.", required=True)
    flags.DEFINE_string("output_dir", None, "Where models and scores are written.", required=True)
    flags.DEFINE_list("seeds", ["1", "2", "3"], "The seeds. What is not trained has the first one only.")
    flags.DEFINE_list("systems", list(SYSTEMS), f"Some of {', '.join(SYSTEMS)}.")
    flags.DEFINE_integer("num_pairs", 3000, "How many training pairs each model learns from.", lower_bound=2)
    flags.DEFINE_enum("precision", "float32", ["float32", "mixed_bfloat16"], "In which all models are trained.")
    flags.DEFINE_integer("threads", 1, "Threads of a process. Processes come one after another.", lower_bound=1)
    flags.DEFINE_boolean("again", False, "Score what has scores already, too.")
    flags.DEFINE_list("work", None, "For processes of this command: train or score, a system and a seed.")


def main() -> None:
    if FLAGS.work:
        part, system, seed = FLAGS.work
        (train if part == TRAIN else score)(_run(int(seed)), system)
        return
    if unknown := [name for name in FLAGS.systems if name not in SYSTEMS]:
        raise InputError(f"--systems: there is no {', '.join(unknown)}. There are: {', '.join(SYSTEMS)}")
    seeds = numbers_of_flag("seeds", 0, 2**31 - 1)
    for seed in seeds:
        for name in FLAGS.systems:
            if SYSTEMS[name].train or seed == seeds[0]:
                finish(_run(seed), name)
    print("\n".join([*machine_lines(), "", *result_table(read_scores(pathlib.Path(FLAGS.output_dir)))]))


def _run(seed: int) -> Run:
    return Run(FLAGS.model, pathlib.Path(FLAGS.data), pathlib.Path(FLAGS.output_dir), FLAGS.num_pairs, seed)


def finish(run: Run, name: str) -> None:
    """Trains and scores a system, as far as that has not been done."""
    system, folder = SYSTEMS[name], run.folder(name)
    if system.train and not (folder / "model").exists():
        missing = [other for other in system.needs if not (run.folder(other) / "model").exists()]
        if missing:
            advice = f"Give --systems={missing[0]},{name}"
            raise InputError(f"{name} needs the model of {missing[0]}, seed {run.seed}. {advice}")
        _work(TRAIN, name, run)
    if FLAGS.again or not (folder / "scores.json").exists():
        _work(SCORE, name, run)


def _work(part: str, name: str, run: Run) -> None:
    """Does a part of the work in a process; its output goes into a file beside what it writes."""
    log = run.folder(name) / f"{part}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.search_table", *sys.argv[1:], f"--work={part},{name},{run.seed}"]
    print(f"{part}: {name}, seed {run.seed}", file=sys.stderr, flush=True)
    with open(log, "w", encoding="utf-8") as file:
        status = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT).returncode
    if status:
        raise InputError(f"{part}, {name}, seed {run.seed} ended with {status}: see {log}")


def train(run: Run, name: str) -> None:
    """Trains a model and saves it."""
    import keras

    _limit_threads()
    keras.config.set_dtype_policy(FLAGS.precision)
    keras.utils.set_random_seed(run.seed)
    train_system = SYSTEMS[name].train
    assert train_system is not None
    train_system(run).save_pretrained(run.folder(name) / "model")


def score(run: Run, name: str) -> None:
    """Ranks the corpus for each test query, one at a time, and writes the scores."""
    from keras_bert.tasks.embedding.scores import retrieval_scores

    _limit_threads()
    rank, num_bytes = SYSTEMS[name].ranker(run)
    queries, rankings, seconds = [query for query, _ in run.pairs("test")], [], []
    rank(queries[0])  # once before. A graph is traced for other lengths, which the median leaves out
    for query in queries:
        start = time.perf_counter()
        rankings.append(rank(query))
        seconds.append(time.perf_counter() - start)
    found = retrieval_scores(rankings, [{number} for number in range(len(queries))], ks=(1, DEPTH))
    names = {"ndcg@10": found["ndcg@10"], f"recall@{DEPTH}": found[f"recall@{DEPTH}"]}
    result = {**names, "milliseconds": statistics.median(seconds) * 1000, "bytes": num_bytes}
    with atomic_file(run.folder(name) / "scores.json") as file:
        file.write((json.dumps(result) + "\n").encode())


def _limit_threads() -> None:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(FLAGS.threads)
    tf.config.threading.set_inter_op_parallelism_threads(FLAGS.threads)


def read_scores(folder: pathlib.Path) -> dict[str, list[dict[str, float]]]:
    """Returns what is finished: the scores of each system, one for each seed."""
    files = {name: sorted(folder.glob(f"seed-*/{name}/scores.json")) for name in SYSTEMS}
    return {name: [json.loads(file.read_text(encoding="utf-8")) for file in found] for name, found in files.items()}


def result_table(scores: dict[str, list[dict[str, float]]]) -> list[str]:
    """Returns the lines of the table.

    >>> ours = {"ndcg@10": 0.9, "recall@100": 1.0, "milliseconds": 7.04, "bytes": 1536}
    >>> result_table({"dense": [ours, ours | {"ndcg@10": 0.8}]})[2]
    '| dense | 2 | 0.8500 (0.8000 to 0.9000) | 1.0000 | 7.0 | 1,536 |'
    """
    columns = ["search", "seeds", "nDCG@10", f"recall@{DEPTH}", "ms a query", "bytes a document"]
    rows = []
    for name, found in scores.items():
        if not found:
            continue
        means = {key: statistics.fmean(one[key] for one in found) for key in found[0]}
        ranks = [one["ndcg@10"] for one in found]
        spread = f" ({min(ranks):.4f} to {max(ranks):.4f})" if len(found) > 1 else ""
        cells = [f"{means['ndcg@10']:.4f}{spread}", f"{means[f'recall@{DEPTH}']:.4f}", f"{means['milliseconds']:.1f}"]
        rows.append([name, str(len(found)), *cells, f"{means['bytes']:,.0f}"])
    return table_lines(columns, rows)


if __name__ == "__main__":
    run_command(main, define_flags)
