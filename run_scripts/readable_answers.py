"""Formats the outputs of any exported model for people, with answers marked in their texts. Needs only numpy."""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert import registry
from keras_bert.program.printing import printable

_SHOWN_VALUES = 6


def readable_answers(outputs: Mapping[str, np.ndarray], inputs: Mapping[str, Sequence]) -> list[str]:
    """Returns the text of one answer for each row. Its lines begin with a space, or a star for the chosen choice.

    Args:
        outputs: the outputs of any signature, with rows as the first axis; strings as `str` or `bytes`. Outputs of
            `serving_default` become answers, tokens are shown with their parts of the text, others are listed by name.
        inputs: the inputs of the request, with the same number of rows.

    Example:
        >>> outputs = {"entities": [["Paris"]], "types": [["LOC"]], "starts": [[3]], "ends": [[8]]}
        >>> print(readable_answers({**outputs, "probabilities": [[0.75]]}, {"text": ["in Paris"]})[0])
          in [Paris LOC]
          Paris  LOC  0.7500  3-8
    """
    outputs = {name: np.asarray(values) for name, values in outputs.items()}
    rows = min((len(values) for values in outputs.values() if values.ndim), default=0)
    asked = [{name: values[row] for name, values in inputs.items()} for row in range(rows)]
    answers = registry.served_answers(outputs, inputs) if rows else None
    if answers is not None:
        shown = [_shown(answer, row) for answer, row in zip(answers, asked, strict=True)]
    else:
        show = _tokens if {"input_ids", "starts", "ends"} <= outputs.keys() else _classes_or_values
        shown = [
            show({name: values[row] for name, values in outputs.items() if values.ndim}, asked[row])
            for row in range(rows)
        ]
    return ["\n".join(map(printable, answer.split("\n"))) for answer in shown]


def _shown(answer, asked: Mapping) -> str:
    if not isinstance(answer, np.ndarray):
        return answer.readable(asked)
    numbers = " ".join(f"{number:.4f}" for number in answer[:8])
    return f"  {numbers}{' ...' if len(answer) > 8 else ''}  ({len(answer)} numbers)"


def _tokens(row: Mapping[str, np.ndarray], asked: Mapping) -> str:
    """Returns token ids, each with its part of the text. Special tokens have no such part."""
    text = _bytes(asked["text"]) if "text" in asked and "text_b" not in asked else b""
    count = int(row["lengths"]) if "lengths" in row else len(row["input_ids"])
    triples = zip(row["input_ids"][:count], row["starts"], row["ends"], strict=False)
    pieces = [
        f"{printable(text[start:end])}/{token}" if 0 <= start < end <= len(text) else str(token)
        for token, start, end in triples
    ]
    return f"  {' '.join(pieces)}"


def _classes_or_values(row: Mapping[str, np.ndarray], asked: Mapping) -> str:
    """Returns the classes and scores of TF Serving's Classify, or every output by its name."""
    if {"classes", "scores"} == row.keys():
        names, numbers = list(map(printable, row["classes"])), row["scores"]
        best_first = sorted(zip(names, numbers, strict=True), key=lambda pair: -pair[1])
        return "\n".join(f"  {name:<{max(map(len, names))}}  {number:.4f}" for name, number in best_first)
    width = max(map(len, row), default=0)
    return "\n".join(f"  {name:<{width}}  {_values(values)}" for name, values in sorted(row.items()))


def _values(values: np.ndarray) -> str:
    values = np.asarray(values)
    first = values.ravel()[:_SHOWN_VALUES].tolist()
    shown = [
        f"{one:.4f}" if isinstance(one, float) else printable(one if isinstance(one, bytes) else str(one))
        for one in first
    ]
    text = " ".join(shown) + (" ..." if values.size > _SHOWN_VALUES else "")
    return text if values.ndim < 2 else f"{text}  ({' x '.join(map(str, values.shape))})"


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape")
