"""Tags of words that mark entities: BIO, IOB1, BIOES and their relatives.

`B-PER I-PER O` means that the first two words are a PER. The schemes mark the start and end of an entity differently:

* BIO (IOB2): `B-` begins every entity, `I-` continues it.
* IOB1: `I-` begins and continues an entity; `B-` begins one that directly follows another entity of its type.
* BIOES: as BIO, but `E-` ends an entity of several words, and `S-` is an entity of a single word. BILOU (`L-`, `U-`)
  and BMES (`M-` for `I-`) are the same with other letters.

Tags in other spellings are converted to these if there is one reading, see `canonical_tags`.

All schemes are read by the rule of conlleval: `B-` and `S-` begin an entity, and so does any other letter that does not
continue an entity of its type.
"""

import dataclasses
import re
from collections.abc import Iterable, Sequence

from keras_bert.program.errors import InputError

OUTSIDE = "O"
_TAG = re.compile(r"([BIESLUM])-(.+)", re.S)
# Other spellings: `b-per`, `B_PER`, `PER-B`.
_PREFIXED = re.compile(r"(?P<letter>[BIESLUM])[-_:./|](?P<type>.+)", re.S | re.I)
_SUFFIXED = re.compile(r"(?P<type>.+)[-_:./|](?P<letter>[BIESLUM])", re.S | re.I)
# The type of entities whose tags are a letter only.
_NO_TYPE = "ENTITY"
# Types that tell entities without letters, `PER PER O`, from parts of speech.
_KNOWN_TYPES = {"PER", "PERS", "PERSON", "LOC", "LOCATION", "ORG", "ORGANIZATION", "ORGANISATION", "MISC", "GPE"}
# Labels of old taggers for tokens that are not the first of a word. `X` may also be a part of speech.
_NO_LABEL_OF_WORDS = re.compile(r"\[(CLS|SEP|PAD|UNK|MASK)\]|</?(s|pad|unk|mask)>", re.I)
_NO_ENTITY_LABELS = ("X", "PAD")
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

    @property
    def letters(self) -> set[str]:
        return {self.begin, self.inside, self.end, self.single}


BIO = TagScheme("BIO")
BIOES = TagScheme("BIOES", end="E", single="S")
BILOU = TagScheme("BILOU", end="L", single="U")
BMES = TagScheme("BMES", inside="M", end="E", single="S")
# `write_tags` begins an entity with B after another one of its type.
IOB1 = TagScheme("IOB1", begin="I", single="I")
_SCHEMES = (BIO, BIOES, BILOU, BMES)


@dataclasses.dataclass(frozen=True)
class Entity:
    """An entity: the words `start:end` of a sentence, and their type."""

    start: int
    end: int
    type: str


def read_entities(tags: Sequence[str]) -> list[Entity]:
    """Returns the entities of a sentence. The tags may be in any scheme, in the spelling of `canonical_tags`.

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
    last = None
    for entity in entities:
        letters = [scheme.single]
        if entity.end - entity.start > 1:
            letters = [scheme.begin, *[scheme.inside] * (entity.end - entity.start - 2), scheme.end]
        if scheme == IOB1 and last is not None and (last.end, last.type) == (entity.start, entity.type):
            letters[0] = "B"
        last = entity
        tags[entity.start : entity.end] = [f"{letter}-{entity.type}" for letter in letters]
    return tags


def is_entity_tag(tag: str) -> bool:
    """Returns whether a tag is O or has the form of an entity tag.

    >>> is_entity_tag("O"), is_entity_tag("B-LOC"), is_entity_tag("London")
    (True, True, False)
    """
    return tag == OUTSIDE or _TAG.fullmatch(tag) is not None


def canonical_tags(tags: Iterable[str]) -> dict[str, str]:
    """Returns the spelling B-PER for tags of entities in other spellings: tag -> tag.

    Converted are `b-per`, `B_PER`, `PER-B`, the letters B, I, O (or those of another scheme) alone, and O with types
    alone, if one of them is usual for entities: then neighbours of one type are one entity. All tags must have the same
    form. Other tags are returned as they are.

    >>> canonical_tags(["PER-B", "O"]) == {"PER-B": "B-PER", "O": "O"}, canonical_tags(["B", "I"])["I"]
    (True, 'I-ENTITY')
    """
    tags = set(tags)
    outside = tags & {OUTSIDE} or tags & {OUTSIDE.lower()}
    others = tags - outside
    found = _canonical(others, bool(outside)) if others else {}
    return {tag: tag for tag in tags} if not found else found | dict.fromkeys(outside, OUTSIDE)


def _canonical(tags: set[str], has_outside: bool) -> dict[str, str]:
    for form in (_TAG, _PREFIXED, _SUFFIXED):
        matches = {tag: form.fullmatch(tag) for tag in tags}
        if not all(matches.values()):
            continue
        if form is _TAG:
            return {tag: tag for tag in tags}
        letters = {match["letter"].upper() for match in matches.values()}
        if letters & {"B", "I"} and any(letters <= scheme.letters for scheme in _SCHEMES):
            return {tag: f"{match['letter'].upper()}-{match['type']}" for tag, match in matches.items()}
    letters = {tag: tag.rstrip("-_").upper() for tag in tags}
    if {"B", "I"} & set(letters.values()) and any(set(letters.values()) <= scheme.letters for scheme in _SCHEMES):
        return {tag: f"{letter}-{_NO_TYPE}" for tag, letter in letters.items()}
    if has_outside and not any(map(_TAG.fullmatch, tags)) and any(tag.upper() in _KNOWN_TYPES for tag in tags):
        return {tag: f"I-{tag}" for tag in tags}
    return {}


def find_scheme(tags: Iterable[str], source: str = "the examples") -> TagScheme | None:
    """Returns the scheme of tags (BIO also for IOB1), or None if they mark no entities (NOUN, VERB).

    The tags may be in any spelling of `canonical_tags`. Raises `InputError` if they are of several schemes, or if only
    some of them mark entities.
    """
    tags = set(canonical_tags(tags).values()) - {OUTSIDE}
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
    for scheme in _SCHEMES:
        if letters <= scheme.letters:
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


@dataclasses.dataclass(frozen=True)
class TagLabels:
    """The labels of a tagger."""

    labels: tuple[str, ...]  # as the model has them
    names: tuple[str, ...]  # in the spelling of `canonical_tags`
    is_answer: tuple[bool, ...]  # whether a word may get the label. Old taggers have others: X, [CLS], [PAD]
    scheme: TagScheme | None  # also IOB1; None if the labels mark no entities

    @classmethod
    def of(cls, labels: Sequence[str], source: str = "the labels of the model") -> "TagLabels":
        """Raises `InputError` if the labels are of several schemes, or only some of them mark entities."""
        answers = [label for label in labels if not _NO_LABEL_OF_WORDS.fullmatch(label)]
        of_entities = [label for label in answers if label not in _NO_ENTITY_LABELS]
        scheme = find_scheme(of_entities, source)
        answers = answers if scheme is None else of_entities
        canonical = canonical_tags(answers)
        names = tuple(canonical.get(label, label) for label in labels)
        inside = {name[2:] for name in names if name.startswith("I-")}
        # A BIO tagger cannot find the types that have I- only; one that is trained on IOB1 can.
        if scheme == BIO and not inside <= {name[2:] for name in names if name.startswith("B-")}:
            scheme = IOB1
        return cls(tuple(labels), names, tuple(label in canonical for label in labels), scheme)

    @property
    def answer_scheme(self) -> TagScheme | None:
        """The scheme of answers and scores: BIO for IOB1."""
        return BIO if self.scheme == IOB1 else self.scheme
