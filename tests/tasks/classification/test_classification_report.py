"""The report on an evaluation: tables checked by hand, pictures, and errors in order."""

import struct

import numpy as np
import pytest

from keras_bert.program.errors import InputError
from keras_bert.tasks import report_files
from keras_bert.tasks.classification.report import write_label_report, write_label_set_report, write_regression_report

TEXTS = ["the quick brown fox", "a lazy\tdog", "over\nthe fence", "jumps"]
GOLD = [0, 1, 1, 0]
PROBABILITIES = np.array([[0.9, 0.1], [0.2, 0.8], [0.99, 0.01], [0.4, 0.6]])


def table(path):
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()]


def png_size(path):
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    return struct.unpack(">II", content[16:24])


def test_labels_that_are_confused_are_counted(tmp_path):
    write_label_report(tmp_path, TEXTS, None, GOLD, PROBABILITIES, ["no", "yes"], {"accuracy": 0.5})
    assert table(tmp_path / "confusion_matrix.tsv") == [
        ["right \\ predicted", "no", "yes"],
        ["no", "1", "1"],
        ["yes", "1", "1"],
    ]
    assert table(tmp_path / "labels.tsv")[1] == ["no", "0.5", "0.5", "0.5", "2", "2"]
    text = (tmp_path / "report.txt").read_text()
    assert text.startswith("examples       4\naccuracy  0.5000\n")
    assert "2 of 4 are wrong: errors.tsv" in text
    assert min(png_size(tmp_path / "confusion_matrix.png")) > 300


def test_errors_are_sorted_by_their_loss_and_stay_on_one_line(tmp_path):
    write_label_report(tmp_path, TEXTS, ["x"] * 4, GOLD, PROBABILITIES, ["no", "yes"], {})
    header, *rows = table(tmp_path / "errors.tsv")
    assert header[:5] == ["example", "text", "second_text", "right", "predicted"]
    assert [row[:5] for row in rows] == [["3", "over the fence", "x", "yes", "no"], ["4", "jumps", "x", "no", "yes"]]
    assert [float(value) for value in rows[0][5:]] == pytest.approx([0.01, 0.99, -np.log(0.01)], rel=1e-4)


def test_sets_of_labels_say_what_was_missed_and_what_was_wrong(tmp_path):
    gold = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 0]])
    probabilities = np.array([[0.9, 0.1, 0.1], [0.2, 0.8, 0.7], [0.6, 0.1, 0.1], [0.1, 0.1, 0.1]])
    write_label_set_report(tmp_path, TEXTS, None, gold, probabilities, ["a", "b", "c"], {"micro_f1": 0.5})
    _, *rows = table(tmp_path / "errors.tsv")
    assert [row[0] for row in rows] == ["2", "3"]
    assert rows[0][2:6] == ["a, b", "b, c", "a", "c"]
    assert rows[1][2:6] == ["", "a", "", "a"]
    # `a` was found once, predicted twice and occurs twice; `c` does not occur
    assert table(tmp_path / "labels.tsv")[1:] == [
        ["a", "0.5", "0.5", "0.5", "2", "2"],
        ["b", "1", "1", "1", "1", "1"],
        ["c", "0", "nan", "0", "0", "1"],
    ]
    png_size(tmp_path / "labels.png")


@pytest.mark.parametrize(
    ("labels", "probabilities", "at_0", "at_half"),
    [
        # Of two labels, the second one: its probabilities are 0.1 and 0.6 where it is wrong, 0.8 and 0.01 where right.
        (["no", "yes"], PROBABILITIES, ["0.5", "1", "0.666667", "2", "4"], ["0.5", "0.5", "0.5", "2", "2"]),
        # Of three, the answers: right with 0.9 and 0.8, wrong with 0.98 and 0.45.
        (
            ["no", "yes", "or"],
            np.array([[0.9, 0.1, 0], [0.1, 0.8, 0.1], [0.98, 0.02, 0], [0.1, 0.45, 0.45]]),
            ["0.5", "0.5", "0.5", "4", "4"],
            ["0.666667", "0.5", "0.571429", "4", "3"],
        ),
    ],
)
def test_precision_and_recall_depend_on_the_threshold(tmp_path, labels, probabilities, at_0, at_half):
    write_label_report(tmp_path, TEXTS, None, GOLD, probabilities, labels, {})
    header, *rows = table(tmp_path / "thresholds.tsv")
    assert header == ["threshold", "precision", "recall", "f1", "occurs", "predicted"]
    assert [rows[0], rows[10]] == [["0", *at_0], ["0.5", *at_half]]
    assert len(rows) == 20
    png_size(tmp_path / "thresholds.png")


def test_a_label_is_predicted_above_the_given_threshold(tmp_path):
    probabilities = np.array([[0.3, 0.9], [0.2, 0.7], [0.29, 0.8], [0.31, 0.1]])
    write_label_set_report(tmp_path, TEXTS, None, np.zeros((4, 2)), probabilities, ["a", "b"], {}, threshold=0.3)
    assert [row[-1] for row in table(tmp_path / "labels.tsv")[1:]] == ["1", "3"]
    # With one threshold for both labels, seven of the eight probabilities exceed 0.15.
    assert table(tmp_path / "thresholds.tsv")[4] == ["0.15", "0", "nan", "0", "0", "7"]


def test_scores_that_are_far_off_come_first(tmp_path):
    write_regression_report(tmp_path, TEXTS, None, [1.0, 2.0, 3.0, 4.0], [1.5, 2.0, 0.0, 4.1], {"pearson": 0.4})
    _, *rows = table(tmp_path / "errors.tsv")
    assert [row[0] for row in rows] == ["3", "1", "4", "2"]
    assert rows[0][2:] == ["3", "0", "-3", "9"]
    png_size(tmp_path / "scatter.png")


def test_without_matplotlib_there_are_the_tables_and_a_line_for_each_picture(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(report_files, "has_matplotlib", lambda: False)
    write_label_report(tmp_path, TEXTS, None, GOLD, PROBABILITIES, ["no", "yes"], {})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "confusion_matrix.tsv",
        "errors.tsv",
        "labels.tsv",
        "report.txt",
        "thresholds.tsv",
    ]
    expected = "was not drawn: pictures need matplotlib. Run in a clone of keras_bert: pip install"
    messages = [record.getMessage() for record in caplog.records]
    names = ["confusion_matrix.png", "thresholds.png"]
    assert [message.split()[0] for message in messages] == [str(tmp_path / name) for name in names]
    assert all(expected in message for message in messages)


def test_many_labels_with_strange_names_are_drawn(tmp_path):
    labels = [f"${number}$ 标签 {'x' * number}" for number in range(60)]
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet(np.ones(60), size=200)
    write_label_report(
        tmp_path, ["t"] * 200, None, generator.integers(0, 60, 200), probabilities, labels, {"accuracy": 0.1}
    )
    assert max(png_size(tmp_path / "confusion_matrix.png")) < 3000
    assert len(table(tmp_path / "confusion_matrix.tsv")) == 61


def test_probabilities_that_are_not_numbers_are_refused(tmp_path):
    probabilities = PROBABILITIES.copy()
    probabilities[2] = np.nan
    with pytest.raises(InputError, match="probabilities of 1 examples are not numbers, the first is example 3. The tr"):
        write_label_report(tmp_path, TEXTS, None, GOLD, probabilities, ["no", "yes"], {})
    assert not list(tmp_path.iterdir())
