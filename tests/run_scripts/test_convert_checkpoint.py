"""The command `convert_checkpoint`, and models of the Hugging Face hub."""

import os
import sys

import pytest
from tiny_checkpoints import VOCABULARY, assert_same_tensors, random_checkpoint

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.conversion import convert_checkpoint
from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.checkpoints.verification import verify
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.program.errors import InputError
from run_scripts import convert_checkpoint as command


def test_the_command_converts_and_verifies(tmp_path, done_here):
    checkpoint = random_checkpoint(form.MASKED_LM, form.NEXT_SENTENCE)
    write_checkpoint(checkpoint, tmp_path / "google", "google")
    (tmp_path / "new.txt").write_text("quickest\n\nzebra\n")
    flags = [f"--input={tmp_path / 'google'}", f"--output={tmp_path / 'hf'}", "--format=huggingface", "--verify"]
    flags += ["--max_position_embeddings=20", f"--new_tokens_file={tmp_path / 'new.txt'}"]
    printed = done_here(command, *flags).out
    assert f"{tmp_path / 'hf'} (huggingface) from {tmp_path / 'google'} (Google TensorFlow 1): encoder" in printed
    assert "both by keras_bert: largest difference of sequence_output 0.0e+00, pooled_output 0.0e+00" in printed
    converted = read_checkpoint(tmp_path / "hf")
    assert converted.config.max_position_embeddings == 20
    assert converted.vocabulary.tokens == (*VOCABULARY.tokens, "quickest", "zebra")


def test_the_command_says_what_is_wrong_in_one_line(tmp_path, refused_here):
    files = f"--input={tmp_path / 'nowhere'}", f"--output={tmp_path / 'output'}"
    assert refused_here(command, *files).err == f"error: {tmp_path / 'nowhere'}: there is no such folder.\n"
    assert list(tmp_path.iterdir()) == []


def test_a_conversion_names_what_it_leaves_out(tmp_path):
    # No model of ours has both of these heads.
    two_heads = random_checkpoint(form.MASKED_LM, "choice_scorer")
    write_checkpoint(two_heads, tmp_path / "google", "google")
    lines = convert_checkpoint(tmp_path / "google", tmp_path / "ours")
    [note] = lines[1:]
    assert note.startswith("note: left out, because the keras_bert format cannot hold it: masked_lm_head/dense/bias,")
    assert note.count("masked_lm_head/") == 5


def test_verifying_finds_a_difference_and_says_who_is_not_installed(tmp_path):
    checkpoint = random_checkpoint()
    write_checkpoint(checkpoint, tmp_path / "one", "huggingface")
    config = checkpoint.config.replace(hidden_act="gelu_erf")
    write_checkpoint(checkpoint.replace(config=config), tmp_path / "other", "keras_bert")
    ours, theirs = verify(str(tmp_path / "one"), str(tmp_path / "other"))
    assert "largest difference of sequence_output" in ours
    assert "sequence_output 0.0e+00" not in ours
    assert theirs.startswith("input by transformers: not compared, because it is not installed here")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of the hub with one model, without access to the network."""
    revision = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "cache" / "models--someone--tiny-bert"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(revision)
    write_checkpoint(random_checkpoint(form.MASKED_LM), repository / "snapshots" / revision, "huggingface")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "cache"


def test_a_model_of_the_hub_is_read_from_the_cache(cache, tmp_path, capsys):
    checkpoint = read_checkpoint("hf://someone/tiny-bert")
    assert_same_tensors(random_checkpoint(form.MASKED_LM), checkpoint)
    assert checkpoint.path == "hf://someone/tiny-bert"
    BertEncoder.from_pretrained("hf://someone/tiny-bert@main")
    assert "BertEncoder from hf://someone/tiny-bert@main (Hugging Face BertForMaskedLM)" in capsys.readouterr().out
    convert_checkpoint("hf://someone/tiny-bert", tmp_path / "google", "google")
    assert sorted(os.listdir(tmp_path / "google"))[0] == "bert_config.json"


def test_a_model_that_is_not_in_the_cache_cannot_be_had_offline_nor_any_without_the_package(cache, monkeypatch):
    with pytest.raises(InputError, match="hf://someone/else cannot be downloaded: .* HF_HUB_OFFLINE=1"):
        read_checkpoint("hf://someone/else")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match="needs the package huggingface_hub.*: pip install"):
        read_checkpoint("hf://someone/tiny-bert")
