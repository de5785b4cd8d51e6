"""Measures our export formats beside torch's exported graph: milliseconds of a request of tokens, and file sizes.

    python -m benchmarks.format_speed --cases=1x16,1x64

The same sentence encoder of MiniLM's size, with random weights, is exported in each format. Every side uses two
threads. torch's graph runs in the same ONNX Runtime. Sides are processes that take turns. A cell has the median and the
99th percentile of the milliseconds of a run over all turns; then the ratio of the mean time to that of torch's graph,
the median over the turns. Without torch there is no ratio.
"""

import os
import statistics
import tempfile

import numpy as np
from absl import flags

from benchmarks.encoder_sides import FORMAT_SIDES, SIDES, RunningSides, config_of_size, write_batch, write_model
from benchmarks.sides.exported_encoder import export_folder
from benchmarks.suite_flags import define_suite_flags, machine_lines, version_lines
from keras_bert.program.command_line import run_command

FLAGS = flags.FLAGS
REFERENCE = "torch's graph"


def define_flags() -> None:
    define_suite_flags(turns=7)
    flags.DEFINE_list("cases", ["1x16", "1x64", "1x256", "8x64"], "Rows x tokens.")
    flags.DEFINE_float("settle", 0.1, "Seconds of a turn that are not counted.", lower_bound=0)
    flags.DEFINE_float("seconds", 0.4, "Seconds of a turn that are counted, at least.", lower_bound=0)


def main() -> None:
    names = FLAGS.sides or (["onnx"] if FLAGS.quick else FORMAT_SIDES)
    cases, turns = (["2x8"], 1) if FLAGS.quick else (FLAGS.cases, FLAGS.turns)
    config = config_of_size("smoke" if FLAGS.quick else "minilm")
    with RunningSides(names, FLAGS.environments) as sides, tempfile.TemporaryDirectory() as folder:
        write_model(folder, config)
        paths = {case: os.path.join(folder, f"{case}.npz") for case in cases}
        for case, path in paths.items():
            rows, length = map(int, case.split("x"))
            ids = np.random.default_rng(1).integers(5, config.vocab_size, (rows, length)).tolist()
            write_batch(path, ids, [[0] * length] * rows)
        sides.load(folder, config, paths[cases[0]])
        found = {}
        for case, path in paths.items():
            request = {"time": [path], "settle": FLAGS.settle, "seconds": FLAGS.seconds}
            found[case] = sides.turns({name: [request] for name in sides.workers}, turns, report_key="runs")
        names = [name for name in names if name in sides.workers]
        print("\n".join([*machine_lines(), *version_lines(sides.versions, sides.left_out), ""]))
        print(f"| | {' | '.join(names)} |\n{'|---' * (len(names) + 1)}|")
        for case, turns_of_sides in found.items():
            print(f"| {case} | {' | '.join(cell(turns_of_sides, name) for name in names)} |")
        print(f"| MB | {' | '.join(megabytes(folder, **SIDES[name].arguments) for name in names)} |")


def cell(turns_of_sides: dict[str, list[list[float]]], name: str) -> str:
    """Returns the median, the 99th percentile and the ratio to torch's graph: `1.62, 2.04; 0.94`."""
    turns, reference = turns_of_sides.get(name), turns_of_sides.get(REFERENCE)
    if not turns:
        return "-"
    milliseconds = 1000 * np.concatenate(turns)
    text = f"{np.median(milliseconds):.3g}, {np.quantile(milliseconds, 0.99):.3g}"
    if not reference:
        return text
    ratios = [statistics.mean(own) / statistics.mean(other) for own, other in zip(turns, reference, strict=True)]
    return f"{text}; {statistics.median(ratios):.2f}"


def megabytes(folder: str, format: str, weights: str | None = None) -> str:
    """Returns the size of an export, with its vocabulary."""
    files = (os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names)
    start = (
        os.path.join(folder, "encoder.onnx") if format == "torch" else export_folder(folder, format, weights) + os.sep
    )
    return f"{sum(os.path.getsize(path) for path in files if path.startswith(start)) / 1e6:.1f}"


if __name__ == "__main__":
    run_command(main, define_flags)
