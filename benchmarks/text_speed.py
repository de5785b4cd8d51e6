"""Measures the encoder's forward pass on real texts of mixed lengths: texts per second, beside other engines.

    python -m benchmarks.text_speed --data=DATA

Texts (`benchmarks.real_texts`) are tokenised beforehand by our tokenizer, cut at 256 tokens and shuffled with a seed.
Each batch has 32 texts, padded to the longest. All sides get the same batches and compute with the same weights in
float32; those of the MiniLM size are random. The sides are those of `benchmarks.forward_speed`, and:

* ours_unpadded: ours, which removes the padding before it computes.
* "transformers, sorted": transformers with all texts sorted by length before they are batched. This is possible only
  if all texts are known beforehand.

Sides are processes that take turns: a turn is a quarter of the batches, spread over all lengths. A side's first pass
over the batches is not counted. The table has the median over the rounds. A ratio is to the fastest other side with
unsorted batches, round by round, with the smallest and the largest.
"""

import os
import statistics
import sys
import tempfile

import numpy as np
from absl import flags

from benchmarks import real_texts
from benchmarks.encoder_sides import OTHERS, RunningSides, config_of_size, write_batch, write_model
from benchmarks.suite_flags import define_suite_flags, machine_lines, version_lines
from benchmarks.tables import ratio_of, table_lines
from keras_bert.config import SIZES
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS
TEXT_SIDES = ("ours", "ours_unpadded", *OTHERS)
QUICK_SIDES = ("ours", "ours_unpadded")
SORTED = "transformers, sorted"
TURNS_OF_A_ROUND = 4


def define_flags() -> None:
    define_suite_flags(turns=2)
    flags.DEFINE_string("data", os.environ.get("KERAS_BERT_DATA"), "A folder with GLUE, SQuAD and a vocabulary.")
    flags.DEFINE_enum("size", "minilm", ["smoke", "minilm", *SIZES], "The model.")
    flags.DEFINE_integer("max_seq_length", 256, "Longer texts are cut.", lower_bound=8, upper_bound=512)
    flags.DEFINE_integer("batch_size", 32, "Texts of a batch.", lower_bound=1)
    flags.DEFINE_integer("seed", 1, "Of the choice of texts and of their order.")


def main() -> None:
    rounds, size = (1, "smoke") if FLAGS.quick else (FLAGS.turns, FLAGS.size)
    names = FLAGS.sides or (QUICK_SIDES if FLAGS.quick else TEXT_SIDES)
    if not FLAGS.data:
        raise InputError("--data is missing (or KERAS_BERT_DATA): a folder with GLUE, SQuAD and a vocabulary.")
    texts, vocabulary = real_texts.read_mix(FLAGS.data, FLAGS.seed)
    rows = real_texts.token_rows(texts[: 64 if FLAGS.quick else None], vocabulary, FLAGS.max_seq_length)
    config = config_of_size(size).replace(vocab_size=len(vocabulary))
    with RunningSides(names, FLAGS.environments) as sides, tempfile.TemporaryDirectory() as folder:
        rates, padding = measure(sides, config, os.path.join(folder, "texts"), rows, rounds)
        about_sides = version_lines(sides.versions, sides.left_out)
    print("\n".join([*machine_lines(), *about_sides, "", padding, "", *table(rates)]))


def measure(sides: RunningSides, config, folder: str, rows: list, rounds: int) -> tuple[dict[str, list[float]], str]:
    """Returns side -> texts per second in every round, and a sentence about the padding."""
    os.makedirs(folder)
    write_model(folder, config)
    as_they_come = write_batches(os.path.join(folder, "come"), rows, FLAGS.batch_size)
    by_length = write_batches(
        os.path.join(folder, "sorted"), sorted(rows, key=lambda row: len(row[0])), FLAGS.batch_size
    )
    sides.load(folder, config, as_they_come[0])
    batches = dict.fromkeys(sides.workers, as_they_come)
    if "transformers" in batches:
        batches[SORTED] = by_length
    print(f"{os.path.basename(folder)}: {len(rows)} texts", file=sys.stderr, flush=True)
    turns = min(TURNS_OF_A_ROUND, len(as_they_come))
    requests = {
        name: [{"time": paths[first::turns], "settle": 0, "sweeps": 1} for first in range(turns)]
        for name, paths in batches.items()
    }
    seconds = sides.turns(requests, rounds * turns, uncounted=turns)
    rates = {
        name: [len(rows) / sum(found[start : start + turns]) for start in range(0, len(found), turns)]
        for name, found in seconds.items()
    }
    num_tokens = sum(len(ids) for ids, _ in rows)
    shares = [1 - num_tokens / columns_of(paths) for paths in (as_they_come, by_length)]
    return rates, (
        f"{len(rows)} texts, {num_tokens:,} tokens. Batches as they come are {shares[0]:.0%} padding, sorted ones "
        f"{shares[1]:.0%}."
    )


def write_batches(folder: str, rows: list, batch_size: int) -> list[str]:
    """Writes batch files, the rows in the order given, each batch padded to its longest, and returns their paths."""
    os.makedirs(folder)
    paths = []
    for start in range(0, len(rows), batch_size):
        paths.append(os.path.join(folder, f"{start}.npz"))
        ids, segments = zip(*rows[start : start + batch_size], strict=True)
        write_batch(paths[-1], ids, segments)
    return paths


def columns_of(paths: list[str]) -> int:
    """Returns the number of tokens in all rows of batch files, with padding."""
    total = 0
    for path in paths:
        with np.load(path) as batch:
            total += batch["input_ids"].size
    return total


def table(rates: dict[str, list[float]]) -> list[str]:
    """Returns the lines of the table: side -> texts a second in every round."""
    best = max((rates[name] for name in OTHERS if name in rates), key=statistics.median, default=None)
    rows = [
        [name, f"{statistics.median(found):.1f}", ratio_of(found, best) if best else "-"]
        for name, found in rates.items()
    ]
    return table_lines(["side", "texts/s", "times the best other"], rows)


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
