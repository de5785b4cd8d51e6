"""The road from `predict(texts)` to the network, as docs/design.md draws it."""

import pathlib
import re
import sys

import tiny
from tiny_models import CONFIG, VOCABULARY

from keras_bert import SequenceClassifier, registry

PROJECT = pathlib.Path(__file__).resolve().parents[2]
MOST_FILES = 16


def files_on_the_road(model, texts) -> list[str]:
    """The files of keras_bert whose Python functions run in `predict`, in the order of their first call."""
    package, found = str(PROJECT / "keras_bert"), {}

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(package):
            found.setdefault(frame.f_code.co_filename.removeprefix(f"{package}/"))

    sys.setprofile(note)
    try:
        model.predict(texts)
    finally:
        sys.setprofile(None)
    return list(found)


def test_a_text_crosses_at_most_16_files_before_the_first_of_the_layers():
    # A new model, so that its graph is traced; other words, so that they are cut into pieces. What an earlier model has
    # cached, such as the tokenizer of a vocabulary, does not count.
    tiny.made(SequenceClassifier, CONFIG, VOCABULARY, ["a", "b"]).predict(["warm up"])
    files = files_on_the_road(tiny.made(SequenceClassifier, CONFIG, VOCABULARY, ["a", "b"]), ["the fox", "and others"])
    first = next(number for number, file in enumerate(files) if file.startswith("layers/"))
    assert first <= MOST_FILES, "\n".join(files[: first + 1])
    drawing = (PROJECT / "docs" / "design.md").read_text("utf-8").partition("## From a text to an answer")[2]
    drawn = re.findall(r"─► ([\w/]+\.py) ", drawing.partition("─► layers/")[0])
    assert sorted(files[:first]) == sorted(drawn), "docs/design.md draws another road"


def test_a_model_and_its_entry_name_the_same_task():
    for kind in registry.TASKS:
        entry = registry.task(kind)
        if entry.text_task is not None:
            assert registry.imported(entry.model).task_class is registry.imported(entry.text_task)
