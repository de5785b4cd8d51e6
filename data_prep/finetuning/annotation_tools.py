"""Rows of annotation tools as plain rows: the tasks of Label Studio, and the answers of Prodigy."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from keras_bert.program.errors import InputError
from keras_bert.program.json_files import checked

_logger = logging.getLogger(__name__)
_ANSWERS = ("accept", "reject", "ignore")
# Prodigy gives its rows one of these keys beside "answer".
_OF_PRODIGY = ("_task_hash", "_input_hash", "_view_id", "spans", "tokens", "options", "label")
# Kinds of results in Label Studio that hold no spans and no classes; where there are only these, the task is refused.
_SPANS, _CLASSES = "labels", "choices"
_NOT_OF_TEXTS = {"hypertextlabels": "HTML", "paragraphlabels": "dialogues"}


def plain_rows(path: str, kind: str, values: Iterable[tuple[int, Any]]) -> Iterator[tuple[str, dict]]:
    """Yields the place and the values of each row, with the annotations of tools as columns; others are unchanged.

    Raises `InputError` if a value is no object, or an annotation is damaged or of a kind that is not read.

    * spaCy's examples, `["a text", {"entities": [...]}]`, are objects with a `text`.
    * Label Studio's JSON export: the entries of `data` are columns. The spans of its Labels are the column `spans`, and
      the names of its Choices have the column of their control, and `label` if the file has one control only. They are
      empty where the annotator chose nothing; a task without annotations has None there. Of several annotations that
      differ, one must be the ground truth. In JSON-MIN, several choices are a list.
    * Prodigy: rows with the answer "accept"; the accepted ids of `options` are the column `label`.

    Tasks that the annotator skipped, rows with the answer "reject" or "ignore", and marked spans without a label are
    left out: a warning says how many.

    Args:
        path, kind: the file and what it calls a row, for messages.
        values: the number of each row and its JSON value.
    """
    left_out: Counter[str] = Counter()
    tasks: list[tuple[str, dict, _Annotation | None]] = []  # and the rows after the first task
    for number, row in values:
        where = f"{path}: {kind} {number}"
        if isinstance(row, list) and [type(part) for part in row] == [str, dict]:
            row = {"text": row[0], **row[1]}
        if not isinstance(row, dict):
            raise InputError(f"{where} must be a JSON object. Received: {type(row).__name__}")
        found, reason = row, ""
        if isinstance(row.get("data"), dict) and "text" not in row:
            if task := _of_label_studio(row, where):
                tasks.append((where, *task))
                continue
            found, reason = None, "was skipped by the annotator"
        elif row.get("answer") in _ANSWERS and "text" in row and any(key in row for key in _OF_PRODIGY):
            found, reason = _of_prodigy(row, where), f'has the answer "{row["answer"]}"'
        if found is None:
            left_out[reason] += 1
        else:
            found = {name: _chosen(value) for name, value in found.items()}
            if not tasks:
                yield where, found
            else:
                tasks.append((where, found, _OF_OTHERS))
    controls = sorted({name for _, _, annotation in tasks if annotation for name in annotation.classes})
    for where, columns, annotation in tasks:
        yield where, columns if annotation is _OF_OTHERS else columns | _annotation_columns(annotation, controls)
    for reason, count in left_out.items():
        _logger.warning("%s: %s rows were left out: each %s.", path, f"{count:,}", reason)
    if num_unnamed := sum(annotation.num_unnamed for _, _, annotation in tasks if annotation):
        _logger.warning("%s: %s marked spans were left out: they have no label.", path, f"{num_unnamed:,}")


class _Annotation(NamedTuple):
    spans: list[dict]
    classes: dict[str, list[str]]  # the names that were chosen at each control
    num_unnamed: int = 0  # marked spans without a label


# Stands for the annotation of a row that is no task.
_OF_OTHERS = _Annotation([], {})


def _of_label_studio(task: dict[str, Any], where: str) -> tuple[dict, _Annotation | None] | None:
    """Returns the entries of a task and its annotation; None if the annotator skipped it."""
    annotations = task.get("annotations", task.get("completions"))
    annotations = checked([] if annotations is None else annotations, list, "annotations", where)
    done = [one for one in annotations if not checked(one, dict, "an annotation", where).get("was_cancelled")]
    if annotations and not done:
        return None
    truths = [one for one in done if one.get("ground_truth")]
    found = [_annotation(checked(one.get("result"), list, "result", where), where) for one in truths or done]
    if any(one != found[0] for one in found):
        raise InputError(
            f"{where} has {len(found)} annotations that differ. Mark one of them as ground truth in Label Studio, or "
            "delete the others, and export again."
        )
    name = {"id": str(task["id"])} if "id" in task else {}
    return name | task["data"], found[0] if found else None


def _annotation_columns(annotation: _Annotation | None, controls: list[str]) -> dict[str, Any]:
    if annotation is None:
        return dict.fromkeys((*controls, "label", "spans"))
    columns = {name: annotation.classes.get(name, []) for name in controls}
    label = {"label": next(iter(columns.values()), [])} if len(controls) < 2 else {}
    return label | columns | {"spans": annotation.spans}


def _chosen(value: Any) -> Any:
    """Returns the list of several choices in Label Studio's JSON-MIN; other values as they are."""
    return value["choices"] if isinstance(value, dict) and value.keys() == {"choices"} else value


def _annotation(results: list, where: str) -> _Annotation:
    spans, classes, places, others, num_unnamed = [], {}, set(), set(), 0
    for result in results:
        kind = checked(result, dict, "a result", where).get("type")
        if kind in _NOT_OF_TEXTS:
            raise InputError(
                f"{where} has results of type {kind!r}, which are of {_NOT_OF_TEXTS[kind]}. Spans are read from Labels "
                "of a Text, and classes from Choices."
            )
        value = checked(result.get("value"), dict, "value", where) if kind in (_SPANS, _CLASSES) else {}
        if kind == _SPANS:
            places.add(result.get("to_name"))
            if value.get("labels"):
                spans.append({name: value.get(name) for name in ("start", "end", "labels", "text")})
            else:  # the annotator chose no label
                num_unnamed += 1
        elif kind == _CLASSES and "start" not in value:  # those with a start are of one span
            names = checked(value.get("choices"), list, "choices", where)
            names = [checked(name, str, "a choice", where) for name in names]
            before = classes.setdefault(str(result.get("from_name")), [])
            before.extend(name for name in dict.fromkeys(names) if name not in before)
        else:
            others.add(str(kind))
    if len(places) > 1:
        raise InputError(f"{where} has spans in several texts: {', '.join(sorted(map(str, places)))}. Label one.")
    if others and not spans and not classes and not num_unnamed:
        raise InputError(
            f"{where} has results of type {', '.join(sorted(others))} only. Spans (Labels) and classes (Choices) are "
            "read."
        )
    spans.sort(key=repr)  # annotators mark them in any order
    return _Annotation(spans, classes, num_unnamed)


def _of_prodigy(values: dict, where: str) -> dict[str, Any] | None:
    if values["answer"] != "accept":
        return None
    if values.get("_view_id") == "ner":
        raise InputError(
            f"{where} is a yes to one span (ner.teach); the rest of its text is not annotated. Annotate whole texts "
            "with ner.manual or ner.correct."
        )
    if "options" not in values:
        return values
    accepted = checked(values.get("accept"), list, "accept", where)
    return values | {"label": [str(name) for name in accepted]}
