"""Work that takes long says what it is doing; short work says nothing."""

import time

from keras_bert.program import long_work as module
from keras_bert.program.long_work import long_work


def test_short_work_says_nothing(capsys):
    with long_work("exporting"), long_work("checking"):
        pass
    assert capsys.readouterr().err == ""


def test_long_work_says_what_it_does_until_it_ends(monkeypatch, capsys):
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.05)
    shown = ""
    with long_work("exporting to a"), long_work("writing"):
        while "writing" not in shown:
            time.sleep(0.01)
            shown += capsys.readouterr().err
    assert "exporting to a: writing (0 s)\n" in shown
    capsys.readouterr()
    time.sleep(0.1)
    assert capsys.readouterr().err == ""
