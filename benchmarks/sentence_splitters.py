"""Compares sentence splitters: hard cases right, characters lost, speed on real text.

Libraries that are not installed are left out.

Command: python -m benchmarks.sentence_splitters [TEXT_FILE]
"""

import re
import sys
import time
from collections.abc import Callable

from data_prep.text.corpus import read_documents

Splitter = Callable[[str], list[str]]

# Language and text, with "|" where a sentence ends and the next begins.
CASES = [
    ("en", "The fox jumped.| The dog slept."),
    ("en", "Dr. Smith met Mrs. Jones at St. Mary's.| They talked."),
    ("en", "The U.S. Senate voted.| The U.K. did not."),
    ("en", "She moved to the U.S.| He stayed in Spain."),
    ("en", "It costs $3.50 per item.| That is 2.5 times as much."),
    ("en", "J. R. R. Tolkien wrote it.| C. S. Lewis read it."),
    ("en", "He arrived at 5 p.m. on Monday.| It was Jan. 5 then."),
    ("en", "He arrived at 5 p.m.| Nobody was there."),
    ("en", "We saw lions, tigers, etc. in the zoo.| It was fun."),
    ("en", "Use a tool, e.g. a hammer, i.e. something hard.| Then stop."),
    ("en", '"Where are you going?" she asked.| He did not answer.'),
    ("en", '"Stop!" he cried.| "You will fall."'),
    ("en", "He said, “It is late.”| Then he left."),
    ("en", "Really?!| Yes!!| Well..."),
    ("en", "I wonder... perhaps not.| Who knows?"),
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
    ("en", "No full stop at the end"),
    ("de", "Das ist z. B. so.| Am 3. Oktober 1990 geschah es."),
    ("de", "Dr. Müller wohnt in der Hauptstr. 5.| Er ist ca. 40 Jahre alt."),
    ("fr", "M. Dupont est arrivé.| Il a dit : « Bonjour ! »"),
    ("es", "¿Dónde está?| ¡Aquí!| El Sr. López no lo sabe."),
    ("zh", "今天天气很好。|我们去公园吧！|你去吗？"),
    ("ja", "今日は晴れです。|明日は雨でしょう。"),
    ("hi", "यह एक वाक्य है।| यह दूसरा है।"),
    ("ru", "Это г. Москва.| Он родился в 1950 г. в Риге."),
    ("ar", "هل أنت هنا؟| نعم، أنا هنا."),
    ("el", "Πού είσαι;| Είμαι εδώ."),
]


def splitters() -> dict[str, Callable[[str], Splitter]]:
    """Returns the name of each installed library -> a function from language to splitter."""
    found = {}
    for name, load in [
        ("sentencex", _sentencex),
        ("pysbd", _pysbd),
        ("blingfire", _blingfire),
        ("syntok", _syntok),
        ("tf.text StateBasedSentenceBreaker", _tf_text),
    ]:
        try:
            found[name] = load()
        except ImportError as error:
            print(f"{name}: not installed ({error})")
    found["regular expression"] = lambda language: lambda text: re.split(r"(?<=[.!?])\s+", text)
    return found


def _sentencex():
    import sentencex

    return lambda language: lambda text: list(sentencex.segment(language, text))


def _pysbd():
    import pysbd

    return lambda language: pysbd.Segmenter(language=language, clean=False).segment


def _blingfire():
    import blingfire

    return lambda language: lambda text: blingfire.text_to_sentences(text).split("\n")


def _syntok():
    import syntok.segmenter

    def split(text):
        paragraphs = syntok.segmenter.process(text)
        return ["".join(token.spacing + token.value for token in words) for part in paragraphs for words in part]

    return lambda language: split


def _tf_text():
    import tensorflow_text

    breaker = tensorflow_text.StateBasedSentenceBreaker()
    return lambda language: lambda text: [item.decode() for item in breaker.break_sentences([text]).to_list()[0]]


def main() -> None:
    """Prints one block a library."""
    documents = read_documents(sys.argv[1]) if len(sys.argv) > 1 else []
    paragraphs = [paragraph for document in documents for paragraph in document]
    for name, load in splitters().items():
        wrong = []
        for language, case in CASES:
            expected = [part.strip() for part in case.split("|")]
            try:
                received = [part.strip() for part in load(language)(case.replace("|", "")) if part.strip()]
            except Exception as error:  # A library that lacks a language.
                received = [f"{type(error).__name__}: {error}"]
            if received != expected:
                wrong.append(f"    {language}: {' | '.join(received)}")
        print(f"{name}: {len(CASES) - len(wrong)} of {len(CASES)} hard cases right; wrong are:", *wrong, sep="\n")
        split = load("en")
        sample = paragraphs if name in ("sentencex", "blingfire", "regular expression") else paragraphs[:2000]
        start = time.perf_counter()
        sentences = [split(paragraph) for paragraph in sample]
        seconds = time.perf_counter() - start
        num_bytes = sum(len(paragraph.encode()) for paragraph in sample)
        lost = sum(
            "".join(paragraph.split()) != "".join("".join(parts).split())
            for paragraph, parts in zip(sample, sentences, strict=True)
        )
        if sample:
            print(
                f"    {num_bytes / 1e6 / seconds:.2f} MB/s; {sum(map(len, sentences))} sentences in {len(sample)} "
                f"paragraphs, {lost} of which changed or lost text"
            )


if __name__ == "__main__":
    main()
