"""Exported models: their files and signatures, and what is refused.

Their answers are compared in test_served_signatures.py, and without Python in test_export_in_c_api.py.
"""

import functools
import os
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny_models
from full_disk import file_size_limit
from tiny_models import CONFIG, VOCABULARY

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.serving.export import export_for_serving
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tokenization.vocabulary import Vocabulary

TEXTS = tiny_models.TEXTS[:7]
NAMES = ["single", "several", "masked"]


def classifier(config=CONFIG, vocabulary=VOCABULARY, **arguments):
    model = SequenceClassifier(config, labels=["a", "b", "c"], **arguments)
    model.vocabulary = vocabulary
    return model


def probabilities(answers):
    return [[*answer.probabilities.values()] for answer in answers]


def test_keras_has_a_layer_for_exports(served):
    layer = keras.layers.TFSMLayer(served[1]["single"], call_endpoint="serving_default")
    expected = probabilities(served[0]["single"][0].predict(TEXTS))
    np.testing.assert_allclose(layer(tf.constant(TEXTS))["probabilities"], expected, atol=1e-5)


OUTPUTS = {
    "single": ["label", "labels", "probabilities", "probability"],
    "several": ["is_given", "labels", "probabilities"],
    "masked": ["positions", "probabilities", "tokens"],
}


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_what_servers_and_clients_can_use(served, name):
    saved_model = read_saved_model(served[1][name])
    signatures = saved_model.meta_graphs[0].signature_def
    names = {"serving_default", "tokens", "raw_outputs", "tokenize", "examples"}
    names |= {"classify"} if name != "masked" else set()
    assert set(signatures) - {"__saved_model_init_op"} == names
    texts = ["text", "text_b"] if name == "several" else ["text"]
    assert sorted(signatures["serving_default"].inputs) == texts
    ids = ["input_ids", "lengths", "segment_ids"] if name == "several" else ["input_ids", "lengths"]
    assert sorted(signatures["tokens"].inputs) == ids, "a mask would be padded with ones by a server"
    for signature in (signatures["serving_default"], signatures["tokens"]):
        assert sorted(signature.outputs) == OUTPUTS[name]
        for tensor in [*signature.inputs.values(), *signature.outputs.values()]:
            assert tf.as_dtype(tensor.dtype) in (tf.string, tf.int32, tf.float32, tf.bool)
            assert not tensor.tensor_shape.unknown_rank
            assert tensor.tensor_shape.dim[0].size == -1
    methods = {signature: definition.method_name for signature, definition in signatures.items() if signature in names}
    assert methods.pop("classify", "tensorflow/serving/classify") == "tensorflow/serving/classify"
    assert set(methods.values()) == {"tensorflow/serving/predict"}
    assert not compiled_functions(saved_model), "stock servers have XLA switched off"


def read_saved_model(folder):
    from tensorflow.core.protobuf import saved_model_pb2

    return saved_model_pb2.SavedModel.FromString(pathlib.Path(folder, "saved_model.pb").read_bytes())


def compiled_functions(saved_model):
    library = saved_model.meta_graphs[0].graph_def.library
    return [
        function.signature.name
        for function in library.function
        for owner in [function, *function.node_def]
        if "_XlaMustCompile" in owner.attr and owner.attr["_XlaMustCompile"].b
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_weights_are_on_disk_once_beside_the_vocabulary_and_the_config(served, name):
    model, folder = served[0][name][0], served[1][name]
    assert sorted(files_below(folder)) == [
        "assets/bert_config.json",
        "assets/export.json",
        "assets/vocab.txt",
        "fingerprint.pb",
        "saved_model.pb",
        "variables/variables.data-00000-of-00001",
        "variables/variables.index",
    ]
    weights = model.count_params() * 4
    assert weights <= pathlib.Path(folder, "variables/variables.data-00000-of-00001").stat().st_size < 1.5 * weights
    assert Vocabulary.from_file(f"{folder}/assets/vocab.txt") == VOCABULARY
    assert BertConfig.from_json_file(f"{folder}/assets/bert_config.json") == CONFIG


def files_below(folder):
    files = [path for path in pathlib.Path(folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.slow
def test_a_trained_model_exports_without_dropout_and_without_its_optimizer(tmp_path):
    model = classifier()
    model.compile(optimizer="sgd", jit_compile=False)
    model.fit(TEXTS, ["a", "b", "c"] * 2 + ["a"], verbose=0)
    expected = probabilities(model.predict(TEXTS))
    model.compile(optimizer="sgd", jit_compile=True)
    answer = tf.saved_model.load(model.export_for_serving(tmp_path)).signatures["serving_default"]
    for _ in range(2):
        np.testing.assert_allclose(answer(text=tf.constant(TEXTS))["probabilities"], expected, atol=1e-5)
    assert pathlib.Path(tmp_path, "1/variables/variables.data-00000-of-00001").stat().st_size < 5 * model.count_params()
    assert not compiled_functions(read_saved_model(tmp_path / "1"))


CLASSIFIER, PRETRAINER = (functools.partial(tiny_models.make_model, name) for name in ("classifier", "pretrainer"))
OTHER = Vocabulary([*VOCABULARY.tokens, "cats"])
DIFFERENT = f"vocabulary has {len(OTHER)} tokens but bert_config.json says vocab_size={len(VOCABULARY)}"


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda: classifier(vocabulary=None), {}, "no vocabulary.* Set model.vocabulary"),
        (lambda: classifier(vocabulary=OTHER), {}, DIFFERENT),
        (keras.Sequential, {}, "Only these models can be exported: .*SequenceClassifier.* Received: Sequential"),
        (lambda: classifier(CONFIG.replace(type_vocab_size=1)), {"text_pairs": True}, "cannot take pairs of texts"),
        (CLASSIFIER, {"top_n": 3}, "no option top_n. Use one of: max_seq_length, text_pairs, top_k"),
        (PRETRAINER, {"top_k": 0}, "top_k must be a whole number of at least 1. Received: 0"),
        (PRETRAINER, {"top_k": len(VOCABULARY) + 1}, "top_k must be a whole number of at least 1 and at most"),
        (PRETRAINER, {"text_pairs": True}, "is for exports of .*SequenceClassifier, .* only. Received: BertP"),
        (CLASSIFIER, {"max_seq_length": 49}, "A sequence length of 49 is more than this model's 48 positions"),
        (CLASSIFIER, {"max_seq_length": 2}, "max_seq_length must be a whole number of at least 3. Received: 2"),
        (
            CLASSIFIER,
            {"max_seq_length": 4, "text_pairs": True},
            "max_seq_length must be a whole number of at least 5. Received: 4",
        ),
        (CLASSIFIER, {"dtype": "float16"}, "dtype must be float32 or bfloat16. Received: 'float16'"),
        (CLASSIFIER, {"weights": "int4"}, "weights must be int8 or None. Received: 'int4'"),
        (CLASSIFIER, {"weights": "int8", "dtype": "bfloat16"}, "weights=int8 computes in float32"),
        (lambda: tiny_models.make_model("encoder"), {"pooling": "sum"}, "one of cls, max, mean.*Received: 'sum'"),
    ],
)
def test_what_cannot_be_exported_is_refused(tmp_path, make, options, message):
    with pytest.raises(InputError, match=message):
        export_for_serving(make(), tmp_path, **options)
    assert os.listdir(tmp_path) == []


def test_eight_bit_weights_answer_as_the_nearest_of_255_steps(tmp_path):
    model = classifier()
    saved = tf.saved_model.load(model.export_for_serving(tmp_path, weights="int8"))
    found = saved.signatures["serving_default"](text=tf.constant(TEXTS))["probabilities"]
    for weight in model.weights:
        if len(weight.shape) == 2:
            matrix = np.asarray(weight)
            # An embedding table has a step for each row, a kernel for each column.
            step = np.abs(matrix).max(axis=1 if "embeddings" in weight.name else 0, keepdims=True) / 127
            weight.assign(np.rint(matrix / np.where(step, step, 1)) * step)
    np.testing.assert_allclose(found, probabilities(model.predict(TEXTS)), atol=1e-5)
    reader = tf.train.load_checkpoint(os.path.join(tmp_path, "1", "variables", "variables"))
    shapes = [(name, shape) for name, shape in reader.get_variable_to_shape_map().items() if len(shape) == 2]
    kinds = {reader.get_variable_to_dtype_map()[name] for name, shape in shapes if min(shape) > 1}
    assert kinds == {tf.int8}


@pytest.mark.parametrize("is_full", [False, True])
def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch, is_full):
    def save(*_, **__):
        raise tf.errors.ResourceExhaustedError(None, None, "variables.data-00000-of-00001; No space left on device")

    if is_full:
        monkeypatch.setattr(tf.saved_model, "save", save)
    message = "no space is left on the disk" if is_full else "Cannot write .*1: a file grew over the size limit"
    with file_size_limit(10_000), pytest.raises(InputError, match=message):
        export_for_serving(classifier(), tmp_path / "model")
    assert os.listdir(tmp_path / "model") == []
