"""`SparseEncoder`: its vectors, what is done with them, training on texts, and exports."""

import itertools

import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf
import tiny
from tiny_checkpoints import CONFIG, FEATURES, VOCABULARY, random_checkpoint
from tiny_families import new
from tiny_models import made_signatures

from keras_bert import AdamW, BertEncoder, InputError, MaskedLM, SentenceEncoder, SparseEncoder, registry
from keras_bert.accelerate import text_groups
from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.layers import vocabulary_pooling
from keras_bert.tasks.base import text_task
from keras_bert.tasks.embedding.examples import DataSets, SentenceExamples
from keras_bert.tasks.sparse.losses import SpladeLoss

pytestmark = pytest.mark.usefixtures("without_graphs")

TEXTS = ["the quick fox", "the brown fox", "quick", "brown the fox quickest"]
OTHERS = ["quick the fox", "fox brown", "quickest", "the fox"]
TEACHER = [[3.0, 1.0], [2.0, 1.0], [1.0, 3.0], [0.0, 0.5]]
NAMES = ("input_ids", "input_mask", "segment_ids")
ROWS = {name: FEATURES[name] for name in NAMES}
# Without dropout, and with weights so large that texts differ.
SHARP = CONFIG.replace(
    num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.5
)


def encoder(**arguments):
    model = tiny.made(SparseEncoder, SHARP, VOCABULARY, seed=1, **arguments)
    if model.static_queries:
        model.query_weights.weight.assign(np.arange(len(VOCABULARY)) / 4)
    return model


def expected_weights(logits, mask, pooling, activation):
    weights = np.log1p(np.maximum(logits, 0) * mask[:, :, None])
    weights = np.log1p(weights) if activation == "log1p_relu" else weights
    return weights.max(axis=1) if pooling == "max" else weights.sum(axis=1)


@pytest.mark.parametrize(
    ("family", "pooling", "activation"),
    [
        *[("bert", *choice) for choice in itertools.product(["max", "sum"], ["relu", "log1p_relu"])],
        *[(family, "max", "relu") for family in ("mobilebert", "albert", "deberta-v2", "modernbert", "eurobert")],
    ],
)
def test_weights_are_pooled_from_the_logits_of_all_tokens(family, pooling, activation):
    arguments = {"pooling_strategy": pooling, "activation_function": activation}
    model = encoder(**arguments) if family == "bert" else new(SparseEncoder, family, **arguments)
    masked_lm = MaskedLM(model.config)
    masked_lm.set_weights(model.get_weights())
    columns = np.tile(np.arange(5, dtype="int32"), (2, 1))
    rows = {**ROWS, "input_ids": np.minimum(ROWS["input_ids"], model.config.vocab_size - 1)}
    logits = np.asarray(masked_lm({**rows, "masked_lm_positions": columns})["masked_lm_logits"])
    expected = expected_weights(logits, rows["input_mask"], pooling, activation)
    assert 0.05 < (expected > 0).mean() <= 1
    np.testing.assert_allclose(np.asarray(model(rows)), expected, atol=1e-5)


@pytest.mark.parametrize("pooling", ["max", "sum"])
def test_texts_in_groups_have_the_weights_and_gradients_of_one_product(pooling, monkeypatch):
    draw = np.random.default_rng(0)
    inputs = [tf.constant(draw.normal(size=shape), tf.float64) for shape in ((5, 3, 4), (7, 4), (7,))]
    mask = np.array([[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 0]])

    def found(at_once, groups):
        monkeypatch.setattr(text_groups, "PRODUCTS_AT_ONCE", at_once)
        monkeypatch.setattr(vocabulary_pooling, "text_groups", groups)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            vectors, table, bias = inputs
            weights = vocabulary_pooling.vocabulary_weights(vectors, mask, table, bias, pooling, training=True)
        upstream = tf.reshape(tf.range(35, dtype=tf.float64), (5, 7))
        return [weights, *tape.gradient(weights, inputs, output_gradients=upstream)]

    expected = found(0, None)
    assert np.asarray(expected[0])[:4].any()
    np.testing.assert_array_equal(np.asarray(expected[0])[4], 0)
    for at_once in (1, 2 * 3 * 7, 10**6):
        for one, other in zip(found(at_once, text_groups), expected, strict=True):
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), atol=1e-12)


@pytest.mark.parametrize("pooling", ["max", "sum"])
def test_mixed_precision_gives_nearly_the_same_weights(pooling):
    model, mixed = encoder(pooling_strategy=pooling), encoder(pooling_strategy=pooling, dtype="mixed_bfloat16")
    mixed.set_weights(model.get_weights())
    assert mixed(ROWS).dtype == tf.float32
    np.testing.assert_allclose(np.asarray(mixed(ROWS)), np.asarray(model(ROWS)), atol=0.1)


def test_vectors_are_rows_of_a_sparse_array_and_do_not_depend_on_the_batch():
    model = encoder()
    vectors = model.encode(TEXTS)
    assert isinstance(vectors, scipy.sparse.csr_array)
    assert (vectors.shape, vectors.dtype) == ((4, len(VOCABULARY)), np.float32)
    assert vectors.has_sorted_indices
    assert (vectors.data > 0).all()
    alone = np.concatenate([model.encode(text).toarray() for text in TEXTS])
    np.testing.assert_allclose(vectors.toarray(), alone, atol=1e-6)
    np.testing.assert_array_equal(vectors.toarray(), model.predict(TEXTS, verbose=0).toarray())
    assert model.encode([]).shape == (0, len(VOCABULARY))
    scores = model.evaluate((TEXTS, OTHERS), verbose=0)
    assert set(scores) >= {"ndcg@10", "mrr@10"}
    assert scores["query_active_dims"] == pytest.approx(vectors.nnz / 4)
    assert scores["document_active_dims"] == pytest.approx(model.encode(OTHERS).nnz / 4)


def test_queries_are_computed_without_the_padding_of_their_documents(monkeypatch):
    model, widths = encoder(), []
    weights_of = model._weights

    def noted(rows, training):
        widths.append(np.shape(rows["input_ids"]))
        return weights_of(rows, training)

    monkeypatch.setattr(model, "_weights", noted)
    queries = {name: values * (np.arange(values.shape[1]) < 2) for name, values in ROWS.items()}
    pairs = {name: np.stack([queries[name], ROWS[name], ROWS[name][::-1]], axis=1) for name in NAMES}
    found = np.array(model(pairs))
    size, length = ROWS[NAMES[0]].shape
    assert widths == [(size, 2), (2 * size, length)]
    for place, rows in enumerate([queries, ROWS, {name: values[::-1] for name, values in ROWS.items()}]):
        np.testing.assert_allclose(found[:, place], model(rows), atol=1e-6)


def test_a_static_query_has_the_weights_of_its_tokens():
    model = encoder(static_queries=True)
    queries = model.encode_query(["the fox the fox", "quickest", "[CLS]"]).toarray()
    expected = np.zeros((3, len(VOCABULARY)))
    for row, tokens in enumerate(["the fox", "quick ##est", "[UNK]"]):
        ids = [VOCABULARY.ids[token] for token in tokens.split()]
        expected[row, ids] = np.array(ids) / 4
    np.testing.assert_array_equal(queries, expected)
    np.testing.assert_array_equal(model.encode(TEXTS).toarray(), encoder().encode(TEXTS).toarray())
    examples = text_task(model).examples((TEXTS, OTHERS))
    batch = text_task(model).rows(examples).rows.batch(np.arange(4))
    found = np.asarray(model(batch))
    np.testing.assert_allclose(found[:, 0], model.encode_query(TEXTS).toarray(), atol=1e-6)
    np.testing.assert_allclose(found[:, 1], model.encode_document(OTHERS).toarray(), atol=1e-6)
    assert model.encode_query("fox " * 40).nnz == 1
    cut = encoder(static_queries=True, max_query_length=2).encode_query("the quick fox")
    assert [token for token, _ in model.decode(cut[0])] == ["quick", "the"]


def test_a_role_selects_the_prompt():
    model = encoder(prompts={"query": "quick ", "passage": "brown "})
    for found, text in ((model.encode_query("fox"), "quick fox"), (model.encode_document("fox"), "brown fox")):
        np.testing.assert_array_equal(found.toarray(), model.encode(text).toarray())
    np.testing.assert_array_equal(model.encode_query("fox", prompt="").toarray(), model.encode("fox").toarray())


def test_only_the_largest_weights_are_kept_and_named():
    model, limited = encoder(), encoder(max_active_dims=2)
    vectors, best = model.encode(TEXTS), limited.encode(TEXTS)
    assert (np.diff(best.indptr) == 2).all()
    assert vectors.nnz > best.nnz
    np.testing.assert_array_equal(best.toarray(), model.encode(TEXTS, max_active_dims=2).toarray())
    assert limited.encode(TEXTS, max_active_dims=9).nnz == vectors.nnz
    static = encoder(static_queries=True, max_active_dims=2).encode_query("the quick brown fox")
    assert [token for token, _ in model.decode(static[0])] == ["fox", "brown"]
    pairs = model.decode(vectors, top_k=2)
    assert pairs == limited.decode(best)
    assert pairs[1] == model.decode(vectors[1], top_k=2)
    row = vectors.toarray()[1]
    assert pairs[1] == [(VOCABULARY.tokens[number], row[number]) for number in np.argsort(-row)[:2]]


def test_similarity_is_the_product_of_vectors():
    model = encoder()
    queries, documents = model.encode(TEXTS), model.encode(OTHERS)
    expected = queries.toarray() @ documents.toarray().T
    np.testing.assert_allclose(model.similarity(queries, documents), expected, rtol=1e-6)
    np.testing.assert_allclose(model.similarity(queries[1], documents), expected[1:2], rtol=1e-6)


@pytest.fixture(scope="module")
def refusing():
    return encoder()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda model: model.decode(model.encode("fox"), top_k=0), "at least 1 and at most 10. Received: 0"),
        (lambda model: model.decode(model.encode("fox"), top_k=11), "at least 1 and at most 10. Received: 11"),
        (lambda model: model.similarity(np.ones((2, 3)), np.ones((2, 3))), r"\[texts, 10\]. .* shape \(2, 3\)"),
        (lambda model: model.encode("fox", max_active_dims=0), "max_active_dims must be a whole number of at least 1"),
        (lambda model: model.encode("fox", task="image"), "one of query, document. Received: 'image'"),
        (lambda model: model.encode("fox", prompt="title"), "has no prompt 'title'"),
        (lambda model: model.evaluate(TEXTS), "single texts have no scores"),
        (lambda model: model.fit(TEXTS), "nothing to learn from single texts"),
        (lambda model: model.fit((["fox"] * 2, OTHERS[:2])), "two different queries or more"),
        (lambda model: model.fit((TEXTS, OTHERS), loss="margin_mse"), "margin_mse learns from lists of scores, with 3"),
        (lambda model: model.fit((TEXTS, OTHERS), [1.0] * 4), "belong to a query and two documents or more"),
        (lambda model: model.fit((TEXTS, OTHERS, OTHERS), [1.0]), "4 texts in column 1, 1 in scores"),
        (lambda model: model.fit((TEXTS, OTHERS, OTHERS), [[1.0] * 3] * 4), "must be 2 numbers, .* or 1 margins"),
        (lambda model: model.fit((TEXTS, OTHERS, OTHERS), [1.0, 1, 1, np.nan]), "1 of 4 rows have no value"),
        (lambda model: model.evaluate(DataSets(data_sets())), "Several data sets are for training"),
        (lambda model: model.fit(DataSets(data_sets(warmup_ratio=1.0))), "one warmup_ratio. Received: .0, 1.0"),
        (lambda model: model.fit((TEXTS, OTHERS), loss="cosent"), "ranking must be one of in_batch_negatives"),
        (lambda model: model.fit(ROWS), "learns from a query and a document"),
        (lambda model: model.export_for_serving("x", top_k=11), "top_k must be a whole number"),
        (lambda model: model.export_for_serving("x", format="onnx"), "Only these models can be exported"),
        (lambda model: encoder(pooling_strategy="mean"), "must be one of max, sum. Received: 'mean'"),
        (lambda model: encoder(activation_function="gelu"), "must be one of relu, log1p_relu. Received: 'gelu'"),
        (lambda model: encoder(default_route="image"), "default_route must be one of query, document. Received: 'im"),
        (lambda model: encoder(max_active_dims=0), "max_active_dims must be a whole number of at least 1. Received: 0"),
    ],
)
def test_what_a_model_cannot_do_is_refused(ask, message, refusing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        ask(refusing)


def test_a_model_needs_a_head_that_knows_the_tokens(tmp_path):
    with pytest.raises(InputError, match="The masked-LM head of xlnet does not know the tokens that it predicts"):
        new(SparseEncoder, "xlnet")
    write_checkpoint(random_checkpoint(), tmp_path / "bare", "huggingface")
    with pytest.raises(InputError, match="has no masked-LM head, from which a SparseEncoder takes"):
        SparseEncoder.from_pretrained(tmp_path / "bare")
    write_checkpoint(random_checkpoint(form.MASKED_LM), tmp_path / "head", "huggingface")
    assert SparseEncoder.from_pretrained(tmp_path / "head").encode(TEXTS).nnz
    assert isinstance(from_pretrained(None, tmp_path / "head"), MaskedLM)


def test_the_weights_of_regularisers_rise_quadratically():
    model = encoder()
    model.compile(AdamW(0.0), loss=SpladeLoss("in_batch_negatives", 1.0, 1.0, warmup_ratio=0.5), run_eagerly=True)
    for _ in range(2):  # each `fit` has a warm-up of its own
        losses = np.array(model.fit((TEXTS, OTHERS), epochs=4, verbose=0).history["loss"])
        shares = (losses - losses[0]) / (losses[-1] - losses[0])
        np.testing.assert_allclose(shares, [0, 1 / 4, 1, 1], atol=1e-5)
    at_once = model.fit((TEXTS, OTHERS), verbose=0, loss=SpladeLoss("in_batch_negatives", 1.0, 1.0, warmup_ratio=0))
    assert at_once.history["loss"][0] == pytest.approx(losses[-1], rel=1e-5)


def test_parts_of_a_run_have_one_warm_up():
    model, losses = encoder(), []
    model.compile(AdamW(0.0), loss=SpladeLoss("in_batch_negatives", 1.0, 1.0, warmup_ratio=0.5), run_eagerly=True)
    for num_updates in (2, 3):
        text_task(model).before_updates(8)
        losses += model.fit((TEXTS, OTHERS), epochs=num_updates, verbose=0).history["loss"]
    shares = (np.array(losses) - losses[0]) / (losses[-1] - losses[0])
    np.testing.assert_allclose(shares, np.square([0, 1 / 4, 2 / 4, 3 / 4, 1]), atol=1e-5)


def data_sets(warmup_ratio=0):
    lists = [TEXTS, OTHERS, OTHERS[::-1]]
    return [
        SentenceExamples([TEXTS, OTHERS], loss=SpladeLoss(warmup_ratio=0)),
        SentenceExamples(lists, TEACHER, loss=SpladeLoss(warmup_ratio=warmup_ratio)),
        SentenceExamples(lists, loss=SpladeLoss("margin_mse", warmup_ratio=0, teacher=teacher())),
    ]


def teacher():
    return tiny.made(SentenceEncoder, SHARP, VOCABULARY, seed=3)


def test_each_data_set_has_its_loss_and_a_teacher_computes_scores():
    model, parts = encoder(), data_sets()
    model.compile(AdamW(0.0), run_eagerly=True)
    alone = [model.fit(part, verbose=0).history["loss"][0] for part in parts]
    vectors = teacher().predict(tuple(parts[2].columns), verbose=0)
    scores = (vectors[:, :1] * vectors[:, 1:]).sum(axis=-1).tolist()
    by_hand = model.fit(tuple(parts[2].columns), scores, verbose=0, loss=SpladeLoss("margin_mse", warmup_ratio=0))
    assert alone[2] == pytest.approx(by_hand.history["loss"][0], rel=1e-5)
    assert len(set(np.round(alone, 4))) == 3
    model.loss_choice = None
    found = model.fit(DataSets(parts, sampler="round_robin"), verbose=0).history["loss"][0]
    np.testing.assert_allclose(found, np.mean(alone), rtol=1e-5)


def test_frozen_weights_of_queries_are_not_trained(eagerly):
    for frozen in (True, False):
        model = encoder(static_queries=True, frozen=frozen)
        model.compile(AdamW(0.03), jit_compile=False)
        before = model.static_weights()
        model.fit((TEXTS, OTHERS), epochs=2, verbose=0)
        assert np.array_equal(model.static_weights(), before) == frozen


@pytest.mark.parametrize("format", ["keras_bert", "huggingface"])
@pytest.mark.parametrize("static_queries", [False, True])
def test_a_saved_model_is_the_same(format, static_queries, tmp_path):
    prompts = {"query": "the ", "document": "quick "}
    arguments = {"activation_function": "log1p_relu", "prompts": prompts, "max_seq_length": 6, "max_active_dims": 7}
    if static_queries:
        arguments |= {"static_queries": True, "frozen": True, "max_query_length": 3, "default_route": "query"}
    model = encoder(**arguments)
    model.save_pretrained(tmp_path / "saved", format=format)
    loaded = from_pretrained(None, tmp_path / "saved")
    config, expected = loaded.get_config(), model.get_config()
    assert {name: config[name] for name in arguments} == {name: expected[name] for name in arguments}
    for ask in (loaded.encode_query, loaded.encode_document, loaded.encode):
        assert np.array_equal(ask(TEXTS).toarray(), getattr(model, ask.__name__)(TEXTS).toarray())
    # Another kind of model takes the encoder, and does not take this pooling for its own.
    assert isinstance(BertEncoder.from_pretrained(tmp_path / "saved"), BertEncoder)


@pytest.mark.parametrize("static_queries", [False, True])
def test_signatures_return_the_tokens_with_the_largest_weights(static_queries):
    model = encoder(static_queries=static_queries, prompts={"query": "quick "}, max_query_length=2)
    made = made_signatures(model, {"top_k": 4})
    for name, vectors in (("encode_query", model.encode_query(TEXTS)), ("encode_document", model.encode(TEXTS))):
        found = {key: values.numpy() for key, values in made[name](text=tf.constant(TEXTS)).items()}
        answers = registry.served_answers(found, {"text": TEXTS})
        for answer, pairs in zip(answers, model.decode(vectors, top_k=4), strict=True):
            assert answer.tokens == tuple(token for token, _ in pairs)
            assert answer.ids == tuple(VOCABULARY.ids[token] for token in answer.tokens)
            np.testing.assert_allclose(answer.weights, [weight for _, weight in pairs], atol=1e-6)
        assert (found["token_ids"] >= 0).sum() == sum(map(len, model.decode(vectors, top_k=4)))
    assert answer.readable().splitlines()[0] == f"  {answer.tokens[0]}  {answer.weights[0]:.4f}"
