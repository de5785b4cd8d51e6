"""README, pages and lists of files are correct: the script runs, and everything that they name exists."""

import ast
import re

import pytest
from places import DOCS, PROJECT
from tiny_pretraining import VOCABULARY, write_records

from keras_bert.tasks.pretraining.pretrainer import BertPretrainer

README = (PROJECT / "README.md").read_text("utf-8")
PAGES = [
    *(PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "saved_models/README.md")),
    *sorted((DOCS).rglob("*.md")),
]
FOLDERS = [
    init.parent
    for package in ("data_prep", "keras_bert", "run_scripts")
    for init in sorted((PROJECT / package).rglob("__init__.py"))
]


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


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 200


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(PROJECT)))
def test_the_docstring_of_a_folder_lists_its_files_and_folders(folder):
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    listed = re.findall(r"^(\w+(?:\.\w+|/)) {3,}\S", text, re.M)
    files = {path.name for path in folder.iterdir() if path.suffix in (".py", ".sh", ".html", ".js")}
    folders = {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    assert {*files, *folders} - {"__init__.py"} <= set(listed)
    assert len(set(listed)) == len(listed)
    assert all((folder / name).exists() for name in listed)
    assert not re.match(r"\w+(\.\w+|/)  ", text), "the first line says what the folder is for"


def test_every_folder_of_the_packages_is_on_the_map_of_the_readme():
    [shown] = re.findall(r"^```\n(data_prep/ .*?)```", README, re.S | re.M)
    listed, package = [], ""
    for indent, name in re.findall(r"^( *)(\w+)/ +\S", shown, re.M):
        package = package if indent else name
        listed.append(f"{package}/{name}" if indent else name)
    places = [folder.relative_to(PROJECT) for folder in FOLDERS]
    others = ["benchmarks", "tests", "saved_models", "docs", "notebooks"]
    assert sorted(listed) == sorted([*(str(place) for place in places if len(place.parts) <= 2), *others])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_file_and_module_that_a_page_names_exists(page):
    text = page.read_text("utf-8")
    for path in re.findall(r"`(\w+(?:/\w+)+\.py)`", text):
        assert any((PROJECT / base / path).exists() for base in ("", "keras_bert")), f"{page.name} names {path}"
    for package, rest in re.findall(r"\b(data_prep|keras_bert|run_scripts|benchmarks)((?:\.\w+)+)", text):
        *above, last = rest[1:].split(".")
        place = PROJECT.joinpath(package, *above)
        is_module = place.joinpath(last).is_dir() or place.joinpath(f"{last}.py").exists()
        holder = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        is_name = holder.exists() and re.search(rf"\b{last}\b", holder.read_text("utf-8"))
        assert is_module or is_name, f"{page.name} names {package}{rest}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_import_on_a_page_works(page):
    pattern = r"^(?:>>> )?from ((?:data_prep|keras_bert|run_scripts)[\w.]*) import ([\w, ]+)$"
    for module, names in re.findall(pattern, page.read_text("utf-8"), re.M):
        program = f"from {module} import {names}"
        exec(compile(program, page.name, "exec"), {})


def test_every_command_that_the_readme_names_exists():
    for package, name in re.findall(r"python -m (data_prep|run_scripts)\.(\w+)", README):
        assert (PROJECT / package / f"{name}.py").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_page_and_picture_that_a_page_links_exists(page):
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.S)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", prose):
        assert (page.parent / target).exists(), f"{page.name} links {target}, which does not exist"


def test_the_design_page_is_short_and_links_every_decision():
    design = (DOCS / "design.md").read_text("utf-8")
    assert len(design.splitlines()) <= 120
    decisions = {path.name for path in (DOCS / "decisions").glob("*.md")}
    assert set(re.findall(r"\(decisions/(\w+\.md)\)", design)) == decisions
