"""The report of a model: a folder with pictures, which a notebook shows."""

import pathlib

import pytest
import tiny

from keras_bert import InputError, MaskedLM, SequenceClassifier

pytestmark = pytest.mark.usefixtures("without_graphs")

VOCABULARY = tiny.vocabulary("good bad film a")
TEXTS, LABELS = ["a good film", "a bad film", "bad", "good"], ["<good>", "bad", "bad", "<good>"]


def model_of(model_class, **arguments):
    return tiny.made(model_class, tiny.config(VOCABULARY), VOCABULARY, seed=0, **arguments)


def test_a_model_writes_its_report_and_a_notebook_shows_it(tmp_path):
    model = model_of(SequenceClassifier, labels=["bad", "<good>"])
    report = model.report(TEXTS, LABELS, tmp_path / "report")
    assert report.scores == model.evaluate(TEXTS, LABELS, verbose=0)
    names = {path.name for path in pathlib.Path(report.path).iterdir()}
    assert names >= {"report.txt", "confusion_matrix.png", "thresholds.png", "reliability.png", "errors.tsv"}
    shown = report._repr_html_()
    assert shown.count('src="data:image/png;base64,iVBOR') == 3
    assert "&lt;good&gt;" in shown
    assert "<good>" not in shown


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (lambda model, path: model.report(TEXTS, None, path / "new"), "no labels to compare with: give report"),
        (lambda model, path: model.report(TEXTS, LABELS, path), "not empty|exists"),
        (lambda _, path: model_of(MaskedLM).report(["a [MASK]"], ["good"], path / "new"), "MaskedLM has no report"),
    ],
)
def test_a_report_that_cannot_be_written_is_refused(tmp_path, report, message):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(InputError, match=message):
        report(model_of(SequenceClassifier, labels=["bad", "<good>"]), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
