import os
import random

import pytest

from data_prep.text.corpus import read_documents
from keras_bert.program.errors import InputError
from run_scripts import documentation_corpus
from run_scripts.documentation_corpus import (
    LABELS,
    Module,
    collect_documentation,
    known_share,
    mask_names,
    word_groups,
    write_documentation_corpus,
)

SIZES = {"num_train": 24, "num_test": 12}
NOUNS = [
    f"{first}{second}" for first in ("fox", "dog", "cat", "hen", "owl", "elk", "bee") for second in ("er", "let", "y")
]


def sentence(generator, num_words=30):
    words = [
        generator.choice(NOUNS) if number % 2 else generator.choice(["the", "of", "is", "to"])
        for number in range(num_words)
    ]
    return f"The {' '.join(words)}."


def modules_of(label, num_modules=30):
    generator = random.Random(label)
    return [Module(f"{label}.m{number}", [sentence(generator) for _ in range(3)]) for number in range(num_modules)]


@pytest.fixture
def installed(monkeypatch):
    """Thirty modules of three paragraphs for every label; a test may add more."""
    modules = [module for label in LABELS for module in modules_of(label)]
    monkeypatch.setattr(documentation_corpus, "read_packages", lambda packages: modules)
    return modules


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Like np.dot(), but takes a Keras KerasTensor.", "Like @, but takes a @."),
        ("TensorFlow's ops (see tf.math) and NumPy ndarrays.", "@ ops (see @) and @."),
        ("Set max_length, __init__ or numpy.lib.stride.", "Set @ or @."),
        ("The method(s) of e.g. 3.14 stay, i.e. prose.", "The method(s) of e.g. 3.14 stay, i.e. prose."),
        ("In Python, a CPython detail of PEP 8.", "In @, a @ detail of @ 8."),
    ],
)
def test_names_of_libraries_and_code_are_masked(text, masked):
    assert mask_names(text) == masked


def test_splits_are_balanced_and_the_same_every_time(installed):
    documentation = collect_documentation(**SIZES)
    for split, size in [("train", 24), ("test", 12)]:
        labels = [label for _, label in documentation.splits[split]]
        assert {label: labels.count(label) for label in LABELS} == dict.fromkeys(LABELS, size // 4)
    assert collect_documentation(**SIZES) == documentation


def test_modules_of_the_test_are_in_neither_training_data_nor_corpus(installed):
    module_of = {paragraph: module.name for module in installed for paragraph in module.paragraphs}
    documentation = collect_documentation(**SIZES)
    modules = {split: {module_of[text] for text, _ in rows} for split, rows in documentation.splits.items()}
    in_corpus = {module_of[text] for document in documentation.corpus for text in document}
    assert not modules["test"] & (modules["train"] | in_corpus)
    assert modules["train"] <= in_corpus


def test_near_duplicates_of_the_test_are_in_neither_training_data_nor_corpus(installed):
    in_test = collect_documentation(**SIZES).splits["test"][0][0]
    copy, kept = f"{in_test[:-1]} too.", "This is the text that should be kept in it."
    # A package without a label is never held out, and this module of NumPy is not either.
    installed.extend([Module("another.package", [copy, kept]), Module("numpy.copy", [copy])])
    documentation = collect_documentation(**SIZES)
    assert in_test in [text for text, _ in documentation.splits["test"]]
    assert [kept] in documentation.corpus
    labelled = [text for text, _ in documentation.splits["train"]]
    assert not [text for text in [*labelled, *sum(documentation.corpus, [])] if in_test[:-1] in text]


def test_too_few_paragraphs_are_refused_with_their_number(installed):
    with pytest.raises(InputError, match=r"keras has \d+ paragraphs for train.tsv, but 250 are needed"):
        collect_documentation(num_train=1000, num_test=12)
    installed[:] = [module for module in installed if not module.name.startswith("numpy")]
    with pytest.raises(
        InputError, match=r"numpy has 0 paragraphs for test.tsv, but 3 .* install numpy with its source"
    ):
        collect_documentation(**SIZES)


def test_the_files_read_back_as_they_were(installed, tmp_path):
    documentation = write_documentation_corpus(tmp_path / "out", **SIZES)
    assert sorted(os.listdir(tmp_path / "out")) == ["corpus.txt", "test.tsv", "train.tsv"]
    assert list(read_documents(str(tmp_path / "out/corpus.txt"))) == documentation.corpus
    lines = (tmp_path / "out/test.tsv").read_text("utf-8").splitlines()
    assert [tuple(line.split("\t")) for line in lines[1:]] == documentation.splits["test"]
    with pytest.raises(InputError, match="is not empty"):
        write_documentation_corpus(tmp_path / "out", **SIZES)


SENTENCE = "The quick brown fox jumps over the lazy dog."


@pytest.mark.parametrize(
    ("text", "known", "share"),
    [
        ("the quick, brown fox (2) jumps over the 'lazy' DOG", [SENTENCE], 1.0),
        (SENTENCE, ["the quick brown fox jumps", "brown fox jumps over the lazy dog"], 1.0),
        ("A dog that is lazy lies under a brown fox.", [SENTENCE], 0.0),
        ("The quick brown fox jumps away", [SENTENCE], 2 / 3),
        ("A fox", ["fox"], 1.0),
    ],
)
def test_the_known_share_of_a_text_is_that_of_its_groups_of_words(text, known, share):
    assert known_share(text, set().union(*map(word_groups, known))) == share
