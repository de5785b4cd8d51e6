"""WordPiece by core TensorFlow operations has the ids and byte offsets of the tokenizer in Python."""

import itertools

import pytest
from generated_texts import every_code_point, generated_texts
from tokenizer_comparison import differences

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


def test_the_longest_piece_is_taken_even_if_the_rest_is_then_unknown(small):
    words = "aab aaab aabab aac aacb aabcc aabcdc quickes quickestx aaaaaaaaaab b abab"
    texts = [text for word in words.split() for text in (word, f"the {word},{word} the")]
    assert differences(*small, [text.encode() for text in texts]) == []


def test_a_part_that_occurs_often_keeps_its_places(small):
    texts = [b"the fox the The The, aab the", b"The, aab  fox", "字a the".encode(), b"\xffThe, \xc3 aab"]
    assert differences(*small, texts) == []


def test_any_token_is_accepted_whatever_its_length():
    python = WordPieceTokenizer(Vocabulary([*TOKENS, "字x" * 75, "\u0378", "##\U00100000"]))
    graph = python.graph(core_operations=True)
    assert differences(graph, python, [("字x" * 75).encode(), "\u0378\U00100000 \u0379".encode()]) == []


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


def test_long_words_with_many_beginnings_of_tokens_are_read():
    graph, python = pair_of([*TOKENS, *("ab" * length for length in range(1, 90))])
    text = b" ".join(b"ab" * 99 + str(number).encode() for number in range(300))
    assert graph.tokenize([text]).to_list() == [python.encode(text)]


def test_sentence_piece_is_refused_with_its_operation():
    from tiny_families import VOCABULARIES

    with pytest.raises(InputError, match="SentencePiece has no form.*needs the operation SentencepieceTokenizeWith"):
        VOCABULARIES["albert"].graph(core_operations=True)
