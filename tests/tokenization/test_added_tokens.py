"""Added tokens in all kinds of tokenizers, in Python and in the graph, against Hugging Face tokenizers."""

import random
import sys

import numpy as np
import pytest
import tiny
from bounded_memory import memory_below
from tokenizer_comparison import assert_ids_of, graph_differences
from tokenizers import AddedToken as Theirs
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from keras_bert import InputError, SequenceClassifier, Vocabulary, WordPieceTokenizer
from keras_bert.serving import load
from keras_bert.tokenization.added_tokens import AddedToken, AddedTokenCutter
from keras_bert.tokenization.byte_pair import BytePairTokenizer, byte_alphabet
from keras_bert.tokenization.token_lists import PythonForm

LETTERS = "abcdezu\u00fc\u0301-.19 \u5b57["
PIECES = [*LETTERS.replace(" ", ""), *(f"##{letter}" for letter in LETTERS if letter not in " -.[\u5b57")]
# Words of an own domain, markers, numbers with marks, runs of spaces, beginnings of each other.
CONTENTS = ["[E1]", "[E1", "co-vid", "Zed", "zed19", "Z\u00fcrich", "ab", "abc", "cc"]
CONTENTS += ["  ", "    ", "\u5b57\u5b57", "a b"]
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def random_tokens(rng: random.Random) -> list[AddedToken]:
    tokens, with_rstrip = [], rng.random() < 0.5
    for content in rng.sample([text for text in CONTENTS if text.strip() or not with_rstrip], 7):
        flags = {name: rng.random() < 0.3 for name in FLAGS}
        if content != content.strip():
            flags |= {"lstrip": False}
        # After a token that takes the white space behind it, tokenizers may find a token in that white space again.
        flags |= {"rstrip": flags["rstrip"] and with_rstrip and content == content.strip() != "\u5b57\u5b57"}
        tokens.append(AddedToken(content, **flags))
    return tokens


def random_texts(rng: random.Random, count: int) -> list[str]:
    parts = [*CONTENTS, *LETTERS, "ZED", "CO-VID", "z\u00e9d", "_"]
    parts += ["\u00a0", "\u3000", "\n", "u\u0308", "\x00", "\x01", "\u200b"]
    return ["".join(rng.choices(parts, k=rng.randrange(9))) for _ in range(count)]


def their_word_piece(tokens, do_lower_case) -> Tokenizer:
    theirs = Tokenizer(
        models.WordPiece({piece: number for number, piece in enumerate([*tiny.SPECIAL_TOKENS, *PIECES])})
    )
    theirs.normalizer = normalizers.BertNormalizer(lowercase=do_lower_case)
    theirs.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return with_tokens(theirs, tokens)


def their_byte_pair(tokens, normalizes, prefix) -> Tokenizer:
    ids = {token: number for number, token in enumerate([*byte_alphabet(), "\u0120a", *tiny.SPECIAL_TOKENS])}
    theirs = Tokenizer(models.BPE(ids, [("\u0120", "a")]))
    theirs.normalizer = normalizers.NFC() if normalizes else None
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    return with_tokens(theirs, tokens)


def with_tokens(theirs, tokens) -> Tokenizer:
    for token in tokens:
        add = theirs.add_special_tokens if token.special else theirs.add_tokens
        add([Theirs(token.content, **{name: getattr(token, name) for name in FLAGS})])
    return theirs


def our_byte_pair(tokens, normalizes, prefix) -> BytePairTokenizer:
    names = [*byte_alphabet(), "\u0120a", *tiny.SPECIAL_TOKENS, *(token.content for token in tokens)]
    from keras_bert.tokenization.tokenizer import BERT_SPECIAL_TOKENS

    ids = {token: number for number, token in enumerate(names)}
    return BytePairTokenizer(ids, [("\u0120", "a")], BERT_SPECIAL_TOKENS, prefix, normalizes, tokens)


def check_graph(tokenizer, texts, core_operations=False):
    assert graph_differences(tokenizer, texts, core_operations) == []
    assert PythonForm(tokenizer).tokenize(texts).to_list() == [tokenizer.encode(text) for text in texts]


@pytest.mark.parametrize(("seed", "do_lower_case"), [(0, True), (1, False)])
def test_word_piece_equals_tokenizers_with_random_added_tokens(seed, do_lower_case):
    rng = random.Random(seed)
    tokens = random_tokens(rng)
    vocabulary = Vocabulary([*tiny.SPECIAL_TOKENS, *PIECES, *(token.content for token in tokens)], added_tokens=tokens)
    ours, theirs = WordPieceTokenizer(vocabulary, do_lower_case), their_word_piece(tokens, do_lower_case)
    texts = random_texts(rng, 300)
    assert_ids_of(theirs, ours, texts, tokens)
    check_graph(ours, texts)
    check_graph(ours, texts[:50], core_operations=True)


@pytest.mark.parametrize(("seed", "normalizes", "prefix"), [(0, True, False), (1, False, True)])
def test_byte_pair_equals_tokenizers_with_random_added_tokens(seed, normalizes, prefix):
    rng = random.Random(seed)
    tokens = random_tokens(rng)
    ours, theirs = our_byte_pair(tokens, normalizes, prefix), their_byte_pair(tokens, normalizes, prefix)
    texts = random_texts(rng, 300)
    assert_ids_of(theirs, ours, texts, tokens)
    check_graph(ours, texts)


def test_the_time_does_not_depend_on_the_number_of_added_tokens():
    text = "the quick  brown    fox co-vid " * 70

    def lines(count: int) -> int:
        """Returns how many lines of Python are run."""
        tokens = [AddedToken(f"<unused{number}>") for number in range(count)] + [AddedToken(" " * 31)]
        cutter = AddedTokenCutter(tokens, {token.content: number for number, token in enumerate(tokens)})
        num_lines = 0

        def trace(frame, event, argument):
            nonlocal num_lines
            num_lines += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            assert len(list(cutter.parts(text))) == 1
        finally:
            sys.settrace(before)
        return num_lines

    assert 70 < lines(20_000) < 2 * lines(20)


def test_of_several_matches_the_leftmost_and_there_the_longest_counts():
    tokens = [AddedToken("ab"), AddedToken("abc"), AddedToken("bcd")]
    cutter = AddedTokenCutter(tokens, {"ab": 0, "abc": 1, "bcd": 2})
    assert [(part.text, part.number) for part in cutter.parts("xabcd")] == [("x", None), ("abc", 1), ("d", None)]


def test_the_memory_of_added_tokens_is_a_small_multiple_of_their_size():

    tokens = [AddedToken("".join(random.choices(LETTERS, k=10_000))) for _ in range(50)]
    ids = {token.content: number for number, token in enumerate(tokens)}
    with memory_below(5_000_000):
        cutter = AddedTokenCutter(tokens, ids)
    found = [part.number for part in cutter.parts(f"q{tokens[7].content}q{tokens[7].content[:-1]}q")]
    assert found == [None, 7, None]


def test_added_tokens_beyond_a_limit_are_refused():
    names = [f"{number:07d}" * 10 for number in range(16_000)]
    tokens = [AddedToken(name) for name in names]
    with pytest.raises(InputError, match="The 16,000 added tokens have 1,120,000 characters together. At most"):
        Vocabulary([*tiny.SPECIAL_TOKENS, *names], added_tokens=tokens)
    # Python finds as many; the regular expressions of TensorFlow do not.
    names = ["".join(random.choices("\u5b57\u6c34\u706b\u91d1", k=60)) for _ in range(3_000)]
    vocabulary = Vocabulary([*tiny.SPECIAL_TOKENS, *names], added_tokens=[AddedToken(name) for name in names])
    tokenizer = WordPieceTokenizer(vocabulary)
    assert tokenizer.encode(names[5]) == [vocabulary.ids[names[5]]]
    with pytest.raises(InputError, match="3,000 added tokens make a regular expression of .* than TensorFlow can"):
        tokenizer.graph()


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (AddedToken("x"), "must be in the vocabulary, and must not be one of the special tokens"),
        (AddedToken("[CLS]"), "'\\[CLS\\]' must be in the vocabulary, and must not be"),
        (AddedToken(""), "must not be empty"),
        (AddedToken("\u0301"), "Nothing is left of the added token"),
        (AddedToken("  ", lstrip=True), "takes the white space around it and has white space itself"),
    ],
)
def test_impossible_added_tokens_are_refused(token, message):
    with pytest.raises(InputError, match=message):
        WordPieceTokenizer(Vocabulary([*tiny.SPECIAL_TOKENS, "", "\u0301", "  "], added_tokens=[token]))


@pytest.mark.parametrize("format", ["onnx", pytest.param("saved_model", marks=pytest.mark.slow)])
def test_exports_find_added_tokens(format, tmp_path):
    names = [*tiny.SPECIAL_TOKENS, "fox", "a", "[E1]", "co-vid"]
    config = tiny.config(names, hidden_size=8, intermediate_size=8)
    model = SequenceClassifier(config, labels=["no", "yes"])
    model.vocabulary = Vocabulary(names, added_tokens=[AddedToken("[E1]", normalized=False), AddedToken("co-vid")])
    draw = np.random.default_rng(0).normal
    model.set_weights([draw(scale=0.4, size=weight.shape) for weight in model.get_weights()])
    texts = ["a[E1]fox", "CO-VID", "fox co-vid [E1]", "fox", "[e1]"]
    model.export_for_serving(tmp_path / "1", format=format)
    found, expected = load(tmp_path / "1").predict(texts), model.predict(texts)
    assert [answer.label for answer in found] == [answer.label for answer in expected]
    probabilities = [[answer.probability for answer in answers] for answers in (found, expected)]
    np.testing.assert_allclose(*probabilities, atol=1e-6)
    assert len(set(np.round(probabilities[1], 6))) == len(texts)


def test_one_character_may_be_a_token_at_the_end_and_space_that_a_token_takes_is_not_searched():
    tokens = [AddedToken("c"), AddedToken("abc", rstrip=True), AddedToken("  ")]
    cutter = AddedTokenCutter(tokens, {"c": 0, "abc": 1, "  ": 2})
    assert [(part.text, part.number) for part in cutter.parts("xc")] == [("x", None), ("c", 0)]
    assert [(part.text, part.number) for part in cutter.parts("abc    x")] == [("abc", 1), ("x", None)]


def test_single_words_that_touch_each_other_are_none_in_the_graph_too():
    tokens = [AddedToken("zed", single_word=True), AddedToken("u.", single_word=True)]
    tokenizer = WordPieceTokenizer(Vocabulary([*tiny.SPECIAL_TOKENS, *PIECES, "zed", "u."], added_tokens=tokens))
    texts = [content * count for content in ("zed", "u.", "zedu.") for count in range(1, 7)]
    check_graph(tokenizer, [*texts, "zed zed", "zed.zed", "zedzed zed", "u. u."])
    assert tokenizer.tokenize("zed") == ["zed"]
    assert "zed" not in tokenizer.tokenize("zedzedzed")
