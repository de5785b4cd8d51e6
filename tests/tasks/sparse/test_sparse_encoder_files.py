"""`SparseEncoder` and sentence-transformers: recorded vectors and losses, its folders, and what is refused by name."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from places import TESTS
from recorded_folders import recorded_folder
from tasks.embedding.test_embedding_losses import loss_and_gradient
from tiny_checkpoints import CONFIG, VOCABULARY, change_json, random_checkpoint

from keras_bert import BertEncoder, InputError, MaskedLM, SparseEncoder
from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.formats import read_checkpoint
from keras_bert.checkpoints.pretrained import model_of
from keras_bert.tasks.sparse.losses import SpladeLoss, as_splade_loss, flops

pytestmark = pytest.mark.usefixtures("without_graphs")

GOLDEN = json.loads((TESTS / "embedding_golden" / "sparse.json").read_text())
STATIC, POOLING = "query_0_SparseStaticEmbedding", "document_1_SpladePooling"


@pytest.fixture
def precision(request):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield
    keras.config.set_dtype_policy(before)


# Rounding in float32 moves these numbers by up to 3e-6, how far depends on the processor. So the vectors were recorded
# in float64, and the model must give the same in float64.
@pytest.mark.usefixtures("precision")
@pytest.mark.parametrize(("precision", "bound"), [("float64", 2e-7), ("float32", 5e-6)], indirect=["precision"])
@pytest.mark.parametrize("name", ["splade", "inference_free"])
def test_vectors_are_those_that_sentence_transformers_gave(name, bound):
    model = SparseEncoder.from_pretrained(recorded_folder("heads", name))
    for method, expected in GOLDEN["expected"][name].items():
        found = getattr(model, method)(GOLDEN["texts"]).toarray()
        np.testing.assert_allclose(found, expected, atol=bound, err_msg=method)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder in their format for models without static queries and with them."""
    folder = tmp_path_factory.mktemp("written")
    for is_static in (False, True):
        checkpoint = random_checkpoint(form.MASKED_LM, config=CONFIG.replace(num_hidden_layers=1))
        model = model_of(SparseEncoder, checkpoint, static_queries=is_static)
        model.save_pretrained(folder / str(is_static), format="huggingface")
    return folder


@pytest.fixture
def written(folders, tmp_path):
    """Function of whether queries are static -> a copy of the folder."""
    return lambda is_static: shutil.copytree(folders / str(is_static), tmp_path / "copy")


def with_module(modules):
    return [*modules, {"idx": 2, "name": "2", "path": "2", "type": "sentence_transformers.models.Normalize"}]


def adding(**values):
    return lambda before: {**before, **values}


def with_route(name: str, *modules: str):
    return lambda values: {**values, "structure": {**values["structure"], name: list(modules)}}


MODULES, SETTINGS, BERT = "modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"
ROUTER, SPLADE = "router_config.json", "1_SpladePooling/config.json"


@pytest.mark.parametrize(
    ("is_static", "file", "change", "message"),
    [
        (False, MODULES, with_module, "a Transformer and a SpladePooling is supported. Received: .*Normalize"),
        (False, MODULES, lambda modules: modules[1:], "a Transformer and.* Received: SpladePool"),
        (False, SETTINGS, adding(similarity_fn_name="cosine"), "similarity_fn_name is 'cosine'"),
        (False, SETTINGS, adding(truncate_dim=8), "truncate_dim is 8"),
        (False, SETTINGS, adding(surprise=1), "could change the results: 'surprise'=1"),
        (False, SPLADE, adding(pooling_strategy="mean"), "must be max or sum. Received: 'mean'"),
        (False, SPLADE, adding(activation_function="gelu"), "must be relu or log1p_relu. Received: 'gelu'"),
        (False, SPLADE, adding(embedding_dimension=3), "is 3, but the vocabulary has 10 tokens"),
        (False, SPLADE, adding(temperature=2), "'temperature'=2"),
        (False, BERT, adding(transformer_task="feature-extraction"), "transformer_task is 'feat"),
        (False, BERT, adding(transformer_task=None), "needs the transformer_task 'fill-mask'"),
        (True, MODULES, with_module, "no module after it is supported"),
        (True, ROUTER, with_route("query", POOLING), "one SparseStaticEmbedding for queries.*Received: SpladePooling"),
        (True, ROUTER, with_route("image", STATIC), "routes query, document, image"),
        (True, ROUTER, with_route("image", *[STATIC] * 1_000_000), "at most 100 modules.* Received: 1,00"),
        (True, ROUTER, adding(parameters={"default_route": "image"}), "default_route is 'image', which is none of its"),
        (True, ROUTER, adding(parameters={"route_mappings": {"a": "query"}}), "route_mappings is {'a': 'query'}"),
        (True, ROUTER, with_route("query", "../secret"), "is not inside the folder|the type of '../secret'"),
        (True, f"{STATIC}/config.json", adding(scale=2), "'scale'=2"),
        (True, f"{STATIC}/config.json", adding(path="idf.json"), "Cannot read .*idf.json"),
        (True, f"{STATIC}/tokenizer_config.json", adding(do_lower_case=False), "of queries must be that of documents"),
    ],
)
def test_a_module_or_a_setting_that_is_not_known_is_refused(is_static, file, change, message, written):
    folder = written(is_static)
    change_json(folder / file, change)
    with pytest.raises(InputError, match=message):
        SparseEncoder.from_pretrained(folder)


def test_weights_of_queries_may_be_named_by_token(written):
    folder = written(True)
    change_json(folder / STATIC / "config.json", adding(path="somewhere/idf.json"))
    (folder / "idf.json").write_text(json.dumps({"fox": 2.5, "the": 0.5, "unknown": 7}))
    queries = SparseEncoder.from_pretrained(folder).encode_query(["the fox", "quick zebra"]).toarray()
    expected = np.zeros((2, len(VOCABULARY)))
    expected[0, [VOCABULARY.ids["the"], VOCABULARY.ids["fox"]]] = 0.5, 2.5
    expected[1, VOCABULARY.unk_id] = 7  # as there: an unknown name is that of the unknown token
    np.testing.assert_array_equal(queries, expected)
    (folder / "idf.json").write_text(json.dumps({"fox": "many"}))
    with pytest.raises(InputError, match="the weight of 'fox' must be a number. Received: 'many'"):
        SparseEncoder.from_pretrained(folder)


def test_the_module_of_earlier_versions_is_read(written):
    earlier, folder = "sentence_transformers.sparse_encoder.models.MLMTransformer", written(False)
    change_json(folder / MODULES, lambda modules: [{**modules[0], "type": earlier}, modules[1]])
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 9, "do_lower_case": False}))
    assert SparseEncoder.from_pretrained(folder).max_seq_length == 9


@pytest.mark.parametrize("is_static", [False, True])
def test_other_models_take_the_encoder_and_the_head(is_static, written):
    folder = written(is_static)
    found = read_checkpoint(folder)
    assert found.config.sentence_pooling == f"{'Router' if is_static else 'SpladePooling'} of a SparseEncoder"
    assert found.arguments["SparseEncoder"].get("static_queries", False) == is_static
    MaskedLM.from_pretrained(folder)
    with pytest.raises(InputError, match="turn texts into vectors by .* of a SparseEncoder"):
        BertEncoder.from_pretrained(folder).export_for_serving("x")


def test_a_prompt_for_documents_has_the_name_that_counts_there(tmp_path):
    checkpoint = random_checkpoint(form.MASKED_LM)
    model = model_of(SparseEncoder, checkpoint, prompts={"passage": "the "}, default_prompt="passage")
    model.save_pretrained(tmp_path / "folder", format="huggingface")
    prompts = json.loads((tmp_path / "folder" / SETTINGS).read_text())["prompts"]
    assert prompts == {"passage": "the ", "document": "the ", "query": "the "}


# Recorded with sentence-transformers in float64 (parity/sentence_transformers_sparse.py).
VECTORS = np.array(GOLDEN["vectors"])


@pytest.mark.parametrize("name", GOLDEN["cases"])
def test_a_loss_and_its_gradient_are_those_of_sentence_transformers(name):
    texts, teacher, arguments = GOLDEN["cases"][name]
    if teacher is not None:
        teacher = np.array(teacher)
    loss = SpladeLoss(**{"query_regularizer_weight": 0.0, **arguments})
    value, gradient = loss_and_gradient(loss, VECTORS[:, :texts], teacher=teacher)
    expected = GOLDEN["losses"][name]
    np.testing.assert_allclose(value, expected["loss"], rtol=1e-9)
    np.testing.assert_allclose(gradient, np.array(expected["gradient"])[:, :texts], atol=1e-8)


def test_an_example_of_weight_0_does_not_count():
    loss = SpladeLoss(document_regularizer_weight=0.2, query_regularizer_weight=0.1)
    teacher = np.array([[1.0, -2.0], [0.5, 0.0], [3.0, 1.0]])
    found, gradient = loss_and_gradient(loss, VECTORS[:3], teacher=teacher, weights=np.array([1.0, 1.0, 0.0]))
    expected, _ = loss_and_gradient(loss, VECTORS[:2], teacher=teacher[:2])
    assert found == pytest.approx(expected)
    np.testing.assert_array_equal(gradient[2], 0)


def test_equal_texts_are_no_negatives_of_each_other():
    vectors, loss = VECTORS[:3, :2].copy(), SpladeLoss("in_batch_negatives", 0.0, 0.0)
    vectors[2] = vectors[0]
    found, _ = loss_and_gradient(loss, vectors, text_numbers=np.array([[0, 1], [2, 3], [0, 1]]))
    scores = vectors[:2, 0] @ vectors[:2, 1].T
    one, other = np.log(np.exp(scores).sum(axis=1)) - np.diag(scores)
    own = scores[1, 0]  # the first document is twice a negative of the second query
    other = np.log(np.exp(scores[1]).sum() + np.exp(own)) - scores[1, 1]
    assert found == pytest.approx((2 * one + other) / 3)


def test_a_share_of_the_weights_counts_for_both_regularisers():
    loss = SpladeLoss(document_regularizer_weight=0.2, query_regularizer_weight=0.1)
    none, quarter, whole = (loss_and_gradient(loss, VECTORS, share=share)[0] for share in (0.0, 0.25, 1.0))
    assert none == pytest.approx(loss_and_gradient(SpladeLoss(None, 0.0, 0.0), VECTORS)[0])
    assert quarter - none == pytest.approx((whole - none) / 4)


def test_only_vectors_with_more_numbers_than_the_threshold_count():
    vectors = tf.constant([[1.0, 2.0, 0.0], [3.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    values = [float(flops(vectors, threshold)) for threshold in (None, 1, 2, 3)]
    assert values == pytest.approx([(25 + 9 + 1) / 9, (4 + 9 + 1) / 9, 3 / 9, 0])


def test_static_queries_are_not_regularised():
    loss = SpladeLoss(query_regularizer_weight=1e6)
    found, _ = loss_and_gradient(loss, VECTORS, static_queries=True)
    assert found == pytest.approx(loss_and_gradient(SpladeLoss(query_regularizer_weight=0), VECTORS)[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"document_regularizer_weight": -1e-5}, "document_regularizer_weight must be .* at least 0. Received: -1e-0"),
        ({"query_regularizer_weight": -1}, "query_regularizer_weight must be a number of at least 0. Received: -1"),
        ({"query_regularizer_weight": "big"}, "query_regularizer_weight must be .* at least 0. Received: 'big'"),
        ({"document_regularizer_threshold": -1}, "document_regularizer_threshold must be a whole number of at least 0"),
        ({"ranking": "cosent"}, "ranking must be one of in_batch_negatives, margin_mse. Received: 'cosent'"),
        ({"scale": 0}, "scale must be a number above 0. Received: 0"),
        ({"ranking": "in_batch_negatives", "teacher": "folder"}, "A teacher is for margin_mse"),
        ({"warmup_ratio": 1.5}, "warmup_ratio must be .* at most 1. Received: 1.5"),
    ],
)
def test_a_loss_is_named_and_an_argument_out_of_range_is_refused(arguments, message):
    assert as_splade_loss("margin_mse") == SpladeLoss("margin_mse")
    with pytest.raises(InputError, match="a SpladeLoss, 'in_batch_negatives' or 'margin_mse'. Received: 3"):
        as_splade_loss(3)
    with pytest.raises(InputError, match=message):
        SpladeLoss(**arguments)
