"""Small models with weights that would reveal a mix-up, for the tests of checkpoints."""

import json
import shutil

import numpy as np
import tiny

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import BertCheckpoint, StoredTensor
from keras_bert.checkpoints.safetensors_file import read_safetensors, write_safetensors
from keras_bert.checkpoints.weight_list import encoder_shapes, head_shapes
from keras_bert.tokenization.kinds import as_tokenizer

VOCABULARY = tiny.vocabulary("the quick brown fox ##est")
CONFIG = tiny.config(VOCABULARY, hidden_size=8, num_hidden_layers=2, max_position_embeddings=12)
FEATURES = {
    "input_ids": np.array([[2, 5, 6, 3, 0], [2, 7, 8, 6, 3]], "int32"),
    "input_mask": np.array([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], "int32"),
    "segment_ids": np.array([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]], "int32"),
    "masked_lm_positions": np.array([[1], [2]], "int32"),
}


def random_checkpoint(*heads, config=CONFIG, labels=None, with_pooler=True, vocabulary=VOCABULARY) -> BertCheckpoint:
    """Returns a checkpoint in memory with these heads; no two numbers in it are the same."""
    shapes = encoder_shapes(config)
    if not with_pooler:
        shapes = {name: shape for name, shape in shapes.items() if form.part_of(name) != form.POOLER}
    for head in heads:
        shapes |= head_shapes(config, head, len(labels or ()))
    generator = np.random.default_rng(0)
    tensors = {
        name: StoredTensor.of(generator.normal(0, 0.1, shape).astype("float32")) for name, shape in shapes.items()
    }
    tokenizer = as_tokenizer(vocabulary, config.do_lower_case)
    return BertCheckpoint("memory", "random", config, tokenizer, tensors, labels=labels)


def assert_same_tensors(left: BertCheckpoint, right: BertCheckpoint) -> None:
    """Checks for equal names and, for each, equal bytes."""
    assert set(left.tensors) == set(right.tensors)
    for name, tensor in left.tensors.items():
        one, other = tensor.read(), right.tensors[name].read()
        assert one.shape == other.shape == tensor.shape, name
        assert one.dtype == other.dtype, name
        assert one.tobytes() == other.tobytes(), name


def change_json(path, change=None, without=(), **values) -> None:
    """Replaces the content of a JSON file by `change(content)`, or removes and sets keys of it."""
    content = json.loads(path.read_text()) if path.exists() else {}
    kept = {name: value for name, value in content.items() if name not in without} if change is None else None
    path.write_text(json.dumps(change(content) if change else {**kept, **values}))


def write_arrays(folder, arrays) -> None:
    """Writes arrays into a folder as the weights of transformers."""
    tensors = {name: StoredTensor.of(np.asarray(array, order="C")) for name, array in arrays.items()}
    with open(folder / "model.safetensors", "wb") as file:
        write_safetensors(file, tensors, {"format": "pt"})


def write_stanford_colbert(plain, folder, **metadata) -> np.ndarray:
    """Writes a folder as Stanford's ColBERT does, with the encoder of a folder of transformers. Returns the kernel of
    its projection, `[6, H]`."""
    shutil.copytree(plain, folder)
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, "architectures": ["HF_ColBERT"]}))
    stored = {name: tensor.read() for name, tensor in read_safetensors(folder / "model.safetensors").items()}
    kernel = np.random.default_rng(3).normal(size=(6, values["hidden_size"])).astype("float32")
    named = {"linear.weight": kernel, **{f"bert.{name}": array for name, array in stored.items()}}
    write_arrays(folder, named)
    marks = {"query_token_id": "[unused0]", "doc_token_id": "[unused1]", "mask_punctuation": True}
    (folder / "artifact.metadata").write_text(json.dumps({**marks, **metadata}))
    return kernel
