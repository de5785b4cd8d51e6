"""Folders of sentence-transformers in `SparseEncoder`: recorded vectors, and what is refused by name."""

import json
import shutil

import numpy as np
import pytest
from places import TESTS
from recorded_folders import recorded_folder
from tiny_checkpoints import CONFIG, VOCABULARY, random_checkpoint

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.formats import read_checkpoint
from keras_bert.checkpoints.pretrained import model_of
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.program.errors import InputError
from keras_bert.tasks.masked_lm.model import MaskedLM
from keras_bert.tasks.sparse.model import SparseEncoder

pytestmark = pytest.mark.usefixtures("without_graphs")

GOLDEN = json.loads((TESTS / "embedding_golden" / "sparse.json").read_text())
STATIC, POOLING = "query_0_SparseStaticEmbedding", "document_1_SpladePooling"


@pytest.mark.parametrize("name", ["splade", "inference_free"])
def test_vectors_are_those_that_sentence_transformers_gave(name):
    model = SparseEncoder.from_pretrained(recorded_folder("heads", name))
    for method, expected in GOLDEN["expected"][name].items():
        found = getattr(model, method)(GOLDEN["texts"]).toarray()
        np.testing.assert_allclose(found, expected, atol=2e-6, err_msg=method)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Function of whether queries are static -> a folder in their format."""
    folder = tmp_path_factory.mktemp("written")
    for is_static in (False, True):
        checkpoint = random_checkpoint(form.MASKED_LM, config=CONFIG.replace(num_hidden_layers=1))
        model = model_of(SparseEncoder, checkpoint, static_queries=is_static)
        model.save_pretrained(folder / str(is_static), format="huggingface")
    return lambda is_static: folder / str(is_static)


def changed(folder, copy, file: str, change):
    """Copies a folder, with another content of a JSON file."""
    shutil.copytree(folder, copy)
    values = json.loads((copy / file).read_text())
    (copy / file).write_text(json.dumps(change(values)))
    return copy


def with_module(kind: str):
    return lambda modules: [
        *modules,
        {"idx": 2, "name": "2", "path": "2", "type": f"sentence_transformers.models.{kind}"},
    ]


def with_route(name: str, *modules: str):
    return lambda values: {**values, "structure": {**values["structure"], name: list(modules)}}


def adding(**values):
    return lambda before: {**before, **values}


ROUTER, MODULES, SETTINGS = "router_config.json", "modules.json", "config_sentence_transformers.json"


@pytest.mark.parametrize(
    ("is_static", "file", "change", "message"),
    [
        (
            False,
            MODULES,
            with_module("Normalize"),
            "a Transformer and a SpladePooling is supported. Received: .*Normalize",
        ),
        (
            False,
            MODULES,
            lambda modules: modules[1:],
            "only a SparseEncoder of a Transformer and.* Received: SpladePool",
        ),
        (False, SETTINGS, adding(similarity_fn_name="cosine"), "similarity_fn_name is 'cosine'"),
        (False, SETTINGS, adding(truncate_dim=8), "truncate_dim is 8"),
        (False, SETTINGS, adding(surprise=1), "does not know and that could change the results: 'surprise'=1"),
        (False, "1_SpladePooling/config.json", adding(pooling_strategy="mean"), "must be max or sum. Received: 'mean'"),
        (False, "1_SpladePooling/config.json", adding(activation_function="gelu"), "must be relu or log1p_relu. Rec"),
        (False, "1_SpladePooling/config.json", adding(embedding_dimension=3), "is 3, but the vocabulary has 10 tokens"),
        (False, "1_SpladePooling/config.json", adding(temperature=2), "'temperature'=2"),
        (
            False,
            "sentence_bert_config.json",
            adding(transformer_task="feature-extraction"),
            "transformer_task is 'feat",
        ),
        (False, "sentence_bert_config.json", adding(transformer_task=None), "needs the transformer_task 'fill-mask'"),
        (True, MODULES, with_module("Normalize"), "no module after it is supported"),
        (
            True,
            ROUTER,
            with_route("query", POOLING),
            "one SparseStaticEmbedding for queries.*Received: SpladePooling for",
        ),
        (True, ROUTER, with_route("image", STATIC), "routes query, document, image"),
        (
            True,
            ROUTER,
            with_route("image", *[STATIC] * 1_000_000),
            "at most 100 modules are expected. Received: 1,00",
        ),
        (True, ROUTER, adding(parameters={"default_route": "image"}), "default_route is 'image', which is none of its"),
        (True, ROUTER, adding(parameters={"route_mappings": {"a": "query"}}), "route_mappings is {'a': 'query'}"),
        (True, ROUTER, with_route("query", "../secret"), "is not inside the folder|the type of '../secret'"),
        (True, f"{STATIC}/config.json", adding(scale=2), "'scale'=2"),
        (True, f"{STATIC}/config.json", adding(path="idf.json"), "Cannot read .*idf.json"),
        (True, f"{STATIC}/tokenizer_config.json", adding(do_lower_case=False), "of queries must be that of documents"),
    ],
)
def test_a_module_or_a_setting_that_is_not_known_is_refused(is_static, file, change, message, written, tmp_path):
    folder = changed(written(is_static), tmp_path / "copy", file, change)
    with pytest.raises(InputError, match=message):
        SparseEncoder.from_pretrained(folder)


def test_weights_of_queries_may_be_named_by_token(written, tmp_path):
    folder = changed(written(True), tmp_path / "copy", f"{STATIC}/config.json", adding(path="somewhere/idf.json"))
    (folder / "idf.json").write_text(json.dumps({"fox": 2.5, "the": 0.5, "unknown": 7}))
    queries = SparseEncoder.from_pretrained(folder).encode_query(["the fox", "quick zebra"]).toarray()
    expected = np.zeros((2, len(VOCABULARY)))
    expected[0, [VOCABULARY.ids["the"], VOCABULARY.ids["fox"]]] = 0.5, 2.5
    expected[1, VOCABULARY.unk_id] = 7  # as there: an unknown name is that of the unknown token
    np.testing.assert_array_equal(queries, expected)
    (folder / "idf.json").write_text(json.dumps({"fox": "many"}))
    with pytest.raises(InputError, match="the weight of 'fox' must be a number. Received: 'many'"):
        SparseEncoder.from_pretrained(folder)


def test_the_module_of_earlier_versions_is_read(written, tmp_path):
    earlier = "sentence_transformers.sparse_encoder.models.MLMTransformer"
    folder = changed(
        written(False), tmp_path / "copy", MODULES, lambda modules: [{**modules[0], "type": earlier}, modules[1]]
    )
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 9, "do_lower_case": False}))
    assert SparseEncoder.from_pretrained(folder).max_seq_length == 9


@pytest.mark.parametrize("is_static", [False, True])
def test_other_models_take_the_encoder_and_the_head(is_static, written):
    found = read_checkpoint(written(is_static))
    assert found.config.sentence_pooling == f"{'Router' if is_static else 'SpladePooling'} of a SparseEncoder"
    assert found.sparse["static_queries"] == is_static if is_static else "static_queries" not in found.sparse
    MaskedLM.from_pretrained(written(is_static))
    with pytest.raises(InputError, match="turn texts into vectors by .* of a SparseEncoder"):
        BertEncoder.from_pretrained(written(is_static)).export_for_serving("x")


def test_a_prompt_for_documents_has_the_name_that_counts_there(tmp_path):
    checkpoint = random_checkpoint(form.MASKED_LM)
    model = model_of(SparseEncoder, checkpoint, prompts={"passage": "the "}, default_prompt="passage")
    model.save_pretrained(tmp_path / "folder", format="huggingface")
    prompts = json.loads((tmp_path / "folder" / SETTINGS).read_text())["prompts"]
    assert prompts == {"passage": "the ", "document": "the ", "query": "the "}
