"""Columns are found by the names that data sets usually give them."""

import pytest

from data_prep.finetuning.classification_records import usual_label_column, usual_text_columns


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["label", "text"], ("text", None)),
        (["idx", "sentence", "label"], ("sentence", None)),
        (["label", "sentence2", "sentence1", "text"], ("sentence1", "sentence2")),
        (["hypothesis", "premise"], ("premise", "hypothesis")),
        (["question", "sentence"], ("question", "sentence")),
        (["question", "label"], ("text", None)),
        ([0, "0", 1, "1"], ("text", None)),
    ],
)
def test_texts(names, columns):
    assert usual_text_columns(names) == columns


@pytest.mark.parametrize(
    ("names", "column"), [(["text", "label"], "label"), (["score", "text"], "score"), ([], "label")]
)
def test_labels(names, column):
    assert usual_label_column(names) == column
