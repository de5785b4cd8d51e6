import functools
import itertools
import sys

import pytest
import tensorflow as tf
from generated_texts import SIGMA, every_code_point, generated_texts
from slow_parameters import slow_except
from tiny_families import sentence_pieces
from tokenizer_comparison import differences

from keras_bert.program.errors import InputError
from keras_bert.tokenization import fast_normalizer
from keras_bert.tokenization.graph_wordpiece import GraphTokenizer
from keras_bert.tokenization.unicode_table import TextRules
from keras_bert.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

TOKENS = [*SPECIAL_TOKENS, "the", "quick", "##est", "brown", "fox", ",", "#", "a", "##a", "\u03b1\u03c2", "\u5b57"]
VOCABULARY = Vocabulary(TOKENS)
CASINGS = {"uncased": True, "multilingual-cased": False, "cased": False, "chinese": True}
# One of each casing; the others are slow.
PUBLISHED = slow_except(["uncased", "multilingual-cased"], CASINGS)


@pytest.fixture(scope="module")
def tokenizers(shared_data):
    """Function of the name of a published vocabulary -> its graph and Python tokenizer."""

    @functools.cache
    def pair(name, core_operations=False):
        vocabulary = Vocabulary.from_file(shared_data("vocab", f"bert-base-{name}-vocab.txt"))
        python = WordPieceTokenizer(vocabulary, CASINGS[name])
        return python.graph(core_operations=core_operations), python

    return pair


@functools.cache
def _pair_of(tokens, do_lower_case, core_operations):
    python = WordPieceTokenizer(Vocabulary(tokens), do_lower_case)
    return python.graph(core_operations=core_operations), python


def pair_of(tokens, do_lower_case=True):
    return _pair_of(tuple(tokens), do_lower_case, False)


@pytest.fixture(params=[False, True], ids=["tensorflow_text", "core_operations"])
def any_pair_of(request):
    """`pair_of` for both forms of the tokenizer in a graph."""
    return lambda tokens, do_lower_case=True: _pair_of(tuple(tokens), do_lower_case, request.param)


def is_exact(do_lower_case, text):
    """Whether the text takes the exact path."""
    pattern = fast_normalizer.table_text_pattern(TextRules(do_lower_case, strip_accents=do_lower_case))
    return not bool(tf.strings.regex_full_match(text, pattern))


def test_ids_and_byte_offsets_of_a_sentence(any_pair_of):
    text = "The quickest f\u00f3x\u0301, \u5b57 ###"
    ids, starts, ends = any_pair_of(TOKENS)[0].tokenize_with_offsets([text])
    assert [TOKENS[number] for number in ids[0]] == ["the", "quick", "##est", "fox", ",", "\u5b57", "#", "#", "#"]
    spans = zip(starts[0].numpy(), ends[0].numpy(), strict=True)
    sources = [text.encode()[start:end].decode() for start, end in spans]
    assert sources == ["The", "quick", "est", "f\u00f3x\u0301", ",", "\u5b57", "#", "#", "#"]
    assert {ids.dtype, starts.dtype, ends.dtype} == {tf.int32}


LONGER = [*TOKENS, "##ab", "##abcd", "##c"]
VANISHING = ["a\u0301\u200ba", "\u0301a", "the\0 fox", "\u1f04\u03a3 a", "\u00e1,\u0301a", "\u5b57\u0301a"]
# Name -> tokens, and texts that Python and both forms of the graph must cut alike.
TEXTS = {
    "no texts": (TOKENS, []),
    "one empty text": (TOKENS, [""]),
    "texts without a token": (TOKENS, ["", " \u200b\t", b"\xff\xfe"]),
    "an empty text between others": (TOKENS, ["the", "", "fox"]),
    "spaces": (TOKENS, ["  the   fox "]),
    "texts of both paths in their order": (
        TOKENS,
        ["the fox", f"A{SIGMA}", "a" * 201, "quickest", b"\xffthe", "", "fox"],
    ),
    # An unassigned code point in front sends the same text down the exact path.
    "characters that vanish or split": (
        [*TOKENS, "\u1100", "##\u1161", "##\u11a8", "##\u1100"],
        [f"{start}{text}" for start in ("", "\u0378 ") for text in (*VANISHING, "\uac01\uac01 a")],
    ),
    "the limit of 200 characters, which are not bytes": (
        [*TOKENS, "\u0436", "##\u0436", "\u1100", "##\u1161"],
        [letter * length for letter in "a\u0436\uac00\u00e1" for length in (99, 100, 199, 200, 201)],
    ),
    "the limit on the exact path": (TOKENS, [f"\u0378 {'a' * length}" for length in (199, 200, 201)]),
    "marks, which are ordered within their word only": (
        [*TOKENS, "a\u302e", "\u1b44a", "a\u1b44\u302e"],
        ["a\u302e \u1b44a", "a\u302e\u1b44 a"],
    ),
    "tokens that can never match": (
        [*TOKENS, "the fox", "fox\u200b", "fox\u2028a", "##,a", "a,a", "b" * 201, "##\u2028", "##", "####"],
        ["the fox", "the  fox,a", "fox\u200b fox\u2028a", "b" * 201, "b", "a##,a", "## ####"],
    ),
    "the longest piece, even if the rest is then unknown": (
        LONGER,
        ["aab aaab aabab aac aacb aabcc aabcdc quickes quickestx aaaaaaaaaab b abab", "the aab,aab the aabcdc,aac"],
    ),
    "parts that occur often": (
        LONGER,
        ["the fox the The The, aab the", "The, aab  fox", "字a the", b"\xffThe, \xc3 aab"],
    ),
    "long words with many beginnings of tokens": (
        [*TOKENS, *("ab" * length for length in range(1, 90))],
        [" ".join(f"{'ab' * 99}{number}" for number in range(300))],
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_graph_cuts_texts_as_python_does(any_pair_of, name):
    tokens, texts = TEXTS[name]
    data = [text if isinstance(text, bytes) else text.encode() for text in texts]
    assert differences(*any_pair_of(tokens), tf.constant(data, tf.string, [len(data)]).numpy().tolist()) == []


ORDINARY = ["Stra\u00dfe", "\ufb01", "\uff46", "\u00b2 \u2122", "\u0915\u094d", f"{SIGMA}\u03c9", "\u0645\u064f"]


@pytest.mark.parametrize("text", [*ORDINARY, "\U0001f600"])
def test_ordinary_texts_take_the_fast_path(text):
    assert not is_exact(True, text)
    assert not is_exact(False, text)


@pytest.mark.parametrize(
    "text", [f"A{SIGMA}", f"A{SIGMA}'", "\u302e", "\u0378", "\u166d", "\U00100000", b"\xed\xa0\x80"]
)
def test_texts_that_a_table_cannot_do_take_the_exact_path(text):
    assert is_exact(True, text)


def test_tokens_with_code_points_that_servers_may_read_differently_are_found(any_pair_of):
    young = ["\u0378", "##\u0378", "a\u166d", "\U00100000", "##\U0010fffd\u0378", "\U0001fae8", "x\u302e"]
    graph, python = any_pair_of([*TOKENS, *young])
    texts = ["\u0378\u0378", "a\u166d\U0010fffd\u0378", "\U00100000 a", "\u0379", "\U00100001", "\U0001fae8", "x\u302e"]
    assert differences(graph, python, [text.encode() for text in texts]) == []
    assert graph.vocabulary.unk_id not in graph.tokenize(texts[:3]).values.numpy()


def test_a_token_too_long_for_the_op_is_refused_by_its_line():
    with pytest.raises(InputError, match=r"token in line 17 of the vocabulary has 300 bytes.* accepts at most 256"):
        GraphTokenizer(Vocabulary([*TOKENS, "\u5b57x" * 75]))


def test_a_vocabulary_alone_can_be_cased(any_pair_of):
    assert (
        differences(*any_pair_of([*TOKENS, "The"], do_lower_case=False), [f"The the A{SIGMA} \u00e1a".encode()]) == []
    )


@pytest.mark.parametrize(
    ("name", "core_operations", "count"),
    [
        ("uncased", False, 3000),
        ("multilingual-cased", False, 3000),
        ("uncased", True, 1000),
        *(pytest.param(name, False, 3000, marks=pytest.mark.slow) for name in ("cased", "chinese")),
        *(pytest.param(name, True, 10_000, marks=pytest.mark.slow) for name in CASINGS),
    ],
)
def test_generated_texts_are_tokenized_as_in_python(tokenizers, name, core_operations, count):
    graph, python = tokenizers(name, core_operations)
    generated = generated_texts(seed=7, tokens=python.vocabulary.tokens)
    assert differences(graph, python, [text for _, text in itertools.islice(generated, count)]) == []


@pytest.mark.parametrize(
    ("name", "core_operations"),
    [
        ("uncased", False),
        ("multilingual-cased", False),
        *(pytest.param(name, True, marks=pytest.mark.slow) for name in CASINGS),
    ],
)
def test_code_points_in_context_are_tokenized_as_in_python(tokenizers, name, core_operations):
    # One of seven code points; commit 17b5d13 compared all of them.
    texts = itertools.chain(every_code_point(0, 0x600), itertools.islice(every_code_point(0x600, 0x20000), 0, None, 7))
    assert differences(*tokenizers(name, core_operations), list(texts)) == []


@pytest.mark.parametrize("core_operations", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PUBLISHED)
def test_wikipedia_is_tokenized_as_in_python(tokenizers, shared_data, name, core_operations):
    with open(shared_data("corpus", "wikipedia_articles.txt"), "rb") as file:
        paragraphs = file.read().split(b"\n")[:: 10 if core_operations else 20]
    for start in range(0, len(paragraphs), 256):
        assert differences(*tokenizers(name, core_operations), paragraphs[start : start + 256]) == []


def test_core_operations_accept_any_token_whatever_its_length():
    pair = _pair_of((*TOKENS, "字x" * 75, "\u0378", "##\U00100000"), True, True)
    assert differences(*pair, [("字x" * 75).encode(), "\u0378\U00100000 \u0379".encode()]) == []


def test_sentence_piece_has_no_core_operations_and_names_its_own():
    with pytest.raises(InputError, match="SentencePiece has no form.*needs the operation SentencepieceTokenizeWith"):
        sentence_pieces().graph(core_operations=True)


def test_the_same_tokenizer_works_in_tf_data(any_pair_of):
    graph, python = any_pair_of(TOKENS)
    texts = [b"the quickest", f"A{SIGMA} fox".encode(), b"", b"a" * 201, b"the"]
    batches = tf.data.Dataset.from_tensor_slices(texts).batch(2).map(graph.tokenize)
    assert [row for batch in batches for row in batch.to_list()] == [python.encode(text) for text in texts]


def test_only_ops_of_a_stock_tf_serving_are_used(tmp_path):
    graph, _ = pair_of(TOKENS)
    function = tf.function(graph.tokenize_with_offsets, input_signature=[tf.TensorSpec([None], tf.string)])
    definition = function.get_concrete_function().graph.as_graph_def()
    nodes = itertools.chain(definition.node, *(inner.node_def for inner in definition.library.function))
    from tensorflow.python.framework import op_def_registry  # the ops of tf.text are registered by now

    used = {node.op for node in nodes} - {inner.signature.name for inner in definition.library.function}
    assert all(op_def_registry.get(name) is not None for name in used)
    text_ops = {name for name in used if "Fast" in name or "TFText" in name}
    assert text_ops == {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets"}


def test_without_tensorflow_text_the_message_says_what_works(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    with pytest.raises(
        InputError, match=r"needs tensorflow-text >= 2\.21\.1.*WordPieceTokenizer computes the same ids"
    ):
        GraphTokenizer(VOCABULARY)
