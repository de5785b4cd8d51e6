"""The pre-training of DeBERTa-v3: its head, and how generator and discriminator share a table."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from numpy_bert import ACTIVATIONS, scatter_weights
from tasks.pretraining.test_electra_pretrainer import micro_config, pretrainer, records

from keras_bert import BertPretrainer, ElectraPretrainer, MaskedLM, ReplacedTokenDetector
from keras_bert.checkpoints.checkpoint import StoredTensor
from keras_bert.checkpoints.formats import read_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.checkpoints.safetensors_file import read_safetensors, write_safetensors
from keras_bert.serving.portable.onnx_engine import OnnxEngine
from keras_bert.serving.portable.onnx_model import write_onnx

pytestmark = pytest.mark.usefixtures("without_graphs")
CONFIG = micro_config("deberta-v3-base")
HALF = {"generator_hidden_size": 0.5, "generator_layers": 0.5}


def tables_of(model):
    """Returns the table of the generator, and what the discriminator adds to it."""
    embeddings = model.discriminator.encoder.embeddings
    assert embeddings.token_embeddings is model.generator.encoder.embeddings.token_embeddings
    return embeddings.token_embeddings, embeddings.token_embeddings_difference


def test_no_gradient_of_the_discriminator_reaches_the_table_of_the_generator():
    model, x = pretrainer(CONFIG), records()
    with tf.GradientTape(persistent=True) as tape:
        generator, discriminator = model.loss_terms(x, None, model(x, training=True), None)
        losses = [term.numerator / term.weight for term in (generator, discriminator)]
    assert discriminator.name == "disc_loss"
    tables = [variable.value for variable in tables_of(model)]
    of_generator, of_discriminator = (tape.gradient(loss, tables) for loss in losses)
    assert of_generator[1] is None
    assert of_discriminator[0] is None
    for gradient in (of_generator[0], of_discriminator[1]):
        assert np.abs(np.asarray(tf.convert_to_tensor(gradient))).max() > 1e-3


def test_each_model_trains_its_own_part_of_the_table(eagerly):
    x, changes = records(), []
    for weight in (1.0, 50.0):
        keras.utils.set_random_seed(0)
        model = pretrainer(CONFIG, disc_weight=weight, temperature=0.0)
        model.compile(optimizer=keras.optimizers.SGD(0.1))
        before = [table.numpy() for table in tables_of(model)]
        model.fit(x, batch_size=6, verbose=0)
        changes.append([table.numpy() - old for table, old in zip(tables_of(model), before, strict=True)])
    (table, difference), (other_table, other_difference) = changes
    np.testing.assert_array_equal(table, other_table)
    np.testing.assert_allclose(other_difference, 50 * difference, rtol=1e-3, atol=1e-5)
    assert min(np.abs(table).max(), np.abs(difference).max()) > 1e-4


@pytest.mark.parametrize("format", ["keras_bert", pytest.param("huggingface", marks=pytest.mark.slow)])
def test_a_stored_discriminator_has_the_sum_of_both_tables(format, tmp_path):
    model, x = pretrainer(CONFIG, **HALF), records()
    whole = sum(np.asarray(table) for table in tables_of(model))
    for name, part in (("both", model), ("discriminator", model.discriminator), ("generator", model.generator)):
        part.save_pretrained(tmp_path / name, format=format)
    generator = MaskedLM.from_pretrained(tmp_path / "generator")
    np.testing.assert_allclose(generator(x)["masked_lm_logits"], model(x)["masked_lm_logits"], atol=1e-5)
    for name in ("both", "discriminator"):
        discriminator = ReplacedTokenDetector.from_pretrained(tmp_path / name)
        np.testing.assert_array_equal(discriminator.encoder.embeddings.token_embeddings, whole)
        np.testing.assert_allclose(discriminator(x), model.discriminator(x), atol=1e-5)


def test_an_onnx_file_of_a_discriminator_has_the_sum_of_both_tables(tmp_path):
    model, x = pretrainer(CONFIG, **HALF).discriminator, records()
    write_onnx(model, tmp_path / "model.onnx")
    found = OnnxEngine(tmp_path / "model.onnx").run({name: x[name] for name in model.feature_names})
    np.testing.assert_allclose(found, model(x), atol=1e-5)


@pytest.mark.parametrize("is_folder", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_pretrainer_comes_back_with_both_tables(is_folder, tmp_path):
    model, x = pretrainer(CONFIG, **HALF), records()
    if is_folder:
        model.save_pretrained(tmp_path / "both")
        again = ElectraPretrainer.from_pretrained(tmp_path / "both")
    else:
        model.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras")
    for one, other in zip(tables_of(again), tables_of(model), strict=True):
        np.testing.assert_array_equal(one, other)
    for name, values in again(x).items():
        np.testing.assert_array_equal(values, model(x)[name])


def test_a_pretrainer_starts_with_the_table_of_a_checkpoint(tmp_path):
    start = BertPretrainer(CONFIG.replace(intermediate_size=32))
    scatter_weights(start)
    start.save_pretrained(tmp_path / "start")
    model = ElectraPretrainer.from_pretrained(tmp_path / "start", generator_hidden_size=1.0)
    table, difference = tables_of(model)
    np.testing.assert_array_equal(table, start.encoder.embeddings.token_embeddings)
    assert not np.asarray(difference).any()
    logits = model(records())["masked_lm_logits"]
    np.testing.assert_allclose(
        logits, start({**records(), "next_sentence_labels": None})["masked_lm_logits"], atol=1e-5
    )


def head_of_microsoft(model, x):
    """The logits of the rows by NumPy and the formula of microsoft/DeBERTa, `MaskPredictionHead`."""
    head, hidden = model.replaced_token_head, np.asarray(model.encoder(x)["sequence_output"], "float64")
    summed = hidden + hidden[:, :1]
    centred = summed - summed.mean(-1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-7)
    normal = normal * np.asarray(head.layer_norm.gamma) + np.asarray(head.layer_norm.beta)
    inner = ACTIVATIONS["gelu_erf"](normal @ np.asarray(head.dense.kernel) + np.asarray(head.dense.bias))
    return (inner @ np.asarray(head.output_dense.kernel) + np.asarray(head.output_dense.bias))[..., 0]


@pytest.mark.parametrize("spelling", ["classifier", "classifer"])
def test_a_discriminator_is_read_by_the_names_of_its_weights(tmp_path, spelling):
    """A file of Microsoft has both heads."""
    model, x = ReplacedTokenDetector(CONFIG), records()
    scatter_weights(model)
    np.testing.assert_allclose(model(x), head_of_microsoft(model, x), atol=1e-5)
    model.save_pretrained(tmp_path / "theirs", format="huggingface")
    assert read_checkpoint(tmp_path / "theirs").kind == "Hugging Face DebertaV2ForPreTraining"
    file = tmp_path / "theirs" / "model.safetensors"
    tensors = {name.replace("classifier", spelling): tensor for name, tensor in read_safetensors(str(file)).items()}
    names = [
        f"mask_predictions.{part}.{kind}" for part in ("dense", "LayerNorm", spelling) for kind in ("weight", "bias")
    ]
    assert set(names) <= set(tensors)
    arrays = {name: StoredTensor.of(tensor.read()) for name, tensor in tensors.items()}
    masked_lm = MaskedLM(CONFIG)
    masked_lm.save_pretrained(tmp_path / "masked_lm", format="huggingface")
    others = read_safetensors(str(tmp_path / "masked_lm" / "model.safetensors"))
    for more in ({}, {name: tensor for name, tensor in others.items() if name.startswith("lm_predictions")}):
        with open(file, "wb") as output:
            write_safetensors(output, arrays | more, {"format": "pt"})
        again = from_pretrained(None, tmp_path / "theirs")
        assert type(again) is ReplacedTokenDetector
        np.testing.assert_allclose(again(x), model(x), atol=1e-6)
    head = MaskedLM.from_pretrained(tmp_path / "theirs").masked_lm_head
    np.testing.assert_array_equal(head.dense.kernel, masked_lm.masked_lm_head.dense.kernel)
