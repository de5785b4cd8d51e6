"""Tags of words that mark entities: BIO, IOB1, BIOES and their relatives.

`B-PER I-PER O` means that the first two words are a PER. The schemes mark the start and end of an entity differently:

* BIO (IOB2): `B-` begins every entity, `I-` continues it.
* IOB1: `I-` begins and continues an entity; `B-` begins one that directly follows another entity of its type.
* BIOES: as BIO, but `E-` ends an entity of several words, and `S-` is an entity of a single word. BILOU (`L-`, `U-`)
  and BMES (`M-` for `I-`) are the same with other letters.

All schemes are read by the rule of conlleval: `B-` and `S-` begin an entity, and so does any other letter that does not
continue an entity of its type.
"""

import dataclasses
import re
from collections.abc import Iterable, Sequence

from keras_bert.program.errors import InputError

OUTSIDE = "O"
_TAG = re.compile(r"([BIESLUM])-(.+)", re.S)
# Letters of BILOU and BMES -> letters of BIOES.
_BIOES_LETTER = {"L": "E", "U": "S", "M": "I"}


@dataclasses.dataclass(frozen=True)
class TagScheme:
    """The letters of a scheme: for the first, a middle, the last, and the only word of an entity."""

    name: str
    begin: str = "B"
    inside: str = "I"
    end: str = "I"
    single: str = "B"


BIO = TagScheme("BIO")
BIOES = TagScheme("BIOES", end="E", single="S")
BILOU = TagScheme("BILOU", end="L", single="U")
BMES = TagScheme("BMES", inside="M", end="E", single="S")


@dataclasses.dataclass(frozen=True)
class Entity:
    """An entity: the words `start:end` of a sentence, and their type."""

    start: int
    end: int
    type: str


def read_entities(tags: Sequence[str]) -> list[Entity]:
    """Returns the entities of a sentence. The tags may be in any scheme.

    Example:
        >>> read_entities(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"])
        [Entity(start=0, end=2, type='PER'), Entity(start=3, end=4, type='LOC'), Entity(start=4, end=5, type='LOC')]
    """
    entities: list[Entity] = []
    goes_on = False  # whether the last entity includes the previous word and may continue
    for position, tag in enumerate(tags):
        match = _TAG.fullmatch(tag)
        if match is None:
            goes_on = False
            continue
        letter, entity_type = _BIOES_LETTER.get(match[1], match[1]), match[2]
        if goes_on and letter in "IE" and entities[-1].type == entity_type:
            entities[-1] = dataclasses.replace(entities[-1], end=position + 1)
        else:
            entities.append(Entity(position, position + 1, entity_type))
        goes_on = letter not in "ES"
    return entities


def write_tags(entities: Iterable[Entity], num_words: int, scheme: TagScheme = BIO) -> list[str]:
    """Returns the tags of a sentence.

    Example:
        >>> write_tags([Entity(1, 3, "PER")], 4)
        ['O', 'B-PER', 'I-PER', 'O']
    """
    tags = [OUTSIDE] * num_words
    for entity in entities:
        letters = [scheme.single]
        if entity.end - entity.start > 1:
            letters = [scheme.begin, *[scheme.inside] * (entity.end - entity.start - 2), scheme.end]
        tags[entity.start : entity.end] = [f"{letter}-{entity.type}" for letter in letters]
    return tags


def is_entity_tag(tag: str) -> bool:
    """Returns whether a tag is O or has the form of an entity tag.

    >>> is_entity_tag("O"), is_entity_tag("B-LOC"), is_entity_tag("London")
    (True, True, False)
    """
    return tag == OUTSIDE or _TAG.fullmatch(tag) is not None


def find_scheme(tags: Iterable[str], source: str = "the examples") -> TagScheme | None:
    """Returns the scheme of tags (BIO also for IOB1), or None if they mark no entities (NOUN, VERB).

    Raises:
        InputError: the tags are of several schemes, or only some of them mark entities.
    """
    tags = set(tags) - {OUTSIDE}
    matches = [_TAG.fullmatch(tag) for tag in tags]
    if not any(matches):
        return None
    if not all(matches):
        others = sorted(tag for tag in tags if not _TAG.fullmatch(tag))
        raise InputError(
            f"{source}: some tags mark entities ({min(match[0] for match in matches if match)}, ...) and others do "
            f"not: {', '.join(others[:10])}. Write O for words outside of entities and B-, I- ... before every type."
        )
    letters = {match[1] for match in matches}
    for scheme in (BIO, BIOES, BILOU, BMES):
        if letters <= {scheme.begin, scheme.inside, scheme.end, scheme.single}:
            return scheme
    raise InputError(
        f"{source}: the tags are of several schemes: their first letters are {', '.join(sorted(letters))}. Expected B "
        "I (BIO), B I E S (BIOES), B I L U (BILOU) or B M E S (BMES). Write all of them in one."
    )


def is_iob1(tags_of_sentences: Iterable[Sequence[str]]) -> bool:
    """Returns whether tags with the letters B and I are in IOB1 instead of BIO."""
    is_bio = True
    for tags in tags_of_sentences:
        entities = read_entities(tags)
        is_bio = is_bio and write_tags(entities, len(tags)) == list(tags)
        ends = {(entity.end, entity.type) for entity in entities}
        for entity in entities:
            begins_after_its_like = (entity.start, entity.type) in ends
            if tags[entity.start].startswith("B") != begins_after_its_like:
                return False
    return not is_bio


def tag_order(tags: Iterable[str]) -> list[str]:
    """Returns the distinct tags: O first, then sorted by type and letter.

    >>> tag_order(["I-PER", "O", "B-PER", "B-LOC"])
    ['O', 'B-LOC', 'B-PER', 'I-PER']
    """

    def key(tag: str):
        match = _TAG.fullmatch(tag)
        return (tag != OUTSIDE, match[2] if match else tag, match[1] if match else "")

    return sorted(set(tags), key=key)
