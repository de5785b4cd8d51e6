"""What the README says is so: its script runs as it stands, its map has every file, its commands exist."""

import pathlib
import re

from tiny_pretraining import VOCABULARY, write_records

from keras_bert.models.pretrainer import BertPretrainer

PROJECT = pathlib.Path(__file__).resolve().parent.parent
README = (PROJECT / "README.md").read_text("utf-8")


def test_ten_lines_of_ones_own_train_and_save_a_model(tmp_path, monkeypatch, capsys):
    program, _ = re.findall(r"```python\n(.*?)```", README, re.S)  # the other asks a server
    assert len([line for line in program.splitlines() if line]) <= 10
    VOCABULARY.save(tmp_path / "vocab.txt")
    (tmp_path / "records").mkdir()
    write_records(tmp_path / "records" / "a.tfrecord")
    monkeypatch.chdir(tmp_path)
    exec(compile(program.replace("steps_per_epoch=100", "steps_per_epoch=2"), "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "Epoch 10/10" in shown
    assert "masked_lm_accuracy" in shown
    assert BertPretrainer.from_pretrained("my_bert").vocabulary.tokens == VOCABULARY.tokens


def test_every_file_of_the_packages_is_on_the_map():
    for package in ("data_prep", "keras_bert", "run_scripts"):
        for path in (PROJECT / package).rglob("*"):
            if path.suffix in (".py", ".sh") and path.name != "__init__.py":
                assert re.search(rf"^ +{path.name}  ", README, re.M), f"{path.name} is not in the README's file map"


def test_every_command_that_the_readme_names_exists():
    for package, name in re.findall(r"python -m (data_prep|run_scripts)\.(\w+)", README):
        assert (PROJECT / package / f"{name}.py").exists()


def test_every_page_that_the_readme_links_exists():
    prose = re.sub(r"```.*?```", "", README, flags=re.S)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", prose):
        assert (PROJECT / target).exists(), f"README.md links {target}, which does not exist"
