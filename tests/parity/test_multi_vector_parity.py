"""`MultiVectorEncoder` gives the vectors, scores and losses of sentence-transformers 6 for the same folders."""

import json
import pathlib
import subprocess

import keras
import numpy as np
import tiny
from recorded_folders import recorded_folder
from tiny_checkpoints import random_checkpoint, write_stanford_colbert

from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.optimization import AdamW
from keras_bert.tasks.multi_vector.model import MultiVectorEncoder

SCRIPT = pathlib.Path(__file__).with_name("sentence_transformers_multi_vector.py")
FOLDER = recorded_folder("heads", "colbert")
TEXTS = {
    "queries": ["what is the capital of france?", "paris", "the city of a man in the capital of the united states"],
    "documents": ["paris is the capital of france.", "the city - of paris, is a city!", "the city of a man"],
    "others": ["abc def ghi jkl mno pqr stu vwx yz abc def ghi jkl", "a city? what city?", "."],
    "teacher": [[5.0, 1.0], [3.0, 3.5], [0.5, -2.0]],
}
VOCABULARY = tiny.vocabulary("[unused0] [unused1]", *tiny.pieces(), "the what is of capital city . , ! ? -")
CONFIG = tiny.config(VOCABULARY, dropout=0.0, num_hidden_layers=2, max_position_embeddings=48, initializer_range=0.3)
MARKS = {"query": "[unused0] ", "document": "[unused1] "}
SETTINGS = [
    {"prompts": MARKS, "query_expansion": {"length": 24}, "document_length": 20, "skiplist_words": list(".,!?")},
    {"prompts": MARKS, "query_expansion": {"length": 8, "strategy": "min", "attend": True, "token": "the"}},
    {"prompts": {"query": "what is the "}, "dense": [{"units": 9, "activation": "gelu_erf"}, {"units": 5}]},
    {"query_expansion": {"length": 12, "strategy": "min"}, "query_length": 14, "normalize": False, "dense": []},
    {"prompts": MARKS, "similarity_fn_name": "meanmaxsim", "document_length": 7},
]


def losses_of(model):
    """The losses of one batch, by their names in sentence-transformers."""
    x, found = (TEXTS["queries"], TEXTS["documents"], TEXTS["others"]), {}
    for name, y, loss in (
        ("MultipleNegativesRanking", None, "in_batch_negatives"),
        ("DistillKLDiv", TEXTS["teacher"], "distillation"),
        ("MarginMSE", TEXTS["teacher"], "margin_mse"),
    ):
        model.compile(AdamW(0.0), loss=loss, run_eagerly=True, jit_compile=False)
        found[name] = model.fit(x, y, verbose=0).history["loss"][0]
    return found


def test_vectors_scores_and_losses_of_folders_are_theirs(sentence_transformers_python, tmp_path):
    keras.utils.set_random_seed(1)
    write_checkpoint(random_checkpoint(config=CONFIG, vocabulary=VOCABULARY), tmp_path / "plain", "huggingface")
    folders = [str(FOLDER)]
    for number, settings in enumerate(SETTINGS):
        model = MultiVectorEncoder.from_pretrained(tmp_path / "plain", **settings)
        model.new_parts.set_trained()
        folders.append(str(tmp_path / f"model{number}"))
        model.save_pretrained(folders[-1], format="huggingface")
    folders.append(str(tmp_path / "stanford"))
    write_stanford_colbert(tmp_path / "plain", tmp_path / "stanford", query_maxlen=12, doc_maxlen=15)
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS))
    command = [
        sentence_transformers_python,
        str(SCRIPT),
        str(tmp_path / "texts.json"),
        str(tmp_path / "found.npz"),
        *folders,
    ]
    subprocess.run(command, check=True, capture_output=True)
    with np.load(tmp_path / "found.npz") as theirs:
        for folder in folders:
            model = MultiVectorEncoder.from_pretrained(folder)
            queries, documents = (
                model.encode_query(TEXTS["queries"]),
                model.encode_document(TEXTS["documents"] + TEXTS["others"]),
            )
            for role, vectors in (("query", queries), ("document", documents)):
                for number, found in enumerate(vectors):
                    np.testing.assert_allclose(found, theirs[f"{folder} {role} {number}"], atol=1e-5, rtol=0)
            similarity = model.similarity(queries, documents)
            np.testing.assert_allclose(similarity, theirs[f"{folder} similarity"], atol=1e-5, rtol=1e-6)
            for layer in model._flatten_layers():
                if isinstance(layer, keras.layers.Dropout):
                    layer.rate = 0.0
            if model.similarity_fn_name == "maxsim":
                for name, found in losses_of(model).items():
                    np.testing.assert_allclose(found, theirs[f"{folder} {name}"], rtol=1e-5, atol=1e-6)
                    print(name, found - theirs[f"{folder} {name}"])
