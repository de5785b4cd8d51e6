import pytest

from keras_bert.tokenization.text_words import words_of_text
from keras_bert.tokenization.wordpiece import word_spans


def words(text):
    return [text[start:end] for start, end in words_of_text(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("J. Smith paid $10,000 in the U.S.", ["J.", "Smith", "paid", "$", "10,000", "in", "the", "U.S."]),
        ("London's mayor; they\u2019re (AP)", ["London", "'s", "mayor", ";", "they", "\u2019re", "(", "AP", ")"]),
        ("AT&T... 12:30, wait!!!", ["AT&T", "...", "12:30", ",", "wait", "!!!"]),
        ("Anglo-Swiss x@y.org A/S 3.5%", ["Anglo-Swiss", "x@y.org", "A/S", "3.5", "%"]),
        ("東京 is big", ["東", "京", "is", "big"]),
        ("end. Start,then", ["end", ".", "Start", ",", "then"]),
        ("", []),
        (" \u200b\n", []),
    ],
)
def test_words_are_those_of_the_usual_corpora(text, expected):
    assert words(text) == expected


def test_letters_keep_their_accents_and_every_character_but_white_space_has_its_word():
    text = "Zoe\u0308 caf\u00e9\u00a0bar \u2014 \u00bfqu\u00e9? na\u200dive"
    assert words(text) == ["Zoe\u0308", "caf\u00e9", "bar", "\u2014", "\u00bf", "qu\u00e9", "?", "na\u200dive"]
    spans = words_of_text(text)
    assert all(first[1] <= second[0] for first, second in zip(spans, spans[1:], strict=False))


def test_the_basic_words_are_parted_at_punctuation():
    text = "U.S., \u5b57\u5b57"
    assert [text[start:end] for start, end in word_spans(text)] == ["U", ".", "S", ".", ",", "\u5b57", "\u5b57"]


def test_most_entities_of_wnut_are_found_in_plain_text(shared_data):
    """Words of the annotators, joined by blanks, are found again: 97 of 100 words of entities."""
    from data_prep.finetuning.conll import read_tagged_sentences

    sentences = read_tagged_sentences(shared_data("wnut17/wnut17train.conll"))
    num_words = num_kept = 0
    for its_words, tags in zip(sentences.words, sentences.tags, strict=True):
        text, position = " ".join(its_words), 0
        found = set(words_of_text(text))
        for word, tag in zip(its_words, tags, strict=True):
            if tag != "O":
                num_words += 1
                num_kept += (position, position + len(word)) in found
            position += len(word) + 1
    assert num_kept / num_words > 0.97
