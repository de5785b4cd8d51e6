"""The official score of named entities: F1 over whole entities, as conlleval counts it, by seqeval.

An entity is found when its type and both its ends are right. Whatever scheme tags are in, they are read by the one rule
of `tasks/tag_schemes.py` and given to seqeval as BIO: its default mode does not know the letters of BILOU and BMES.
"""

import dataclasses
from collections.abc import Sequence

from keras_bert.errors import InputError
from keras_bert.tasks.tag_schemes import find_scheme, read_entities, write_tags

TagLists = Sequence[Sequence[str]]


@dataclasses.dataclass(frozen=True)
class EntityScore:
    """How well the entities of a type, or of all, were found.

    Attributes:
        name: the type, or "micro" and "macro" for all of them.
        support: the entities that there are.
        predicted: the entities that were found, rightly or wrongly.
    """

    name: str
    precision: float
    recall: float
    f1: float
    support: int
    predicted: int


@dataclasses.dataclass(frozen=True)
class EntityScores:
    """The scores of all types, by the alphabet, and together.

    Attributes:
        micro: over all entities; its F1 is the official score.
        macro: the means over the types.
        accuracy: the part of the words with the right tag.
    """

    types: tuple[EntityScore, ...]
    micro: EntityScore
    macro: EntityScore
    accuracy: float

    @property
    def rows(self) -> list[EntityScore]:
        """The types, then micro and macro: the lines of a table."""
        return [*self.types, self.micro, self.macro]


def entity_scores(gold: TagLists, predicted: TagLists) -> EntityScores:
    """Compares tags that mark entities.

    Args:
        gold: for each sentence its tags, in any scheme that `tasks/tag_schemes.py` knows, IOB1 too.
        predicted: the same of a tagger; they may be illegal sequences, and of another scheme.

    Raises:
        InputError: there are no sentences, the numbers of tags disagree, or tags mark no entities.

    Example:
        >>> entity_scores([["B-PER", "O"]], [["B-PER", "B-LOC"]]).micro
        EntityScore(name='micro', precision=0.5, recall=1.0, f1=0.666..., support=1, predicted=2)
    """
    from seqeval.metrics.sequence_labeling import precision_recall_fscore_support

    _check_pairs(gold, predicted)
    gold_bio, predicted_bio = _as_bio(gold, "the right tags"), _as_bio(predicted, "the predicted tags")
    counts = _predicted_by_type(predicted_bio)
    names = sorted(counts | _predicted_by_type(gold_bio))

    def score(average: str | None):
        return precision_recall_fscore_support(gold_bio, predicted_bio, average=average, zero_division=0)

    types = tuple(
        EntityScore(name, *map(float, values), int(support), counts.get(name, 0))
        # Without any entity there are no types, and seqeval gives one of support 0.
        for name, *values, support in (zip(names, *score(None), strict=True) if names else ())
    )
    together = {
        name: EntityScore(name, *map(float, score(name)[:3]), sum(one.support for one in types), sum(counts.values()))
        if names
        else EntityScore(name, 0.0, 0.0, 0.0, 0, 0)
        for name in ("micro", "macro")
    }
    return EntityScores(types, together["micro"], together["macro"], tag_accuracy(gold_bio, predicted_bio))


def tag_accuracy(gold: TagLists, predicted: TagLists) -> float:
    """Returns the part of the words whose tag is right: the score of tags that mark no entities (parts of speech)."""
    _check_pairs(gold, predicted)
    pairs = [pair for pair in zip(gold, predicted, strict=True)]
    right = sum(left == right for one, other in pairs for left, right in zip(one, other, strict=True))
    return right / sum(map(len, gold))


def _as_bio(tags_of_sentences: TagLists, source: str) -> list[list[str]]:
    all_tags = {tag for tags in tags_of_sentences for tag in tags}
    if find_scheme(all_tags, source) is None and all_tags != {"O"}:
        raise InputError(
            f"{source} mark no entities: expected tags like B-PER, I-PER and O. Received: "
            f"{', '.join(sorted(all_tags)[:10])}. Their score is the accuracy (tag_accuracy)."
        )
    return [write_tags(read_entities(tags), len(tags)) for tags in tags_of_sentences]


def _predicted_by_type(tags_of_sentences: TagLists) -> dict[str, int]:
    found: dict[str, int] = {}
    for tags in tags_of_sentences:
        for entity in read_entities(tags):
            found[entity.type] = found.get(entity.type, 0) + 1
    return found


def _check_pairs(gold: TagLists, predicted: TagLists) -> None:
    if not len(gold):
        raise InputError("There is nothing to score: no sentence.")
    if len(gold) != len(predicted):
        raise InputError(f"There must be tags for every sentence. Received: {len(gold)} and {len(predicted)}")
    for number, (one, other) in enumerate(zip(gold, predicted, strict=True), start=1):
        if len(one) != len(other):
            raise InputError(f"Sentence {number} has {len(one)} right tags but {len(other)} predicted ones.")
