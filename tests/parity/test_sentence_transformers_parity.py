"""`SentenceEncoder` gives the vectors that sentence-transformers computes from the same folders.

KERAS_BERT_SENTENCE_MODEL may name a folder with real weights, such as all-MiniLM-L6-v2.
"""

import json
import os
import pathlib
import subprocess

import keras
import numpy as np
from tiny_checkpoints import VOCABULARY, random_checkpoint

from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.config import POOLINGS, BertConfig
from keras_bert.tasks.embedding.model import SentenceEncoder

SCRIPT = pathlib.Path(__file__).with_name("sentence_transformers_vectors.py")
TEXTS = [
    "the quick fox",
    "brown",
    "the quick brown fox the quickest fox",
    "the the the the the the the the the the the the",
]
SETTINGS = [{"pooling": [name], "normalize": False} for name in POOLINGS]
SETTINGS += [
    {"pooling": ["mean"]},
    {"pooling": ["cls", "max", "lasttoken"], "dense": [{"units": 6}, {"units": 4, "use_bias": False}]},
    {"pooling": ["mean"], "dense": [{"units": 5, "activation": "gelu_erf"}], "prompts": {"query": "the fox "}},
    {"pooling": ["mean"], "max_seq_length": 6},
]
STATIC_SETTINGS = [{"normalize": False}, {"prompts": {"query": "the fox "}}, {"dense": [{"units": 4}]}]


def test_vectors_of_written_folders_and_of_a_real_model_are_theirs(sentence_transformers_python, tmp_path):
    keras.utils.set_random_seed(1)
    write_checkpoint(random_checkpoint(), tmp_path / "plain", "huggingface")
    folders = []
    for number, settings in enumerate(SETTINGS):
        model = SentenceEncoder.from_pretrained(tmp_path / "plain", **settings)
        model.new_parts.set_trained()
        folders.append(str(tmp_path / f"model{number}"))
        model.save_pretrained(folders[-1], format="huggingface")
    for settings in STATIC_SETTINGS:
        model = SentenceEncoder(BertConfig.static(len(VOCABULARY), 6), **settings)
        model.vocabulary = VOCABULARY
        folders.append(str(tmp_path / f"static{len(folders)}"))
        model.save_pretrained(folders[-1], format="huggingface")
    folders += filter(None, [os.environ.get("KERAS_BERT_SENTENCE_MODEL")])
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS))
    files = [tmp_path / "texts.json", tmp_path / "found.npz"]
    subprocess.run([sentence_transformers_python, SCRIPT, *files, *folders], check=True, capture_output=True)
    with np.load(tmp_path / "found.npz") as theirs:
        assert f"{folders[8]} query" in theirs.files
        for name in theirs.files:
            folder, _, prompt = name.partition(" ")
            vectors = SentenceEncoder.from_pretrained(folder).encode(TEXTS, prompt=prompt)
            np.testing.assert_allclose(vectors, theirs[name], atol=1e-6 if "static" in name else 1e-5, rtol=0)
            print(name, np.abs(vectors - theirs[name]).max())
