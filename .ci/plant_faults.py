"""Plants faults in the code, one at a time, and names those that the fast tests do not notice.

    .venv/bin/python .ci/plant_faults.py --number=20 --seed=1 --record=build/tests_of_lines keras_bert/encoders

It draws changes in the named folders: a comparison, a constant, an axis, two arguments, an operator or a statement. For
each it runs tests that run the changed line, those with the nearest names first. Which tests run a line is recorded by
a run of the fast suite (25 minutes), and kept in the file of `--record`. It works in a copy of what git tracks, without
real data. The last line says how many were noticed; the exit code is 1 if one was not.
"""

import argparse
import ast
import copy
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

import coverage

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPARISONS = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
}
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult}
GROUPS = (slice(15), slice(15, 60))  # test functions of one run; the next run follows if nothing was noticed
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
        if not any(isinstance(argument, ast.Starred) for argument in node.args[:2]):
            new.args[:2] = new.args[1::-1]
            if ast.dump(new) != ast.dump(node):
                yield "arguments", new
    elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)):
        yield "statement", ast.Pass()


def faults(file: str) -> list[Fault]:
    """Returns all faults that a file can have; not in what raises an error, in types, or outside of functions."""
    found: list[Fault] = []

    def visit(node: ast.AST, parent: ast.AST) -> None:
        is_neutral = isinstance(node, ast.keyword) and node.arg in NEUTRAL
        if is_neutral or isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr, ast.arguments, ast.AnnAssign)):
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
        for fault in faults(file) if file.endswith(".py") else ():
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


def recorded_tests(folder: pathlib.Path, record: pathlib.Path) -> coverage.CoverageData:
    """Returns the fast tests that run each line of the library. Runs all of them once if there is no record."""
    if not record.exists():
        options = [f"--cov={package}" for package in ("keras_bert", "data_prep", "run_scripts")]
        options += ["--cov-report=", "--cov-context=test", "--numprocesses=2", "--dist=loadfile"]
        run_tests(folder, [*options, "tests"], seconds=4 * 3600)
        shutil.move(folder / ".coverage", record)
    data = coverage.CoverageData(str(record))
    data.read()
    return data


def tests_of(fault: Fault, data: coverage.CoverageData) -> list[str]:
    """Returns tests that run the changed lines, nearest names first; if none does, all that name the module."""
    tests: set[str] = set()
    for file in data.measured_files():
        if file.endswith(f"/{fault.file}"):
            by_line = data.contexts_by_lineno(file)
            contexts = {test for line in range(fault.start[0], fault.end[0] + 1) for test in by_line.get(line, ())}
            tests = {test for test in (re.split(r"[\[|]", context)[0] for context in contexts) if is_there(test)}
    if not tests:
        command = ["git", "grep", "-l", pathlib.PurePath(fault.file).stem, "--", "tests/**/test_*.py"]
        tests = set(subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split())
    mixed, words = random.Random(0).sample(sorted(tests), len(tests)), set(re.findall(r"[a-z]{4,}", fault.file))
    return sorted(mixed, key=lambda test: -len(words & set(re.findall(r"[a-z]{4,}", test.partition("::")[0]))))


def is_there(test: str) -> bool:
    file, _, name = test.partition("::")
    return bool(name) and (ROOT / file).is_file() and f"def {name}(" in (ROOT / file).read_text("utf-8")


def run_tests(folder: pathlib.Path, arguments: list[str], seconds: int) -> bool:
    """Returns whether the fast tests that these arguments name pass."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "KERAS_BERT_DATA": str(folder / "no data")}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *arguments]
    try:
        ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return False  # an endless loop
    return ended.returncode in (0, 5)  # 5: no test was found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", help="folders or files of the library")
    parser.add_argument("--number", type=int, default=20, help="how many faults")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws others")
    parser.add_argument("--record", type=pathlib.Path, help="which tests run each line; written if it does not exist")
    options = parser.parse_args()
    chosen, survivors = drawn(options.folders, options.number, options.seed), 0
    with tempfile.TemporaryDirectory(prefix="planted_faults_") as name:
        folder = pathlib.Path(name)
        tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for file in filter(None, tracked.split("\0")):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, folder / file)
        data = recorded_tests(folder, options.record or folder / "record")
        for number, fault in enumerate(chosen, start=1):
            source = (ROOT / fault.file).read_text("utf-8")
            (folder / fault.file).write_text(planted(source, fault), "utf-8")
            tests = tests_of(fault, data)
            groups = [["-x", *tests[group]] for group in GROUPS if tests[group]]
            noticed = not all(run_tests(folder, group, 900) for group in groups)
            (folder / fault.file).write_text(source, "utf-8")
            line = source.splitlines()[fault.start[0] - 1].strip()
            survivors += not noticed
            verdict = "noticed " if noticed else "SURVIVED"
            print(f"{number:3} {verdict} {fault.kind:10} {fault.file}:{fault.start[0]}", flush=True)
            if not noticed:
                print(f"      {line}\n      becomes: {fault.text.splitlines()[0][:150]}")
    print(f"{len(chosen) - survivors} of {len(chosen)} faults were noticed.")
    sys.exit(survivors > 0)


if __name__ == "__main__":
    main()
