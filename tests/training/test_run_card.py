"""The model card of a run: command without secrets, data sizes, scores; a card that its author has changed stays."""

import pytest

from keras_bert.checkpoints.model_card import _LAST, _TO_ADD_SCORES
from keras_bert.program import command_line
from keras_bert.training.run_card import FACTS_FILE, write_facts, write_training_section

CARD = f"# Model\n\n| layers | 2 |\n\n{_LAST}\n\n* the licence\n{_TO_ADD_SCORES}\n* known errors\n"


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setattr(command_line, "_command", "run_x --train_file=https://ada:word@host/a.csv?sig=1 '--a=`b'")
    write_facts(str(tmp_path), train_examples=3500, dev_examples=None)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "README.md").write_text(CARD)
    return tmp_path / "model"


def test_the_section_is_written_before_the_list_of_what_is_missing_and_replaced(model, tmp_path):
    write_training_section(str(tmp_path), str(model), {})
    command = "run_x --train_file=https://***@host/a.csv?sig=*** '--a=\ufffdb'"
    table = "| | |\n|---|---|\n| train examples | 3,500 |\n"
    section = f"## Training\n\n```sh\n{command}\n```\n\n{table}"
    assert (model / "README.md").read_text() == CARD.replace(f"{_LAST}", f"{section}\n{_LAST}")
    assert "word" not in (tmp_path / FACTS_FILE).read_text()
    for accuracy in (0.5, 0.75):
        write_training_section(str(tmp_path), str(model), {"eval_accuracy": accuracy, "global_step": 1200.0})
    rows = "| eval\\_accuracy | 0.7500 |\n| global\\_step | 1,200 |\n"
    expected = CARD.replace(f"{_LAST}", f"{section}{rows}\n{_LAST}").replace(f"{_TO_ADD_SCORES}\n", "")
    assert (model / "README.md").read_text() == expected


def test_the_card_of_an_author_and_a_folder_without_a_card_stay_as_they_are(model, tmp_path):
    (model / "README.md").write_text("# My model\n")
    write_training_section(str(tmp_path), str(model), {"eval_accuracy": 1.0})
    assert (model / "README.md").read_text() == "# My model\n"
    write_training_section(str(tmp_path), str(tmp_path / "nothing"), {"eval_accuracy": 1.0})
    assert not (tmp_path / "nothing").exists()
