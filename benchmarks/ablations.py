"""Measures what each feature of pre-training recipes is worth at equal compute, on models that two cores can train.

    python -m benchmarks.ablations --text=quickstart/text/corpus.txt --task=glue/SST-2 --output_dir=ablations

Each feature changes one thing of the same base: a small BERT with AdamW, batches of 8 rows of 64 tokens, rows filled
with whole sentences, and 30 % masks that are drawn anew. All cells train on --num_train_steps * 8 * 64 tokens. Then
the model is evaluated on held-out documents (15 % masks, the same for all) and fine-tuned on --task. Nothing is tuned.

A cell, a feature with a seed, consists of commands of this project, whose output is in OUTPUT. A finished cell is in
OUTPUT/results.jsonl and is not repeated, so an interrupted run continues. OUTPUT/table.md has the means over the seeds,
the smallest and the largest value, and the difference to the base. It is "beyond" the seeds if all values of the
feature are on the same side of all of the base.
"""

import dataclasses
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
from absl import flags

from benchmarks.sample_text import write_sample
from benchmarks.suite_flags import machine_lines, numbers_of_flag
from benchmarks.tables import table_lines
from data_prep.text.held_out_documents import divide_documents
from data_prep.tokenized.document_filters import left_out_lines
from data_prep.tokenized.tokenized_corpus import TokenizedCorpus
from keras_bert.config import BertConfig
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import read_json_object, write_json

FLAGS = flags.FLAGS
BASE = "base"
ROW, BATCH, VOCABULARY, LABELLED = 64, 8, 4000, 2000
# Records -> flags of create_pretraining_data.
RECORDS = {
    "plain": ["--dynamic_masking"],
    "stored": ["--masked_lm_prob=0.3"],
    "long": ["--dynamic_masking", f"--max_seq_length={2 * ROW}", "--max_sequences_per_row=4"],
    "filtered": ["--dynamic_masking", "--max_tokens_per_character=0.3", "--drop_near_duplicates"],
    "held_out": ["--input_file={data}/text/held_out.txt"],
}


@dataclasses.dataclass(frozen=True)
class Feature:
    """What a feature changes of the base."""

    flags: tuple[str, ...] = ()  # of run_pretraining; {quarter} and {rest} are a quarter and three quarters of updates
    masks: tuple[str, ...] = ("--masked_lm_prob=0.3",)  # its flags for records without masks
    records: str = "plain"
    config: str = "bert"


_LONG_ROWS = ("--input_file_phase2={data}/long/records/*.tfrecord", f"--train_batch_size_phase2={BATCH // 2}")
FEATURES = {
    BASE: Feature(),
    "StableAdamW": Feature(("--optimizer=stable_adamw",)),
    "Muon": Feature(("--optimizer=muon",)),
    "growing batch": Feature(("--batch_growth=2,4", "--batch_growth_steps={quarter}")),
    "falling mask rate": Feature(masks=("--masked_lm_prob=0.45", "--masked_lm_prob_end=0.15")),
    "Megatron's initialisation": Feature(("--initialization=megatron",)),
    "second phase": Feature(("--num_train_steps={rest}", "--num_train_steps_phase2={quarter}", *_LONG_ROWS)),
    "NeoBERT's layers": Feature(config="neobert"),
    "filtered text": Feature(records="filtered"),
    "stored masks": Feature(masks=(), records="stored"),
}


def define_flags() -> None:
    flags.DEFINE_string("text", None, "A text file with blank lines between documents.", required=True)
    flags.DEFINE_string("task", None, "A folder with train.tsv and dev.tsv for run_classifier.", required=True)
    flags.DEFINE_string("output_dir", None, "Where results and logs are written.", required=True)
    flags.DEFINE_list("features", list(FEATURES), f"Some of {', '.join(FEATURES)}.")
    flags.DEFINE_list("seeds", ["1", "2", "3"], "The seeds.")
    flags.DEFINE_integer("text_bytes", 1_500_000, "The first documents of the text are used, up to this size.")
    flags.DEFINE_integer("hidden_size", 128, "The width of the models, a multiple of 32.", lower_bound=32)
    flags.DEFINE_integer("num_layers", 2, "The layers of the models.", lower_bound=1)
    flags.DEFINE_integer("num_train_steps", 1000, "Updates of 8 rows.", lower_bound=4)


def main() -> None:
    if unknown := [name for name in FLAGS.features if name not in FEATURES]:
        raise InputError(f"--features: there is no {', '.join(unknown)}. There are: {', '.join(FEATURES)}")
    seeds, folder = numbers_of_flag("seeds", 0, 2**31 - 1), pathlib.Path(FLAGS.output_dir)
    check_settings(folder)
    prepare(folder)
    for seed in seeds:
        for name in FLAGS.features:
            finish(folder, name, seed)
    print((folder / "table.md").read_text(encoding="utf-8"), end="")


def check_settings(folder: pathlib.Path) -> None:
    """Raises `InputError` if the folder has results of other settings."""
    names = ("text", "task", "text_bytes", "hidden_size", "num_layers", "num_train_steps")
    settings, path = {name: getattr(FLAGS, name) for name in names}, folder / "settings.json"
    if path.exists() and read_json_object(path) != settings:
        raise InputError(f"The results in {folder} are those of other flags: see {path}. Give another --output_dir.")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, settings)


def prepare(folder: pathlib.Path) -> None:
    """Makes text, vocabulary, records, configs and examples, unless they are there."""
    data = folder / "data"
    if (data / "prepared").exists():
        return
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    write_sample(FLAGS.text, data / "sample.txt", FLAGS.text_bytes)
    divide_documents(str(data / "sample.txt"), data / "text", held_out_share=0.1)
    log, vocabulary, train = folder / "prepare.log", data / "vocab.txt", f"--input_file={data}/text/train.txt"
    _run(log, "data_prep.build_vocabulary", train, f"--output_file={vocabulary}", f"--vocab_size={VOCABULARY}")
    form = [f"--vocab_file={vocabulary}", f"--max_seq_length={ROW}", "--sentence_task=none", "--dupe_factor=1"]
    for name, changes in RECORDS.items():
        places = [f"--output_dir={data}/{name}/records", f"--tokenized_corpus={data}/{name}/tokens", "--num_shards=1"]
        changes = [change.format(data=data) for change in changes]
        _run(log, "data_prep.create_pretraining_data", train, *places, *form, *changes)
    vocab_size = len(vocabulary.read_text(encoding="utf-8").splitlines())
    for name, config in configs(vocab_size, FLAGS.hidden_size, FLAGS.num_layers).items():
        config.save(data / f"{name}.json")
    header, *examples = (pathlib.Path(FLAGS.task) / "train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    random.Random(0).shuffle(examples)
    (data / "train.tsv").write_text("".join([header, *examples[:LABELLED]]), encoding="utf-8")
    (data / "prepared").touch()


def configs(vocab_size: int, hidden_size: int, num_layers: int) -> dict[str, BertConfig]:
    """Returns the configs of both models. Three matrices of a gated layer have about the size of BERT's two."""
    common = {"vocab_size": vocab_size, "hidden_size": hidden_size, "num_hidden_layers": num_layers}
    common |= {"num_attention_heads": hidden_size // 32, "max_position_embeddings": 2 * ROW}
    common |= {"initializer_range": 0.04, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    gated = {"intermediate_size": 8 * hidden_size // 24 * 8, "tie_word_embeddings": True, **common}
    bert = BertConfig(intermediate_size=4 * hidden_size, **common)
    return {"bert": bert, "neobert": BertConfig.from_size("neobert", **gated)}


def _run(log: pathlib.Path, module: str, *arguments: str) -> float:
    """Runs a command of the project and returns its processor time in seconds; its output goes to the end of a file."""
    before = sum(os.times()[2:4])  # user and system time of finished child processes
    with open(log, "a", encoding="utf-8") as file:
        command = [sys.executable, "-m", module, *arguments]
        status = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT).returncode
    if status:
        raise InputError(f"{module} ended with {status}: see {log}")
    return sum(os.times()[2:4]) - before


def finish(folder: pathlib.Path, name: str, seed: int) -> None:
    """Trains and scores a cell, unless it is finished."""
    results = read_results(folder)
    if any((result["feature"], result["seed"]) == (name, seed) for result in results):
        return
    print(f"{name}, seed {seed}", file=sys.stderr, flush=True)
    cell, log = folder / "cell", folder / f"{name.replace(' ', '_')}-{seed}.log"
    shutil.rmtree(cell, ignore_errors=True)  # what an interrupted cell has left
    pretraining, classifier = cell_flags(folder, FEATURES[name], seed)
    seconds = _run(log, "run_scripts.run_pretraining", *pretraining)
    _run(log, "run_scripts.run_classifier", *classifier)
    written = [(cell / run / "eval_results.txt").read_text(encoding="utf-8") for run in ("pretraining", "classifier")]
    scores = dict(line.split(" = ") for line in "".join(written).splitlines())
    loss, accuracy = float(scores["masked_lm_loss"]), 100 * float(scores["eval_accuracy"])
    results.append({"feature": name, "seed": seed, "loss": loss, "accuracy": accuracy, "seconds": seconds})
    table = [*machine_lines(), text_line(folder / "data"), "", *result_lines(results)]
    for file_name, lines in (("results.jsonl", map(json.dumps, results)), ("table.md", table)):
        with atomic_file(folder / file_name) as file:
            file.write("".join(f"{line}\n" for line in lines).encode())
    shutil.rmtree(cell)


def cell_flags(folder: pathlib.Path, feature: Feature, seed: int) -> tuple[list[str], list[str]]:
    """Returns the flags of run_pretraining and of run_classifier for a cell."""
    data, steps, both = folder / "data", FLAGS.num_train_steps, ["--do_train", "--do_eval", f"--random_seed={seed}"]
    pretraining = [
        *(f"--input_file={data}/{feature.records}/records/*.tfrecord", f"--output_dir={folder}/cell/pretraining"),
        *(f"--eval_input_file={data}/held_out/records/*.tfrecord", "--eval_batch_size=32", "--max_eval_steps=10000"),
        *(f"--bert_config_file={data}/{feature.config}.json", f"--vocab_file={data}/vocab.txt"),
        *(f"--train_batch_size={BATCH}", "--learning_rate=2e-3", "--adam_beta_2=0.98"),
        *(f"--num_train_steps={steps}", f"--num_warmup_steps={steps // 10}", *feature.masks),
        *(flag.format(data=data, quarter=steps // 4, rest=steps - steps // 4) for flag in feature.flags),
    ]
    classifier = [
        *(f"--train_file={data}/train.tsv", f"--dev_file={FLAGS.task}/dev.tsv", f"--max_seq_length={ROW}"),
        *(f"--init_checkpoint={folder}/cell/pretraining/model", f"--output_dir={folder}/cell/classifier"),
        *("--train_batch_size=32", "--learning_rate=5e-4", "--num_train_epochs=3"),
    ]
    return pretraining + both, classifier + both


def read_results(folder: pathlib.Path) -> list[dict]:
    """Returns the results of finished cells, in the order in which they were finished."""
    path = folder / "results.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def text_line(data: pathlib.Path) -> str:
    """Returns the size of the text, the loss that frequencies alone would give, and what the filters left out."""
    train, held_out, kept = (TokenizedCorpus.open(data / name / "tokens") for name in ("plain", "held_out", "filtered"))
    counts = np.bincount(train.tokens, minlength=len(train.vocabulary)) + 1
    loss = -np.log(counts / counts.sum())[held_out.tokens].mean()
    return (
        f"{train.num_documents:,} documents of {train.num_tokens:,} tokens; each cell trains on "
        f"{FLAGS.num_train_steps * BATCH * ROW:,}. Frequencies alone give a loss of {loss:.3f}. Filters: "
        f"{'; '.join(' '.join(line.split()) for line in left_out_lines(kept.manifest))}."
    )


def result_lines(results: Sequence[dict]) -> list[str]:
    """Returns the lines of the table, and who wins."""
    cells = {name: [result for result in results if result["feature"] == name] for name in FEATURES}
    cells = {name: found for name, found in cells.items() if found}
    rows, means = [], {}
    for name, found in cells.items():
        rows.append([name, str(len(found))])
        for key, digits in (("loss", 3), ("accuracy", 1)):
            values, base = ([cell[key] for cell in cells.get(of, ())] for of in (name, BASE))
            means[name, key] = statistics.fmean(values)
            rows[-1].append(f"{means[name, key]:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})")
            rows[-1].append(difference(values, base, digits) if name != BASE and base else "")
        rows[-1].append(f"{statistics.fmean(cell['seconds'] for cell in found):.0f}")
    columns = ["feature", "seeds", "loss", "to the base", "accuracy", "to the base", "processor s"]
    lowest = min(cells, key=lambda name: means[name, "loss"])
    highest = max(cells, key=lambda name: means[name, "accuracy"])
    return [*table_lines(columns, rows), "", f"Lowest loss: {lowest}. Highest accuracy: {highest}."]


def difference(values: Sequence[float], base: Sequence[float], digits: int) -> str:
    """Returns the difference of the means; from two seeds on also whether all values are on one side of the base.

    >>> difference([5.1, 5.2], [5.4, 5.6], 2), difference([5.1, 5.5], [5.4, 5.6], 2)
    ('-0.35, beyond', '-0.20, within')
    """
    means = f"{statistics.fmean(values) - statistics.fmean(base):+.{digits}f}"
    if min(len(values), len(base)) < 2:
        return means
    return f"{means}, {'beyond' if max(values) < min(base) or min(values) > max(base) else 'within'}"


if __name__ == "__main__":
    run_command(main, define_flags)
