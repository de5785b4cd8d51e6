"""Search over vectors of texts."""

import contextlib
import hashlib
import os
import sys

import keras
import numpy as np
import pyarrow
import pytest
from clustered_vectors import clusters, index_of, recall
from tiny_checkpoints import VOCABULARY, random_checkpoint

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.pretrained import model_of
from keras_bert.embeddings import neighbour_graph, vector_index
from keras_bert.embeddings.neighbour_graph import LINKS, MOST_LEVELS, build_graph, check_graph
from keras_bert.embeddings.text_vectors import sentence_embeddings
from keras_bert.embeddings.vector_index import VectorIndex, model_fingerprint
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.models.trainable_parts import enable_lora
from keras_bert.program.errors import InputError
from keras_bert.tasks.embedding.model import SentenceEncoder
from keras_bert.tasks.masked_lm.model import MaskedLM
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

TEXTS = ["the quick fox", "fox", "the brown fox the quick", "quickest", "the the brown", "fox"]


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


def test_queries_are_embedded_as_the_texts_were(encoder, tmp_path):
    VectorIndex.build(encoder, TEXTS, pooling="cls", max_seq_length=5).save(tmp_path / "index")
    index = VectorIndex.load(tmp_path / "index")
    assert index.options == {"pooling": "cls", "max_seq_length": 5}
    [hit] = index.search(encoder, ["the brown fox the quick"], top_k=1)[0]
    assert hit.number == 2
    assert hit.score == pytest.approx(1.0, abs=1e-5)


def test_a_known_model_is_hashed_again_only_after_a_change(encoder, monkeypatch):
    first, weight = model_fingerprint(encoder), encoder.weights[0]
    value, hashed = np.array(weight.value), []
    real = hashlib.sha256
    monkeypatch.setattr(hashlib, "sha256", lambda data: hashed.append(1) or real(data))
    assert model_fingerprint(encoder) == first
    assert not hashed
    changed = value.copy()
    changed.flat[0] = np.nextafter(changed.flat[0], 9)
    weight.assign(changed)
    assert model_fingerprint(encoder) != first
    weight.assign(value)
    assert model_fingerprint(encoder) == first
    assert len(hashed) == 2


def test_the_fingerprint_is_of_all_that_vectors_depend_on(encoder, index):
    first = model_fingerprint(encoder)
    assert model_fingerprint(model_of(BertEncoder, random_checkpoint())) == first
    # The head, and a pooler that is initialised at every load, do not affect sentence embeddings.
    without_pooler = random_checkpoint(form.MASKED_LM, with_pooler=False)
    tensors = {name: tensor for name, tensor in random_checkpoint().tensors.items() if form.POOLER not in name}
    with_other_head = without_pooler.replace(tensors=without_pooler.tensors | tensors)
    assert model_fingerprint(model_of(MaskedLM, with_other_head)) == first
    other = random_checkpoint()
    others = [
        other.replace(tokenizer=WordPieceTokenizer(VOCABULARY, False)),
        other.replace(config=other.config.replace(hidden_act="gelu_erf")),
        other.replace(config=other.config.replace(num_attention_heads=1)),
        other.replace(config=other.config.replace(layer_norm_eps=1e-5)),
        other.replace(tokenizer=other.tokenizer.replace(tokens=[*VOCABULARY.tokens[:-1], "##ly"])),
    ]
    changed = model_of(BertEncoder, other)
    changed.blocks[1].weights[0].assign_add(np.full(changed.blocks[1].weights[0].shape, 1e-6, "float32"))
    scaled = [model_of(BertEncoder, other) for _ in range(2)]
    for alpha, model in enumerate(scaled, start=1):
        keras.utils.set_random_seed(0)
        enable_lora(model, 2, alpha=alpha)
    assert model_fingerprint(scaled[0]) != model_fingerprint(scaled[1])
    for model in [changed, *scaled, *(model_of(BertEncoder, each) for each in others)]:
        assert model_fingerprint(model) != first
        with pytest.raises(InputError, match="The index was made with another model"):
            index.search(model, "fox")


def test_the_fingerprint_of_a_sentence_encoder_is_of_its_prompts_and_its_head_too():
    def fingerprint(document="passage: ", default_prompt="query", **head):
        prompts = {"prompts": {"query": "query: ", "document": document}, "default_prompt": default_prompt}
        return model_fingerprint(model_of(SentenceEncoder, random_checkpoint(), **prompts, **head))

    changes = [{"document": "text: "}, {"default_prompt": "document"}, {"pooling": ["cls"]}, {"dense": [{"units": 8}]}]
    assert fingerprint() == fingerprint()
    assert fingerprint() not in [fingerprint(**change) for change in changes]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda encoder, index: VectorIndex.build(encoder, []), "Expected at least one text"),
        (lambda encoder, index: VectorIndex.build(encoder, ["fox", " "]), "Text 2 is empty. Received: ' '"),
        (lambda encoder, index: index.search(encoder, ""), "Query 1 is empty. Received: ''"),
        (lambda encoder, index: index.search(encoder, "fox", top_k=0), "top_k must be a whole number .* Received: 0"),
        (lambda encoder, index: index.nearest(np.zeros((1, 9))), r"Expected vectors \[number, 8\]"),
    ],
)
def test_what_cannot_be_searched_is_said(encoder, index, call, message):
    with pytest.raises(InputError, match=message):
        call(encoder, index)


def with_header(path, dtype: str, *shape: int, num_bytes: int = 128) -> None:
    """Writes a file of NumPy with this header; the rest of it has no blocks on the disk."""
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
        file.truncate(num_bytes)


@pytest.fixture
def large(graph):
    return index_of(clusters(3000), graph=graph)


@pytest.mark.parametrize("top_k", [1, 10, 100])
def test_a_graph_finds_nearly_what_the_exact_search_finds(large, top_k):
    queries = clusters(300, seed=1)
    numbers, scores = large.nearest(queries, top_k)
    exact_numbers, exact_scores = large.nearest(queries, top_k, exact=True)
    assert numbers.shape == scores.shape == (300, top_k)
    assert recall(numbers, exact_numbers) >= 0.99
    np.testing.assert_allclose(scores, np.take_along_axis(queries @ large.vectors.T, numbers, 1), atol=1e-6)
    assert (np.diff(scores) <= 0).all()


def test_many_results_and_small_graphs_are_searched_exactly(large):
    np.testing.assert_array_equal(large.nearest(clusters(2), 101), large.nearest(clusters(2), 101, exact=True))
    few = index_of(clusters(3), graph=build_graph(clusters(3)))
    np.testing.assert_array_equal(few.nearest(clusters(2), 5)[0], few.nearest(clusters(2), 5, exact=True)[0])


def test_the_earlier_of_equal_texts_comes_first_by_a_graph_too():
    vectors = np.repeat(clusters(100), 3, axis=0)
    index = index_of(vectors, graph=build_graph(vectors))
    assert index.nearest(vectors[::3], 3)[0].tolist() == np.arange(300).reshape(100, 3).tolist()


def test_an_index_gets_a_graph_where_it_is_large(encoder, index, from_four):
    assert index.graph is None
    assert VectorIndex.build(encoder, TEXTS[:3]).graph is None
    assert VectorIndex.build(encoder, TEXTS, exact=True).graph is None
    built = VectorIndex.build(encoder, TEXTS)
    assert built.graph is not None
    expected = [hit.text for hit in index.search(encoder, "the fox", 3)[0]]
    assert [hit.text for hit in built.search(encoder, "the fox", 3)[0]] == expected
    assert [hit.text for hit in built.search(encoder, "the fox", 3, exact=True)[0]] == expected


@pytest.mark.parametrize("first", [3, 5])
def test_appended_texts_are_found_as_if_they_had_been_built_at_once(encoder, index, from_four, tmp_path, first):
    VectorIndex.build(encoder, TEXTS[:first]).save(tmp_path / "index")
    appended = VectorIndex.load(tmp_path / "index")
    appended.append(encoder, TEXTS[first:])
    assert appended.texts == TEXTS
    np.testing.assert_allclose(appended.vectors, index.vectors, atol=1e-6)
    appended.save(tmp_path / "index", replace=True)
    assert sorted(os.listdir(tmp_path)) == ["index"]
    loaded = VectorIndex.load(tmp_path / "index")
    assert loaded.texts == TEXTS
    np.testing.assert_array_equal(loaded.graph, appended.graph)
    for one, other in zip(loaded.search(encoder, TEXTS), index.search(encoder, TEXTS), strict=True):
        assert [hit.text for hit in one] == [hit.text for hit in other]
    appended.append(encoder, "fox", exact=True)
    assert appended.graph is None
    appended.save(tmp_path / "index", replace=True)
    assert VectorIndex.load(tmp_path / "index").graph is None


def test_a_graph_grows_as_well_as_it_is_built(large):
    vectors, queries = clusters(3000), clusters(300, seed=1)
    grown = build_graph(vectors, build_graph(vectors[:2000]), 2000)
    check_graph(grown, 3000)
    index = index_of(vectors, graph=grown)
    assert recall(index.nearest(queries, 10)[0], large.nearest(queries, 10, exact=True)[0]) >= 0.99


def test_appending_is_refused_and_leaves_the_index_as_it_was(encoder, index):
    other = model_of(BertEncoder, random_checkpoint().replace(config=encoder.config.replace(layer_norm_eps=1e-5)))
    before, wide = (index_of(vectors, TEXTS) for vectors in (index.vectors, np.zeros((6, 9), "float32")))
    before.fingerprint = wide.fingerprint = index.fingerprint
    for changed_index, model, texts, message in [
        (before, other, "fox", "The index was made with another model"),
        (before, encoder, ["fox", ""], "Text 2 is empty"),
        (wide, encoder, "fox", r"Expected vectors \[number, 9\]. Received the shape \[1, 8\]"),
    ]:
        with pytest.raises(InputError, match=message):
            changed_index.append(model, texts)
        assert changed_index.texts == TEXTS


def test_an_index_replaces_only_an_index(index, tmp_path):
    index.save(tmp_path / "index", replace=True)
    index.save(tmp_path / "index", replace=True)
    (tmp_path / "index" / "notes.txt").touch()
    with pytest.raises(InputError, match="index has other files than an index: notes.txt"):
        index.save(tmp_path / "index", replace=True)


def test_vectors_stay_on_disk_and_the_graph_is_copied(large, tmp_path):
    large.save(tmp_path / "index")
    allocated = pyarrow.total_allocated_bytes()
    loaded = VectorIndex.load(tmp_path / "index")
    assert pyarrow.total_allocated_bytes() - allocated < loaded.vectors.nbytes / 2
    assert not loaded.vectors.flags.owndata
    assert not isinstance(loaded.graph, np.memmap)  # a file that changes after the check cannot harm
    np.testing.assert_array_equal(loaded.nearest(clusters(9, seed=1)), large.nearest(clusters(9, seed=1)))
    (tmp_path / "index" / "graph.npy").unlink()
    assert VectorIndex.load(tmp_path / "index").graph is None


def test_without_faiss_an_index_is_searched_exactly_or_names_the_extra(
    encoder, large, from_four, tmp_path, monkeypatch
):
    large.save(tmp_path / "index")
    monkeypatch.setitem(sys.modules, "faiss", None)
    loaded = VectorIndex.load(tmp_path / "index")
    assert loaded.nearest(clusters(2), exact=True)[0].shape == (2, 5)
    computed = []
    monkeypatch.setattr(vector_index, "search_vectors", lambda *_, **__: computed.append(1))
    for call in (lambda: loaded.nearest(clusters(2)), lambda: VectorIndex.build(encoder, TEXTS)):
        with pytest.raises(InputError, match=r"needs faiss; exact search .* does not. .* pip install '\.\[search\]'"):
            call()
    assert not computed


def changed(graph: np.ndarray, position: int, value: int) -> np.ndarray:
    graph = graph.copy()
    graph[position] = value
    return graph


def from_level_one_to_level_zero(graph: np.ndarray) -> np.ndarray:
    levels = graph[1:3001]
    member, other = np.flatnonzero(levels > 1)[0], np.flatnonzero(levels == 1)[0]
    start = 3001 + LINKS * int((levels[:member] + 1).sum()) + 2 * LINKS
    return changed(graph, start, other)


DAMAGED_GRAPHS = [
    lambda graph: graph[:-1],
    lambda graph: graph[:3000],
    lambda graph: graph[:0],
    lambda graph: graph.reshape(1, -1),
    lambda graph: graph.astype(np.int64),
    lambda graph: np.append(graph, np.int32(0)),
    lambda graph: changed(graph, 0, -1),
    lambda graph: changed(graph, 0, 3000),
    lambda graph: changed(graph, 0, int(np.argmin(graph[1:3001]))),
    lambda graph: changed(graph, 5, 0),
    lambda graph: changed(graph, 5, MOST_LEVELS + 1),
    lambda graph: changed(graph, 5, 2**31 - 1),
    lambda graph: changed(graph, -1, 3000),
    lambda graph: changed(graph, 4000, -2),
    from_level_one_to_level_zero,
    lambda graph: changed(graph, 3000, 2),  # the last vector gets an upper level without links
    lambda graph: build_graph(clusters(2999)),
    lambda graph: build_graph(clusters(3001)),
]


def as_folder(path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        *((lambda path, size=size: os.truncate(path, size), "does not fit its rows") for size in (0, 40, 5000)),
        (lambda path: path.write_bytes(b"\xff" + path.read_bytes()[1:]), "does not fit its rows"),
        (lambda path: with_header(path, "<i4", 1 << 40, num_bytes=(4 << 40) + 200), "for 3000 vectors"),  # sparse
        (as_folder, "it is not a file"),
        *(
            (lambda path, damage=damage: np.save(path, damage(np.load(path))), "does not fit its rows")
            for damage in DAMAGED_GRAPHS
        ),
    ],
)
def test_a_graph_that_leads_outside_of_the_vectors_is_refused(large, damage, message, tmp_path):
    large.save(tmp_path / "index")
    damage(tmp_path / "index" / "graph.npy")
    with pytest.raises(InputError, match=f"index is damaged: graph.npy.*{message}"):
        VectorIndex.load(tmp_path / "index")


def test_flipped_bytes_are_refused_or_harmless(large, graph):
    generator = np.random.default_rng(0)
    queries = clusters(20, seed=1)
    refused = 0
    is_link = np.flatnonzero(graph[3001:] >= 0) + 3001
    for number in range(60):
        content = graph.copy()
        # The lowest bits of a link lead to another vector that exists.
        bits = generator.integers(3 if number % 2 else 32, size=16)
        content[generator.choice(is_link, size=16, replace=False)] ^= (1 << bits).astype(np.uint32).view(np.int32)
        try:
            checked = check_graph(content, 3000)
        except ValueError:
            refused += 1
            continue
        numbers, _ = index_of(large.vectors, graph=checked).nearest(queries, 10)
        assert 0 <= numbers.min() <= numbers.max() < 3000
    assert 0 < refused < 60


def test_a_graph_without_links_is_searched_exactly(large):
    """Every result is a text, and no query gets fewer results."""
    empty = np.concatenate([[0], np.ones(3000), np.full(3000 * 2 * LINKS, -1)]).astype(np.int32)
    index = index_of(large.vectors, graph=check_graph(empty, 3000))
    found, expected = index.nearest(clusters(9, seed=1)), large.nearest(clusters(9, seed=1), exact=True)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_vectors_that_are_no_numbers_are_said_or_harmless(large, graph, value):
    damaged = large.vectors.copy()
    damaged[::2, ::3] = value
    for vectors in (damaged, np.full_like(damaged, value)):
        index = index_of(vectors, graph=graph)
        for exact in (False, True):
            with np.errstate(all="ignore"), contextlib.suppress(InputError):
                numbers, _ = index.nearest(clusters(9, seed=1), exact=exact)
                assert numbers.shape == (9, 5)
                assert 0 <= numbers.min() <= numbers.max() < 3000
    with pytest.raises(InputError, match="has vectors that are not finite"):
        index_of(np.full_like(damaged, np.nan), graph=graph).nearest(clusters(9))


def test_the_limits_are_those_of_faiss():
    index = neighbour_graph.faiss_index(clusters(1), 0, None)
    slots = neighbour_graph.import_faiss().vector_to_array(index.hnsw.cum_nneighbor_per_level)
    assert slots.tolist() == [0, *(LINKS * (level + 1) for level in range(1, MOST_LEVELS + 1))]
