"""`MultiVectorEncoder`: rows, vectors, scores, training on texts, folders of others, and exports."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from places import TESTS
from recorded_folders import recorded_folder
from tiny_checkpoints import change_json, random_checkpoint, write_stanford_colbert
from tiny_families import config as config_of_family
from tiny_models import assert_same_answers, made_signatures

from keras_bert import AdamW, BertEncoder, InputError, MultiVectorEncoder, SentenceEncoder
from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.tasks.embedding.examples import DataSets, SentenceExamples
from keras_bert.tasks.embedding.scores import retrieval_scores
from keras_bert.tasks.multi_vector.losses import MaxSimDistillation, MaxSimInBatchNegatives
from keras_bert.tasks.multi_vector.max_sim import max_sim

pytestmark = pytest.mark.usefixtures("without_graphs")

QUERIES = ["quick", "brown fox", "the fox the fox the fox the fox", "the"]
DOCUMENTS = ["the quick fox .", "brown , the fox", "quickest . fox ,", "."]
OTHERS = ["brown", "quick the", "fox fox", "quick brown"]
FOLDER = recorded_folder("heads", "colbert")
GOLDEN = TESTS / "embedding_golden" / "multi_vector.json"
TEACHER = [[3.0, 1.0], [2.0, 2.5], [0.5, -1.0], [1.0, 0.0]]
VOCABULARY = tiny.vocabulary("[unused0] [unused1] the quick brown fox ##est . ,")
CONFIG = tiny.config(VOCABULARY, dropout=0.0, hidden_size=8, num_hidden_layers=2, initializer_range=0.4)
EXPANSION = {"strategy": "fixed", "attend": False, "token": None, "length": 10}
SETTINGS = {
    "dense": [{"units": 6, "activation": "linear", "use_bias": False}],
    "prompts": {"query": "[unused0] ", "document": "[unused1] "},
    "query_expansion": EXPANSION,
    "document_length": 9,
    "skiplist_words": [".", ",", "no token"],
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A folder of transformers with an encoder."""
    path = tmp_path_factory.mktemp("multi_vector") / "plain"
    write_checkpoint(random_checkpoint(config=CONFIG, vocabulary=VOCABULARY), path, "huggingface")
    return path


def made(plain, **changes):
    model = MultiVectorEncoder.from_pretrained(plain, **{**SETTINGS, **changes})
    model.new_parts.set_trained()
    return model


@pytest.fixture(scope="module")
def model(plain):
    """A model that no test trains."""
    keras.utils.set_random_seed(1)
    return made(plain)


def vectors_by_hand(model, ids, mask, scored):
    """The vectors of one row: of the encoder, projected, of length 1."""
    features = {"input_ids": [ids], "input_mask": [mask], "segment_ids": [[0] * len(ids)]}
    hidden = model.encoder({name: np.array(values, "int32") for name, values in features.items()})["sequence_output"]
    vectors = np.asarray(hidden)[0] @ np.asarray(model.sentence_head.dense_layers[0].kernel)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True))[np.array(scored) > 0]


def answers(model):
    return [*model.encode_query(QUERIES), *model.encode_document(DOCUMENTS)]


def ids_of(text):
    return [VOCABULARY.ids[token] for token in text.split()]


@pytest.mark.parametrize(("attend", "mask"), [(False, [1] * 4 + [0] * 6), (True, [1] * 10)])
def test_a_query_is_filled_up_with_masks_that_score(attend, mask, plain):
    model = made(plain, query_expansion={"length": 10, "attend": attend})
    ids = ids_of("[CLS] [unused0] quick [SEP]" + " [MASK]" * 6)
    assert_same_answers(model.encode_query("quick"), [vectors_by_hand(model, ids, mask, [1] * 10)])


def test_a_query_is_cut_to_the_length_of_a_fixed_expansion_only(model, plain):
    assert [len(vectors) for vectors in model.encode_query(QUERIES)] == [10] * 4
    longer = made(plain, query_expansion={"strategy": "min", "length": 5, "token": "the"}, query_length=9)
    assert [len(vectors) for vectors in longer.encode_query(QUERIES)] == [5, 5, 9, 5]
    ids = ids_of("[CLS] [unused0] quick [SEP] the")
    assert_same_answers(longer.encode_query("quick"), [vectors_by_hand(longer, ids, [1] * 4 + [0], [1] * 5)])
    assert [len(vectors) for vectors in made(plain, query_expansion=None).encode_query(QUERIES)] == [4, 5, 11, 4]


def test_words_of_the_skip_list_are_read_but_have_no_vectors_in_documents(model):
    ids = ids_of("[CLS] [unused1] quick ##est . fox , [SEP]")
    expected = vectors_by_hand(model, ids, [1] * 8, [1, 1, 1, 1, 0, 1, 0, 1])
    assert_same_answers(model.encode_document(["quickest . fox ,"]), [expected])
    assert [len(vectors) for vectors in model.encode_document([*DOCUMENTS, "the " * 20])] == [6, 6, 6, 3, 9]
    assert len(model.encode_query(".")[0]) == 10
    assert model.encode_document([]) == []


def test_the_vectors_of_texts_do_not_depend_on_the_batch(model):
    single = [model.encode_document(text)[0] for text in DOCUMENTS]
    assert_same_answers(model.encode_document(DOCUMENTS, batch_size=3), single)


def test_the_similarity_is_the_sum_of_the_largest_products(model, plain):
    queries, documents = model.encode_query(QUERIES), model.encode_document(DOCUMENTS)
    expected = [[(query @ text.T).max(axis=1).sum() for text in documents] for query in queries]
    found = model.similarity(queries, documents)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(model.predict((QUERIES, DOCUMENTS), verbose=0), np.diag(expected), rtol=1e-5)
    mean = made(plain, similarity_fn_name="meanmaxsim")
    np.testing.assert_allclose(mean.similarity(queries, documents), found / 10, rtol=1e-6)
    with pytest.raises(InputError, match=r"queries must be a list of arrays \[tokens, D\].*the shape \[6\]"):
        model.similarity(queries[0], documents)
    with pytest.raises(InputError, match=r"All vectors must have one size. Received: \[5, 6\]"):
        model.similarity(queries, [np.zeros((2, 5))])


def test_the_mean_similarity_is_that_of_the_vectors_of_each_query():
    draw = np.random.default_rng(0)
    queries, documents = ([draw.normal(size=(size, 4)) for size in sizes] for sizes in ((1, 3), (2, 5)))
    means = max_sim(queries, documents, is_mean=True)
    np.testing.assert_allclose(means, max_sim(queries, documents) / [[1], [3]], rtol=1e-6)


def test_a_document_without_vectors_comes_last_also_where_texts_are_compared_in_parts(model, monkeypatch):
    queries, documents = model.encode_query(QUERIES), [np.zeros((0, 6)), *model.encode_document(DOCUMENTS)]
    scores = model.similarity(queries, documents)
    assert (scores[:, 0] == -1e9).all()
    np.testing.assert_array_equal(scores[:, 1:], model.similarity(queries, documents[1:]))
    assert model.similarity([], documents).shape == (0, 5)
    monkeypatch.setattr("keras_bert.tasks.multi_vector.max_sim._TOKENS_AT_ONCE", 12)
    np.testing.assert_allclose(model.similarity(queries, documents), scores, rtol=1e-6)


def test_a_ranking_is_by_similarity(model):
    scores = model.similarity(model.encode_query("quick"), model.encode_document(DOCUMENTS))[0]
    ranked = model.rank("quick", DOCUMENTS, top_k=3)
    assert [one.number for one in ranked] == np.argsort(-scores, kind="stable").tolist()[:3]
    np.testing.assert_allclose([one.score for one in ranked], np.sort(scores)[:0:-1], rtol=1e-6)


# Training.


def test_the_examples_select_the_loss_and_the_loss_is_that_of_the_scores(eagerly, plain):
    model = made(plain)
    scores = model.similarity(model.encode_query(QUERIES), model.encode_document([*DOCUMENTS, *OTHERS]))
    model.compile(AdamW(0.0))
    found = model.fit((QUERIES, DOCUMENTS, OTHERS), epochs=1, verbose=0).history["loss"][0]
    assert model.embedding_loss == MaxSimInBatchNegatives()
    np.testing.assert_allclose(found, np.mean(np.log(np.exp(scores).sum(axis=1)) - np.diag(scores)), rtol=1e-5)
    found = model.fit((QUERIES, DOCUMENTS, OTHERS), np.array(TEACHER), verbose=0).history["loss"][0]
    assert model.embedding_loss == MaxSimDistillation()
    own = np.stack([np.diag(scores), np.diag(scores[:, 4:])], axis=1)
    own, teacher = (np.log(np.exp(rows) / np.exp(rows).sum(axis=1, keepdims=True)) for rows in (own, np.array(TEACHER)))
    np.testing.assert_allclose(found, (np.exp(teacher) * (teacher - own)).sum(axis=1).mean(), rtol=1e-4)
    assert not model.encoder.pooler.trainable


def test_data_sets_train_with_the_loss_of_each_and_teachers_give_scores(eagerly, plain):
    model, columns = made(plain), [QUERIES, DOCUMENTS, OTHERS]
    model.compile(AdamW(0.0))
    parts = [
        SentenceExamples([QUERIES, DOCUMENTS]),
        SentenceExamples(columns, TEACHER, loss="margin_mse"),
        SentenceExamples(columns, loss=MaxSimDistillation(teacher=model)),
    ]
    alone = [model.fit(part, verbose=0).history["loss"][0] for part in parts]
    assert alone[2] == pytest.approx(0.0, abs=1e-6)  # a model is its own teacher
    found = model.fit(DataSets(parts, sampler="round_robin"), verbose=0).history["loss"][0]
    np.testing.assert_allclose(found, np.mean(alone), rtol=1e-5)
    assert model.fit(parts[1], verbose=0, loss="margin_mse").history["loss"][0] == pytest.approx(alone[1], rel=1e-5)


def test_the_scores_are_those_of_ranking_or_of_the_teacher(model):
    assert set(model.evaluate((QUERIES, DOCUMENTS, OTHERS), verbose=0)) >= {"mrr@10", "ndcg@10"}
    by_teacher = model.evaluate((QUERIES, DOCUMENTS, OTHERS), TEACHER, verbose=0)
    assert by_teacher["mrr@10"] in (0.5, 0.625, 0.75, 0.875, 1.0)
    assert set(model.evaluate((QUERIES, DOCUMENTS), [1, 0, 0.5, 1], verbose=0)) == {"spearman", "pearson"}
    found = model.similarity(model.encode_query(QUERIES), model.encode_document(DOCUMENTS))
    retrieval = retrieval_scores(np.argsort(-found), [[0], [1], [2], [3]])
    assert model.evaluate((QUERIES, DOCUMENTS), verbose=0) == pytest.approx(retrieval)
    scores = model.predict((QUERIES, DOCUMENTS, OTHERS), verbose=0)
    np.testing.assert_allclose(scores[:, 1], model.predict((QUERIES, OTHERS), verbose=0), rtol=1e-5)


def test_several_data_sets_are_evaluated_one_by_one(model):
    with pytest.raises(InputError, match="Evaluate and predict them one by one"):
        model.evaluate(DataSets([SentenceExamples([QUERIES, DOCUMENTS])] * 2), verbose=0)


# Folders.


@pytest.mark.parametrize("format", ["keras_bert", "huggingface"])
def test_a_saved_model_gives_the_same_vectors(format, model, tmp_path, capsys):
    model.save_pretrained(tmp_path / "saved", format=format)
    loaded = from_pretrained(None, tmp_path / "saved")
    assert isinstance(loaded, MultiVectorEncoder)
    assert [loaded.get_config()[name] for name in SETTINGS] == [model.get_config()[name] for name in SETTINGS]
    assert_same_answers(answers(loaded), answers(model), 1e-6)
    printed = capsys.readouterr().out
    assert ("the skip list that are not one token are ignored: no token" in printed) == (format == "huggingface")


def test_a_folder_of_sentence_transformers_gives_their_vectors_and_scores():
    # Recorded with sentence-transformers 6.2: the vectors of the first, fourth and last token of each text.
    golden, model = json.loads(GOLDEN.read_text()), from_pretrained(None, FOLDER)
    queries, documents = model.encode_query(golden["queries"]), model.encode_document(golden["documents"])
    for found, name in ((queries, "query_vectors"), (documents, "document_vectors")):
        np.testing.assert_allclose([vectors[[0, 3, -1]] for vectors in found], golden[name], atol=1e-5)
    assert [list(map(len, texts)) for texts in (queries, documents)] == golden["tokens"]
    np.testing.assert_allclose(model.similarity(queries, documents), golden["similarity"], atol=1e-5)


def test_a_folder_of_stanford_has_its_marks_projection_and_lengths(plain, tmp_path, capsys):
    kernel = write_stanford_colbert(plain, tmp_path / "stanford", query_maxlen=10, doc_maxlen=9)
    found = from_pretrained(None, tmp_path / "stanford")
    assert "ignored" not in capsys.readouterr().out.split("words of the skip list")[0]
    expected = made(plain)
    expected.sentence_head.dense_layers[0].kernel.assign(kernel.T)
    assert found.query_expansion == EXPANSION
    assert_same_answers(answers(found), answers(expected), 1e-6)
    found.save_pretrained(tmp_path / "again", format="huggingface")
    assert_same_answers(answers(from_pretrained(None, tmp_path / "again")), answers(expected), 1e-6)


@pytest.mark.parametrize("expansion", [None, {"strategy": "min", "length": 5}, EXPANSION])
def test_a_folder_has_the_lengths_and_the_expansion_of_its_model(expansion, plain, tmp_path):
    changes = {} if expansion == EXPANSION else {"query_expansion": expansion, "query_length": 9}
    model = made(plain, **changes)
    model.save_pretrained(tmp_path / "saved", format="huggingface")
    found = from_pretrained(None, tmp_path / "saved")
    assert found.query_expansion == model.query_expansion
    assert found.longest("query", None) == model.longest("query", None)
    assert found.longest("document", None) == model.longest("document", None)


def test_texts_that_are_cut_are_counted_by_their_role(plain, capsys, without_graphs):
    model, long = made(plain), "the quick fox " * 9
    model.fit(([long, "fox"], ["brown", "the fox"]), batch_size=2, verbose=0)
    assert "1 of 2 queries were cut to 10 tokens" in capsys.readouterr().err
    model.fit((["brown", "fox"], [long, long]), batch_size=2, verbose=0)
    assert "2 of 2 documents were cut to 9 tokens" in capsys.readouterr().err


def test_a_new_model_keeps_the_dense_layers_of_a_sentence_encoder(plain, tmp_path):
    encoder = SentenceEncoder.from_pretrained(plain, dense=[{"units": 3}])
    encoder.new_parts.set_trained()
    encoder.save_pretrained(tmp_path / "sentence")
    model = MultiVectorEncoder.from_pretrained(tmp_path / "sentence")
    assert (model.vector_size, model.new_parts.untrained()) == (3, ())
    new = MultiVectorEncoder.from_pretrained(plain)
    assert new.vector_size == 128
    with pytest.warns(match="has no sentence_head for it"):
        new.encode_query("fox")


MASK, BERT = "3_MultiVectorMask/config.json", "sentence_bert_config.json"
POOLING = "sentence_transformers.multi_vector_encoder.modules.token_pooling.HierarchicalTokenPooling"


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        (MASK, {"skiplist_words": [3]}, "each of skiplist_words must be a string"),
        (MASK, {"skiplist_tasks": ["text"]}, "skiplist_tasks must be one of query, document. Received: 'text'"),
        (MASK, {"keep_only_token_ids": [3]}, "keep_only_token_ids"),
        ("1_Dense/config.json", {"module_input_name": "sentence_embedding"}, "module_input_name"),
        ("config_sentence_transformers.json", {"similarity_fn_name": "xtr"}, "maxsim, meanmaxsim. Received: 'xtr'"),
        (BERT, {"query_expansion": {"strategy": "most", "length": 9}}, "strategy='most'"),
        (BERT, {"document_length": 99}, "length .* 99"),
        (BERT, {"chat_template": "a"}, "'chat_template'='a'"),
        (
            "modules.json",
            {"change": lambda modules: [*modules, {"idx": 4, "name": "4", "path": "", "type": POOLING}]},
            "MultiVectorMask, HierarchicalTokenPooling. Use sentence-transformers",
        ),
    ],
)
def test_what_their_files_say_otherwise_is_refused(file, changes, message, model, tmp_path):
    model.save_pretrained(tmp_path / "saved", format="huggingface")
    change_json(tmp_path / "saved" / file, **changes)
    with pytest.raises(InputError, match=message):
        MultiVectorEncoder.from_pretrained(tmp_path / "saved")


def test_an_encoder_can_be_taken_and_other_models_are_refused(model, tmp_path):
    model.save_pretrained(tmp_path / "saved", format="huggingface")
    BertEncoder.from_pretrained(tmp_path / "saved")
    with pytest.raises(InputError, match="MultiVectorMask of a MultiVectorEncoder"):
        SentenceEncoder.from_pretrained(tmp_path / "saved")
    theirs = {"model_type": "ColBERT", "query_prefix": "[Q] "}
    change_json(tmp_path / "saved" / "config_sentence_transformers.json", lambda _: theirs)
    with pytest.raises(InputError, match="MultiVectorMask of a ColBERT'. Save it as a MultiVectorEncoder of sentence-"):
        MultiVectorEncoder.from_pretrained(tmp_path / "saved")
    assert MultiVectorEncoder.from_pretrained(tmp_path / "saved", dense=[{"units": 3}]).vector_size == 3


# Exports.


def test_the_signatures_give_the_vectors_and_a_mask(model, plain):
    others = made(plain, query_expansion={"strategy": "min", "length": 5, "attend": True}, document_length=None)
    for one in (model, others, made(plain, query_expansion=None)):
        signatures = made_signatures(one, {})
        for role, texts in (("query", QUERIES), ("document", DOCUMENTS)):
            found = signatures[f"encode_{role}"](text=tf.constant(texts))
            vectors, mask = (np.asarray(found[name]) for name in ("vectors", "mask"))
            expected = getattr(one, f"encode_{role}")(texts)
            assert_same_answers([row[is_one > 0] for row, is_one in zip(vectors, mask, strict=True)], expected)
            assert not vectors[mask == 0].any()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda model: model.fit(QUERIES), "queries are compared with documents. Give two columns or more"),
        (lambda model: model.fit((["fox"], ["the"])), "two different queries or more. Received: one"),
        (lambda model: model.fit((QUERIES, DOCUMENTS), [1.0] * 4), "two documents or more of each query"),
        (lambda model: model.fit((QUERIES, DOCUMENTS, OTHERS), [[1.0]] * 4), "must be 2 numbers for each.*Received: 1"),
        (lambda model: model.fit((QUERIES, DOCUMENTS, OTHERS), [[1.0, "a"]] * 4), "must be 2 numbers.*'a'"),
        (lambda model: model.fit((QUERIES, DOCUMENTS, OTHERS), TEACHER[:3]), "equally long.*4 texts.*3 in scores"),
        (lambda model: model.fit((QUERIES, DOCUMENTS), loss="cosent"), "loss must be a MaxSimLoss or one of: in_batch"),
        (lambda model: model.fit((QUERIES, DOCUMENTS, OTHERS), loss="distillation"), "Give the scores of a teacher"),
        (lambda model: model.compile("adam", metrics=["mse"]), "MultiVectorEncoder has no metrics in training"),
        (lambda model: model.rank("fox", DOCUMENTS, top_k=0), "top_k must be a whole number .* Received: 0"),
        (lambda model: model.rank(["fox"], DOCUMENTS), "The query must be a string"),
        (lambda model: model.encode_query([3]), "Text 1 must be a string. Received: 3"),
        (lambda model: model.explain(QUERIES), "queries are compared with documents"),
    ],
)
def test_what_does_not_fit_is_refused(use, message, model):
    before = model.loss_choice
    with pytest.raises(InputError, match=message):
        use(model)
    assert model.loss_choice is before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prompts": {"query": "[Q] "}}, r"the mark '\[Q\]' is no token of the vocabulary.*new_tokens=\['\[Q\]'\]"),
        ({"skiplist_words": ["the", 3]}, "skiplist_words must be a list of strings. Received: 3"),
        ({"skiplist_words": "the"}, "skiplist_words must be a list of strings. Received: 'the'"),
        ({"document_length": 17}, "17"),
        ({"document_length": 2}, "document_length must be .* Received: 2"),
        ({"query_length": 9}, "query_length must be at least 10, the length of query_expansion. Received: 9"),
        ({"query_expansion": {"length": 17}}, "17"),
        ({"query_expansion": {"length": 0}}, "Received: length=0"),
        ({"query_expansion": {"length": 8, "attend": 1}}, "Received: attend=1"),
        ({"query_expansion": {"size": 8}}, "settings strategy, attend, token, length. Received: {'size': 8}"),
        ({"query_expansion": {"length": 8, "token": "dog"}}, "the token 'dog' is not in the vocabulary"),
        ({"similarity_fn_name": "cosine"}, "maxsim, meanmaxsim. Received: 'cosine'"),
    ],
)
def test_settings_that_are_not_valid_are_refused(settings, message, plain):
    with pytest.raises(InputError, match=message):
        made(plain, **settings).encode_query("fox")


@pytest.mark.parametrize("family", ["roberta", "mobilebert", "deberta-v2", "modernbert"])
def test_families_whose_padding_is_computed_otherwise_must_attend_to_masks(family):
    config = config_of_family(family)  # ModernBERT's tokens attend to few neighbours here
    with pytest.raises(InputError, match=f"family {family} the tokens of a query must attend.*attend=True"):
        MultiVectorEncoder(config, query_expansion={"length": 8})
    MultiVectorEncoder(config, query_expansion={"length": 8, "attend": True})
