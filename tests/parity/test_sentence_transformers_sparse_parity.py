"""`SparseEncoder` gives the vectors and losses of sentence-transformers, whichever side wrote the folder."""

import json
import pathlib
import subprocess

import keras
import numpy as np
import pytest
from places import TESTS
from recorded_folders import recorded_folder
from tiny_families import new

from keras_bert.tasks.sparse.model import SparseEncoder

SCRIPT = pathlib.Path(__file__).with_name("sentence_transformers_sparse.py")
GOLDEN = json.loads((TESTS / "embedding_golden" / "sparse.json").read_text())
TEXTS = ["the fox", "a dog, the dog", "fox fox the fox who", "the " * 60]
# Family, arguments.
SETTINGS = [
    ("electra", {}),
    ("distilbert", {"pooling_strategy": "sum", "activation_function": "log1p_relu", "max_seq_length": 7}),
    ("distilbert", {"static_queries": True, "max_query_length": 3, "prompts": {"query": "the ", "passage": "fox "}}),
    ("distilbert", {"static_queries": True, "max_active_dims": 2, "default_route": "query"}),
    ("roberta", {"static_queries": True}),
    ("xlm-roberta", {}),
    ("mpnet", {}),
    ("eurobert", {}),
    ("deberta-v2", {}),
    ("modernbert", {"prompts": {"passage": "fox "}, "default_prompt": "passage"}),
]


def test_vectors_and_losses_are_theirs(sentence_transformers_python, tmp_path):
    folders = [str(recorded_folder("heads", name)) for name in ("splade", "inference_free")]
    for number, (family, arguments) in enumerate(SETTINGS):
        model = new(SparseEncoder, family, **arguments)
        if model.static_queries:
            model.query_weights.weight.assign(np.linspace(0, 3, model.config.vocab_size))
        folders.append(str(tmp_path / f"model{number}"))
        model.save_pretrained(folders[-1], format="huggingface")
    (tmp_path / "given.json").write_text(json.dumps({**GOLDEN, "texts": TEXTS}))
    files = [tmp_path / "given.json", tmp_path / "found.json"]
    subprocess.run([sentence_transformers_python, SCRIPT, *files, *folders], check=True, capture_output=True)
    found = json.loads((tmp_path / "found.json").read_text())
    for name, expected in found["losses"].items():
        assert GOLDEN["losses"][name]["loss"] == pytest.approx(expected["loss"], rel=1e-9)
    for folder, methods in found["vectors"].items():
        keras.utils.clear_session()
        model = SparseEncoder.from_pretrained(folder)
        for method, expected in methods.items():
            vectors = getattr(model, method)(TEXTS).toarray()
            np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0, err_msg=f"{folder} {method}")
            print(folder, method, np.abs(vectors - np.array(expected)).max())
