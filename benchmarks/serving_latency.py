"""Measures how long an exported encoder takes for a request, in TensorFlow's C API and beside ONNX Runtime.

    python -m benchmarks.serving_latency --lengths=64 --batch_sizes=1

One encoder with random weights, mean pooling, vectors of length 1. Our sides are exports of it, run by the C API as
TensorFlow Serving runs them, XLA switched off, in a process without TensorFlow for Python (`sides.saved_model_c_api`):

* ours, ours_bfloat16, ours_int8: the signature `tokens` of exports in float32, with dtype=bfloat16, compute=int8.
* ours_text: the signature `serving_default` in float32: the same rows as texts, the tokenizer included.
* onnxruntime, onnxruntime_int8: torch's export of the encoder without pooling, in float32 and with ONNX Runtime's
  dynamic quantisation (8 bits, a range for each column) (`sides.onnxruntime_latency`).

The answers of all are compared with ours first: float32 to 1e-4, the others by the cosine, which the last table shows.
Sides are processes that take turns of --calls calls each; the first turn is not counted. Printed are the 50th, 90th and
99th percentile of all counted calls in milliseconds, and how many times as fast as ONNX Runtime in float32 each side
is, a quotient of medians.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from absl import flags

from benchmarks.encoder_sides import config_of_size, environment_of_sides, python_of, write_model
from benchmarks.suite_flags import define_suite_flags, machine_lines, numbers_of_flag, version_lines
from benchmarks.workers_in_turns import end_workers, start_worker, take_turn
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS
OURS = {
    "ours": ({}, "tokens"),
    "ours_text": ({}, "serving_default"),
    "ours_bfloat16": ({"dtype": "bfloat16"}, "tokens"),
    "ours_int8": ({"compute": "int8"}, "tokens"),
}
OTHERS = {"onnxruntime": {}, "onnxruntime_int8": {"int8": True}}
LARGEST_DIFFERENCE = 1e-4
PERCENTILES = (50, 90, 99)


def define_flags() -> None:
    define_suite_flags(turns=5)
    flags.DEFINE_string("size", "minilm", "The size of the encoder, as in `benchmarks.forward_speed`.")
    flags.DEFINE_list("lengths", ["16", "64", "256"], "Tokens of a row.")
    flags.DEFINE_list("batch_sizes", ["1", "8"], "Rows of a request.")
    flags.DEFINE_integer("calls", 20, "Calls in a turn.", lower_bound=1)


def main() -> None:
    cases = [(r, n) for n in numbers_of_flag("lengths", 4, 512) for r in numbers_of_flag("batch_sizes", 1, 512)]
    size, turns, names = FLAGS.size, FLAGS.turns, FLAGS.sides or [*OURS, *OTHERS]
    if FLAGS.quick:
        size, cases, turns, names = "smoke", [(2, 8)], 1, FLAGS.sides or ["ours", "ours_text", "ours_int8"]
    unknown = [name for name in names if name not in OURS | OTHERS]
    if unknown or "ours" not in names:
        raise InputError(f"--sides takes ours and some of {', '.join(OURS | OTHERS)}. Received: {', '.join(names)}")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        with contextlib.redirect_stdout(sys.stderr):
            words = write_exports(folder, size, names)
        workers, left_out, versions = start_sides(folder, names)
        stack.callback(lambda: end_workers(list(workers.values())))
        rows = {case: np.random.default_rng(1).integers(5, len(words), case) for case in cases}
        cosines = compare(workers, rows[cases[0]], words)
        measured = {case: measure(workers, rows[case], words, turns) for case in cases}
    if FLAGS.plot:
        draw(measured, FLAGS.plot)
    print("\n".join([*machine_lines(), *version_lines(versions, left_out), "", *table(measured), "", *cosines]))


def write_exports(folder: str, size: str, names: list[str]) -> list[str]:
    """Writes the encoder and its exports; returns the vocabulary, in which every word is a token."""
    from keras_bert.models.encoder import BertEncoder
    from keras_bert.serving.export import export_for_serving
    from keras_bert.tokenization.vocabulary import Vocabulary

    config = config_of_size(size)
    write_model(os.path.join(folder, "model"), config)
    letters = "abcdefghijklmnopqrstuvwxyz"
    made = ("".join(letters[number // 26**place % 26] for place in range(4)) for number in range(config.vocab_size))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *made][: config.vocab_size]
    encoder = BertEncoder.from_pretrained(os.path.join(folder, "model"))
    encoder.vocabulary = Vocabulary(words)
    for options in {str(OURS[name][0]): OURS[name][0] for name in names if name in OURS}.values():
        export_for_serving(encoder, os.path.join(folder, str(options)), **options)
    return words


def start_sides(folder: str, names: list[str]) -> tuple[dict, dict, dict]:
    """Returns the workers, why some were left out, and what each side is."""
    workers, left_out, versions = {}, {}, {}
    environments = os.path.abspath(FLAGS.environments)
    if any(name in OTHERS for name in names):
        try:
            command = [python_of("torch", environments), "-m", "benchmarks.sides.export_onnx", f"{folder}/model"]
            done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment_of_sides())
            if done.returncode:
                raise InputError(f"torch could not export the model: {done.stderr.strip().splitlines()[-1]}")
        except InputError as error:
            left_out = {name: str(error) for name in names if name in OTHERS}
    for name in names:
        if name in left_out:
            continue
        module = "saved_model_c_api" if name in OURS else "onnxruntime_latency"
        try:
            python = sys.executable if name in OURS else python_of("onnx", environments)
            workers[name] = start_worker(python, f"benchmarks.sides.{module}", {}, environment_of_sides())
            request = load_request(folder, name) if name in OURS else {"load": f"{folder}/model", **OTHERS[name]}
            versions[name] = take_turn(workers[name], json.dumps(request))["side"]
        except InputError as error:
            left_out[name] = str(error)
            if name in workers:
                end_workers([workers.pop(name)])
    return workers, left_out, versions


def load_request(folder: str, name: str) -> dict:
    """Returns the folder of an export and the names of its tensors, as a server reads them."""
    from keras_bert.tf_serving.saved_model_check.reading import read_saved_model

    options, signature = OURS[name]
    version = os.path.join(folder, str(options), "1")
    tensors = read_saved_model(version).signatures[signature]
    sides = {"inputs": tensors.inputs, "outputs": tensors.outputs}
    return {"load": version} | {side: {key: of.name for key, of in found.items()} for side, found in sides.items()}


def batch_of(name: str, ids: np.ndarray, words: list[str]) -> dict:
    """Returns a request for int `[rows, tokens]`; [CLS] and [SEP] stand for the outer two of each row."""
    if name == "ours_text":
        return {"text": [" ".join(words[token] for token in row[1:-1]) for row in ids]}
    ids = ids.copy()
    ids[:, 0], ids[:, -1] = words.index("[CLS]"), words.index("[SEP]")
    rows = {"input_ids": ids.tolist()}
    return rows | {"lengths": [ids.shape[1]] * len(ids)} if name in OURS else rows


def compare(workers: dict, ids: np.ndarray, words: list[str]) -> list[str]:
    """Returns lines with the cosine of each side's vectors and ours. Raises `InputError`: float32 ones differ."""
    found = {
        name: np.array(take_turn(worker, json.dumps({"batch": batch_of(name, ids, words), "calls": 1}))["values"])
        for name, worker in workers.items()
    }
    lines = []
    for name, vectors in found.items():
        if name in ("ours_text", "onnxruntime") and np.abs(vectors - found["ours"]).max() > LARGEST_DIFFERENCE:
            raise InputError(f"The vectors of {name} are not ours: {np.abs(vectors - found['ours']).max():.2g} apart.")
        lines.append(f"{name} {(vectors * found['ours']).sum(axis=1).min():.4f}")
    return [f"Smallest cosine of a vector and ours in float32: {', '.join(lines)}."]


def measure(workers: dict, ids: np.ndarray, words: list[str], turns: int) -> dict[str, list[float]]:
    """Returns the milliseconds of all counted calls of each side."""
    requests = {
        name: json.dumps({"batch": batch_of(name, ids, words), "calls": FLAGS.calls if turns > 1 else 2})
        for name in workers
    }
    found = {name: [] for name in workers}
    names = list(workers)
    for number in range(-1, turns):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            milliseconds = take_turn(workers[name], requests[name])["milliseconds"]
            found[name] += milliseconds if number >= 0 else []
    print(f"{ids.shape[0]} x {ids.shape[1]}", file=sys.stderr, flush=True)
    return found


def table(measured: dict) -> list[str]:
    names = list(next(iter(measured.values())))
    lines = [f"| rows | length | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for (rows, length), found in measured.items():
        reference = np.median(found["onnxruntime"]) if "onnxruntime" in found else None
        cells = []
        for name in names:
            text = " / ".join(f"{np.percentile(found[name], percent):.3g}" for percent in PERCENTILES)
            ratio = f": {reference / np.median(found[name]):.2f}" if reference and name != "onnxruntime" else ""
            cells.append(text + ratio)
        lines.append(f"| {rows} | {length} | {' | '.join(cells)} |")
    return lines


def draw(measured: dict, path: str) -> None:
    """Draws the medians of each side, case by case."""
    from benchmarks.pictures import save_figure, subplots

    figure, axes = subplots()
    for name in next(iter(measured.values())):
        axes.plot([np.median(found[name]) for found in measured.values()], "o-", label=name)
    axes.set_xticks(range(len(measured)), [f"{rows} x {length}" for rows, length in measured])
    axes.set(yscale="log", ylabel="milliseconds, median", xlabel="rows x length")
    axes.legend()
    save_figure(figure, path)


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
