"""Reads texts with spans from rows of Doccano, spaCy, Prodigy and Label Studio."""

from collections.abc import Mapping, Sequence
from typing import Any

from data_prep.finetuning.complete_rows import complete_rows, labels_are_read
from data_prep.finetuning.tables import Column, Row
from data_prep.text.text_lines import without_lone_surrogates
from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import MissingColumn, MissingValue, is_missing
from keras_bert.tasks.tagging.annotated_spans import Span, read_spans, sentences_of_spans
from keras_bert.tasks.tagging.examples import TaggedSentences

_TEXT_NAMES = ("text", "data", "sentence", "content")
_SPAN_NAMES = ("spans", "label", "labels", "entities", "ents")
# Their predictions are written as objects again.
_OF_SPACY = ("spans", "ents")
FORMS = (
    'Doccano\'s {"text": "Ada wrote", "label": [[0, 3, "PER"]]}, spaCy\'s and Prodigy\'s {"text": "Ada wrote", '
    '"spans": [{"start": 0, "end": 3, "label": "PER"}]}, Label Studio\'s JSON export ({"data": ..., "annotations": '
    '...}), and lists {"tokens": ["Ada", "wrote"], "tags": ["B-PER", "O"]}'
)


def text_column_of(row: Row, text_column: Column | None = None) -> Column | None:
    """Returns the column with the text of a row, by default one of the usual names; None if there is none."""
    names = _TEXT_NAMES if text_column is None else (text_column,)
    return next((name for name in names if isinstance(row.values.get(name), str)), None)


def text_of(row: Row, text_column: Column | None = None) -> str:
    """Returns the text of a row as it is: spans count its characters. Raises `MissingValue` if it is empty."""
    name = text_column_of(row, text_column)
    if name is None:
        names = _TEXT_NAMES if text_column is None else (text_column,)
        if any(name in row.values and row.values[name] is None for name in names):
            raise MissingValue(f"{row.where}: there is no text")
        raise unknown_form(row)
    if is_missing(row.values[name]):
        raise MissingValue(f"{row.where}: the text in {name!r} is empty")
    return without_lone_surrogates(row.values[name])


def span_column(row: Row, label_column: Column | None = None) -> Column | None:
    """Returns the column with a list of spans; None if there is none. Raises `InputError` if there are several."""
    if label_column is not None:
        if label_column not in row.values and _is_done(row):
            return None
        row.value(label_column, "spans")
        return label_column
    found = [name for name in _SPAN_NAMES if _may_be_spans(row.values.get(name))]
    full = [name for name in found if row.values[name]]
    if len(full) > 1:
        raise InputError(
            f"{row.where} has several lists of spans: {', '.join(full)}. Name one: --label_column={full[0]}"
        )
    return next(iter([*full, *found]), None)


def read_span_rows(
    path: str,
    rows: Sequence[Row],
    text_column: Column | None,
    label_column: Column | None,
    has_tags: bool | None,
    skip_missing: bool,
) -> TaggedSentences:
    """Reads texts with spans as `read_tagged_sentences` does. Tokens of Prodigy or spaCy are the words."""
    if has_tags is None:
        by_name = label_column is not None
        has_some = [
            isinstance(row.values.get(label_column), list) if by_name else span_column(row) is not None for row in rows
        ]
        labelled = [has or _is_done(row) for has, row in zip(has_some, rows, strict=True)]
        has_tags = any(has_some) and labels_are_read(path, labelled, skip_missing)
    if has_tags and label_column is not None and not any(label_column in row.values for row in rows):
        rows[0].value(label_column, "spans")  # raises an error
    is_of_spacy = has_classes = False

    def values(row: Row) -> tuple[str, list[Span], list | None, str]:
        nonlocal is_of_spacy, has_classes
        is_of_spacy = is_of_spacy or not row.values.keys().isdisjoint(_OF_SPACY)
        classes = row.values.get("label")  # also beside spans, in Label Studio
        has_classes = has_classes or (isinstance(classes, list) and not _may_be_spans(classes))
        text = text_of(row, text_column)
        spans = _spans(row, text, label_column) if has_tags else []
        return text, spans, _tokens(row, text), row.where.removeprefix(f"{path}: ")

    found = complete_rows(path, rows, values, skip_missing=skip_missing)
    texts, spans, words, locations = map(list, zip(*found, strict=True))
    if has_tags and has_classes and not any(spans):
        raise InputError(f"{path} has classes of whole texts and no spans. Classes are for run_classifier.")
    key = "spans" if is_of_spacy else "label"
    return sentences_of_spans(texts, spans if has_tags else None, path, locations, words, span_key=key)


def _spans(row: Row, text: str, label_column: Column | None) -> list[Span]:
    column = span_column(row, label_column)
    if column is not None and row.values[column] is not None:
        return read_spans(row.values[column], text, row.where)
    if column is not None or any(row.values.get(name, ()) is None for name in _SPAN_NAMES):
        raise MissingValue(f"{row.where}: there are no annotations")
    if _is_done(row):
        return []
    raise MissingColumn(str(unknown_form(row)).removesuffix("."))


def _is_done(row: Row) -> bool:
    """Returns whether an annotator is done with a row. Prodigy and Label Studio's JSON-MIN leave out empty lists."""
    return row.values.get("answer") == "accept" or "annotator" in row.values


def unknown_form(row: Row) -> InputError:
    """Returns the error for a row in none of the forms that are read."""
    keys = ", ".join(map(repr, list(row.values)[:20]))
    return InputError(f"{row.where} has no text with spans. Its keys are {keys}. These forms are read: {FORMS}.")


def _may_be_spans(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(one, str) for one in value)


def _tokens(row: Row, text: str) -> list[tuple[int, int]] | None:
    """Returns the characters of the words that Prodigy or spaCy found, without those of white space."""
    tokens = row.values.get("tokens")
    if not isinstance(tokens, list) or not tokens or isinstance(tokens[0], str):
        return None
    places, end = [], 0
    for number, token in enumerate(tokens, start=1):
        place = (token.get("start"), token.get("end")) if isinstance(token, Mapping) else (None, None)
        if not all(type(value) is int for value in place) or not end <= place[0] < place[1] <= len(text):
            raise InputError(
                f"{row.where}: token {number} must have the start and end of its characters, after those of the token "
                f"before. Received: {token!r:.100}"
            )
        end = place[1]
        if text[place[0] : end].strip():
            places.append(place)
    return places or None
