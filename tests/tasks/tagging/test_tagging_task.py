"""Tagging of words and plain strings: tags and entities with their positions."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from keras_bert import InputError, TokenClassifier
from keras_bert.config.signature_options import SignatureOptions
from keras_bert.serving.export import make_tokenizer
from keras_bert.tasks.tagging.signatures import tagging_signatures
from keras_bert.tasks.tagging.task import TaggingTask
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

pytestmark = pytest.mark.usefixtures("without_graphs")

WORDS = ["ada", "##love", "lace", "grace", "wrote", "to", "london", "paris", "from", "'", "s", ",", ".", "in"]
VOCABULARY = tiny.vocabulary(*WORDS)
CONFIG = tiny.config(
    VOCABULARY, dropout=0.0, hidden_size=32, intermediate_size=32, max_position_embeddings=40, initializer_range=0.1
)
LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
SENTENCES = [
    ["Ada", "Lace", "wrote", "from", "London"],
    ["Grace", "wrote", "to", "Ada", "Lace"],
    ["Paris", ",", "to", "London", "'s", "Grace"],
    ["in", "Adalove", "wrote", "."],
]
TAGS = [
    ["B-PER", "I-PER", "O", "O", "B-LOC"],
    ["B-PER", "O", "O", "B-PER", "I-PER"],
    ["B-LOC", "O", "O", "B-LOC", "O", "B-PER"],
    ["O", "B-PER", "O", "O"],
]


def new_model(labels=LABELS):
    return tiny.made(TokenClassifier, CONFIG, VOCABULARY, labels, seed=0)


@pytest.fixture(scope="module")
def model():
    """A tagger that has learnt the sentences by heart."""
    model = new_model()
    model.compile(optimizer=keras.optimizers.Adam(5e-3))
    model.fit(SENTENCES * 4, TAGS * 4, batch_size=8, epochs=25, verbose=0)
    return model


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer(WordPieceTokenizer(VOCABULARY, True))


def found(answer):
    return [(entity.type, entity.start, entity.end, entity.text) for entity in answer.entities]


def test_scores_of_a_tagger_that_knows_its_sentences(model):
    scores = model.evaluate(SENTENCES, TAGS)
    assert list(scores) == ["f1", "precision", "recall", "macro_f1", "accuracy", "loss"]
    assert (scores["f1"], scores["accuracy"]) == (1.0, 1.0)
    wrong = [[tag.replace("LOC", "PER") for tag in tags] for tags in TAGS]
    assert model.evaluate(SENTENCES, wrong)["f1"] == pytest.approx(2 * 5 / (8 + 8))
    # The loss is the one that Keras reports: a mean over words, not over sentences.
    task = TaggingTask(model)
    batch = task.rows(task.examples(SENTENCES, wrong)).rows.batch(np.arange(4))
    expected = model.evaluate(tf.data.Dataset.from_tensors(batch), verbose=0, return_dict=True)
    assert model.evaluate(SENTENCES, wrong)["loss"] == pytest.approx(expected["loss"], rel=1e-5)


def test_entities_of_plain_strings_have_their_characters(model):
    text = "Grace wrote to Ada  Lace, from London's."
    (answer,) = model.predict([text])
    assert found(answer) == [("PER", 0, 5, "Grace"), ("PER", 15, 24, "Ada  Lace"), ("LOC", 31, 37, "London")]
    assert all(text[entity.start : entity.end] == entity.text for entity in answer.entities)
    assert answer.words == ("Grace", "wrote", "to", "Ada", "Lace", ",", "from", "London", "'s", ".")
    assert answer.tags[3:5] == ["B-PER", "I-PER"]
    assert all(0.5 < entity.probability <= 1 for entity in answer.entities)


def test_entities_of_words_have_the_numbers_of_the_words(model):
    words, string = model.predict([SENTENCES[0], "Ada Lace wrote"])
    assert found(words) == [("PER", 0, 2, "Ada Lace"), ("LOC", 4, 5, "London")]
    assert found(string) == [("PER", 0, 8, "Ada Lace")]
    assert words.log_probabilities.shape == (5, len(LABELS))
    np.testing.assert_allclose(np.exp(words.log_probabilities).sum(axis=1), 1, rtol=1e-5)
    assert words.probabilities == pytest.approx(np.exp(words.log_probabilities).max(axis=1).tolist())


def test_a_text_longer_than_a_row_loses_no_word(model, capsys):
    text = "Ada Lace wrote from London . " * 20
    (answer,) = model.predict([text], max_seq_length=8)
    assert len(answer.tags) == 6 * 20
    assert text[answer.entities[-1].start : answer.entities[-1].end] == "London"
    assert found(answer)[-1][1] == text.rindex("London")
    assert "1 of 1 sentences are longer than 8 tokens and were cut between words" in capsys.readouterr().err
    (whole,) = model.predict([text])  # by default, all positions of the model
    assert len(whole.tags) == 6 * 20


def test_data_sets_arrays_and_numbers_of_tags_are_taken_too(model):
    expected = model.evaluate(SENTENCES, TAGS)
    numbers = [[LABELS.index(tag) for tag in tags] for tags in TAGS]
    assert model.evaluate([np.array(words) for words in SENTENCES], numbers) == expected
    pairs = tf.data.Dataset.from_generator(
        lambda: zip(SENTENCES, TAGS, strict=True),
        output_signature=(tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.string)),
    )
    assert model.evaluate(pairs) == expected
    assert model.evaluate(pairs.ragged_batch(3)) == expected


def test_every_scheme_is_brought_into_that_of_the_model(model):
    expected = model.evaluate(SENTENCES, TAGS)
    bioes = [["B-PER", "E-PER", "O", "O", "S-LOC"], ["S-PER", "O", "O", "B-PER", "E-PER"]]
    bioes += [["S-LOC", "O", "O", "S-LOC", "O", "S-PER"], ["O", "S-PER", "O", "O"]]
    assert model.evaluate(SENTENCES, bioes) == expected
    iob1 = [[tag.replace("B-", "I-") for tag in tags] for tags in TAGS]
    assert model.evaluate(SENTENCES, iob1) == expected


def test_illegal_sequences_are_read_as_conlleval_reads_them():
    task = TaggingTask(new_model())
    examples = task.examples([["Ada", "Lace", "wrote"]])
    example_rows = task.rows(examples)
    outputs = np.zeros((len(example_rows.rows.tokens["input_ids"]), len(LABELS)), np.float32)
    for token, tag in zip(example_rows.first_tokens, ["I-PER", "I-LOC", "I-LOC"], strict=True):
        outputs[token, LABELS.index(tag)] = 9
    (answer,) = task.answers(examples, example_rows, outputs)
    assert answer.tags == ["B-PER", "B-LOC", "I-LOC"]
    assert found(answer) == [("PER", 0, 1, "Ada"), ("LOC", 1, 3, "Lace wrote")]


def test_a_sentence_counts_with_its_weight(eagerly):
    """A weight of 0 leaves the sentence out, but for the count."""
    left_out, weighted = new_model(), new_model()
    for model in (left_out, weighted):
        model.compile(optimizer="sgd")
    weights = [sum(map(len, SENTENCES[:2])) / len(SENTENCES[0]), 0]
    one = left_out.fit(SENTENCES[:1], TAGS[:1], epochs=2, verbose=0).history["loss"]
    other = weighted.fit(SENTENCES[:2], TAGS[:2], epochs=2, verbose=0, sample_weight=weights).history["loss"]
    assert one == pytest.approx(other, rel=1e-5)


def test_tags_that_mark_no_entities_are_scored_by_accuracy():
    model = new_model(["VERB", "NOUN"])
    assert TaggingTask(model).main_score == "accuracy"
    scores = model.evaluate([["Ada", "wrote"]], [["NOUN", "VERB"]])
    assert list(scores) == ["accuracy", "loss"]
    (answer,) = model.predict(["Ada wrote"])
    assert answer.entities == ()
    assert set(answer.tags) <= {"VERB", "NOUN"}


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (["Ada wrote"], [["O", "O"]], "Sentence 1 must be a list of words, since tags belong to words"),
        ([["Ada"]], [["B-ORG"]], "the tag 'B-ORG' in the sentence at sentence 1 does not occur in training"),
        ([["Ada"]], [[7]], "A tag of sentence 1 must be a name or a number from 0 to 4. Received: 7"),
        ([["Ada"]], ["O"], "The tags of sentence 1 must be a list"),
        ([["Ada", "wrote"]], [["L-PER", "E-PER"]], "the tags are of several schemes"),
        ([["Ada", ""]], [["O", "O"]], r"its text is \['Ada', ''\]"),
        ([["Ada", 3]], None, "Text 1 must be a string or a list of words"),
        ({"text": ["Ada wrote"]}.values, None, "sentences must be a list. Received: <built-in method values"),
        (["Ada", "wrote \ud800"], None, "Sentence 2 has half a surrogate pair at character 6"),
        ([["Ada", "\ud800"]], None, "Sentence 1 has half a surrogate pair at character 0"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(x, y, message):
    with pytest.raises(InputError, match=message):
        new_model().fit(x, y)


IOB1_LABELS = ["O", "B-LOC", "I-LOC", "I-PER"]  # a corpus without two neighbouring persons
IOB1_TAGS = [[tag.replace("B-", "I-") for tag in tags] for tags in TAGS]


def know_the_sentences(model, tags):
    """Sets the last layer so that the model knows the tags of `SENTENCES` by heart; training takes longer."""
    task = TaggingTask(model)
    batch = task.rows(task.examples(SENTENCES, tags)).rows.batch(np.arange(len(SENTENCES)))
    is_labelled = batch["label_ids"] >= 0
    vectors = np.asarray(model.encoder(batch)["sequence_output"])[is_labelled]
    logits = 20 * np.eye(len(model.labels))[batch["label_ids"][is_labelled]]
    model.token_classifier.set_weights([np.linalg.pinv(vectors) @ logits, np.zeros(len(model.labels))])


@pytest.mark.parametrize(
    ("labels", "tags"),
    [
        (IOB1_LABELS, IOB1_TAGS),
        (IOB1_LABELS, TAGS),
        (["O", "LOC", "PER"], [[tag[2:] or "O" for tag in tags] for tags in TAGS]),
        (["O", "LOC", "PER"], TAGS),
        (["O", "PER-B", "PER-I", "LOC-B", "LOC-I"], TAGS),
        (["o", "b-PER", "i-PER", "b-LOC", "i-LOC"], [[tag.replace("-", "_") for tag in tags] for tags in TAGS]),
    ],
)
def test_labels_in_another_scheme_or_spelling_are_learnt_and_give_entities(labels, tags, tokenizer):
    model = new_model(labels)
    know_the_sentences(model, tags)
    scores = model.evaluate(SENTENCES, tags)
    assert (scores["f1"], scores["accuracy"]) == (1.0, 1.0)
    answers = model.predict(SENTENCES)
    assert [list(answer.tags) for answer in answers] == TAGS
    assert found(answers[1]) == [("PER", 0, 1, "Grace"), ("PER", 3, 5, "Ada Lace")]
    signatures = tagging_signatures(model, tokenizer, SignatureOptions(max_seq_length=40))
    served = signatures["serving_default"](tf.constant([" ".join(SENTENCES[1])]))
    assert served["entities"].numpy().tolist() == [[b"Grace", b"Ada Lace"]]


def test_neighbours_of_one_type_are_one_entity_for_a_tagger_that_cannot_tell_them_apart():
    model = new_model(IOB1_LABELS)
    neighbours = model.evaluate([["Ada", "Grace"]], [["I-PER", "B-PER"]], verbose=0)
    assert neighbours["loss"] == pytest.approx(model.evaluate([["Ada", "Grace"]], [["I-PER", "I-PER"]])["loss"])
    assert neighbours["recall"] < 1


@pytest.mark.parametrize("special", ["X", "[CLS]", "<pad>"])
def test_labels_that_no_word_has_are_never_answered(special, tokenizer):
    model = new_model([*LABELS, special])
    model.token_classifier.bias.assign([0, 0, 0, 0, 0, 1e6])
    answers = model.predict(SENTENCES)
    assert not {tag for answer in answers for tag in answer.tags} - set(LABELS)
    assert all(np.exp(answer.log_probabilities).sum(axis=1) == pytest.approx(1) for answer in answers)
    assert np.isfinite(model.evaluate(SENTENCES, TAGS)["loss"])
    assert np.isfinite(model.calibrate(SENTENCES * 2, TAGS * 2).temperature)
    signatures = tagging_signatures(model, tokenizer, SignatureOptions(max_seq_length=40))
    served = signatures["words"](tf.constant(SENTENCES[:1]), tf.constant([5]))
    assert not set(served["tags"].numpy().ravel().tolist()) - {label.encode() for label in LABELS}
