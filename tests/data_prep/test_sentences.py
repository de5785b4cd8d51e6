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
CASES = [
    *CERTAIN,
    ("en", "The fox jumped.| The dog slept."),
    ("en", "The U.S. Senate voted.| The U.K. did not."),
    ("en", "She moved to the U.S.| He stayed in Spain."),
    ("en", "He arrived at 5 p.m. on Monday.| It was Jan. 5 then."),
    ("en", "He arrived at 5 p.m.| Nobody was there."),
    ("en", "We saw lions, tigers, etc. in the zoo.| It was fun."),
    ("en", '"Stop!" he cried.| "You will fall."'),
    ("en", "He said, “It is late.”| Then he left."),
    ("en", "Really?!| Yes!!| Well..."),
    ("en", "He paused…| Then he went on."),
    ("en", "See Fig. 3 and Eq. 2 in Sec. 4.| They agree (cf. Smith et al. 2010)."),
    ("en", "Apple Inc. bought it.| Google Inc. did not."),
    ("en", "It works with Python 3.11.| Python 3.10 is too old."),
    ("en", "Visit www.example.org/a.html for more.| Or write to a.b@example.org."),
    ("en", "(This is in brackets.)| This is not."),
    ("en", "He was born in 1950 (in Rome).| He died in 2000 (aged 50)."),
    ("en", "The population rose by 3.2%.| In No. 5 it fell."),
    ("en", "Gov. Brown and Sen. White agreed with Gen. Black.| Nobody else did."),
    ("en", "The play ended at 10 o'clock.| 'Tis late, he said."),
    ("en", "What is Yahoo!?| It is a company."),
    ("en", "He was no. 1 in the world vs. no. 2 of the U.S. team.| It was close."),
    ("en", "The value of pi is approx. 3.14159.| It is irrational."),
    ("en", "The earthquake struck at 14:28.| It measured 8.0 Ms and 7.9 Mw."),
    ("en", "I was here and so was I.| You were not."),
    ("en", "The 3rd ed. of vol. 2 has pp. 10-20.| It is rare."),
    ("en", "This was proved.[12]| It was later refuted.[13][14]"),
    ("en", "a sentence without a capital.| another one follows it."),
    ("en", "iPhone sales rose.| iPad sales fell."),
    ("de", "Dr. Müller wohnt in der Hauptstr. 5.| Er ist ca. 40 Jahre alt."),
    ("fr", "M. Dupont est arrivé.| Il a dit : « Bonjour ! »"),
    ("es", "¿Dónde está?| ¡Aquí!| El Sr. López no lo sabe."),
    ("ja", "今日は晴れです。|明日は雨でしょう。"),
    ("ru", "Это г. Москва.| Он родился в 1950 г. в Риге."),
    ("ar", "هل أنت هنا؟| نعم، أنا هنا."),
    ("el", "Πού είσαι;| Είμαι εδώ."),
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


def test_most_hard_cases_are_right():
    """Guards the figure in docs/dependencies.md against a change of the library."""
    right = sum(split_sentences(case.replace("|", ""), language) == parts(case) for language, case in CASES)
    assert right >= 38


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
