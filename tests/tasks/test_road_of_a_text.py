"""The road from `predict(texts)` to the network, as docs/design.md draws it."""

import pathlib
import re
import sys

import jedi
import pytest
import tiny
from tiny_models import CONFIG, VOCABULARY

from keras_bert import SequenceClassifier, registry

PROJECT = pathlib.Path(__file__).resolve().parents[2]
MOST_FILES = 16
EDITOR = jedi.Project(PROJECT)
# The call to follow -> where it leads. The one jump is that of Keras, from `model(features)` to `call`.
CALLS = {
    "SequenceClassifier.predict": "tasks.classification.model.SequenceClassifier.predict",
    "super().predict": "tasks.text_model.TextModel.predict",
    "text_task(self).predict": "tasks.base.TextTask.predict",
    "self.outputs": "tasks.base.TextTask.outputs",
    "predict_rows": "tasks.prediction.predict_rows",
    "forward_function": "tasks.prediction.forward_function",
    "SequenceClassifier.call": "tasks.classification.model.SequenceClassifier.call",
    "self.encoder.vectors_at": "models.encoder_base.Encoder.vectors_at",
    "encode_at": "models.encoder_base.Encoder.encode_at",
    "self.run": "models.encoder_base.Encoder.run",
    "run_blocks": "accelerate.block_runner.run_blocks",
}


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


@pytest.mark.slow  # for jedi; design.md's drawing and its test are the fast siblings
def test_go_to_definition_follows_predict_from_the_public_class_to_the_blocks():
    found = None
    for call, expected in CALLS.items():
        if call.startswith("SequenceClassifier"):
            source, path, end = f"from keras_bert import SequenceClassifier\n{call}(", None, 0
        else:
            path = found.module_path
            source = path.read_text("utf-8")
            end = sum(map(len, source.splitlines(keepends=True)[: found.line]))  # behind the line with its name
        end = source.index(f"{call}(", end) + len(call) - 1
        line, column = source.count("\n", 0, end) + 1, end - source.rfind("\n", 0, end) - 1
        targets = jedi.Script(source, path=path, project=EDITOR).goto(line, column, follow_imports=True)
        found = {target.full_name: target for target in targets}[f"keras_bert.{expected}"]


@pytest.mark.parametrize("made", ["SequenceClassifier(config)", "SequenceClassifier.from_pretrained(path)"])
def test_editors_complete_the_arguments_of_fit(made):
    source = f"from keras_bert import SequenceClassifier\n{made}.fit("
    [signature] = jedi.Script(source, project=EDITOR).get_signatures()
    assert {"x", "y", "epochs", "max_seq_length", "skip_missing"} <= {parameter.name for parameter in signature.params}


def test_a_model_and_its_entry_name_the_same_task():
    for kind in registry.TASKS:
        entry = registry.task(kind)
        if entry.text_task is not None:
            assert registry.imported(entry.model).task_class is registry.imported(entry.text_task)
