"""The parts of the exported graphs, on tiny tensors."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tiny
import tiny_checkpoints
from slow_parameters import slow_except

from keras_bert import InputError, MultipleChoice, SequenceClassifier, SpanClassifier, TokenClassifier
from keras_bert.config import BertConfig
from keras_bert.config.signature_options import SignatureOptions
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.serving.export import all_signatures, make_tokenizer
from keras_bert.serving.portable.checked_engine import CheckedEngine
from keras_bert.tasks.classification.signatures import classifier_signatures
from keras_bert.tasks.masked_lm.signatures import mask_positions, tokenize_with_masks
from keras_bert.tokenization.graph_wordpiece import GraphTokenizer

VOCABULARY = tiny.vocabulary("the fox ##es [ ] mask")


def width_teller(max_length):
    """A stand-in for a classifier whose label is the number of columns that it was called with."""

    def call(inputs, training):
        assert training is False
        width = tf.one_hot(tf.shape(inputs["input_ids"])[1], max_length + 1)
        return tf.tile(width[tf.newaxis], [tf.shape(inputs["input_ids"])[0], 1])

    class Model:
        vocabulary = VOCABULARY
        problem_type = "classification"
        doc_stride = thresholds = None
        config = BertConfig.from_size("tiny", vocab_size=len(VOCABULARY))
        labels = [str(number) for number in range(max_length + 1)]
        __call__ = staticmethod(call)

    return Model()


@functools.cache
def serving_default(max_length, is_pair):
    options = SignatureOptions(max_length, is_pair)
    return classifier_signatures(width_teller(16), GraphTokenizer(VOCABULARY), options)["serving_default"]


@pytest.mark.parametrize(
    ("max_length", "texts", "width"),
    [
        (16, [["the fox", "the", ""]], b"4"),
        (16, [["the " * 50]], b"16"),
        (5, [["the " * 50]], b"5"),
        (16, [["the fox"], [""]], b"4"),
        (16, [["the fox", "the"], ["", "the foxes"]], b"7"),
    ],
)
def test_a_batch_is_padded_to_its_longest_text_only_and_cut_to_the_maximum(max_length, texts, width):
    answers = serving_default(max_length, len(texts) == 2)(*texts)
    assert answers["label"].numpy().tolist() == [width] * len(texts[0])


def values_of(spec, num_rows):
    shape = [num_rows, *[2] * (len(spec.shape) - 1)]
    return tf.fill(shape, "the fox") if spec.dtype == tf.string else tf.ones(shape, spec.dtype)


KINDS = [SequenceClassifier, TokenClassifier, SpanClassifier, MultipleChoice, BertEncoder]


@pytest.mark.parametrize("kind", slow_except([BertEncoder], KINDS))
def test_no_signature_repeats_a_single_row_for_all_rows_of_another_input(kind):
    options = {"text_pairs": True} if kind in (SequenceClassifier, BertEncoder) else {}
    labels = {"labels": ["O", "B-PER", "I-PER"]} if kind in (SequenceClassifier, TokenClassifier) else {}
    model = kind(tiny_checkpoints.CONFIG, **labels)
    model.vocabulary = tiny_checkpoints.VOCABULARY
    tokenizer = make_tokenizer(model.tokenizer)
    signatures = all_signatures(model, tokenizer, SignatureOptions(max_seq_length=8, **options))
    checked = 0
    for function in signatures.values():
        specs = function.input_signature
        for single in range(len(specs) if len(specs) > 1 else 0):
            values = [values_of(spec, 1 if number == single else 2) for number, spec in enumerate(specs)]
            with pytest.raises(tf.errors.InvalidArgumentError, match="must have equally many rows"):
                function(*values)
            checked += 1
    assert checked >= 4 or kind is TokenClassifier


def test_features_with_unequal_rows_are_refused_in_python_and_in_portable_exports():
    rows = {name: np.ones((2, 4), np.int32) for name in ("input_ids", "input_mask", "segment_ids")}
    model = SequenceClassifier(tiny_checkpoints.CONFIG, labels=["a", "b"])
    for name in rows:
        wrong = {**rows, name: rows[name][:1]}
        with pytest.raises(InputError, match=f"equally many rows. Received: .*1 of {name}"):
            model(wrong)

    class Engine:
        feature_names = ("input_ids", "masked_lm_positions")

    wrong = {"input_ids": rows["input_ids"], "masked_lm_positions": np.zeros((1, 3), np.int32)}
    with pytest.raises(InputError, match="arrays of one shape"):
        CheckedEngine(Engine(), tiny_checkpoints.CONFIG).run(wrong)


def test_every_literal_mask_becomes_one_token():
    tokenizer = GraphTokenizer(VOCABULARY)
    texts = ["the [MASK] fox", "[MASK][MASK]es", "the[MASK]", "[mask]", "", "[MASK", "[[MASK]]"]
    ids = tokenize_with_masks(tokenizer, tf.constant(texts)).to_list()
    assert ids == [[5, 4, 6], [4, 4, 1], [5, 4], [8, 10, 9], [], [8, 10], [8, 4, 9]]
    assert tokenize_with_masks(tokenizer, tf.constant([], tf.string)).to_list() == []


def test_mask_positions_are_found_row_by_row():
    ids = tf.constant([[2, 9, 5, 9, 3], [2, 9, 3, 9, 9], [2, 3, 0, 0, 0]])
    lengths = tf.constant([5, 3, 2])
    positions = mask_positions(ids, tf.sequence_mask(lengths, 5, tf.int32), 9)
    assert positions.numpy().tolist() == [[1, 3], [1, -1], [-1, -1]]
