"""Llama 3's byte-level BPE, as in EuroBERT: its words and its whole tokens, against Hugging Face tokenizers."""

import json
import random

import pytest
from tokenization.test_byte_pair import SENTENCES, texts_of
from tokenizer_comparison import assert_is_the_tokenizer_of
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from keras_bert import InputError, load_vocabulary
from keras_bert.tokenization.byte_pair import byte_alphabet
from keras_bert.tokenization.byte_pair_files import LLAMA_3_PATTERN

ROLES = ["<|begin_of_text|>", "<|end_of_text|>", "<|pad|>", "<|mask|>"]
SETTINGS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": ROLES[0],
    "eos_token": ROLES[1],
    "pad_token": ROLES[2],
    "mask_token": ROLES[3],
}
TEXTS = ["don't DON'T we'LL 'ſ 's 'sa ''s (don't) !'re", "1234567 a12b345 ½²", "a\t \nb", "a \n\n b", "x\n \ny"]
TEXTS += ["!\n\r\n a", "!\n", "! \n", "a  b", "a \tb", "\tb", " !b", "!b", "!!b", " b!", "  !b", "\n", "\n ", " \n", ""]
TEXTS += [" ", "字、字", "e\u0301", "a\n\n  \n   b", "a\r\n\tb", "?\n\n  x", "?\n  \n!", "a\u3000b", "a\u3000 b"]
TEXTS += ["\u3000\u3000!", "'", "'r", "a'ré"]


def split() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA_3_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


@pytest.fixture(scope="module")
def theirs():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = split()
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=list(byte_alphabet()), show_progress=False)
    tokenizer.train_from_iterator([*SENTENCES, *TEXTS] * 20, trainer)
    values = json.loads(tokenizer.to_str())
    vocab, merges = values["model"]["vocab"], values["model"]["merges"]
    vocab["Ġzzz"] = len(vocab)  # no merges lead to it
    model = models.BPE(vocab, [tuple(pair) for pair in merges], ignore_merges=True)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = split()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(ROLES)
    bounds = [(name, tokenizer.token_to_id(name)) for name in ROLES[:2]]
    template = processors.TemplateProcessing(
        single=f"{ROLES[0]} $A {ROLES[1]}", pair=f"{ROLES[0]} $A {ROLES[1]} $B {ROLES[1]}", special_tokens=bounds
    )
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    tokenizer.encode_special_tokens = True
    return tokenizer


def read(theirs, folder, change=lambda values: None):
    values = json.loads(theirs.to_str())
    change(values)
    (folder / "tokenizer.json").write_text(json.dumps(values))
    (folder / "tokenizer_config.json").write_text(json.dumps(SETTINGS))
    return load_vocabulary(folder)


@pytest.fixture(scope="module")
def ours(theirs, tmp_path_factory):
    return read(theirs, tmp_path_factory.mktemp("tokenizer"))


def random_texts(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    letters = list("ab1½!'.sStTrReElLvV \n\r\t\u3000\u0085字") + ["ſ", "\u0301", " ", "\n", "'", "'", "zzz"]
    return ["".join(rng.choices(letters, k=rng.randrange(12))) for _ in range(count)]


def test_it_is_the_tokenizer_of_hugging_face(ours, theirs, tmp_path):
    texts = [*TEXTS, *random_texts(2, 2000), *texts_of(3, 300), "a zzz", "zzz", " zzzz"]
    assert_is_the_tokenizer_of(theirs, ours, texts, tmp_path)
    written = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert written.encode("the fox").ids == theirs.encode("the fox").ids


def test_a_word_that_is_a_token_stays_whole(ours):
    assert ours.tokenize("a zzz") == ["a", "Ġzzz"]
    assert ours.ids["Ġzzz"] in ours.text_ids()
    assert ours.with_tokens({"<unused_row_1>": len(ours)}).text_ids() == ours.text_ids()
    assert ours.graph().tokenize(["a zzz"]).to_list() == [ours.encode("a zzz")]


def test_the_first_and_the_last_token_of_a_row_are_those_of_a_text(ours):
    special = ours.special_tokens
    assert (special.cls, special.sep, special.pad, special.mask) == tuple(ROLES)
    assert (special.unk, special.separators(2)) == ("<|pad|>", (1, 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values["pre_tokenizer"]["pretokenizers"][0]["pattern"].update(Regex=r"\s+"), r"Llama 3's"),
        (lambda values: values["pre_tokenizer"]["pretokenizers"][0].update(invert=True), r"'invert': True"),
        (lambda values: values["pre_tokenizer"]["pretokenizers"][1].update(use_regex=True), "use_regex True"),
        (lambda values: values["pre_tokenizer"]["pretokenizers"][1].update(add_prefix_space=True), "add_prefix_space"),
        (lambda values: values["pre_tokenizer"]["pretokenizers"].pop(), "pre_tokenizer is 'Split'. Only ByteLevel"),
    ],
)
def test_other_words_are_refused_by_name(theirs, tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        read(theirs, tmp_path, change)
