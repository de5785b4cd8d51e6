"""Keys of the `config.json` of encoders with rotary positions that have another form than our fields.

Reference: transformers, `modeling_rope_utils.py` and `models/*/configuration_*.py` of the versions 4.48 to 5.24.
"""

import reprlib
from collections.abc import Mapping
from typing import Any

from keras_bert.encoders.rotary.config import GLOBAL, LOCAL, RotaryConfig
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import checked, member

# transformers 5 names the kinds of layers in lists; version 4, and files on the hub, have a number.
KINDS = {GLOBAL: "full_attention", LOCAL: "sliding_attention"}
ROTARY_KEYS = ("rope_parameters", "rope_scaling", "rope_theta")


def bases_of(values: Mapping[str, Any], file: str, kinds: tuple[str, ...] = (), scalings: tuple[str, ...] = ()) -> dict:
    """Returns a copy of the values with the bases of rotary positions, and the factor of their scaling, in our form.

    Args:
        values: the content of a `config.json`.
        file: its name.
        kinds: the kinds of layers that have bases of their own, `GLOBAL` and `LOCAL`; none: all have the same.
        scalings: the values of `rope_type` that are supported besides "default".

    Raises:
        InputError: positions are scaled in another way, or a value has the wrong type.
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


def bases_to(config: RotaryConfig) -> dict[str, Any]:
    """Returns the keys of the rotary positions of a family whose layers have the same base."""
    parameters: dict[str, Any] = {"rope_type": "default", "rope_theta": config.global_rope_theta}
    if config.rope_factor != 1:
        parameters |= {"rope_type": "ntk", "factor": config.rope_factor}
    return {"rope_parameters": parameters}


def without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Returns the values without these keys, nor those of other families that these have not."""
    return {name: value for name, value in values.items() if name not in ("position_embedding_type", *names)}


def period_of(kinds: list, num_layers: Any, file: str, first: bool) -> int:
    """Returns n if every n-th layer is global, the first or the last of n: [global, local, global, local] -> 2.

    Raises:
        InputError: the layers do not alternate regularly, or there is not one entry for each.
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
