"""What the entries of families with rotary positions have in common."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from keras_bert.checkpoints.family_formats import HuggingFace
from keras_bert.encoders.rotary.config import COLUMNS, RotaryConfig
from keras_bert.encoders.rotary.keys import ROTARY_KEYS, bases_of, bases_to, without
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.registry import Family

# Fields of ours that only the files of some families have.
_OF_SOME = (
    *("global_attn_every_n_layers", "local_attention", "global_rope_theta", "local_rope_theta", "embedding_dropout"),
    *("mlp_dropout", "classifier_pooling", "attention_bias", "mlp_bias", "norm_bias", "classifier_bias"),
)


def rotary_family(module: str, defaults: Mapping[str, Any], hugging_face: HuggingFace, **more: Any) -> Family:
    """Returns the entry of a family whose layers are global and whose pooler is BERT's, if `defaults` say no other.

    Args:
        module: the module of the family, which has the function `weights`.
        defaults, hugging_face, more: arguments of `Family`.
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
    *,
    present: tuple[str, ...] = (),
    unread: tuple[str, ...] = (),
    used: tuple[str, ...] = ROTARY_KEYS,
    harmless: tuple[str, ...] = (),
    fixed: Mapping[str, Collection[Any]] | None = None,
    refused: Mapping[str, str] | None = None,
    keys: Mapping[str, str] | None = None,
    read: Callable[[Mapping[str, Any], str], Mapping[str, Any]] = bases_of,
    write: Callable = lambda values, checkpoint: without(values) | bases_to(checkpoint.config),
    **more: Any,
) -> HuggingFace:
    """Returns what files of transformers have of a family.

    Args:
        classes, prefix, keys, read, write, more: arguments of `HuggingFace`. By default all layers have one base.
        present: the fields of `RotaryConfig` that the `config.json` has.
        unread: the fields of all configs that mean nothing in it, besides those with another name there.
        used, harmless, fixed, refused: keys that it has besides, see `KnownKeys`.
    """
    unread = (*unread, *(keys or {}).values())
    return HuggingFace(
        classes=classes,
        prefix=prefix,
        keys=keys or {},
        more=KnownKeys(used=used, harmless=(*harmless, *unread), fixed=fixed or {}, refused=refused or {}),
        absent=(*unread, *(name for name in (*_OF_SOME, *COLUMNS) if name not in present)),
        read=read,
        write=write,
        **more,
    )


def joined_as_stored(*fields: str) -> Callable[[RotaryConfig, Collection[str]], RotaryConfig]:
    """Returns the function `HuggingFace.of_weights` of a family whose files have joined layers, and the classes of
    transformers separate ones.

    Args:
        *fields: the fields of the config that say so.
    """

    def of_weights(config: RotaryConfig, names: Collection[str]) -> RotaryConfig:
        is_joined = not any(".q_proj." in name for name in names)
        return config.replace(**dict.fromkeys(fields, is_joined))

    return of_weights
