"""Signatures of serialised `tf.train.Example`: what pipelines of records and TensorFlow Serving's Classify send."""

import tensorflow as tf

from keras_bert.serving.signatures.signature_inputs import signature

# What an example may lack.
_OPTIONAL = {"text_b"}


def of_examples(of_texts, input_name: str = "examples", rename=lambda outputs: outputs):
    """Returns a signature of examples whose bytes features have the names of another signature's inputs.

    A second text that an example lacks is an empty one. Of an input `[B, C]` each example may have its own number of
    values; those that have fewer are filled up with empty ones.

    Args:
        of_texts: a signature whose inputs are strings `[B]` or `[B, C]`.
        input_name: the name on the wire of the examples, strings `[B]`.
        rename: outputs of `of_texts` -> outputs.
    """
    features = {spec.name: _feature(spec) for spec in of_texts.input_signature}

    @signature(**{input_name: ([None], tf.string)})
    def answer(serialized):
        return rename(of_texts(**tf.io.parse_example(serialized, features)))

    return answer


def _feature(spec: tf.TensorSpec):
    if spec.shape.rank == 1:
        return tf.io.FixedLenFeature([], tf.string, "" if spec.name in _OPTIONAL else None)
    return tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True, default_value="")
