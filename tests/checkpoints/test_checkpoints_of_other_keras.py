"""Checkpoints of KerasHub and TF Model Garden.

If these libraries are available, they write the files:

    KERAS_BERT_KERAS_HUB=/folder/with/keras_hub          put before the path of this Python
    KERAS_BERT_MODEL_GARDEN_PYTHON=/path/to/python       one that has tf-models-official, which needs Keras 2

Otherwise the tests write the files in the libraries' form: the names were taken from files of keras-hub 0.32 and
tf-models-official 2.20.
"""

import json
import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
import tensorflow as tf
from places import TESTS
from tiny_checkpoints import CONFIG, VOCABULARY, assert_same_tensors, random_checkpoint
from tiny_families import VOCABULARIES, config_of, word_pieces

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import StoredTensor
from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.checkpoints.weight_list import SEGMENTS
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.masked_lm.model import MaskedLM
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer

HEADS, HEAD_SIZE, WIDTH = CONFIG.num_attention_heads, CONFIG.head_size, CONFIG.hidden_size
TEXTS = ["the fox", "a dog, the dog", "The FOXes? who", "é dog"]
SCRIPT = (TESTS / "parity") / "keras_checkpoints.py"


def apart(name, array):
    """Splits the axis of the heads, as in Keras' MultiHeadAttention."""
    kind, part = name.split("/")[-2:]
    if "/attention/" not in name:
        return array
    if kind == "output_dense":
        return array.reshape(HEADS, HEAD_SIZE, WIDTH) if part == "kernel" else array
    return array.reshape(WIDTH, HEADS, HEAD_SIZE) if part == "kernel" else array.reshape(HEADS, HEAD_SIZE)


# KerasHub.


def checkpoint_of(family, *heads, with_pooler=True, **changes):
    """A small checkpoint of a family, with random weights."""
    vocabulary = VOCABULARIES.get(family, word_pieces())
    shape = {"hidden_size": 8, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 12}
    shape |= {"vocab_size": len(vocabulary), "max_position_embeddings": 14}
    shape |= ({"embedding_size": 6} if family in ("albert", "electra") else {}) | changes
    labels = ("no", "yes", "maybe") if form.CLASSIFIER in heads else None
    options = {"config": config_of(family, **shape), "labels": labels, "vocabulary": vocabulary}
    return random_checkpoint(*heads, with_pooler=with_pooler, **options)


KERAS_HUB_LAYERS = {
    "attention/query": "_self_attention_layer/query_dense",
    "attention/key": "_self_attention_layer/key_dense",
    "attention/value": "_self_attention_layer/value_dense",
    "attention/output_dense": "_self_attention_layer/output_dense",
    "attention_layer_norm": "_self_attention_layer_norm",
    "intermediate_dense": "_feedforward_intermediate_dense",
    "output_dense": "_feedforward_output_dense",
    "output_layer_norm": "_feedforward_layer_norm",
}
KERAS_HUB_NAMES = {
    "encoder/embeddings/token_embeddings": "reversible_embedding/vars/0",
    "encoder/embeddings/position_embeddings": "position_embedding/vars/0",
    "encoder/embeddings/segment_embeddings": "embedding/vars/0",
    "encoder/embeddings/layer_norm": "layer_normalization",
    "encoder/pooler/dense": "dense",
    "masked_lm_head/dense": "masked_lm_head/_intermediate_dense",
    "masked_lm_head/layer_norm": "masked_lm_head/_intermediate_layer_norm",
    "masked_lm_head/output_bias": "masked_lm_head/vars/0",
    "classifier": "dense",
}
# In these families the pooler belongs to the classifier.
TWO_TABLES = {
    "encoder/embeddings/token_embeddings": "token_and_position_embedding/token_embedding/vars/0",
    "encoder/embeddings/position_embeddings": "token_and_position_embedding/position_embedding/vars/0",
    "classifier": "dense_1",
}
PROJECTED = {"encoder/embeddings/projection": "dense", "encoder/pooler/dense": "dense_1"}
# Family -> the start of the names of its classes, and its own names of weights.
KERAS_HUB = {
    "bert": ("Bert", {}),
    "roberta": ("Roberta", TWO_TABLES),
    "distilbert": ("DistilBert", TWO_TABLES),
    "albert": ("Albert", PROJECTED),
    "electra": ("Electra", PROJECTED),
}


def keras_hub_name(name, family):
    names = KERAS_HUB_NAMES | KERAS_HUB[family][1]
    if name in names:
        return f"layers/{names[name]}"
    module, _, part = name.rpartition("/")
    number = {"kernel": 0, "gamma": 0, "bias": 1, "beta": 1}[part]
    if module in names:
        return f"layers/{names[module]}/vars/{number}"
    _, layer, rest = module.split("/", 2)
    index = layer.removeprefix("layer_")
    layer = "transformer_encoder" + ("" if index == "0" else f"_{index}")
    return f"layers/{layer}/{KERAS_HUB_LAYERS[rest]}/vars/{number}"


def write_preset(folder, checkpoint, task=None, lowercase=True, **settings):
    """Writes a preset; `settings` are those of the task. That of a BERT has its tokenizer."""
    config, family = checkpoint.config, checkpoint.config.model_type
    folder.mkdir()
    sizes = {
        "vocab_size" if family == "electra" else "vocabulary_size": config.vocab_size,
        "num_layers": config.num_hidden_layers,
        "num_heads": config.num_attention_heads,
        "hidden_dim": config.hidden_size,
        "intermediate_dim": config.intermediate_size,
        "dropout": config.hidden_dropout_prob,
        "max_sequence_length": config.max_position_embeddings - config.position_offset,
    }
    if KERAS_HUB[family][1] is not TWO_TABLES:
        sizes["num_segments"] = config.type_vocab_size
    if KERAS_HUB[family][1] is PROJECTED:
        sizes["embedding_dim"] = config.embedding_size
    if family == "albert":
        sizes |= {"num_groups": config.num_hidden_groups, "num_inner_repetitions": config.inner_group_num}
    class_name = f"{KERAS_HUB[family][0]}Backbone"
    (folder / "config.json").write_text(json.dumps({"class_name": class_name, "config": sizes}))
    if family == "bert":
        (folder / "assets" / "tokenizer").mkdir(parents=True)
        checkpoint.vocabulary.save(folder / "assets" / "tokenizer" / "vocabulary.txt")
        casing = {"lowercase": lowercase, "strip_accents": lowercase}
        (folder / "tokenizer.json").write_text(json.dumps({"class_name": "BertTokenizer", "config": casing}))
    of_task = ("encoder/pooler",) if KERAS_HUB[family][1] is TWO_TABLES else ()
    files = {"model.weights.h5": True} | ({"task.weights.h5": False} if task else {})
    for file_name, is_encoder in files.items():
        with h5py.File(folder / file_name, "w") as file:
            for name, tensor in checkpoint.tensors.items():
                array = tensor.read()
                if name == form.POSITION_EMBEDDINGS:
                    array = array[config.position_offset :]
                left_out = name == SEGMENTS and family == "roberta"
                if (name.startswith("encoder/") and not name.startswith(of_task)) == is_encoder and not left_out:
                    file[keras_hub_name(name, family)] = apart(name, array)
            if not is_encoder:
                file["optimizer/vars/0"] = np.float32(0)
    if task:
        (folder / "task.json").write_text(json.dumps({"class_name": task, "config": settings}))


TASKS = {
    "Backbone": ((), BertEncoder),
    "MaskedLM": ((form.MASKED_LM,), MaskedLM),
    "TextClassifier": ((form.CLASSIFIER,), SequenceClassifier),
}


@pytest.mark.parametrize(
    ("family", "task"),
    [*((family, task) for family in KERAS_HUB if family != "electra" for task in TASKS), ("electra", "Backbone")],
)
def test_a_preset_of_keras_hub_is_read_whole(family, task, tmp_path, capsys):
    heads, model_class = TASKS[task]
    name, its_names = KERAS_HUB[family]
    has_pooler = its_names is not TWO_TABLES or task == "TextClassifier"
    changes = {"num_hidden_groups": 2, "inner_group_num": 2} if family == "albert" else {}
    expected = checkpoint_of(family, *heads, with_pooler=has_pooler, **changes)
    if family == "roberta":  # without the two rows before the first position, and its only segment
        positions = expected.tensors[form.POSITION_EMBEDDINGS].read().copy()
        positions[:2] = 0
        zeros = {form.POSITION_EMBEDDINGS: positions, SEGMENTS: np.zeros((1, 8), "float32")}
        zeros = {key: StoredTensor.of(array) for key, array in zeros.items()}
        expected = expected.replace(tensors={**expected.tensors, **zeros})
    lowercase = task == "Backbone"
    write_preset(tmp_path / "preset", expected, f"{name}{task}" if heads else None, lowercase)
    found = read_checkpoint(tmp_path / "preset")
    assert_same_tensors(expected, found)
    assert (found.config.model_type, found.heads, found.ignored) == (family, heads, ())
    assert found.labels == (("LABEL_0", "LABEL_1", "LABEL_2") if task == "TextClassifier" else None)
    assert type(from_pretrained(None, tmp_path / "preset")) is model_class
    if family == "bert":
        assert found.config == expected.config.replace(do_lower_case=lowercase)
        assert found.vocabulary == expected.vocabulary
        assert f"(KerasHub Bert{task}): loaded are: " in capsys.readouterr().out
    if family == "roberta":
        assert (found.config.position_offset, found.config.max_position_embeddings) == (2, 14)


def test_a_preset_of_another_model_is_refused(tmp_path):
    write_preset(tmp_path / "preset", random_checkpoint())
    (tmp_path / "preset" / "config.json").write_text(json.dumps({"class_name": "GPT2Backbone"}))
    with pytest.raises(InputError, match="the preset is a 'GPT2Backbone', which is not of BERT's family"):
        read_checkpoint(tmp_path / "preset")


def run_script(python, arguments, **environment):
    command = [python, str(SCRIPT), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **environment})
    assert result.returncode == 0, result.stderr[-3000:]


def features_in(folder):
    generator = np.random.default_rng(0)
    mask = (np.arange(9) < np.array([[9], [4], [7]])).astype("int32")
    features = {
        "input_ids": generator.integers(0, CONFIG.vocab_size, mask.shape).astype("int32"),
        "input_mask": mask,
        "segment_ids": (generator.integers(0, 2, mask.shape) * mask).astype("int32"),
    }
    np.savez(folder / "features.npz", **features)
    return features


def assert_close(ours, theirs, features):
    real = features["input_mask"] == 1
    for name in theirs.files:
        one, other = np.asarray(ours[name]), theirs[name]
        one, other = (one[real], other[real]) if one.shape[:2] == real.shape else (one, other)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
        print(f"largest difference of {name}: {np.abs(one - other).max():.1e}")  # pytest -rP shows it


def test_keras_hub_itself_computes_the_same(tmp_path):
    path = os.environ.get("KERAS_BERT_KERAS_HUB")
    if not path:
        pytest.skip("KERAS_BERT_KERAS_HUB does not name a folder with keras_hub")
    features = features_in(tmp_path)
    run_script(sys.executable, ["keras_hub", tmp_path], PYTHONPATH=path)
    assert_close(
        BertEncoder.from_pretrained(tmp_path / "encoder")(features), np.load(tmp_path / "encoder.npz"), features
    )
    classifier = SequenceClassifier.from_pretrained(tmp_path / "classifier")
    assert_close({"logits": classifier(features)}, np.load(tmp_path / "classifier.npz"), features)
    found = read_checkpoint(tmp_path / "masked_lm")
    assert found.heads == (form.MASKED_LM,)
    assert found.ignored == ()


def test_keras_hub_reads_the_encoders_of_our_hugging_face_folders(tmp_path):
    path = os.environ.get("KERAS_BERT_KERAS_HUB")
    if not path:
        pytest.skip("KERAS_BERT_KERAS_HUB does not name a folder with keras_hub")
    ids = np.random.default_rng(0).integers(5, 11, (3, 9)).astype("int32")
    mask = (np.arange(9) < np.array([[9], [4], [7]])).astype("int32")
    features = {"input_ids": ids, "input_mask": mask, "segment_ids": (np.arange(9) > 2).astype("int32") * mask}
    np.savez(tmp_path / "features.npz", **features)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    # Of families other than BERT, KerasHub expects the names of a model with a head.
    heads = {"bert": (), **dict.fromkeys(("roberta", "distilbert", "albert"), (form.MASKED_LM,))}
    checkpoints = {family: checkpoint_of(family, *heads[family]) for family in heads}
    roberta = checkpoints["roberta"]  # KerasHub leaves out its only segment, which is 0 in published ones
    segment = StoredTensor.of(np.zeros((1, 8), "float32"))
    checkpoints["roberta"] = roberta.replace(tensors={**roberta.tensors, SEGMENTS: segment})
    for family, checkpoint in checkpoints.items():
        write_checkpoint(checkpoint, tmp_path / family, "huggingface")
        write_checkpoint(checkpoint, tmp_path / "ours" / family)
    run_script(sys.executable, ["open_folders", tmp_path], PYTHONPATH=path)
    for family, checkpoint in checkpoints.items():
        print(family)
        model = from_pretrained(None, tmp_path / "ours" / family)
        with np.load(f"{tmp_path / family}.npz") as theirs:
            assert_close(getattr(model, "encoder", model)(features), theirs, features)
        for text, ids in zip(TEXTS, json.loads((tmp_path / family / "ids.json").read_text()), strict=True):
            # KerasHub runs the model of an ALBERT as it is, without lower case and accents.
            if family != "albert" or (text.isascii() and text.islower()):
                assert ids == list(checkpoint.tokenizer.encode(text)), (family, text)


# TF Model Garden.

MODEL_GARDEN_LAYERS = {
    "attention/query": ("_attention_layer/_query_dense", "self_attention/query"),
    "attention/key": ("_attention_layer/_key_dense", "self_attention/key"),
    "attention/value": ("_attention_layer/_value_dense", "self_attention/value"),
    "attention/output_dense": ("_attention_layer/_output_dense", "self_attention/attention_output"),
    "attention_layer_norm": ("_attention_layer_norm", "self_attention_layer_norm"),
    "intermediate_dense": ("_intermediate_dense", "intermediate"),
    "output_dense": ("_output_dense", "output"),
    "output_layer_norm": ("_output_layer_norm", "output_layer_norm"),
}
MODEL_GARDEN_NAMES = {
    "encoder/embeddings/token_embeddings": ("_embedding_layer/embeddings", "word_embeddings/embeddings"),
    "encoder/embeddings/position_embeddings": ("_position_embedding_layer/embeddings", "position_embedding/embeddings"),
    "encoder/embeddings/segment_embeddings": ("_type_embedding_layer/embeddings", "type_embeddings/embeddings"),
    "encoder/embeddings/layer_norm": ("_embedding_norm_layer", "embeddings/layer_norm"),
    "encoder/pooler/dense": ("_pooler_layer", "pooler_transform"),
}


def write_model_garden(prefix, checkpoint):
    """Writes tf.train.Checkpoint(encoder=...), with the objects and the variables' names of BertEncoderV2."""
    root = tf.train.Checkpoint()
    for name, tensor in checkpoint.tensors.items():
        module, _, part = name.rpartition("/")
        if name in MODEL_GARDEN_NAMES:
            place, own_name = MODEL_GARDEN_NAMES[name]
        elif module in MODEL_GARDEN_NAMES:
            place, own_name = (f"{item}/{part}" for item in MODEL_GARDEN_NAMES[module])
        else:
            _, layer, rest = module.split("/", 2)
            place, own_name = MODEL_GARDEN_LAYERS[rest]
            place = f"_transformer_layers/{layer.removeprefix('layer_')}/{place}/{part}"
            own_name = f"transformer/{layer}/{own_name}/{part}"
        owner = root
        *parents, last = ["encoder", *place.split("/")]
        for parent in parents:
            if parent not in owner._trackable_children():
                owner._track_trackable(tf.train.Checkpoint(), parent)
            owner = owner._trackable_children()[parent]
        variable = tf.Variable(apart(name, tensor.read()), name=f"bert_encoder/{own_name}")
        owner._track_trackable(variable, last)
    root.save(str(prefix))


@pytest.mark.parametrize("with_config", [True, False])
def test_a_model_garden_encoder_is_read_whole(with_config, tmp_path, capsys):
    checkpoint = random_checkpoint()
    write_model_garden(tmp_path / "bert_model.ckpt", checkpoint)
    VOCABULARY.save(tmp_path / "vocab.txt")
    if with_config:
        CONFIG.save(tmp_path / "bert_config.json")
    found = read_checkpoint(tmp_path)
    assert_same_tensors(checkpoint, found)
    assert found.ignored == ()
    assert found.config == CONFIG
    BertEncoder.from_pretrained(tmp_path)
    assert "(TF Model Garden): loaded are: encoder\n" in capsys.readouterr().out


def test_model_garden_itself_computes_the_same(tmp_path):
    python = os.environ.get("KERAS_BERT_MODEL_GARDEN_PYTHON")
    if not python:
        pytest.skip("KERAS_BERT_MODEL_GARDEN_PYTHON does not name a Python with tf-models-official")
    features = features_in(tmp_path)
    run_script(python, ["model_garden", tmp_path], TF_USE_LEGACY_KERAS="1")
    for name in ("encoder", "encoder_v2"):
        ours = BertEncoder.from_pretrained(tmp_path / name)(features)
        assert_close(ours, np.load(tmp_path / f"{name}.npz"), features)
    classifier = SequenceClassifier.from_pretrained(tmp_path / "classifier", labels=["no", "yes", "maybe"])
    assert_close({"logits": classifier(features)}, np.load(tmp_path / "classifier.npz"), features)
    pretrainer = BertPretrainer.from_pretrained(tmp_path / "pretrainer")
    outputs = pretrainer({**features, "masked_lm_positions": np.tile(np.array([[1, 3]], "int32"), (3, 1))})
    assert_close(outputs, np.load(tmp_path / "pretrainer.npz"), features)
    assert read_checkpoint(tmp_path / "tagger").heads == ("token_classifier",)
    assert read_checkpoint(tmp_path / "span").heads == ("span_classifier",)
    for name in ("encoder", "encoder_v2", "classifier", "pretrainer", "tagger", "span"):
        assert read_checkpoint(tmp_path / name).ignored == ()
