"""Measures the variants of an export: size on disk, time of a request, accuracy.

  python -m benchmarks.export_variants --model_dir=runs/sst2/model --data=glue/SST-2/dev.tsv
  python -m benchmarks.export_variants --model_dir=runs/squad/model --data=squad/dev-v1.1.json --examples=500

For a classifier, the file has the columns `sentence` and `label`, as files of GLUE have. For a question-answering
model, it is a file of SQuAD: its questions are shuffled, the first `--examples` are used, and the score is F1. Requests
have one or eight examples of the file: texts in, answers out, in this process. SavedModels have the tokenizer in their
graph; for the other formats it runs in Python. The variants take turns; the output has medians of the time and, below
it, of the processor's time, which other work on the machine changes less.
"""

import csv
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable

from absl import flags

from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS
VARIANTS = {
    "float32": {"dtype": "float32"},
    "float32 core": {"dtype": "float32", "core_operations": True},
    "bfloat16": {"dtype": "bfloat16"},
    "int8 stored": {"weights": "int8"},
    "litert": {"format": "litert"},
    "litert int8": {"format": "litert", "weights": "int8"},
    "onnx": {"format": "onnx"},
    "onnx int8": {"format": "onnx", "weights": "int8"},
}
BATCH_SIZES = (1, 8)


def define_flags() -> None:
    flags.DEFINE_string(
        "model_dir", None, "The model folder of a classifier, or of one that answers questions.", required=True
    )
    flags.DEFINE_string("data", None, "A TSV file with the columns sentence and label, or SQuAD.", required=True)
    flags.DEFINE_integer("max_seq_length", 128, "Longer sentences are cut to so many tokens.")
    flags.DEFINE_multi_enum("variants", list(VARIANTS), list(VARIANTS), "Which variants; float32 is always measured.")
    flags.DEFINE_integer("requests", 200, "Timed requests of each size.", lower_bound=1)
    flags.DEFINE_integer("examples", None, "Only so many sentences or questions; the default is all.")


def main() -> None:
    from keras_bert.checkpoints.pretrained import from_pretrained
    from keras_bert.serving.export import export_for_serving
    from keras_bert.tasks.question_answering.model import SpanClassifier

    model = from_pretrained(None, FLAGS.model_dir)
    if isinstance(model, SpanClassifier):
        columns, score = read_questions(FLAGS.data, FLAGS.examples)
    else:
        columns, score = read_sentences(FLAGS.data, FLAGS.examples)
    with tempfile.TemporaryDirectory() as folder:
        exported = {}
        for name in dict.fromkeys(["float32", *FLAGS.variants]):
            path = os.path.join(folder, name)
            exported[name] = export_for_serving(model, path, max_seq_length=FLAGS.max_seq_length, **VARIANTS[name])
        ask = {name: _asking(path, VARIANTS[name]) for name, path in exported.items()}
        times = {size: _milliseconds(ask, columns, size) for size in BATCH_SIZES}
        answers = {name: _answers(ask[name], columns) for name in ask}
        print(f"{'':16}{'megabytes':>12}{'ms, 1 text':>12}{'ms, 8 texts':>12}{'score':>12}{'differing':>12}")
        for name, found in answers.items():
            differing = sum(map(str.__ne__, found, answers["float32"]))
            clock, processor = (
                "".join(f"{times[size][name][which]:12.2f}" for size in BATCH_SIZES) for which in (0, 1)
            )
            print(f"{name:16}{_megabytes(exported[name]):12.1f}{clock}{score(found):12.4f}{differing:12d}")
            print(f"{'  of the processor':28}{processor}")
    print(f"{len(found)} texts; differing: answers other than those of float32")


def read_sentences(path: str, most: int | None = None) -> tuple[dict, Callable]:
    """Returns the column `text` of a TSV file, and a function that computes the share of right labels."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[:most]
    if not rows or not {"sentence", "label"} <= rows[0].keys():
        raise InputError(f"{path} must be a TSV file with the columns sentence and label.")
    labels = [row["label"] for row in rows]
    return {"text": [row["sentence"] for row in rows]}, lambda found: statistics.mean(map(str.__eq__, found, labels))


def read_questions(path: str, most: int | None = None) -> tuple[dict, Callable]:
    """Returns the columns `question` and `context` of a SQuAD file, and a function that computes F1, from 0 to 1."""
    from data_prep.finetuning.squad import read_squad
    from keras_bert.tasks.question_answering.scores import squad_scores

    examples = read_squad(path)
    order = random.Random(1).sample(range(len(examples.ids)), len(examples.ids))[:most]
    answers = {examples.ids[place]: [answer.text for answer in examples.answers[place]] for place in order}

    def score(found):
        return (
            squad_scores(answers, dict(zip(answers, found, strict=True)), as_in_1_1=all(answers.values()))["f1"] / 100
        )

    columns = {"question": examples.questions, "context": examples.contexts}
    return {name: [texts[place] for place in order] for name, texts in columns.items()}, score


def _asking(path: str, options: dict) -> Callable:
    """Loads an export, and returns the function columns -> answers."""
    from keras_bert.serving import load

    model = load(path)
    if "format" in options:

        def predict(columns):
            texts = tuple(columns.values())
            found = model.predict(texts if len(texts) > 1 else texts[0])
            return [answer.label if hasattr(answer, "label") else answer.text for answer in found]

        return predict

    def answer(columns):
        outputs = model.signatures["serving_default"](**columns)
        return [text.decode() for text in outputs["answer" if "answer" in outputs else "label"]]

    return answer


def _part(columns: dict, start: int, size: int) -> dict:
    return {name: texts[start : start + size] for name, texts in columns.items()}


def _answers(ask: Callable, columns: dict) -> list[str]:
    starts = range(0, len(next(iter(columns.values()))), 16)
    return [answer for start in starts for answer in ask(_part(columns, start, 16))]


def _milliseconds(ask: dict[str, Callable], columns: dict, size: int) -> dict[str, list[float]]:
    """Returns the median times of a request of `size` texts, by the clock and of the processor."""
    found: dict[str, list[tuple]] = {name: [] for name in ask}
    count = len(next(iter(columns.values())))
    for number in range(FLAGS.requests + 5):
        texts = _part(columns, number * size % max(count - size, 1), size)
        for name, answers_of in ask.items():
            begin = time.perf_counter(), time.process_time()
            answers_of(texts)
            if number >= 5:  # the first requests are slow: they compile and fill caches
                found[name].append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    return {
        name: [1000 * statistics.median(column) for column in zip(*times, strict=True)] for name, times in found.items()
    }


def _megabytes(folder: str) -> float:
    files = (os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return sum(map(os.path.getsize, files)) / 1e6


if __name__ == "__main__":
    run_command(main, define_flags)
