import sys

import pytest
from example_records import PACKED, PAIR, VOCABULARY, example

from data_prep.inspection.parsed_records import find_features, parse_batch
from data_prep.inspection.record_plot import plot_summary
from data_prep.inspection.record_report import summarize
from data_prep.inspection.record_statistics import RecordStatistics
from keras_bert.program.errors import InputError

pytest.importorskip("matplotlib")


def summary_of(*records):
    serialized = [example(**record) for record in records]
    statistics = RecordStatistics(VOCABULARY)
    statistics.add(parse_batch(serialized, find_features(serialized)), "file")
    return summarize(statistics)


def size_of_png(path):
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


@pytest.mark.parametrize("record", [PAIR, PACKED])
def test_pretraining_records_give_several_panels(tmp_path, record):
    plot_summary(summary_of(record), tmp_path / "a.png")
    assert size_of_png(tmp_path / "a.png")[1] > 700


def test_labels_alone_give_one_panel(tmp_path):
    plot_summary(summary_of(*({"label_ids": [number % 2]} for number in range(4))), tmp_path / "a.png")
    assert size_of_png(tmp_path / "a.png")[1] < 500


def test_without_anything_to_draw_it_says_so(tmp_path):
    with pytest.raises(InputError, match="nothing to draw"):
        plot_summary(summary_of({"name": [b"x"]}), tmp_path / "a.png")


def test_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"Run in a clone of keras_bert: pip install '\.\[plots\]'"):
        plot_summary(summary_of(PAIR), tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()
