"""Byte-level BPE: the graph against Python; files, pickles and refusals."""

import itertools
import json
import pickle
import random
import re

import pytest
from generated_texts import generated_texts
from tokenizer_comparison import graph_differences
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from keras_bert.program.errors import InputError
from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.byte_pair import BytePairTokenizer, byte_alphabet, word_spans

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SENTENCES = [
    "The quick brown foxes aren't quicker than 字字字 or naïve dogs.",
    "aaaa bbb 1234 12 don't we'll",
    " \t\n é",
]


def tokens_with(*joined):
    return {token: number for number, token in enumerate([*byte_alphabet(), *SPECIAL, *joined])}


@pytest.fixture(scope="module")
def trained():
    """A tokenizer whose 600 tokens were learnt from three sentences."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=SPECIAL, initial_alphabet=list(byte_alphabet()), show_progress=False
    )
    learner.train_from_iterator(SENTENCES * 20, trainer)
    model = json.loads(learner.to_str())["model"]
    return BytePairTokenizer(model["vocab"], [tuple(pair) for pair in model["merges"]])


@pytest.fixture(scope="module")
def roberta(shared_data):
    return BytePairTokenizer.from_files(
        shared_data("family", "vocab", "roberta-vocab.json"), shared_data("family", "vocab", "roberta-merges.txt")
    )


def texts_of(seed, count, tokens=("the", "##est")):
    """Returns random texts of characters that Unicode 14.0 assigns."""
    ranges = "".join(f"{chr(first)}-{chr(last)}" for first, last in unicode_table.unassigned_ranges())
    texts = (re.sub(f"[{ranges}]", "", text.decode("utf-8", "ignore")) for _, text in generated_texts(seed, tokens))
    return list(itertools.islice(texts, count))


def test_words_are_split_as_gpt_2_splits_them_also_around_invalid_bytes():
    text = "I'll go  to 字24th\n\n \udcff\udcff's\x1c"
    words = [text[first:last] for first, last in word_spans(text)]
    assert words == ["I", "'ll", " go", " ", " to", " 字", "24", "th", "\n\n", " \udcff\udcff'", "s", "\x1c"]


def test_the_letters_numbers_and_white_space_of_unicode_14_are_those_of_the_graph():
    """Younger ones differ: docs/tokenizer.md lists them."""
    young = {point for first, last in unicode_table.unassigned_ranges() for point in range(first, last + 1)}
    text = "".join(chr(point) for point in range(0x110000) if point not in young and not 0xD800 <= point < 0xE000)
    expected = {r"\P{L}": unicode_table.letters(), r"\P{N}": unicode_table.numbers(), r"\S": unicode_table.WHITE_SPACE}
    for others, points in expected.items():
        pieces = pre_tokenizers.Split(Regex(f"{others}+"), "removed").pre_tokenize_str(text)
        assert {ord(character) for piece, _ in pieces for character in piece} == points


def test_merges_apply_in_their_order_and_from_left_to_right():
    merges = [("a", "a"), ("b", "aa"), ("aa", "a")]
    tokenizer = BytePairTokenizer(tokens_with("aa", "baa", "aaa"), merges)
    assert tokenizer.tokenize("aaaaa") == ["aa", "aaa"]
    assert tokenizer.tokenize("baaa") == ["baa", "a"]


def test_a_space_beside_other_white_space_belongs_to_its_run_in_the_graph_too():
    merges = [("ĉ", "Ġ"), ("Ġ", "ĉ"), ("Ġ", "Ċ")]
    tokenizer = BytePairTokenizer(tokens_with("ĉĠ", "Ġĉ", "ĠĊ"), merges)
    assert graph_differences(tokenizer, ["a\t \nb", "a \tb", "a \t b", "\u3000 \u3000"]) == []


def test_offsets_leave_spaces_out_and_cover_whole_characters():
    tokenizer = BytePairTokenizer(tokens_with("Ġt"), [("Ġ", "t")])
    assert tokenizer.tokenize_with_offsets("a té ") == (
        [tokenizer.ids[token] for token in ("a", "Ġt", "Ã", "©", "Ġ")], [0, 2, 3, 3, 5], [1, 3, 4, 4, 5],
    )  # fmt: skip
    assert graph_differences(tokenizer, ["a té "]) == []


@pytest.mark.parametrize("add_prefix_space", [False, True])
def test_the_graph_equals_python_on_generated_texts_and_on_little_but_spaces(trained, add_prefix_space):
    rng = random.Random(11)
    spaces = ["".join(rng.choices("   \n\ta\u00a0'.s", k=rng.randrange(12))) for _ in range(2000)]
    ours = BytePairTokenizer(trained.ids, trained.merges, add_prefix_space=add_prefix_space)
    assert graph_differences(ours, [*texts_of(3, 1500), *spaces]) == []


def test_a_token_of_the_space_in_front_of_a_text_alone_has_an_empty_span(trained):
    ours = BytePairTokenizer(trained.ids, trained.merges, add_prefix_space=True)
    assert ours.tokenize_with_offsets("\n\n")[1:] == ([0, 0, 1], [0, 1, 2])


def test_an_added_token_of_spaces_is_white_space_with_an_empty_span():
    tokenizer = BytePairTokenizer(
        tokens_with("ab", "  ", "   ", "x y", "éa"), [("a", "b")], added_tokens=["  ", "   ", "x y", "éa"]
    )
    text = "a   b  x y "
    assert tokenizer.tokenize(text) == ["a", "   ", "b", "  ", "x y", "Ġ"]
    assert tokenizer.tokenize_with_offsets(text)[1:] == ([0, 4, 4, 7, 7, 11], [1, 4, 5, 7, 10, 11])
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert {tokenizer.ids["  "], tokenizer.ids["x y"]} <= set(tokenizer.text_ids())
    assert [tokenizer.continues_word(token) for token in ("  ", "Ġ", "a", "x y")] == [False, False, True, True]
    assert tokenizer.decode(tokenizer.encode("éa é")) == "éa é"  # é is also the sign of a byte
    assert graph_differences(tokenizer, [text, "   ", "    a", "  x y   "]) == []


def test_the_graph_equals_python_on_bytes_that_are_no_text(trained):
    rng = random.Random(5)
    values = b"ab '\xe2\x82\xf0\x9f\xed\xa0\x80\xff\xc3\xa9 "
    texts = [bytes(rng.choice(values) for _ in range(rng.randrange(30))) for _ in range(2000)]
    assert trained.graph().tokenize(texts).to_list() == [trained.encode(text) for text in texts]


def test_decoding_gives_the_text_back(trained):
    for text in texts_of(4, 300):
        assert trained.decode(trained.encode(text)) == text


@pytest.mark.parametrize("unit", [*(pytest.param(unit, marks=pytest.mark.slow) for unit in ("a", "字")), "ha", "qzx"])
def test_a_word_of_a_megabyte_does_not_take_quadratic_time(trained, unit):
    word = unit * (1_000_000 // len(unit.encode()))
    graph = trained.graph()
    assert graph.tokenize([word]).to_list()[0] == trained.encode(word)


def test_files_and_pickles_give_the_tokenizer_back(trained, tmp_path):
    trained.save(tmp_path)
    stored = BytePairTokenizer.from_files(tmp_path / "vocab.json", tmp_path / "merges.txt")
    assert (stored.ids, stored.merges) == (trained.ids, trained.merges)
    assert (trained.cls_id, trained.pad_id, trained.sep_id, trained.unk_id, trained.mask_id) == (0, 1, 2, 3, 4)
    settings = {"add_prefix_space": True, "normalizes": True}
    changed = BytePairTokenizer(trained.ids, trained.merges, **settings)
    again = pickle.loads(pickle.dumps(changed))
    assert {name: getattr(again, name) for name in settings} == settings
    assert again.sha256 == changed.sha256


def test_a_special_token_in_a_text_is_ordinary_text(trained):
    assert trained.mask_id not in trained.encode("a <mask>")


GOOD_IDS = json.dumps(tokens_with("aa"))


@pytest.mark.parametrize(
    ("vocabulary", "merges", "message"),
    [
        (GOOD_IDS, "#version: 0.2\na a\na bc\n", "Merge 2, 'a' 'bc', contains or creates the token 'bc'"),
        (GOOD_IDS, "a b\n", "Merge 1, 'a' 'b', contains or creates the token 'ab'"),
        (GOOD_IDS, "a a a\n", r"merges.txt: line 1 is not a merge. Expected: two tokens .* Received: 'a a a'"),
        (GOOD_IDS.replace('"aa": 261', '"aa": 300'), "", "0 to 261, each once. Token 'aa' has id 300, but 261"),
        (GOOD_IDS.replace('"aa": 261', '"aa": 260'), "", "A token is missing, or two tokens have the same id"),
        ("[PAD]\n[UNK]\n", "", r"vocab.json is not JSON: .* a vocab.txt belongs to WordPiece"),
        ('["a"]', "", "is not a vocabulary. Expected: {token: id, ...} with whole numbers"),
        ('{"a": 0.5}', "", "is not a vocabulary"),
        ('{"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4}', "", "no token for 256 of the 256 bytes"),
        ('{"a": 0}', "", "<s> </s> <pad> <unk> <mask> missing. The vocabulary must have the special tokens"),
        (b"\xff", "", "vocab.json is not UTF-8"),
        (GOOD_IDS, None, "Cannot read .*merges.txt: No such file"),
    ],
)
def test_unusable_files_are_refused_with_what_to_do(tmp_path, vocabulary, merges, message):
    for name, content in {"vocab.json": vocabulary, "merges.txt": merges}.items():
        if content is not None:
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message):
        BytePairTokenizer.from_files(tmp_path / "vocab.json", tmp_path / "merges.txt")


def test_published_ids_of_roberta(roberta):
    # fairseq's README: roberta.encode("Hello world!") without <s> and </s>.
    assert roberta.encode("Hello world!") == [31414, 232, 328]
