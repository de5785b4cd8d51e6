"""What contextual vectors and sentence embeddings are worth, measured on real text.

Senses: occurrences of two words in the Wikipedia corpus, labelled by hand (`word_sense_labels.tsv`): how often the
nearest other occurrence has the same sense, and how often groups found without labels agree with them. Sentences: the
dev set of MRPC: how well similarity tells paraphrases from others, and how often the paraphrase of a sentence is the
first that `VectorIndex` finds among all second sentences.

    python -m benchmarks.embedding_quality --init_checkpoint=minilm --corpus=wikipedia_articles.txt --mrpc=MRPC/dev.tsv
"""

import csv
import pathlib

import numpy as np
from absl import flags

from data_prep.text.sentences import split_sentences
from keras_bert.embeddings.text_vectors import sentence_embeddings
from keras_bert.embeddings.vector_index import VectorIndex
from keras_bert.embeddings.word_senses import cluster, nearest_neighbour_accuracy, project, word_vectors
from keras_bert.program.command_line import run_command

LABELS = pathlib.Path(__file__).with_name("word_sense_labels.tsv")
LAYERS = {"first layer": (0,), "last layer": (-1,), "last four layers": (-1, -2, -3, -4)}


def define_flags() -> None:
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint of a sentence encoder.", required=True)
    flags.DEFINE_string("corpus", None, "The Wikipedia corpus.", required=True)
    flags.DEFINE_string("mrpc", None, "dev.tsv of MRPC.", required=True)


def labelled_sentences(corpus: str) -> dict[str, tuple[list[str], list[str]]]:
    """Returns word -> (sentences, senses)."""
    paragraphs = pathlib.Path(corpus).read_text("utf-8").split("\n")
    found: dict[str, tuple[list[str], list[str]]] = {}
    with open(LABELS, encoding="utf-8") as file:
        for word, sense, part in list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]:
            paragraph = next(paragraph for paragraph in paragraphs if part in paragraph)
            sentence = next(sentence for sentence in split_sentences(paragraph) if part in sentence)
            sentences, senses = found.setdefault(word, ([], []))
            sentences.append(sentence)
            senses.append(sense)
    return found


def measure_senses(encoder, word: str, sentences: list[str], senses: list[str]) -> None:
    for name, layers in LAYERS.items():
        found = word_vectors(encoder, sentences, word, layers=layers)
        truth = np.array([senses[one.text_number] for one in found.occurrences])
        kinds = sorted(set(truth))
        groups = cluster(found.vectors, len(kinds))
        agreement = sum(max(np.sum(truth[groups == group] == kind) for kind in kinds) for group in set(groups))
        largest = max(np.mean(truth == kind) for kind in kinds)
        print(
            f"{word}, {name}: {len(truth)} occurrences, largest sense {largest:.3f}, nearest neighbour "
            f"{nearest_neighbour_accuracy(found.vectors, truth):.3f}, in the plane "
            f"{nearest_neighbour_accuracy(project(found.vectors), truth):.3f}, groups {agreement / len(truth):.3f}"
        )


def measure_paraphrases(encoder, path: str) -> None:
    with open(path, encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    first, second = ([row[f"#{number} String"] for row in rows] for number in (1, 2))
    is_paraphrase = np.array([row["Quality"] == "1" for row in rows])
    index = VectorIndex.build(encoder, second)
    vectors = sentence_embeddings(encoder, first)
    scores = np.sum(vectors * index.vectors, axis=1)
    positive, negative = scores[is_paraphrase], scores[~is_paraphrase]
    ranked_right = np.mean(positive[:, None] > negative) + np.mean(positive[:, None] == negative) / 2
    best, _ = index.nearest(vectors, 1)
    recall = np.mean(best[is_paraphrase, 0] == np.flatnonzero(is_paraphrase))
    print(
        f"MRPC dev, {len(rows)} pairs: area under the ROC curve {ranked_right:.3f}; paraphrase found first among "
        f"{len(index)}: {recall:.3f}"
    )


def main() -> None:
    from keras_bert.models.encoder import BertEncoder

    arguments = flags.FLAGS
    encoder = BertEncoder.from_pretrained(arguments.init_checkpoint, output_hidden_states=True)
    for word, (sentences, senses) in labelled_sentences(arguments.corpus).items():
        measure_senses(encoder, word, sentences, senses)
    measure_paraphrases(encoder, arguments.mrpc)


if __name__ == "__main__":
    run_command(main, define_flags)
