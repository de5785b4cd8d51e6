"""Texts from users: the same rule for all entry points and all types of input."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from tiny_models import CONFIG as TWO_LAYERS
from tiny_models import VOCABULARY, new_model

from keras_bert import BertEncoder, GraphTokenizer, InputError, VectorIndex, generate_text, summarize, word_vectors
from keras_bert.embeddings import vector_index
from keras_bert.embeddings.text_vectors import sentence_embeddings
from keras_bert.program.user_inputs import as_list, as_texts, holds_texts, listed_texts
from keras_bert.records import features
from keras_bert.tasks.base import text_task
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.masked_lm.mask_filling import fill_masks, pseudo_perplexity
from keras_bert.tasks.tagging.model import TokenClassifier
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

pytestmark = pytest.mark.usefixtures("without_graphs")

CONFIG = TWO_LAYERS.replace(num_hidden_layers=1)
TEXT = "the fox, and a dog"


class HuggingFaceColumn:
    """The interface of `datasets.Column`."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, place):
        return self.values[place]

    def __iter__(self):
        return iter(self.values)


class Table(HuggingFaceColumn):
    column_names = ("text", "label")


class Scalar:
    """An element of a `pyarrow.ChunkedArray`, which is not a Python value."""


class PyarrowColumn:
    def __init__(self, values):
        self.values = values

    def __iter__(self):
        return (Scalar() for _ in self.values)

    def to_pylist(self):
        return list(self.values)


class PolarsColumn:
    dtype = "String"

    def __init__(self, values):
        self.values = values

    def to_list(self):
        return list(self.values)


COLUMNS = [HuggingFaceColumn, PyarrowColumn, PolarsColumn, tuple, np.array]


class Given(keras.utils.PyDataset):
    """Batches of whatever it is given."""

    def __init__(self, batch):
        super().__init__()
        self.batch = batch

    def __len__(self):
        return 1

    def __getitem__(self, place):
        return self.batch


@pytest.fixture(scope="module")
def models():
    encoder = tiny.made(BertEncoder, CONFIG, VOCABULARY, output_hidden_states=True)
    names = {"classifier": "classifier", "tagger": "tagger", "answerer": "span", "chooser": "choice"}
    names |= {"masked_lm": "masked words", "vectors": "first token"}
    return {kind: new_model(name) for kind, name in names.items()} | {"encoder": encoder}


@pytest.fixture
def index(models, monkeypatch):
    monkeypatch.setattr(vector_index, "search_vectors", lambda model, texts, *_, **__: np.ones((len(list(texts)), 2)))
    return VectorIndex.build(models["encoder"], ["fox", TEXT])


# Every entry that takes several texts: (models, texts) -> one answer for each.
ENTRIES = {
    "predict": lambda models, texts: models["classifier"].predict(texts),
    "predict of a tagger": lambda models, texts: models["tagger"].predict(texts),
    "predict of questions": lambda models, texts: models["answerer"].predict((texts, texts)),
    "predict of prompts": lambda models, texts: models["chooser"].predict((texts, [["a", "b"]])),
    "sentence_embeddings": lambda models, texts: sentence_embeddings(models["encoder"], texts).tolist(),
    "pseudo_perplexity": lambda models, texts: pseudo_perplexity(models["masked_lm"], texts).num_tokens.tolist(),
    "generate_text": lambda models, texts: generate_text(models["masked_lm"], texts, length=1),
    "word_vectors": lambda models, texts: word_vectors(models["encoder"], texts, "fox", layers=[-1]).vectors.tolist(),
    "GraphTokenizer": lambda models, texts: GraphTokenizer(VOCABULARY).tokenize(texts).to_list(),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_single_string_is_a_list_of_one(models, entry):
    answers = ENTRIES[entry](models, TEXT)
    assert len(answers) == 1
    assert answers == ENTRIES[entry](models, [TEXT])


def test_a_single_string_is_a_list_of_one_in_pairs_with_masks_and_in_an_index(models, index):
    assert models["classifier"].predict(([TEXT], TEXT)) == models["classifier"].predict(([TEXT], [TEXT]))
    assert len(models["classifier"].predict((TEXT, TEXT))) == 2
    filled = models["masked_lm"].predict("the [MASK]", top_k=1)
    assert (
        filled
        == models["masked_lm"].predict(["the [MASK]"], top_k=1)
        == fill_masks(models["masked_lm"], "the [MASK]", top_k=1)
    )
    assert len(index.search(models["encoder"], "fox")) == 1
    assert VectorIndex.build(models["encoder"], TEXT).texts == [TEXT]


@pytest.mark.parametrize("column", COLUMNS)
def test_columns_of_every_kind_are_lists(models, index, column):
    texts, labels = ["the fox", "a dog"], ["animal", "none"]
    assert as_texts(column(texts)) == texts
    tasks = {name: text_task(models[name]) for name in ("classifier", "tagger", "answerer", "chooser", "masked_lm")}
    assert tasks["classifier"].examples(column(texts), column(labels)).labels == labels
    assert tasks["classifier"].examples((column(texts), column(texts))).second_texts == texts
    assert tasks["tagger"].examples(column(texts)).texts == texts
    assert tasks["answerer"].examples((column(texts), column(texts))).contexts == texts
    assert tasks["chooser"].examples((column(texts), [texts, texts]), column([0, 1])).answers == [0, 1]
    assert tasks["masked_lm"].examples(column(texts)) == texts
    assert VectorIndex.build(models["encoder"], column(texts)).texts == texts


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("texts", [None, 5, ["a", None], [1], ["\ud800"], {"a"}, {"id": "a"}], ids=ascii)
def test_what_is_no_text_is_one_clear_line(models, entry, texts):
    with pytest.raises(InputError, match=r"must be (a list|a string|strings|valid)|half a|have no value") as raised:
        ENTRIES[entry](models, texts)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda models: summarize(models["encoder"], [TEXT]), "text must be one string. Received: ..the fox"),
        (lambda models: summarize(models["encoder"], "a \ud800"), "The text has half a surrogate pair at character 2"),
        (lambda models: models["encoder"].predict([TEXT]), "features. Received: texts. Use keras_bert.sentence"),
        (lambda models: WordPieceTokenizer(VOCABULARY).encode([TEXT]), "A text must be str or bytes. Received: .'the"),
        (lambda models: models["chooser"].predict((["a"], [["b", "\ud800"]])), "Choice of example 1 2 has half a surr"),
        (lambda models: models["chooser"].predict((["a"], [{"A": "b"}])), "choices of example 1 must be a list"),
        (lambda models: models["chooser"].predict((["a"], [{"b", "c"}])), "choices of example 1 must be a list"),
        (lambda models: models["classifier"].predict({"text": ["a"]}), "texts must be a list. Received: .'text'"),
        (lambda models: models["classifier"].evaluate(["a"], {"none"}), "labels must be a list. Received a set"),
        (lambda models: SequenceClassifier(CONFIG, labels={"a", "b"}), "labels must be a list. Received a set"),
        (
            lambda models: SequenceClassifier(CONFIG, labels={0: "a", 1: "b"}),
            "labels must be a list. Received: .0: ",
        ),
        (lambda models: SequenceClassifier(CONFIG, labels=np.array("a")), "labels must be a list. Received: array"),
        (lambda models: TokenClassifier(CONFIG, labels={"O", "B-A"}), "labels must be a list. Received a set"),
        (lambda models: TokenClassifier(CONFIG, labels=np.array([["O"], ["A"]])), "two or more different names"),
        (lambda models: as_texts(Table([{"text": "a"}])), "a table with the columns text, label. .*: table.'t"),
        (lambda models: models["vectors"].encode(Given(LABELLED[0])), "Received: Given, which gives batches"),
        (lambda models: as_list("yes", "labels"), "labels must be a list. Received: 'yes'"),
    ],
)
def test_entries_of_one_text_or_of_features_say_so(models, call, message):
    with pytest.raises(InputError, match=message):
        call(models)


def test_a_generator_or_a_data_set_of_texts_is_a_list(models):
    texts, classifier = [TEXT, "fox"], models["classifier"]
    expected = classifier.predict(texts)
    assert classifier.predict(text for text in texts) == expected
    assert models["tagger"].predict(text.split() for text in texts) == models["tagger"].predict(
        [text.split() for text in texts]
    )
    dataset = tf.data.Dataset.from_tensor_slices(texts)
    assert classifier.predict(dataset) == expected
    for given in (dataset, dataset.batch(2), (text for text in texts)):
        np.testing.assert_array_equal(models["vectors"].encode(given), models["vectors"].encode(texts))
    assert as_texts(dataset) == texts


LABELLED = (np.array([TEXT, "fox"]), np.array(["animal", "none"]))


@pytest.mark.parametrize(
    "loader",
    [
        lambda: Given(LABELLED),
        lambda: Given(LABELLED[0]),
        lambda: Given({"text": LABELLED[0]}),
        lambda: (one for one in zip(*LABELLED, strict=True)),
        lambda: (batch for batch in [LABELLED]),
        lambda: (batch for batch in [LABELLED[0]]),
    ],
)
def test_batches_of_texts_are_refused_in_one_line(models, loader):
    message = "that gives texts in batches or with labels is not taken. Give lists, such as fit.texts, labels"
    model = models["classifier"]
    calls = [model.fit, model.evaluate, model.predict, models["encoder"].predict]
    calls.append(lambda x: model.fit(*LABELLED, validation_data=x))
    for call in calls:
        with pytest.raises(InputError, match=message):
            call(loader())


def test_a_generator_of_features_is_whole_after_a_look_at_it(models):
    ids = {name: np.ones((1, 3), np.int32) for name in models["classifier"].feature_names}
    batches = [({**ids, features.INPUT_IDS: np.full((1, 3), number, np.int32)},) for number in (5, 6, 7)]
    found = models["classifier"].predict((batch for batch in batches), steps=3, verbose=0)
    np.testing.assert_allclose(found, np.concatenate([models["classifier"].predict(x, verbose=0) for (x,) in batches]))
    assert listed_texts(batches) is batches


def test_features_and_loaders_of_batches_go_to_keras():
    ids = {features.INPUT_IDS: np.ones((1, 3), np.int32)}
    for given in (ids, {features.INPUT_IDS: [[1]]}, ids["input_ids"], (batch for batch in [ids]), Given(ids)):
        assert not holds_texts(given), given
    for given in ("a", ["a"], [1], None, np.array(["a"]), HuggingFaceColumn(["a"]), {"a": "b"}.values(), map(str, [1])):
        assert holds_texts(given), given
