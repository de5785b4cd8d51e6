"""The keys of ModernBERT's `config.json` that have another form than our fields.

Reference: transformers, `models/modernbert/configuration_modernbert.py`, of versions 4.48 and 5.23.
"""

import reprlib
from collections.abc import Mapping

from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import checked, member

# transformers 5 names the kinds of layers in lists; version 4, and files on the hub, have the keys that we have too.
_KINDS = {"global": "full_attention", "local": "sliding_attention"}
# Keys of the other families that it has not.
_NOT_THEIRS = ("position_embedding_type", "use_cache", "classifier_dropout")


def of_theirs(values: Mapping, file: str) -> dict:
    """Returns the values with layers and rotary positions in the form of `ModernBertConfig`.

    Raises:
        InputError: the layers do not alternate regularly, or positions are scaled.
    """
    values = dict(values)
    kinds = member(values, "layer_types", list, file)
    if kinds is not None:
        values["global_attn_every_n_layers"] = _period(kinds, values.get("num_hidden_layers"), file)
    rotary = member(values, "rope_parameters", dict, file, {})
    KnownKeys(used=_KINDS.values()).check(rotary, f"{file}: rope_parameters")
    for kind, theirs in _KINDS.items():
        parameters = checked(rotary.get(theirs) or {}, dict, f"rope_parameters of {theirs}", file)
        if parameters.get("rope_type", "default") != "default" or values.get("rope_scaling"):
            received = parameters if parameters else values.get("rope_scaling")
            raise InputError(
                f"{file}: rotary positions are scaled: {reprlib.repr(received)}. Only rope_type 'default' is supported."
            )
        KnownKeys(used=("rope_type", "rope_theta"), harmless=("type",)).check(parameters, f"{file}: {theirs}")
        if "rope_theta" in parameters:
            values[f"{kind}_rope_theta"] = parameters["rope_theta"]
    if "local_rope_theta" in values and values["local_rope_theta"] is None:  # as in version 4
        values["local_rope_theta"] = values.get("global_rope_theta")
    return values


def to_theirs(values: Mapping, checkpoint: BertCheckpoint) -> dict:
    """Returns the values with the keys that transformers needs in addition, and without those that it has not."""
    kept = {name: value for name, value in values.items() if name not in _NOT_THEIRS}
    kept["decoder_bias"] = True
    vocabulary = checkpoint.vocabulary
    if vocabulary is not None:
        first, last = vocabulary.cls_id, vocabulary.sep_id
        kept |= {"cls_token_id": first, "bos_token_id": first, "sep_token_id": last, "eos_token_id": last}
    return kept


def _period(kinds: list, num_layers, file: str) -> int:
    """Returns n if every n-th layer, the first included, is global: [global, local, local, global] -> 3."""
    if num_layers is not None and len(kinds) != num_layers:
        raise InputError(
            f"{file}: layer_types has {len(kinds)} entries for num_hidden_layers={reprlib.repr(num_layers)}. Give one "
            "for each layer."
        )
    is_global = [kind == _KINDS["global"] for kind in kinds]
    period = is_global.index(True, 1) if True in is_global[1:] else max(len(kinds), 1)
    expected = [_KINDS["local" if number % period else "global"] for number in range(len(kinds))]
    if kinds != expected:
        raise InputError(
            f"{file}: layer_types is {reprlib.repr(kinds)}. Only layers where every n-th, the first included, is "
            "full_attention and the others are sliding_attention are supported."
        )
    return period
