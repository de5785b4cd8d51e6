"""Measures the encoder's forward pass on full rows beside other engines.

    python -m benchmarks.forward_speed --sizes=minilm --lengths=128 --batch_sizes=16

All sides compute the last layer's vectors of the same random rows with the same weights in float32, on all cores; their
results are compared first. Each side runs what users of its engine run:

* ours: `BertEncoder` in a `tf.function`, as `predict` and exports run it. ours_xla, only if named: with XLA.
* ours_jax: `BertEncoder` on Keras' JAX backend, in a `jax.jit`.
* keras_hub: KerasHub's backbone in a `tf.function`. transformers: its model on torch, inference mode, SDPA.
* onnxruntime: torch's export of that model.

These four and transformers run on a GPU if they find one; all but keras_hub have --dtype=bfloat16. In float32 on a GPU,
TensorFlow and JAX round the numbers of products to TF32 and torch does not. NVIDIA_TF32_OVERRIDE=0 and
JAX_DEFAULT_MATMUL_PRECISION=highest change that.

Sides are processes that take turns. In a turn a side runs for --settle seconds that are not counted and then for
--seconds that are counted; the first turn is not counted. A cell has the milliseconds of a call, the median over the
turns, then the ratio of the side's time to the first side's, turn by turn: the median, the smallest and the largest.

Cases of more than --most_gflop operations are left out; --most_gflop=0 measures all cases, which takes hours.
"""

import os
import statistics
import sys
import tempfile

import numpy as np
from absl import flags

from benchmarks.encoder_sides import OTHERS, SIDES, RunningSides, config_of_size, write_batch, write_model
from benchmarks.suite_flags import define_suite_flags, machine_lines, numbers_of_flag, version_lines
from benchmarks.tables import ratio_of, table_lines
from keras_bert import registry
from keras_bert.config import SIZES, BertConfig
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS
FORWARD_SIDES = ("ours", "ours_jax", *OTHERS)
ALL_SIZES = ["tiny", "mini", "minilm", "small", "medium", "base"]


def define_flags() -> None:
    define_suite_flags(turns=5)
    flags.DEFINE_list("sizes", ALL_SIZES, f"Some of minilm, {', '.join([*SIZES, *registry.FAMILIES])}.")
    flags.DEFINE_list("lengths", ["32", "128", "512"], "Tokens of a row.")
    flags.DEFINE_list("batch_sizes", ["1", "16"], "Rows of a batch.")
    flags.DEFINE_enum("hidden_act", "", ["", "gelu", "gelu_erf"], "The GELU of all sizes: the tanh or the exact one.")
    flags.DEFINE_enum("dtype", "float32", ["float32", "bfloat16"], "What sides compute in; others are left out.")
    flags.DEFINE_float("most_gflop", 110, "Cases of more operations than this, in billions, are left out; 0: none.")
    flags.DEFINE_float("settle", 0.1, "Seconds of a turn that are not counted.", lower_bound=0)
    flags.DEFINE_float("seconds", 0.3, "Seconds of a turn that are counted, at least.", lower_bound=0)


def main() -> None:
    lengths, batch_sizes = numbers_of_flag("lengths", 2, 4096), numbers_of_flag("batch_sizes", 1, 4096)
    sizes, names, turns = FLAGS.sizes, FLAGS.sides or FORWARD_SIDES, FLAGS.turns
    if FLAGS.quick:
        sizes, lengths, batch_sizes, turns = ["smoke"], [8], [2], 1
        names = FLAGS.sides or ["ours"]
    unknown = [size for size in sizes if size not in ("smoke", "minilm", *SIZES, *registry.FAMILIES)]
    if unknown:
        raise InputError(
            f"--sizes: there is no {', '.join(unknown)}. There are: minilm, {', '.join([*SIZES, *registry.FAMILIES])}"
        )
    measured, num_left_out = [], 0
    with RunningSides(names, FLAGS.environments, FLAGS.dtype) as sides, tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            config = config_of_size(size, FLAGS.hidden_act)
            cases = [(length, rows) for length in lengths for rows in batch_sizes]
            kept = [case for case in cases if not FLAGS.most_gflop or gflop(config, *case) <= FLAGS.most_gflop]
            num_left_out += len(cases) - len(kept)
            for case, seconds in measure(sides, config, os.path.join(folder, size), kept, turns):
                measured.append((size, *case, seconds))
        print("\n".join([*machine_lines(), *version_lines(sides.versions, sides.left_out), "", *table(measured)]))
    if num_left_out:
        print(f"\n{num_left_out} cases of more than {FLAGS.most_gflop:g} billion operations were left out.")


def gflop(config: BertConfig, length: int, rows: int) -> float:
    """Returns the billions of floating-point operations in the matrix products of a forward pass.

    A multiplication with its addition counts as two. Each token is multiplied with all weights of every layer;
    attention adds two products of `length` tokens with `length` tokens; the pooler reads one token of a row.
    """
    hidden = config.hidden_size
    layer_weights = 4 * hidden**2 + 2 * hidden * config.intermediate_size
    layer = 2 * layer_weights * length + 4 * hidden * length**2
    return rows * (config.num_hidden_layers * layer + 2 * hidden**2) / 1e9


def measure(sides: RunningSides, config: BertConfig, folder: str, cases: list[tuple[int, int]], turns: int):
    """Yields each case of (length, rows) with the seconds of a call in every turn of each side."""
    if not cases:
        return
    os.makedirs(folder)
    write_model(folder, config)
    paths = []
    for length, rows in cases:
        paths.append(os.path.join(folder, f"{length}x{rows}.npz"))
        ids = np.random.default_rng(1).integers(5, config.vocab_size, (rows, length)).tolist()
        write_batch(paths[-1], ids, [[0] * (length // 2) + [1] * (length - length // 2)] * rows)
    sides.load(folder, config, paths[0])
    for (length, rows), path in zip(cases, paths, strict=True):
        print(f"{os.path.basename(folder)}, {rows} rows of {length}", file=sys.stderr, flush=True)
        request = {"time": [path], "settle": FLAGS.settle, "seconds": FLAGS.seconds}
        yield (length, rows), sides.turns({name: [request] for name in sides.workers}, turns)


def table(measured: list[tuple]) -> list[str]:
    """Returns the lines of the table; `measured` has (size, length, rows, {side: seconds in every turn})."""
    names = [name for name in SIDES if any(name in case[-1] for case in measured)]
    rows = []
    for size, length, num_rows, seconds in measured:
        first = seconds.get(names[0], [])
        cells = [cell(seconds.get(name, []), first if name != names[0] else []) for name in names]
        rows.append([size, str(num_rows), str(length), *cells])
    return table_lines(["size", "rows", "length", *names], rows)


def cell(seconds: list[float], first: list[float]) -> str:
    """Returns milliseconds and, if the first side's are given, the ratio to them: `262: 1.10 (1.05 to 1.20)`."""
    if not seconds:
        return "-"
    milliseconds = 1000 * statistics.median(seconds)
    text = f"{milliseconds:.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"
    return f"{text}: {ratio_of(seconds, first)}" if first else text


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
