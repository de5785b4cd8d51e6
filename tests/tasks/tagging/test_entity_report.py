import sys

import pytest

from keras_bert.tasks.tagging.report import write_tag_report

WORDS = [["Ada", "Lovelace", "wrote"], ["London\tcalls", "IBM"], ["Paris"]]
GOLD = [["B-PER", "I-PER", "O"], ["B-LOC", "O"], ["B-LOC"]]
PREDICTED = [["B-PER", "O", "O"], ["B-LOC", "B-ORG"], ["B-LOC"]]


def lines(path):
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()]


def test_the_report_has_every_type_and_the_worst_sentences_first(tmp_path):
    pytest.importorskip("matplotlib")
    write_tag_report(tmp_path, WORDS, GOLD, PREDICTED, [0.5, 2.0, 3.0], {"f1": 4 / 7})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "entities.png",
        "entities.tsv",
        "errors.tsv",
        "report.txt",
    ]
    assert lines(tmp_path / "entities.tsv") == [
        ["type", "precision", "recall", "f1", "occurs", "predicted"],
        ["LOC", "1", "1", "1", "2", "2"],
        ["ORG", "0", "0", "0", "0", "1"],
        ["PER", "0", "0", "0", "1", "1"],
        ["micro", "0.5", "0.666667", "0.571429", "3", "4"],
        ["macro", "0.333333", "0.333333", "0.333333", "3", "4"],
    ]
    assert lines(tmp_path / "errors.tsv") == [
        ["sentence", "text", "right", "predicted", "loss"],
        ["2", "London calls IBM", "London calls (LOC)", "London calls (LOC), IBM (ORG)", "2"],
        ["1", "Ada Lovelace wrote", "Ada Lovelace (PER)", "Ada (PER)", "0.5"],
    ]
    text = (tmp_path / "report.txt").read_text("utf-8")
    assert "f1         0.5714" in text
    assert "LOC       1.0000" in text
    assert "2 of 3 sentences have a wrong tag: errors.tsv" in text
    assert (tmp_path / "entities.png").read_bytes().startswith(b"\x89PNG")


def test_tags_that_mark_no_entities_are_counted_by_word(tmp_path):
    write_tag_report(tmp_path, [["it", "flies"]], [["PRON", "VERB"]], [["PRON", "NOUN"]], [1.0], {"accuracy": 0.5})
    assert lines(tmp_path / "tags.tsv")[1:] == [
        ["NOUN", "0", "0", "0", "0", "1"],
        ["PRON", "1", "1", "1", "1", "1"],
        ["VERB", "0", "0", "0", "1", "0"],
    ]
    assert lines(tmp_path / "errors.tsv")[1] == ["1", "it flies", "flies (VERB)", "flies (NOUN)", "1"]


def test_without_matplotlib_a_line_says_so(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("keras_bert.tasks.report_files.has_matplotlib", lambda: False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    write_tag_report(tmp_path, WORDS, GOLD, PREDICTED, [1.0] * 3, {})
    assert not (tmp_path / "entities.png").exists()
    assert "entities.png was not drawn: pictures need matplotlib" in caplog.text
