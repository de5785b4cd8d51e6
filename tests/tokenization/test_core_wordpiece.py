"""WordPiece by core TensorFlow operations has the ids and byte offsets of the tokenizer in Python."""

import itertools

import pytest
import tensorflow as tf
from generated_texts import SIGMA, every_code_point, generated_texts
from tokenizer_comparison import differences, expected_in_bytes

from keras_bert.program.errors import InputError
from keras_bert.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

TOKENS = [*SPECIAL_TOKENS, "the", "quick", "##est", "fox", ",", "#", "a", "##a", "##ab", "##abcd", "##c", "ας", "字"]


def pair_of(tokens, do_lower_case=True):
    python = WordPieceTokenizer(Vocabulary(tokens), do_lower_case)
    return python.graph(core_operations=True), python


@pytest.fixture(scope="module")
def small():
    return pair_of(TOKENS)


@pytest.fixture(scope="module")
def tokenizers(shared_data):
    """A pair of graph and Python tokenizer, by vocabulary."""
    pairs = {}

    def make(name):
        if name not in pairs:
            vocabulary = Vocabulary.from_file(shared_data("vocab", f"bert-base-{name}-vocab.txt"))
            python = WordPieceTokenizer(vocabulary, name in ("uncased", "chinese"))
            pairs[name] = python.graph(core_operations=True), python
        return pairs[name]

    return make


def test_ids_and_byte_offsets_of_a_sentence(small):
    text = "The quickest fóx\u0301, 字 ###"
    ids, starts, ends = small[0].tokenize_with_offsets([text])
    assert [TOKENS[number] for number in ids[0]] == ["the", "quick", "##est", "fox", ",", "字", "#", "#", "#"]
    spans = zip(starts[0].numpy(), ends[0].numpy(), strict=True)
    sources = [text.encode()[start:end].decode() for start, end in spans]
    assert sources == ["The", "quick", "est", "fóx\u0301", ",", "字", "#", "#", "#"]
    assert {ids.dtype, starts.dtype, ends.dtype} == {tf.int32}


@pytest.mark.parametrize("texts", [[], [""], ["", " \u200b\t", b"\xff\xfe"], ["the", "", "fox"], ["  the   fox "]])
def test_empty_batches_empty_texts_and_runs_of_spaces_work(small, texts):
    assert differences(*small, tf.constant(texts, tf.string, [len(texts)]).numpy().tolist()) == []


def test_the_longest_piece_is_taken_even_if_the_rest_is_then_unknown(small):
    words = "aab aaab aabab aac aacb aabcc aabcdc quickes quickestx aaaaaaaaaab b abab"
    texts = [text for word in words.split() for text in (word, f"the {word},{word} the")]
    assert differences(*small, [text.encode() for text in texts]) == []


def test_a_part_that_occurs_often_keeps_its_places(small):
    texts = [b"the fox the The The, aab the", b"The, aab  fox", "字a the".encode(), b"\xffThe, \xc3 aab"]
    assert differences(*small, texts) == []


def test_the_limit_of_200_characters_counts_characters_not_bytes():
    graph, python = pair_of([*TOKENS, "ж", "##ж", "\u1100", "##\u1161", "b" * 201, "c" * 200])
    texts = [(letter * length).encode() for letter in "aжbc\uac00á" for length in (1, 99, 100, 199, 200, 201)]
    assert differences(graph, python, texts) == []


def test_tokens_that_can_never_match_do_no_harm():
    graph, python = pair_of([*TOKENS, "the fox", "fox\u200b", "##,a", "a,a", "##", "####", "\U0010ffff", "É", "The"])
    texts = [b"the fox", b"the  fox,a", "fox\u200b fox".encode(), b"a##,a", b"## ####", "\U0010ffff É".encode(), b"The"]
    assert differences(graph, python, texts) == []


def test_any_token_is_accepted_whatever_its_length():
    python = WordPieceTokenizer(Vocabulary([*TOKENS, "字x" * 75, "\u0378", "##\U00100000"]))
    graph = python.graph(core_operations=True)
    assert differences(graph, python, [("字x" * 75).encode(), "\u0378\U00100000 \u0379".encode()]) == []


def test_marks_and_final_sigmas_follow_the_exact_path():
    graph, python = pair_of([*TOKENS, "a\u302e", "\u1b44a", "a\u1b44\u302e"])
    texts = [f"A{SIGMA} A{SIGMA}a", "a\u302e \u1b44a", "a\u302e\u1b44 a", f"a{SIGMA}\u00a0{SIGMA}"]
    assert differences(graph, python, [text.encode() for text in texts]) == []


@pytest.mark.parametrize("name", ["uncased", pytest.param("cased", marks=pytest.mark.slow)])
def test_generated_texts_are_tokenized_as_in_python(tokenizers, name):
    graph, python = tokenizers(name)
    generated = generated_texts(seed=11, tokens=python.vocabulary.tokens)
    assert differences(graph, python, [text for _, text in itertools.islice(generated, 1000)]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uncased", "cased", "multilingual-cased", "chinese"])
def test_many_generated_texts_and_code_points_are_tokenized_as_in_python(tokenizers, name):
    graph, python = tokenizers(name)
    generated = generated_texts(seed=12, tokens=python.vocabulary.tokens)
    assert differences(graph, python, [text for _, text in itertools.islice(generated, 10000)]) == []
    points = itertools.chain(every_code_point(0, 0x600), itertools.islice(every_code_point(0x600, 0x20000), 0, None, 7))
    assert differences(graph, python, list(points)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uncased", "cased", "multilingual-cased", "chinese"])
def test_wikipedia_is_tokenized_as_in_python(tokenizers, shared_data, name):
    with open(shared_data("corpus", "wikipedia_articles.txt"), "rb") as file:
        paragraphs = file.read().split(b"\n")[::10]
    for start in range(0, len(paragraphs), 256):
        assert differences(*tokenizers(name), paragraphs[start : start + 256]) == []


def test_the_same_tokenizer_works_in_tf_data(small):
    graph, python = small
    texts = [b"the quickest", f"A{SIGMA} fox".encode(), b"", b"a" * 201, b"the"]
    batches = tf.data.Dataset.from_tensor_slices(texts).batch(2).map(graph.tokenize)
    assert [row for batch in batches for row in batch.to_list()] == [python.encode(text) for text in texts]
    expected = zip(*(expected_in_bytes(python, text) for text in texts), strict=True)
    assert [ragged.to_list() for ragged in graph.tokenize_with_offsets(texts)] == [list(rows) for rows in expected]


def test_long_words_with_many_beginnings_of_tokens_are_read():
    graph, python = pair_of([*TOKENS, *("ab" * length for length in range(1, 90))])
    text = b" ".join(b"ab" * 99 + str(number).encode() for number in range(300))
    assert graph.tokenize([text]).to_list() == [python.encode(text)]


def test_sentence_piece_is_refused_with_its_operation():
    from tiny_families import VOCABULARIES

    with pytest.raises(InputError, match="SentencePiece has no form.*needs the operation SentencepieceTokenizeWith"):
        VOCABULARIES["albert"].graph(core_operations=True)
