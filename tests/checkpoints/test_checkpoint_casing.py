"""The casing of a checkpoint is read from its files or from its vocabulary."""

import json

import pytest
from tiny_checkpoints import CONFIG, VOCABULARY, change_json, random_checkpoint

from keras_bert.checkpoints.casing import is_cased
from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.program.errors import InputError
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer


@pytest.mark.parametrize("cased", [True, False])
def test_casing_is_read_off_a_vocabulary_when_nothing_says_it(cased, tmp_path):
    checkpoint = _with_long_vocabulary(cased)
    write_checkpoint(checkpoint, tmp_path / "folder", "google")
    change_json(tmp_path / "folder" / "bert_config.json", without=["do_lower_case"])
    assert read_checkpoint(tmp_path / "folder").config.do_lower_case is not cased


@pytest.mark.parametrize("format", ["google", "huggingface"])
@pytest.mark.parametrize(
    ("cased", "message"), [(True, "the vocabulary is cased"), (False, "the vocabulary has no capitals")]
)
def test_a_casing_that_contradicts_the_vocabulary_is_refused_unless_given(cased, message, format, tmp_path):
    checkpoint = _with_long_vocabulary(cased)
    wrong = checkpoint.replace(tokenizer=WordPieceTokenizer(checkpoint.vocabulary, cased))
    write_checkpoint(wrong, tmp_path / "folder", format)
    with pytest.raises(InputError, match=f"do_lower_case is {str(cased).lower()}, and {message}"):
        read_checkpoint(tmp_path / "folder")
    assert read_checkpoint(tmp_path / "folder", do_lower_case=not cased).config.do_lower_case is not cased


def test_the_real_vocabularies_are_judged_rightly(shared_data):
    for name, cased in (("base-uncased", False), ("base-cased", True), ("base-multilingual-cased", True)):
        assert is_cased(Vocabulary.from_file(shared_data("vocab", f"bert-{name}-vocab.txt"))) is cased
    assert is_cased(Vocabulary.from_file(shared_data("vocab", "bert-base-chinese-vocab.txt"))) is False
    assert is_cased(VOCABULARY) is None


def test_a_tokenizer_brings_its_casing_to_a_model(tmp_path):
    model = BertEncoder(CONFIG)
    model.vocabulary = WordPieceTokenizer(VOCABULARY, do_lower_case=False)
    model.save_pretrained(tmp_path / "folder")
    again = BertEncoder.from_pretrained(tmp_path / "folder")
    assert json.loads((tmp_path / "folder" / "bert_config.json").read_text())["do_lower_case"] is False
    assert again.tokenizer.tokenize("the The") == ["the", "[UNK]"]
    again.vocabulary = VOCABULARY  # tokens alone get the casing of the config
    assert again.tokenizer.do_lower_case is False


def test_accents_need_not_follow_the_casing(tmp_path):
    write_checkpoint(random_checkpoint(), tmp_path / "folder", "huggingface")
    change_json(tmp_path / "folder" / "tokenizer_config.json", strip_accents=False)
    checkpoint = read_checkpoint(tmp_path / "folder")
    assert (checkpoint.vocabulary.strip_accents, checkpoint.config.do_lower_case) == (False, True)
    assert checkpoint.remarks == ()


def _with_long_vocabulary(cased: bool):
    words = [f"w{chr(97 + number // 26 % 26)}{chr(97 + number % 26)}{'x' * (number // 676)}" for number in range(1200)]
    words = [word.capitalize() if cased and number % 3 == 0 else word for number, word in enumerate(words)]
    vocabulary = Vocabulary([*VOCABULARY.tokens, *words])
    return random_checkpoint(config=CONFIG.replace(vocab_size=len(vocabulary)), vocabulary=vocabulary)
