"""Plants faults in the code, one at a time, and names those that the fast tests do not notice.

    .venv/bin/python .ci/plant_faults.py --number=20 --seed=1 keras_bert/encoders keras_bert/tasks

It draws changes of the files in the named folders: a comparison, a constant, an axis, two arguments, an operator or a
statement. For each it runs the fast tests that import the changed module, and if these pass, those in the folder of
tests with the same name, those whose file names have a part of the module's name, and those that name its folder, as
the tests of all families do. It works in a copy of the files that git tracks, without real data. The last line says how
many were noticed; the exit code is 1 if one was not.
"""

import argparse
import ast
import copy
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPARISONS = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
}
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult}
AT_ONCE, MOST_FILES = 12, 36  # test files in one run, and for one fault
# Keywords whose value changes no result: the length of what `zip` gets is known, and functions without `if` are alike.
NEUTRAL = ("strict", "autograph")


class Fault(NamedTuple):
    """A change of a file: the node at this place in the source -> another text."""

    file: str
    kind: str
    start: tuple[int, int]
    end: tuple[int, int]
    text: str


def changes(node: ast.AST, parent: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yields the kind of each fault that a node can have, and the node with it."""
    new = copy.deepcopy(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        new.ops[0] = COMPARISONS[type(node.ops[0])]()
        yield "comparison", new
    elif isinstance(node, ast.keyword) and node.arg == "axis" and isinstance(node.value, ast.Constant):
        new.value = ast.Constant(0 if node.value.value else 1)
        yield "axis", new
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
        is_axis = isinstance(parent, ast.keyword) and parent.arg == "axis"
        if not is_axis:
            yield "constant", ast.Constant(not node.value if isinstance(node.value, bool) else node.value + 1)
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS and not isinstance(node.left, ast.JoinedStr):
        new.op = OPERATORS[type(node.op)]()
        yield "operator", new
    elif isinstance(node, ast.Call) and len(node.args) >= 2:
        first, second = node.args[:2]
        if not isinstance(first, ast.Starred) and not isinstance(second, ast.Starred):
            new.args[:2] = new.args[1::-1]
            if ast.dump(new) != ast.dump(node):
                yield "arguments", new
    elif isinstance(node, (ast.AugAssign, ast.Expr)) and not is_text(node):
        yield "statement", ast.Pass()


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def faults(file: str) -> list[Fault]:
    """Returns all faults that a file can have; not in what raises an error, in types, or outside of functions."""
    found: list[Fault] = []

    def visit(node: ast.AST, parent: ast.AST) -> None:
        if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr, ast.arguments, ast.AnnAssign)):
            return
        if isinstance(node, ast.keyword) and node.arg in NEUTRAL:
            return
        if hasattr(node, "end_col_offset"):
            for kind, new in changes(node, parent):
                place = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
                found.append(Fault(file, kind, *place, ast.unparse(ast.fix_missing_locations(new))))
        for child in ast.iter_child_nodes(node):
            if child is not getattr(node, "returns", None):
                visit(child, node)

    for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for statement in node.body:
                visit(statement, node)
    return list(dict.fromkeys(found))  # functions inside of functions come twice


def drawn(folders: list[str], number: int, seed: int) -> list[Fault]:
    """Returns faults, as many of each kind as there can be, at different places."""
    listed = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    by_kind: dict[str, list[Fault]] = {}
    for file in listed.split():
        if file.endswith(".py"):
            for fault in faults(file):
                by_kind.setdefault(fault.kind, []).append(fault)
    draw, found = random.Random(seed), []
    for kind in sorted(by_kind):
        draw.shuffle(by_kind[kind])
    while len(found) < number and any(by_kind.values()):
        for kind in sorted(by_kind):
            if by_kind[kind] and len(found) < number:
                found.append(by_kind[kind].pop())
    return found


def planted(source: str, fault: Fault) -> str:
    lines = source.encode("utf-8").splitlines(keepends=True)
    (first, start), (last, end) = fault.start, fault.end
    before, after = lines[first - 1][:start], lines[last - 1][end:]
    text = fault.text if fault.kind == "statement" or fault.kind == "axis" else f"({fault.text})"
    lines[first - 1 : last] = [before + text.encode("utf-8") + after]
    return b"".join(lines).decode("utf-8")


def tests_of(file: str) -> list[list[str]]:
    """Returns groups of tests: each is run if those before it notice nothing."""
    path = pathlib.PurePath(file)
    module, stem = ".".join(path.with_suffix("").parts), path.stem.split("_")
    package, name = module.rpartition(".")[::2]
    importers, named = [], []
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        relative, text = str(test.relative_to(ROOT)), test.read_text("utf-8")
        if module in text or f"from {package} import {name}" in text:
            importers.append(relative)
            continue
        in_folder = test.parent.name in path.parts or f'"{path.parent.name}"' in text
        if in_folder or any(part in test.stem.split("_") for part in stem if len(part) > 3):
            named.append(relative)
    if ">>>" in (ROOT / file).read_text("utf-8"):
        importers.insert(0, f"tests/docs/test_docstring_examples.py::test_the_examples_of_a_module_run[{module}]")
    groups = [files[first : first + AT_ONCE] for files in (importers, named) for first in range(0, len(files), AT_ONCE)]
    return groups[: MOST_FILES // AT_ONCE]


def is_noticed(folder: pathlib.Path, files: list[str], seconds: int) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(folder), "KERAS_BERT_DATA": str(folder / "no data")}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", *files]
    try:
        ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return True
    return ended.returncode not in (0, 5)  # 5: no test was found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", help="folders or files of the library")
    parser.add_argument("--number", type=int, default=20, help="how many faults")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws others")
    parser.add_argument("--seconds", type=int, default=900, help="tests that take longer have noticed the fault")
    options = parser.parse_args()
    chosen, survivors = drawn(options.folders, options.number, options.seed), 0
    with tempfile.TemporaryDirectory(prefix="planted_faults_") as name:
        folder = pathlib.Path(name)
        tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for file in filter(None, tracked.split("\0")):
            if (ROOT / file).is_file():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, folder / file)
        for number, fault in enumerate(chosen, start=1):
            source = (ROOT / fault.file).read_text("utf-8")
            (folder / fault.file).write_text(planted(source, fault), "utf-8")
            noticed = any(is_noticed(folder, files, options.seconds) for files in tests_of(fault.file))
            (folder / fault.file).write_text(source, "utf-8")
            line = source.splitlines()[fault.start[0] - 1].strip()
            survivors += not noticed
            print(f"{number:3} {'noticed ' if noticed else 'SURVIVED'} {fault.kind:10} {fault.file}:{fault.start[0]}")
            if not noticed:
                print(f"      {line}\n      becomes: {fault.text.splitlines()[0][:150]}")
            sys.stdout.flush()
    print(f"{len(chosen) - survivors} of {len(chosen)} faults were noticed.")
    sys.exit(survivors > 0)


if __name__ == "__main__":
    main()
