"""Extracts English prose from Python packages: reads docstrings from source files, without importing anything."""

import ast
import importlib.util
import inspect
import os
import re
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from data_prep.text.ordered_map import ordered_map
from keras_bert.program.long_work import progress_bar

# Folders without documentation of the package: tests, code of others, generated wrappers.
_SKIPPED_FOLDERS = {"test", "tests", "testing", "idle_test", "site-packages", "dist-packages", "_vendor", "__pycache__"}
_MIN_CHARACTERS = 30

# What separates paragraphs beside blank lines: code in fences and doctests, directives, underlined headings, lines that
# end in a colon after a few words, and "name : type" of NumPy's style.
_SEPARATORS = re.compile(
    r"^ *(?:```.*?```|>>>.*?(?=\n *\n|\Z)|\.\. \w+:: *[\d.]*|\.\. [^\n]*|([-=~^*#+_\"'])\1{2,} *$|#+ [^\n]*"
    r"|[A-Z][\w ]{0,30}: *$|[\w*., `]+ : [^\n]*$)",
    re.MULTILINE | re.DOTALL,
)
# A list's item, and "name (type): text" of Google's style, ":param name: text" of Sphinx' style.
_ITEM = r"(?:[*+•-]|\(?\w{1,2}[.)]) +"
_ENTRY = r"(?:`*\*{0,2}[\w.]+`*(?: ?\([^)]*\))?|:\w+ [^:\n]*) *: +"
_ENTRIES = re.compile(rf"^ *(?:{_ITEM}(?:{_ENTRY})?|{_ENTRY})", re.MULTILINE)
# Links, references and tags, and what remains of them.
_MARKUP = (
    (re.compile(r"!?\[([^\]]*)\]\([^)]*\)|`([^`<]*) <[^>]*>`_+|:[\w:-]+:`[~!]?([^`<]*)(?: <[^>]*>)?`"), r"\1\2\3"),
    (re.compile(r"<?https?://[^\s>)]+>?|</?(?:code|b|i|em|pre|p|br|a|sup|sub|strong|tt)\b[^>]*>|`+|\[\d+\]_"), ""),
    (re.compile(r"(?<!\w)(\*{1,2})(?=\w)([^*]+)(?<=\w)\1(?!\w)"), r"\2"),
    (re.compile(r"\s+([.,;:)])|:(:)$"), r"\1\2"),
)
_WORD = re.compile(r"[A-Za-z]+")
_FUNCTION_WORDS = re.compile(
    r"\b(?:a|an|and|are|as|at|be|been|but|by|can|does|for|from|has|have|if|in|into|is|it|its|may|must|no|not|of|on|or|only"
    r"|should|so|such|than|that|the|their|then|there|these|they|this|to|use|used|uses|was|when|where|which|while|will"
    r"|with|without|you|your)\b",
    re.IGNORECASE,
)
_MIN_WORDS, _MIN_FUNCTION_WORDS, _MIN_LETTERS = 6, 0.22, 0.75
# Licence texts, LaTeX and leftovers of tables.
_NOT_PROSE = re.compile(
    r"copyright|licen[sc]e|all rights reserved|warrant|\\[a-z]{3,}|\\\\|\$\$|={3}|-{3}|\|.*\||[{}]|>>>", re.IGNORECASE
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


def package_folder(package: str) -> str | None:
    """Returns the folder that Python would import a package from, or None if it is not installed.

    Args:
        package: an import name without dots; "python" is the standard library.
    """
    if package == "python":
        return sysconfig.get_path("stdlib")
    spec = importlib.util.find_spec(package)
    return spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else None


def _source_files(package: str) -> list[tuple[str, str]]:
    """Returns the name and path of every module of a package, sorted by path."""
    root = package_folder(package)
    found = []
    for parent, folders, files in os.walk(root) if root else ():
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS]
        found += [os.path.join(parent, name) for name in files if name.endswith(".py")]
    names = [os.path.relpath(path, root).removesuffix(".py").replace(os.sep, ".") for path in sorted(found)]
    return [
        (f"{package}.{name}".removesuffix(".__init__"), path) for name, path in zip(names, sorted(found), strict=True)
    ]


def _read_module(file: tuple[str, str]) -> Module:
    name, path = file
    with open(path, "rb") as source, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about other people's escape sequences
        try:
            statements = ast.parse(source.read()).body
        except (SyntaxError, ValueError):  # a template, or a file for another Python
            statements = []
    return Module(name, [paragraph for text in _texts(statements) for paragraph in paragraphs_of_docstring(text)])


def _texts(statements: list[ast.stmt]) -> Iterator[str]:
    """Yields docstrings and other long texts of statements, from top to bottom."""
    for statement in statements:
        # Texts stand alone, in calls (NumPy's add_newdoc) and in assignments (pydoc_data.topics).
        for node in ast.walk(statement) if isinstance(statement, ast.Expr | ast.Assign) else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) >= _MIN_CHARACTERS:
                yield node.value
        for block in ("body", "orelse", "finalbody"):
            yield from _texts(getattr(statement, block, []))


def paragraphs_of_docstring(docstring: str) -> list[str]:
    """Returns the paragraphs with real sentences of a docstring, each on one line, without mark-up.

    Code, doctests, headings, tables and lists of names are left out. So are the names and types of arguments.

    >>> paragraphs_of_docstring("Adds two numbers, one to the other.\\n\\n>>> add(1, 2)\\n3\\n")
    ['Adds two numbers, one to the other.']
    """
    text = _ENTRIES.sub("\n\n", _SEPARATORS.sub("\n\n", inspect.cleandoc(docstring)))
    paragraphs = map(_plain_text, re.split(r"\n\s*\n", text))
    return [paragraph for paragraph in paragraphs if is_prose(paragraph)]


def _plain_text(text: str) -> str:
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


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
