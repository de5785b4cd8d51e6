"""Trains classifiers and taggers on rare labels with each loss and decoding, and prints Markdown tables.

    apt-cache dumpavail > packages
    python -m benchmarks.rare_labels --init_checkpoint=MODEL --packages_file=packages --tagged_files=TRAIN,TEST

Texts are the short descriptions of Debian packages. Labels are every third section by their number of packages, and
the purposes of `Tag: use::...`: a package has several of them. Each number is a mean over the seeds, with the least
and the largest. Scores of several labels are those of thresholds that were tuned on held-out texts.
"""

import collections
import itertools
import random
import re

from absl import flags

from keras_bert.program.command_line import run_command

FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_string("init_checkpoint", None, "An encoder.", required=True)
    flags.DEFINE_string("packages_file", None, "What `apt-cache dumpavail` prints.")
    flags.DEFINE_list("tagged_files", None, "Two files in the form of CoNLL: sentences for training, and for the test.")
    flags.DEFINE_list("keep_layers", ["0", "1"], "The layers of the encoder that are trained; the embeddings are not.")
    flags.DEFINE_integer("num_texts", 3000, "At most this number of packages are drawn.")
    flags.DEFINE_list("seeds", ["1", "2", "3"], "A model is trained with each.")
    flags.DEFINE_integer("epochs", 3, "Epochs.")


def new_model(model_class, labels, **arguments):
    return model_class.from_pretrained(
        FLAGS.init_checkpoint, labels=labels, keep_layers=[int(number) for number in FLAGS.keep_layers], **arguments
    )


def fit(model, seed, texts, labels, **options):
    import keras

    from keras_bert import freeze

    keras.utils.set_random_seed(seed)
    freeze(model, embeddings=True)
    steps = -(-len(labels) // 32) * FLAGS.epochs
    model.compile(keras.optimizers.AdamW(keras.optimizers.schedules.PolynomialDecay(3e-4, steps, 0.0)))
    model.fit(texts, labels, epochs=FLAGS.epochs, batch_size=32, max_seq_length=64, verbose=0, **options)


def packages(key: str, pattern: str) -> list[tuple[str, list[str]]]:
    """Returns the description of each package, and what a pattern finds in its field, in an order drawn at random."""
    with open(FLAGS.packages_file, encoding="utf-8") as file:
        found = {}
        for entry in file.read().split("\n\n"):
            fields = dict(re.findall(r"^([\w-]+): (.*(?:\n .*)*)", entry, re.M))
            if labels := re.findall(pattern, fields.get(key, "")):
                found[fields["Description"].split("\n")[0]] = sorted(set(labels))
    return random.Random(0).sample(sorted(found.items()), len(found))


def split(rows):
    """Returns texts and labels: three fifths for training, a fifth held out, a fifth for the test."""
    rows = rows[: FLAGS.num_texts]
    ends = [len(rows) * fifth // 5 for fifth in (0, 3, 4, 5)]
    return [tuple(map(list, zip(*rows[first:end], strict=True))) for first, end in itertools.pairwise(ends)]


def sections():
    """One label of twelve."""
    from sklearn.metrics import accuracy_score, f1_score

    from keras_bert import SequenceClassifier

    rows = packages("Section", r"^\w+$")
    ranked = [name for name, _ in collections.Counter(names[0] for _, names in rows).most_common()][::3][:12]
    train, _, test = split([(text, names[0]) for text, names in rows if names[0] in ranked])
    print("packages of each section in training:", collections.Counter(train[1]).most_common())
    for name, options in {
        "cross-entropy": {},
        '`class_weight="balanced"`': {"class_weight": "balanced"},
        '`loss="focal"`': {"loss": "focal"},
    }.items():
        for seed in map(int, FLAGS.seeds):
            model = new_model(SequenceClassifier, ranked)
            fit(model, seed, *train, **options)
            found = [answer.label for answer in model.predict(test[0])]
            scores = accuracy_score(test[1], found), f1_score(test[1], found, average="macro")
            yield name, dict(zip(("accuracy", "macro F1"), scores, strict=True))


def purposes():
    """Several labels of a dozen."""
    import numpy as np
    from sklearn.metrics import average_precision_score, f1_score

    from keras_bert import SequenceClassifier
    from keras_bert.tasks.classification.losses import AsymmetricLoss

    rows = packages("Tag", r"use::(\w+)")
    ranked = [name for name, _ in collections.Counter(name for _, names in rows for name in names).most_common()][::2]
    rows = [(text, [name for name in names if name in ranked[:12]]) for text, names in rows]
    ranked = ranked[:12]
    train, held_out, test = split([row for row in rows if row[1]])
    print("packages of each purpose in training:", collections.Counter(sum(train[1], [])).most_common())
    right = np.array([[name in names for name in ranked] for names in test[1]])
    for name, options in {
        "cross-entropy": {},
        '`loss="asymmetric"`': {"loss": "asymmetric"},
        "`AsymmetricLoss(2, 2, clip=0)`, focal": {"loss": AsymmetricLoss(2, 2, clip=0)},
    }.items():
        for seed in map(int, FLAGS.seeds):
            model = new_model(SequenceClassifier, ranked, problem_type="multi_label")
            fit(model, seed, *train, **options)
            model.tune_thresholds(*held_out)
            answers = model.predict(test[0])
            found = np.array([[label in answer.labels for label in ranked] for answer in answers])
            probabilities = np.array([[answer.probabilities[label] for label in ranked] for answer in answers])
            yield (
                name,
                {
                    "micro F1": f1_score(right, found, average="micro"),
                    "macro F1": f1_score(right, found, average="macro"),
                    "mean average precision": average_precision_score(right, probabilities, average="macro"),
                },
            )


def entities():
    """Types of entities, in BIO and in BIOES."""
    from data_prep.finetuning.conll import read_tagged_sentences
    from keras_bert import TokenClassifier
    from keras_bert.tasks.tagging.scores import entity_scores
    from keras_bert.tasks.tagging.tag_schemes import BIO, BIOES, read_entities, write_tags

    train, test = map(read_tagged_sentences, FLAGS.tagged_files)
    for scheme_name, scheme, losses in (("BIO", BIO, (None, "focal")), ("BIOES", BIOES, (None,))):
        tags, right = (
            [write_tags(read_entities(row), len(row), scheme) for row in part.tags] for part in (train, test)
        )
        for loss in losses:
            for seed in map(int, FLAGS.seeds):
                model = new_model(TokenClassifier, sorted({tag for row in tags for tag in row}))
                fit(model, seed, train.words, tags, loss=loss)
                for decoding in ("independent", "viterbi"):
                    model.decoding = decoding
                    found = [answer.tags for answer in model.predict(test.words, max_seq_length=64)]
                    scores = entity_scores(right, found)
                    columns = {"micro F1": scores.micro.f1, "macro F1": scores.macro.f1}
                    yield f"{scheme_name}, {loss or 'cross-entropy'}, {decoding}", columns


def main() -> None:
    from benchmarks.tables import table_lines

    wanted = {sections: FLAGS.packages_file, purposes: FLAGS.packages_file, entities: FLAGS.tagged_files}
    for experiment in filter(wanted.get, wanted):
        rows: dict[str, dict[str, list[float]]] = {}
        for name, scores in experiment():
            print(name, {score: round(value, 4) for score, value in scores.items()}, flush=True)
            for score, value in scores.items():
                rows.setdefault(name, {}).setdefault(score, []).append(value)
        cells = [[name, *(spread(values) for values in scores.values())] for name, scores in rows.items()]
        print("\n".join(table_lines(["", *next(iter(rows.values()))], cells)), flush=True)


def spread(values: list[float]) -> str:
    return f"{sum(values) / len(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
