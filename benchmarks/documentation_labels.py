"""Says how easily the label of the quickstart's documentation data is read off single words.

Prints, for the folder that `run_scripts/documentation_corpus.py` wrote, the accuracy of always answering the most
frequent label, that of a naive Bayes classifier on words (trained on train.tsv, tested on test.tsv), and for each
label the words that tell most of it, by log-odds on all three files.

Command: python -m benchmarks.documentation_labels FOLDER
"""

import math
import os
import re
import sys
from collections import Counter

Examples = list[tuple[str, str]]


def read_examples(folder: str, split: str) -> Examples:
    """Returns the (text, label) rows of one split."""
    with open(os.path.join(folder, f"{split}.tsv"), encoding="utf-8") as file:
        return [tuple(line.rstrip("\n").split("\t")) for line in file][1:]


def words_of(text: str) -> set[str]:
    """Returns the different words of a text, in lower case."""
    return set(re.findall(r"[^\W_]+|@", text.lower()))


def majority_accuracy(train: Examples, test: Examples) -> float:
    """Returns the accuracy of always answering the label that is most frequent in training."""
    most_frequent = Counter(label for _, label in train).most_common(1)[0][0]
    return sum(label == most_frequent for _, label in test) / len(test)


def naive_bayes_accuracy(train: Examples, test: Examples) -> float:
    """Returns the accuracy of a multinomial naive Bayes classifier on words, with 1 added to each count."""
    counts = word_counts(train)
    labels = Counter(label for _, label in train)
    num_words = len(set().union(*counts.values()))
    totals = {label: sum(counts[label].values()) + num_words for label in labels}

    def score(label: str, words: set[str]) -> float:
        logs = (math.log((counts[label][word] + 1) / totals[label]) for word in words)
        return math.log(labels[label]) + sum(logs)

    right = 0
    for text, label in test:
        words = words_of(text)
        right += label == max(sorted(labels), key=lambda candidate: score(candidate, words))
    return right / len(test)


def word_counts(examples: Examples) -> dict[str, Counter]:
    """Returns label -> word -> number of texts."""
    counts = {label: Counter() for _, label in examples}
    for text, label in examples:
        counts[label].update(words_of(text))
    return counts


def telling_words(examples: Examples, label: str, top: int) -> list[tuple[str, int, int, float]]:
    """Returns (word, texts of this label, texts of others, log-odds), the most telling first.

    Ordered by log-odds times the number of texts of this label: a rare word tells little of a set.
    """
    counts = word_counts(examples)
    texts = Counter(label for _, label in examples)
    num_others = len(examples) - texts[label]
    rows = []
    for word, own in counts[label].items():
        other = sum(counts[name][word] for name in counts if name != label)
        odds = (own + 0.5) / (texts[label] - own + 0.5)
        other_odds = (other + 0.5) / (num_others - other + 0.5)
        rows.append((word, own, other, math.log(odds / other_odds)))
    return sorted(rows, key=lambda row: -row[1] * row[3])[:top]


def main() -> None:
    """Prints the three kinds of numbers."""
    splits = {split: read_examples(sys.argv[1], split) for split in ("train", "dev", "test")}
    train, test = splits["train"], splits["test"]
    print(f"{len(train)} training and {len(test)} test paragraphs")
    print(f"majority rate       {majority_accuracy(train, test):.3f}")
    print(f"naive Bayes, words  {naive_bayes_accuracy(train, test):.3f}")
    everything = [example for examples in splits.values() for example in examples]
    for label in sorted({label for _, label in everything}):
        words = telling_words(everything, label, 25)
        print(f"{label}: " + ", ".join(f"{word} {own}:{other}" for word, own, other, _ in words))


if __name__ == "__main__":
    main()
