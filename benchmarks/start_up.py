"""Measures how long it takes until something happens: imports, building, loading, first calls, exports, commands.

    python -m benchmarks.start_up --environments=.venv-benchmark
    python -m benchmarks.start_up --sizes=base --programs=ours_predict,transformers_predict

For each size a classifier with random weights is written in all formats. Then every program of
`benchmarks.start_up_stages` runs in a process of its own, one after the other, as often as --turns says; a first turn
fills the disk cache and does not count. Beside ours are `import tensorflow` alone, transformers with torch (whose model
has the same weights), and KerasHub (with random weights, which it has no files to load from). Commands are timed from
outside, from their start to their end; the server until it says that its model is ready. Printed are medians, the
smallest and largest value, and the ratio to `import tensorflow`, with which every turn begins.

The other engines' Pythons are ENVIRONMENTS/torch/bin/python and ENVIRONMENTS/keras_hub/bin/python; what is not there is
left out, and said.
"""

import contextlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from absl import flags

from benchmarks.pictures import save_figure, subplots
from benchmarks.start_up_stages import LABELS, PROGRAMS
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS

SIZES = {
    "tiny": {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512},
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
}
VOCABULARY_SIZE = 30_522
# Program -> the environment whose Python runs it; the others run in this one.
OTHER_PYTHONS = {"transformers_predict": "torch", "keras_hub_predict": "keras_hub"}
# These do not depend on a model.
WITHOUT_MODEL = ("import_tensorflow", "import_keras", "import_keras_bert")
COMMANDS = ("run_pretraining", "run_classifier", "export_saved_model", "serve")
# What a program does only to come to what is measured.
PREPARATION = "before"
BASELINE = ("-", "import_tensorflow", "import tensorflow")


def define_flags() -> None:
    flags.DEFINE_list("sizes", ["minilm", "base"], f"Some of {', '.join(SIZES)}.")
    flags.DEFINE_list("programs", [*PROGRAMS, "commands"], "What is measured.")
    flags.DEFINE_integer("turns", 5, "How often each program runs and counts.", lower_bound=1)
    flags.DEFINE_string("environments", ".venv-benchmark", "The folder of the other engines' environments.")
    flags.DEFINE_string("plot", "", "Where a picture goes; empty: none.")
    flags.DEFINE_boolean("quick", False, "A smoke run: the tiny size, one turn.")


def main() -> None:
    sizes, turns = (["tiny"], 1) if FLAGS.quick else (FLAGS.sizes, FLAGS.turns)
    unknown = [*set(sizes) - set(SIZES), *set(FLAGS.programs) - {*PROGRAMS, "commands"}]
    if unknown:
        raise InputError(
            f"There is no {', '.join(unknown)}. Sizes: {', '.join(SIZES)}. Programs: {', '.join(PROGRAMS)}"
        )
    chosen = [name for name in PROGRAMS if name in FLAGS.programs]
    pythons = {name: _python(name) for name in chosen}
    missing = [name for name in chosen if not os.path.exists(pythons[name])]
    chosen = [name for name in chosen if name not in missing]
    seconds: dict[tuple[str, str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as work:
        for size in sizes:
            _write_models(size, os.path.join(work, size), ["torch"] if "transformers_predict" in chosen else [])
        if not FLAGS.quick:
            _turn(work, sizes, chosen, pythons)
        for _ in range(turns):
            for key, value in _turn(work, sizes, chosen, pythons).items():
                seconds.setdefault(key, []).append(value)
    print("\n".join(_table(seconds)))
    for name in missing:
        print(f"\n{name} was left out: there is no {os.path.relpath(pythons[name])}.")
    if FLAGS.plot:
        _draw(seconds, FLAGS.plot)


def _python(program: str) -> str:
    environment = OTHER_PYTHONS.get(program)
    return (
        os.path.join(os.path.abspath(FLAGS.environments), environment, "bin", "python")
        if environment
        else sys.executable
    )


def _write_models(size: str, folder: str, others: list[str]) -> None:
    """Writes a classifier with random weights: model folder, Hugging Face's and Google's formats, and an export."""
    from keras_bert import BertConfig, BertEncoder, SequenceClassifier, Vocabulary

    words = [f"w{number}" for number in range(VOCABULARY_SIZE - 5 - 26)]
    letters = [chr(ord("a") + number) for number in range(26)]
    vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *words])
    config = BertConfig(vocab_size=VOCABULARY_SIZE, **SIZES[size])
    model = SequenceClassifier(config, labels=LABELS)
    model.vocabulary = vocabulary
    with contextlib.redirect_stdout(sys.stderr):
        model.save_pretrained(os.path.join(folder, "ours"))
        model.save_pretrained(os.path.join(folder, "hugging_face"), format="huggingface")
        encoder = BertEncoder(config)
        encoder.vocabulary = vocabulary
        encoder.save_pretrained(os.path.join(folder, "google"), format="google")
        model.export_for_serving(os.path.join(folder, "export"))


def _turn(work: str, sizes: list[str], programs: list[str], pythons: dict[str, str]) -> dict:
    """Runs everything once: (size, program, stage) -> seconds."""
    measured = {}
    for size in ["-", *sizes]:
        for name in programs:
            if (size == "-") == (name in WITHOUT_MODEL):
                folder = os.path.join(work, sizes[0] if size == "-" else size)
                for stage, value in _run(pythons[name], name, folder).items():
                    if stage != PREPARATION:
                        measured[size, name, stage] = value
        if "commands" in FLAGS.programs:
            measured |= (
                _commands()
                if size == "-"
                else {(size, "commands", "serve, until the model is ready"): _serve(work, size)}
            )
    return measured


def _run(python: str, program: str, folder: str) -> dict[str, float]:
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1", "KERAS_BACKEND": "tensorflow"}
    command = [python, "-m", "benchmarks.start_up_stages", program, folder]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise InputError(f"{program} failed: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def _commands() -> dict:
    measured = {}
    for name in COMMANDS:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", f"run_scripts.{name}", "--help"], capture_output=True)
        measured["-", "commands", f"{name} --help"] = time.perf_counter() - start
    return measured


def _serve(work: str, size: str) -> float:
    start = time.perf_counter()
    command = [sys.executable, "-m", "run_scripts.serve", f"model={os.path.join(work, size, 'export')}", "--port=0"]
    server = subprocess.Popen(
        [*command, "--grpc_port=-1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        port = int(re.search(r":(\d+)/$", server.stdout.readline())[1])
        while not _is_ready(port):
            time.sleep(0.01)
        return time.perf_counter() - start
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz/ready") as answer:
            return answer.status == 200
    except urllib.error.HTTPError:
        return False


def _table(seconds: dict) -> list[str]:
    from importlib.metadata import version

    baseline = statistics.median(seconds[BASELINE]) if BASELINE in seconds else None
    turns = len(next(iter(seconds.values())))
    lines = [
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, TensorFlow "
        f"{version('tensorflow')}, Keras {version('keras')}, {time.strftime('%Y-%m-%d')}; medians of {turns} turns.",
        "",
        "| size | program | stage | seconds | smallest - largest | times `import tensorflow` |",
        "|---|---|---|---|---|---|",
    ]
    for (size, program, stage), values in seconds.items():
        median = statistics.median(values)
        ratio = f"{median / baseline:.2f}" if baseline else ""
        extremes = f"{min(values):.2f} - {max(values):.2f}"
        lines.append(f"| {size} | {program.replace('_', ' ')} | {stage} | {median:.2f} | {extremes} | {ratio} |")
    return lines


def _draw(seconds: dict, path: str) -> None:
    """Draws a bar for each program and size, of its stages one after the other."""
    bars = {}
    for (size, program, stage), values in seconds.items():
        if program != "commands":
            bars.setdefault(f"{program.replace('_', ' ')} {size}".removesuffix(" -"), {})[stage] = statistics.median(
                values
            )
    colours = {
        stage: f"C{number % 10}" for number, stage in enumerate({s: 0 for stages in bars.values() for s in stages})
    }
    figure, axis = subplots(figsize=(9, 0.32 * len(bars) + 1.6))
    drawn = set()
    for place, stages in enumerate(bars.values()):
        left = 0.0
        for stage, value in stages.items():
            axis.barh(place, value, left=left, color=colours[stage], label=None if stage in drawn else stage)
            drawn.add(stage)
            left += value
    axis.set_yticks(range(len(bars)), list(bars))
    axis.invert_yaxis()
    axis.set_xlabel("seconds")
    axis.legend(fontsize=7)
    figure.tight_layout()
    save_figure(figure, path)


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
