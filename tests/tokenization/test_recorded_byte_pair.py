"""Ids and offsets of byte-level and byte-fallback BPE, as this package's own Python code computed them.

`recorded_byte_pair.json` was written by commit 63507b4, before the package tokenizers took over: the rows of some
texts, and digests of the rows of many random texts of all characters of Unicode 14.0.
"""

import hashlib
import itertools
import json
import pathlib
import pickle
import random
import threading

import pytest

from keras_bert.program.errors import InputError
from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.added_tokens import AddedToken
from keras_bert.tokenization.byte_fallback import ByteFallbackTokenizer
from keras_bert.tokenization.byte_pair import _TOO_MUCH_WHITE_SPACE, BytePairTokenizer, byte_alphabet
from keras_bert.tokenization.tokenizer import GEMMA_SPECIAL_TOKENS, ROBERTA_SPECIAL_TOKENS, text_bytes

RECORDED = pathlib.Path(__file__).with_name("recorded_byte_pair.json")
WORDS = ["the", "then", "there", "fox", "foxes", "don't", "'ve", "12", "123", "2024", "naïve", "é", "☃", "字字"]
WORDS += ["각", "...", "!!", "\n\n", "\t", "", "", "aaaa", "abab"]
ADDED = [AddedToken("  "), AddedToken("[E1]", normalized=False, special=True), AddedToken("ét", single_word=True)]
ADDED += [AddedToken("<x>", lstrip=True), AddedToken("   ", normalized=False)]
NAMES = [token.content for token in ADDED]


def byte_level(**settings) -> BytePairTokenizer:
    words = [
        "".join(byte_alphabet()[byte] for byte in f"{space}{word}".encode()) for word in WORDS for space in ("", " ")
    ]
    merges = [(word[:end], word[end]) for word in words for end in range(1, len(word))]
    merges = list(dict.fromkeys(merges))
    special = [*ROBERTA_SPECIAL_TOKENS.names]
    tokens = [*special, *byte_alphabet(), *("".join(pair) for pair in merges), "Ġthefox", "Ġzz", *NAMES]
    return BytePairTokenizer({token: number for number, token in enumerate(dict.fromkeys(tokens))}, merges, **settings)


def byte_fallback(**settings) -> ByteFallbackTokenizer:
    words = [f"{space}{word}".replace(" ", "▁") for word in WORDS for space in ("", " ")]
    merges = list(dict.fromkeys((word[:end], word[end]) for word in words for end in range(1, len(word))))
    merges += [("▁", "▁"), ("▁▁", "▁"), ("x", "▁the"), (".", "▁")]
    tokens = [*GEMMA_SPECIAL_TOKENS.names, *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += [*sorted({character for word in words for character in word}), "x", "z"]
    tokens += [*("".join(pair) for pair in merges), *NAMES]
    return ByteFallbackTokenizer(
        {token: number for number, token in enumerate(dict.fromkeys(tokens))}, merges, **settings
    )


TOKENIZERS = {
    "GPT-2": byte_level(),
    "GPT-2 with a prefix": byte_level(add_prefix_space=True),
    "ModernBERT": byte_level(normalizes=True, added_tokens=ADDED),
    "normalised": byte_level(normalizes=True, add_prefix_space=True),
    "Llama 3": byte_level(splits_as_llama_3=True, ignores_merges=True, added_tokens=ADDED[1:2]),
    "Gemma": byte_fallback(),
    "Gemma with added tokens": byte_fallback(added_tokens=[*ADDED[1:2], *ADDED[3:]]),
}
TEXTS = ["", " ", "  ", "the", " the", "  the   then ", "don't DON'T 'VE they've", "a\t\n b", "\n\n\n", "   "]
TEXTS += [" \u00a0 ", "naïve nai\u0308ve", "e\u0301te\u0301", "a\u0323\u0301b", "\u1100\u1161\u11a8 각"]
TEXTS += ["\u0301", " \u0301a", "字字字 ☃", "12345 1½²", "x [E1] the<x> ét", "[E1]  [E1]", "étét ét"]
TEXTS += ["the\u0000then\u0001\u007f", "a\u2028b\u3000c\u1680", "\udcff", "the\udcffn", "\udce2\udc98 ☃"]
TEXTS += [" \udc80 \udc80the", "é\udcc3", "'\udcffs", "12\udcff3", "\udcff" * 5, "aaaaaaaaaaaaaaa"]
TEXTS += ["abababababab", "▁the ▁", ". the", "x the", "<0x41> <s> <unk> [CLS] <bos>", "\ufffd\ufffe\ufeff"]
TEXTS += ["zz zz", "thefox thefox", "😀👩‍👩‍👧", "Ġthe", "\r\n\r\n  the", "(the) ...the!\n\n", "'ſ 'S"]
TEXTS += ["ａｂ ﬁ ß Å \u212b"]


def random_texts(seed: int, count: int) -> list[str]:
    """Returns texts of all characters of Unicode 14.0 and of invalid bytes, the same with every version of Python."""
    rng = random.Random(seed)
    young = [range(first, last + 1) for first, last in unicode_table.unassigned_ranges()]
    unusable = {*range(0xD800, 0xE000)}.union(*young)
    assigned = [chr(point) for point in range(0x110000) if point not in unusable]
    marks = [chr(point) for point in sorted(unicode_table.combining_classes())]
    composed = [chr(point) for point in sorted(unicode_table.decompositions())]
    space = [chr(point) for point in sorted(unicode_table.WHITE_SPACE)] + [" "] * 20
    numbers = [chr(point) for point in sorted(unicode_table.numbers())]
    pools = [assigned, assigned[:600], marks, composed, space, numbers, WORDS, NAMES, [*"'stmdreval"]]
    pools += [[chr(0xDC00 + byte) for byte in range(0x80, 0x100)], ["e", "a", "\u1100", "\u1161", "\u11a8"]]
    texts = []
    for _ in range(count):
        chosen = rng.sample(pools, rng.randrange(1, 5))
        text = "".join(rng.choice(rng.choice(chosen)) for _ in range(rng.randrange(25)))
        # Bytes that are valid UTF-8 together are the character, as in a text that was decoded.
        texts.append(text_bytes(text).decode("utf-8", "surrogateescape"))
    return texts


def digest(tokenizer, texts) -> str:
    rows = [tokenizer.tokenize_with_offsets(text) for text in texts]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


@pytest.fixture(scope="module")
def recorded():
    return json.loads(RECORDED.read_text("utf-8"))


@pytest.mark.parametrize("name", TOKENIZERS)
def test_ids_and_offsets_are_those_recorded(recorded, name):
    tokenizer = TOKENIZERS[name]
    for text, row in zip(TEXTS, recorded["rows"][name], strict=True):
        assert [*tokenizer.tokenize_with_offsets(text)] == row, ascii(text)
        assert tokenizer.encode(text) == row[0], ascii(text)
        assert tokenizer.tokenize_with_offsets(text_bytes(text)) == tokenizer.tokenize_with_offsets(text), ascii(text)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_random_texts_of_unicode_14_have_the_rows_recorded(recorded, name):
    assert digest(TOKENIZERS[name], random_texts(1, 3000)) == recorded["random"][name]


def test_wikipedia_has_the_rows_of_roberta_recorded(recorded, shared_data):
    folder = shared_data("family", "vocab")
    roberta = BytePairTokenizer.from_files(folder / "roberta-vocab.json", folder / "roberta-merges.txt")
    with open(shared_data("corpus", "wikipedia_articles.txt"), encoding="utf-8") as file:
        assert digest(roberta, itertools.islice(file, 0, None, 60)) == recorded["wikipedia"]


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_long_text_is_cut_where_no_token_ends_otherwise(name):
    tokenizer, rng = TOKENIZERS[name], random.Random(2)
    pieces = [*WORDS, *NAMES, *" \n.x!", "\udcff", "é\u0301", "▁", " the", "\u3000"]
    text = "".join(rng.choices(pieces, k=10_000))
    ids, starts, ends = tokenizer.tokenize_with_offsets(text)
    assert ids == tokenizer.encode(text)
    assert ids == [number for row in tokenizer.graph().tokenize([text_bytes(text)]).to_list() for number in row]
    assert all(0 <= start <= end <= len(text) for start, end in zip(starts, ends, strict=True))
    spans = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    assert all(part.strip(" ") == part for part in spans)


def test_llama_3_refuses_the_white_space_on_which_the_library_gives_up():
    tokenizer = TOKENIZERS["Llama 3"]
    with pytest.raises(InputError, match="more than 4,194,304 white-space characters in a row"):
        tokenizer.encode(" " * ((1 << 22) + 1) + "x")
    assert _TOO_MUCH_WHITE_SPACE.search(" " * (1 << 22) + "x") is None


@pytest.mark.parametrize("name", TOKENIZERS)
def test_pickles_and_threads_give_the_same_rows(recorded, name):
    tokenizer, found = pickle.loads(pickle.dumps(TOKENIZERS[name])), []

    def tokenize() -> None:
        found.append([[*tokenizer.tokenize_with_offsets(text)] for text in TEXTS])

    threads = [threading.Thread(target=tokenize) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [recorded["rows"][name]] * 4
