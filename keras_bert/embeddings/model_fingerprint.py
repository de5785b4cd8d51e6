"""A hash of all that the vectors of a model depend on."""

import hashlib
import json

import numpy as np

from keras_bert.models.layer_settings import settings_of
from keras_bert.program.errors import InputError


def model_fingerprint(model) -> str:
    """Returns a SHA-256 of what sentence embeddings depend on: the encoder without its pooler, tokens and casing."""
    encoder = getattr(model, "encoder", model)
    knows_pooling = hasattr(model, "embedding_size")
    if model.vocabulary is None:
        raise InputError("The model has no vocabulary. Set model.vocabulary = load_vocabulary(path).")
    config = model.config
    facts = [config.num_attention_heads, config.hidden_act, config.layer_norm_eps, config.do_lower_case]
    if knows_pooling:
        facts += [list(model.pooling), model.sentence_head.get_config()["dense"], model.prompts, model.default_prompt]
    lora = settings_of(model if knows_pooling else encoder).get("lora")  # layer -> rank and scale
    facts += [lora] if lora else []
    digest = hashlib.sha256(json.dumps([*facts, model.vocabulary.sha256]).encode())
    pooler = {id(weight) for weight in encoder.pooler.weights} if hasattr(encoder, "pooler") else ()
    for weight in model.weights if knows_pooling else encoder.weights:
        if id(weight) not in pooler:
            array = np.ascontiguousarray(np.asarray(weight, np.float32))
            digest.update(repr(array.shape).encode())
            digest.update(array.data)
    return digest.hexdigest()
