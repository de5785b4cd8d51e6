"""DeBERTa-v2 and -v3, mDeBERTa. Reference: He et al., 2020, arXiv 2006.03654, and 2021, arXiv 2111.09543;
microsoft/DeBERTa; transformers, `models/deberta_v2/`."""

from collections.abc import Collection, Mapping

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.checkpoints.family_formats import HuggingFace
from keras_bert.checkpoints.name_table import TRANSPOSED
from keras_bert.checkpoints.weight_list import (
    CLS_PREDICTIONS,
    LAYER,
    PROJECTION,
    Weight,
    blocks,
    dense,
    embeddings,
    in_layers,
    layer_norm,
    masked_lm,
    only_in_files,
    pooler,
)
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member, strings
from keras_bert.registry import SENTENCE_PIECE, Family, size

_PARTS = (
    "attention.self.query_proj attention.self.key_proj attention.self.value_proj attention.output.dense "
    "attention.output.LayerNorm intermediate.dense output.dense output.LayerNorm"
)
_THEIR_LAYER = "deberta.encoder.layer.*"
# Microsoft's names, whose decoder is always tied. transformers has both heads; `legacy` chooses.
_LM_PREDICTIONS = (
    *(f"lm_predictions.lm_head.{part}" for part in ("dense", "LayerNorm", "bias")),
    CLS_PREDICTIONS[3],
)
# Sizes that are needed here -> their defaults in transformers.
_SIZES = {"hidden_size": 1536, "num_attention_heads": 24}
_KNOWN = KnownKeys(
    used=("relative_attention", "pooler_hidden_size", "attention_head_size"),
    harmless=("pooler_dropout", "cls_dropout", "padding_idx"),
    fixed={"relative_attention": (True,), "conv_groups": (1,), "z_steps": (0, 1)},
)


def weights(config: BertConfig) -> list[Weight]:
    """Returns the weights of a DeBERTa."""
    width, narrow = config.hidden_size, config.embedding_size
    tokens, positions, segments, *_ = embeddings(config, "deberta")
    projection = dense(PROJECTION, narrow, width, "deberta.embeddings.embed_proj", has_bias=False)
    norm = layer_norm("encoder/distances/layer_norm", width, "deberta.encoder.LayerNorm")
    return [
        *(tokens, positions._replace(is_needed=config.position_biased_input), segments),
        *layer_norm("encoder/embeddings/layer_norm", width, "deberta.embeddings.LayerNorm"),
        *(projection if config.embedding_projection else only_in_files(projection)),
        Weight("encoder/distances/table", (2 * config.span, width), "deberta.encoder.rel_embeddings.weight"),
        *(norm if config.norm_rel_ebd == "layer_norm" else only_in_files(norm)),
        *blocks(config, _THEIR_LAYER, _PARTS),
        *in_layers(_projections_of_distances(config), config.num_hidden_layers),
        *_convolution(config),
        *pooler(config),
        *masked_lm(config, CLS_PREDICTIONS if config.legacy else _LM_PREDICTIONS),
        *layer_norm(f"{form.REPLACED_TOKEN}/layer_norm", width, "mask_predictions.LayerNorm"),
        *dense(f"{form.REPLACED_TOKEN}/dense", width, width, "mask_predictions.dense"),
        *dense(f"{form.REPLACED_TOKEN}/output_dense", width, 1, "mask_predictions.classifier"),
        # Microsoft's code spells it so.
        *only_in_files(dense(f"{form.REPLACED_TOKEN}/output_dense", width, 1, "mask_predictions.classifer")),
    ]


def _projections_of_distances(config: BertConfig) -> list[Weight]:
    width, rows = config.hidden_size, []
    for score_type, ours, theirs in (("c2p", "distance_key", "pos_key"), ("p2c", "distance_query", "pos_query")):
        names = f"{LAYER}/attention/{ours}", f"{_THEIR_LAYER}.attention.self.{theirs}_proj"
        found = dense(names[0], width, width, names[1])
        rows += found if score_type in config.score_types and not config.share_att_key else only_in_files(found)
    return rows


def _convolution(config: BertConfig) -> list[Weight]:
    ours, theirs, width = "encoder/layer_0/convolution", "deberta.encoder.conv", config.hidden_size
    shape = (config.conv_kernel_size, width, width)
    kernel = Weight(f"{ours}_kernel", shape, f"{theirs}.conv.weight", hugging_face_layout=TRANSPOSED)
    rows = [kernel, Weight(f"{ours}_bias", (width,), f"{theirs}.conv.bias")]
    rows += layer_norm(f"{ours}_layer_norm", width, f"{theirs}.LayerNorm")
    return rows if config.conv_kernel_size else only_in_files(rows)


def _of_theirs(values: Mapping, file: str) -> dict:
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
    for name, only in expected.items():
        if values.pop(name, None) not in (None, only):
            raise InputError(f"{file}: {name} must be {only}, as the other sizes say. Give it that value or remove it.")
    return values


def _to_theirs(values: Mapping, checkpoint: BertCheckpoint) -> dict:
    """Returns the values with the keys that transformers needs in addition."""
    return {**values, "relative_attention": True, "pooler_hidden_size": checkpoint.config.hidden_size}


def _of_weights(config: BertConfig, names: Collection[str]) -> BertConfig:
    """Returns the config with the masked-LM head that a file of weights has."""
    heads = {"lm_predictions": False, "cls": True}
    found = [is_legacy for prefix, is_legacy in heads.items() if any(name.startswith(f"{prefix}.") for name in names)]
    return config.replace(legacy=found[0]) if found else config


_V2 = {"conv_kernel_size": 3, "conv_act": "gelu_erf", "legacy": True}

FAMILY = Family(
    defaults={
        "vocab_size": 128100,
        "hidden_act": "gelu_erf",
        "type_vocab_size": 0,
        "layer_norm_eps": 1e-7,
        "do_lower_case": False,
        "pooler_act": "gelu_erf",
        "position_buckets": 256,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "position_biased_input": False,
        "legacy": False,
    },
    sizes={
        "deberta-v3-xsmall": size(12, 384, 6),
        "deberta-v3-small": size(6, 768, 12),
        "deberta-v3-base": size(12, 768, 12),
        "deberta-v3-large": size(24, 1024, 16),
        "mdeberta-v3-base": size(12, 768, 12, vocab_size=251000),
        "deberta-v2-xlarge": size(24, 1536, 24, **_V2),
        "deberta-v2-xxlarge": size(48, 1536, 24, **_V2),
    },
    tokenizer=SENTENCE_PIECE,
    pairs_need_segments=False,
    replaced_tokens_need_first=True,
    config="keras_bert.encoders.deberta.config.DebertaConfig",
    encoder="keras_bert.encoders.deberta.encoder.DebertaEncoder",
    onnx="keras_bert.encoders.deberta.onnx.OnnxDebertaEncoder",
    weights=f"{__name__}.weights",
    hugging_face=HuggingFace(
        classes="DebertaV2",
        prefix="deberta",
        poolers={form.CLASSIFIER: ("pooler.dense",), "choice_scorer": ("pooler.dense",)},
        decoder_bias="cls.predictions.decoder.bias",
        pooler_act_heads=None,
        keys={"pooler_hidden_act": "pooler_act"},
        # Those of the class of the config, which are not v3's.
        defaults={
            **{"hidden_size": 1536, "num_hidden_layers": 24, "num_attention_heads": 24, "intermediate_size": 6144},
            **{"pooler_act": "gelu", "position_buckets": -1, "share_att_key": False, "norm_rel_ebd": "none"},
            **{"position_biased_input": True, "conv_act": "tanh", "legacy": True},
        },
        more=_KNOWN,
        sizes=("embedding_size",),
        read=_of_theirs,
        write=_to_theirs,
        of_weights=_of_weights,
    ),
)
