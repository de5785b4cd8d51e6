"""Files of annotation tools -> words with tags, classes, and questions with answers."""

import itertools
import json
import logging
import re

import numpy as np
import pytest

from data_prep.finetuning.conll import read_tagged_sentences
from data_prep.finetuning.labelled_text import read_labelled_text, read_multi_label_text
from data_prep.finetuning.squad import read_squad
from keras_bert.program.errors import InputError
from keras_bert.tasks.question_answering.examples import Answer
from keras_bert.tasks.tagging.annotated_spans import read_spans
from keras_bert.tasks.tagging.examples import in_one_scheme
from keras_bert.tasks.tagging.tag_schemes import read_entities

TEXT = "Ada Lee wrote from U.S.-Bonn."
SPANS = [[0, 7, "PER"], [24, 28, "LOC"]]
OBJECTS = [{"start": start, "end": end, "label": kind} for start, end, kind in SPANS]
WORDS = ["Ada", "Lee", "wrote", "from", "U.S.", "-", "Bonn", "."]
TAGS = ["B-PER", "I-PER", "O", "O", "O", "O", "B-LOC", "O"]


def label_studio(text, *results, **task):
    """A task with an annotation for each list of results; a result is (type, value)."""
    results = [
        [{"type": kind, "from_name": "a", "to_name": "t", "value": value} for kind, value in one] for one in results
    ]
    return {"id": 7, "data": {"text": text}, "annotations": [{"result": one} for one in results], **task}


def labels(*spans, **others):
    return [("labels", {"start": start, "end": end, "labels": [kind], **others}) for start, end, kind in spans]


def universal(*words, misc="_"):
    lines = [f"{number}\t{word}\tl\tNOUN\tNN\t_\t0\troot\t_\t{misc}" for number, word in enumerate(words, start=1)]
    return "\n".join(["# text = t", *lines]) + "\n\n"


IN_TWO_TEXTS = [{"type": "labels", "to_name": name, "value": {"start": 0, "end": 3}} for name in ("title", "body")]


@pytest.fixture
def write(tmp_path):
    def write_file(*rows, name="a.jsonl"):
        path = tmp_path / name
        as_text = "\n".join(map(json.dumps, rows)) if name.endswith("l") else json.dumps(rows)
        path.write_text(rows[0] if name.endswith("conllu") else as_text, "utf-8")
        return path

    return write_file


FORMS = {
    "doccano": {"text": TEXT, "label": SPANS},
    "doccano of several labels": {"id": 3, "text": TEXT, "labels": SPANS, "Comments": []},
    "doccano with relations": {
        "data": TEXT,
        "entities": [{"id": 1, "label": kind, "start_offset": start, "end_offset": end} for start, end, kind in SPANS],
        "relations": [],
    },
    "spacy": {"text": TEXT, "entities": SPANS},
    "a spacy document": {"text": TEXT, "ents": OBJECTS, "spans": {}},
    "prodigy": {"text": TEXT, "spans": OBJECTS, "answer": "accept", "_task_hash": 1},
    "label studio": label_studio(TEXT, labels(*reversed(SPANS))),
    "label studio before 1.0": {"data": {"text": TEXT}, "completions": [{"result": []}]},
    "label studio's short export": {"text": TEXT, "label": [dict(one, labels=[one["label"]]) for one in OBJECTS]},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_each_form_is_recognised_by_its_content(write, form, name):
    row = FORMS[form]
    found = read_tagged_sentences(write(row, {**row}, name=name))
    expected = ["O"] * len(WORDS) if form == "label studio before 1.0" else TAGS
    assert (found.words, found.tags, found.texts, found.notes) == ([WORDS] * 2, [expected] * 2, [TEXT] * 2, [])
    assert found.locations == (["line 1", "line 2"] if name == "a.jsonl" else ["item 1", "item 2"])
    assert read_tagged_sentences(write(row, name=name), has_tags=False).tags is None


def test_pairs_of_spacy_and_named_columns_are_read(write):
    assert read_tagged_sentences(write([TEXT, {"entities": SPANS}], name="a.json")).tags == [TAGS]
    row = {"sentence": "x", "body": TEXT, "mine": SPANS, "label": [[0, 1, "Z"]]}
    assert read_tagged_sentences(write(row), text_column="body", label_column="mine").tags == [TAGS]
    # Lists of words stay lists of words, also beside a text.
    row = {"text": TEXT, "tokens": ["Ada"], "labels": ["B-PER"]}
    assert read_tagged_sentences(write(row)).words == [["Ada"]]


def test_tokens_of_prodigy_are_the_words(write):
    places = [(0, 3), (3, 4), (4, 13), (13, 29)]
    tokens = [{"text": TEXT[start:end], "start": start, "end": end, "id": 0} for start, end in places]
    found = read_tagged_sentences(write({"text": TEXT, "tokens": tokens, "spans": [], "answer": "accept"}))
    assert found.words == [["Ada", "Lee wrote", " from U.S.-Bonn."]]  # without the token of white space
    for damage in ({"start": True}, {"end": 99}, {"start": 5}):
        bad = [tokens[0] | damage, *tokens[1:]]
        with pytest.raises(InputError, match="line 1: token [12] must have the start and end of its characters"):
            read_tagged_sentences(write({"text": TEXT, "tokens": bad, "spans": []}))


def test_answers_of_prodigy_and_skipped_tasks_are_respected(write, caplog):
    rows = [{"text": f"Ada {answer}", "answer": answer, "_input_hash": 1} for answer in ("accept", "reject", "ignore")]
    skipped = label_studio("Ada skipped", [])
    skipped["annotations"][0]["was_cancelled"] = True
    with caplog.at_level(logging.WARNING):
        assert read_tagged_sentences(write(*rows, rows[1], skipped)).words == [["Ada", "accept"]]
    messages = [record.message for record in caplog.records]
    for message, reason in zip(messages, ['2 .*"reject"', '1 .*"ignore"', "1 .*skipped by the annotator"], strict=True):
        assert re.search(f"a.jsonl: {reason}", message)


def test_tasks_without_annotations_are_texts_to_predict_and_missing_labels(write):
    path = write(label_studio("Ada"), label_studio("Ada", []), name="a.json")
    assert read_tagged_sentences(path, has_tags=None).tags is None
    with pytest.raises(InputError, match=r"a.json: 1 of 2 rows have no value .* item 1: there are no annotations"):
        read_tagged_sentences(path)
    assert read_tagged_sentences(path, skip_missing=True).locations == ["item 2"]


def test_of_several_annotations_the_ground_truth_counts(write):
    task = label_studio("Ada", labels([0, 3, "PER"]), labels([0, 3, "LOC"]))
    with pytest.raises(InputError, match="item 1 has 2 annotations that differ. Mark one of them as ground truth"):
        read_tagged_sentences(write(task, name="a.json"))
    task["annotations"][1]["ground_truth"] = True
    assert read_tagged_sentences(write(task, name="a.json")).tags == [["B-LOC"]]
    task["annotations"].reverse()
    same = label_studio("Ada", labels([0, 3, "PER"]), labels([0, 3, "PER"]))
    assert read_tagged_sentences(write(task, same, name="a.json")).tags == [["B-LOC"], ["B-PER"]]


@pytest.mark.parametrize("place", [(4, 7), (5, 8), (3, 6)])
def test_units_of_the_tool_are_told_by_the_text_of_the_span(write, place):
    """Label Studio counts code points, and counted UTF-16 units in older versions. A browser's breaks are one unit."""
    task = label_studio("\N{PILE OF POO}\r\n Ada Lee", labels([*place, "PER"], text="Ada"))
    found = read_tagged_sentences(write(task, name="a.json"))
    assert found.tags == [["O", "B-PER", "O"]]


def test_units_may_differ_in_both_ways():
    text = "\N{PILE OF POO}\N{PILE OF POO}\r\na\r\nb Ada"
    [span] = read_spans([{"start": 9, "end": 12, "label": "PER", "text": "Ada"}], text, "text 1")
    assert text[span.start : span.end] == "Ada"


def test_a_marked_span_without_a_label_is_left_out_and_counted(write, caplog):
    task = label_studio("Ada met Lee", [("labels", {"start": 0, "end": 3}), *labels([8, 11, "PER"])])
    assert read_tagged_sentences(write(task, name="a.json")).tags == [["O", "O", "B-PER"]]
    assert "a.json: 1 marked spans were left out: they have no label." in caplog.text


def test_the_units_of_many_spans_of_a_text_are_counted_once(monkeypatch):
    names = [f"A{number:04d}" for number in range(5_000)]
    text = "".join(f"\N{PILE OF POO} {name} " for name in names)
    spans = [
        {"start": 9 * number + 3, "end": 9 * number + 8, "label": "PER", "text": name}
        for number, name in enumerate(names)
    ]
    counted, accumulate = [], itertools.accumulate
    monkeypatch.setattr(
        itertools, "accumulate", lambda *given, **named: counted.append(1) or accumulate(*given, **named)
    )
    found = read_spans(spans, text, "text 1")
    assert len(counted) == 3  # one for each way to count
    assert [text[span.start : span.end] for span in found] == names


def test_a_text_of_a_span_may_differ_in_white_space_only(write):
    task = label_studio("Ada\nLee", labels([0, 7, "PER"], text="Ada\\nLee"))
    assert read_tagged_sentences(write(task, name="a.json")).tags == [["B-PER", "I-PER"]]
    with pytest.raises(InputError, match="span 1: the characters 0:3 are 'Ada', but the annotation says 'Lee'"):
        read_tagged_sentences(write(label_studio("Ada\nLee", labels([0, 3, "PER"], text="Lee")), name="a.json"))


def test_conllu_has_named_columns(write):
    text = universal("Ada", misc="SpaceAfter=No|NER=B-PER") + universal("writes", "no")
    text = text.replace("1\twrites", "1-2\tWritesno\t" + "\t".join("_" * 8) + "\n1\twrites").replace(
        "# text", "# newdoc\n#", 1
    )
    path = write(text + "1.1\tghost" + "\t_" * 8 + "\n", name="a.conllu")
    assert read_tagged_sentences(path).tags == [["B-PER"], ["O", "O"]]
    for column, tag in {"UPOS": "NOUN", "XPOS": "NN", "DEPREL": "root", "3": "NOUN", "MISC=SpaceAfter": "No"}.items():
        found = read_tagged_sentences(path, label_column=column)
        assert (found.words, found.tags[0]) == ([["Ada"], ["writes", "no"]], [tag])
    assert read_tagged_sentences(path, text_column="LEMMA").words[0] == ["l"]
    assert read_tagged_sentences(path, has_tags=None).tags is not None
    with pytest.raises(InputError, match="no word has 'ner' in MISC; the keys there are: NER, SpaceAfter"):
        read_tagged_sentences(path, label_column="ner")
    assert read_tagged_sentences(write(universal("a"), name="a.conllu"), has_tags=None).tags is None


def ada(*label):
    return {"text": "Ada Lee", "label": list(label)}


SEVERAL_LABELS = {"text": "Ada", "spans": [{"start": 0, "end": 3, "labels": ["X", "Y"]}]}
YES_TO_ONE = {"text": "Ada", "answer": "accept", "_view_id": "ner", "spans": []}
MIXED = [*labels([0, 3, "X"]), ("choices", {"choices": 1})]
REFUSED = [
    (label_studio("Ada", MIXED), "choices must be a list. Received: 1"),
    (ada([0, 9, "X"]), r"line 1: span 1: \[0, 9, 'X'\] is empty, reversed or not inside the text, which has 7 char"),
    (ada([2, 1, "X"]), "empty, reversed or not inside"),
    (ada([-1, 1, "X"]), "empty, reversed or not inside"),
    (ada([1, 1, "X"]), "empty, reversed or not inside"),
    (ada([0, 1.0, "X"]), "start and end must be whole numbers. Received: .0, 1.0, 'X'"),
    (ada([False, True, "X"]), "start and end must be whole numbers"),
    (ada([0, "3", "X"]), "start and end must be whole numbers"),
    ({"text": "Ada", "spans": [{"start": 0, "label": "X"}]}, "start and end must be whole numbers"),
    (ada([0, 3]), r"span 1 must be \[start, end, type\] or"),
    (ada([0, 3, " "]), "span 1 must have one type, a name"),
    (ada([0, 3, None]), "span 1 must have one type, a name"),
    (SEVERAL_LABELS, "span 1 must have one type"),
    (ada([0, 7, "X"], [4, 7, "Y"]), r"line 1: the spans \[0, 7, 'X'\] 'Ada Lee' and \[4, 7, 'Y'\] 'Lee' overlap"),
    ({"text": "Ada", "entities": [[0, 3, "X"]], "spans": OBJECTS}, "several lists of spans: spans, entities. Name one"),
    ({"body": "Ada", "mark": 1}, "line 1 has no text with spans. Its keys are 'body', 'mark'. These forms are read"),
    ({"text": "Ada", "label": ["a class"]}, "line 1 has no text with spans. Its keys are 'text', 'label'"),
    (YES_TO_ONE, r"is a yes to one span \(ner.teach\)"),
    (label_studio("Ada", [("hypertextlabels", {})]), "results of type 'hypertextlabels', which are of HTML"),
    (label_studio("Ada", [("choices", {"choices": ["good"]})]), "has classes of whole texts and no spans"),
    (label_studio("Ada", [("textarea", {"text": ["a"]})]), "line 1 has results of type textarea only. Spans"),
    (label_studio("Ada", [("labels", None)]), "line 1: value must be an object. Received: None"),
    (label_studio("Ada", annotations=[{}]), "line 1: result must be a list"),
    (label_studio("Ada", annotations=[{"result": IN_TWO_TEXTS}]), "spans in several texts: body, title. Label one"),
    ({"text": "\x01", "label": []}, "line 1 is empty: it has no words"),
    ({"text": " ", "label": []}, "1 of 1 rows have no value where one is needed"),
]


@pytest.mark.parametrize(("row", "message"), REFUSED)
def test_bad_annotations_are_refused_with_their_place(write, row, message):
    with pytest.raises(InputError, match=message):
        read_tagged_sentences(write(row))


def test_classes_of_the_tools_are_labels(write):
    choice = [("choices", {"choices": ["good"]})]
    rows = [
        {"text": "a", "label": ["good"]},
        {"text": "b", "label": "good", "answer": "accept"},
        {"text": "c", "label": "good", "answer": "reject"},
        {"text": "d", "options": [{"id": "good"}, {"id": 2}], "accept": [2], "answer": "accept"},
        label_studio("e", [*choice, ("choices", {"choices": ["of a span"], "start": 0, "end": 1})]),
    ]
    assert read_labelled_text(write(*rows)).labels == ["good", "good", "2", "good"]
    both = label_studio("f", [("choices", {"choices": ["good", "long"]})])
    path = write(*rows, both, name="a.json")
    assert read_multi_label_text(path).labels[-2:] == [["good"], ["good", "long"]]
    with pytest.raises(InputError, match=r"the label in column 'label' is a list of 2: .* the task is multi_label"):
        read_labelled_text(path)
    with pytest.raises(InputError, match=r"1 of 1 rows have no value .* the label in column 'label' is None"):
        read_labelled_text(write(label_studio("g"), name="a.json"))


def two_controls(text, **choices):
    results = [
        {"type": "choices", "from_name": name, "to_name": "t", "value": {"choices": chosen}}
        for name, several in choices.items()
        for chosen in several
    ]
    return label_studio(text) | {"annotations": [{"result": results}]}


def test_choices_that_are_empty_absent_or_made_twice_are_the_same_in_every_row(write):
    first, none = two_controls("a", topic=[["x"]]), two_controls("c")
    path = write(none, first, two_controls("b", topic=[["y"], ["x", "y"]]), label_studio("d"), name="a.json")
    for column in ("topic", "label"):
        with pytest.raises(InputError, match="1 of 4 rows .* item 4: the label in column .* is None"):
            read_multi_label_text(path, label_column=column)
        found = read_multi_label_text(path, label_column=column, skip_missing=True)
        assert (found.texts, found.labels) == (["c", "a", "b"], [[], ["x"], ["y", "x"]])
    path = write(none, first, two_controls("e", topic=[["x"], ["x"]]), name="a.json")
    with pytest.raises(InputError, match="1 of 3 rows .* number 0, counted from 0, at item 1: the label"):
        read_labelled_text(path, label_column="topic")
    assert read_labelled_text(path, label_column="topic", skip_missing=True).labels == ["x", "x"]


def test_a_file_of_several_controls_has_no_column_of_whichever_was_used(write):
    path = write(two_controls("a", topic=[["x"]]), two_controls("b", tone=[["y"]]), {"text": "c"}, name="a.json")
    with pytest.raises(InputError, match="item 1: there is no column 'label' .* 'topic'"):
        read_labelled_text(path, skip_missing=True)
    found = read_labelled_text(path, label_column="tone", skip_missing=True)
    assert (found.texts, found.labels) == (["b"], ["y"])


def test_json_min_of_label_studio_has_several_choices_as_a_list(write):
    rows = [{"text": "a", "topic": "x"}, {"text": "b", "topic": {"choices": ["x", "y"]}}, {"text": "c"}]
    path = write(*({**row, "annotator": 1} for row in rows), name="a.json")
    with pytest.raises(InputError, match="1 of 3 rows .* item 3: there is no column 'topic' for the labels"):
        read_multi_label_text(path, label_column="topic")
    found = read_multi_label_text(path, label_column="topic", skip_missing=True)
    assert found.labels == [["x"], ["x", "y"]]
    spans = {"label": [{"start": 0, "end": 3, "labels": ["PER"]}]}
    path = write({"text": "Ada", "annotator": 1}, {"text": "Ada", "annotator": 1, **spans}, name="a.json")
    assert read_tagged_sentences(path).tags == read_tagged_sentences(path, has_tags=None).tags == [["O"], ["B-PER"]]
    with pytest.raises(InputError, match="item 1: there is no column 'lable' for the spans"):
        read_tagged_sentences(path, label_column="lable")


def test_spans_beside_a_question_are_its_answers(write):
    task = label_studio("Ada was born in London.", labels([16, 22, "Answer"]))
    task["data"]["question"] = "Where?"
    row = {"context": "Ada Lee", "question": "Who?", "spans": OBJECTS[:1], "answer": "accept"}
    path = write(task, row, {**row, "spans": []}, name="a.json")
    found = read_squad(path)
    assert (found.ids, found.questions) == (["7", "2", "3"], ["Where?", "Who?", "Who?"])
    assert found.answers == [[Answer("London", 16)], [Answer("Ada Lee", 0)], []]
    task["annotations"] = []
    assert read_squad(write(task, name="a.json"), has_answers=False).contexts == ["Ada was born in London."]
    with pytest.raises(InputError, match="1 of 1 rows have no value where one is needed"):
        read_squad(write(task, name="a.json"))


def wnut_rows(sentences, form):
    for words, tags in zip(sentences.words, sentences.tags, strict=True):
        ends = np.cumsum([len(word) + 1 for word in words]).tolist()
        places = [(end - len(word) - 1, end - 1) for word, end in zip(words, ends, strict=True)]
        spans = [[places[one.start][0], places[one.end - 1][1], one.type] for one in read_entities(tags)]
        row = {"text": " ".join(words), "label": spans}
        if form == "prodigy":
            row["spans"] = [{"start": start, "end": end, "label": kind} for start, end, kind in row.pop("label")]
            row |= {"tokens": [{"start": start, "end": end} for start, end in places], "answer": "accept"}
        yield row


@pytest.mark.parametrize("form", ["doccano", "prodigy"])
def test_wnut_has_the_same_tags_after_each_form_of_spans(shared_data, write, form):
    sentences, _, _ = in_one_scheme(read_tagged_sentences(shared_data("wnut17/emerging.dev.conll")))
    found = read_tagged_sentences(write(*wnut_rows(sentences, form), name="a.json"))
    assert found.notes == []
    if form == "prodigy":
        assert (found.words, found.tags) == (sentences.words, sentences.tags)
    for tags, words, spans, expected in zip(found.tags, found.words, found.spans, sentences.words, strict=True):
        assert "".join(words) == "".join(expected).replace(" ", "")
        assert len(tags) == len(spans)
    again = [
        [(spans[one.start][0], spans[one.end - 1][1], one.type) for one in read_entities(tags)]
        for tags, spans in zip(found.tags, found.spans, strict=True)
    ]
    given = [[tuple(span) for span in row["label"]] for row in wnut_rows(sentences, "doccano")]
    assert again == given
