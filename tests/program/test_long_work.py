"""Work that takes long says what it is doing; short work says nothing."""

import pathlib
import re
import time
from concurrent.futures import ThreadPoolExecutor

import data_prep
import keras_bert
import run_scripts
from keras_bert.program import long_work as module
from keras_bert.program.long_work import long_work, progress_bar


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


def test_progress_belongs_to_the_main_thread(monkeypatch, capsys):
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.01)

    def work(number):
        with long_work(f"work {number}"), progress_bar(range(3), desc=f"bar {number}") as bar:
            bar.set_postfix_str("nearly done")
            time.sleep(0.05)
            return sum(bar)

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(work, range(16))) == [3] * 16
    assert capsys.readouterr().err == ""
    assert work(99) == 3
    assert "bar 99: 100%" in capsys.readouterr().err


def test_only_one_file_makes_bars():
    packages = [pathlib.Path(package.__file__).parent for package in (keras_bert, data_prep, run_scripts)]
    files = [path for package in packages for path in package.rglob("*.py")]
    assert [path.name for path in files if re.search(r"(from|import) tqdm\b", path.read_text())] == ["long_work.py"]
