import itertools
import pathlib
import subprocess
import sys
import unicodedata

import pytest
import tiny
from generated_texts import every_code_point, generated_texts
from google_tokenizer import google_tokens, google_words

from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer, split_at_white_space, words_of_stretch

has_unicode_14 = pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0", reason="needs the unicodedata of Python 3.11 to compare with"
)
VOCABULARY = tiny.vocabulary("the quick ##est brown fox ran , a ##a", "##\u03c2")


def words(text, do_lower_case=True):
    return [word for stretch in text.split(" ") for word in words_of_stretch(stretch, do_lower_case)]


# The known answers of google-research/bert tokenization_test.py.
@pytest.mark.parametrize(
    ("text", "do_lower_case", "expected"),
    [
        ("ah\u535a\u63a8zz", True, ["ah", "\u535a", "\u63a8", "zz"]),
        (" HeLLo!how   Are yoU?  ", True, ["hello", "!", "how", "are", "you", "?"]),
        (" HeLLo!how   Are yoU?  ", False, ["HeLLo", "!", "how", "Are", "yoU", "?"]),
        ("H\u00e9llo", True, ["hello"]),
    ],
)
def test_words_are_those_of_googles_basic_tokenizer(text, do_lower_case, expected):
    assert words(text, do_lower_case) == expected


def test_pieces_are_those_of_googles_wordpiece_tokenizer():
    pieces = ["want", "##want", "##ed", "wa", "un", "runn", "##ing", ","]
    tokenizer = WordPieceTokenizer(tiny.vocabulary(*pieces))
    assert tokenizer.tokenize("") == []
    assert tokenizer.tokenize("unwanted running") == ["un", "##want", "##ed", "runn", "##ing"]
    assert tokenizer.tokenize("unwantedX running") == ["[UNK]", "runn", "##ing"]
    assert tokenizer.encode("UNwant\u00e9d,running") == [9, 6, 7, 12, 10, 11]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Stra\u00dfe \ufb01", ["stra\u00dfe", "\ufb01"]),
        ("\uff46\uff55\uff4c\uff4c \uffe5100", ["\uff46\uff55\uff4c\uff4c", "\uffe5100"]),
        ("ab\u00adc d\u200be\0f\ufffd", ["abc", "def"]),
        ("\u0391\u03a3 \u03a3\u0391\u03a3. \u03a3 \u0391.\u03a3\u0391", ["ας", "σας", ".", "σ", "α", ".", "σα"]),
        ("\u0130", ["i"]),
        ("\uac01", ["\u1100\u1161\u11a8"]),
        ("[MASK]", ["[", "mask", "]"]),
        ("a\u302e\u1b44 b\u1b44\u302e", ["a\u1b44\u302e", "b\u1b44\u302e"]),
    ],
)
def test_words_where_other_tokenizers_differ(text, expected):
    assert words(text) == expected


def test_a_word_of_more_than_200_characters_is_unknown():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    assert tokenizer.tokenize("a" * 200) == ["a"] + ["##a"] * 199
    assert tokenizer.tokenize("a" * 201) == ["[UNK]"]
    assert tokenizer.tokenize("a\u0301" * 200) == ["a"] + ["##a"] * 199


def test_offsets_point_at_the_source():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    text = " The\u2028quickEST fox\u0301, zebra\n"
    ids, starts, ends = tokenizer.tokenize_with_offsets(text)
    assert [VOCABULARY.tokens[number] for number in ids] == ["the", "quick", "##est", "fox", ",", "[UNK]"]
    sources = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    assert sources == ["The", "quick", "EST", "fox\u0301", ",", "zebra"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\u0301\u200ba", ["a\u0301\u200b", "a"]),  # a removed character belongs to the character before it
        ("\u0301a", ["a"]),  # and at the start to none
        ("the\0 fox", ["the\0", "fox"]),
        ("\u1f04\u03a3", ["\u1f04\u03a3"]),
        ("\u00e1,\u0301a", ["\u00e1", ",\u0301", "a"]),
    ],
)
def test_characters_that_vanish_belong_to_the_one_before(text, expected):
    _, starts, ends = WordPieceTokenizer(VOCABULARY).tokenize_with_offsets(text)
    assert [text[start:end] for start, end in zip(starts, ends, strict=True)] == expected


def test_pieces_of_one_character_share_it():
    tokenizer = WordPieceTokenizer(tiny.vocabulary("\u1100", "##\u1161\u11a8"))
    assert tokenizer.tokenize_with_offsets("\uac01") == ([5, 6], [0, 0], [1, 1])


def test_marks_that_change_places_leave_the_offsets_in_order():
    tokenizer = WordPieceTokenizer(tiny.vocabulary("x\u1b44", "##\u302e"))
    assert tokenizer.tokenize_with_offsets("x\u302e\u1b44") == ([5, 6], [0, 2], [2, 3])


def test_bytes_that_are_no_utf8_are_skipped():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    assert tokenizer.tokenize(b"\xffthe\xe2\x80 f\xc0ox\xed\xa0\x80") == ["the", "fox"]


@has_unicode_14
@pytest.mark.parametrize("do_lower_case", [True, False])
def test_generated_texts_have_the_tokens_of_a_direct_implementation(shared_data, do_lower_case):
    casing = "uncased" if do_lower_case else "multilingual-cased"
    vocabulary = Vocabulary.from_file(shared_data("vocab", f"bert-base-{casing}-vocab.txt"))
    tokenizer = WordPieceTokenizer(vocabulary, do_lower_case)
    for kind, text in itertools.islice(generated_texts(seed=1, tokens=vocabulary.tokens), 3000):
        assert tokenizer.tokenize(text) == google_tokens(text, vocabulary.ids, do_lower_case), (kind, text)


@has_unicode_14
@pytest.mark.parametrize("do_lower_case", [True, False])
def test_code_points_in_context_have_the_words_of_a_direct_implementation(do_lower_case):
    # The scripts and marks, and the edges of the ideographs.
    ranges = [(0, 0x3500), (0x4DB0, 0x4E10), (0xA490, 0xAC10), (0xD790, 0xE010), (0xF8F0, 0x10200), (0x11000, 0x11500)]
    ranges += [(0x1D100, 0x1D200), (0x1E800, 0x1E960), (0x2A6D0, 0x2A710), (0x2B730, 0x2B830), (0xE0000, 0xE0200)]
    for text in itertools.chain.from_iterable(every_code_point(first, last) for first, last in ranges):
        found = [word for part in split_at_white_space(text.decode()) for word in words_of_stretch(part, do_lower_case)]
        assert found == google_words(text, do_lower_case), text


@pytest.mark.slow
@has_unicode_14
def test_the_table_is_what_its_generator_writes():
    generator = pathlib.Path(__file__).with_name("generate_unicode_data.py")
    written = subprocess.run([sys.executable, generator], capture_output=True, text=True, check=True).stdout
    table = pathlib.Path(unicode_table.__file__).with_name("unicode_14.txt")
    assert table.read_text("utf-8") == written


def test_folding_decomposes_hangul_by_arithmetic():
    assert unicode_table.folded_points()[0xAC00] == (0x1100, 0x1161)
    assert unicode_table.folded_points()[0xD7A3] == (0x1112, 0x1175, 0x11C2)
