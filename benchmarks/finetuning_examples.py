"""The recipes, flags, examples and result files of the fine-tuning comparison in plain Python, for both sides.

This module needs neither TensorFlow nor torch nor keras_bert: `benchmarks.transformers_finetuning` runs in an
environment without our packages, and reading with our own code would not test our readers.
"""

import argparse
import csv
import dataclasses
import json
import os
import pathlib

# Rows of CODAH whose number is divisible by this are held out.
CODAH_FIFTH = 5
NUM_SQUAD_TRAIN = 8000
NUM_SQUAD_DEV = 2000


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The settings of a task, the same on both sides.

    Attributes:
        epochs, batch_size, max_seq_length: as named; a batch of CODAH counts questions of four rows each.
        seeds: the seeds of the runs.
        scores: names of the scores in the table; the first is compared.
    """

    epochs: int
    batch_size: int
    max_seq_length: int
    seeds: tuple[int, ...]
    scores: tuple[str, ...]


PEAK_RATE = 5e-5
WARMUP_PART = 0.1
WEIGHT_DECAY = 0.01
MAX_GRADIENT_NORM = 1.0

RECIPES = {
    "MRPC": Recipe(3, 32, 128, (1, 2, 3), ("dev accuracy", "dev F1")),
    "CoLA": Recipe(3, 32, 128, (1, 2, 3), ("dev Matthews",)),
    "WNUT-17": Recipe(3, 32, 128, (1, 2, 3), ("dev entity F1", "test entity F1")),
    "SQuAD": Recipe(1, 32, 256, (1,), ("dev F1", "dev EM")),
    "CODAH": Recipe(3, 16, 128, (1,), ("dev accuracy",)),
    "SST-2": Recipe(1, 32, 128, (1,), ("dev accuracy",)),
}
DOC_STRIDE = 128
MAX_QUERY_LENGTH = 64
MAX_ANSWER_LENGTH = 30
N_BEST_SIZE = 20


def parser_of_side(description: str) -> argparse.ArgumentParser:
    """Returns the flags that both sides have."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--model", type=pathlib.Path, required=True, help="checkpoint to start from")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder with glue, wnut17, squad and codah")
    parser.add_argument("--task", choices=sorted(RECIPES), required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--output", type=pathlib.Path, help="JSON file to write")
    parser.add_argument("--steps_on_request", type=int, help="instead train so many steps for each line of input")
    return parser


def write_result(arguments: argparse.Namespace, side: str, measured: dict, predictions: dict) -> None:
    """Writes what a side has measured and predicted; the file appears complete or not at all."""
    names = [name for name in ("task", "seed", "threads", "optimizer", "precision") if name in arguments]
    settings = {name: getattr(arguments, name) for name in names}
    partial = arguments.output.with_suffix(".partial")
    result = {"side": side, **settings, **measured, "predictions": predictions}
    partial.write_text(json.dumps(result, ensure_ascii=False), encoding="utf-8")
    os.replace(partial, arguments.output)


def read_classification(data: pathlib.Path, task: str, split: str) -> tuple[list[str], list[str] | None, list[int]]:
    """Returns texts, second texts (None for single ones) and labels of a GLUE task; `split` is train or dev."""
    path = data / "glue" / task / f"{split}.tsv"
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if task == "CoLA":
        return [row[3] for row in rows], None, [int(row[1]) for row in rows]
    rows = rows[1:]
    if task == "MRPC":
        return [row[3] for row in rows], [row[4] for row in rows], [int(row[0]) for row in rows]
    return [row[0] for row in rows], None, [int(row[1]) for row in rows]


WNUT_FILES = {"train": "wnut17train.conll", "dev": "emerging.dev.conll", "test": "emerging.test.annotated"}


def read_tagged_sentences(data: pathlib.Path, split: str) -> tuple[list[list[str]], list[list[str]]]:
    """Returns the words and the tags of every sentence of WNUT-17; `split` is train, dev or test."""
    words, tags, sentences = [], [], []
    for line in (data / "wnut17" / WNUT_FILES[split]).read_text(encoding="utf-8").split("\n") + [""]:
        if line.strip():
            word, tag = line.rstrip("\r").split("\t")[:2]
            words.append(word)
            tags.append(tag.strip())
        elif words:
            sentences.append((words, tags))
            words, tags = [], []
    return [words for words, _ in sentences], [tags for _, tags in sentences]


def read_multiple_choice(data: pathlib.Path, split: str) -> tuple[list[str], list[list[str]], list[int]]:
    """Returns prompts, their four choices, and the index of the right one; every fifth question of CODAH is dev."""
    with open(data / "codah" / "full_data.tsv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = [row for number, row in enumerate(rows) if (number % CODAH_FIFTH == 0) == (split == "dev")]
    return [row[1] for row in rows], [row[2:6] for row in rows], [int(row[6]) for row in rows]


SQUAD_FILES = {"train": ("train-v1.1-subset.json", NUM_SQUAD_TRAIN), "dev": ("dev-v1.1.json", NUM_SQUAD_DEV)}


def read_questions(data: pathlib.Path, split: str) -> list[dict]:
    """Returns the first questions of SQuAD 1.1: dicts of `id`, `question`, `context`, `answers` as in the file."""
    name, count = SQUAD_FILES[split]
    articles = json.loads((data / "squad" / name).read_text(encoding="utf-8"))["data"]
    questions = [
        {"id": question["id"], "question": question["question"], "context": paragraph["context"]}
        | {"answers": question["answers"]}
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    return questions[:count]
