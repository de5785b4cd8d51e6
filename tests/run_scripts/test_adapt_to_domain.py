"""A model is adapted to a domain: new tokens, and training."""

import shutil
from unittest.mock import Mock

import keras
import numpy as np
import pytest
import tiny
from tiny_checkpoints import random_checkpoint
from tiny_families import byte_pairs, config

from data_prep.vocabulary.new_words import find_new_words
from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.models.encoder_base import Encoder
from keras_bert.program.errors import InputError
from keras_bert.tasks.masked_lm.model import MaskedLM
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer
from run_scripts import adapt_to_domain as command
from run_scripts.adapt_to_domain import AdaptationOptions, adapt_to_domain

VOCABULARY = tiny.vocabulary(
    "the of holds nano gas . ,", *tiny.pieces(), "##tube", *"0123456789", *(f"##{digit}" for digit in range(10))
)
CONFIG = tiny.config(VOCABULARY, dropout=0.0, max_position_embeddings=32, initializer_range=0.1)
SHORT = {"num_new_tokens": 3, "train_batch_size": 8}


@pytest.fixture
def text(tmp_path):
    """Documents in which `nanotube` is the most frequent word, so that a few steps suffice to guess it."""
    documents = [f"{'nanotube ' * (2 + number % 4)}\nthe gas of fullerene, xy {number}." for number in range(60)]
    (tmp_path / "text.txt").write_text("\n\n".join(documents))
    return tmp_path / "text.txt"


@pytest.fixture
def model(tmp_path):
    keras.utils.set_random_seed(0)
    MaskedLM(CONFIG).save_pretrained(tmp_path / "old", VOCABULARY)
    return tmp_path / "old"


# The parts.


def test_new_words_are_those_that_save_most_tokens():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    counts = {"the": 900, "nanotube": 50, "fullerene": 20, "ab": 40, "xyz": 9, "ßa": 500, "12": 500, "gases": 11}
    # Saved tokens: nanotube 50 · 1, fullerene 20 · 8, ab 40 · 1, gases 11 · 2. `gas` is a token.
    assert find_new_words(counts, tokenizer, 3) == ["fullerene", "nanotube", "ab"]
    assert find_new_words(counts, tokenizer, 9) == ["fullerene", "nanotube", "ab", "gases"]


def test_a_new_word_does_not_make_a_longer_word_unknown():
    vocabulary = Vocabulary([*VOCABULARY.tokens[:5], "li", "##be", "##bev"])
    counts = {"libe": 50, "libev": 10}
    # With a token `libe`, the rest `##v` of `libev` would have no pieces.
    assert find_new_words(counts, WordPieceTokenizer(vocabulary), 1) == []
    assert find_new_words(counts, WordPieceTokenizer(vocabulary), 2) == ["libe", "libev"]


# The whole.


def adapt(text, model, output_dir, **options):
    arguments = {"text": text, "init_checkpoint": model, "output_dir": output_dir}
    arguments = {name: str(value) for name, value in arguments.items()}
    return adapt_to_domain(AdaptationOptions(**arguments, num_processes=1, **options))


@pytest.mark.usefixtures("python_tokenizer")
def test_without_steps_the_model_has_new_tokens_and_is_otherwise_the_same(text, model, tmp_path):
    adapted = adapt(text, model, tmp_path / "out", num_train_steps=0, **SHORT)
    old, new = (MaskedLM.from_pretrained(path) for path in (model, adapted))
    words = ("fullerene", "nanotube", "xy")
    assert new.vocabulary.tokens == (*old.vocabulary.tokens, *words), "old ids do not change"
    tokenizer = WordPieceTokenizer(VOCABULARY)
    for read in (
        lambda model: np.array(model.encoder.embeddings.token_embeddings),
        lambda model: np.array(next(w for w in model.masked_lm_head.weights if w.shape == (len(model.vocabulary),))),
    ):
        before, after = read(old), read(new)
        np.testing.assert_array_equal(after[: len(before)], before)
        means = [before[tokenizer.encode(word)].astype("float64").mean(axis=0) for word in words]
        np.testing.assert_allclose(after[len(before) :], means, atol=1e-6)
    texts = ["the gas of the nano gas.", "gas of q"]
    before, after = (Encoder.from_pretrained(path) for path in (model, adapted))
    ids = np.array([[2, *tokenizer.encode(texts[0]), 3]])
    assert ids.tolist() == [[2, *WordPieceTokenizer(after.vocabulary).encode(texts[0]), 3]]
    inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_array_equal(before(inputs)[name], after(inputs)[name])


@pytest.mark.usefixtures("python_tokenizer", "eagerly")
def test_the_command_adapts_and_continues(text, model, tmp_path, run_here, done_here, refused_here, monkeypatch):
    flags = [f"--text={text}", f"--init_checkpoint={model}", f"--output_dir={tmp_path / 'out'}", "--num_processes=1"]
    flags += [f"--{name}={value}" for name, value in SHORT.items()]
    flags += ["--num_train_steps=20"]
    with monkeypatch.context() as patch:  # the process ends before the training
        patch.setattr("keras_bert.training.pretraining.train_pretrainer", Mock(side_effect=KeyboardInterrupt))
        code, printed = run_here(command, *flags, "--learning_rate=2e-2")
        assert code == 130
        assert "3 new tokens: fullerene, nanotube, xy" in printed.out
    monkeypatch.setattr("data_prep.vocabulary.new_words.find_new_words", None)  # nothing is made again
    printed = done_here(command, *flags, "--learning_rate=2e-2")
    assert f"The adapted model: {tmp_path / 'out' / 'model'}" in printed.out
    losses = [
        MaskedLM.from_pretrained(path).evaluate(text.read_text().splitlines(), max_seq_length=32)["loss"]
        for path in (model, tmp_path / "out" / "model")
    ]
    assert losses[1] < losses[0] - 0.5
    printed = refused_here(command, *flags, "--learning_rate=1e-2")
    assert "holds a run with other settings: learning_rate was 0.02 and is now 0.01. Give" in printed.err


@pytest.mark.slow
@pytest.mark.usefixtures("python_tokenizer", "eagerly")
def test_a_family_without_wordpiece_keeps_its_tokens(tmp_path):
    tokenizer = byte_pairs()
    MaskedLM(config("roberta")).save_pretrained(tmp_path / "old", tokenizer)
    lines = ["the fox, the dog", "a fox the dog fox", "the the dog"]
    (tmp_path / "text.txt").write_text("\n\n".join(f"{lines[n % 3]}\n{lines[n % 2]} {n}" for n in range(30)))
    with pytest.raises(InputError, match="has no WordPiece vocabulary.* Give --num_new_tokens=0"):
        adapt(tmp_path / "text.txt", tmp_path / "old", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    options = {"num_new_tokens": 0, "num_train_steps": 2, "max_seq_length": 16}
    adapted = adapt(tmp_path / "text.txt", tmp_path / "old", tmp_path / "out", **options)
    assert MaskedLM.from_pretrained(adapted).vocabulary.sha256 == tokenizer.sha256


def test_a_checkpoint_that_cannot_guess_words_is_refused(text, model, tmp_path):
    write_checkpoint(random_checkpoint(), tmp_path / "encoder", "google")
    with pytest.raises(InputError, match="encoder .* has no masked-LM head, with which a model guesses words"):
        adapt(text, tmp_path / "encoder", tmp_path / "out")
    shutil.copytree(model, tmp_path / "bare")
    (tmp_path / "bare" / "vocab.txt").unlink()
    with pytest.raises(InputError, match="bare has no vocabulary. Put the files of its tokenizer into its folder"):
        adapt(text, tmp_path / "bare", tmp_path / "out")
    with pytest.raises(InputError, match="positions"):
        adapt(text, model, tmp_path / "out", max_seq_length=64)
    with pytest.raises(InputError, match="none.txt"):
        adapt(tmp_path / "none.txt", model, tmp_path / "out")
    assert not (tmp_path / "out").exists()
