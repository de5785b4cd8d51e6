"""The notebooks are stored without outputs, are short, and run from the first cell to the last."""

import ast
import json
import os
import re
import subprocess
import sys

import pytest
from places import PROJECT

NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*.ipynb"))


def cells(path, kind):
    book = json.loads(path.read_text("utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    return [cell for cell in book["cells"] if cell["cell_type"] == kind]


def run(name, folder) -> str:
    """Runs the cells in a new process, in an empty folder, and returns what they print."""
    # They are plain Python, so no kernel is needed. With -c, as in a kernel, there is no file to import again.
    program = "\n".join("".join(cell["source"]) for cell in cells(PROJECT / "notebooks" / f"{name}.ipynb", "code"))
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs_and_its_cells_are_short(path):
    for cell in cells(path, "code"):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
        source = "".join(cell["source"])
        assert len(source.splitlines()) <= 15
        compile(source, path.name, "exec")  # no %magic and no !command, which plain Python cannot run
    ids = [cell["id"] for kind in ("code", "markdown") for cell in cells(path, kind)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_a_notebook_imports_and_mentions_exists(path):
    text = "".join("".join(cell["source"]) for cell in cells(path, "markdown"))
    for name in re.findall(r"`((?:docs/)?\w+\.(?:md|ipynb))`", text):
        assert (PROJECT / name).exists() or (PROJECT / "notebooks" / name).exists(), name
    program = ast.parse("\n".join("".join(cell["source"]) for cell in cells(path, "code")))
    for node in ast.walk(program):
        if isinstance(node, ast.ImportFrom):
            exec(ast.unparse(node), {})  # a module that nothing has imported yet is no attribute of its package


@pytest.fixture(scope="module")
def classification(tmp_path_factory):
    """What the notebook on classification prints, and its folder."""
    folder = tmp_path_factory.mktemp("classification")
    return run("classify_your_texts", folder), folder / "my_classifier"


@pytest.mark.slow
def test_the_notebook_on_classification_beats_guessing(classification):
    printed, folder = classification
    assert float(re.search(r"accuracy: (0\.\d+)\n", printed)[1]) > 0.4
    assert (folder / "model" / "vocab.txt").exists()


@pytest.mark.slow
def test_the_notebook_on_search_learns_to_find_the_other_half(tmp_path):
    before, after = re.search(
        r"recall@10 before: (\d\.\d+), after: (\d\.\d+)\n", run("search_your_documents", tmp_path)
    ).groups()
    assert float(after) > float(before) + 0.1


@pytest.mark.slow
def test_the_notebook_on_names_finds_names_that_it_has_never_seen(tmp_path):
    printed = run("tag_names", tmp_path)
    assert float(re.search(r"F1 of names that it has never seen: (\d\.\d+)\n", printed)[1]) > 0.8
    assert "LOC 14 20 Geneva " in printed
    assert printed.endswith("[[3, 8, 'LOC'], [15, 22, 'PER']]\n")


@pytest.mark.slow
def test_the_notebook_on_serving_gets_the_same_answers_from_everywhere(tmp_path):
    lines = run("serve_and_ask", tmp_path).splitlines()
    assert lines[-5] == "delivery"  # of the loaded export
    assert "http://127.0.0.1:" in lines[-4]
    assert [line.split()[0] for line in lines[-3:]] == ["account", "payment", "delivery"]


@pytest.mark.slow
def test_the_notebook_on_pretraining_lowers_the_loss(tmp_path):
    printed = run("pretrain_on_your_corpus", tmp_path)
    losses = [float(loss) for loss in re.search(r"loss of masked tokens: \[(.*)\]", printed)[1].split(",")]
    assert len(losses) == 4
    assert losses[-1] < losses[0] - 0.4
    assert "[MASK] 1:  " in printed
