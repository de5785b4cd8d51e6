import sys

import pytest
from example_records import PACKED, PAIR, VOCABULARY, example, pretraining_example

from data_prep.inspection.parsed_records import ParsedBatch, find_schema, parse_batch
from data_prep.inspection.record_plot import plot_summary
from data_prep.inspection.record_report import summarize
from data_prep.inspection.record_statistics import RecordStatistics
from keras_bert.program.errors import InputError
from keras_bert.tokenization.vocabulary import Vocabulary

pytest.importorskip("matplotlib")


def summary_of(*records, vocabulary=VOCABULARY):
    serialized = [example(**record) for record in records]
    schema = find_schema(serialized)
    statistics = RecordStatistics(vocabulary)
    statistics.add(ParsedBatch(schema, parse_batch(serialized, schema), 0), "file", 1)
    return summarize(statistics)


def size_of_png(path):
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


@pytest.mark.parametrize("record", [PAIR, PACKED])
def test_pretraining_records_give_several_panels(tmp_path, record):
    plot_summary(summary_of(record), "two records", tmp_path / "a.png")
    width, height = size_of_png(tmp_path / "a.png")
    assert width > 1000
    assert height > 700


def test_labels_alone_give_one_panel(tmp_path):
    plot_summary(summary_of(*({"label_ids": [number % 2]} for number in range(4))), "labels", tmp_path / "a.png")
    assert size_of_png(tmp_path / "a.png")[0] < 800


def test_names_that_the_font_or_a_formula_would_spoil_are_drawn_without_warning(tmp_path):
    tokens = list(VOCABULARY.tokens)
    tokens[6], tokens[VOCABULARY.ids["dog"]] = "中", "$\\frac$"
    dogs = pretraining_example("[CLS] dog dog dog [SEP] dog [SEP]", {5: "dog"})
    plot_summary(summary_of(dogs, vocabulary=Vocabulary(tokens)), "$\\frac$ 中", tmp_path / "a.png")
    size_of_png(tmp_path / "a.png")


def test_without_anything_to_draw_it_says_so(tmp_path):
    with pytest.raises(InputError, match="nothing to draw"):
        plot_summary(summary_of({"name": [b"x"]}), "strings", tmp_path / "a.png")


def test_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'keras-bert-pipeline\[plots\]'"):
        plot_summary(summary_of(PAIR), "title", tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()
