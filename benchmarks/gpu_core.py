"""Measures our core on Keras' JAX backend beside transformers + torch, on one GPU: forward and a step of pre-training.

    python -m benchmarks.gpu_core --other_python=PYTHON --sizes=base,large --lengths=128,512

--python has jax, keras and this package; --other_python has torch and transformers. Both compute in bfloat16 with
weights in float32, on the same random batch of full rows. Training is masked LM + next sentence, dropout 0.1,
gradients clipped by their norm, AdamW. Ours is what `fit` and `predict` compile (`keras_gpu_core`); theirs is
`BertForPreTraining` as it is, with SDPA attention (`transformers_gpu_core`).

For each size and length two processes are started, one for each side; they take turns of some steps each while the
other waits. The first turns are not counted: they compile. A line of the table has the medians over the turns: the
milliseconds of a step, the ratio of the two sides' times, turn by turn, and the model's FLOP/s as a share of the peak.
The peak is that of a large bfloat16 matrix product, measured by each side's own library; the largest of them counts.

What is counted as the model's work is what `model_flops` says. transformers scores the vocabulary at every token, we at
the masked ones only, for which and for [CLS] alone our last layer works; so a step of theirs is more work, and their
share counts it: times say which side is faster, shares say how well each uses the device for what it computes.

It runs on a CPU too, which shows that it works: --sizes=tiny --lengths=16 --batch_size=2 --matmul_size=256
"""

import json
import math
import statistics
import sys
import tempfile

from absl import flags

from benchmarks.workers_in_turns import end_workers, start_worker, take_turn
from keras_bert.config import SIZES, BertConfig
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS

SIDES = {"ours": "benchmarks.keras_gpu_core", "transformers": "benchmarks.transformers_gpu_core"}
WORK = ("forward", "train")
VOCAB_SIZE = 30522  # of Google's uncased models
TOKENS = 8192
MASKED_SHARE = 0.15
# Both sides hold the device at once, so JAX must not take most of its memory when it starts.
ENVIRONMENT = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
HEADER = [
    "| size | length | rows | step | ours | transformers | ratio of times | share of peak, ours | transformers |",
    "|---|---|---|---|---|---|---|---|---|",
]


def define_flags() -> None:
    flags.DEFINE_string("python", sys.executable, "A Python with jax, keras and this package.")
    flags.DEFINE_string("other_python", None, "A Python with torch and transformers.", required=True)
    flags.DEFINE_list("sizes", ["base", "large"], f"Some of {', '.join(SIZES)}.")
    flags.DEFINE_list("lengths", ["128", "512"], "Tokens of a row, up to 512.")
    flags.DEFINE_integer("batch_size", None, f"Rows; by default as many as have {TOKENS} tokens.", lower_bound=1)
    flags.DEFINE_integer("steps", 20, "Steps in a turn.", lower_bound=1)
    flags.DEFINE_integer("turns", 6, "Turns of each side that are counted.", lower_bound=1)
    flags.DEFINE_integer("warm_up_turns", 1, "Turns before these.", lower_bound=0)
    flags.DEFINE_integer("matmul_size", 8192, "Rows and columns of the matrices of the peak.", lower_bound=1)


def main() -> None:
    unknown = [size for size in FLAGS.sizes if size not in SIZES]
    if unknown:
        raise InputError(f"--sizes: there is no {', '.join(unknown)}. There are: {', '.join(SIZES)}")
    lengths = [length_of(text) for text in FLAGS.lengths]
    measured = []
    for size in FLAGS.sizes:
        for length in lengths:
            print(f"BERT-{size}, {length} tokens", file=sys.stderr, flush=True)
            batch_size = FLAGS.batch_size or max(1, TOKENS // length)
            measured.append((size, length, batch_size, measure(size, length, batch_size)))
    peak = max(peak_flops(turns, FLAGS.matmul_size) for *_, (_, turns) in measured)
    print("\n".join(table(measured, peak)))


def length_of(text: str) -> int:
    # Two at least: a row has two segments.
    if not text.isdecimal() or not 2 <= int(text) <= 512:
        raise InputError(f"--lengths: a length is a whole number from 2 to 512. Received: {text!r}")
    return int(text)


def num_predictions(length: int) -> int:
    """Masked tokens in a row: 20 of 128, 77 of 512."""
    return math.ceil(MASKED_SHARE * length)


def model_flops(
    config: BertConfig, batch_size: int, length: int, num_scored: int, step: str, num_wanted: int | None = None
) -> int:
    """Returns the floating-point operations of a step: those of all matrix products, two for each multiplication.

    forward = 2 * 12 (L - 1) H^2 * B S      query, key, value, output (4 H^2) and the two of width 4 H (8 H^2)
            + 2 * (2 H^2 * B S + 10 H^2 * B num_wanted)                     the last layer: keys and values of all
            + 4 H S * ((L - 1) S + num_wanted) * B                          queries with keys, probabilities with values
            + 2 (H^2 + H V) * B num_scored  masked LM: dense layer, product with the table of tokens
            + 2 (H^2 + 2 H) * B             pooler and next sentence
    train = 3 * forward                     each product has two in the backward pass

    for B rows of S tokens, L layers, hidden size H, a vocabulary of V. Not counted: what is computed for each number by
    itself (GELU, softmax, layer norm, dropout, the optimiser), looking up embeddings, computing anything again.

    Args:
        num_scored: tokens of a row for which the vocabulary is scored.
        num_wanted: tokens of a row for which the last layer works; all of them when not given.
        step: "forward" or "train".

    Reference: Kaplan et al., 2020, arXiv 2001.08361, section 2.1; Chowdhery et al., 2022, arXiv 2204.02311, appendix B.
    """
    layers, hidden = config.num_hidden_layers, config.hidden_size
    layer_weights = 4 * hidden**2 + 2 * hidden * config.intermediate_size
    num_wanted = length if num_wanted is None else num_wanted
    forward = 2 * (layers - 1) * layer_weights * batch_size * length
    forward += 2 * (2 * hidden**2 * length + (layer_weights - 2 * hidden**2) * num_wanted) * batch_size
    forward += 4 * hidden * length * ((layers - 1) * length + num_wanted) * batch_size
    forward += 2 * (hidden**2 + hidden * config.vocab_size) * batch_size * num_scored
    forward += 2 * (hidden**2 + 2 * hidden) * batch_size
    return forward * {"forward": 1, "train": 3}[step]


def measure(size: str, length: int, batch_size: int) -> tuple[list[dict], list[dict]]:
    """Returns what the sides are, and for each counted turn the reports of both sides: `{work: (ours, theirs)}`."""
    config = BertConfig.from_size(size, VOCAB_SIZE)
    arguments = {"config": json.dumps(config.to_dict()), "batch_size": batch_size, "length": length}
    arguments |= {"predictions": num_predictions(length), "steps": FLAGS.steps, "matmul_size": FLAGS.matmul_size}
    pythons = {"ours": FLAGS.python, "transformers": FLAGS.other_python}
    sides, workers, turns = [], [], []
    with tempfile.TemporaryFile("w+") as ours_said, tempfile.TemporaryFile("w+") as theirs_said:
        said = [ours_said, theirs_said]
        try:
            for side, stderr in zip(SIDES, said, strict=True):
                workers.append(start_worker(pythons[side], SIDES[side], arguments, ENVIRONMENT, stderr))
                sides.append(request(side, workers[-1], stderr, ""))
            check_platforms(sides)
            for _ in range(FLAGS.warm_up_turns + FLAGS.turns):
                turns.append(
                    {
                        work: tuple(request(*named, work) for named in zip(SIDES, workers, said, strict=True))
                        for work in ("matmul", *WORK)
                    }
                )
        finally:
            end_workers(workers)
    return sides, turns[FLAGS.warm_up_turns :]


def request(side: str, worker, stderr, work: str) -> dict:
    """Returns a worker's report. Raises `InputError` with the last line that it wrote if it ended."""
    try:
        return take_turn(worker, work)
    except InputError:
        stderr.seek(0)
        lines = [line.strip() for line in stderr if line.strip()] or ["nothing was said"]
        flag = {"ours": "python", "transformers": "other_python"}[side]
        raise InputError(
            f"The side {side!r} {'failed in ' + work if work else 'cannot start'} (exit code {worker.wait()}): "
            f"{lines[-1]} (`{worker.args[0]} -m {SIDES[side]} --help` must work; --{flag} names another Python)"
        ) from None


def check_platforms(sides: list[dict]) -> None:
    if sides[0]["platform"] != sides[1]["platform"]:
        raise InputError(
            f"The sides would run on different devices: {sides[0]['side']} on {sides[0]['device']}, {sides[1]['side']} "
            f"on {sides[1]['device']}. Install jax and torch for the same device, or hide it from both."
        )


def peak_flops(turns: list[dict], matmul_size: int) -> float:
    """Returns the floating-point operations a second of the faster side's matrix product, the median over the turns."""
    return max(2 * matmul_size**3 / median_step(turns, "matmul", side) for side in (0, 1))


def median_step(turns: list[dict], work: str, side: int) -> float:
    """Returns the seconds of one step, the median over the turns."""
    return statistics.median(turn[work][side]["seconds"] / turn[work][side]["steps"] for turn in turns)


def table(measured: list[tuple], peak: float) -> list[str]:
    """Returns the lines of the table; `measured` has (size, length, batch size, what `measure` returned)."""
    (ours, theirs), _ = measured[0][-1]
    lines = [f"Ours: {ours['side']}, {ours['device']}. Theirs: {theirs['side']}, {theirs['device']}."]
    lines += [f"Peak of a bfloat16 matrix product: {peak / 1e12:.2f} TFLOP/s.", "", *HEADER]
    for size, length, batch_size, (_, turns) in measured:
        config = BertConfig.from_size(size, VOCAB_SIZE)
        for work in WORK:
            seconds = [median_step(turns, work, side) for side in (0, 1)]
            masked = num_predictions(length)
            flops = [
                model_flops(config, batch_size, length, scored, work, wanted)
                for scored, wanted in ((masked, masked + 1), (length, length))
            ]
            reports = [[report["seconds"] / report["steps"] for report in turn[work]] for turn in turns]
            ratios = [first / second for first, second in reports]
            cells = [size, str(length), str(batch_size), work, *(f"{1000 * second:.2f} ms" for second in seconds)]
            cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
            cells += [
                f"{100 * work_done / second / peak:.1f} %" for work_done, second in zip(flops, seconds, strict=True)
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    run_command(main, define_flags)
