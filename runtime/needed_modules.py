"""Finds the files of the small install: the modules that its entries import, as far as its packages suffice.

Files are read and not run, so that building needs none of these packages.
"""

import ast
import functools
import pathlib
import re
import shutil
import sys
from collections.abc import Iterable

# `keras_bert.serving.load`, the clients, and the command `serve`.
ENTRIES = ("keras_bert.serving", "keras_bert.tf_serving.client", "run_scripts.serve")
# What a file of the small install may import at its top. setup.py has the versions.
PACKAGES = {"absl", "ai_edge_litert", "httptools", "numpy", "onnxruntime", "openvino", "sentencepiece", "tokenizers"}
PACKAGES |= {"tqdm", "uvicorn"}
# Files that are no modules.
DATA = ("keras_bert/__init__.pyi", "keras_bert/py.typed", "keras_bert/tokenization/*.txt")
DATA += ("keras_bert/tf_serving/server/*.html", "keras_bert/tf_serving/server/*.js", "LICENSE")


def copy_needed_files(project: pathlib.Path, folder: pathlib.Path) -> None:
    """Copies the modules of the small install, and their data, from a clone to a new folder."""
    data = [file for pattern in DATA for file in project.glob(pattern)]
    for file in [*needed_modules(project).values(), *data]:
        copy = folder / file.relative_to(project)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)


def needed_modules(tree: pathlib.Path, entries: Iterable[str] = ENTRIES) -> dict[str, pathlib.Path]:
    """Returns module -> file of all modules that the entries need, with themselves.

    It follows imports at every level of a file, and import paths in strings. Modules that cannot be imported without
    further packages are left out.

    Args:
        tree: the folder of the packages.
        entries: the first modules.
    """
    found: set[str] = set()
    more = _modules(tree, entries)
    while more:
        found |= more
        names = [name for module in more for name in _imports(_file(tree, module))]
        more = {module for module in _modules(tree, names) - found if _can_be_imported(tree, module)}
    return {module: _file(tree, module) for module in sorted(found)}


def _can_be_imported(tree: pathlib.Path, module: str) -> bool:
    """Returns whether `PACKAGES` suffice for what a module imports at its top, and for what this imports."""
    reached: set[str] = set()
    more = _modules(tree, [module])
    while more:
        reached |= more
        names = {name for some in more for name in _imports(_file(tree, some), at_the_top=True)}
        more = _modules(tree, names) - reached
        others = {name.partition(".")[0] for name in names} - PACKAGES - sys.stdlib_module_names
        if any(_file(tree, package) is None for package in others):
            return False
    return True


def _modules(tree: pathlib.Path, names: Iterable[str]) -> set[str]:
    """Returns the modules that are imported for such names: `package.module.name` -> package, package.module."""
    parts = [name.split(".") for name in names]
    found = {".".join(some[:count]) for some in parts for count in range(1, len(some) + 1)}
    return {module for module in found if _file(tree, module) is not None}


@functools.cache
def _file(tree: pathlib.Path, module: str) -> pathlib.Path | None:
    place = tree.joinpath(*module.split("."))
    return next(filter(pathlib.Path.is_file, (place / "__init__.py", place.with_suffix(".py"))), None)


@functools.cache
def _imports(file: pathlib.Path, at_the_top: bool = False) -> list[str]:
    """Returns what a file imports: `package.module.name` for `from package.module import name`.

    Import paths in strings count too, also with a constant of the file, as in f"{_PORTABLE}.onnx_engine.OnnxEngine".
    """
    tree = _parsed(file)
    constants = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    found = []
    tried = [node for statement in tree.body if isinstance(statement, ast.Try) for node in statement.body]
    for node in [*tree.body, *tried] if at_the_top else ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, (ast.Constant, ast.JoinedStr)):
            parts = [part.value for part in getattr(node, "values", [node])]
            text = "".join(str(constants.get(getattr(part, "id", ""), part)) for part in parts)
            found += [text] if re.fullmatch(r"keras_bert(\.\w+)+", text) else []
    return found


@functools.cache
def _parsed(file: pathlib.Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))
