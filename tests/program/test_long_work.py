"""Work that takes long says what it is doing; short work says nothing."""

import concurrent.futures
import pathlib
import re
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


def test_only_the_main_thread_shows_bars(capsys):
    def run(_):
        with module.progress_bar(total=3, desc="work") as bar:
            for _ in range(3):
                bar.update(1)
            bar.set_postfix_str("so far", refresh=False)
        return list(module.progress_bar("abc", total=3))

    with concurrent.futures.ThreadPoolExecutor(32) as threads:
        assert list(threads.map(run, range(256))) == [["a", "b", "c"]] * 256
    assert capsys.readouterr().err == ""
    assert run(0) == ["a", "b", "c"]
    assert "3/3" in capsys.readouterr().err


def test_no_bar_is_made_without_this_rule():
    """tqdm's own bars are not for several threads."""
    packages = pathlib.Path(module.__file__).parents[2]
    files = [path for name in ("keras_bert", "data_prep") for path in packages.joinpath(name).rglob("*.py")]
    users = [path.name for path in files if re.search(r"^\s*(import|from) tqdm", path.read_text("utf-8"), re.M)]
    assert users == ["long_work.py"]
