"""DeBERTa's config and the names of its masked-LM heads in Hugging Face folders."""

from collections.abc import Collection, Mapping

from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.checkpoints.weight_list import CLS_PREDICTIONS
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member, strings

# Microsoft's names, whose decoder is always tied. transformers has both heads; `legacy` chooses.
LM_PREDICTIONS = (
    *(f"lm_predictions.lm_head.{part}" for part in ("dense", "LayerNorm", "bias")),
    CLS_PREDICTIONS[3],
)
# Sizes that are needed here -> their defaults in transformers.
_SIZES = {"hidden_size": 1536, "num_attention_heads": 24}
KNOWN = KnownKeys(
    used=("relative_attention", "pooler_hidden_size", "attention_head_size"),
    harmless=("pooler_dropout", "cls_dropout", "padding_idx"),
    fixed={"relative_attention": (True,), "conv_groups": (1,), "z_steps": (0, 1)},
)


def of_theirs(values: Mapping, file: str) -> dict:
    """Returns the values in our form."""
    values = dict(values)
    if not values.pop("relative_attention", False):
        raise InputError(
            f"{file} has no relative_attention, so its scores are of contents only, which is not supported. DeBERTa-v2 "
            "and -v3 have relative_attention true."
        )
    types = values.get("pos_att_type")
    if isinstance(types, list):
        types = "|".join(strings(values, "pos_att_type", file))
    values["pos_att_type"] = "|".join(part.strip() for part in str(types or "").lower().split("|"))
    if "norm_rel_ebd" in values:
        values["norm_rel_ebd"] = member(values, "norm_rel_ebd", str, file, "none").strip().lower()
    width, heads = (member(values, name, int, file, default) for name, default in _SIZES.items())
    expected = {"pooler_hidden_size": width, "attention_head_size": width // max(heads, 1)}
    for name, size in expected.items():
        if values.pop(name, None) not in (None, size):
            raise InputError(f"{file}: {name} must be {size}, as the other sizes say. Give it that value or remove it.")
    return values


def to_theirs(values: Mapping, checkpoint: BertCheckpoint) -> dict:
    """Returns the values with the keys that transformers needs in addition."""
    return {**values, "relative_attention": True, "pooler_hidden_size": checkpoint.config.hidden_size}


def of_weights(config: BertConfig, names: Collection[str]) -> BertConfig:
    """Returns the config with the masked-LM head that a file of weights has."""
    heads = {"lm_predictions": False, "cls": True}
    found = [is_legacy for prefix, is_legacy in heads.items() if any(name.startswith(f"{prefix}.") for name in names)]
    return config.replace(legacy=found[0]) if found else config
