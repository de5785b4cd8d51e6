"""What the entries of families with rotary positions have in common: their files in transformers.

Reference: transformers, `modeling_rope_utils.py` and `models/*/configuration_*.py` of the versions 4.48 to 5.24.
"""

import dataclasses
import reprlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.checkpoints.family_formats import HuggingFace
from keras_bert.encoders.rotary.config import COLUMNS, GLOBAL, LOCAL, RotaryConfig
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import checked, member
from keras_bert.registry import Family

# The kinds of layers in the lists of transformers 5. Version 4, and files on the hub, have a number instead.
KINDS = {GLOBAL: "full_attention", LOCAL: "sliding_attention"}
ROTARY_KEYS = ("rope_parameters", "rope_scaling", "rope_theta")
# Fields of ModernBERT's config that the files of some other families have too.
_FIELDS_OF_SOME = (
    *("global_attn_every_n_layers", "local_attention", "global_rope_theta", "local_rope_theta", "embedding_dropout"),
    *("mlp_dropout", "classifier_pooling", "attention_bias", "mlp_bias", "norm_bias", "classifier_bias"),
)


def rotary_family(module: str, defaults: Mapping[str, Any], hugging_face: HuggingFace, **more: Any) -> Family:
    """Returns the entry of a family whose layers are global and whose pooler is BERT's, if `defaults` say no other.

    The module has the function `weights`; the other arguments are those of `Family`.
    """
    return Family(
        defaults={"head_pooler": False, "global_attn_every_n_layers": 1, **defaults},
        config="keras_bert.encoders.rotary.config.RotaryConfig",
        encoder="keras_bert.encoders.rotary.encoder.RotaryEncoder",
        onnx="keras_bert.encoders.rotary.onnx.OnnxRotaryEncoder",
        weights=f"{module}.weights",
        hugging_face=hugging_face,
        **more,
    )


def rotary_files(
    classes: str,
    prefix: str,
    more: KnownKeys,
    *,
    keys: Mapping[str, str] | None = None,
    fields: tuple[str, ...] = (),
    meaningless: tuple[str, ...] = (),
    **arguments: Any,
) -> HuggingFace:
    """Returns what files of transformers have of a family. By default, all layers have the same rotary positions.

    Args:
        classes, prefix, more, keys: see `HuggingFace`.
        fields: the fields of `RotaryConfig` that the `config.json` of the family has, besides those of `BertConfig`.
        meaningless: fields of `BertConfig` that mean nothing in this file, so they are neither used nor written. The
            same holds for fields with another name there.
        **arguments: further arguments of `HuggingFace`.
    """
    keys = keys or {}
    meaningless = (*meaningless, *keys.values())
    return HuggingFace(
        classes=classes,
        prefix=prefix,
        keys=keys,
        more=dataclasses.replace(more, harmless=(*more.harmless, *meaningless)),
        absent=(*meaningless, *(name for name in (*_FIELDS_OF_SOME, *COLUMNS) if name not in fields)),
        **{"read": read_bases, "write": _with_bases, **arguments},
    )


def _with_bases(values: Mapping[str, Any], checkpoint: BertCheckpoint) -> dict[str, Any]:
    return without_keys(values) | bases_of_config(checkpoint.config)


def read_bases(
    values: Mapping[str, Any], file: str, kinds: tuple[str, ...] = (), scalings: tuple[str, ...] = ()
) -> dict:
    """Returns the values of a `config.json` with the bases of rotary positions, and their scaling, in our form.

    Args:
        kinds: the kinds of layers that have bases of their own, `GLOBAL` and `LOCAL`; none: all have the same.
        scalings: the values of `rope_type` that are supported besides "default"; others raise `InputError`.
    """
    values = dict(values)
    rotary = member(values, "rope_parameters", dict, file, {})
    if set(rotary) & set(KINDS.values()):
        KnownKeys(used=KINDS.values()).check(rotary, f"{file}: rope_parameters")
        parts = {kind: rotary.get(KINDS[kind]) or {} for kind in kinds}
    else:
        scaling = member(values, "rope_scaling", dict, file, {})
        given = {name: values[name] for name in ("rope_theta",) if values.get(name) is not None}
        parts = dict.fromkeys(kinds or (GLOBAL,), {**given, **scaling, **rotary})
    for name in ROTARY_KEYS:
        values.pop(name, None)
    for kind, parameters in parts.items():
        where = f"{file}: rotary positions of {KINDS[kind]}"
        checked(parameters, dict, "rope_parameters", file)
        rope_type = parameters.get("rope_type") or parameters.get("type") or "default"
        if rope_type not in ("default", *scalings):
            supported = " or ".join(map(repr, ("default", *scalings)))
            raise InputError(
                f"{file}: rotary positions are scaled: {reprlib.repr(parameters)}. Only rope_type {supported} is "
                "supported."
            )
        factor = () if rope_type == "default" else ("factor",)
        KnownKeys(used=("rope_type", "type", "rope_theta", *factor)).check(parameters, where)
        if "rope_theta" in parameters:
            values[f"{kind}_rope_theta"] = parameters["rope_theta"]
        if factor:
            values["rope_factor"] = parameters.get("factor", 1.0)
    return values


def bases_of_config(config: RotaryConfig) -> dict[str, Any]:
    """Returns the keys of the rotary positions of a family whose layers have the same base."""
    parameters: dict[str, Any] = {"rope_type": "default", "rope_theta": config.global_rope_theta}
    if config.rope_factor != 1:
        parameters |= {"rope_type": "ntk", "factor": config.rope_factor}
    return {"rope_parameters": parameters}


def without_keys(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Returns the values of a `config.json` without `names`, and without the table of positions of other families."""
    return {name: value for name, value in values.items() if name not in ("position_embedding_type", *names)}


def global_period(kinds: list, num_layers: Any, file: str, first: bool) -> int:
    """Returns n if every n-th layer is global, the first or the last of n: [global, local, global, local] -> 2.

    Otherwise it raises `InputError`.
    """
    if num_layers is not None and len(kinds) != num_layers:
        raise InputError(
            f"{file}: layer_types has {len(kinds)} entries for num_hidden_layers={reprlib.repr(num_layers)}. Give one "
            "for each layer."
        )
    start = 0 if first else 1
    periods = [number for number, kind in enumerate(kinds, start) if number and kind == KINDS[GLOBAL]]
    period = periods[0] if periods else len(kinds) + 1
    if kinds != [KINDS[LOCAL if number % period else GLOBAL] for number in range(start, start + len(kinds))]:
        which = "every n-th, the first included," if first else "every n-th"
        raise InputError(
            f"{file}: layer_types is {reprlib.repr(kinds)}. Only layers where {which} is full_attention and the others "
            "are sliding_attention are supported."
        )
    return period


def joined_as_stored(*fields: str) -> Callable[[RotaryConfig, Collection[str]], RotaryConfig]:
    """Returns a function `HuggingFace.of_weights` for a family whose published files have joined layers, while the
    classes of transformers have separate ones. It sets fields, such as `joined_attention`, as the weights' names show.
    """

    def of_weights(config: RotaryConfig, names: Collection[str]) -> RotaryConfig:
        is_joined = not any(".q_proj." in name for name in names)
        return config.replace(**dict.fromkeys(fields, is_joined))

    return of_weights
