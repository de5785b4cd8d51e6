"""An exported tagger answers like `predict`, with offsets in bytes instead of characters."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
import tiny
from generated_texts import generated_texts

from keras_bert.config.signature_options import SignatureOptions
from keras_bert.tasks.tagging import tag_schemes
from keras_bert.tasks.tagging.graph_tagging import EntityReader
from keras_bert.tasks.tagging.model import TokenClassifier
from keras_bert.tasks.tagging.signatures import tagging_signatures
from keras_bert.tokenization.text_words import words_of_text

pytestmark = pytest.mark.usefixtures("without_graphs")

TYPES = ["LOC", "PER", "a-b"]
SCHEMES = {"BIO": "BI", "BIOES": "BIES", "BILOU": "BILU", "BMES": "BMES"}
PIECES = [piece for letter in "adehlnorstuyAGLPZ.,'-1239é東" for piece in (letter, f"##{letter}")]
VOCABULARY = tiny.vocabulary("the in London ##on", *PIECES)


def labels_of(letters):
    return ["O", *(f"{letter}-{name}" for name in TYPES for letter in letters)]


CONFIG = tiny.config(
    VOCABULARY, intermediate_size=16, max_position_embeddings=24, initializer_range=0.5, do_lower_case=False
)


def new_model(labels):
    return tiny.made(TokenClassifier, CONFIG, VOCABULARY, labels, seed=1)


def new_server(model):
    """The signatures of a model."""
    return tagging_signatures(model, model.tokenizer.graph(), SignatureOptions(24))


@pytest.fixture(scope="module")
def model():
    return new_model(labels_of("BIES"))


@pytest.fixture(scope="module")
def server(model):
    return new_server(model)


def texts_tensor(texts):
    return tf.constant([text.encode() for text in texts], tf.string, shape=[len(texts)])


def assert_entities(outputs, number, entities, place=lambda characters: characters, probabilities="probabilities"):
    """Checks that row `number` has these entities, followed by padding only."""
    row = {name: values[number].numpy().tolist() for name, values in outputs.items()}
    empty = row["types"].count(b"")
    assert len(row["types"]) == len(entities) + empty
    assert [text.decode() for text in row["entities"]] == [entity.text for entity in entities] + [""] * empty
    assert [name.decode() for name in row["types"]] == [entity.type for entity in entities] + [""] * empty
    assert row["starts"] == [place(entity.start) for entity in entities] + [-1] * empty
    assert row["ends"] == [place(entity.end) for entity in entities] + [-1] * empty
    expected = [entity.probability for entity in entities] + [0] * empty
    np.testing.assert_allclose(row[probabilities], expected, atol=1e-5)


def assert_as_predicted(server, model, texts):
    """Batches of 50, so that texts with one word and with hundreds are in one batch."""
    for first in range(0, len(texts), 50):
        part = texts[first : first + 50]
        outputs = server["serving_default"](texts_tensor(part))
        for number, (text, answer) in enumerate(zip(part, model.predict(part), strict=True)):
            assert_entities(outputs, number, answer.entities, lambda end, text=text: len(text[:end].encode()))


def test_entities_of_any_texts_are_those_of_predict(server, model):
    texts = ["the London", "Zoé's hotel in Londonon, the U.S.", "the A. Lee " * 40, "\x00 a", "a" * 300, "東東 the"]
    generated = (text.decode(errors="ignore") for _, text in itertools.islice(generated_texts(7), 150))
    assert_as_predicted(server, model, texts + [text for text in generated if words_of_text(text)])
    assert sum(len(answer.entities) for answer in model.predict(texts)) > 20


def assert_words(server, sentences, answers, filling=""):
    longest = max(map(len, sentences))
    lengths = tf.constant([len(words) for words in sentences])
    words = [list(words) + [filling or words[0]] * (longest - len(words)) for words in sentences]
    outputs = server["words"](tf.constant(words), lengths)
    for number, answer in enumerate(answers):
        tags = [tag.decode() for tag in outputs["tags"][number].numpy()]
        assert tags == [*answer.tags, *[""] * (longest - len(answer.tags))]
        expected = [*answer.probabilities, *[0.0] * (longest - len(answer.tags))]
        np.testing.assert_allclose(outputs["probabilities"][number], expected, atol=1e-5)
        assert_entities(
            {name: values for name, values in outputs.items() if name not in ("tags", "probabilities")},
            number,
            answer.entities,
            probabilities="entity_probabilities",
        )


def test_a_batch_of_words_filled_up_by_the_server_is_answered_as_each_sentence_alone(server, model):
    sentences = [["London"], ["the", "Lee", "in", "A.", "London", "on", "a"] * 6, ["the", "Lee"]]
    answers = model.predict(sentences)
    assert_words(server, sentences, answers)
    assert_words(server, sentences, answers, filling="London")
    for words, answer in zip(sentences, answers, strict=True):
        assert_words(server, [words], [answer])
    outputs = server["words"](tf.constant([["a", b"L\xff\xc3ee"], ["a", "b"]]), tf.constant([2, 0]))
    assert b"".join(outputs["entities"].numpy().reshape(-1)).decode() is not None
    assert set(outputs["tags"][1].numpy()) == {b""}


def test_tokens_have_the_probabilities_of_their_tags(server, model):
    ids = np.array([[2, 5, 6, 7, 3], [2, 7, 3, 2, 2]], np.int32)  # the second row padded as by a server
    outputs = server["tokens"](tf.constant(ids), tf.constant([5, 3]))
    for number, length in enumerate([5, 3]):
        row = ids[number : number + 1, :length]
        features = {"input_ids": row, "input_mask": np.ones_like(row), "segment_ids": np.zeros_like(row)}
        expected = tf.nn.softmax(model(features))[0]
        np.testing.assert_allclose(outputs["tag_probabilities"][number, :length], expected, atol=1e-6)
    assert not outputs["tag_probabilities"][1, 3:].numpy().any()
    assert [label.decode() for label in outputs["labels"][1].numpy()] == list(model.labels)
    assert server["tokens"](tf.zeros([1, 40], tf.int32), tf.constant([40]))["tag_probabilities"].shape == (1, 40, 13)


def test_nothing_and_broken_text_have_no_entities(server):
    for texts in ([], [b""], [b"", b" \n"], [b"", b"London", b"\xff\xc3"]):
        outputs = server["serving_default"](tf.constant(texts, tf.string, shape=[len(texts)]))
        assert outputs["entities"].shape[0] == len(texts)
        assert all(
            set(row.numpy()) <= {b""} for row, text in zip(outputs["types"], texts, strict=True) if text != b"London"
        )
    outputs = server["serving_default"](tf.constant([b"\xffLon\xc3don\xf0 the Lee"]))
    assert b"".join(outputs["entities"].numpy()[0]).decode() is not None


def test_a_model_of_parts_of_speech_names_the_tag_of_every_word():
    model = new_model(["DET", "NOUN", "VERB"])
    server = new_server(model)
    texts = ["the U.S. Lee", "London", "é東"]
    outputs = server["serving_default"](texts_tensor(texts))
    assert set(outputs) == {"words", "tags", "starts", "ends", "probabilities"}
    for number, (text, answer) in enumerate(zip(texts, model.predict(texts), strict=True)):
        length = len(answer.words)
        assert [word.decode() for word in outputs["words"][number].numpy()[:length]] == list(answer.words)
        assert [tag.decode() for tag in outputs["tags"][number].numpy()[:length]] == list(answer.tags)
        np.testing.assert_allclose(outputs["probabilities"][number][:length], answer.probabilities, atol=1e-5)
        places = zip(outputs["starts"][number].numpy(), outputs["ends"][number].numpy(), strict=True)
        found = [text.encode()[start:end].decode() for start, end in places if start >= 0]
        assert found == list(answer.words)
    assert set(server["words"](tf.constant([["the"]]), tf.constant([1]))) == {"tags", "probabilities"}


@pytest.mark.parametrize("letters", SCHEMES.values(), ids=SCHEMES)
def test_every_sequence_of_tags_is_read_as_conlleval_reads_it(letters):
    labels = labels_of(letters)
    scheme = tag_schemes.find_scheme(labels)
    draw = np.random.default_rng(0)
    # Sentences of up to 5 words, over few labels, so that all neighbours occur.
    lengths = draw.integers(0, 6, 600)
    label_ids = draw.integers(0, 2 * len(letters) + 1, lengths.sum())
    probabilities = draw.dirichlet(np.ones(len(labels)), len(label_ids))
    rows = np.repeat(np.arange(600), lengths)
    tags, found = EntityReader(labels, scheme)(*map(tf.constant, (label_ids, probabilities, rows)))
    expected_tags, expected = [], []
    for first, length in zip(np.cumsum(lengths) - lengths, lengths, strict=True):
        entities = tag_schemes.read_entities([labels[number] for number in label_ids[first : first + length]])
        expected_tags += tag_schemes.write_tags(entities, length, scheme)
        expected += [(entity.type, first + entity.start, first + entity.end) for entity in entities]
    assert [tag.decode() for tag in tags.numpy()] == expected_tags
    columns = [name.decode() for name in found.types.numpy()], found.firsts.numpy(), found.ends.numpy()
    assert list(zip(*columns, strict=True)) == expected
    for number, (name, start, end) in enumerate(expected):
        of_type = [label[2:] == name for label in labels]
        mean = probabilities[start:end][:, of_type].sum(axis=1).mean()
        assert found.probabilities.numpy()[number] == pytest.approx(mean)
