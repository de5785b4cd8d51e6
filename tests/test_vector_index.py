"""Search over vectors of texts."""

import json

import numpy as np
import pytest
from tiny_checkpoints import VOCABULARY, random_checkpoint

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.pretrained import model_of
from keras_bert.embeddings import vector_index
from keras_bert.embeddings.text_vectors import sentence_embeddings
from keras_bert.embeddings.vector_index import VectorIndex, model_fingerprint
from keras_bert.models.encoder import BertEncoder
from keras_bert.models.masked_lm import MaskedLM
from keras_bert.program.errors import InputError
from keras_bert.tokenization.vocabulary import Vocabulary

TEXTS = ["the quick fox", "fox", "the brown fox the quick", "quickest", "the the brown", "fox"]


@pytest.fixture(scope="module")
def encoder():
    return model_of(BertEncoder, random_checkpoint())


@pytest.fixture(scope="module")
def index(encoder):
    return VectorIndex.build(encoder, TEXTS)


def test_the_most_similar_texts_come_first_and_equal_ones_in_their_order(encoder, index):
    queries = ["quick fox", "fox"]
    expected = sentence_embeddings(encoder, queries) @ sentence_embeddings(encoder, TEXTS).T
    found = index.search(encoder, queries, top_k=4)
    for hits, scores in zip(found, expected, strict=True):
        assert [hit.number for hit in hits] == np.argsort(-scores, kind="stable")[:4].tolist()
        np.testing.assert_allclose([hit.score for hit in hits], np.sort(scores)[::-1][:4], rtol=1e-5)
        assert all(hit.text == TEXTS[hit.number] for hit in hits)
    assert [hit.number for hit in found[1][:2]] == [1, 5]
    assert len(index.search(encoder, "fox", top_k=100)[0]) == 6


@pytest.mark.parametrize("chunk", [1, 3, 7, 1000])
def test_nearest_is_exact_whatever_the_parts(chunk, monkeypatch):
    monkeypatch.setattr(vector_index, "_CHUNK", chunk)
    monkeypatch.setattr(vector_index, "_QUERIES_AT_ONCE", 4)
    generator = np.random.default_rng(0)
    vectors = generator.integers(-2, 3, (50, 3)).astype("float32")  # many are equal
    queries = generator.integers(-2, 3, (9, 3)).astype("float32")
    numbers, scores = VectorIndex(vectors, ["x"] * 50, "", {}).nearest(queries, 5)
    products = queries @ vectors.T
    expected = np.argsort(-products, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_array_equal(scores, np.take_along_axis(products, expected, axis=1))
    assert VectorIndex(vectors, ["x"] * 50, "", {}).nearest(np.zeros((0, 3)))[0].shape == (0, 5)


def test_building_shows_how_far_it_is(encoder, monkeypatch, capsys):
    monkeypatch.setattr(vector_index, "_SECONDS_WITHOUT_PROGRESS", 0)
    monkeypatch.setattr(vector_index, "_SECONDS_BETWEEN_LINES", 0)
    VectorIndex.build(encoder, TEXTS, batch_size=3)
    shown = capsys.readouterr().err
    assert "3/6" in shown
    assert "6/6" in shown


def test_an_index_comes_back_from_disk(encoder, index, tmp_path):
    index.save(tmp_path / "index")
    loaded = VectorIndex.load(tmp_path / "index")
    assert loaded.texts == TEXTS
    assert loaded.options == {"pooling": "mean", "max_seq_length": None}
    np.testing.assert_array_equal(loaded.vectors, index.vectors)
    assert loaded.search(encoder, "the fox") == index.search(encoder, "the fox")
    with pytest.raises(InputError, match="is not empty"):
        index.save(tmp_path / "index")


def test_queries_are_embedded_as_the_texts_were(encoder, tmp_path):
    VectorIndex.build(encoder, TEXTS, pooling="first", max_seq_length=5).save(tmp_path / "index")
    index = VectorIndex.load(tmp_path / "index")
    assert index.options == {"pooling": "first", "max_seq_length": 5}
    [hit] = index.search(encoder, ["the brown fox the quick"], top_k=1)[0]
    assert hit.number == 2
    assert hit.score == pytest.approx(1.0, abs=1e-5)


def test_the_fingerprint_is_of_all_that_vectors_depend_on(encoder, index):
    first = model_fingerprint(encoder)
    assert model_fingerprint(model_of(BertEncoder, random_checkpoint())) == first
    # The head, and a pooler that is initialised at every load, do not affect sentence embeddings.
    without_pooler = random_checkpoint(form.MASKED_LM, with_pooler=False)
    tensors = {name: tensor for name, tensor in random_checkpoint().tensors.items() if form.POOLER not in name}
    assert (
        model_fingerprint(model_of(MaskedLM, without_pooler.replace(tensors=without_pooler.tensors | tensors))) == first
    )
    other = random_checkpoint()
    others = [
        other.replace(config=other.config.replace(do_lower_case=False)),
        other.replace(config=other.config.replace(hidden_act="gelu_erf")),
        other.replace(config=other.config.replace(num_attention_heads=1)),
        other.replace(config=other.config.replace(layer_norm_eps=1e-5)),
        other.replace(vocabulary=Vocabulary([*VOCABULARY.tokens[:-1], "##ly"])),
    ]
    changed = model_of(BertEncoder, other)
    changed.blocks[1].weights[0].assign_add(np.full(changed.blocks[1].weights[0].shape, 1e-6, "float32"))
    for model in [changed, *(model_of(BertEncoder, each) for each in others)]:
        assert model_fingerprint(model) != first
        with pytest.raises(InputError, match="The index was made with another model"):
            index.search(model, "fox")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda encoder, index: VectorIndex.build(encoder, []), "Expected at least one text"),
        (lambda encoder, index: VectorIndex.build(encoder, ["fox", " "]), "Text 2 is empty. Received: ' '"),
        (lambda encoder, index: index.search(encoder, ""), "Query 1 is empty. Received: ''"),
        (lambda encoder, index: index.search(encoder, "fox", top_k=0), "top_k must be 1 or more. Received: 0"),
        (lambda encoder, index: index.nearest(np.zeros((1, 9))), r"Expected vectors \[number, 8\]"),
        (lambda encoder, index: VectorIndex(np.zeros((2, 8)), ["x"], "", {}), "2 vectors, 1 texts"),
    ],
)
def test_what_cannot_be_searched_is_said(encoder, index, call, message):
    with pytest.raises(InputError, match=message):
        call(encoder, index)


def test_a_damaged_or_absent_index_is_said(index, tmp_path):
    with pytest.raises(InputError, match="nowhere is not an index: there is no such folder"):
        VectorIndex.load(tmp_path / "nowhere")
    index.save(tmp_path / "index")
    facts = json.loads((tmp_path / "index" / "index.json").read_text())
    (tmp_path / "index" / "index.json").write_text(json.dumps({**facts, "texts": 5}))
    with pytest.raises(InputError, match="index is damaged: 6 texts and vectors"):
        VectorIndex.load(tmp_path / "index")
    (tmp_path / "index" / "index.json").write_text(json.dumps(facts))
    np.save(tmp_path / "index" / "vectors.npy", np.zeros(6, "float32"))
    with pytest.raises(InputError, match="index is damaged: 6 texts and vectors"):
        VectorIndex.load(tmp_path / "index")
    for size in (1 << 40, 1 << 80):
        with open(tmp_path / "index" / "vectors.npy", "wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": (size, 8)}
            np.lib.format.write_array_header_1_0(file, header)
        with pytest.raises(InputError, match="index is damaged"):
            VectorIndex.load(tmp_path / "index")
    (tmp_path / "index" / "texts.jsonl").unlink()
    with pytest.raises(InputError, match="is not an index: it has no texts.jsonl"):
        VectorIndex.load(tmp_path / "index")
