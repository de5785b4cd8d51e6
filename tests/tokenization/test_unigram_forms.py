"""Tokenizers of XLM-RoBERTa, CamemBERT and DeBERTa: ids of SentencePiece in the order of each class of Hugging Face."""

import dataclasses
import gzip
import json
import pickle
import random
import re

import pytest
from places import TESTS
from recorded_folders import recorded_folder
from sentence_piece_checks import graph_differences, is_tie, texts_of
from sentencepiece import SentencePieceProcessor
from tiny_families import sentence_pieces
from tokenizers import Tokenizer

from keras_bert import InputError, SentencePieceTokenizer, load_vocabulary
from keras_bert.tokenization.added_tokens import AddedToken
from keras_bert.tokenization.sentence_piece_forms import CAMEMBERT, DEBERTA, XLM_ROBERTA
from keras_bert.tokenization.sentence_piece_model import CONTROL, NORMAL, UNKNOWN, Piece, SentencePieceModel

FOLDERS = {
    "xlm-roberta": ("xlm_roberta", "transformers 5, both files"),
    "xlm-roberta-model-only": ("xlm_roberta", "transformers 5, model file only"),
    "xlm-roberta-v5": ("xlm_roberta", "transformers 5, its own file"),
    "camembert": ("camembert", ""),
    "camembert-v5": ("camembert", ""),
    "deberta-v2": ("deberta", "sentencepiece"),
    "deberta-v2-v4-file": ("deberta", "sentencepiece"),
    "deberta-v2-v5": ("deberta", "transformers 5, its own file"),
}
MODELS = ("xlm-roberta", "camembert", "deberta-v2")
ROLES = re.compile(r"<s>|</s>|<pad>|<unk>|<mask>|\[MASK\]|\[CLS\]|\[SEP\]")
WORDS = ("▁the", "▁", ",", "2010,", "é", "É", "e", "▁dog", "s", "▁Dog", "a", "b", "▁a", "▁b")
FORMS = {"xlm-roberta": XLM_ROBERTA, "camembert": CAMEMBERT, "deberta": DEBERTA}


def tiny_model(form, words=WORDS):
    names = ("[PAD]", "[CLS]", "[SEP]", "[UNK]") if form == DEBERTA else ("<unk>", "<s>", "</s>")
    first = (Piece(name, 0.0, UNKNOWN if name in ("[UNK]", "<unk>") else CONTROL) for name in names)
    pieces = (*first, *(Piece(word, -1.0 - number / 8, NORMAL) for number, word in enumerate(words)))
    return SentencePieceModel(pieces, b"").to_bytes()


def tiny(form, **settings):
    keeps = {"do_lower_case": False, **settings}
    return SentencePieceTokenizer(tiny_model(form), form.special_tokens, form=form, **keeps)


def tokenizer_json(tokenizer, **changes):
    """The file of a tokenizer of XLM-RoBERTa or DeBERTa, shortened."""
    model = SentencePieceModel.from_bytes(tokenizer.effective_model)
    splitters = [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}]
    return {
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": splitters},
        "model": {
            "type": "Unigram",
            "unk_id": tokenizer.unk_id,
            "vocab": [[piece.text, piece.score] for piece in model.pieces],
        },
    } | changes


def write(folder, values, **settings):
    (folder / "tokenizer.json").write_text(json.dumps(values))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def row(tokenizer, texts):
    special = tokenizer.special_tokens
    ids = [tokenizer.cls_id]
    for text, count in zip(texts, special.separators(len(texts)), strict=True):
        ids += [*tokenizer.encode(text), *[tokenizer.sep_id] * count]
    return ids


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_gives_the_recorded_ids(name):
    """Special tokens with a role are ordinary text here. Decomposed texts and a literal ▁ follow SentencePiece, but in
    a file of transformers 5 for DeBERTa."""
    key, source = FOLDERS[name]
    tokenizer = load_vocabulary(recorded_folder("tokenizers", name))
    recorded = json.loads((TESTS / "family_golden" / "examples.json").read_text("utf-8"))[f"tokenizers/{key}"]
    others = recorded["different"].get(source, {})
    for number, (text, ids) in enumerate(zip(recorded["texts"], recorded["ids"], strict=True)):
        follows_model = name != "deberta-v2-v5" and text.startswith(("▁", "Vi"))
        expected = ids if follows_model else others.get(str(number), ids)
        if not ROLES.search(text) and not (follows_model and text.startswith("Vi")):
            assert tokenizer.encode(text) == expected, text
    for pair in recorded["pairs"]:
        # The files of transformers 5 drop the rules of DeBERTa's model.
        if name != "deberta-v2-v5" or "Ⅷ ① ½ ㎏ ™ №" not in pair["texts"]:
            assert row(tokenizer, pair["texts"]) == pair["ids"]


def their_ids(tokenizer, texts):
    processor = SentencePieceProcessor(model_proto=tokenizer.model)
    pieces = [piece.text for piece in SentencePieceModel.from_bytes(tokenizer.model).pieces]
    ids = [tokenizer.ids[piece] for piece in pieces]
    return [[ids[number] for number in row] for row in processor.encode(texts)]


def different_ids(tokenizer, texts):
    expected = zip(texts, their_ids(tokenizer, texts), strict=True)
    return [text for text, ids in expected if tokenizer.encode(text) != ids]


@pytest.mark.parametrize("name", MODELS)
def test_ids_equal_sentencepiece_and_the_graph_equals_python(name):
    tokenizer = load_vocabulary(recorded_folder("tokenizers", name))
    texts = texts_of(15, 400)
    assert different_ids(tokenizer, texts) == []
    assert graph_differences(tokenizer, texts[::4]) == []
    assert tokenizer.divided == {}, "a digit and a comma stay together"


@pytest.mark.slow
def test_the_real_pieces_of_xlm_roberta_on_wikipedia(shared_data, tmp_path):
    model = gzip.decompress(shared_data("family2", "vocab", "xlmr-rebuilt.model.gz").read_bytes())
    (tmp_path / "sentencepiece.bpe.model").write_bytes(model)
    tokenizer = load_vocabulary(tmp_path)
    assert (len(tokenizer), tokenizer.mask_id) == (250_002, 250_001)
    assert row(tokenizer, ["Hello world!"]) == [0, 35378, 8999, 38, 2]
    paragraphs = shared_data("corpus", "wikipedia_articles.txt").read_text("utf-8").split("\n")[::4]
    assert different_ids(tokenizer, paragraphs) == []
    graph = tokenizer.graph().tokenize(paragraphs).to_list()
    pairs = [(tokenizer.encode(text), ids) for text, ids in zip(paragraphs, graph, strict=True)]
    assert all(is_tie(tokenizer, *pair) for pair in pairs if pair[0] != pair[1])


@pytest.mark.parametrize("name", FORMS)
def test_added_tokens_keep_their_ids_in_front_of_rows_without_a_token(name, tmp_path):
    added = (AddedToken("<e1>", normalized=False, special=True), AddedToken("zed", normalized=False))
    plain = tiny(FORMS[name], added_tokens=added)
    padded = plain.with_spare_rows(len(plain) + 5)
    assert padded.tokens[: len(plain)] == plain.tokens
    assert padded.tokens[len(plain) :] == tuple(f"<unused_row_{len(plain) + number}>" for number in range(5))
    texts = ["a zed<e1>b", "the zed zed", "<unused_row_3> a"]
    assert [padded.encode(text) for text in texts] == [plain.encode(text) for text in texts]
    assert graph_differences(padded, texts) == []
    assert padded.text_ids() == plain.text_ids()
    padded.save(tmp_path)
    again = load_vocabulary(tmp_path)
    assert (again.tokens, again.sha256) == (padded.tokens, padded.sha256)
    assert [again.encode(text) for text in texts] == [plain.encode(text) for text in texts]
    assert padded.without_spare_rows().tokens == plain.tokens


def test_each_class_has_its_own_order_of_ids():
    tokens = {name: tiny(form).tokens for name, form in FORMS.items()}
    assert tokens["xlm-roberta"] == ("<s>", "<pad>", "</s>", "<unk>", *WORDS, "<mask>")
    first = ("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>", "▁the")
    assert (tokens["camembert"][:8], tokens["camembert"][-1]) == (first, "<mask>")
    assert tokens["deberta"] == ("[PAD]", "[CLS]", "[SEP]", "[UNK]", *WORDS, "[MASK]")


@pytest.mark.parametrize("name", FORMS)
def test_a_mask_or_another_special_name_in_a_text_is_ordinary_text(name):
    tokenizer = tiny(FORMS[name])
    found = {number for token in tokenizer.special_tokens.names for number in tokenizer.encode(f"a{token} b")}
    assert not found & ({*map(tokenizer.ids.get, tokenizer.special_tokens.names)} - {tokenizer.unk_id})
    assert graph_differences(tokenizer, [f"a{token} b" for token in tokenizer.tokens]) == []


@pytest.mark.parametrize("name", FORMS)
def test_a_word_begins_behind_an_added_token(name):
    tokenizer = tiny(FORMS[name], added_tokens=(AddedToken("<e1>", normalized=False, special=True),))
    assert tokenizer.tokenize("a<e1>b") == ["▁a", "<e1>", "▁b"]
    assert tokenizer.ids["<e1>"] == tokenizer.mask_id + 1
    assert graph_differences(tokenizer, ["a<e1>b", "<e1>", "a <e1> é2010,"]) == []


@pytest.mark.parametrize("name", FORMS)
def test_files_and_pickles_give_the_tokenizer_back(name, tmp_path):
    tokenizer = tiny(FORMS[name], added_tokens=(AddedToken("<e1>", normalized=False, special=True),))
    tokenizer.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {tokenizer.form.model_file, "tokenizer_config.json"}
    for again in (load_vocabulary(tmp_path), SentencePieceTokenizer.from_folder(tmp_path), copy_of(tokenizer)):
        assert (again.sha256, again.tokens, again.form) == (tokenizer.sha256, tokenizer.tokens, tokenizer.form)
        assert again.special_tokens == tokenizer.special_tokens
        assert again.encode("the dogs a<e1>b") == tokenizer.encode("the dogs a<e1>b")


def copy_of(tokenizer):
    return pickle.loads(pickle.dumps(tokenizer))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("its_class", [True, False])
def test_a_tokenizer_json_gives_the_tokenizer_of_the_model_file(name, its_class, tmp_path):
    expected = tiny(FORMS[name])
    settings = {"tokenizer_class": expected.form.tokenizer_class if its_class else "PreTrainedTokenizerFast"}
    found = load_vocabulary(write(tmp_path, tokenizer_json(expected), **settings))
    assert (found.tokens, found.special_tokens, found.form) == (expected.tokens, expected.special_tokens, expected.form)
    assert [piece.text for piece in SentencePieceModel.from_bytes(found.model).pieces] == [
        piece.text for piece in SentencePieceModel.from_bytes(expected.model).pieces
    ]
    assert found.encode("the dog's é2010,") == expected.encode("the dog's é2010,")


@pytest.mark.parametrize(("model_type", "form"), [("camembert", CAMEMBERT), ("xlm-roberta", XLM_ROBERTA)])
def test_the_family_of_the_model_tells_the_class_if_no_file_states_it(model_type, form, tmp_path):
    (tmp_path / form.model_file).write_bytes(tiny_model(form))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    assert load_vocabulary(tmp_path).form == form


@pytest.mark.parametrize(("model_type", "lower_case"), [("albert", True), ("big_bird", False), ("bert", True)])
def test_the_default_of_lower_case_is_that_of_the_model_s_class(model_type, lower_case, tmp_path):
    sentence_pieces().save(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    assert load_vocabulary(tmp_path).do_lower_case == lower_case


# The steps that transformers 5.24.0 writes for a DeBERTa.
DEBERTAS_STEPS = [
    {"type": "Replace", "pattern": {"Regex": r"\s{2,}|[\n\r\t]"}, "content": " "},
    {"type": "NFC"},
    {"type": "Strip", "strip_left": False, "strip_right": True},
]
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}


@pytest.mark.parametrize("lower_case", [False, True])
def test_white_space_and_the_mark_of_spaces_are_tokenizers_in_deberta_s_file(lower_case, tmp_path):
    """tokenizers is the reference. Single white space stays, but " ", tab and line ends; so does ▁."""
    steps = [{"type": "Lowercase"}] * lower_case + DEBERTAS_STEPS
    values = tokenizer_json(tiny(DEBERTA), normalizer={"type": "Sequence", "normalizers": steps})
    values |= {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [METASPACE]}, "added_tokens": []}
    values["model"]["vocab"] = [*values["model"]["vocab"][:-1], ["\u3000", -2.0], ["▁\u00a0", -2.5], ["[MASK]", 0.0]]
    theirs = Tokenizer.from_str(json.dumps({"version": "1.0", **values}))
    settings = {"tokenizer_class": "DebertaV2Tokenizer", "do_lower_case": lower_case}
    ours = load_vocabulary(write(tmp_path, values, **settings))
    spaces = " \t\n\r\v\x85\u00a0\u1680\u2000\u2009\u202f\u205f\u3000\u2028"
    texts = ["", "▁", " ▁", "▁ ", "▁▁", "▁a", "a▁b", "a ▁ b", "a▁", "a ▁", *spaces, *(2 * space for space in spaces)]
    texts += [f"{a}a{space}{b}" for space in spaces for a in ("", space) for b in ("", space, "b", "▁b", f"{space} b")]
    rng = random.Random(0)
    parts = ["a", "b", "the", "Dog", "é", "e\u0301", "\x1f", "▁", *spaces]
    texts += ["".join(rng.choices(parts, k=rng.randrange(9))) for _ in range(1000)]
    expected = [encoding.ids for encoding in theirs.encode_batch(texts, add_special_tokens=False)]
    assert [ours.encode(text) for text in texts] == expected
    assert graph_differences(ours, texts) == []
    ours.save(tmp_path)  # an spm.model
    (tmp_path / "tokenizer.json").unlink()
    again = load_vocabulary(tmp_path)
    assert (again.sha256, [again.encode(text) for text in texts]) == (ours.sha256, expected)


def test_deberta_in_lower_case_keeps_accents(tmp_path):
    tokenizer = tiny(DEBERTA, do_lower_case=True)
    assert tokenizer.tokenize("The DOGS É") == ["▁the", "▁dog", "s", "▁", "é"]
    assert graph_differences(tokenizer, ["The DOGS É", "İx ÀÉ"]) == []
    tokenizer.save(tmp_path)
    assert load_vocabulary(tmp_path).sha256 == tokenizer.sha256
    plain = write(tmp_path, tokenizer_json(tiny(DEBERTA), normalizer={"type": "Lowercase"}))
    (tmp_path / "spm.model").unlink()
    assert load_vocabulary(plain).encode("The DOGS É") == tokenizer.encode("The DOGS É")


@pytest.mark.parametrize("content", [" ", "▁"])
def test_steps_that_remove_spaces_change_nothing(tmp_path, content):
    """BigBird's file of transformers 5 and XLM-RoBERTa's of transformers 4.57 have such steps."""
    steps = [
        {"type": "Strip", "strip_left": False, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": content},
    ]
    values = tokenizer_json(tiny(XLM_ROBERTA), normalizer={"type": "Sequence", "normalizers": steps})
    assert load_vocabulary(write(tmp_path, values)).encode("  the  dogs ") == tiny(XLM_ROBERTA).encode("the dogs")


def test_rows_of_the_file_must_be_those_of_the_class(tmp_path):
    processor = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}
    tokenizer = tiny(XLM_ROBERTA)
    load_vocabulary(write(tmp_path, tokenizer_json(tokenizer, post_processor=processor)))
    with pytest.raises(InputError, match="Supported are those of this kind of model: <s> A </s> and <s> A </s> </s> B"):
        load_vocabulary(
            write(tmp_path, tokenizer_json(tokenizer, post_processor=processor | {"type": "BertProcessing"}))
        )


def merging(form):
    model = SentencePieceModel.from_bytes(tiny_model(form))
    return dataclasses.replace(model, trainer=b"\x18\x02").to_bytes()


@pytest.mark.parametrize(
    ("data", "form", "message"),
    [
        (merging(XLM_ROBERTA), XLM_ROBERTA, "model is BPE, but a XLMRobertaTokenizer has a unigram model"),
        (merging(DEBERTA), DEBERTA, "model is BPE, but a DebertaV2Tokenizer has a unigram model"),
        (tiny_model(DEBERTA), XLM_ROBERTA, r"begin with <unk> <s> </s>.* Received: '\[PAD\] \[CLS\] \[SEP\]'"),
        (tiny_model(XLM_ROBERTA), DEBERTA, r"\[CLS\] \[SEP\] .*missing"),
        (tiny_model(CAMEMBERT, ("<s>NOTUSED", "a")), CAMEMBERT, "<s>NOTUSED, which a CamembertTokenizer has in front"),
        (tiny_model(XLM_ROBERTA)[:-3], XLM_ROBERTA, "is not a SentencePiece model, or it is damaged"),
    ],
    ids=["BPE", "BPE of DeBERTa", "DeBERTa's", "XLM-RoBERTa's", "twice", "damaged"],
)
def test_a_model_of_another_kind_is_refused_by_its_file(data, form, message, tmp_path):
    (tmp_path / form.model_file).write_bytes(data)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": form.tokenizer_class}))
    with pytest.raises(InputError, match=f"{form.model_file}: .*{message}"):
        load_vocabulary(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("added_tokens.json", {"[MASK]": 99}, r"\[MASK\]. has the id 99, but it is token 18 of the vocabulary"),
        ("tokenizer.json", tokenizer_json(tiny(XLM_ROBERTA)), "has other tokens than .*spm.model"),
        ("tokenizer_config.json", {"split_by_punct": True}, "split_by_punct is True, which would change the results"),
        ("tokenizer_config.json", {"tokenizer_class": "XLMRobertaTokenizer"}, "begin with <unk> <s> </s>"),
        ("tokenizer_config.json", {"tokenizer_class": "T5Tokenizer"}, "tokenizer_class is 'T5Tokenizer'"),
    ],
)
def test_files_that_disagree_are_refused(name, content, message, tmp_path):
    tiny(DEBERTA).save(tmp_path)
    (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        load_vocabulary(tmp_path)


@pytest.mark.parametrize(
    ("form", "changes", "message"),
    [
        (XLM_ROBERTA, {"normalizer": {"type": "NFC"}}, "the normalizer has the steps .'NFC'"),
        (XLM_ROBERTA, {"normalizer": {"type": "Lowercase"}}, "the normalizer has the steps .'Lowercase'"),
        (DEBERTA, {"normalizer": {"type": "StripAccents"}}, "the normalizer has the steps .'StripAccents'"),
        (DEBERTA, {"pre_tokenizer": {"type": "Punctuation"}}, "pre_tokenizer is .'Punctuation'"),
    ],
)
def test_another_tokenizer_json_is_refused_by_its_part(form, changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        load_vocabulary(write(tmp_path, tokenizer_json(tiny(form), **changes)))


def test_settings_that_a_class_does_not_have_are_refused():
    with pytest.raises(InputError, match="A XLMRobertaTokenizer keeps capitals. Set do_lower_case to False"):
        tiny(XLM_ROBERTA, do_lower_case=True)
    with pytest.raises(InputError, match="A DebertaV2Tokenizer keeps accents. Set keep_accents to True"):
        tiny(DEBERTA, keep_accents=False)
