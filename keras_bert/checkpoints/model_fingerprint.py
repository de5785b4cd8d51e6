"""A hash of all that the vectors of a model depend on."""

import functools
import hashlib
import json
import os
import weakref
from collections.abc import Callable

import numpy as np

from keras_bert.program.errors import InputError

# Model -> its facts, the sums of its weights, and the fingerprint that was computed from them.
_KNOWN: "weakref.WeakKeyDictionary[object, tuple[str, bytes, str]]" = weakref.WeakKeyDictionary()


def model_fingerprint(model, *, of_answers: bool = False) -> str:
    """Returns a SHA-256 of what sentence embeddings depend on: the encoder without its pooler, tokens and casing.

    The hash of MiniLM's weights takes longer than the vector of a query. So a known model is hashed again only if the
    sum of the bits of a weight has changed. A loaded export has the fingerprint of the model that was exported.

    Args:
        of_answers: hashes heads and labels too, of models other than sentence encoders; and the files of exports that
            do not have their fingerprint.

    Raises:
        InputError: the model has no vocabulary, or is an export that does not have its fingerprint.
    """
    if getattr(model, "fingerprint", None):
        return model.fingerprint
    if hasattr(model, "fingerprint") and not of_answers:
        raise InputError(
            "This export does not say which model it is, which an index must know. Export the model again, with this "
            "version and --format=litert or onnx."
        )
    if hasattr(model, "engine"):
        return _hash_of_files(model.path)
    import keras  # only now: loaded exports do without it

    if model.tokenizer is None:
        raise InputError("The model has no vocabulary. Set model.vocabulary = load_vocabulary(path).")
    is_whole = of_answers and not hasattr(model, "embedding_size")
    facts, weights = (_all_facts(model), model.weights) if is_whole else (_facts(model), _weights(model))
    sums = b""
    if keras.backend.backend() == "tensorflow":
        sums = _summing()([weight.value.read_value() for weight in weights]).numpy().tobytes()
    known = _KNOWN.get(model)
    if sums and known is not None and known[:2] == (facts, sums):
        return known[2]
    digest = hashlib.sha256(facts.encode())
    for weight in weights:
        array = np.ascontiguousarray(np.asarray(weight, np.float32))
        digest.update(repr(array.shape).encode())
        digest.update(array.data)
    _KNOWN[model] = facts, sums, digest.hexdigest()
    return digest.hexdigest()


def _hash_of_files(folder: str) -> str:
    digest = hashlib.sha256()
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            with open(os.path.join(parent, name), "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _all_facts(model) -> str:
    from keras_bert.checkpoints.model_folder import constructor_arguments

    facts = [model.kind, model.config.to_dict(), constructor_arguments(model), model.tokenizer.sha256]
    return json.dumps(facts, default=str)


def _facts(model) -> str:
    from keras_bert.models.layer_settings import settings_of

    config = model.config
    facts = [config.num_attention_heads, config.hidden_act, config.layer_norm_eps, model.tokenizer.do_lower_case]
    if hasattr(model, "embedding_size"):
        facts += [list(model.pooling), model.sentence_head.get_config()["dense"], model.prompts, model.default_prompt]
    lora = settings_of(_computed(model)).get("lora")  # layer -> rank and scale
    facts += [lora] if lora else []
    return json.dumps([*facts, model.tokenizer.sha256])


def _weights(model) -> list:
    encoder = getattr(model, "encoder", model)
    pooler = {id(weight) for weight in encoder.pooler.weights} if hasattr(encoder, "pooler") else ()
    return [weight for weight in _computed(model).weights if id(weight) not in pooler]


def _computed(model):
    """Returns what computes the vectors: a model that knows its pooling, or else its encoder."""
    return model if hasattr(model, "embedding_size") else getattr(model, "encoder", model)


@functools.cache
def _summing() -> Callable:
    """Returns a function to the sum of the bits of each weight. A change of one number always changes it."""
    import tensorflow as tf

    integers = {1: tf.int8, 2: tf.int16, 4: tf.int32, 8: tf.int64}

    @tf.function(reduce_retracing=True)
    def sums(tensors):
        bits = [tf.bitcast(tensor, integers[tensor.dtype.size]) for tensor in tensors]
        return tf.stack([tf.cast(tf.reduce_sum(one), tf.int64) for one in bits])  # sums may overflow

    return sums
