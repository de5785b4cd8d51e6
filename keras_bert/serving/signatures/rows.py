"""What all signatures are made of: named inputs, and rows of tokens from texts or from ids.

`serving_default` takes text, of which the graph makes tokens. `tokens` takes ids, and the number of tokens in each row
instead of a mask: a server that pads a batch repeats the first number of a row, which makes ones of a padded mask. Both
call one function, so the encoder is in the graph once. Outputs are float32, int32 or strings; all have a name, and
their first axis is the batch.
"""

import dataclasses

import tensorflow as tf

from keras_bert import features
from keras_bert.tokenization.segments import pack_segments

# Ids, mask or segment numbers of a batch.
IDS = tf.TensorSpec([None, None], tf.int32)


@dataclasses.dataclass(frozen=True)
class SignatureOptions:
    """What a user chooses about an export.

    Attributes:
        max_seq_length: the most tokens of a row.
        text_pairs: whether a classifier takes two texts.
        top_k: how many tokens a masked-LM model proposes for each [MASK].
    """

    max_seq_length: int
    text_pairs: bool = False
    top_k: int = 5


def signature(**inputs):
    """Makes a graph of a function with the inputs name=(shape, dtype); each has its name on the wire too."""
    specs = [tf.TensorSpec(shape, dtype, name=name) for name, (shape, dtype) in inputs.items()]
    # Never compiled by XLA: stock servers have that switched off, and every request would fail.
    return tf.function(input_signature=specs, autograph=False, jit_compile=False)


def packer(vocabulary, max_seq_length: int):
    """Returns a function from ragged segments to ids, mask and segment numbers, int32 `[B, max_seq_length]`."""

    def pack(segments):
        packed = pack_segments(segments, max_seq_length, vocabulary)
        return packed[features.INPUT_IDS], packed[features.INPUT_MASK], packed[features.SEGMENT_IDS]

    return pack


def model_inputs(input_ids, input_mask, segment_ids) -> dict:
    return {features.INPUT_IDS: input_ids, features.INPUT_MASK: input_mask, features.SEGMENT_IDS: segment_ids}


def choose_rows(condition, if_true, if_false):
    """Returns, row by row, the tensors `[B, S]` of `if_true` or of `if_false`; `condition` is bool `[B]`."""
    return [tf.where(condition[:, tf.newaxis], one, other) for one, other in zip(if_true, if_false, strict=True)]


def trim(input_ids, input_mask, segment_ids):
    """Cuts off the columns that are padding in every row: a batch of short texts costs little.

    One column stays in a batch without rows, since there is no model of no tokens.
    """
    longest = tf.reduce_max(tf.concat([tf.reduce_sum(input_mask, axis=1), [1]], 0))
    return input_ids[:, :longest], input_mask[:, :longest], segment_ids[:, :longest]


def cut(input_ids, segment_ids, lengths, max_seq_length: int):
    """Returns ids, mask and segment numbers of rows of which the first `lengths` tokens count."""
    input_ids, segment_ids = input_ids[:, :max_seq_length], segment_ids[:, :max_seq_length]
    # What stands behind the length of a row is whatever the client or the server filled it with.
    input_mask = tf.sequence_mask(lengths, tf.shape(input_ids)[1], tf.int32)
    return input_ids * input_mask, input_mask, segment_ids * input_mask
