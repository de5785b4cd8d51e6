"""Spans of a text with a type, as annotators mark them -> words with tags.

A span is widened to the words that it touches. A word that two spans touch belongs to the first of them, and a span
that has no word of its own is left out. A note reports all such spans. Spans that overlap as they came are refused.
"""

import bisect
import functools
import itertools
import json
import numbers
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from keras_bert.program.errors import InputError
from keras_bert.tasks.tagging.answers import TagsAnswer
from keras_bert.tasks.tagging.examples import TaggedSentences
from keras_bert.tasks.tagging.tag_schemes import OUTSIDE, Entity, tag_order, write_tags
from keras_bert.tokenization.text_words import words_of_text

# The first of these names that an object has is used.
_STARTS, _ENDS, _TYPES = ("start", "start_offset"), ("end", "end_offset"), ("label", "type", "labels")
# The largest number of spans in a note.
_MOST_SHOWN = 3
# A string, or the words of a sentence: its spans count characters, or words.
Text = str | Sequence[str]


class Span(NamedTuple):
    """The characters `start:end` of a string, or the words `start:end` of a list of words, and their type."""

    start: int
    end: int
    type: str


def is_span(value: Any) -> bool:
    """Returns whether a value has one of the forms that `read_spans` reads. Its numbers may be wrong."""
    return isinstance(value, (list, tuple, Mapping)) or all(hasattr(value, name) for name in Span._fields)


def read_spans(
    given: Any, text: Text, place: str, *, types: Collection[str] | None = None, may_overlap: bool = False
) -> list[Span]:
    r"""Returns the spans of a text in ascending order.

    >>> read_spans([[4, 7, "PER"], {"start": 0, "end": 3, "label": "PER"}], "Ada Lee", "text 1")
    [Span(start=0, end=3, type='PER'), Span(start=4, end=7, type='PER')]

    Args:
        given: a list. A span is `[start, end, type]`; an object with `start`, `end` and `label` (or `start_offset`,
            `end_offset`, `type`, or `labels` with one type); or an `EntityAnswer`. Characters are Unicode code points.
            If an object has the `text` of its span too, and only UTF-16 units, or breaks \r\n that count as one
            character, lead to that text, they are converted.
        place: the place of the text, for messages.
        types: the types that a model knows; None for any.

    Raises:
        InputError: a span has another form, is empty, reversed, not inside the text or not at its own `text`, has no
            known type, or overlaps another.
    """
    if not isinstance(given, (list, tuple)):
        raise InputError(f"{place}: the spans must be a list. Received: {given!r:.100}")
    spans = sorted(_read_span(one, text, f"{place}: span {number}") for number, one in enumerate(given, start=1))
    for first, second in itertools.pairwise(() if may_overlap else spans):
        if second.start < first.end:
            raise InputError(
                f"{place}: the spans {_shown(first, text)} and {_shown(second, text)} overlap, but a word has one tag. "
                "Remove or shorten one of them."
            )
    wrong = next((span for span in spans if types is not None and span.type not in types), None)
    if wrong is not None:
        known = ", ".join(sorted(types)) or "none: its labels mark no entities"
        raise InputError(f"{place}: the span {_shown(wrong, text)} has a type that the model does not know: {known}")
    return spans


def sentences_of_spans(
    texts: Sequence[Text],
    spans: Sequence[Sequence[Span]] | None,
    source: str,
    locations: Sequence[str] | None = None,
    words: Sequence[Sequence[tuple[int, int]] | None] | None = None,
    **others: Any,
) -> TaggedSentences:
    """Returns texts as words with tags in BIO, and a note about spans that do not fall on words.

    Raises `InputError` if a string has no words, such as one of control characters.

    Args:
        texts: N strings, none of them blank, or lists of words.
        spans: N results of `read_spans`; None for texts without tags.
        words: N lists of the characters `start:end` of each word of a string; None where `words_of_text` finds them.
        source, locations, **others: see `TaggedSentences`.
    """
    found: dict[str, list] = {"words": [], "texts": [], "spans": []}
    tags, misfits = [], []
    for number, text in enumerate(texts):
        is_string = isinstance(text, str)
        its_words = words[number] if words else None
        if its_words is None:
            its_words = words_of_text(text) if is_string else [(word, word + 1) for word in range(len(text))]
        if is_string and not its_words:
            place = f"{source}: {locations[number]}" if locations else f"Text {number + 1}"
            raise InputError(f"{place} is empty: it has no words. Received: {text!r:.100}. Leave it out.")
        found["words"].append([text[start:end] for start, end in its_words] if is_string else text)
        found["texts"].append(text if is_string else None)
        found["spans"].append(its_words if is_string else None)
        if spans is not None:
            its_tags, its_misfits = _tags(spans[number], its_words, text)
            tags.append(its_tags)
            where = locations[number] if locations else f"text {number + 1}"
            misfits += [(f"{misfit} ({where})", is_lost) for misfit, is_lost in its_misfits]
    notes = [_note(misfits, sum(map(len, spans or ())))] if misfits else []
    return TaggedSentences(
        tags=None if spans is None else tags, source=source, locations=locations, notes=notes, **found, **others
    )


def labels_of_spans(spans: Sequence[Sequence[Any]]) -> list[str]:
    """Returns the labels of a tagger for the types of spans, in BIO, O first.

    >>> labels_of_spans([[[0, 3, "PER"]], []])
    ['O', 'B-PER', 'I-PER']

    Each text has a list of spans, in the forms of `read_spans`.
    """
    types = {_parts(span, "a span")[2] for one in spans for span in one}
    return tag_order([OUTSIDE, *(f"{letter}-{kind}" for kind in types for letter in "BI")])


def span_lines(sentences: TaggedSentences, answers: Sequence[TagsAnswer]) -> Iterator[str]:
    """Yields a line of JSON for each text with its predicted spans, in the form that the texts were read from.

    Words that are not those of `words_of_text` are written as `tokens`, so that they are read again.
    """
    for number, answer in enumerate(answers):
        text, words = sentences.texts[number], sentences.spans[number]
        line: dict[str, Any] = {"text": text}
        if words != words_of_text(text):
            places = enumerate(words)
            line["tokens"] = [
                {"text": text[first:end], "start": first, "end": end, "id": n} for n, (first, end) in places
            ]
        spans: list[Any] = answer.spans
        if sentences.span_key == "spans":
            spans = [{"start": start, "end": end, "label": kind} for start, end, kind in spans]
        yield json.dumps(line | {sentences.span_key: spans}, ensure_ascii=False)


def _read_span(one: Any, text: Text, place: str) -> Span:
    start, end, kind, quoted = _parts(one, place)
    if any(isinstance(value, bool) or not isinstance(value, numbers.Integral) for value in (start, end)):
        raise InputError(f"{place}: start and end must be whole numbers. Received: {one!r:.200}")
    span = Span(int(start), int(end), kind)
    if isinstance(quoted, str) and isinstance(text, str) and not _is_at(span, text, quoted):
        counted = [[bisect.bisect_left(starts, offset) for offset in span[:2]] for starts in _starts_in_tools(text)]
        others = (Span(*offsets, kind) for offsets in counted)
        converted = next((other for other in others if _is_at(other, text, quoted)), None)
        if converted is None:
            found = text[max(span.start, 0) : max(span.end, 0)]
            raise InputError(
                f"{place}: the characters {start}:{end} are {found!r:.60}, but the annotation says {quoted!r:.60}. The "
                "text was changed after it was annotated. Export both again."
            )
        span = converted
    if not 0 <= span.start < span.end <= len(text):
        unit = "characters" if isinstance(text, str) else "words"
        raise InputError(
            f"{place}: {one!r:.100} is empty, reversed or not inside the text, which has {len(text)} {unit}."
        )
    return span


def _parts(one: Any, place: str) -> tuple[Any, Any, str, Any]:
    """Returns start, end, type and, if it is given, the text of a span in any form."""
    if isinstance(one, Mapping):
        names = (_STARTS, _ENDS, _TYPES, ("text",))
        start, end, kind, quoted = (next((one[name] for name in some if name in one), None) for some in names)
        if isinstance(kind, list) and len(kind) == 1:
            kind = kind[0]
    elif isinstance(one, (list, tuple)) and len(one) == 3:
        (start, end, kind), quoted = one, None
    elif not isinstance(one, (list, tuple)) and is_span(one):
        start, end, kind, quoted = one.start, one.end, one.type, None
    else:
        raise InputError(
            f'{place} must be [start, end, type] or {{"start": 0, "end": 3, "label": "PER"}}. Received: {one!r:.200}'
        )
    if not isinstance(kind, str) or not kind.strip():
        raise InputError(f"{place} must have one type, a name. Received: {one!r:.200}")
    return start, end, kind, quoted


def _is_at(span: Span, text: str, quoted: str) -> bool:
    """Returns whether a span has this text. White space is not compared: tools change it, and write breaks as \\n."""
    found = text[span.start : span.end] if 0 <= span.start <= span.end else ""
    return "".join(found.split()) == "".join(quoted.replace("\\n", "\n").split())


@functools.lru_cache(maxsize=1)
def _starts_in_tools(text: str) -> list[list[int]]:
    r"""Returns the place of each character, and of the end of the text, for each way to count of annotation tools.

    They count in UTF-16 units, \r\n as one character, or both.
    """
    doubled = [character > "\uffff" for character in text]
    joined = [pair == ("\r", "\n") for pair in itertools.pairwise(text + " ")]
    none = [False] * len(text)
    return [
        list(itertools.accumulate((1 + more - less for more, less in zip(*way, strict=True)), initial=0))
        for way in ((doubled, none), (none, joined), (doubled, joined))
    ]


def _tags(spans: Sequence[Span], words: Sequence[tuple[int, int]], text: Text) -> tuple[list[str], list]:
    """Returns the tags of the words; and of each span that does not fall on words, what became of it and whether it is
    lost."""
    starts, ends = [start for start, _ in words], [end for _, end in words]
    entities, misfits, free = [], [], 0
    for span in spans:
        first = max(bisect.bisect_right(ends, span.start), free)
        stop = bisect.bisect_left(starts, span.end)
        if first >= stop:
            misfits.append((f"{_shown(span, text)} left out", True))
            continue
        if (starts[first], ends[stop - 1]) != span[:2]:
            misfits.append((f"{_shown(span, text)} -> {_part(text, starts[first], ends[stop - 1])!r:.60}", False))
        entities.append(Entity(first, stop, span.type))
        free = stop
    return write_tags(entities, len(words)), misfits


def _note(misfits: Sequence[tuple[str, bool]], num_spans: int) -> str:
    num_lost = sum(is_lost for _, is_lost in misfits)
    lost = f", and {num_lost} left out that have no word of their own" if num_lost else ""
    shown = ", ".join(misfit for misfit, _ in misfits[:_MOST_SHOWN]) + ", ..." * (len(misfits) > _MOST_SHOWN)
    return (
        f"{len(misfits):,} of {num_spans:,} spans do not begin and end with words: {len(misfits) - num_lost} were set "
        f"to the words that they touch{lost}: {shown}"
    )


def _shown(span: Span, text: Text) -> str:
    return f"[{span.start}, {span.end}, {span.type!r:.40}] {_part(text, span.start, span.end)!r:.60}"


def _part(text: Text, start: int, end: int) -> str:
    return text[start:end] if isinstance(text, str) else " ".join(text[start:end])
