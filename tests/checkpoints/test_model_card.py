"""The model card that `save_pretrained` writes: its script runs, and its facts are those of the model."""

import re

import pytest
from slow_parameters import slow_except
from tiny_checkpoints import CONFIG, VOCABULARY

import keras_bert
from keras_bert import (
    BertEncoder,
    CrossEncoder,
    MaskedLM,
    MultipleChoice,
    SentenceEncoder,
    SequenceClassifier,
    SpanClassifier,
    TokenClassifier,
)

pytestmark = pytest.mark.usefixtures("without_graphs")

MODELS = {
    "classifier": lambda: SequenceClassifier(CONFIG, labels=["a|b", "c"]),
    "tagger": lambda: TokenClassifier(CONFIG, labels=["O", "B-X", "I-X"]),
    "answers": lambda: SpanClassifier(CONFIG),
    "choice": lambda: MultipleChoice(CONFIG),
    "masked_lm": lambda: MaskedLM(CONFIG),
    "sentences": lambda: SentenceEncoder(CONFIG),
    "ranking": lambda: CrossEncoder(CONFIG),
    "encoder": lambda: BertEncoder(CONFIG),
}


@pytest.mark.parametrize("name", slow_except(["classifier", "answers"], MODELS))
def test_the_script_of_the_card_runs(name, tmp_path, capsys):
    MODELS[name]().save_pretrained(tmp_path / "model", VOCABULARY)
    card = (tmp_path / "model" / "README.md").read_text("utf-8")
    [script] = re.findall(r"```python\n(.*?)```", card, re.S)
    exec(script.replace("path/of/this/folder", str(tmp_path / "model")), {})
    assert capsys.readouterr().out


def test_the_card_has_the_facts_of_the_model(tmp_path):
    model = MODELS["classifier"]()
    model.save_pretrained(tmp_path / "model", VOCABULARY, format="huggingface")
    card = (tmp_path / "model" / "README.md").read_text("utf-8")
    assert card.startswith("---\nlibrary_name: keras_bert\npipeline_tag: text-classification\n")
    assert f"| weights | {model.count_params():,} |" in card
    assert r"| labels | a\|b, c |" in card
    assert "| longest row | 12 tokens |" in card
    assert keras_bert.SequenceClassifier.from_pretrained(tmp_path / "model").labels == ("a|b", "c")


def test_labels_of_strangers_cannot_leave_their_cell(tmp_path):
    labels = ["<script>alert(1)</script>", "a|b\n---\n# title", "`x` [y](http://z)\x1b[31m\u202e", "c" * 1_000_000]
    model = SequenceClassifier(CONFIG, labels=labels)
    model.save_pretrained(tmp_path / "model", VOCABULARY)
    card = (tmp_path / "model" / "README.md").read_text("utf-8")
    [row] = [line for line in card.splitlines() if line.startswith("| labels |")]
    assert row.startswith(r"| labels | &lt;script&gt;alert(1)&lt;/script&gt;, a\|b --- \# title, \`x\` \[y\](http://z)")
    assert card.count("<") == 0
    assert all(sign.isprintable() or sign == "\n" for sign in card)
    assert len(card) < 3_000
    assert keras_bert.SequenceClassifier.from_pretrained(tmp_path / "model").labels == tuple(labels)
