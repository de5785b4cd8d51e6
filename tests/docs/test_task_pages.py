"""docs/tagging.md and docs/multiple_choice.md are correct: their scripts run unchanged, and their flags exist."""

import re

import pytest
import tiny
from places import DOCS

from keras_bert.tasks.multiple_choice.model import MultipleChoice
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.tasks.tagging.model import TokenClassifier

VOCABULARY = tiny.vocabulary(*tiny.pieces(), *".,'")
CONFIG = tiny.config(VOCABULARY, hidden_size=8, max_position_embeddings=128)


@pytest.fixture
def my_bert(tmp_path, monkeypatch):
    """The checkpoint that the pages start from, in the current folder."""
    monkeypatch.chdir(tmp_path)
    BertPretrainer(CONFIG).save_pretrained("my_bert", VOCABULARY)


def programs(page):
    found = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text("utf-8"), re.S)
    assert all(len([line for line in program.splitlines() if line]) <= 10 for program in found)
    return found


def run(program, page):
    exec(compile(program, page, "exec"), names := {})
    return names


def test_scripts_of_tagging_run(eagerly, my_bert, capsys):
    in_memory, from_spans = programs("tagging.md")
    names = run(in_memory, "tagging.md")
    assert TokenClassifier.from_pretrained("my_tagger").labels == names["model"].labels
    assert run(from_spans, "tagging.md")["model"].labels == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")


@pytest.mark.slow
def test_the_script_of_multiple_choice_runs(my_bert, capsys):
    (in_memory,) = programs("multiple_choice.md")
    run(in_memory, "multiple_choice.md")
    shown = capsys.readouterr().out.splitlines()
    assert sum(bool(re.match(r"[012] (blue|a |seven|made|green)", line)) for line in shown) == 2
    assert type(MultipleChoice.from_pretrained("my_chooser")) is MultipleChoice
