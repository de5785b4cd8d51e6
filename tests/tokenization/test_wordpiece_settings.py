"""Case, accents and Chinese characters as settings of WordPiece, in Python and in the graph, against tokenizers."""

import itertools
import json
import pickle
import random

import pytest
import tiny
from tiny_families import VOCABULARIES
from tokenizer_comparison import assert_ids_of, graph_differences
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from keras_bert import InputError, Vocabulary, WordPieceTokenizer, load_vocabulary
from keras_bert.tokenization.added_tokens import AddedToken
from keras_bert.tokenization.kinds import as_tokenizer
from keras_bert.tokenization.tokenizer import MPNET_SPECIAL_TOKENS
from keras_bert.tokenization.wordpiece_files import read_word_piece

LETTERS = "aAbBeE\u00e9\u00c9e\u00fc\u00dc\u0301\u0307i\u0130\u5b57\u4e2d\u3042\uac00\u1100\u1161."
PIECES = [*dict.fromkeys(LETTERS)]
TOKENS = [*tiny.SPECIAL_TOKENS, *tiny.pieces(PIECES), "\u5b57\u4e2d", "##\u5b57\u4e2d", "the", "\u00e9\u00e9"]
SETTINGS = [*itertools.product([True, False], [None, True, False], [True, False])]


def their_tokenizer(lower_case, strip_accents, chinese_chars) -> Tokenizer:
    ids = {token: number for number, token in enumerate(TOKENS)}
    theirs = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    theirs.normalizer = normalizers.BertNormalizer(True, chinese_chars, strip_accents, lower_case)
    theirs.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return theirs


def random_texts(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    parts = [*LETTERS, " ", "the", "THE", "\u200b", "\t", "\u5b57\u4e2d", "\u00e9\u00e9"]
    return ["".join(rng.choices(parts, k=rng.randrange(12))) for _ in range(count)]


@pytest.mark.parametrize(("lower_case", "strip_accents", "chinese_chars"), SETTINGS)
def test_every_setting_gives_the_tokens_of_hugging_face_in_python(lower_case, strip_accents, chinese_chars):
    ours = WordPieceTokenizer(Vocabulary(TOKENS), lower_case, strip_accents, chinese_chars)
    theirs = their_tokenizer(lower_case, strip_accents, chinese_chars)
    texts = random_texts(1, 500)
    assert_ids_of(theirs, ours, texts)
    assert pickle.loads(pickle.dumps(ours)).encode(texts[0]) == ours.encode(texts[0])


@pytest.mark.parametrize("core_operations", [False, True])
@pytest.mark.parametrize(
    ("lower_case", "strip_accents", "chinese_chars"),
    [(True, False, True), (False, True, True), (True, None, False), (False, None, False)],
)
def test_the_graph_has_the_same_settings(lower_case, strip_accents, chinese_chars, core_operations):
    ours = WordPieceTokenizer(Vocabulary(TOKENS), lower_case, strip_accents, chinese_chars)
    assert graph_differences(ours, random_texts(2, 200), core_operations) == []


def test_settings_and_added_tokens_are_written_and_read(tmp_path):
    vocabulary = Vocabulary(
        [*TOKENS, "[E1]", "co-vid"], False, False, [AddedToken("[E1]", normalized=False), AddedToken("co-vid")]
    )
    as_tokenizer(vocabulary, True).save(tmp_path)
    for path in (tmp_path, tmp_path / "vocab.txt"):
        again = load_vocabulary(path)
        assert (again, again.sha256) == (vocabulary, vocabulary.sha256)
    plain = Vocabulary(vocabulary.tokens)
    assert len({plain.sha256, plain.replace(strip_accents=False).sha256, vocabulary.sha256}) == 3
    (tmp_path / "plain").mkdir()
    as_tokenizer(plain, True).save(tmp_path / "plain")
    assert [path.name for path in (tmp_path / "plain").iterdir()] == ["vocab.txt"]
    assert vocabulary.replace(tokens=(*vocabulary.tokens, "more")).begins_with(vocabulary.sha256)
    assert not vocabulary.begins_with(plain.sha256)


def folder_with(tmp_path, settings=None, tokenizer=None):
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS), "utf-8")
    if settings is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    if tokenizer is not None:
        (tmp_path / "tokenizer.json").write_text(json.dumps({**TOKENIZER_JSON, **tokenizer}), "utf-8")
    return tmp_path


def test_the_settings_of_a_bert_tokenizer_come_before_its_tokenizer_json(tmp_path):
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": False, "strip_accents": None}
    assert settings_in(folder_with(tmp_path, settings, {})) == (None, True, False)
    settings |= {"tokenizer_class": "PreTrainedTokenizerFast", "tokenize_chinese_chars": False}
    assert settings_in(folder_with(tmp_path, settings, {}))[1:] == (True, True)


def settings_in(folder, **options):
    tokenizer = read_word_piece(folder, **options)
    vocabulary = tokenizer.vocabulary
    return vocabulary.strip_accents, vocabulary.tokenize_chinese_chars, tokenizer.do_lower_case


def test_the_vocabulary_of_an_mpnet_needs_no_stated_class(tmp_path):
    VOCABULARIES["mpnet"].save(tmp_path / "vocab.txt")
    (tmp_path / "config.json").write_text('{"model_type": "mpnet"}')
    found = load_vocabulary(tmp_path)
    assert (found, found.special_tokens) == (VOCABULARIES["mpnet"], MPNET_SPECIAL_TOKENS)


ALL, NOTHING, DEFAULTS = (True, True, True), (False, False, False), (None, True, True)


@pytest.mark.parametrize(
    ("config", "settings", "in_file", "expected"),
    [
        # strip_accents, tokenize_chinese_chars and do_lower_case as transformers 5.24.0 reads them; so does 4.57.6,
        # which does not know the models of the last three rows.
        ({}, {"tokenizer_class": "BertTokenizer"}, NOTHING, DEFAULTS),
        ({}, {"tokenizer_class": "BertTokenizerFast"}, ALL, DEFAULTS),
        ({}, {"tokenizer_class": "ElectraTokenizer", "do_lower_case": False}, NOTHING, (None, True, False)),
        ({}, {"tokenizer_class": "DistilBertTokenizer", "strip_accents": True}, NOTHING, (True, True, True)),
        ({}, {"tokenizer_class": "MobileBertTokenizer", "tokenize_chinese_chars": False}, ALL, (None, False, True)),
        ({"model_type": "bert"}, {}, NOTHING, DEFAULTS),
        ({"model_type": "distilbert"}, None, NOTHING, DEFAULTS),
        ({"model_type": "bert"}, {"tokenizer_class": "PreTrainedTokenizerFast"}, NOTHING, NOTHING),
        ({"model_type": "bert"}, {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": True}, ALL, ALL),
        ({"model_type": "bert", "tokenizer_class": "PreTrainedTokenizerFast"}, {}, NOTHING, NOTHING),
        ({"model_type": "roberta", "tokenizer_class": "BertTokenizer"}, {}, NOTHING, DEFAULTS),
        ({"model_type": "neobert"}, {"tokenizer_class": "BertTokenizer"}, NOTHING, DEFAULTS),
        ({"model_type": "neobert"}, {}, NOTHING, NOTHING),
        ({}, {}, NOTHING, NOTHING),
        ({"model_type": "new"}, {"do_lower_case": True}, NOTHING, NOTHING),
    ],
)
def test_a_class_fills_what_its_settings_leave_out(config, settings, in_file, expected, tmp_path):
    normalizer = dict(zip(("strip_accents", "handle_chinese_chars", "lowercase"), in_file, strict=True))
    normalizer |= {"type": "BertNormalizer", "clean_text": True}
    folder = folder_with(tmp_path, settings, {"normalizer": normalizer})
    (folder / "config.json").write_text(json.dumps(config))
    assert settings_in(folder) == expected
    assert settings_in(folder, makes_rows=False) == in_file  # sentence-transformers reads one file only


TOKENIZER_JSON = json.loads(their_tokenizer(True, None, True).to_str())


def rows(kind, sep, cls):
    return {"post_processor": {"type": f"{kind}Processing", "sep": [*sep], "cls": [*cls]}}


def changed(part, **changes):
    """The part of a tokenizer.json with these values."""
    return {part: {**TOKENIZER_JSON[part], **changes}}


SWAPPED = TOKENIZER_JSON["model"]["vocab"] | {"the": 0, "[PAD]": TOKENS.index("the")}


@pytest.mark.parametrize(
    ("settings", "tokenizer", "message"),
    [
        ({"surprise": 1}, None, "settings that keras_bert does not know .*'surprise'=1"),
        ({"tokenizer_class": "BertJapaneseTokenizer"}, None, "tokenizer_class is 'BertJapaneseTokenizer', which"),
        ({"never_split": ["a"]}, None, r"never_split is \['a'\], which would change the results. Only \[\] is supp"),
        ({"do_basic_tokenize": False}, None, "do_basic_tokenize is False"),
        ({"cls_token": "<s>"}, None, "<s> missing. A BERT vocabulary must have the tokens <s>"),
        (None, {"normalizer": {"type": "NFC"}}, "the normalizer is .*NFC.* Only BertNormalizer is supported"),
        (None, {"normalizer": None}, "the normalizer is None. Only BertNormalizer"),
        (None, {"pre_tokenizer": {"type": "WhitespaceSplit"}}, "the pre_tokenizer is .*WhitespaceSplit"),
        (None, {"surprise": 1}, "'surprise'=1"),
        (None, rows("Bert", ("[CLS]", 2), ("[SEP]", 3)), r"rows '\[SEP\] A \[CLS\] and .* are .*: \[CLS\] A"),
        (None, rows("Roberta", ("[SEP]", 3), ("[CLS]", 2)), r"the rows .*\[CLS\] A \[SEP\] \[SEP\] B \[SEP\]"),
        (None, rows("Bert", ("[SEP]", 7), ("[CLS]", 2)), r"gives '\[SEP\]' another id than the vocabulary"),
        (None, {"added_tokens": [{"id": 9, "content": "[E1]", "surprise": 1}]}, "entry of added_tokens has settings"),
        (None, {"added_tokens": [{"id": 9, "content": "the"}]}, "'the' has the id 9, but it is token"),
        (None, {"added_tokens": [{"id": 10**8, "content": "[E1]"}]}, "the id 100000000, but the vocabulary has only"),
        ({"added_tokens_decoder": {"x": {"content": "a"}}}, None, "a key of added_tokens_decoder must be an id"),
        (None, changed("normalizer", clean_text=False), "clean_text is False"),
        (None, changed("normalizer", surprise=1), "normalizer has settings"),
        (None, changed("model", max_input_chars_per_word=5), "max_input_chars_per_word is 5"),
        (None, changed("model", continuing_subword_prefix="@@"), "continuing_subword_prefix is '@@'"),
        (None, changed("model", unk_token="[PAD]"), "unk_token is"),
        (None, changed("model", surprise=1), "model has settings"),
        (None, changed("model", vocab=SWAPPED), r"json and vocab\.txt differ: '\[PAD\]' is token 49 of the first"),
    ],
)
def test_a_setting_that_would_change_the_tokens_is_refused_by_name(tmp_path, settings, tokenizer, message):
    with pytest.raises(InputError, match=message):
        load_vocabulary(folder_with(tmp_path, settings, tokenizer))


def test_rows_with_other_segments_are_refused(tmp_path):
    theirs = their_tokenizer(True, None, True)
    special = [("[CLS]", 2), ("[SEP]", 3)]
    rows = "[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]"
    theirs.post_processor = processors.TemplateProcessing(single=rows[0], pair=rows[1], special_tokens=special)
    with pytest.raises(InputError, match="the segments .* Supported are 0 for the first text and 1 for the second"):
        load_vocabulary(folder_with(tmp_path, None, json.loads(theirs.to_str())))
    theirs.post_processor = processors.TemplateProcessing(
        single=rows[0], pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=special
    )
    assert len(load_vocabulary(folder_with(tmp_path, None, json.loads(theirs.to_str())))) == len(TOKENS)


def test_ids_between_the_vocabulary_and_an_added_token_have_no_token(tmp_path):
    count, folder = len(TOKENS), folder_with(tmp_path, {})
    (tmp_path / "added_tokens.json").write_text(json.dumps({"co-vid": count + 2}), "utf-8")
    vocabulary = load_vocabulary(folder)
    assert vocabulary.tokens[count:] == (f"[unused_row_{count}]", f"[unused_row_{count + 1}]", "co-vid")


def test_added_tokens_are_found_in_every_file_that_may_have_them(tmp_path):
    count = len(TOKENS)
    folder = folder_with(
        tmp_path, {"additional_special_tokens": ["[E2]"], "bos_token": {"content": "[E3]", "lstrip": True}}
    )
    (tmp_path / "added_tokens.json").write_text(json.dumps({"co-vid": count}), "utf-8")
    (tmp_path / "special_tokens_map.json").write_text(
        json.dumps({"additional_special_tokens": ["[E2]", "[E4]"]}), "utf-8"
    )
    vocabulary = load_vocabulary(folder)
    assert vocabulary.tokens[count:] == ("co-vid", "[E3]", "[E2]", "[E4]")
    assert WordPieceTokenizer(vocabulary).encode("CO-VID[E2][E4]") == [count, count + 2, count + 3]
    assert [token.special for token in vocabulary.added_tokens] == [False, True, True, True]
    assert {count, count + 2} & {*vocabulary.text_ids()} == {count}
