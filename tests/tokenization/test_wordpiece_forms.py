"""WordPiece with the special tokens of MPNet and KLUE, in Python and in the graph, against transformers' ids."""

import json
import pickle
import random

import pytest
import tensorflow as tf
import tiny
import tokenizers
from places import TESTS
from recorded_folders import recorded_folder
from tokenizer_comparison import assert_ids_of, graph_differences

from keras_bert import InputError, Vocabulary, WordPieceTokenizer, load_vocabulary
from keras_bert.checkpoints.hugging_face_tokenizer import write_tokenizer
from keras_bert.config import BertConfig
from keras_bert.records.segments import pack_segments
from keras_bert.records.token_rows import join_segments
from keras_bert.tokenization.added_tokens import AddedToken
from keras_bert.tokenization.kinds import as_tokenizer
from keras_bert.tokenization.token_lists import TokenLists
from keras_bert.tokenization.tokenizer import BERT_SPECIAL_TOKENS, MPNET_SPECIAL_TOKENS
from keras_bert.tokenization.wordpiece_files import read_word_piece

PIECES = ("the", "quick", "##est", "fox", "[", "]", "mask", "<", ">", "s", "a", "##a", ",")
TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PIECES, "<mask>")
KLUE = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", *PIECES)


def mpnet(*more, **settings) -> Vocabulary:
    return Vocabulary([*TOKENS, *more], special_tokens=MPNET_SPECIAL_TOKENS, max_characters_per_word=100, **settings)


def test_the_special_tokens_of_a_vocabulary_have_the_roles():
    vocabulary = mpnet()
    roles = [vocabulary.cls_id, vocabulary.pad_id, vocabulary.sep_id, vocabulary.unk_id, vocabulary.mask_id]
    assert roles == [0, 1, 2, 5, len(TOKENS) - 1]
    tokenizer = WordPieceTokenizer(vocabulary)
    assert tokenizer.tokenize("The <s> [MASK] zebra") == ["the", "<", "s", ">", "[", "mask", "]", "[UNK]"]
    assert tokenizer.special_tokens == MPNET_SPECIAL_TOKENS


@pytest.mark.parametrize("core_operations", [False, True])
def test_a_word_of_more_characters_than_the_vocabulary_allows_is_unknown(core_operations):
    texts = ["a" * 100, "a" * 101, "a" * 150 + " fox", "a" * 201]
    texts += ["the " + "\u00e1" * 101 + ",fox", "a" * 100 + "," + "a" * 9]
    tokenizer = WordPieceTokenizer(mpnet())
    assert [len(tokenizer.encode(text)) for text in texts] == [100, 1, 2, 1, 4, 110]
    bert = WordPieceTokenizer(Vocabulary([*tiny.SPECIAL_TOKENS, *PIECES]))
    assert [len(bert.encode(text)) for text in texts] == [100, 101, 151, 1, 104, 110]
    assert graph_differences(tokenizer, texts, core_operations) == []


def test_a_pair_has_two_separators_and_one_segment():
    segments = TokenLists.joined([[9], [10, 11]]), TokenLists.joined([[12], [12]])
    rows, _ = join_segments(segments, 8, mpnet())
    assert rows.tokens["input_ids"].tolist() == [0, 9, 2, 2, 12, 2, 0, 10, 11, 2, 2, 12, 2]
    assert not rows.tokens["segment_ids"].any()
    packed = pack_segments([tf.ragged.constant([[9], [10, 11]]), tf.ragged.constant([[12], [12]])], 8, mpnet())
    assert packed["input_ids"].numpy().tolist() == [[0, 9, 2, 2, 12, 2, 1, 1], [0, 10, 11, 2, 2, 12, 2, 1]]
    assert not packed["segment_ids"].numpy().any()


def test_a_folder_keeps_the_form(tmp_path):
    vocabularies = [mpnet(), mpnet("co-vid", strip_accents=False, added_tokens=[AddedToken("co-vid")])]
    vocabularies += [mpnet().replace(max_characters_per_word=30), Vocabulary(TOKENS, max_characters_per_word=50)]
    for number, vocabulary in enumerate(vocabularies):
        folder = tmp_path / str(number)
        folder.mkdir()
        as_tokenizer(vocabulary, True).save(folder)
        for again in (load_vocabulary(folder), load_vocabulary(folder / "vocab.txt")):
            assert (again, again.sha256) == (vocabulary, vocabulary.sha256)
            assert again.special_tokens == vocabulary.special_tokens
        assert pickle.loads(pickle.dumps(vocabulary)) == vocabulary
    assert len({vocabulary.sha256 for vocabulary in (*vocabularies, Vocabulary(TOKENS))}) == 5


def test_nothing_of_the_vocabulary_of_a_bert_changed():
    vocabulary = Vocabulary([*tiny.SPECIAL_TOKENS, "the"])
    state = {"tokens": vocabulary.tokens, "strip_accents": None, "tokenize_chinese_chars": True, "added_tokens": ()}
    older = object.__new__(Vocabulary)
    older.__dict__.update(state)  # as of a pickle without the settings that other models have
    assert (older, older.sha256) == (vocabulary, vocabulary.sha256)
    assert (vocabulary.special_tokens, vocabulary.has_settings) == (BERT_SPECIAL_TOKENS, False)


def klue_folder(tmp_path, **settings):
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in KLUE), "utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", **settings}))
    return tmp_path


def test_special_tokens_may_have_other_ids_than_in_bert(tmp_path):
    vocabulary = read_word_piece(klue_folder(tmp_path, bos_token="[CLS]", eos_token="[SEP]")).vocabulary
    assert (vocabulary.cls_id, vocabulary.pad_id, vocabulary.sep_id) == (0, 1, 2)
    assert vocabulary.special_tokens == BERT_SPECIAL_TOKENS
    assert not vocabulary.added_tokens


def test_a_generic_class_has_the_form_of_its_tokenizer_json(tmp_path):
    theirs = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({token: number for number, token in enumerate(TOKENS)}, unk_token="[UNK]")
    )
    theirs.normalizer = tokenizers.normalizers.BertNormalizer()
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    theirs.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    theirs.save(str(tmp_path / "tokenizer.json"))
    names = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}
    settings = {"tokenizer_class": "TokenizersBackend", "unk_token": "[UNK]", **names}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert read_word_piece(tmp_path).vocabulary == mpnet()
    settings["tokenizer_class"] = "BertTokenizer"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match=r"makes the rows '<s> A </s> and <s> A </s> </s> B </s>'. Supported are"):
        read_word_piece(tmp_path)


def test_the_tokenizer_json_that_is_written_gives_the_same_ids_and_rows(tmp_path):
    vocabulary = mpnet("[E1]", added_tokens=[AddedToken("[E1]", normalized=False)])
    ours = WordPieceTokenizer(vocabulary)
    write_tokenizer(tmp_path, ours, BertConfig(vocab_size=len(vocabulary)))
    again = read_word_piece(tmp_path)
    assert (again.vocabulary, again.do_lower_case) == (vocabulary, True)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("the quickest fox", "the [E1] fox", "a" * 100, "a" * 101, "zebra [MASK]"):
        assert theirs.encode(text, add_special_tokens=False).ids == ours.encode(text), text
    pair = theirs.encode("the", "fox  <mask>")
    the, fox, mask = (vocabulary.ids[token] for token in ("the", "fox", "<mask>"))
    assert pair.ids == [0, the, 2, 2, fox, mask, 2]
    assert not any(pair.type_ids)


@pytest.mark.parametrize("name", ["mpnet", "mpnet-vocab-only"])
def test_mpnets_ids_are_those_of_transformers(name):
    tokenizer = read_word_piece(recorded_folder("tokenizers", name))
    vocabulary = tokenizer.vocabulary
    assert tokenizer.do_lower_case
    assert (vocabulary.special_tokens, vocabulary.max_characters_per_word) == (MPNET_SPECIAL_TOKENS, 100)
    assert [vocabulary.cls_id, vocabulary.pad_id, vocabulary.sep_id, vocabulary.unk_id] == [0, 1, 2, 104]
    recorded = json.loads((TESTS / "family_golden" / "examples.json").read_text("utf-8"))["tokenizers/mpnet"]
    compared = 0
    for text, expected in zip(recorded["texts"], recorded["ids"], strict=True):
        # A special token in a text is text here.
        if not any(token in text for token in vocabulary.special_tokens.names):
            assert tokenizer.encode(text) == expected, text
            compared += 1
    assert compared > 25


def test_random_texts_have_the_ids_of_tokenizers():
    folder = recorded_folder("tokenizers", "mpnet")
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer, rng = read_word_piece(folder), random.Random(5)
    parts = ["the ", "inform", "ation", " ", "\u00e9", "E\u0301", "\u5b57", "a" * 60, ",", "MASK", "[", "1", "\t"]
    texts = ["".join(rng.choices(parts, k=rng.randrange(20))) for _ in range(2000)]
    assert_ids_of(theirs, tokenizer, texts)
    assert graph_differences(tokenizer, texts[:300]) == []
    assert graph_differences(tokenizer, texts[300:400], core_operations=True) == []
