"""What the variants of an export cost and lose: size on disk, time of a request, accuracy.

  python -m benchmarks.export_variants --model_dir=runs/sst2/model --data=glue/SST-2/dev.tsv

The model is a classifier; the file has the columns `sentence` and `label`, as those of GLUE. Requests are sentences of
the file, one or eight at a time, called through the SavedModel's signature in this process, the variants in turns;
printed are medians.
"""

import csv
import os
import statistics
import tempfile
import time

from absl import flags

from keras_bert.command_line import run_command
from keras_bert.errors import InputError

FLAGS = flags.FLAGS
VARIANTS = {
    "float32": {"dtype": "float32"},
    "bfloat16": {"dtype": "bfloat16"},
    "int8": {"weights": "int8"},
    "int8 computed": {"compute": "int8"},
}
BATCH_SIZES = (1, 8)


def define_flags() -> None:
    flags.DEFINE_string("model_dir", None, "The model folder of a classifier.", required=True)
    flags.DEFINE_string("data", None, "A TSV file with the columns sentence and label.", required=True)
    flags.DEFINE_integer("max_seq_length", 128, "Longer sentences are cut to so many tokens.")
    flags.DEFINE_integer("requests", 200, "Timed requests of each size.", lower_bound=1)
    flags.DEFINE_integer("examples", None, "Only so many sentences; the default is all.")


def main() -> None:
    sentences, labels = read_sentences(FLAGS.data, FLAGS.examples)
    from keras_bert.checkpoints.pretrained import from_pretrained
    from keras_bert.serving.ask import SavedModel
    from keras_bert.serving.export import export_for_serving

    model = from_pretrained(None, FLAGS.model_dir)
    with tempfile.TemporaryDirectory() as folder:
        exported = {}
        for name, options in VARIANTS.items():
            path = os.path.join(folder, name)
            exported[name] = export_for_serving(model, path, max_seq_length=FLAGS.max_seq_length, **options)
        loaded = {name: SavedModel(path) for name, path in exported.items()}
        times = {size: _milliseconds(loaded, sentences, size) for size in BATCH_SIZES}
        print(f"{'':10}{'megabytes':>12}{'ms, 1 text':>12}{'ms, 8 texts':>12}{'accuracy':>12}{'differing':>12}")
        answers = {name: _labels(variant, sentences) for name, variant in loaded.items()}
        for name, found in answers.items():
            right = statistics.mean(map(str.__eq__, found, labels))
            differing = sum(map(str.__ne__, found, answers["float32"]))
            milliseconds = "".join(f"{times[size][name]:12.2f}" for size in BATCH_SIZES)
            print(f"{name:10}{_megabytes(exported[name]):12.1f}{milliseconds}{right:12.4f}{differing:12d}")
    print(f"{len(sentences)} sentences; differing: labels other than those of float32")


def read_sentences(path: str, most: int | None = None) -> tuple[list[str], list[str]]:
    """Returns the columns `sentence` and `label` of a TSV file."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[:most]
    if not rows or not {"sentence", "label"} <= rows[0].keys():
        raise InputError(f"{path} must be a TSV file with the columns sentence and label.")
    return [row["sentence"] for row in rows], [row["label"] for row in rows]


def _labels(model, sentences: list[str]) -> list[str]:
    starts = range(0, len(sentences), 32)
    answers = [answer for start in starts for answer in model.ask(sentences[start : start + 32])]
    return [answer.probabilities[0][0] for answer in answers]


def _milliseconds(models: dict, sentences: list[str], size: int) -> dict[str, float]:
    """Returns the median time of a request of `size` sentences."""
    import tensorflow as tf

    signatures = {name: model._signature for name, model in models.items()}
    found: dict[str, list[float]] = {name: [] for name in models}
    for number in range(FLAGS.requests + 5):
        start = number * size % max(len(sentences) - size, 1)
        texts = tf.constant(sentences[start : start + size])
        for name, signature in signatures.items():
            begin = time.perf_counter()
            signature(text=texts)["probabilities"].numpy()
            if number >= 5:  # the first ones build what later ones use
                found[name].append(1000 * (time.perf_counter() - begin))
    return {name: statistics.median(times) for name, times in found.items()}


def _megabytes(folder: str) -> float:
    files = (os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return sum(map(os.path.getsize, files)) / 1e6


if __name__ == "__main__":
    run_command(main, define_flags)
