"""The answers of `TokenClassifier`: the entities of a text, or the tags of its words."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from keras_bert.program.printing import printable
from keras_bert.tasks.answer_operations import log_softmax
from keras_bert.tasks.served_values import characters_of, rows_of, text_of
from keras_bert.tasks.tagging import tag_schemes
from keras_bert.tasks.tagging.decoding import decode_tags
from keras_bert.tasks.tagging.examples import TaggedSentences
from keras_bert.tasks.tagging.tag_schemes import TagLabels


@dataclasses.dataclass(frozen=True)
class EntityAnswer:
    """An entity in a text.

    Attributes:
        type: such as "PER".
        start, end: the characters `start:end` of a plain string, or the words `start:end` of a list of words.
        text: `string[start:end]`, or the words joined by spaces.
        probability: the probability that a word is in an entity of this type, averaged over the entity's words.
    """

    type: str
    start: int
    end: int
    text: str
    probability: float


@dataclasses.dataclass(frozen=True)
class TagsAnswer:
    """The predicted tags of one text.

    A server that answers about the entities of plain strings gives `entities` only: the other fields are empty or None.

    Attributes:
        entities: the entities in order; empty if the tags mark no entities.
        words: the words of the text.
        tags: a tag for each word, as a list, which seqeval asks for. If the model decodes each word by itself, an
            invalid sequence is corrected as conlleval reads it: an entity that begins with I- gets B-.
        probabilities: the probability of the tag of each word, before such a correction.
        log_probabilities: float32 (words, labels), in the order of the model's labels; -inf for labels that no word may
            get, such as [CLS]. None from a server.
    """

    entities: tuple[EntityAnswer, ...]
    words: tuple[str, ...]
    tags: list[str]
    probabilities: tuple[float, ...] = dataclasses.field(repr=False)
    log_probabilities: np.ndarray | None = dataclasses.field(repr=False, compare=False)

    table_columns: ClassVar = ("type", "start", "end", "text", "probability")  # of a table of no entities

    @property
    def spans(self) -> list[list]:
        """The entities as a list of `[start, end, type]`: what `fit(texts, spans)` takes, after corrections."""
        return [[entity.start, entity.end, entity.type] for entity in self.entities]

    def readable(self, asked: Mapping | None = None) -> str:
        """Returns a line for each entity, or, if the tags mark no entities, for each word.

        Args:
            asked: with "text", this text comes first, with the entities or the tags in brackets.
        """
        text = text_of(asked["text"]) if asked and "text" in asked else None
        parts = self.entities or self.tagged_words(text)
        if not parts:
            return "  (nothing found)"
        widths = [max(len(getattr(part, name)) for part in parts) for name in ("text", "type")]
        lines = [
            f"  {part.text:<{widths[0]}}  {part.type:<{widths[1]}}  {part.probability:.4f}  {part.start}-{part.end}"
            for part in parts
        ]
        return "\n".join(lines if text is None else [f"  {_marked(text, parts)}", *lines])

    def table_rows(self) -> list[dict[str, Any]]:
        """Returns a row for each entity, or, if the tags are of another kind, for each word."""
        if self.entities or not self.tags or set(self.tags) == {"O"}:
            return [dataclasses.asdict(entity) for entity in self.entities]
        columns = zip(self.words, self.tags, self.probabilities, strict=True)
        return [{"word": word, "tag": tag, "probability": probability} for word, tag, probability in columns]

    def tagged_words(self, text: str | None) -> list[EntityAnswer]:
        """Returns the words with their tags as types: the characters of a text, or the numbers of the words."""
        parts, end = [], 0
        for number, found in enumerate(zip(self.words, self.tags, self.probabilities, strict=True)):
            word, tag, probability = found
            start = number if text is None else max(text.find(word, end), end)
            end = start + (1 if text is None else len(word))
            parts.append(EntityAnswer(tag, start, end, word, probability))
        return parts


def tag_answers(
    logits: np.ndarray,
    word_splits: np.ndarray,
    sentences: TaggedSentences,
    labels: TagLabels,
    allowed: np.ndarray | None = None,
) -> list[TagsAnswer]:
    """Returns an answer for each of N sentences.

    Args:
        logits: float `[W, labels]`, the outputs of the model for the first token of each word.
        word_splits: int `[N + 1]`. The words of sentence n are at `word_splits[n]:word_splits[n + 1]`.
        allowed: the result of `allowed_transitions`.
    """
    logits = logits.astype(np.float64)
    logits[:, ~np.array(labels.is_answer)] = -np.inf
    label_ids, log_probabilities = decode_tags(logits, word_splits, allowed), log_softmax(logits)
    words = map(slice, word_splits[:-1], word_splits[1:])
    return [
        _answer(sentences, number, label_ids[part], log_probabilities[part], labels)
        for number, part in enumerate(words)
    ]


def tags_answers(arrays: Mapping[str, np.ndarray], inputs: Mapping) -> list[TagsAnswer] | None:
    """Returns the answers in the outputs of a served tagger; None if the outputs are those of another task.

    The inputs of the signature `serving_default` are `text`, whose characters the answers count; those of `words` are
    `words` and `num_words`.
    """
    if arrays.keys() >= {"tags", "probabilities"} and "words" in inputs:
        rows = zip(rows_of(arrays), inputs["words"], inputs["num_words"], strict=True)
        return [_of_words(row, words, int(count)) for row, words, count in rows]
    if arrays.keys() >= {"words", "tags", "probabilities"}:
        return [_of_words(row, row["words"], _num_used(row)) for row in rows_of(arrays)]
    if arrays.keys() >= {"entities", "types", "starts", "ends", "probabilities"} and "text" in inputs:
        rows = zip(rows_of(arrays), inputs["text"], strict=True)
        return [TagsAnswer(_served_entities(row, row["probabilities"], text), (), [], (), None) for row, text in rows]
    return None


def _answer(
    sentences: TaggedSentences, number: int, label_ids: np.ndarray, log_probabilities: np.ndarray, labels: TagLabels
) -> TagsAnswer:
    words = sentences.words[number]
    tags = [labels.names[label] for label in label_ids]
    entities: list = []
    if labels.answer_scheme is not None:
        found = tag_schemes.read_entities(tags)
        tags = tag_schemes.write_tags(found, len(tags), labels.answer_scheme)
        text, places = sentences.text_and_places(number)
        probabilities = np.exp(log_probabilities)
        for one in found:
            start, end = places[one.start][0], places[one.end - 1][1]
            of_type = [column for column, label in enumerate(labels.names) if label[2:] == one.type]
            probability = float(probabilities[one.start : one.end, of_type].sum(axis=1).mean())
            place = (start, end) if sentences.given_as_text(number) else (one.start, one.end)
            entities.append(EntityAnswer(one.type, *place, text[start:end], probability))
    best = np.exp(log_probabilities[np.arange(len(label_ids)), label_ids]).tolist()
    return TagsAnswer(tuple(entities), tuple(words), list(tags), tuple(best), log_probabilities.astype(np.float32))


def _of_words(row: Mapping[str, Any], words: Sequence, count: int) -> TagsAnswer:
    entities = _served_entities(row, row["entity_probabilities"]) if "entities" in row else ()
    tags, probabilities = list(map(text_of, row["tags"][:count])), tuple(map(float, row["probabilities"][:count]))
    return TagsAnswer(entities, tuple(map(text_of, words[:count])), tags, probabilities, None)


def _num_used(row: Mapping[str, Any]) -> int:
    """Returns the number of entries that are not padding."""
    return int((np.asarray(row["starts"]) >= 0).sum())


def _served_entities(row: Mapping[str, Any], probabilities, text: str | bytes | None = None) -> tuple:
    """Returns the entities of a row: of a text, whose bytes the server counted, or of words."""
    count = _num_used(row)
    starts, ends = (list(map(int, row[name][:count])) for name in ("starts", "ends"))
    places = list(zip(starts, ends, strict=True)) if text is None else characters_of(text, starts, ends)
    return tuple(
        EntityAnswer(text_of(kind), start, end, text_of(name), float(probability))
        for kind, (start, end), name, probability in zip(
            row["types"][:count], places, row["entities"][:count], probabilities[:count], strict=True
        )
    )


def _marked(text: str, entities: Sequence[EntityAnswer]) -> str:
    """Returns a text with its entities in brackets: "in Paris" -> "in [Paris LOC]"."""
    parts, done = [], 0
    for entity in entities:
        parts += [printable(text[done : entity.start]), f"[{printable(text[entity.start : entity.end])} {entity.type}]"]
        done = entity.end
    return "".join([*parts, printable(text[done:])])
