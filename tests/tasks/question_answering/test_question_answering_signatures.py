"""An exported question answering model answers like `predict`, with offsets in bytes instead of characters."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from keras_bert.program.errors import InputError
from keras_bert.serving.graph import row_groups
from keras_bert.serving.graph.signature_options import SignatureOptions
from keras_bert.tasks.question_answering.model import SpanClassifier
from keras_bert.tasks.question_answering.signatures import question_answering_signatures
from keras_bert.tokenization.kinds import graph_tokenizer
from keras_bert.tokenization.vocabulary import Vocabulary

PIECES = [piece for letter in "abcdefghijklmnopqrstuvwxyzABé" for piece in (letter, f"##{letter}")]
VOCABULARY = tiny.vocabulary("? . the", *PIECES)
LENGTH = 48


def new_model(vocabulary=VOCABULARY, **arguments):
    config = tiny.config(
        vocabulary, intermediate_size=16, max_position_embeddings=LENGTH, initializer_range=0.5, do_lower_case=False
    )
    keras.utils.set_random_seed(5)
    model = SpanClassifier(config, doc_stride=16, max_query_length=12, **arguments)
    model.vocabulary = vocabulary
    return model


def new_server(model):
    """The signatures of a model."""
    return question_answering_signatures(
        model, graph_tokenizer(model.vocabulary, model.config.do_lower_case), SignatureOptions(LENGTH)
    )


def column(texts):
    return tf.constant([text.encode() for text in texts], tf.string, shape=[len(texts)])


def assert_as_predicted(outputs, contexts, answers):
    for number, (context, answer) in enumerate(zip(contexts, answers, strict=True)):
        row = {name: values[number] for name, values in outputs.items()}

        def place(characters, context=context):
            return -1 if characters is None else len(context[:characters].encode())

        kept = len(answer.nbest)
        assert row["answer"].decode() == answer.text
        assert (row["start"], row["end"]) == (place(answer.start), place(answer.end))
        assert row["probability"] == pytest.approx(answer.probability, abs=1e-5)
        assert [text.decode() for text in row["answers"][:kept]] == [best.text for best in answer.nbest]
        assert list(row["starts"][:kept]) == [place(best.start) for best in answer.nbest]
        assert list(row["ends"][:kept]) == [place(best.end) for best in answer.nbest]
        assert list(row["is_null"][:kept]) == [best.text == "" for best in answer.nbest]
        np.testing.assert_allclose(row["probabilities"][:kept], [best.probability for best in answer.nbest], atol=1e-5)
        assert not any(row["answers"][kept:])
        assert not any(row["probabilities"][kept:])
        if answer.null_score_difference is None:
            assert "null_score_difference" not in row
        else:
            assert row["null_score_difference"] == pytest.approx(answer.null_score_difference, abs=1e-5)


def squad(shared_data, step):
    articles = json.loads(shared_data("squad/dev-v2.0.json").read_text("utf-8"))["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"][::step]]
    return [(paragraph["qas"][0]["question"], paragraph["context"]) for paragraph in paragraphs]


def with_threshold_in_the_middle(model, questions, contexts):
    """Sets the threshold of a model so that half of the questions have no answer; returns it and its answers."""
    answers = model.predict((questions, contexts), null_threshold=0.0)
    differences = sorted(answer.null_score_difference for answer in answers)
    middle = len(differences) // 2
    model.null_threshold = (differences[middle - 1] + differences[middle]) / 2
    return model, [answer.with_threshold(model.null_threshold) for answer in answers]


@pytest.mark.slow
def test_answers_to_squad_are_those_of_predict(shared_data):
    vocabulary = Vocabulary.from_file(shared_data("vocab/bert-base-cased-vocab.txt"))
    questions, contexts = map(list, zip(*squad(shared_data, 24), strict=True))
    contexts[1] *= 12
    model, answers = with_threshold_in_the_middle(new_model(vocabulary), questions, contexts)
    assert {answer.has_answer for answer in answers} == {True, False}
    server = new_server(model)["serving_default"]
    for first in range(0, len(questions), 32):
        part = slice(first, first + 32)
        outputs = server(column(questions[part]), column(contexts[part]))
        outputs = {name: values.numpy() for name, values in outputs.items()}
        assert_as_predicted(outputs, contexts[part], answers[part])


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
    questions = ["the a b?", "the " * 40, "é?", "x", "\x01", "\u200b \x00"]
    contexts = ["the fé. " * 60, "a b. c d", "the", "\x00", "the fé", "a b. c d"]
    for its_server, its_model in ((server, model), (careful_server, careful_model)):
        answers = its_model.predict((questions, contexts))
        assert {answer.has_answer for answer in answers} == {True, False}
        assert not any(answer.has_answer for answer in answers[-2:])
        outputs = its_server["serving_default"](column(questions), column(contexts))
        assert_as_predicted({name: values.numpy() for name, values in outputs.items()}, contexts, answers)


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


def test_a_batch_is_answered_as_each_question_alone(server):
    questions, contexts = ["the a?", "b"], ["the fox jumps. " * 20, "é a"]
    together = server["serving_default"](column(questions), column(contexts))
    for number in range(2):
        alone = server["serving_default"](column(questions[number:][:1]), column(contexts[number:][:1]))
        for name, values in alone.items():
            row = together[name][number]
            if values.shape.rank == 2:
                row = row[: values.shape[1]]
            if values.dtype.is_floating:
                np.testing.assert_allclose(row, values[0], atol=1e-6)
            else:
                np.testing.assert_array_equal(row, values[0])


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
    tokenizer = graph_tokenizer(model.vocabulary, model.config.do_lower_case)
    with pytest.raises(InputError, match="max_seq_length must be a whole number of at least 5. Received: 4"):
        question_answering_signatures(model, tokenizer, SignatureOptions(4))
    question_answering_signatures(model, tokenizer, SignatureOptions(5))
