"""Makes an English text for a first run, without a network: the documentation of installed Python packages.

Reads the source files of the Python standard library, NumPy, Keras, TensorFlow and their dependencies, without
importing them, and writes to --output_dir:

    corpus.txt   text for pre-training: one paragraph per line, a blank line between modules
    train.tsv    paragraphs with the library that they document, one of: keras, numpy, python, tensorflow
    dev.tsv      the same, from modules that do not occur in corpus.txt and train.tsv
  test.tsv     the same, from other such modules

In the .tsv files, the names of the libraries and everything else that looks like a name in code are masked, and
near-duplicates are left out. So a label cannot be read from a name or looked up.
"""

import dataclasses
import hashlib
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from absl import flags

from data_prep.text.near_duplicates import SeenText, TextIndex
from keras_bert.program.atomic_output import atomic_folder, check_output_folder
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError, how_to_install
from run_scripts.documentation_text import Module, is_prose, package_folder, read_packages


def define_flags() -> None:
    flags.DEFINE_string("output_dir", None, "Folder to make, with corpus.txt, train.tsv, dev.tsv and test.tsv.")
    flags.DEFINE_integer("num_train", 1600, "Number of labelled paragraphs in train.tsv.")
    flags.DEFINE_integer("num_dev", 400, "Number of labelled paragraphs in dev.tsv.")
    flags.DEFINE_integer("num_test", 1000, "Number of labelled paragraphs in test.tsv.")
    flags.mark_flag_as_required("output_dir")


LABELS = ("keras", "numpy", "python", "tensorflow")
# Packages installed with them: the dependencies of TensorFlow, Keras and matplotlib that have documentation.
OTHER_PACKAGES = (
    *("PIL", "absl", "dateutil", "fontTools", "google.protobuf", "grpc", "h5py", "markdown", "matplotlib", "ml_dtypes"),
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
_LIBRARY_NAMES = re.compile(
    r"\b(tensorflows?|tf|tflite|keras|tensorboard|c?pythons?|pythonic|numpys?|np|ndarrays?|array_likes?|pep)\b",
    re.IGNORECASE,
)
# A call, snake_case, a.path or camelCase: a name in code.
_CODE_NAME = re.compile(r"\w\((?!e?s\))|_|[A-Za-z]\.[A-Za-z]\w|[a-z][A-Z]")
_WORD_IN_PUNCTUATION = re.compile(r"([^\w@]*)(.*?)([^\w@]*)$")
_REPEATED_MASKS = re.compile(r"@(?:[\s,.'/]*@)+")
_MIN_LABELLED_WORDS = 20
# So that a split is not about a few modules only. The limit is exceeded if there are not enough modules.
_MAX_LABELLED_PER_MODULE = 20
# Modules with more paragraphs are not held out: too much text would be missing in the corpus.
_MAX_HELD_OUT_PARAGRAPHS = 150
# A paragraph of whose groups of four words more than this share was seen before is a near-duplicate.
_MAX_KNOWN_SHARE = 0.5


@dataclasses.dataclass(frozen=True)
class Documentation:
    """The corpus, and the labelled paragraphs of each split.

    Attributes:
        corpus: the documents, each a list of paragraphs.
        splits: "train", "dev", "test" -> list of (text, label).
    """

    corpus: list[list[str]]
    splits: dict[str, list[tuple[str, str]]]


def write_documentation_corpus(
    output_dir: str | os.PathLike, *, num_train: int = 1600, num_dev: int = 400, num_test: int = 1000
) -> Documentation:
    """Writes `corpus.txt`, `train.tsv`, `dev.tsv` and `test.tsv` into a new folder, and returns their content.

    The same packages always give the same files.

    Raises:
        InputError: the folder is not empty or cannot be written to, or the installed packages have less text.
    """
    check_output_folder(output_dir)
    documentation = collect_documentation(num_train=num_train, num_dev=num_dev, num_test=num_test)
    with atomic_folder(output_dir) as folder:
        with open(os.path.join(folder, "corpus.txt"), "w", encoding="utf-8", newline="\n") as file:
            file.write("\n".join("".join(f"{paragraph}\n" for paragraph in text) for text in documentation.corpus))
        for split, examples in documentation.splits.items():
            with open(os.path.join(folder, f"{split}.tsv"), "w", encoding="utf-8", newline="\n") as file:
                file.write("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in examples))
    return documentation


def collect_documentation(*, num_train: int, num_dev: int, num_test: int) -> Documentation:
    """Reads the installed packages and sorts their paragraphs into corpus and labelled splits."""
    modules = read_packages([*LABELS, *OTHER_PACKAGES])
    _check_libraries(modules)
    candidates = _without_near_duplicates({label: _candidates(modules, label) for label in LABELS})
    splits = _split(candidates, {"test": num_test, "dev": num_dev, "train": num_train})
    corpus = _corpus(modules, [item for split in ("test", "dev") for item, _ in splits[split]])
    rows = {split: [(item.masked, label) for item, label in splits[split]] for split in ("train", "dev", "test")}
    return Documentation(corpus, rows)


def _check_libraries(modules: list[Module]) -> None:
    """Raises `InputError` with the packages to install if a library that is a label has no documentation here."""
    documented = {module.name.split(".")[0] for module in modules}
    undocumented = [label for label in LABELS if label not in documented]
    if absent := [label for label in undocumented if package_folder(label) is None]:
        raise InputError(
            f"The text is the documentation of {', '.join(LABELS)}, but {sys.executable} does not have: "
            f"{', '.join(absent)}. Run: {sys.executable} -m pip install {' '.join(absent)}"
        )
    for label in undocumented:
        name, remedy = f"The package {label}", "Install it again, with its source files."
        if label == "python":
            name, remedy = "The standard library", "Use a Python with its source files."
        raise InputError(
            f"{name} in {package_folder(label)} has no documentation: its source files (.py) are missing or stripped. "
            f"{remedy}"
        )


def mask_names(text: str) -> str:
    """Returns the text with the names of libraries, and names in code, replaced by "@".

    >>> mask_names("Like np.dot(), but takes a Keras KerasTensor.")
    'Like @, but takes a @.'
    """
    words = [
        _WORD_IN_PUNCTUATION.sub(rf"\1{_MASK}\3", word.replace("()", ""), count=1) if _CODE_NAME.search(word) else word
        for word in text.split()
    ]
    return _REPEATED_MASKS.sub(_MASK, _LIBRARY_NAMES.sub(_MASK, " ".join(words)))


class _Candidate(NamedTuple):
    """A masked paragraph that may be labelled, and the name of its module."""

    masked: str
    module: str


def _candidates(modules: Iterable[Module], label: str) -> list[_Candidate]:
    """Returns the paragraphs of one library that have enough words when masked."""
    found = []
    for module in modules:
        if module.name.split(".")[0] == label and not module.name.startswith(_AMBIGUOUS_MODULES):
            for text in module.paragraphs:
                masked = mask_names(text)
                if _num_words(masked) >= _MIN_LABELLED_WORDS and is_prose(masked.replace(_MASK, "it")):
                    found.append(_Candidate(masked, module.name))
    return found


def _num_words(text: str) -> int:
    return sum(word.strip(".,;:()\"'").isalpha() for word in text.split())


def _without_near_duplicates(candidates: dict[str, list[_Candidate]]) -> dict[str, list[_Candidate]]:
    """Keeps one of several near-duplicates, and none if they document different libraries."""
    seen = {label: SeenText() for label in candidates}
    once = {}
    for label, paragraphs in candidates.items():
        # The longest first, so that a part of a longer paragraph is recognised.
        paragraphs = sorted(paragraphs, key=lambda paragraph: (-len(paragraph.masked), paragraph))
        once[label] = [item for item in paragraphs if seen[label].add(item.masked) <= _MAX_KNOWN_SHARE]
    return {
        label: [
            item
            for item in paragraphs
            if all(seen[other].known_share(item.masked) <= _MAX_KNOWN_SHARE for other in seen if other != label)
        ]
        for label, paragraphs in once.items()
    }


def _split(candidates: dict[str, list[_Candidate]], sizes: dict[str, int]) -> dict[str, list[tuple[_Candidate, str]]]:
    """Draws an equal number of paragraphs for every label. All paragraphs of a module go to one split.

    Returns:
        split -> (paragraph, label), in an order that mixes the labels.
    """
    splits = {split: [] for split in sizes}
    for label, paragraphs in candidates.items():
        modules = defaultdict(list)
        for item in sorted(paragraphs, key=lambda item: _hash(item.masked)):
            modules[item.module].append(item)
        names = sorted(modules, key=_hash)
        for split, size in sizes.items():
            wanted = size // len(candidates) + (LABELS.index(label) < size % len(candidates))
            drawn, spare = [], []
            for name in list(names):
                if len(drawn) < wanted and (split == "train" or len(modules[name]) <= _MAX_HELD_OUT_PARAGRAPHS):
                    names.remove(name)
                    drawn.extend(modules[name][:_MAX_LABELLED_PER_MODULE])
                    spare.extend(modules[name][_MAX_LABELLED_PER_MODULE:])
            drawn.extend(spare)
            if len(drawn) < wanted:
                raise InputError(
                    f"The documentation of {label} has {len(drawn)} paragraphs for {split}.tsv, but {wanted} are "
                    "needed. Give smaller numbers (--num_train, --num_dev, --num_test)."
                )
            splits[split].extend((item, label) for item in drawn[:wanted])
    return {split: sorted(rows, key=lambda row: _hash(row[0].masked)) for split, rows in splits.items()}


def _corpus(modules: list[Module], held_out: list[_Candidate]) -> list[list[str]]:
    """Returns the paragraphs of the modules that are not held out, without near-duplicates of held-out ones."""
    held_out_modules = {item.module for item in held_out}
    # Masked texts are compared: the same words about tf.add and tf.math.add are the same paragraph.
    held_out_texts = TextIndex(item.masked for item in held_out)
    seen = SeenText()
    corpus = []
    for module in modules:
        if module.name not in held_out_modules:
            document = [text for text in module.paragraphs if seen.add(text) <= _MAX_KNOWN_SHARE]
            corpus.append(
                [text for text in document if held_out_texts.largest_overlap(mask_names(text)) <= _MAX_KNOWN_SHARE]
            )
    return [document for document in corpus if document]


def _hash(text: str) -> bytes:
    """Returns a sort key that shuffles reproducibly, on any machine and whatever else is sorted."""
    return hashlib.sha256(text.encode("utf-8")).digest()


def main() -> None:
    """Reads the flags and writes the files."""
    arguments = flags.FLAGS
    documentation = write_documentation_corpus(
        arguments.output_dir, num_train=arguments.num_train, num_dev=arguments.num_dev, num_test=arguments.num_test
    )
    num_paragraphs = sum(map(len, documentation.corpus))
    num_characters = sum(len(paragraph) for document in documentation.corpus for paragraph in document)
    print(
        f"{arguments.output_dir}/corpus.txt: {num_characters / 1e6:.1f} MB, {len(documentation.corpus):,} modules, "
        f"{num_paragraphs:,} paragraphs"
    )
    for split, examples in documentation.splits.items():
        counts = ", ".join(f"{count} {label}" for label, count in sorted(Counter(dict(examples).values()).items()))
        print(f"{arguments.output_dir}/{split}.tsv: {len(examples):,} paragraphs: {counts}")
    if absent := [package for package in OTHER_PACKAGES if package_folder(package) is None]:
        print(
            f"Not installed, so not in corpus.txt: {', '.join(absent)}. For more text: "
            + how_to_install("plots,tensorboard")
        )


def command() -> None:
    """Console-script entry."""
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
