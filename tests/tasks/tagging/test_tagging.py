"""Words with tags -> rows of pieces, and rows -> tags."""

import numpy as np
import pytest
import tiny

from data_prep.finetuning.conll import read_tagged_sentences
from keras_bert.program.errors import InputError
from keras_bert.tasks.tagging.examples import TaggedSentences, in_one_scheme, in_scheme, labels_of, tag_ids
from keras_bert.tasks.tagging.rows import tagged_rows
from keras_bert.tasks.tagging.tag_schemes import BIOES, tag_order
from keras_bert.tokenization.graph_wordpiece import GraphTokenizer
from keras_bert.tokenization.vocabulary import Vocabulary

VOCABULARY = tiny.vocabulary("what a great week ##end")
TOKENIZER = GraphTokenizer(VOCABULARY)


def tokens_of(batch):
    return [
        " ".join(VOCABULARY.tokens[number] for number in row[: mask.sum()])
        for row, mask in zip(batch["input_ids"], batch["input_mask"], strict=True)
    ]


def tags_of_sentences(batch):
    """Reads the labels of all words from the rows, sentence by sentence, independently of the code under test."""
    found = {}
    for sentence, labels in zip(batch["sentence_id"][:, 0].tolist(), batch["label_ids"], strict=True):
        found.setdefault(sentence, []).extend(labels[labels >= 0].tolist())
    return found


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
    assert tags_of_sentences(batch) == {0: [1, 2, 3]}
    assert counts["unknown_words"] == 2


def test_without_tags_the_first_pieces_are_marked():
    rows, _ = tagged_rows([["a", "weekend"]], None, TOKENIZER, 6)
    batch = rows.padded(6)
    assert batch["label_ids"].tolist() == [[-1, 0, 0, -1, -1, -1]]


@pytest.mark.parametrize("max_seq_length", [128, 24])
def test_the_tags_of_wnut_survive_exactly(shared_data, max_seq_length):
    path = shared_data("wnut17/emerging.dev.conll")
    sentences, scheme, notes = in_one_scheme(read_tagged_sentences(path))
    assert (scheme.name, notes) == ("BIO", [])
    labels = tag_order(sentences.all_tags)
    tokenizer = GraphTokenizer(Vocabulary.from_file(shared_data("vocab/bert-base-uncased-vocab.txt")))
    rows, counts = tagged_rows(sentences.words, tag_ids(sentences, labels), tokenizer, max_seq_length)
    batch = rows.padded(max_seq_length)
    found = [labels[number] for tags in tags_of_sentences(batch).values() for number in tags]
    in_file = [line.split("\t")[1] for line in path.read_text("utf-8").split("\n") if line.strip()]
    assert found == in_file
    assert len(tags_of_sentences(batch)) == 1009
    assert (counts["cut_sentences"] > 0) == (max_seq_length == 24)
    assert (batch["input_mask"].sum(axis=1) <= max_seq_length).all()
    assert np.array_equal(np.unique(batch["label_ids"]), np.arange(-1, len(labels)))


def test_iob1_becomes_bio():
    iob1 = TaggedSentences([["a", "b", "c", "d"]], [["I-PER", "I-PER", "B-PER", "O"]])
    fixed, scheme, notes = in_one_scheme(iob1)
    assert fixed.tags == [["B-PER", "I-PER", "B-PER", "O"]]
    assert (scheme.name, notes) == ("BIO", ["the tags are IOB1 and were converted to BIO"])


def test_illegal_tags_are_put_right_and_counted():
    tags = [["B-PER", "I-LOC"], ["B-PER", "O"], ["O", "I-PER"]]
    fixed, _, (note,) = in_one_scheme(TaggedSentences([["a", "b"]] * 3, tags, locations=["line 1", "line 4", "line 7"]))
    assert fixed.tags == [["B-PER", "B-LOC"], ["B-PER", "O"], ["O", "B-PER"]]
    assert "2 sentences have tags that BIO does not allow" in note
    assert note.endswith("They begin at line 1, line 7")


def test_tags_that_mark_no_entities_stay_as_they_are():
    sentences = TaggedSentences([["a"]], [["NOUN"]])
    assert in_one_scheme(sentences) == (sentences, None, [])


def swapped(sentences: TaggedSentences) -> TaggedSentences:
    return TaggedSentences(sentences.tags, sentences.words, source="a.conll")


def assert_refused_if_swapped(sentences):
    assert in_one_scheme(sentences)[2] == []
    with pytest.raises(
        InputError, match=r"a.conll: the words are tags \(O, .* are the columns swapped\? In files, --t"
    ):
        in_one_scheme(swapped(sentences))


def test_words_and_entity_tags_in_each_others_columns_are_refused():
    assert_refused_if_swapped(TaggedSentences([["in", "London", "E-mail"]], [["O", "B-LOC", "O"]]))
    with pytest.raises(InputError, match=r"the words are tags \(O, \.\.\.\) and the tags are not \(w0, w1, w2"):
        in_one_scheme(TaggedSentences([["O"] * 60], [[f"w{number}" for number in range(60)]]))


def test_swapped_columns_of_wnut_are_refused(shared_data):
    assert_refused_if_swapped(read_tagged_sentences(shared_data("wnut17", "emerging.dev.conll")))


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


def test_an_unknown_tag_is_refused_with_its_place():
    sentences = TaggedSentences([["a"], ["b"]], [["O"], ["B-X"]], source="dev.conll", locations=["line 1", "line 3"])
    with pytest.raises(InputError, match="dev.conll: the tag 'B-X' in the sentence at line 3 does not occur in train"):
        tag_ids(sentences, ["O"])


@pytest.mark.parametrize(
    ("words", "tags", "message"),
    [
        ([], None, "there is no sentence"),
        ([["a"], []], None, "sentence 2 has no words, or an empty one"),
        ([["a", " "]], None, "sentence 1 has no words, or an empty one"),
        ([["a", "b"]], [["O"]], "sentence 1 has 2 words but 1 tags"),
        ([["a"]], [["O"], ["O"]], "1 sentences but tags of 2"),
    ],
)
def test_sentences_that_do_not_fit_are_refused(words, tags, message):
    with pytest.raises(InputError, match=message):
        TaggedSentences(words, tags)


def test_labels_are_all_tags_of_the_scheme():
    def labels(*tags):
        return labels_of(TaggedSentences([["a"] * len(tags)], [tags]))

    assert labels("O", "B-PER") == ["O", "B-PER", "I-PER"]
    assert labels("I-PER", "I-LOC") == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert labels("S-a-b", "O") == ["O", "B-a-b", "E-a-b", "I-a-b", "S-a-b"]
    assert labels("VERB", "NOUN") == ["NOUN", "VERB"]
    for tags in ([["O", "O"]], None):
        with pytest.raises(InputError, match="x.conll: a tagger needs words with two different tags or more"):
            labels_of(TaggedSentences([["a", "b"]], tags, source="x.conll"))


def test_entities_are_written_in_the_scheme_of_the_model():
    iob1 = TaggedSentences([["a", "b", "c"]], [["I-PER", "I-PER", "O"]])
    assert in_scheme(iob1, BIOES).tags == [["B-PER", "E-PER", "O"]]
    assert in_scheme(iob1, None) is iob1
    others = TaggedSentences([["a"]], [["NOUN"]])
    assert in_scheme(others, BIOES) is others


@pytest.mark.parametrize("weights", [[1.0, 2.0], [-1.0], [float("nan")]])
def test_weights_that_do_not_fit_are_refused(weights):
    with pytest.raises(InputError, match="weight"):
        TaggedSentences([["a"]], weights=weights)


def test_tags_in_another_spelling_are_converted_with_a_note():
    found, scheme, notes = in_one_scheme(TaggedSentences([["a", "b", "c"]], [["PER-B", "PER-I", "O"]]))
    assert (found.tags, scheme.name) == ([["B-PER", "I-PER", "O"]], "BIO")
    assert notes == ["the tags were read in the usual spelling: PER-B as B-PER, PER-I as I-PER"]
    found, _, notes = in_one_scheme(TaggedSentences([["a", "b", "c"]], [["PER", "PER", "O"]]))
    assert found.tags == [["B-PER", "I-PER", "O"]]
    assert notes[-1] == "the tags are IOB1 and were converted to BIO"
    _, scheme, [note] = in_one_scheme(TaggedSentences([["a", "b", "c"]], [["O", "O", "Drug"]]))
    assert scheme is None
    assert note.startswith("the tags have no B- and I- (Drug, ...), so each word counts by itself")
    assert labels_of(TaggedSentences([["a", "b"]], [["B", "O"]])) == ["O", "B-ENTITY", "I-ENTITY"]
