"""The three heads of bge-m3 against FlagEmbedding 1.4, recorded by `tests/parity/record_adapters.py`."""

import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from places import TESTS
from tiny_models import made_signatures

from keras_bert import BgeM3, MultiVectorEncoder, SentenceEncoder, SparseEncoder
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.program.errors import InputError

pytestmark = pytest.mark.usefixtures("without_graphs")

FOLDER = TESTS / "adapter_golden" / "bge_m3"
RECORDED = {name: np.array(values) for name, values in json.loads(FOLDER.with_suffix(".json").read_text()).items()}
TOKENS = [RECORDED[f"tokens_{number}"] for number in range(3)]
TEXTS = ["the cat sat on the mat", "a dog ran", "milk and a cat and zzz"]


def assert_equal_tokens(found):
    for vectors, expected in zip(found, TOKENS, strict=True):
        np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_one_pass_gives_the_vectors_and_scores_of_flag_embedding():
    model = BgeM3(FOLDER)
    documents, queries = model.encode(TEXTS, batch_size=2), model.encode(TEXTS[:2])
    np.testing.assert_allclose(documents.dense, RECORDED["dense"], atol=1e-5)
    np.testing.assert_allclose(documents.sparse.toarray(), RECORDED["sparse"], atol=1e-5)
    assert_equal_tokens(documents.tokens)
    found = model.similarity(queries, documents, weights=(0.4, 0.2, 0.4))
    np.testing.assert_allclose(found, RECORDED["scores"], atol=1e-5)
    np.testing.assert_allclose(model.similarity(queries, documents, (4, 2, 4)), found, atol=1e-6)
    np.testing.assert_allclose(
        model.similarity(queries, documents, (2, 0, 0)), RECORDED["dense"][:2] @ RECORDED["dense"].T, atol=1e-5
    )


def test_each_head_is_a_model_of_its_own(tmp_path):
    assert isinstance(from_pretrained(None, FOLDER), SentenceEncoder)
    np.testing.assert_allclose(SentenceEncoder.from_pretrained(FOLDER).encode(TEXTS), RECORDED["dense"], atol=1e-5)
    sparse = SparseEncoder.from_pretrained(FOLDER)
    sparse.save_pretrained(tmp_path / "sparse")
    for model in (sparse, SparseEncoder.from_pretrained(tmp_path / "sparse")):
        assert model.unscored_ids == [0, 1, 2, 3]
        np.testing.assert_allclose(model.encode(TEXTS).toarray(), RECORDED["sparse"], atol=1e-5)
    tokens = MultiVectorEncoder.from_pretrained(FOLDER)
    tokens.save_pretrained(tmp_path / "tokens", format="huggingface")
    for model in (tokens, MultiVectorEncoder.from_pretrained(tmp_path / "tokens")):
        assert_equal_tokens(model.encode_query(TEXTS))
        assert_equal_tokens(model.encode_document(TEXTS))
    one_sided = MultiVectorEncoder.from_pretrained(FOLDER, skiplist_tasks=["document"])
    assert len(one_sided.encode_query(TEXTS)[1]) == len(TOKENS[1]) + 1


def test_the_signatures_of_both_heads_compute_the_same():
    sparse, tokens = (model_class.from_pretrained(FOLDER) for model_class in (SparseEncoder, MultiVectorEncoder))
    found = made_signatures(sparse, {"top_k": 9})["encode_document"](text=tf.constant(TEXTS))
    for ids, weights, expected in zip(found["token_ids"], found["weights"], RECORDED["sparse"], strict=True):
        ids, weights = ids.numpy(), weights.numpy()
        assert set(ids[ids >= 0]) == set(np.flatnonzero(expected))
        np.testing.assert_allclose(weights[ids >= 0], expected[ids[ids >= 0]], atol=1e-5)
    found = made_signatures(tokens, {})["encode_query"](text=tf.constant(TEXTS))
    assert_equal_tokens([vectors[mask > 0] for vectors, mask in zip(found["vectors"], found["mask"], strict=True)])


def test_the_scores_of_tokens_are_trained():
    model = SparseEncoder.from_pretrained(FOLDER)
    before = np.asarray(model.token_scores.kernel)
    model.fit((["the cat", "a dog"], ["a mat", "milk"]), epochs=1, verbose=0)
    assert np.abs(np.asarray(model.token_scores.kernel) - before).max() > 0


def test_what_is_not_like_bge_m3_is_refused(tmp_path):
    with pytest.raises(InputError, match="weights must be three numbers from 0, one of them above 0. Received"):
        BgeM3(FOLDER).similarity(None, None, weights=(0, 0, 0))
    with pytest.raises(InputError, match="has no sparse_linear.pt and colbert_linear.pt"):
        BgeM3(FOLDER.parent / "base")
    with pytest.raises(InputError, match="sentence-transformers has no SparseEncoder with scores of tokens"):
        SparseEncoder.from_pretrained(FOLDER).save_pretrained(tmp_path / "sparse", format="huggingface")
    folder = shutil.copytree(FOLDER, tmp_path / "bge_m3")
    shutil.copy(folder / "colbert_linear.pt", folder / "sparse_linear.pt")
    with pytest.raises(InputError, match=re.escape("needs a weight [1, 8] and its bias. Received: {'weight': [8, 8]")):
        SparseEncoder.from_pretrained(folder)
