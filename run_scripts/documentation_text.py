"""Extracts English prose from Python packages: reads docstrings from source files, without importing anything."""

import ast
import inspect
import os
import re
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from typing import NamedTuple

from tqdm import tqdm

from data_prep.text.ordered_map import ordered_map

# Folders without documentation of the package: tests, code of others, generated wrappers.
_SKIPPED_FOLDERS = {"test", "tests", "testing", "idle_test", "site-packages", "dist-packages", "_vendor", "__pycache__"}

_FILES_PER_TASK = 64
_MAX_PROCESSES = 8


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
    batches = [files[start : start + _FILES_PER_TASK] for start in range(0, len(files), _FILES_PER_TASK)]
    modules = []
    # Parsing takes most of the time, and files are independent.
    processes = min(_MAX_PROCESSES, os.cpu_count() or 1)
    with tqdm(desc="reading packages", total=len(files), unit=" files") as progress:
        for found in ordered_map(_read_modules, batches, processes):
            modules.extend(module for module in found if module.paragraphs)
            progress.update(len(found))
    return modules


def _read_modules(files: list[tuple[str, str]]) -> list[Module]:
    return [_read_module(file) for file in files]


def _read_module(file: tuple[str, str]) -> Module:
    name, path = file
    return Module(
        name, [paragraph for text in _documentation_strings(path) for paragraph in paragraphs_of_docstring(text)]
    )


def _source_files(package: str) -> list[tuple[str, str]]:
    """Returns the name and path of every module of a package, sorted by path."""
    root = package_folder(package)
    found = []
    if root is None:
        return found
    for parent, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS]
        found.extend(os.path.join(parent, name) for name in files if name.endswith(".py"))
    return [(_module_name(package, os.path.relpath(path, root)), path) for path in sorted(found)]


def _module_name(package: str, path: str) -> str:
    """
    >>> _module_name("numpy", "lib/__init__.py")
    'numpy.lib'
    """
    parts = path.removesuffix(".py").split(os.sep)
    return ".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])


def package_folder(package: str) -> str | None:
    """Returns the folder that Python would import a package from, or None if it is not installed.

    Args:
        package: an import name, with dots for nested packages; "python" is the standard library.
    """
    if package == "python":
        return sysconfig.get_path("stdlib")
    folders, name = None, ""  # None: everywhere on sys.path
    for part in package.split("."):
        name = f"{name}.{part}" if name else part
        # Unlike importlib.util.find_spec, this does not import the parent packages.
        spec = PathFinder.find_spec(name, folders)
        if spec is None or not spec.submodule_search_locations:
            return None
        folders = list(spec.submodule_search_locations)
    return folders[0]


def _documentation_strings(path: str) -> Iterator[str]:
    """Yields docstrings and other long texts of a source file, from top to bottom."""
    with open(path, "rb") as file:
        source = file.read()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about other people's escape sequences
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # a template, or a file for another Python
    yield from _strings_of_statements(tree.body)


def _strings_of_statements(statements: list[ast.stmt]) -> Iterator[str]:
    # Walking only statements, without the expressions in them, is several times faster than ast.walk.
    for statement in statements:
        value = getattr(statement, "value", None)
        if isinstance(statement, ast.Expr | ast.Assign) and value is not None:
            yield from _strings_of_value(value)
        for block in ("body", "orelse", "finalbody"):
            yield from _strings_of_statements(getattr(statement, block, []))


def _strings_of_value(value: ast.expr) -> Iterator[str]:
    if isinstance(value, ast.Constant):
        values = [value]
    elif isinstance(value, ast.Call):  # numpy: add_newdoc("numpy", "name", """text""")
        values = value.args
    elif isinstance(value, ast.Dict):  # standard library: pydoc_data.topics holds the language reference in one
        values = value.values
    else:
        return
    for item in values:
        if isinstance(item, ast.Tuple):
            yield from _strings_of_value(ast.Call(value, item.elts, []))
        elif isinstance(item, ast.Constant) and isinstance(item.value, str) and len(item.value) >= 30:
            yield item.value


_FENCE = re.compile(r"\s*(```|~~~)")
_DIRECTIVE = re.compile(r"\s*\.\. ")
_ADMONITION = re.compile(
    r"\s*\.\. (note|warning|tip|important|caution|seealso|versionadded|versionchanged)::\s*([\d.]+(\s+|$))?"
)
_RULE = re.compile(r"\s*([-=~^*#+_\"'])\1{2,}\s*$")
_SECTION = re.compile(r"\s*(#+ .*|[A-Z][\w ]{0,30}:)$")
_LIST_ITEM = r"(?:[*+•-]|\(?\w{1,2}[.)]) +"
# "name (type): text" of Google's style, and ":param name: text" of Sphinx'.
_ENTRY = r"(?:`{0,2}\*{0,2}[\w.]+`{0,2}(?: ?\([^)]*\))?|:\w+ [^:]*|@\w+)\s*:\s+"
_ENTRY_START = re.compile(rf"\s*(?:{_LIST_ITEM}(?:{_ENTRY})?|{_ENTRY})")
# "name : type", with the text on the next lines, of NumPy's style.
_NUMPY_ENTRY = re.compile(r"\s*[\w*., `]+ : .*$")


def paragraphs_of_docstring(docstring: str) -> list[str]:
    """Returns the paragraphs with real sentences of a docstring, each on one line, without mark-up.

    Code, doctests, directives, headings, tables and lists of names are left out. So are the names and types of
    arguments.

    >>> paragraphs_of_docstring("Adds two numbers, one to the other.\\n\\n>>> add(1, 2)\\n3\\n")
    ['Adds two numbers, one to the other.']
    """
    paragraphs = (_plain_text(" ".join(lines)) for lines in _blocks(inspect.cleandoc(docstring).split("\n")))
    return [paragraph for paragraph in paragraphs if is_prose(paragraph)]


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Yields the lines of each paragraph."""
    block, indent = [], 0
    for line in _without_code(lines):
        line_indent = len(line) - len(line.lstrip())
        is_heading = _SECTION.match(line) or _NUMPY_ENTRY.match(line)
        starts_entry = _ENTRY_START.match(line)
        # A hanging indent continues an entry; less indented text begins a new one.
        if not line or is_heading or starts_entry or line_indent < indent:
            if block:
                yield block
            block = []
        if line and not is_heading:
            block.append(line[starts_entry.end() :] if starts_entry else line)
        indent = line_indent
    if block:
        yield block


def _without_code(lines: list[str]) -> Iterator[str]:
    """Yields the lines that are not code, and an empty line in place of code."""
    in_fence = in_doctest = False
    skipped_indent = None  # lines indented further belong to a code block or directive
    for line in (line.expandtabs().rstrip() for line in lines):
        indent = len(line) - len(line.lstrip())
        if _FENCE.match(line):
            in_fence = not in_fence
            yield ""
            continue
        if skipped_indent is not None and line and indent <= skipped_indent:
            skipped_indent = None
        in_doctest = line.lstrip().startswith(">>>") or (in_doctest and bool(line))
        if in_fence or in_doctest or skipped_indent is not None or _RULE.match(line):
            yield ""
        elif admonition := _ADMONITION.match(line):
            yield line[admonition.end() :]
        elif _DIRECTIVE.match(line):
            skipped_indent = indent
            yield ""
        else:
            if line.endswith("::"):
                skipped_indent = indent
                line = line[:-1]
            yield line


# (a string that must occur for the pattern to match, which is much faster to find; the pattern; its replacement).
_MARKUP = (
    ("](", re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"),  # [text](address)
    ("`_", re.compile(r"`([^`<]*) <[^>]*>`_{1,2}"), r"\1"),  # `text <address>`_
    (":`", re.compile(r":[\w:-]+:`[~!]?([^`<]*)(?: <[^>]*>)?`"), r"\1"),  # :func:`name`
    ("://", re.compile(r"<?https?://[^\s>)]+>?"), ""),
    ("<", re.compile(r"</?(?:code|b|i|em|pre|p|br|a|sup|sub|strong|tt)\b[^>]*>"), ""),
    ("`", re.compile(r"`+"), ""),
    ("*", re.compile(r"(?<!\w)(\*{1,2})(?=\w)([^*]+)(?<=\w)\1(?!\w)"), r"\2"),  # **bold**
    ("]_", re.compile(r"\[\d+\]_"), ""),  # [1]_, a footnote
)
_SPACE_BEFORE_PUNCTUATION = re.compile(r"\s+([.,;:)])")


def _plain_text(text: str) -> str:
    unchanged = text
    for sign, pattern, replacement in _MARKUP:
        if sign in text:
            text = pattern.sub(replacement, text)
    if text is not unchanged:
        text = _SPACE_BEFORE_PUNCTUATION.sub(r"\1", text)
    return " ".join(text.split())


_WORD = re.compile(r"[A-Za-z]+")
_FUNCTION_WORD = re.compile(
    r"\b(?:a|an|and|are|as|at|be|been|but|by|can|does|for|from|has|have|if|in|into|is|it|its|may|must|no|not|of|on|or|only"
    r"|should|so|such|than|that|the|their|then|there|these|they|this|to|use|used|uses|was|when|where|which|while|will"
    r"|with|without|you|your)\b",
    re.IGNORECASE,
)
_MIN_WORDS = 6
_MIN_FUNCTION_WORDS = 0.22
_MIN_LETTERS = 0.75
# Licence texts, LaTeX and leftovers of tables.
_NOT_PROSE = re.compile(
    r"copyright|licen[sc]e|all rights reserved|warrant|\\[a-z]{3,}|\\\\|\$\$|={3}|-{3}|\|.*\||[{}]|>>>", re.IGNORECASE
)


def is_prose(text: str) -> bool:
    """Returns whether a line has English sentences: a sentence's end, enough words, and enough common words.

    >>> is_prose("Returns the sum of all the numbers in a list."), is_prose("x: int, y: int, z: float or None.")
    (True, False)
    """
    if not text.isprintable() or not text or text[-1] not in ".!?:" or not (text[0].isalnum() or text[0] in "\"'("):
        return False
    num_words = len(_WORD.findall(text))
    if num_words < _MIN_WORDS or _NOT_PROSE.search(text):
        return False
    num_letters = sum(map(str.isalpha, text)) + text.count(" ")
    return len(_FUNCTION_WORD.findall(text)) >= _MIN_FUNCTION_WORDS * num_words and num_letters >= _MIN_LETTERS * len(
        text
    )
