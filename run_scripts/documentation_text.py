"""Extracts English prose from Python packages: reads docstrings from source files, without importing anything."""

import ast
import importlib.util
import inspect
import os
import pathlib
import re
import sysconfig
import warnings
from collections.abc import Sequence
from typing import NamedTuple

from data_prep.text.ordered_map import ordered_map
from keras_bert.program.long_work import progress_bar

# Folders without documentation of the package: tests, code of others, generated wrappers.
_SKIPPED_FOLDERS = {"test", "tests", "testing", "idle_test", "site-packages", "dist-packages", "_vendor", "__pycache__"}
_MIN_CHARACTERS = 30

# What separates paragraphs beside blank lines: doctests, directives, underlines, headings with a colon, "name : type"
# in the style of NumPy, and the beginning of an item of a list, of "name (type): text" and of ":param name: text".
_SEPARATORS = re.compile(
    r"^ *(?:>>>.*?(?=\n *\n|\Z)|\.\. [^\n]*|[-=~^*]{3,} *$|[A-Z][\w ]{0,30}: *$|[\w*., `]+ : [^\n]*$|[*+•-] +"
    r"|`*\*{0,2}[\w.]+`*(?: ?\([^)]*\))? *: +|:\w+ [^:\n]*: +)",
    re.MULTILINE | re.DOTALL,
)
_MARKUP = re.compile(r":[\w:-]+:(?=`)|[`*]~?|:(?=:(?:\s|$))")
_WORD = re.compile(r"[A-Za-z]+")
_FUNCTION_WORDS = re.compile(
    r"\b(?:a|an|and|are|as|at|be|by|can|for|from|has|have|if|in|is|it|its|may|must|no|not|of|on|or|only|that|the|then|this"
    r"|to|use|used|was|when|which|will|with|you)\b",
    re.IGNORECASE,
)
_MIN_WORDS, _MIN_FUNCTION_WORDS, _MIN_LETTERS = 6, 0.2, 0.75
# Licence texts, LaTeX, code, links and leftovers of tables.
_NOT_PROSE = re.compile(
    r"copyright|licen[sc]e|all rights reserved|warrant|https?:|\\[a-z]{3,}|={3}|-{3}|\|.*\||[{}]|>>>", re.IGNORECASE
)


class Module(NamedTuple):
    """The documentation of one source file."""

    name: str  # with dots, such as "numpy.lib._npyio_impl"
    paragraphs: list[str]


def read_packages(packages: Sequence[str]) -> list[Module]:
    """Returns the modules with prose of installed packages, by package and name. Missing packages are skipped.

    Args:
        packages: import names; "python" is the standard library.
    """
    files = [file for package in packages for file in _source_files(package)]
    # Parsing takes most of the time, and files are independent.
    modules = ordered_map(_read_module, files, min(8, os.cpu_count() or 1))
    return [module for module in progress_bar(modules, desc="reading packages", total=len(files)) if module.paragraphs]


def _source_files(package: str) -> list[tuple[str, pathlib.Path]]:
    """Returns the name and path of every module of a package, sorted by path."""
    if package == "python":
        folders = [sysconfig.get_path("stdlib")]
    else:
        spec = importlib.util.find_spec(package)
        folders = list(spec.submodule_search_locations or ())[:1] if spec else []
    return [
        (".".join([package, *path.relative_to(folder).with_suffix("").parts]).removesuffix(".__init__"), path)
        for folder in folders
        for path in sorted(pathlib.Path(folder).rglob("*.py"))
        if not _SKIPPED_FOLDERS.intersection(path.relative_to(folder).parts)
    ]


def _read_module(file: tuple[str, pathlib.Path]) -> Module:
    name, path = file
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about other people's escape sequences
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):  # a template, or a file for another Python
            return Module(name, [])
    # Texts stand alone, in calls (NumPy's add_newdoc) and in assignments (pydoc_data.topics).
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.Expr | ast.Assign)]
    texts = [
        node.value
        for statement in sorted(statements, key=lambda node: node.lineno)
        for node in ast.walk(statement)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) >= _MIN_CHARACTERS
    ]
    return Module(name, [paragraph for text in texts for paragraph in paragraphs_of_docstring(text)])


def paragraphs_of_docstring(docstring: str) -> list[str]:
    """Returns the paragraphs with real sentences of a docstring, each on one line, without mark-up.

    Code, doctests, headings, tables and lists of names are left out. So are the names and types of arguments.

    >>> paragraphs_of_docstring("Adds two numbers, one to the other.\\n\\n>>> add(1, 2)\\n3\\n")
    ['Adds two numbers, one to the other.']
    """
    text = _MARKUP.sub("", _SEPARATORS.sub("\n\n", inspect.cleandoc(docstring)))
    paragraphs = [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text)]
    return [paragraph for paragraph in paragraphs if is_prose(paragraph)]


def is_prose(text: str) -> bool:
    """Returns whether a line has English sentences: a sentence's end, enough words, and enough common words.

    >>> is_prose("Returns the sum of all the numbers in a list."), is_prose("x: int, y: int, z: float or None.")
    (True, False)
    """
    if not re.match(r"[\w\"'(].*[.!?:]$", text) or not text.isprintable() or _NOT_PROSE.search(text):
        return False
    num_words, num_common = len(_WORD.findall(text)), len(_FUNCTION_WORDS.findall(text))
    num_letters = sum(map(str.isalpha, text)) + text.count(" ")
    is_long = num_words >= _MIN_WORDS
    return is_long and num_common >= _MIN_FUNCTION_WORDS * num_words and num_letters >= _MIN_LETTERS * len(text)
