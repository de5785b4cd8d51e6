"""Measures few-shot classification beside SetFit and beside a logistic regression on frozen vectors.

    python -m benchmarks.few_shot_quality --model=all-MiniLM-L6-v2 --data=glue/SST-2 --side=ours
    /path/to/python -m benchmarks.few_shot_quality --model=all-MiniLM-L6-v2 --data=glue/SST-2 --side=setfit

A draw is --shots texts for each label of train.tsv; all sides get the same draws, one epoch and batches of 16 pairs.
Printed is the accuracy on dev.tsv of each draw, then the mean and the standard deviation. The side `setfit` needs
setfit and NumPy only.
"""

import argparse
import pathlib

import numpy as np


def read_table(path):
    rows = [line.rstrip("\n").split("\t") for line in path.read_text("utf-8").splitlines()][1:]
    return [row[0].strip() for row in rows], [row[1] for row in rows]


def our_answers(arguments, texts, labels, questions, seed):
    from keras_bert import SentenceClassifier

    model = SentenceClassifier.from_pretrained(arguments.model, labels=sorted(set(labels)))
    model.fit_few_shot(texts, labels, seed=seed, verbose=0)
    return [answer.label for answer in model.predict(questions, verbose=0)]


def frozen_answers(arguments, texts, labels, questions, seed):
    from sklearn.linear_model import LogisticRegression

    from keras_bert import SentenceEncoder

    encoder = SentenceEncoder.from_pretrained(arguments.model)
    return LogisticRegression().fit(encoder.encode(texts), labels).predict(encoder.encode(questions)).tolist()


def setfit_answers(arguments, texts, labels, questions, seed):
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    names = sorted(set(labels))
    settings = TrainingArguments(batch_size=16, num_epochs=1, seed=seed, report_to="none", save_strategy="no")
    examples = Dataset.from_dict({"text": texts, "label": [names.index(label) for label in labels]})
    model = SetFitModel.from_pretrained(arguments.model)
    Trainer(model=model, args=settings, train_dataset=examples).train()
    return [names[int(number)] for number in model.predict(questions)]


SIDES = {"ours": our_answers, "frozen": frozen_answers, "setfit": setfit_answers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a folder of sentence-transformers")
    parser.add_argument("--data", required=True, type=pathlib.Path, help="the folder of SST-2")
    parser.add_argument("--side", choices=SIDES, default="ours")
    parser.add_argument("--shots", type=int, default=8)
    parser.add_argument("--draws", type=int, default=10)
    arguments = parser.parse_args()
    (texts, labels), (questions, right) = (read_table(arguments.data / f"{part}.tsv") for part in ("train", "dev"))
    found = []
    for draw in range(arguments.draws):
        order = np.random.default_rng(draw).permutation(len(texts))
        by_label = [[i for i in order if labels[i] == name][: arguments.shots] for name in sorted(set(labels))]
        chosen = [int(i) for numbers in by_label for i in numbers]
        given = [texts[i] for i in chosen], [labels[i] for i in chosen]
        answers = SIDES[arguments.side](arguments, *given, questions, draw)
        found.append(float(np.mean([one == other for one, other in zip(answers, right, strict=True)])))
        print(f"draw {draw}: {found[-1]:.4f}", flush=True)
    print(f"{arguments.side}: {np.mean(found):.4f} (standard deviation {np.std(found):.4f})")


if __name__ == "__main__":
    main()
