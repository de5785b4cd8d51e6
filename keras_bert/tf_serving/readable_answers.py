"""The outputs of any exported model as text for people: answers, and where they stand in their texts. Only numpy.

What an answer is, and which model gave it, is in answers.py. Offsets are bytes of the text as UTF-8.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.tf_serving.answers import FoundAnswers, TaggedParts, can_read, read_answers

_AROUND_BYTES = 80
_SHOWN_VALUES = 6


def readable_answers(outputs: Mapping[str, np.ndarray], inputs: Mapping[str, Sequence]) -> list[str]:
    """Returns one answer for each row: lines that begin with a space, or with a star before the choice that is taken.

    Args:
        outputs: of any signature, by name, with rows as the first axis; strings as `str` or `bytes`. Those of
            `serving_default` are read as answers, tokens are shown as parts of the text, others are listed by name.
        inputs: what was asked, by name, with as many rows.

    Example:
        >>> outputs = {"entities": [["Paris"]], "types": [["LOC"]], "starts": [[3]], "ends": [[8]]}
        >>> print(readable_answers({**outputs, "probabilities": [[0.75]]}, {"text": ["in Paris"]})[0])
          in [Paris LOC]
          Paris  LOC  0.7500  3-8
    """
    outputs = {name: np.asarray(values) for name, values in outputs.items()}
    rows = min((len(values) for values in outputs.values() if values.ndim), default=0)
    asked = [{name: values[row] for name, values in inputs.items()} for row in range(rows)]
    if rows and can_read(outputs) and ("choice" not in outputs or "choices" in inputs):
        answers = zip(read_answers(outputs, inputs), asked, strict=True)
        shown = [[*_in_its_text(answer, row), str(answer)] for answer, row in answers]
    else:
        show = _tokens if {"input_ids", "starts", "ends"} <= outputs.keys() else _classes_or_values
        shown = [
            show({name: values[row] for name, values in outputs.items() if values.ndim}, asked[row])
            for row in range(rows)
        ]
    return ["\n".join(printable(line) for lines in answer for line in lines.split("\n")) for answer in shown]


def printable(text: str | bytes) -> str:
    """Returns a text that can be printed on one line: what is not UTF-8, or would steer a terminal, is replaced."""
    text = _bytes(text).decode("utf-8", "replace")
    # A format character: it joins emojis.
    joiner = "\u200d"
    return "".join(
        sign if sign.isprintable() or sign == joiner else " " if sign.isspace() else "\ufffd" for sign in text
    )


def _in_its_text(answer, asked: Mapping) -> list[str]:
    """The text with what was found in it marked, where the answer has places and the text is known."""
    if isinstance(answer, TaggedParts) and "text" in asked:
        marked_parts = [(part.start, part.end, part.kind) for part in answer.parts if part.kind]
        return [f"  {_marked(_bytes(asked['text']), marked_parts)}"] if marked_parts else []
    if isinstance(answer, FoundAnswers) and answer.answer and "context" in asked:
        for part in answer.candidates:
            if part.text == answer.answer:
                return [f"  {_excerpt(_bytes(asked['context']), part.start, part.end)}"]
    return []


def _marked(text: bytes, marked_parts: Sequence[tuple[int, int, str]]) -> str:
    """A text with its places in brackets: b"in Paris", [(3, 8, "LOC")] -> "in [Paris LOC]"."""
    parts, done = [], 0
    for start, end, name in sorted(marked_parts):
        if start < done:  # cannot be shown inside another
            continue
        parts += [printable(text[done:start]), f"[{printable(text[start:end])} {name}]"]
        done = end
    return "".join([*parts, printable(text[done:])])


def _excerpt(context: bytes, start: int, end: int) -> str:
    """The answer in [[ ]] and what stands around it, cut at spaces."""
    before, after = context[:start], context[end:]
    if len(before) > _AROUND_BYTES:
        before = b"... " + before[-_AROUND_BYTES:].partition(b" ")[2]
    if len(after) > _AROUND_BYTES:
        after = after[:_AROUND_BYTES].rpartition(b" ")[0] + b" ..."
    return f"{printable(before)}[[{printable(context[start:end])}]]{printable(after)}"


def _tokens(row: Mapping[str, np.ndarray], asked: Mapping) -> list[str]:
    """Token ids, each with its part of the text; special tokens and what is not in `text` as ids alone."""
    text = _bytes(asked["text"]) if "text" in asked and "text_b" not in asked else b""
    count = int(row["lengths"]) if "lengths" in row else len(row["input_ids"])
    triples = zip(row["input_ids"][:count], row["starts"], row["ends"], strict=False)
    pieces = [
        f"{printable(text[start:end])}/{token}" if 0 <= start < end <= len(text) else str(token)
        for token, start, end in triples
    ]
    return [f"  {' '.join(pieces)}"]


def _classes_or_values(row: Mapping[str, np.ndarray], asked: Mapping) -> list[str]:
    """Classes with their scores, as TF Serving's Classify gives them; or every output by its name."""
    if {"classes", "scores"} == row.keys():
        names, numbers = list(map(printable, row["classes"])), row["scores"]
        best_first = sorted(zip(names, numbers, strict=True), key=lambda pair: -pair[1])
        return [f"  {name:<{max(map(len, names))}}  {number:.4f}" for name, number in best_first]
    width = max(map(len, row), default=0)
    return [f"  {name:<{width}}  {_values(values)}" for name, values in sorted(row.items())]


def _values(values: np.ndarray) -> str:
    values = np.asarray(values)
    shown = [
        f"{value:.4f}"
        if isinstance(value, float)
        else printable(value)
        if isinstance(value, (str, bytes))
        else str(value)
        for value in values.ravel()[:_SHOWN_VALUES].tolist()
    ]
    text = " ".join(shown) + (" ..." if values.size > _SHOWN_VALUES else "")
    return text if values.ndim < 2 else f"{text}  ({' x '.join(map(str, values.shape))})"


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape")
