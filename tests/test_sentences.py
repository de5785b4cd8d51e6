import random
import sys

import pytest

from benchmarks.sentence_splitters import CASES
from data_prep.text.corpus import read_documents
from data_prep.text.sentences import split_documents, split_sentences
from keras_bert.program.errors import InputError


def test_sentences_stay_in_their_paragraphs_and_documents():
    documents = [["The fox jumped. It ran", "away. The end."], ["A second document."]]
    expected = [["The fox jumped.", "It ran", "away.", "The end."], ["A second document."]]
    assert list(split_documents(documents)) == expected


@pytest.mark.parametrize(
    ("text", "num_sentences"),
    [
        ("Dr. Smith met Mrs. Jones at St. Mary's. They talked.", 2),
        ("It costs $3.50 per item. That is 2.5 times as much.", 2),
        ("J. R. R. Tolkien wrote it. C. S. Lewis read it.", 2),
        ("Use a tool, e.g. a hammer, i.e. something hard. Then stop.", 2),
        ('"Where are you going?" she asked. He did not answer.', 2),
        ("I wonder... perhaps not. Who knows?", 2),
        ("No full stop at the end", 1),
        ("  ", 0),
    ],
)
def test_abbreviations_decimals_initials_quotes_and_ellipses_end_no_sentence(text, num_sentences):
    assert len(split_sentences(text)) == num_sentences


def test_other_languages_have_their_own_punctuation_and_abbreviations():
    assert len(split_sentences("今天天气很好。我们去公园吧！你去吗？", "zh")) == 3
    assert len(split_sentences("यह एक वाक्य है। यह दूसरा है।", "hi")) == 2
    assert len(split_sentences("Das ist z. B. so. Am 3. Oktober 1990 geschah es.", "de")) == 2


def test_most_hard_cases_are_right():
    """Guards the figure in docs/dependencies.md against a change of the library."""
    right = sum(
        split_sentences(case.replace("|", ""), language) == [part.strip() for part in case.split("|")]
        for language, case in CASES
    )
    assert right >= 37


def without_space(text):
    return "".join(text.split())


def test_no_text_is_lost_whatever_it_is():
    generator = random.Random(0)
    alphabet = "aB1 .!?…。;:\"'()[]«»\u2028\u00a0\u200b\t\ud7ffé汉😀\u0301\r" + "".join(map(chr, range(0x20, 0x7F)))
    for _ in range(3000):
        text = "".join(generator.choices(alphabet, k=generator.randint(0, 60)))
        assert without_space("".join(split_sentences(text))) == without_space(text)


def test_no_text_of_wikipedia_is_lost(shared_data):
    for document in read_documents(str(shared_data("corpus"))):
        (sentences,) = split_documents([document])
        assert without_space("".join(sentences)) == without_space("".join(document))
        assert len(sentences) >= len(document)


def test_a_missing_library_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(InputError, match="pip install 'sentencex"):
        split_sentences("A sentence.")
