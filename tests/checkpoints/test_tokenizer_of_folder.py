"""The tokenizer belongs to the folder: any kind with any encoder, and rows of the token table that have no token."""

import copy
import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from recorded_folders import recorded_folder
from tiny_families import VOCABULARIES, byte_pairs, config_of, modern_byte_pairs, new, sentence_pieces, word_pieces

from keras_bert import (
    BertEncoder,
    CrossEncoder,
    InputError,
    MultipleChoice,
    SequenceClassifier,
    SpanClassifier,
    Vocabulary,
    load_vocabulary,
    serving,
)
from keras_bert.checkpoints.hugging_face_tokenizer import read_tokenizer, write_tokenizer
from keras_bert.embeddings.text_vectors import sentence_embeddings
from keras_bert.tasks.text_rows import text_rows
from keras_bert.tokenization.kinds import as_tokenizer
from keras_bert.tokenization.token_lists import PythonForm

FOLDERS = recorded_folder("tokenizers")
MPNET = VOCABULARIES["mpnet"]
KLUE = Vocabulary(["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", "the", "a", "fox", "dog", ","])
TEXTS, PAIRS = ["the fox", "a dog, the dog"], (["the fox", "a dog"], ["the dog", "fox"])
# Family of the encoder, and a vocabulary of another kind or form than that of the family.
CASES = {
    "bert with Unigram": ("bert", sentence_pieces()),
    "bert with MPNet's WordPiece": ("bert", MPNET),
    "roberta with KLUE's WordPiece": ("roberta", KLUE),
    "roberta with Unigram": ("roberta", sentence_pieces(do_lower_case=False)),
    "modernbert with RoBERTa's BPE": ("modernbert", byte_pairs()),
    "albert with WordPiece": ("albert", word_pieces()),
    "distilbert with ModernBERT's BPE": ("distilbert", modern_byte_pairs()),
}


def classifier(family: str, vocabulary, **changes) -> SequenceClassifier:
    offset = {"position_offset": vocabulary.pad_id + 1} if family == "roberta" else {}
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    shape |= {"max_position_embeddings": 40, "initializer_range": 0.3}
    fields = {"vocab_size": len(vocabulary), "do_lower_case": True, **offset, **changes}
    model = SequenceClassifier(config_of(family, **shape, **fields), labels=["fox", "dog"])
    model.vocabulary = vocabulary
    return model


def scores(model, texts) -> np.ndarray:
    return np.array([[*answer.probabilities.values()] for answer in model.predict(texts)])


def with_slow_ones(fast: set[str]) -> list:
    return [name if name in fast else pytest.param(name, marks=pytest.mark.slow) for name in CASES]


@pytest.mark.parametrize("name", with_slow_ones({"bert with Unigram", "roberta with KLUE's WordPiece"}))
def test_a_hugging_face_folder_keeps_any_tokenizer_with_any_encoder(name, tmp_path):
    model = classifier(*CASES[name])
    model.save_pretrained(tmp_path / "theirs", format="huggingface")
    again = SequenceClassifier.from_pretrained(tmp_path / "theirs")
    assert type(again.vocabulary) is type(model.vocabulary)
    assert again.vocabulary.sha256 == model.vocabulary.sha256
    for texts in (TEXTS, PAIRS):
        np.testing.assert_allclose(scores(again, texts), scores(model, texts), atol=1e-6)
    again.save_pretrained(tmp_path / "ours")
    ours = SequenceClassifier.from_pretrained(tmp_path / "ours")
    assert ours.vocabulary.sha256 == model.vocabulary.sha256
    np.testing.assert_allclose(scores(ours, PAIRS), scores(model, PAIRS), atol=1e-6)


LONG_PAIR = (["the dog"], ["a fox the fox dog"])
# The numbers of tokens that stay of each text in rows of 6, with [CLS] and two [SEP].
GOOGLES, HUGGING_FACES = (2, 1), (1, 2)


def kept(vocabulary) -> tuple[int, int]:
    rows = text_rows(*LONG_PAIR, PythonForm(as_tokenizer(vocabulary, True)), 6).rows
    ids = rows.tokens["input_ids"].tolist()
    middle = ids.index(vocabulary.sep_id)
    return middle - 1, len(ids) - middle - vocabulary.special_tokens.num_between - 1


def test_a_folder_tells_how_pairs_are_cut(tmp_path):
    model = classifier("bert", word_pieces())
    assert kept(model.vocabulary) == GOOGLES
    folders = {}
    for name, expected in (("keras_bert", GOOGLES), ("google", GOOGLES), ("huggingface", HUGGING_FACES)):
        model.save_pretrained(tmp_path / name, format=name)
        folders[name] = SequenceClassifier.from_pretrained(tmp_path / name)
        assert kept(folders[name].vocabulary) == expected, name
        assert folders[name].vocabulary.sha256 == model.vocabulary.sha256
    theirs = folders["huggingface"]
    assert [kept(copy.deepcopy(theirs.vocabulary)), kept(theirs.vocabulary.with_spare_rows(99))] == [HUGGING_FACES] * 2
    for name, expected in (("keras_bert", HUGGING_FACES), ("google", GOOGLES), ("huggingface", HUGGING_FACES)):
        theirs.save_pretrained(tmp_path / f"of theirs, {name}", format=name)
        assert kept(load_vocabulary(tmp_path / f"of theirs, {name}")) == expected, name
    for path in (tmp_path / "huggingface").glob("*token*"):
        path.unlink()
    assert kept(load_vocabulary(tmp_path / "huggingface")) == HUGGING_FACES  # vocab.txt alone


@pytest.mark.parametrize(
    "vocabulary",
    [byte_pairs(), modern_byte_pairs(), sentence_pieces(), MPNET, KLUE],
    ids=["bytes", "modern", "unigram", "mpnet", "klue"],
)
def test_every_kind_of_tokenizer_keeps_its_rule_for_pairs(vocabulary, tmp_path):
    for longer_keeps_more in (True, False):
        folder = tmp_path / f"{longer_keeps_more}"
        folder.mkdir()
        as_tokenizer(vocabulary.with_pair_rule(longer_keeps_more), True).save(folder)
        again = load_vocabulary(folder)
        assert (again.special_tokens.longer_keeps_more, again.sha256) == (longer_keeps_more, vocabulary.sha256)


def test_pairs_are_cut_in_an_export_as_in_its_model(tmp_path):
    vocabulary, expected = word_pieces(), []
    for longer_keeps_more in (True, False):
        keras.utils.set_random_seed(1)
        model = classifier("bert", vocabulary.with_pair_rule(longer_keeps_more))
        expected.append(np.array(scores_of_pairs(model, 6)))
    assert abs(expected[0] - expected[1]).max() > 1e-3
    # Other tests export pairs with BERT's rule, the second one here.
    model.vocabulary = vocabulary.with_pair_rule(True)
    folder = model.export_for_serving(tmp_path / "export", text_pairs=True, max_seq_length=6)
    np.testing.assert_allclose(scores_of_pairs(serving.load(folder)), expected[0], atol=1e-5)
    call = tf.saved_model.load(str(folder)).signatures["serving_default"]
    outputs = call(text=tf.constant(LONG_PAIR[0]), text_b=tf.constant(LONG_PAIR[1]))
    np.testing.assert_allclose(outputs["probabilities"].numpy(), expected[0], atol=1e-5)


def scores_of_pairs(model, max_seq_length=None) -> np.ndarray:
    options = {} if max_seq_length is None else {"max_seq_length": max_seq_length}
    return np.array([[*answer.probabilities.values()] for answer in model.predict(LONG_PAIR, **options)])


@pytest.mark.parametrize(("vocabulary", "is_in_one"), [(MPNET, True), (word_pieces(), False)])
def test_two_separators_leave_a_pair_in_one_segment(vocabulary, is_in_one):
    model = classifier("bert", vocabulary)
    before = scores(model, PAIRS)
    table = model.encoder.embeddings.segment_embeddings
    table.assign(np.asarray(table) + [[0], [5]] * np.eye(1, 16))
    assert np.array_equal(scores(model, PAIRS), before) == is_in_one


def test_a_bert_with_roberta_s_tokenizer_has_one_segment_in_a_pair_as_in_transformers(tmp_path):
    model = classifier("bert", byte_pairs())
    model.save_pretrained(tmp_path / "theirs", format="huggingface")
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    (tmp_path / "theirs" / "config.json").write_text(json.dumps({**config, "tokenizer_class": "RobertaTokenizer"}))
    again = SequenceClassifier.from_pretrained(tmp_path / "theirs")
    assert (model.vocabulary.special_tokens.second_segment, again.vocabulary.special_tokens.second_segment) == (1, 0)
    again.save_pretrained(tmp_path / "ours")
    ours = SequenceClassifier.from_pretrained(tmp_path / "ours")
    assert (ours.vocabulary.sha256, ours.vocabulary.special_tokens.second_segment) == (again.vocabulary.sha256, 0)


def test_a_model_of_one_segment_ignores_the_second(tmp_path):
    model = classifier(*CASES["roberta with KLUE's WordPiece"])
    assert model.config.type_vocab_size == 1
    assert "segment_ids" not in model.feature_names
    assert len(model.predict(PAIRS)) == 2


TOKENIZERS = {
    "WordPiece": (word_pieces(), "[unused_row_...]"),
    "MPNet": (MPNET, "[unused_row_...]"),
    "BPE": (byte_pairs(), "<unused_row_...>"),
    "Unigram": (sentence_pieces(), "<unused_row_...>"),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_rows_without_a_token_get_names_that_no_text_contains(name, tmp_path):
    vocabulary, spare = TOKENIZERS[name]
    as_tokenizer(vocabulary, True).save(tmp_path)
    count = len(vocabulary)
    assert read_tokenizer(tmp_path, count)[0].sha256 == vocabulary.sha256
    for size in (count + 1, count + 35, count + 127):
        found, remarks = read_tokenizer(tmp_path, size)
        assert (len(found), found.tokens[:count]) == (size, tuple(vocabulary.tokens))
        assert remarks == [f"{size - count} rows of the token table have no token: named {spare}"]
        assert not {*found.text_ids()} & {*range(count, size)}
    again = tmp_path / "again"
    again.mkdir()
    as_tokenizer(found, True).save(again)
    assert read_tokenizer(again, size)[0].sha256 == found.sha256
    for size in (count - 1, count + 128):
        with pytest.raises(
            InputError, match=f"has {count} tokens, but the config has vocab_size={size}. The tokenizer"
        ):
            read_tokenizer(tmp_path, size)


def test_a_large_vocabulary_may_have_more_rows_without_a_token(tmp_path):
    words = [f"w{number}" for number in range(40_000)]
    as_tokenizer(Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]), True).save(tmp_path)
    assert len(read_tokenizer(tmp_path, 40_205)[0]) == 40_205
    with pytest.raises(InputError, match="has 40005 tokens, but the config has vocab_size=40206"):
        read_tokenizer(tmp_path, 40_206)


def test_files_of_several_kinds_are_refused(tmp_path):
    as_tokenizer(byte_pairs(), True).save(tmp_path)
    word_pieces().save(tmp_path / "vocab.txt")
    with pytest.raises(InputError, match=r"several kinds: vocab.txt is of WordPiece, vocab.json is of BPE. Remove"):
        read_tokenizer(tmp_path, 300)


def test_a_tokenizer_of_an_unknown_kind_is_refused(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": "WordLevel", "vocab": {}}}))
    with pytest.raises(InputError, match="the model is 'WordLevel'. Supported are WordPiece, BPE, Unigram"):
        read_tokenizer(tmp_path, 5)
    (tmp_path / "tokenizer.json").unlink()
    assert read_tokenizer(tmp_path, 5) == (None, [])


ANSWERS_OF_PAIRS = {
    SequenceClassifier: lambda model: model.predict(PAIRS),
    CrossEncoder: lambda model: model.predict(PAIRS),
    SpanClassifier: lambda model: model.predict(PAIRS),
    MultipleChoice: lambda model: model.predict((["the fox"], [["a dog", "the dog"]])),
    BertEncoder: lambda model: sentence_embeddings(model, [["the fox", "a dog"]]),
}


@pytest.mark.parametrize("task", ANSWERS_OF_PAIRS, ids=lambda task: task.__name__)
def test_no_task_takes_pairs_if_its_tokenizer_does_not_divide_them(task):
    model = new(task, "mpnet", **({"labels": ["fox", "dog"]} if task is SequenceClassifier else {}))
    special = dataclasses.replace(model.vocabulary.special_tokens, num_between=0)
    model.vocabulary = model.vocabulary.replace(special_tokens=special)
    with pytest.raises(InputError, match="puts no separator between two texts, so the model cannot take pairs"):
        ANSWERS_OF_PAIRS[task](model)


def test_an_export_takes_no_pairs_if_its_tokenizer_does_not_divide_them(tmp_path):
    model = classifier("bert", word_pieces())
    special = dataclasses.replace(model.vocabulary.special_tokens, num_between=0)
    model.vocabulary = model.vocabulary.replace(special_tokens=special)
    with pytest.raises(InputError, match="puts no separator between two texts, so the model cannot take pairs"):
        model.export_for_serving(tmp_path / "export", text_pairs=True)
    assert len(model.predict(TEXTS)) == 2


@pytest.mark.parametrize(
    ("family", "form"), [("roberta", byte_pairs()), ("xlm-roberta", sentence_pieces()), ("mpnet", MPNET)]
)
def test_rows_longer_than_the_learned_positions_are_refused(family, form):
    model = classifier(family, form, position_offset=2)
    message = (
        r"A sequence length of 39 is more than this model's 38 positions \(max_position_embeddings - position_offs"
    )
    ids = np.full((1, 39), 6, "int32")
    row = {
        name: np.ones_like(ids) if name == "input_mask" else ids * (name == "input_ids") for name in model.feature_names
    }
    with pytest.raises(InputError, match=message):
        model(row)
    with pytest.raises(InputError, match=message):
        model.predict(TEXTS, max_seq_length=39)
    with pytest.raises(InputError, match=message):
        model.encoder(row)
    assert np.isfinite(np.asarray(model({name: values[:, :38] for name, values in row.items()}))).all()
    assert len(model.predict(["fox " * 60])) == 1  # cut


@pytest.mark.parametrize("name", ["xlm-roberta", "xlm-roberta-model-only", "camembert", "deberta-v2", "gemma"])
def test_rows_without_a_token_follow_the_mask(name, tmp_path):
    plain = load_vocabulary(FOLDERS / name)
    size = len(plain) + 35
    found, _ = read_tokenizer(FOLDERS / name, size)
    assert (len(found), found.mask_id) == (size, plain.mask_id)
    assert found.special_tokens.second_segment == (0 if found.special_tokens.num_between == 2 else 1)
    assert found.encode("the information, 1") == plain.encode("the information, 1")
    write_tokenizer(tmp_path, found, tiny.config(size))
    again, _ = read_tokenizer(tmp_path, size)
    assert (again.sha256, again.tokens) == (found.sha256, found.tokens)
    assert load_vocabulary(tmp_path).tokens[: len(plain)] == plain.tokens


@pytest.mark.parametrize("name", ["xlm-roberta-v5", pytest.param("camembert-v5", marks=pytest.mark.slow)])
def test_a_bert_with_xlm_roberta_s_tokenizer_is_a_multilingual_e5(name, tmp_path):
    vocabulary = load_vocabulary(FOLDERS / name)
    model = classifier("bert", vocabulary.with_spare_rows(len(vocabulary) + 35))
    model.save_pretrained(tmp_path, format="huggingface")
    file = tmp_path / "config.json"
    values = json.loads(file.read_text())
    assert values["pad_token_id"] == 1
    file.write_text(json.dumps({**values, "pad_token_id": 0, "tokenizer_class": "XLMRobertaTokenizer"}))
    again = SequenceClassifier.from_pretrained(tmp_path)
    assert (again.config.position_offset, again.vocabulary.pad_id, again.config.type_vocab_size) == (0, 1, 2)
    assert again.vocabulary.special_tokens.second_segment == 0
    np.testing.assert_allclose(scores(again, PAIRS), scores(model, PAIRS), atol=1e-6)
