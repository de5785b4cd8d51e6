import random
import sys

import pytest

from data_prep.text.corpus import read_documents
from data_prep.text.sentences import split_documents, split_sentences
from keras_bert.program.errors import InputError

# Language and text, with "|" where a sentence ends and the next begins.
CERTAIN = [
    ("en", "Dr. Smith met Mrs. Jones at St. Mary's.| They talked."),
    ("en", "It costs $3.50 per item.| That is 2.5 times as much."),
    ("en", "J. R. R. Tolkien wrote it.| C. S. Lewis read it."),
    ("en", "Use a tool, e.g. a hammer, i.e. something hard.| Then stop."),
    ("en", '"Where are you going?" she asked.| He did not answer.'),
    ("en", "I wonder... perhaps not.| Who knows?"),
    ("en", "No full stop at the end"),
    ("zh", "今天天气很好。|我们去公园吧！|你去吗？"),
    ("hi", "यह एक वाक्य है।| यह दूसरा है।"),
    ("de", "Das ist z. B. so.| Am 3. Oktober 1990 geschah es."),
    ("en", "  "),
]


def test_sentences_stay_in_their_paragraphs_and_documents():
    documents = [["The fox jumped. It ran", "away. The end."], ["A second document."]]
    expected = [["The fox jumped.", "It ran", "away.", "The end."], ["A second document."]]
    assert list(split_documents(documents)) == expected


def parts(case):
    return [part.strip() for part in case.split("|") if part.strip()]


@pytest.mark.parametrize(("language", "case"), CERTAIN)
def test_abbreviations_decimals_initials_quotes_and_ellipses_end_no_sentence(language, case):
    assert split_sentences(case.replace("|", ""), language) == parts(case)


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
