"""Models with different vocabularies are scored on the same masked words."""

import re

import numpy as np
import pytest
import tiny
from scripted_masked_lm import ScriptedMaskedLM
from tiny_families import byte_pairs, sentence_pieces

from keras_bert.tasks.masked_lm.masked_words import WordsInRow, choose_words, guessed_words
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

PIECES = [*tiny.SPECIAL_TOKENS, "the", "nano", "##tube", "##s", "hold", "gas", "e", "##pe", "##e", ",", "."]
OLD = WordPieceTokenizer(Vocabulary(PIECES))
NEW = WordPieceTokenizer(Vocabulary([*PIECES, "nanotubes"]))
TEXTS = ["The nanotubes hold gas, the nanotube holds épée.", "Unspellable, the gas.", "", "..."] * 5


def chosen_words(tokenizer, rows):
    return [[tokenizer.decode(row.ids[first:last]).replace("##", "") for first, last in row.words] for row in rows]


def test_both_vocabularies_get_the_same_words_of_the_same_text():
    old, new = choose_words(TEXTS, [OLD, NEW], max_seq_length=12, share=0.5)
    assert chosen_words(OLD, old) == chosen_words(NEW, new)
    assert [OLD.decode(row.ids) for row in old] == [NEW.decode(row.ids) for row in new]
    assert {len(row.ids) <= 12 for row in (*old, *new)} == {True}
    words = [word for row in chosen_words(OLD, old) for word in row]
    assert (
        {"nanotubes", "gas", "epee"} <= set(words) <= {"the", "nanotubes", "hold", "gas", "nanotube", "holds", "epee"}
    )
    lengths = [[last - first for first, last in row.words] for row in old]
    assert lengths != [[last - first for first, last in row.words] for row in new]


def test_every_word_of_the_text_can_be_chosen_and_no_token_is_lost():
    (rows,) = choose_words(TEXTS[:1], [OLD], max_seq_length=12, share=1.0)
    assert sum(chosen_words(OLD, rows), []) == ["the", "nanotubes", "hold", "gas", "the", "nanotube", "holds", "epee"]
    ids = [number for row in rows for number in row.ids[1:-1].tolist()]
    assert ids == OLD.encode(TEXTS[0])


def test_a_word_that_is_longer_than_a_row_is_left_out():
    (rows,) = choose_words(["gas nanotubes gas"], [OLD], max_seq_length=4, share=1.0)
    assert chosen_words(OLD, rows) == [["gas"], ["gas"]]


def test_the_seed_decides_and_the_number_of_words_is_bounded():
    def choose(**options):
        (rows,) = choose_words(TEXTS * 10, [OLD], max_seq_length=12, share=0.3, **options)
        return chosen_words(OLD, rows)

    assert choose(seed=1) == choose(seed=1) != choose(seed=2)
    assert 7 <= sum(map(len, choose(max_words=7))) <= 10
    assert choose(max_words=7) == choose()[: len(choose(max_words=7))]


@pytest.mark.parametrize("make", [byte_pairs, sentence_pieces])
def test_other_tokenizers_have_whole_words_too(make):
    tokenizer = make()
    (rows,) = choose_words(["the fox, the dog", "the fox"], [tokenizer], max_seq_length=16, share=1.0)
    words = [[tokenizer.decode(row.ids[first:last]).strip() for first, last in row.words] for row in rows]
    assert words == [["the", "fox", "the", "dog"], ["the", "fox"]]


class JoiningTokenizer:
    """Has tokens that reach over two words, as some pieces of SentencePiece and `'s` of byte-level BPE do."""

    vocabulary = tiny.vocabulary("the fox, dog 's gas")

    def tokenize_with_offsets(self, text):
        found = list(re.finditer(r"\w+,|'s|\w+", text))
        return [self.vocabulary.ids[one.group()] for one in found], *zip(*(one.span() for one in found), strict=True)


def test_a_word_that_shares_a_token_is_not_chosen():
    tokenizer = JoiningTokenizer()
    (rows,) = choose_words(["the fox, the dog's gas"], [tokenizer], max_seq_length=16, share=1.0)
    (row,) = rows
    words = [[tokenizer.vocabulary.tokens[number] for number in row.ids[first:last]] for first, last in row.words]
    assert words == [["the"], ["the"], ["dog"], ["gas"]]


def test_a_word_is_right_if_all_of_its_pieces_are_guessed():
    seen = []

    def say(tokens, place):
        seen.append(tokens)
        return {{1: "nano", 2: "##tube", 3: "##s", 4: "gas", 5: "hold"}[place]: 0.9}

    model = ScriptedMaskedLM(PIECES[5:], say)
    ids = model.vocabulary.ids

    def row(*tokens, words):
        return WordsInRow(np.array([ids[token] for token in ("[CLS]", *tokens, "[SEP]")], np.int32), words)

    rows = [
        row("nano", "##tube", "##s", "gas", "the", words=[(1, 4), (4, 5), (5, 6)]),
        row("nano", "##tube", "##e", "gas", words=[(1, 4)]),
    ]
    is_right, losses = guessed_words(model, rows)
    assert is_right.tolist() == [True, True, False, False]
    assert (losses[:2] < losses[2:].min()).all()
    assert ["[CLS]", *["[MASK]"] * 5, "[SEP]"] in seen
    assert ["[CLS]", *["[MASK]"] * 3, "gas", "[SEP]"] in seen
    assert rows[0].ids[1] == ids["nano"], "the rows are not changed"
