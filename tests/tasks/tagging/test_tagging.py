"""Words with tags -> rows of pieces, and rows -> tags."""

import re

import numpy as np
import pytest
import tiny

from keras_bert import GraphTokenizer, InputError
from keras_bert.tasks.tagging.examples import TaggedSentences, in_one_scheme, in_scheme, labels_of, tag_ids
from keras_bert.tasks.tagging.rows import tagged_rows
from keras_bert.tasks.tagging.tag_schemes import BIOES

VOCABULARY = tiny.vocabulary("what a great week ##end")
TOKENIZER = GraphTokenizer(VOCABULARY)


def tokens_of(batch):
    return [
        " ".join(VOCABULARY.tokens[number] for number in row[: mask.sum()])
        for row, mask in zip(batch["input_ids"], batch["input_mask"], strict=True)
    ]


def test_a_tag_stands_at_the_first_piece_of_its_word():
    rows, counts = tagged_rows([["What", "weekend"]], [[7, 9]], TOKENIZER, 7)
    batch = rows.padded(7)
    assert tokens_of(batch) == ["[CLS] what week ##end [SEP]"]
    assert batch["label_ids"].tolist() == [[-1, 7, 9, -1, -1, -1, -1]]
    assert batch["segment_ids"].tolist() == [[0] * 7]
    assert not sum(counts.values())


def test_a_long_sentence_is_parted_between_words_as_model_garden_does():
    words = [["What", "a", "great", "weekend"], ["a"]]
    rows, counts = tagged_rows(words, [[7, 5, 9, 10], [3]], TOKENIZER, 5, first_sentence_id=20)
    batch = rows.padded(5)
    assert tokens_of(batch) == ["[CLS] what a great [SEP]", "[CLS] week ##end [SEP]", "[CLS] a [SEP]"]
    assert batch["label_ids"].tolist() == [[-1, 7, 5, 9, -1], [-1, 10, -1, -1, -1], [-1, 3, -1, -1, -1]]
    assert batch["sentence_id"].tolist() == [[20], [20], [21]]
    assert batch["sub_sentence_id"].tolist() == [[0], [1], [0]]
    assert counts["cut_sentences"] == 1


def test_a_word_without_pieces_or_with_too_many_becomes_one_unknown():
    rows, counts = tagged_rows([["\u200d", "weekend", "a"]], [[1, 2, 3]], TOKENIZER, 3)
    batch = rows.padded(3)
    assert tokens_of(batch) == ["[CLS] [UNK] [SEP]", "[CLS] [UNK] [SEP]", "[CLS] a [SEP]"]
    assert batch["label_ids"].tolist() == [[-1, 1, -1], [-1, 2, -1], [-1, 3, -1]]
    assert counts["unknown_words"] == 2


@pytest.mark.parametrize(
    ("tags", "fixed", "scheme", "note"),
    [
        (["I-PER I-PER B-PER O"], ["B-PER I-PER B-PER O"], "BIO", "are IOB1 and were converted to BIO"),
        (["B-PER I-LOC", "B-PER O", "O I-PER"], ["B-PER B-LOC", "B-PER O", "O B-PER"], "BIO", "2 .* not .* 1, line 3"),
        (["PER-B PER-I O"], ["B-PER I-PER O"], "BIO", "the usual spelling: PER-B as B-PER, PER-I as I-PER"),
        (["PER PER O"], ["B-PER I-PER O"], "BIO", "the tags are IOB1 and were converted to BIO"),
        (["O O Drug"], ["O O Drug"], None, "have no B- and I- .Drug, ....*, so each word counts by itself"),
    ],
)
def test_tags_are_put_right_and_it_is_said(tags, fixed, scheme, note):
    tags = [row.split() for row in tags]
    places = [f"line {number}" for number, _ in enumerate(tags, 1)]
    found, found_scheme, notes = in_one_scheme(
        TaggedSentences([["a"] * len(row) for row in tags], tags, locations=places)
    )
    assert [" ".join(row) for row in found.tags] == fixed
    assert (found_scheme and found_scheme.name) == scheme
    assert re.search(note, notes[-1])


def swapped(sentences: TaggedSentences) -> TaggedSentences:
    return TaggedSentences(sentences.tags, sentences.words, source="a.conll")


def test_words_and_entity_tags_in_each_others_columns_are_refused():
    sentences = TaggedSentences([["in", "London", "E-mail"]], [["O", "B-LOC", "O"]])
    assert in_one_scheme(sentences)[2] == []
    with pytest.raises(InputError, match=r"a.conll: the words are tags \(O, .* are the columns swapped\?"):
        in_one_scheme(swapped(sentences))
    with pytest.raises(InputError, match=r"the words are tags \(O, \.\.\.\) and the tags are not \(w0, w1, w2"):
        in_one_scheme(TaggedSentences([["O"] * 60], [[f"w{number}" for number in range(60)]]))


def test_words_that_are_probably_other_tags_are_pointed_out():
    # 600 words of 200 kinds, each with one of 12 parts of speech.
    draw = np.random.default_rng(0)
    words = [[f"w{number}" for number in draw.integers(0, 200, 20)] for _ in range(30)]
    tags = [[f"T{int(word[1:]) % 12}" for word in sentence] for sentence in words]
    sentences = TaggedSentences(words, tags)
    assert in_one_scheme(sentences)[2] == []
    [note] = in_one_scheme(swapped(sentences))[2]
    assert "different tags (w" in note
    assert "only 12 different words (T" in note
    assert "are the columns swapped?" in note


@pytest.mark.parametrize(
    "tag_of",
    [
        lambda word, draw: f"{word}.{draw.choice([1, 1, 1, 2, 3])}",  # senses: more tags than words
        lambda word, draw: word.upper(),  # lemmas
        lambda word, draw: str(draw.integers(100)),  # nothing to learn
        lambda word, draw: f"B{int(word[1:]) % 3}",
    ],
)
def test_odd_tags_are_left_in_peace(tag_of):
    draw = np.random.default_rng(0)
    words = [[f"w{number}" for number in draw.integers(0, 60, 20)] for _ in range(30)]
    sentences = TaggedSentences(words, [[tag_of(word, draw) for word in sentence] for sentence in words])
    assert in_one_scheme(sentences) == (sentences, None, [])


UNKNOWN = TaggedSentences([["a"], ["b"]], [["O"], ["B-X"]], source="dev.conll", locations=["line 1", "line 3"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TaggedSentences([]), "there is no sentence"),
        (lambda: TaggedSentences([["a"], []]), "sentence 2 has no words, or an empty one"),
        (lambda: TaggedSentences([["a", " "]]), "sentence 1 has no words, or an empty one"),
        (lambda: TaggedSentences([["a", "b"]], [["O"]]), "sentence 1 has 2 words but 1 tags"),
        (lambda: TaggedSentences([["a"]], [["O"], ["O"]]), "1 sentences but tags of 2"),
        (lambda: TaggedSentences([["a"]], weights=[1.0, 2.0]), "weight"),
        (lambda: TaggedSentences([["a"]], weights=[-1.0]), "weight"),
        (lambda: TaggedSentences([["a"]], weights=[float("nan")]), "weight"),
        (lambda: tag_ids(UNKNOWN, ["O"]), "dev.conll: the tag 'B-X' in the sentence at line 3 does not occur"),
        (lambda: labels_of(TaggedSentences([["a"]], [["O"]], source="x.conll")), "x.conll: .* two different tags"),
        (lambda: labels_of(TaggedSentences([["a"]], source="x.conll")), "x.conll: .* two different tags"),
    ],
)
def test_sentences_that_do_not_fit_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_labels_are_all_tags_of_the_scheme():
    def labels(*tags):
        return labels_of(TaggedSentences([["a"] * len(tags)], [tags]))

    assert labels("O", "B-PER") == ["O", "B-PER", "I-PER"]
    assert labels("I-PER", "I-LOC") == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert labels("S-a-b", "O") == ["O", "B-a-b", "E-a-b", "I-a-b", "S-a-b"]
    assert labels("VERB", "NOUN") == ["NOUN", "VERB"]
    assert labels("B", "O") == ["O", "B-ENTITY", "I-ENTITY"]


def test_entities_are_written_in_the_scheme_of_the_model():
    iob1 = TaggedSentences([["a", "b", "c"]], [["I-PER", "I-PER", "O"]])
    assert in_scheme(iob1, BIOES).tags == [["B-PER", "E-PER", "O"]]
    assert in_scheme(iob1, None) is iob1
    others = TaggedSentences([["a"]], [["NOUN"]])
    assert in_scheme(others, BIOES) is others
