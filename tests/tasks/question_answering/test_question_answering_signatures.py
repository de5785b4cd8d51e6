"""An exported question answering model answers like `predict`, with offsets in bytes instead of characters."""

import numpy as np
import pytest
import tensorflow as tf
import tiny
from span_answers import assert_served_answers

from keras_bert import InputError, SpanClassifier
from keras_bert.config.signature_options import SignatureOptions
from keras_bert.serving.graph import row_groups
from keras_bert.tasks.question_answering.signatures import question_answering_signatures

PIECES = [piece for letter in "abcdefghijklmnopqrstuvwxyzABé" for piece in (letter, f"##{letter}")]
VOCABULARY = tiny.vocabulary("? . the", *PIECES)
LENGTH = 48


CONFIG = tiny.config(
    VOCABULARY, intermediate_size=16, max_position_embeddings=LENGTH, initializer_range=0.5, do_lower_case=False
)


def new_model(**arguments):
    return tiny.made(SpanClassifier, CONFIG, VOCABULARY, seed=5, doc_stride=16, max_query_length=12, **arguments)


def new_server(model):
    """The signatures of a model."""
    return question_answering_signatures(model, model.tokenizer.graph(), SignatureOptions(LENGTH))


def column(texts):
    return tf.constant([text.encode() for text in texts], tf.string, shape=[len(texts)])


@pytest.fixture(scope="module")
def model():
    return new_model()


@pytest.fixture(scope="module")
def server(model):
    return new_server(model)


@pytest.fixture(scope="module")
def careful_model():
    """A model that may give no answer."""
    return new_model(null_threshold=9.0)


@pytest.fixture(scope="module")
def careful_server(careful_model):
    """Its signatures; one window after the other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_groups, "TOKENS_AT_ONCE", 1)
        server = new_server(careful_model)
        server["serving_default"].get_concrete_function()
    return server


def test_answers_to_any_texts_are_those_of_predict(server, model, careful_server, careful_model):
    # The last two have no token.
    questions = ["the a b?", "the " * 20, "é?", "x", "\x01", "\u200b \x00"]
    contexts = ["the fé. " * 25, "a b. c d", "the", "\x00", "the fé", "a b. c d"]
    for its_server, its_model in ((server, model), (careful_server, careful_model)):
        answers = its_model.predict((questions, contexts))
        assert {answer.has_answer for answer in answers} == {True, False}
        assert not any(answer.has_answer for answer in answers[-2:])
        outputs = its_server["serving_default"](column(questions), column(contexts))
        assert_served_answers({name: values.numpy() for name, values in outputs.items()}, contexts, answers)


def test_without_a_question_or_a_context_there_is_no_answer(server, careful_server):
    for signatures in (server, careful_server):
        answer = signatures["serving_default"]
        outputs = answer(tf.constant(["", " \n", "the?", "the?"]), tf.constant(["the a", "the a", "", "the a"]))
        assert outputs["answer"].numpy().tolist()[:3] == [b""] * 3
        assert outputs["start"].numpy().tolist()[:3] == outputs["end"].numpy().tolist()[:3] == [-1] * 3
        assert outputs["probability"].numpy().tolist()[:3] == [1.0] * 3
        assert any(outputs["answers"].numpy()[3])
        outputs = answer(column([]), column([]))
        assert outputs["answer"].shape == outputs["probability"].shape == (0,)
        assert outputs["answers"].shape[0] == 0


def test_bytes_that_are_no_utf_8_are_in_no_answer(server):
    outputs = server["serving_default"](tf.constant([b"\xffthe?"]), tf.constant([b"\xc3the\xff f\xf0 \xff"]))
    texts = [text.decode() for text in outputs["answers"].numpy()[0]]
    assert {"the", "the f"} < set(texts)


def test_tokens_have_the_logits_of_the_model_however_the_server_fills_them_up(server, model):
    ids = np.array([[2, 8, 3, 9, 10, 3], [2, 8, 3, 9, 3, 2]], np.int32)
    segments = np.array([[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0]], np.int32)
    outputs = server["tokens"](tf.constant(ids), tf.constant(segments), tf.constant([6, 5]))
    for number, length in enumerate([6, 5]):
        row = {"input_ids": ids[number : number + 1, :length], "segment_ids": segments[number : number + 1, :length]}
        expected = model({**row, "input_mask": np.ones_like(row["input_ids"])})
        for name in ("start_logits", "end_logits"):
            np.testing.assert_allclose(outputs[name][number, :length], expected[name][0], atol=1e-5)
            assert (outputs[name][number, length:].numpy() < -1e4).all()


def test_an_export_needs_room_for_a_question_and_a_context(model):
    tokenizer = model.tokenizer.graph()
    with pytest.raises(InputError, match="max_seq_length must be a whole number of at least 5. Received: 4"):
        question_answering_signatures(model, tokenizer, SignatureOptions(4))
    question_answering_signatures(model, tokenizer, SignatureOptions(5))
