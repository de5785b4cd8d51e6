"""The flags and the texts that both sides of `search_training_speed` share."""

import argparse


def arguments_of_side(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--kind", choices=["SPLADE", "multi-vector"], required=True)
    parser.add_argument("--model", required=True, help="a masked LM in the format of transformers")
    parser.add_argument("--pairs", required=True, help="a file whose last two columns are queries and documents")
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--length", type=int, required=True, help="documents are cut to this many tokens")
    parser.add_argument("--steps", type=int, required=True, help="steps in a turn")
    return parser.parse_args()


def read_pairs(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Returns the queries and the documents of the first batch."""
    with open(arguments.pairs, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t")[-2:] for line, _ in zip(file, range(arguments.batch_size), strict=False)]
    return [row[0] for row in rows], [row[1] for row in rows]
