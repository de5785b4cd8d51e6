"""Sentences with a tag for every word: named entities, parts of speech."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

from keras_bert.program.errors import InputError
from keras_bert.tasks.examples import Examples, check_weights
from keras_bert.tasks.tagging import tag_schemes

# With fewer words there is no note that words and tags may be swapped.
_FEW_WORDS = 50


@dataclasses.dataclass(frozen=True)
class TaggedSentences(Examples):
    """N sentences in words, with or without tags, and with or without weights for training.

    Raises:
        InputError: there are no sentences, a word or a sentence is empty, the lengths differ, or a weight is invalid.
    """

    per_example = ("words", "tags", "documents", "locations", "weights", "texts", "spans")

    words: Sequence[Sequence[str]]
    tags: Sequence[Sequence[str]] | None = None  # a tag per word
    documents: Sequence[int] | None = None  # ascending numbers; None for one document
    source: str = "the examples"  # where the examples come from, for messages
    locations: Sequence[str] | None = None  # for messages, such as "line 12"; None for "sentence 3"
    weights: Sequence[float] | None = None  # 0 or more
    texts: Sequence[str | None] | None = None  # the plain texts that words were found in; None where words were given
    spans: Sequence[Sequence[tuple[int, int]] | None] | None = None  # the characters `start:end` of each word in these
    # The name for predicted spans: "label" for triples, as Doccano has them, "spans" for objects of spaCy and Prodigy.
    span_key: str = "label"
    notes: Sequence[str] = ()  # what was changed when the examples were read

    def __post_init__(self):
        if not self.words:
            raise InputError(f"{self.source}: there is no sentence.")
        for name in ("weights", "tags"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.words):
                raise InputError(f"{self.source}: {len(self.words)} sentences but {name} of {len(values)}.")
        check_weights(self)
        for number, words in enumerate(self.words):
            if not words or not all(word.strip() for word in words):
                raise InputError(f"{self.source}: {self.place(number)} has no words, or an empty one.")
            if self.tags is not None and len(self.tags[number]) != len(words):
                raise InputError(
                    f"{self.source}: {self.place(number)} has {len(words)} words but {len(self.tags[number])} tags."
                )

    def place(self, number: int) -> str:
        return self.locations[number] if self.locations else f"sentence {number + 1}"

    def given_as_text(self, number: int) -> bool:
        return bool(self.texts) and self.texts[number] is not None

    def text_and_places(self, number: int) -> tuple[str, Sequence[tuple[int, int]]]:
        """Returns a text and the characters `start:end` of each word; words that have no text are joined by spaces."""
        if self.given_as_text(number):
            return self.texts[number], self.spans[number]
        words = self.words[number]
        starts = itertools.accumulate((len(word) + 1 for word in words), initial=0)
        return " ".join(words), [(start, start + len(word)) for start, word in zip(starts, words, strict=False)]

    @property
    def all_tags(self) -> list[str]:
        return [tag for tags in self.tags or () for tag in tags]


def in_one_scheme(sentences: TaggedSentences) -> tuple[TaggedSentences, tag_schemes.TagScheme | None, list[str]]:
    """Makes entity tags valid: converts IOB1 to BIO, and adds a missing B- to the first word of an entity.

    Returns the sentences, the scheme of their tags (None if they mark no entities), and notes about changes and
    suspicious data. Raises `InputError` if the tags are of several schemes, or words and tags are swapped.
    """
    notes = _swapped_columns(sentences)
    scheme = tag_schemes.find_scheme(sentences.all_tags, sentences.source)
    if scheme is None:
        return sentences, None, [*notes, *_types_alone(sentences)]
    canonical = tag_schemes.canonical_tags(sentences.all_tags)
    renamed = sorted(f"{old} as {new}" for old, new in canonical.items() if old != new)
    if renamed:
        sentences = _renamed(sentences, canonical)
        notes.append(
            f"the tags were read in the usual spelling: {', '.join(renamed[:4])}{', ...' * (len(renamed) > 4)}"
        )
    repaired = [tag_schemes.write_tags(tag_schemes.read_entities(tags), len(tags), scheme) for tags in sentences.tags]
    wrong = [number for number, tags in enumerate(sentences.tags) if repaired[number] != list(tags)]
    if not wrong:
        return sentences, scheme, notes
    if scheme == tag_schemes.BIO and tag_schemes.is_iob1(sentences.tags):
        note = "the tags are IOB1 and were converted to BIO"
    else:
        locations = ", ".join(map(sentences.place, wrong[:3])) + (", ..." if len(wrong) > 3 else "")
        note = (
            f"{len(wrong)} sentences have tags that {scheme.name} does not allow, such as an entity that begins "
            f"with I-; they were corrected as conlleval reads them. They begin at {locations}"
        )
    return dataclasses.replace(sentences, tags=repaired), scheme, [*notes, note]


def _types_alone(sentences: TaggedSentences) -> list[str]:
    """Returns a note if tags that mark no entities may be types of entities, since most words are outside of them."""
    tags = sentences.all_tags
    num_outside = tags.count(tag_schemes.OUTSIDE)
    if not len(tags) / 2 < num_outside < len(tags):
        return []
    others = sorted(set(tags) - {tag_schemes.OUTSIDE})
    return [
        f"the tags have no B- and I- ({_some(others)}), so each word counts by itself and no entities are scored. If "
        "they are types of entities, write B- and I- before them"
    ]


def _swapped_columns(sentences: TaggedSentences) -> list[str]:
    """Raises `InputError` if words and tags are swapped; returns notes if they seem to be."""
    words = [word for words in sentences.words for word in words]
    tags = sentences.all_tags
    num_tags, num_words = (sum(map(tag_schemes.is_entity_tag, column)) for column in (tags, words))
    ask = "are the columns swapped? In files, --text_column and --label_column choose them"
    has_entities = set(words) != {tag_schemes.OUTSIDE}
    if num_words >= 0.95 * len(words) and num_tags < len(tags) / 2 and (has_entities or len(words) >= _FEW_WORDS):
        raise InputError(
            f"{sentences.source}: the words are tags ({_some(words)}) and the tags are not ({_some(tags)}): {ask}."
        )
    # In useful data a word mostly determines its tag. If words and tags are swapped, it does not.
    pairs = Counter(zip(words, tags, strict=True))
    best = dict.fromkeys(words, 0)
    for (word, _), count in pairs.items():
        best[word] = max(best[word], count)
    num_kinds = len(set(tags))
    if len(tags) < _FEW_WORDS or len(best) == 1 or num_kinds <= 2 * len(best) or sum(best.values()) > 0.4 * len(tags):
        return []
    return [
        f"there are {num_kinds} different tags ({_some(tags)}), and only {len(best)} different words ({_some(words)}): "
        f"{ask}"
    ]


def _some(values: Sequence[str]) -> str:
    """Returns the first three distinct values, shortened, as text."""
    return ", ".join(value[:20] for value in list(dict.fromkeys(values))[:3]) + ", ..."


def in_scheme(sentences: TaggedSentences, scheme: tag_schemes.TagScheme | None) -> TaggedSentences:
    """Converts the entity tags of sentences to a scheme. Raises `InputError` if they are of several schemes.

    Tags that mark no entities are unchanged. If `scheme` is None, all tags are unchanged. Tags in another spelling are
    read as by `canonical_tags`.
    """
    if scheme is None or tag_schemes.find_scheme(sentences.all_tags, sentences.source) is None:
        return sentences
    sentences = _renamed(sentences, tag_schemes.canonical_tags(sentences.all_tags))
    tags = [tag_schemes.write_tags(tag_schemes.read_entities(tags), len(tags), scheme) for tags in sentences.tags]
    return dataclasses.replace(sentences, tags=tags)


def for_labels(sentences: TaggedSentences, labels: tag_schemes.TagLabels) -> TaggedSentences:
    """Converts tags, which may be spelt as the labels are, to the scheme in which a tagger answers."""
    names = {label: name for label, name in zip(labels.labels, labels.names, strict=True) if label != name}
    return in_scheme(_renamed(sentences, names), labels.answer_scheme)


def label_ids(sentences: TaggedSentences, labels: tag_schemes.TagLabels) -> list[list[int]]:
    """Returns the index of every tag among the labels of a tagger; the tags may be of another scheme.

    A tagger of IOB1 may lack the B- of a type, which is rare there: I- takes its place. Raises `InputError` if a tag is
    not among the labels, or if the tags are of several schemes.
    """
    sentences = in_scheme(for_labels(sentences, labels), labels.scheme)
    if labels.scheme == tag_schemes.IOB1:
        missing = {tag: f"I-{tag[2:]}" for tag in sentences.all_tags if tag[:2] == "B-" and tag not in labels.names}
        sentences = _renamed(sentences, missing)
    return tag_ids(sentences, labels.names)


def _renamed(sentences: TaggedSentences, names: Mapping[str, str]) -> TaggedSentences:
    if all(old == new for old, new in names.items()):
        return sentences
    tags = [[names.get(tag, tag) for tag in tags] for tags in sentences.tags or ()]
    return dataclasses.replace(sentences, tags=tags)


def labels_of(sentences: TaggedSentences) -> list[str]:
    """Returns the labels of a tagger for these sentences, O first.

    For entities, all tags of the scheme are labels: `I-LOC` is a label even if only `B-LOC` occurs. IOB1 counts as BIO.
    Raises `InputError` if there are no tags, all are the same, or they are of several schemes.

    >>> labels_of(TaggedSentences([["Ada", "wrote"]], [["B-PER", "O"]]))
    ['O', 'B-PER', 'I-PER']
    """
    found = set(sentences.all_tags)
    if len(found) < 2:
        raise InputError(
            f"{sentences.source}: a tagger needs words with two different tags or more. Received: "
            f"{', '.join(found) or 'no tags'}. Was the right column named as the tag?"
        )
    scheme = tag_schemes.find_scheme(found, sentences.source)
    if scheme is not None:
        types = {tag[2:] for tag in set(tag_schemes.canonical_tags(found).values()) - {tag_schemes.OUTSIDE}}
        found = {tag_schemes.OUTSIDE, *(f"{letter}-{name}" for name in types for letter in scheme.letters)}
    return tag_schemes.tag_order(found)


def tag_ids(sentences: TaggedSentences, labels: Sequence[str]) -> list[list[int]]:
    """Returns the index in `labels` of every tag. Raises `InputError` if a tag is not in `labels`."""
    ids = {label: number for number, label in enumerate(labels)}
    result = []
    for number, tags in enumerate(sentences.tags):
        unknown = next((tag for tag in tags if tag not in ids), None)
        if unknown is not None:
            raise InputError(
                f"{sentences.source}: the tag {unknown!r} in the sentence at {sentences.place(number)} does not occur "
                f"in training. The tags are: {', '.join(labels)}"
            )
        result.append([ids[tag] for tag in tags])
    return result
