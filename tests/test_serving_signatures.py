"""The parts of the exported graphs, on tiny tensors."""

import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.serving.signatures.classification import classifier_signatures
from keras_bert.serving.signatures.masked_text import mask_positions, tokenize_with_masks
from keras_bert.serving.signatures.signature_inputs import SignatureOptions
from keras_bert.tokenization.graph_wordpiece import GraphTokenizer
from keras_bert.tokenization.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "fox", "##es", "[", "]", "mask"])


def width_teller(max_length):
    """A stand-in for a classifier whose label is the number of columns that it was called with."""

    def call(inputs, training):
        assert training is False
        width = tf.one_hot(tf.shape(inputs["input_ids"])[1], max_length + 1)
        return tf.tile(width[tf.newaxis], [tf.shape(inputs["input_ids"])[0], 1])

    class Model:
        vocabulary = VOCABULARY
        problem_type = "classification"
        doc_stride = None
        config = BertConfig.from_size("tiny", vocab_size=len(VOCABULARY))
        labels = [str(number) for number in range(max_length + 1)]
        __call__ = staticmethod(call)

    return Model()


def test_a_batch_is_padded_to_its_longest_text_only_and_cut_to_the_maximum():
    tokenizer = GraphTokenizer(VOCABULARY)
    single = classifier_signatures(width_teller(16), tokenizer, SignatureOptions(16, False))["serving_default"]
    assert single(["the fox", "the", ""])["label"].numpy().tolist() == [b"4"] * 3
    assert single(["the " * 50])["label"].numpy().tolist() == [b"16"]
    shorter = classifier_signatures(width_teller(16), tokenizer, SignatureOptions(5, False))["serving_default"]
    assert shorter(["the " * 50])["label"].numpy().tolist() == [b"5"]
    pairs = classifier_signatures(width_teller(16), tokenizer, SignatureOptions(16, True))["serving_default"]
    assert pairs(["the fox"], [""])["label"].numpy().tolist() == [b"4"]
    assert pairs(["the fox", "the"], ["", "the foxes"])["label"].numpy().tolist() == [b"7"] * 2


def test_every_literal_mask_becomes_one_token():
    tokenizer = GraphTokenizer(VOCABULARY)
    texts = ["the [MASK] fox", "[MASK][MASK]es", "the[MASK]", "[mask]", "", "[MASK", "[[MASK]]"]
    assert tokenize_with_masks(tokenizer, tf.constant(texts)).to_list() == [
        [5, 4, 6],
        [4, 4, 1],
        [5, 4],
        [8, 10, 9],
        [],
        [8, 10],
        [8, 4, 9],
    ]
    assert tokenize_with_masks(tokenizer, tf.constant([], tf.string)).to_list() == []


def test_mask_positions_are_found_row_by_row():
    ids = tf.constant([[2, 9, 5, 9, 3], [2, 9, 3, 9, 9], [2, 3, 0, 0, 0]])
    lengths = tf.constant([5, 3, 2])
    positions = mask_positions(ids, tf.sequence_mask(lengths, 5, tf.int32), 9)
    assert positions.numpy().tolist() == [[1, 3], [1, -1], [-1, -1]]
