"""Turns the output arrays of exported models, from any client, into Python objects that print readably."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Classification:
    """The labels of a text with one label: (label, probability), the likeliest first."""

    probabilities: list[tuple[str, float]]

    def __str__(self) -> str:
        return _table(self.probabilities)


@dataclasses.dataclass(frozen=True)
class SeveralLabels:
    """A text with any number of labels: all (label, probability), the likeliest first, and the assigned labels."""

    probabilities: list[tuple[str, float]]
    given: list[str]

    def __str__(self) -> str:
        return f"  {', '.join(self.given) or '(no label)'}\n{_table(self.probabilities)}"


@dataclasses.dataclass(frozen=True)
class Scores:
    """The scores of a text: (name, score). The score of a model with one score is named "score"."""

    scores: list[tuple[str, float]]

    def __str__(self) -> str:
        return _table(self.scores)


@dataclasses.dataclass(frozen=True)
class ChosenText:
    """The index of the likeliest choice, -1 without choices, and (choice, probability) for all choices."""

    choice: int
    probabilities: list[tuple[str, float]]

    def __str__(self) -> str:
        if self.choice < 0:
            return "  (no choice)"
        width = max(len(text) for text, _ in self.probabilities)
        return "\n".join(
            f"{'*' if number == self.choice else ' '} {text:<{width}}  {probability:.4f}"
            for number, (text, probability) in enumerate(self.probabilities)
        )


@dataclasses.dataclass(frozen=True)
class FilledMasks:
    """The likeliest tokens for each [MASK] of a text: (token, probability), the likeliest first."""

    masks: list[list[tuple[str, float]]]

    def __str__(self) -> str:
        if not self.masks:
            return "  (no [MASK] to fill)"
        return "\n".join(
            f"  [MASK] {number}:  " + "   ".join(f"{token} {probability:.4f}" for token, probability in tokens)
            for number, tokens in enumerate(self.masks, start=1)
        )


@dataclasses.dataclass(frozen=True)
class TextPart:
    """The bytes `start:end` of a text, their kind (an entity type, a tag, or "") and its probability."""

    text: str
    kind: str
    start: int
    end: int
    probability: float


@dataclasses.dataclass(frozen=True)
class TaggedParts:
    """The entities of a text, or all its words with their tags."""

    parts: list[TextPart]

    def __str__(self) -> str:
        if not self.parts:
            return "  (nothing found)"
        widths = [max(len(getattr(part, name)) for part in self.parts) for name in ("text", "kind")]
        return "\n".join(
            f"  {part.text:<{widths[0]}}  {part.kind:<{widths[1]}}  {part.probability:.4f}  {part.start}-{part.end}"
            for part in self.parts
        )


@dataclasses.dataclass(frozen=True)
class FoundAnswers:
    """The answer to a question, "" if there is none, and the candidates, the likeliest first."""

    answer: str
    probability: float
    candidates: list[TextPart]

    def __str__(self) -> str:
        others = [part for part in self.candidates if part.text != self.answer]
        lines = [f"  {self.answer or '(no answer)'}  {self.probability:.4f}"]
        return "\n".join(lines + [f"    {part.text or '(no answer)'}  {part.probability:.4f}" for part in others])


@dataclasses.dataclass(frozen=True)
class Embedding:
    """The vector of a text, float32 `[H]`."""

    vector: np.ndarray = dataclasses.field(compare=False)

    def __str__(self) -> str:
        shown = " ".join(f"{number:.4f}" for number in self.vector[:8])
        return f"  {shown}{' ...' if len(self.vector) > 8 else ''}  ({len(self.vector)} numbers)"


@dataclasses.dataclass(frozen=True)
class WrittenText:
    """The text that a model wrote for a source, its score, and further texts with theirs, the best first."""

    text: str
    score: float
    others: list[tuple[str, float]]

    def __str__(self) -> str:
        return "\n".join(
            f"  {text or '(no text)'}  {score:.4f}" for text, score in [(self.text, self.score), *self.others]
        )


def can_read(outputs) -> bool:
    """Returns whether `read_answers` can read outputs with these names."""
    return _reader(set(outputs)) is not None


def read_answers(outputs: Mapping[str, np.ndarray], inputs: Mapping[str, Sequence]) -> list:
    """Returns one answer for each row.

    Args:
        outputs: the outputs of `serving_default`: arrays or nested lists; strings may be bytes.
        inputs: the inputs of the request; only the choices of multiple choice are read.
    """
    outputs = {name: np.asarray(values) for name, values in outputs.items()}
    rows = len(next(iter(outputs.values())))
    read = _reader(set(outputs))
    return [
        read(
            {name: values[row] for name, values in outputs.items()},
            {name: values[row] for name, values in inputs.items()},
        )
        for row in range(rows)
    ]


def _reader(names: set[str]):
    return next((read for needed, read in _READERS if needed <= names), None)


def _classification(row, _) -> Classification:
    return Classification(_likeliest_first(row["labels"], row["probabilities"]))


def _several_labels(row, _) -> SeveralLabels:
    probabilities = _likeliest_first(row["labels"], row["probabilities"])
    given = {_text(label) for label in row["labels"][row["is_given"].astype(bool)]}
    return SeveralLabels(probabilities, [label for label, _ in probabilities if label in given])


def _written(row, _) -> WrittenText:
    others = _pairs(row["alternatives"], row["alternative_scores"])[1:] if "alternatives" in row else []
    return WrittenText(_text(row["written"]), float(row["score"]), others)


def _one_score(row, _) -> Scores:
    return Scores([("score", float(row["score"]))])


def _scores(row, _) -> Scores:
    return Scores(_pairs(row["labels"], row["scores"]))


def _choice(row, asked) -> ChosenText:
    choices = list(asked["choices"])
    return ChosenText(int(row["choice"]), _pairs(choices, row["probabilities"][: len(choices)]))


def _masks(row, _) -> FilledMasks:
    is_mask = row["positions"] >= 0
    return FilledMasks(list(map(_pairs, row["tokens"][is_mask], row["probabilities"][is_mask])))


def _entities(row, _) -> TaggedParts:
    return TaggedParts(_parts(row["entities"], row["types"], row))


def _words(row, _) -> TaggedParts:
    return TaggedParts(_parts(row["words"], row["tags"], row))


def _found_answers(row, _) -> FoundAnswers:
    is_null = row["is_null"].astype(bool) if "is_null" in row else np.zeros(len(row["answers"]), bool)
    kinds = np.where(is_null, "null", "")
    parts = _parts(row["answers"], kinds, row, is_there=(row["starts"] >= 0) | is_null)
    return FoundAnswers(_text(row["answer"]), float(row["probability"]), parts)


def _embedding(row, _) -> Embedding:
    return Embedding(np.asarray(row["embedding"], np.float32))


# Required outputs -> function. The first entry whose outputs are all there is used.
_READERS = (
    ({"labels", "probabilities", "is_given"}, _several_labels),
    ({"label", "labels", "probabilities"}, _classification),
    ({"labels", "scores"}, _scores),
    ({"written", "score"}, _written),
    ({"score"}, _one_score),
    ({"choice", "probabilities"}, _choice),
    ({"tokens", "probabilities", "positions"}, _masks),
    ({"entities", "types", "starts", "ends", "probabilities"}, _entities),
    ({"words", "tags", "starts", "ends", "probabilities"}, _words),
    ({"answer", "probability", "answers", "starts", "ends", "probabilities"}, _found_answers),
    ({"embedding"}, _embedding),
)


def _parts(texts, kinds, row, is_there=None) -> list[TextPart]:
    is_there = row["starts"] >= 0 if is_there is None else is_there
    columns = (texts, kinds, row["starts"], row["ends"], row["probabilities"], is_there)
    return [
        TextPart(_text(text), _text(kind), int(start), int(end), float(probability))
        for text, kind, start, end, probability, there in zip(*columns, strict=True)
        if there
    ]


def _likeliest_first(names, probabilities) -> list[tuple[str, float]]:
    return sorted(_pairs(names, probabilities), key=lambda pair: -pair[1])


def _pairs(names, numbers) -> list[tuple[str, float]]:
    return [(_text(name), float(number)) for name, number in zip(names, numbers, strict=True)]


def _text(value) -> str:
    # Texts need not be UTF-8; Python decodes such bytes of a command line as surrogates.
    data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "replace")


def _table(pairs: list[tuple[str, float]]) -> str:
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"  {name:<{width}}  {number:.4f}" for name, number in pairs)
