"""Makes an English text for a first run, without a network: the documentation of installed Python packages.

Reads the source files of the Python standard library, NumPy, Keras, TensorFlow and their dependencies, without
importing them, and writes to --output_dir:

    corpus.txt   text for pre-training: one paragraph per line, a blank line between modules
    train.tsv    paragraphs with the library that they document, one of: keras, numpy, python, tensorflow
    dev.tsv      the same, from modules that do not occur in corpus.txt and train.tsv
    test.tsv     the same, from other such modules

In the .tsv files, names of the libraries and names in code are masked, and near-duplicates are left out. So a label
cannot be read from a name or looked up.
"""

import hashlib
import os
import pathlib
import re
import sys
from collections import defaultdict
from typing import NamedTuple

from absl import flags

from data_prep.text.near_duplicates import SeenText, TextIndex
from keras_bert.program.atomic_output import atomic_folder, check_output_folder
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError
from run_scripts.documentation_text import Module, is_prose, read_packages


def define_flags() -> None:
    flags.DEFINE_string("output_dir", None, "Folder to make, with corpus.txt, train.tsv, dev.tsv and test.tsv.")
    flags.DEFINE_integer("num_train", 1600, "Number of labelled paragraphs in train.tsv.")
    flags.DEFINE_integer("num_dev", 400, "Number of labelled paragraphs in dev.tsv.")
    flags.DEFINE_integer("num_test", 1000, "Number of labelled paragraphs in test.tsv.")
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
_LIBRARY_NAMES = re.compile(
    r"\b(tensorflows?|tf|tflite|keras|tensorboard|c?pythons?|pythonic|numpys?|np|ndarrays?|array_likes?|pep)\b",
    re.IGNORECASE,
)
# A call, snake_case, a.path or camelCase: a name in code.
_CODE_NAME = re.compile(r"\w\((?!e?s\))|_|[A-Za-z]\.[A-Za-z]\w|[a-z][A-Z]")
_WORD_IN_PUNCTUATION = re.compile(r"([^\w@]*)(.*?)([^\w@]*)$")
_REPEATED_MASKS = re.compile(r"@(?:[\s,.'/]*@)+")
_MIN_LABELLED_WORDS = 20
# So that a split is not about a few modules only.
_MAX_LABELLED_PER_MODULE = 20
# Modules with more paragraphs are held out last: too much text would be missing in the corpus.
_MAX_HELD_OUT_PARAGRAPHS = 150
# A paragraph of whose groups of four words more than this share was seen before is a near-duplicate.
_MAX_KNOWN_SHARE = 0.5


class Documentation(NamedTuple):
    """The corpus, as documents of paragraphs, and the labelled paragraphs: "train", "dev", "test" -> (text, label)."""

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
    texts = {"corpus.txt": "\n".join("\n".join([*document, ""]) for document in documentation.corpus)}
    for split, examples in documentation.splits.items():
        texts[f"{split}.tsv"] = "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in examples)
    with atomic_folder(output_dir) as folder:
        for name, text in texts.items():
            pathlib.Path(folder, name).write_text(text, encoding="utf-8", newline="\n")
    return documentation


def collect_documentation(*, num_train: int, num_dev: int, num_test: int) -> Documentation:
    """Reads the installed packages and sorts their paragraphs into corpus and labelled splits."""
    modules = read_packages([*LABELS, *OTHER_PACKAGES])
    documented = {module.name.split(".")[0] for module in modules}
    if absent := [label for label in LABELS if label not in documented]:
        raise InputError(
            f"The text is the documentation of {', '.join(LABELS)}, but {sys.executable} does not have that of: "
            f"{', '.join(absent)}. Install it with its source files (.py): {sys.executable} -m pip install "
            f"--force-reinstall {' '.join(absent)}. If python is missing, use a Python with the files of its library."
        )
    splits, held_out = _split(
        _without_near_duplicates({label: _candidates(modules, label) for label in LABELS}),
        {"test": num_test, "dev": num_dev, "train": num_train},
    )
    return Documentation(_corpus(modules, held_out, splits["test"] + splits["dev"]), splits)


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


def _candidates(modules: list[Module], label: str) -> list[tuple[str, str]]:
    """Returns the masked paragraphs of one library with enough words and their modules, the longest first."""
    found = [
        (masked, module.name)
        for module in modules
        if module.name.split(".")[0] == label and not module.name.startswith(_AMBIGUOUS_MODULES)
        for masked in map(mask_names, module.paragraphs)
        if sum(word.strip(".,;:()\"'").isalpha() for word in masked.split()) >= _MIN_LABELLED_WORDS
        and is_prose(masked.replace(_MASK, "it"))
    ]
    return sorted(found, key=lambda item: (-len(item[0]), item))


def _without_near_duplicates(candidates: dict[str, list[tuple[str, str]]]) -> dict[str, list[tuple[str, str]]]:
    """Keeps one of several near-duplicates, and none if they document different libraries."""
    seen = {label: SeenText() for label in candidates}
    once = {
        label: [item for item in paragraphs if seen[label].add(item[0]) <= _MAX_KNOWN_SHARE]
        for label, paragraphs in candidates.items()
    }
    return {
        label: [
            item
            for item in paragraphs
            if all(seen[other].known_share(item[0]) <= _MAX_KNOWN_SHARE for other in seen if other != label)
        ]
        for label, paragraphs in once.items()
    }


def _split(candidates: dict[str, list[tuple[str, str]]], sizes: dict[str, int]) -> tuple[dict, set[str]]:
    """Draws an equal number of paragraphs for every label. All paragraphs of a module go to one split.

    Returns:
        split -> (paragraph, label), in an order that mixes the labels; and the modules of all splits but "train".
    """
    splits, held_out = {split: [] for split in sizes}, set()
    for number, (label, paragraphs) in enumerate(candidates.items()):
        modules = defaultdict(list)
        for text, module in sorted(paragraphs, key=lambda item: _hash(item[0])):
            modules[module].append(text)
        unused = sorted(modules, key=lambda name: (len(modules[name]) <= _MAX_HELD_OUT_PARAGRAPHS, _hash(name)))
        for split, size in sizes.items():
            wanted = size // len(candidates) + (number < size % len(candidates))
            drawn = []
            while unused and len(drawn) < wanted:
                module = unused.pop()
                drawn += modules[module][:_MAX_LABELLED_PER_MODULE]
                held_out.update({module} if split != "train" else ())
            if len(drawn) < wanted:
                raise InputError(
                    f"The documentation of {label} has {len(drawn)} paragraphs for {split}.tsv, but {wanted} are "
                    "needed. Give smaller numbers (--num_train, --num_dev, --num_test)."
                )
            splits[split] += [(text, label) for text in drawn[:wanted]]
    return {split: sorted(rows, key=lambda row: _hash(row[0])) for split, rows in splits.items()}, held_out


def _corpus(modules: list[Module], held_out: set[str], labelled: list[tuple[str, str]]) -> list[list[str]]:
    """Returns the paragraphs of the modules that are not held out, without near-duplicates of held-out ones."""
    # Masked texts are compared: the same words about tf.add and tf.math.add are the same paragraph.
    seen, held_out_texts = SeenText(), TextIndex(text for text, _ in labelled)
    corpus = [
        [
            text
            for text in module.paragraphs
            if seen.add(text) <= _MAX_KNOWN_SHARE
            and held_out_texts.largest_overlap(mask_names(text)) <= _MAX_KNOWN_SHARE
        ]
        for module in modules
        if module.name not in held_out
    ]
    return [document for document in corpus if document]


def _hash(text: str) -> bytes:
    """Returns a sort key that shuffles reproducibly, on any machine and whatever else is sorted."""
    return hashlib.sha256(text.encode("utf-8")).digest()


def main() -> None:
    """Reads the flags and writes the files."""
    arguments = flags.FLAGS
    corpus, splits = write_documentation_corpus(
        arguments.output_dir, num_train=arguments.num_train, num_dev=arguments.num_dev, num_test=arguments.num_test
    )
    num_characters = sum(len(paragraph) for document in corpus for paragraph in document)
    print(f"{arguments.output_dir}/corpus.txt: {num_characters / 1e6:.1f} MB, {len(corpus):,} modules")
    for split, examples in splits.items():
        print(f"{arguments.output_dir}/{split}.tsv: {len(examples):,} paragraphs of {len(LABELS)} libraries")


def command() -> None:
    """Console-script entry."""
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
