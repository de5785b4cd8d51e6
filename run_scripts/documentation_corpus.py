"""Makes an English text for a first run, without a network: the documentation of installed Python packages.

Reads the source files of the Python standard library, NumPy, Keras, TensorFlow and their dependencies, without
importing them, and writes to --output_dir:

    corpus.txt   text for pre-training: one paragraph per line, a blank line between modules
    train.tsv    paragraphs with the library that they document, one of: keras, numpy, python, tensorflow
    test.tsv     the same, from modules that do not occur in corpus.txt and train.tsv

In the .tsv files, names of the libraries and names in code are masked, and near-duplicates are left out. So a label
cannot be read from a name or looked up.
"""

import ast
import hashlib
import importlib.util
import inspect
import os
import pathlib
import re
import sysconfig
import warnings
from collections.abc import Sequence
from typing import NamedTuple

from absl import flags

from data_prep.text.ordered_map import ordered_map
from keras_bert.program.atomic_output import atomic_folder, check_output_folder
from keras_bert.program.command_line import command_of
from keras_bert.program.errors import InputError
from keras_bert.program.long_work import progress_bar
from keras_bert.program.option_flags import flags_by_name


def define_flags() -> None:
    flags.DEFINE_string("output_dir", None, "Folder to make, with corpus.txt, train.tsv and test.tsv.")
    flags.DEFINE_integer("num_train", 1600, "Number of labelled paragraphs in train.tsv.")
    flags.DEFINE_integer("num_test", 800, "Number of labelled paragraphs in test.tsv.")
    flags.mark_flag_as_required("output_dir")


LABELS = ("keras", "numpy", "python", "tensorflow")
# Packages installed with them: the dependencies of TensorFlow, Keras and matplotlib that have documentation.
OTHER_PACKAGES = (
    *("PIL", "absl", "dateutil", "fontTools", "google", "grpc", "h5py", "markdown", "matplotlib", "ml_dtypes"),
    *("mpl_toolkits", "optree", "packaging", "pyparsing", "requests", "rich", "tensorboard", "tensorflow_text", "tqdm"),
    *("urllib3", "werkzeug", "wrapt"),
)

# TensorFlow contains an old Keras and its own NumPy; their paragraphs would have two right labels.
_AMBIGUOUS_MODULES = (
    "tensorflow.python.keras",
    "tensorflow.python.ops.numpy_ops",
    "keras.src.ops.numpy",
    "keras.src.legacy",
)
_MASK = "@"
# Names in code: snake_case, a.path, camelCase or a call; and names of the libraries.
_NAME = re.compile(
    r"(?:[\w.]*(?:_|[A-Za-z]\.[A-Za-z]\w|(?-i:[a-z][A-Z])|\w\(\))(?:[\w.]*\w)?"
    r"|\b(?:tensorflows?|tf|tflite|keras|tensorboard|c?pythons?|pythonic|numpys?|np|ndarrays?|array_likes?|pep)\b)"
    r"(?:\(\)|'s\b)?",
    re.IGNORECASE,
)
_REPEATED_MASKS = re.compile(r"@(?:[\s,.'/]*@)+")
_MIN_LABELLED_WORDS = 20
# One module in this many of the labelled libraries is held out for test.tsv.
_HELD_OUT_ONE_IN = 5
# A paragraph of whose groups of four words more than this share was seen before is a near-duplicate.
_MAX_KNOWN_SHARE = 0.5

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


class Documentation(NamedTuple):
    """The corpus, as documents of paragraphs, and the labelled paragraphs: "train", "test" -> (text, label)."""

    corpus: list[list[str]]
    splits: dict[str, list[tuple[str, str]]]


class Module(NamedTuple):
    """The documentation of one source file."""

    name: str  # with dots, such as "numpy.lib._npyio_impl"
    paragraphs: list[str]


def word_groups(text: str) -> set[tuple[str, ...]]:
    """Returns every group of four consecutive words; case, numbers, punctuation and one-letter names are ignored.

    >>> sorted(word_groups("Returns the sum of 2 numbers."))
    [('returns', 'the', 'sum', 'of'), ('the', 'sum', 'of', 'numbers')]
    """
    words = re.findall(r"[^\W\d_]{2,}", text.lower())
    return {tuple(words[start : start + 4]) for start in range(max(1, len(words) - 3))}


def known_share(text: str, known: set[tuple[str, ...]]) -> float:
    """Returns the share of a text, 0 to 1, whose groups of words are known."""
    groups = word_groups(text)
    return len(groups & known) / len(groups)


def _is_new(text: str, known: set[tuple[str, ...]]) -> bool:
    """Returns whether a text is no near-duplicate, and makes its groups of words known."""
    share = known_share(text, known)
    known |= word_groups(text)
    return share <= _MAX_KNOWN_SHARE


def write_documentation_corpus(
    output_dir: str | os.PathLike, *, num_train: int = 1600, num_test: int = 800
) -> Documentation:
    """Writes `corpus.txt`, `train.tsv` and `test.tsv` into a new folder, and returns their content.

    The same packages always give the same files. Raises `InputError` if the folder is not empty or cannot be written
    to, or the installed packages have less text.
    """
    check_output_folder(output_dir)
    documentation = collect_documentation(num_train=num_train, num_test=num_test)
    texts = {"corpus.txt": "\n".join("\n".join([*document, ""]) for document in documentation.corpus)}
    for split, examples in documentation.splits.items():
        texts[f"{split}.tsv"] = "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in examples)
    with atomic_folder(output_dir) as folder:
        for name, text in texts.items():
            pathlib.Path(folder, name).write_text(text, encoding="utf-8", newline="\n")
    return documentation


def collect_documentation(*, num_train: int, num_test: int) -> Documentation:
    """Reads the installed packages and sorts their paragraphs into corpus and labelled splits."""
    modules = read_packages([*LABELS, *OTHER_PACKAGES])
    held_out, others = [], []
    for module in modules:
        is_held_out = _package(module) in LABELS and int.from_bytes(_hash(module.name)[:4]) % _HELD_OUT_ONE_IN == 0
        (held_out if is_held_out else others).append(module)
    # The test comes first: what nearly equals one of its paragraphs is left out of the rest.
    known: set[tuple[str, ...]] = set()
    test = _labelled(held_out, "test", num_test, known)
    train = _labelled(others, "train", num_train, known)
    # Masked texts are compared with the test: the same words about tf.add and tf.math.add are the same paragraph.
    of_test = {group for text, _ in test for group in word_groups(text)}
    in_corpus: set[tuple[str, ...]] = set()
    corpus = [
        [
            text
            for text in module.paragraphs
            if _is_new(text, in_corpus) and known_share(mask_names(text), of_test) <= _MAX_KNOWN_SHARE
        ]
        for module in others
    ]
    return Documentation([document for document in corpus if document], {"test": test, "train": train})


def _package(module: Module) -> str:
    return module.name.split(".")[0]


def mask_names(text: str) -> str:
    """Returns the text with the names of libraries, and names in code, replaced by "@".

    >>> mask_names("Like np.dot(), but takes a Keras KerasTensor.")
    'Like @, but takes a @.'
    """
    return _REPEATED_MASKS.sub(_MASK, _NAME.sub(_MASK, text))


def _labelled(modules: list[Module], split: str, size: int, known: set) -> list[tuple[str, str]]:
    """Returns an equal number of masked paragraphs of every library with its name, in an order that mixes them.

    Paragraphs with few words are left out, and near-duplicates of each other and of those in `known`.
    """
    rows = []
    for number, label in enumerate(LABELS):
        wanted = size // len(LABELS) + (number < size % len(LABELS))
        of_label = [m for m in modules if _package(m) == label and not m.name.startswith(_AMBIGUOUS_MODULES)]
        masked = sorted((mask_names(text) for module in of_label for text in module.paragraphs), key=_hash)
        drawn = [text for text in masked if _is_long_prose(text) and _is_new(text, known)][:wanted]
        if len(drawn) < wanted:
            raise InputError(
                f"The documentation of {label} has {len(drawn)} paragraphs for {split}.tsv, but {wanted} are needed. "
                f"Give smaller numbers (--num_train, --num_test), or install {label} with its source files (.py)."
            )
        rows += [(text, label) for text in drawn]
    return sorted(rows, key=lambda row: _hash(row[0]))


def _is_long_prose(masked: str) -> bool:
    num_words = sum(word.strip(".,;:()\"'").isalpha() for word in masked.split())
    return num_words >= _MIN_LABELLED_WORDS and is_prose(masked.replace(_MASK, "it"))


def _hash(text: str) -> bytes:
    """Returns a sort key that shuffles reproducibly, on any machine and whatever else is sorted."""
    return hashlib.sha256(text.encode("utf-8")).digest()


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


def main() -> None:
    arguments = flags.FLAGS
    corpus, splits = write_documentation_corpus(arguments.output_dir, **flags_by_name("num_train", "num_test"))
    num_characters = sum(len(paragraph) for document in corpus for paragraph in document)
    print(f"{arguments.output_dir}/corpus.txt: {num_characters / 1e6:.1f} MB, {len(corpus):,} modules")
    for split, examples in splits.items():
        print(f"{arguments.output_dir}/{split}.tsv: {len(examples):,} paragraphs of {len(LABELS)} libraries")


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
