"""Byte-fallback BPE, as in Gemma: files of Hugging Face tokenizers, the graph against Python."""

import json
import random

import numpy as np
import pytest
import tensorflow as tf
from places import TESTS
from recorded_folders import recorded_folder
from tokenization.test_byte_pair import texts_of
from tokenizer_comparison import assert_is_the_tokenizer_of, graph_differences
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from keras_bert import BertConfig, InputError, SequenceClassifier, load_vocabulary
from keras_bert.serving import load
from keras_bert.tokenization.byte_fallback import ByteFallbackTokenizer
from keras_bert.tokenization.graph_byte_pair import as_arrays, ranks_before_earlier

ROLES = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
BYTES = [f"<0x{value:02X}>" for value in range(256)]
SENTENCES = [
    "The quick brown foxes aren't quicker than 字字字 or naïve dogs.\n\n",
    "<b>bold</b> <i>text</i>  a   b    c aaaaaa",
    "abab abc abcab bcabc cabab bcbc ▁ ▁▁",
]
TEXTS = [
    *("", " ", "   ", "▁", " ▁ ", "a ▁ b", "the  quick", "\n\n\n", "<b> <b>", "a> </b>", "a<unused0>b", "☃ é e\u0301"),
    *("<mask> <bos>", "a\x00b", "\ufffd \ufffd", "😀👩‍👩‍👧", "字字" * 50, "ab" * 100, "=" * 300),
]


def trained(crosses_spaces: bool) -> Tokenizer:
    """Returns a tokenizer of `tokenizers` in the form of Gemma's tokenizer.json.

    Its merges are all pairs that make a token, in the order of the tokens, as converters of SentencePiece's models
    write them.
    """
    learner = Tokenizer(models.BPE())
    learner.normalizer = normalizers.Replace(" ", "▁")
    if not crosses_spaces:
        learner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    learner.train_from_iterator(SENTENCES * 20, trainers.BpeTrainer(vocab_size=220, show_progress=False))
    learnt = sorted(learner.get_vocab(), key=lambda token: (len(token) == 1, learner.token_to_id(token)))
    ids = {token: number for number, token in enumerate([*ROLES, "<unused0>", *BYTES, *learnt])}
    merges = [
        (token[:place], token[place:])
        for token in learnt
        for place in range(1, len(token))
        if token[:place] in ids and token[place:] in ids
    ]
    tokenizer = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>", pair="<bos> $A <eos> $B:1 <eos>:1", special_tokens=[("<bos>", 2), ("<eos>", 1)]
    )
    tokenizer.add_special_tokens(ROLES)
    tokenizer.add_tokens([AddedToken("<unused0>", normalized=False), AddedToken("▁▁▁", normalized=False)])
    tokenizer.encode_special_tokens = True
    return tokenizer


@pytest.fixture(scope="module", params=[False, True], ids=["words", "tokens across spaces"])
def theirs(request):
    return trained(request.param)


@pytest.fixture(scope="module")
def ours(theirs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    theirs.save(str(folder / "tokenizer.json"))
    return load_vocabulary(folder)


def random_texts(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    letters = ["a", "b", "c", " ", "  ", "▁", "<", ">", "/", "b>", "字", "é", "e\u0301", "\n", "😀", "<unused0>", "▁▁▁"]
    return ["".join(rng.choices(letters, k=rng.randrange(30))) for _ in range(count)]


def test_it_is_the_tokenizer_of_hugging_face(ours, theirs, tmp_path):
    assert isinstance(ours, ByteFallbackTokenizer)
    assert_is_the_tokenizer_of(theirs, ours, [*TEXTS, *SENTENCES, *random_texts(1, 1000), *texts_of(2, 300)], tmp_path)
    written = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert written.encode("a b", "c").ids == theirs.encode("a b", "c").ids
    assert written.decode(theirs.encode("the ☃ b").ids) == theirs.decode(theirs.encode("the ☃ b").ids)


def test_a_merge_that_makes_room_for_an_earlier_one_lets_it_come_first():
    merges = [("ab", "a"), ("a", "b"), ("aba", "b")]
    tokens = [*BYTES, *ROLES, "▁", "a", "b", "ab", "aba", "abab"]
    tokenizer = ByteFallbackTokenizer({token: number for number, token in enumerate(tokens)}, merges)
    assert ranks_before_earlier(as_arrays(tokenizer.pairs)).tolist() == [1]
    assert tokenizer.tokenize("ababab") == ["abab", "ab"]
    assert graph_differences(tokenizer, ["ababab", "aabab", "ab" * 9, "babaab a bab"]) == []


def test_a_long_word_takes_few_rounds_although_a_merge_could_make_room_for_an_earlier_one(monkeypatch):
    merges = [("th", "x"), ("t", "h"), ("th", "e")]
    ids = {token: number for number, token in enumerate([*BYTES, *ROLES, *"▁thex", "th", "the", "thx"])}
    tokenizer = ByteFallbackTokenizer(ids, merges)
    assert ranks_before_earlier(as_arrays(tokenizer.pairs)).tolist() == [1]
    graph, rounds = tokenizer.graph(), []
    join = graph._join_best_pairs
    monkeypatch.setattr(graph, "_join_best_pairs", lambda *state: rounds.append(1) or join(*state))
    words = ["the" * 500, "thethxtheththxx" * 3]
    assert graph.tokenize(words).to_list() == [tokenizer.encode(word) for word in words]
    assert len(rounds) < 15


@pytest.mark.slow
def test_the_graph_may_be_made_inside_of_a_function():
    ids = {token: number for number, token in enumerate([*BYTES, *ROLES, *"▁the", "th", "the"])}
    tokenizer = ByteFallbackTokenizer(ids, [("t", "h"), ("th", "e")])
    found = tf.function(lambda texts: tokenizer.graph().tokenize(texts))(tf.constant(["the th", "☃"]))
    assert found.to_list() == [tokenizer.encode("the th"), tokenizer.encode("☃")]


@pytest.mark.parametrize("seed", range(4))
def test_merges_may_be_in_any_order(seed):
    rng = random.Random(seed)
    joined = sorted({"".join(rng.choices("abc", k=rng.randrange(2, 6))) for _ in range(60)})
    ids = {token: number for number, token in enumerate([*BYTES, *ROLES, "▁", "a", "b", "c", *joined])}
    places = [(token, place) for token in joined for place in range(1, len(token))]
    merges = [(token[:place], token[place:]) for token, place in places]
    merges = [pair for pair in merges if ids.keys() >= {*pair}]
    rng.shuffle(merges)
    tokenizer = ByteFallbackTokenizer(ids, merges)
    assert ranks_before_earlier(as_arrays(tokenizer.pairs)).size
    texts = ["".join(rng.choices("abc", k=rng.randrange(40))) for _ in range(300)]
    assert graph_differences(tokenizer, texts) == []


def test_words_have_the_space_before_them_in_python_and_in_the_graph(ours):
    words = ["fox", " fox", "", "字", "<unused0>"]
    assert ours.graph().tokenize_words(words).to_list() == [ours.encode_word(word) for word in words]
    assert ours.encode_word("fox") == ours.encode(" fox")


def test_invalid_bytes_are_tokens_of_bytes(ours):
    texts = [b"\xff a\xe2\x96 b\xed\xa0\x80", b"a\xe2\x96\x81\xf0\x9f", b"\xef\xbf\xbd\xef\xbf"]
    assert ours.tokenize(b"\xe2\x96a") == ["<0xE2>", "<0x96>", "a"]
    ids, starts, ends = (part.to_list() for part in ours.graph().tokenize_with_offsets(texts))
    assert ids == [ours.encode(text) for text in texts]
    assert [text[start:end] for text, start, end in zip(texts, starts[0], ends[0], strict=False)][0] == b"\xff"
    assert (starts[2][-1], ends[2][-1]) == (4, 5)


def test_offsets_leave_spaces_out_and_cover_whole_characters():
    tokens = [*BYTES, *ROLES, "▁", "a", "▁a", "▁▁"]
    ids = {token: number for number, token in enumerate(tokens)}
    tokenizer = ByteFallbackTokenizer(ids, [("▁", "a"), ("▁", "▁")])
    assert tokenizer.tokenize(" a☃  ") == ["▁a", "<0xE2>", "<0x98>", "<0x83>", "▁▁"]
    assert tokenizer.tokenize_with_offsets(" a☃  ")[1:] == ([1, 2, 2, 2, 5], [2, 3, 3, 3, 5])
    assert tokenizer.tokenize_with_offsets("▁a")[1:] == ([0], [2])  # a ▁ of the text is no space
    assert graph_differences(tokenizer, [" a☃  ", "▁a", " ▁a"]) == []


def test_ids_become_text_again(ours):
    for text in ("The quick  ☃\n", "字 <unused0> naïve"):
        assert ours.decode(ours.encode(text)) == text


def test_texts_contain_characters_bytes_and_added_tokens_but_no_roles(ours):
    tokens = {ours.tokens[number] for number in ours.text_ids()}
    assert {"a", "<0x00>", "<unused0>", "▁the"} - tokens <= {"▁the"}
    assert tokens.isdisjoint(ROLES)


def change(theirs, folder, change_values):
    values = json.loads(theirs.to_str())
    change_values(values)
    (folder / "tokenizer.json").write_text(json.dumps(values))
    return folder


@pytest.mark.parametrize(
    ("change_values", "message"),
    [
        (lambda values: values.update(normalizer=None), "Gemma's steps only"),
        (lambda values: values["model"].update(ignore_merges=True), "ignore_merges True"),
        (lambda values: values.update(pre_tokenizer={"type": "Whitespace"}), "Whitespace"),
        (lambda values: values["model"]["merges"].append(["<0x41>", "<0x42>"]), "<0x41><0x42>"),
        (lambda values: values["post_processor"].update(pair=values["post_processor"]["single"]), "post_processor"),
    ],
)
def test_other_steps_are_refused_by_name(theirs, tmp_path, change_values, message):
    with pytest.raises(InputError, match=message):
        load_vocabulary(change(theirs, tmp_path, change_values))


def test_a_vocabulary_without_all_bytes_is_refused(ours):
    ids = {token: number for number, token in enumerate(token for token in ours.tokens if token != "<0x41>")}
    with pytest.raises(InputError, match=r"no token for 1 of the 256 bytes, such as '<0x41>'. Byte-fallback BPE"):
        ByteFallbackTokenizer(ids, ours.merges, ours.special_tokens, ours.added_tokens)


@pytest.mark.parametrize("folder", ["gemma", "gemma-as-GemmaTokenizer"])
def test_recorded_ids_of_gemma(folder):
    recorded = json.loads((TESTS / "family_golden" / "examples.json").read_text())["tokenizers/gemma"]
    tokenizer = load_vocabulary(recorded_folder("tokenizers", folder))
    # Special tokens with a role are text here.
    plain = [
        (text, ids)
        for text, ids in zip(recorded["texts"], recorded["ids"], strict=True)
        if not any(role in text for role in ROLES)
    ]
    assert len(plain) >= len(recorded["texts"]) - 3
    for text, ids in plain:
        assert tokenizer.encode(text) == ids, text
    for pair in recorded["pairs"]:
        first, second = map(tokenizer.encode, pair["texts"])
        assert [tokenizer.cls_id, *first, tokenizer.sep_id, *second, tokenizer.sep_id] == pair["ids"]
    assert tokenizer.tokenize("a ") + ["<mask>"] + tokenizer.tokenize(" b") == ["a", "▁", "<mask>", "▁b"]
    assert graph_differences(tokenizer, recorded["texts"]) == []


def test_the_graph_equals_python_on_running_text(shared_data):
    tokenizer = load_vocabulary(recorded_folder("tokenizers", "gemma"))
    file = sorted(path for path in shared_data("corpus").rglob("*.txt"))[0]
    texts = file.read_text("utf-8", "ignore")[:200_000].splitlines()
    assert graph_differences(tokenizer, texts) == []


@pytest.mark.parametrize("format", ["onnx", pytest.param("saved_model", marks=pytest.mark.slow)])
def test_exports_take_texts(ours, format, tmp_path):
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = BertConfig.from_size("modernbert-base", vocab_size=len(ours), max_position_embeddings=32, **shape)
    model = SequenceClassifier(config, labels=["no", "yes"])
    model.vocabulary = ours
    draw = np.random.default_rng(0).normal
    model.set_weights([draw(scale=0.4, size=weight.shape) for weight in model.get_weights()])
    texts = ["The quick ☃  <unused0>", "naïve 字"]
    model.export_for_serving(tmp_path / "1", format=format)
    found, expected = (
        [answer.probability for answer in predictor.predict(texts)] for predictor in (load(tmp_path / "1"), model)
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)
