"""ModernBERT's tokenizer: NFC, added tokens for runs of spaces, byte-level BPE, against Hugging Face tokenizers."""

import json
import pickle
import random
import unicodedata

import pytest
from tokenization.test_byte_pair import texts_of
from tokenizer_comparison import assert_ids_of, graph_differences
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from keras_bert import InputError, load_vocabulary
from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.byte_pair import BytePairTokenizer, byte_alphabet
from keras_bert.tokenization.nfc import continuing_points, nfc, nfc_with_sources

SPECIAL = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
SPACES = [" " * count for count in range(24, 1, -1)]
SENTENCES = [
    "The quick brown foxes aren't quicker than 字字字 or naïve dogs.",
    "def f(x):\n        return  x  #   four\n",
    "aaaa bbb 1234 12 don't we'll \t\n é e\u0301",
]


def trained(sentences, vocab_size=700) -> Tokenizer:
    """Returns a tokenizer of `tokenizers` in the form of ModernBERT's tokenizer.json."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=["|||IP_ADDRESS|||", "<|padding|>"],
        initial_alphabet=list(byte_alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences, trainer)
    tokenizer.add_tokens([AddedToken(token, normalized=True) for token in SPACES])
    tokenizer.add_special_tokens(["<|endoftext|>", *SPECIAL[:-1], AddedToken("[MASK]", lstrip=True)])
    tokenizer.add_tokens([AddedToken(f"[unused{number}]", normalized=True) for number in range(12)])
    ids = {name: tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]")}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=list(ids.items())
    )
    values = json.loads(tokenizer.to_str())
    [first] = [entry for entry in values["added_tokens"] if entry["content"] == "|||IP_ADDRESS|||"]
    first |= {"special": False, "normalized": True}  # as in the published file
    return Tokenizer.from_str(json.dumps(values))


@pytest.fixture(scope="module")
def published():
    return trained(SENTENCES * 20)


@pytest.fixture(scope="module")
def theirs(published):
    return with_roles_as_text(published)


def with_roles_as_text(tokenizer) -> Tokenizer:
    """Returns the tokenizer of `tokenizers` for which only special tokens with a role are text in a text, as here."""
    values = json.loads(tokenizer.to_str())
    for entry in values["added_tokens"]:
        entry["special"] = entry["content"] in SPECIAL
    tokenizer = Tokenizer.from_str(json.dumps(values))
    tokenizer.encode_special_tokens = True
    return tokenizer


@pytest.fixture(scope="module")
def ours(published, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    published.save(str(folder / "tokenizer.json"))
    return load_vocabulary(folder)


def random_texts(seed: int, count: int) -> list[str]:
    """Returns texts with many spaces, marks, letters that decompose, and added tokens."""
    rng = random.Random(seed)
    marks = sorted(continuing_points())
    letters = sorted(unicode_table.decompositions())
    kinds = [
        lambda: " " * rng.randrange(1, 30),
        lambda: chr(rng.choice(marks)),
        lambda: chr(rng.choice(letters)),
        lambda: rng.choice(["[unused3]", "[MASK]", "|||IP_ADDRESS|||", "<|endoftext|>", "[", "|||", "\x00", "\x01"]),
        lambda: rng.choice("aeiou\n\t.'s\u1100\u1161\u11a8"),
    ]
    return ["".join(rng.choice(kinds)() for _ in range(rng.randrange(10))) for _ in range(count)]


def test_a_tokenizer_json_of_this_form_is_read(ours, theirs):
    assert isinstance(ours, BytePairTokenizer)
    assert ours.special_tokens.separators(2) == (1, 1)
    assert ours.special_tokens.mask_takes_space
    assert ours.ids == theirs.get_vocab()
    assert ours.tokenize("a   b[unused3]e\u0301") == ["a", "   ", "b", "[unused3]", "\u00c3\u00a9"]
    assert ours.decode(ours.encode("a   b[MASK] e\u0301")) == "a   b[MASK] \u00e9"
    assert "[MASK]" not in ours.tokenize("a [MASK]")  # a text cannot forge the structure of a row
    assert ours.ids["   "] in ours.text_ids()
    assert ours.cls_id not in ours.text_ids()


def test_the_graph_equals_python(ours):
    assert graph_differences(ours, texts_of(3, 800) + random_texts(5, 1200)) == []


def test_ids_equal_hugging_face_also_beside_added_tokens(ours, theirs):
    texts = [text for text in random_texts(9, 1000) if not any(map(unicodedata.combining, text))]
    assert len(texts) > 400
    assert_ids_of(theirs, ours, texts)


def test_nfc_equals_unicodedata():
    texts = random_texts(1, 3000)
    for text in [*texts, *(chr(point) for point in range(0xA0, 0x3400)), *map(chr, unicode_table.decompositions())]:
        assert nfc(text) == nfc_with_sources(text)[0] == unicodedata.normalize("NFC", text), ascii(text)
    composed, starts, ends = nfc_with_sources("e\u0301a\u0323\u0301")
    assert (composed, starts, ends) == ("\u00e9\u1ea1\u0301", [0, 2, 2], [2, 5, 5])


def test_a_saved_tokenizer_is_the_same(ours, theirs, tmp_path):
    ours.save(tmp_path)
    again = load_vocabulary(tmp_path)
    assert again.sha256 == ours.sha256
    reread = with_roles_as_text(Tokenizer.from_file(str(tmp_path / "tokenizer.json")))
    texts = random_texts(11, 200)
    expected = [encoding.ids for encoding in theirs.encode_batch(texts)]
    assert [encoding.ids for encoding in reread.encode_batch(texts)] == expected
    assert reread.encode("a", "b").tokens == ["[CLS]", "a", "[SEP]", "b", "[SEP]"]
    assert pickle.loads(pickle.dumps(ours)).encode("a   b") == ours.encode("a   b")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"normalizer": {"type": "NFKC"}}, "normalizer would change the tokens: .*NFKC"),
        ({"pre_tokenizer": {"type": "ByteLevel", "use_regex": False}}, "with use_regex False. Supported are GPT-2's"),
        ({"surprise": 1}, "settings that keras_bert does not know .*'surprise'=1"),
        ({"lstrip": True}, "added token '   ' takes the white space around it and has white space itself"),
        ({"content": "a\x00b"}, "must not be empty or have U\\+0000"),
        ({"id": 3}, "Token '   ' has id 3, but 4 was expected"),
    ],
)
def test_another_tokenizer_json_is_refused_by_its_part(theirs, tmp_path, change, message):
    values = json.loads(theirs.to_str())
    if set(change) <= {*values, "surprise"}:
        values |= change
    else:
        [entry] = [entry for entry in values["added_tokens"] if entry["content"] == "   "]
        entry |= change
    (tmp_path / "tokenizer.json").write_text(json.dumps(values), "utf-8")
    with pytest.raises(InputError, match=message):
        load_vocabulary(tmp_path)
