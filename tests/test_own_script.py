"""The script of one's own that the README shows runs as it stands, but for its number of steps."""

import pathlib

from tiny_pretraining import VOCABULARY, write_records

from keras_bert.models.pretrainer import BertPretrainer

SNIPPET = pathlib.Path(__file__).resolve().parent.parent / "docs" / "snippets" / "own_pretraining.py"


def test_ten_lines_of_ones_own_train_and_save_a_model(tmp_path, monkeypatch, capsys):
    VOCABULARY.save(tmp_path / "vocab.txt")
    (tmp_path / "records").mkdir()
    write_records(tmp_path / "records" / "a.tfrecord")
    program = SNIPPET.read_text()
    assert len([line for line in program.splitlines() if line]) <= 10
    monkeypatch.chdir(tmp_path)
    exec(compile(program.replace("steps_per_epoch=100", "steps_per_epoch=2"), SNIPPET.name, "exec"), {})
    shown = capsys.readouterr().out
    assert "Epoch 10/10" in shown
    assert "masked_lm_accuracy" in shown
    assert BertPretrainer.from_pretrained("my_bert").vocabulary.tokens == VOCABULARY.tokens
