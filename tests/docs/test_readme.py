"""README, pages and lists of files are correct: the script runs, and everything that they name exists."""

import ast
import importlib
import os
import pathlib
import re

import pytest
from places import DOCS, PROJECT

from keras_bert.tasks.masked_lm.model import MaskedLM

README = (PROJECT / "README.md").read_text("utf-8")
PAGES = [
    *(PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "saved_models/README.md")),
    *sorted((DOCS).rglob("*.md")),
]
PACKAGES = ("run_scripts", "data_prep")
# Module of a command -> the names of its flags, once they are known.
FLAGS = {}
FOLDERS = [
    init.parent
    for package in ("data_prep", "keras_bert", "run_scripts")
    for init in sorted((PROJECT / package).rglob("__init__.py"))
]


SIMILARITY, FEW_SHOT = re.findall(r"```python\n(.*?)```", README, re.S)
SHOWN_VECTORS, SHOWN_LABELS = re.findall(r"```python\n.*?```\n```text\n(.*?)```", README, re.S)


def test_the_first_script_runs_as_pasted(pasted):
    assert pasted(SIMILARITY).endswith(SHOWN_VECTORS)


@pytest.mark.slow  # 20 s
def test_the_labels_of_the_first_screen_are_predicted(pasted):
    lines = pasted(SIMILARITY + FEW_SHOT).splitlines()[-3:]
    for line, shown in zip(lines, SHOWN_LABELS.splitlines(), strict=True):
        (label, probability), (shown_label, shown_probability) = line.split(), shown.split()
        assert label == shown_label
        assert float(probability) == pytest.approx(float(shown_probability), abs=0.03)


@pytest.fixture(scope="module")
def quickstart():
    folder = os.environ.get("KERAS_BERT_QUICKSTART")
    if not folder:
        pytest.skip("KERAS_BERT_QUICKSTART names no folder of a finished quickstart")
    return pathlib.Path(folder)


def test_the_scores_of_the_quickstart_are_near_those_shown(quickstart):
    percent = re.compile(r"^ +(.+?) {2,}([\d.]+) %$", re.M)
    shown, found = dict(percent.findall(README)), dict(percent.findall((quickstart / "report.txt").read_text("utf-8")))
    assert len(shown) == 5
    for name, value in shown.items():
        assert float(found[name]) == pytest.approx(float(value), abs=8.0), name


def test_the_quickstarts_model_fills_the_gap_of_the_first_screen(quickstart):
    text, shown = re.search(r'fill_mask .*--text="(.+)"\n  \[MASK\] 1:(.+)', README).groups()
    found = MaskedLM.from_pretrained(quickstart / "pretraining" / "model").predict([text], top_k=5)[0]
    tokens = {fill.token for fill in found.masks[0].fills}
    assert len(tokens & set(re.findall(r"[a-z]+", shown))) >= 3


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
    listed, package = {}, ""
    for indent, name, thousands in re.findall(r"^( *)(\w+)/ +([\d.]*)", shown, re.M):
        package = package if indent else name
        listed[f"{package}/{name}" if indent else name] = thousands
    places = [folder.relative_to(PROJECT) for folder in FOLDERS]
    others = ["benchmarks", "tests", "saved_models", "docs", "notebooks"]
    assert sorted(listed) == sorted([*(str(place) for place in places if len(place.parts) <= 2), *others])
    for folder, thousands in listed.items():
        lines = lines_of_code(PROJECT / folder)
        assert float(thousands or 0) == pytest.approx(lines / 1000, rel=0.1, abs=0.15), f"{folder}: {lines:,} lines"


def lines_of_code(folder):
    files = [path for path in folder.rglob("*") if path.suffix in (".py", ".sh", ".html", ".js")]
    return sum(path.read_text("utf-8").count("\n") for path in files if "__pycache__" not in path.parts)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_file_and_module_that_a_page_names_exists(page):
    text = page.read_text("utf-8")
    for path in re.findall(r"`(\w+(?:/\w+)+\.py)`", text):
        assert any((PROJECT / base / path).exists() for base in ("", "keras_bert")), f"{page.name} names {path}"
    for package, rest in re.findall(r"\b(data_prep|keras_bert|run_scripts|benchmarks)((?:\.\w+)+)", text):
        *above, last = rest[1:].split(".")
        place = PROJECT.joinpath(package, *above)
        is_module = place.joinpath(last).is_dir() or place.joinpath(f"{last}.py").exists()
        holders = [*place.glob("__init__.py*"), place.with_suffix(".py")]
        is_name = any(re.search(rf"\b{last}\b", one.read_text("utf-8")) for one in holders if one.exists())
        assert is_module or is_name, f"{page.name} names {package}{rest}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_import_on_a_page_works(page):
    pattern = r"^(?:>>> )?from ((?:data_prep|keras_bert|run_scripts)[\w.]*) import ([\w, ]+)$"
    for module, names in re.findall(pattern, page.read_text("utf-8"), re.M):
        if module == "keras_bert.serving.beam" and importlib.util.find_spec("apache_beam") is None:
            continue  # test_beyond_one_machine.py runs that program where it is installed
        program = f"from {module} import {names}"
        exec(compile(program, page.name, "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_command_on_a_page_exists_and_has_the_flags_that_it_gets(page, flags_of):
    # The arguments end with the line, unless a backslash does, and before the end of code, a pipe, or a single "--".
    pattern = r"(?:python -m (data_prep|run_scripts)\.|keras-bert[- ])([a-z][\w-]*)(?=((?:\\\n|[^\n`|;&])*))"
    for package, name, arguments in re.findall(pattern, page.read_text("utf-8")):
        name = name.replace("-", "_")
        [package] = [one for one in (package, *PACKAGES) if one and (PROJECT / one / f"{name}.py").exists()][:1]
        flags = flags_of(f"{package}.{name}")
        for flag in re.findall(r"(?<![\w-])--(\w+)", re.split(r"\s--\s", arguments)[0]):
            assert {flag, flag.removeprefix("no")} & flags, f"{page.name}: {package}.{name} has no --{flag}"


@pytest.fixture
def flags_of(run_here):
    """Function of the module of a command -> the names of its flags."""

    def flags(module):
        if module not in FLAGS:
            _, printed = run_here(importlib.import_module(module), "--help")
            FLAGS[module] = {"help", *re.findall(r"^  --(\w+)", printed.out, re.M)}
        return FLAGS[module]

    return flags


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
