"""The official score of named entities: F1 over whole entities, as conlleval counts it.

A predicted entity is right if its type, start and end are right. The scores equal those of seqeval, which papers
report; a test compares them.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.scores import label_table
from keras_bert.tasks.tagging.tag_schemes import OUTSIDE, Entity, canonical_tags, find_scheme, read_entities, write_tags

TagLists = Sequence[Sequence[str]]


class EntityScore(NamedTuple):
    """How well the entities of a type, or of all, were found."""

    name: str  # the type; "micro" or "macro" for all types
    precision: float
    recall: float
    f1: float
    support: int  # the number of gold entities
    predicted: int  # the number of predicted entities, right or wrong


class EntityScores(NamedTuple):
    """The scores of each type, in alphabetical order, and of all types together."""

    types: tuple[EntityScore, ...]
    micro: EntityScore  # over all entities; its F1 is the official score
    macro: EntityScore  # the means over the types
    accuracy: float  # the share of the words with the right tag

    @property
    def rows(self) -> list[EntityScore]:
        """The types, then micro and macro: the lines of a table."""
        return [*self.types, self.micro, self.macro]


def entity_scores(gold: TagLists, predicted: TagLists) -> EntityScores:
    """Compares tags that mark entities. Predicted sequences may be invalid.

    Args:
        gold, predicted: N lists of tags, each in any scheme of `tasks/tagging/tag_schemes.py`, including IOB1.

    Raises:
        InputError: there are no sentences, the numbers of tags differ, or tags mark no entities.

    Example:
        >>> entity_scores([["B-PER", "O"]], [["B-PER", "B-LOC"]]).micro
        EntityScore(name='micro', precision=0.5, recall=1.0, f1=0.666..., support=1, predicted=2)
    """
    _check_pairs(gold, predicted)
    read = [_entities(gold, "the right tags"), _entities(predicted, "the predicted tags")]
    support, found = (
        {(number, entity) for number, entities in enumerate(side) for entity in entities} for side in read
    )
    counts = [Counter(entity.type for _, entity in entities) for entities in (support & found, found, support)]
    types = tuple(EntityScore(*row) for row in count_table(*counts))
    [micro] = count_table(*(Counter(micro=count.total()) for count in counts))
    precision, recall, f1 = (
        sum(getattr(one, figure) for one in types) / len(types) if types else 0.0
        for figure in ("precision", "recall", "f1")
    )
    macro = EntityScore("macro", precision, recall, f1, len(support), len(found))
    in_bio = [[write_tags(*pair) for pair in zip(side, map(len, gold), strict=True)] for side in read]
    return EntityScores(types, EntityScore(*micro), macro, tag_accuracy(*in_bio))


def count_table(right: Counter[str], predicted: Counter[str], gold: Counter[str]) -> list[list]:
    """Returns the `label_table` of counted names, in alphabetical order; 0 / 0 counts as 0, as in conlleval."""
    names = sorted(predicted.keys() | gold.keys())
    return label_table(names, *([counts[name] for name in names] for counts in (right, predicted, gold)), undefined=0.0)


def tag_accuracy(gold: TagLists, predicted: TagLists) -> float:
    """Returns the share of words with the right tag: the score of tags that mark no entities (parts of speech)."""
    _check_pairs(gold, predicted)
    pairs = zip(gold, predicted, strict=True)
    right = sum(left == right for one, other in pairs for left, right in zip(one, other, strict=True))
    return right / sum(map(len, gold))


def _entities(tags_of_sentences: TagLists, source: str) -> list[list[Entity]]:
    """Returns the entities of each sentence."""
    all_tags = {tag for tags in tags_of_sentences for tag in tags}
    if find_scheme(all_tags, source) is None and all_tags != {OUTSIDE}:
        raise InputError(
            f"{source} mark no entities: expected tags like B-PER, I-PER and O. Received: "
            f"{', '.join(sorted(all_tags)[:10])}. Use tag_accuracy for such tags."
        )
    names = canonical_tags(all_tags)
    return [read_entities([names[tag] for tag in tags]) for tags in tags_of_sentences]


def _check_pairs(gold: TagLists, predicted: TagLists) -> None:
    if not any(map(len, gold)):
        raise InputError("There is nothing to score: no sentence with a word.")
    if len(gold) != len(predicted):
        raise InputError(f"There must be tags for every sentence. Received: {len(gold)} and {len(predicted)}")
    for number, (one, other) in enumerate(zip(gold, predicted, strict=True), start=1):
        if isinstance(one, str) or isinstance(other, str):
            raise InputError(f"Sentence {number} must have a list of tags. Received: {one!r:.50} and {other!r:.50}")
        if len(one) != len(other):
            raise InputError(f"Sentence {number} has {len(one)} right tags but {len(other)} predicted ones.")
