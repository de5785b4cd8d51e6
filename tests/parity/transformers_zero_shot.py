"""Writes scores of transformers' pipeline "zero-shot-classification", for test_zero_shot_parity.py.

    python transformers_zero_shot.py OUTPUT.json ARGUMENTS.json FOLDER ...

ARGUMENTS is a list of arguments of the pipeline. OUTPUT has, for each folder and each of these, label -> score for each
text.
"""

import json
import sys

from transformers import pipeline

LENGTH = 24  # of rows, in tokens


def main(output: str, arguments: str, *folders: str) -> None:
    with open(arguments, encoding="utf-8") as file:
        calls = json.load(file)
    found = []
    for folder in folders:
        ask = pipeline("zero-shot-classification", model=folder, device=-1)
        ask.tokenizer.model_max_length = LENGTH  # not all folders name a length
        found.append([[dict(zip(row["labels"], row["scores"], strict=True)) for row in ask(**call)] for call in calls])
    with open(output, "w", encoding="utf-8") as file:
        json.dump(found, file)


main(*sys.argv[1:])
