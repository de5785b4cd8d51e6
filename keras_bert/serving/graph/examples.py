"""Signatures for serialised `tf.train.Example`s, which record pipelines and TensorFlow Serving's Classify send."""

import tensorflow as tf

from keras_bert.serving.graph.signature_inputs import signature

# The feature that an example may lack.
_OPTIONAL = {"text_b"}


def of_examples(of_texts, input_name: str = "examples", rename=lambda outputs: outputs):
    """Returns a signature that takes examples, whose bytes features are named as the inputs of another signature.

    A missing second text counts as empty. For an input `[B, C]`, examples may have different numbers of values; missing
    values are filled with "".

    Args:
        of_texts: a signature whose inputs are strings `[B]` or `[B, C]`.
        input_name: the name of the input, the examples, strings `[B]`.
        rename: function from the outputs of `of_texts` to the outputs of the signature.
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
