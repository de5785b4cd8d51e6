"""The weights of encoders with rotary positions, and their names in transformers."""

from collections.abc import Mapping
from types import MappingProxyType

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.name_table import TRANSPOSED, Layout
from keras_bert.checkpoints.weight_list import LAYER, POOLER, SEGMENTS, Weight, dense, in_layers, layer_norm, masked_lm
from keras_bert.encoders.rotary.config import AROUND, BEFORE, LAYER_NORM, RotaryConfig
from keras_bert.program.errors import InputError

# The parts of layers in classes of transformers, which files of some families have too.
PARTS = {
    "query": "self_attn.q_proj",
    "key": "self_attn.k_proj",
    "value": "self_attn.v_proj",
    "attention_output": "self_attn.o_proj",
    "inner": "mlp.gate_proj",
    "factor": "mlp.up_proj",
    "output": "mlp.down_proj",
    "attention_norm": "post_attention_layernorm",
    "output_norm": "post_mlp_layernorm",
}


def rotary_weights(
    config: RotaryConfig,
    prefix: str,
    names: Mapping[str, str],
    parts: Mapping[str, str],
    head: tuple[str, ...],
    layers: str = "layers",
    layouts: Mapping[str, Layout] = MappingProxyType({}),
) -> list[Weight]:
    """Returns the list of all weights: of the encoder, the pooler and the masked-LM head.

    Args:
        config: the config.
        prefix: the beginning of all names in transformers, such as "model".
        names: "tokens", "segments", "embedding_norm", "final_norm" -> the names in transformers, for the parts that the
            model has.
        parts: the same for the parts of a layer: "qkv", or "query", "key" and "value"; "attention_output", "inner",
            "factor", "output", and norms: "attention_norm", "attention_output_norm", "output_norm",
            "output_output_norm", "query_norm", "key_norm".
        head: the names of the masked-LM head, see `CLS_PREDICTIONS`.
        layers: the name of the list of layers in transformers.
        layouts: "qkv" or "inner" -> the layout of its kernel in transformers, unless it is only transposed.
    """
    width, count = config.hidden_size, config.num_hidden_layers
    table, rows = f"{prefix}.{names['tokens']}.weight", config.type_vocab_size
    segments = f"{prefix}.{names['segments']}.weight" if "segments" in names else ""
    found = [
        Weight(form.TOKEN_EMBEDDINGS, (config.vocab_size, width), table),
        Weight(SEGMENTS, (rows, width), segments, is_needed=rows > 0),
    ]
    if config.embedding_norm:
        if "embedding_norm" not in names:
            raise InputError(
                f"A {config.model_type} has no norm behind its embeddings, but embedding_norm is not false. Start from "
                "the file that BertConfig.from_size(...).save(path) writes: it has all columns of the family."
            )
        theirs = f"{prefix}.{names['embedding_norm']}"
        found += layer_norm("encoder/embeddings/layer_norm", width, theirs, has_bias=config.norm_bias)
    if config.final_norm:
        found += _norm(config, "encoder/final_layer_norm", width, f"{prefix}.{names['final_norm']}")
    in_layer = {part: f"{prefix}.{layers}.*.{name}" for part, name in parts.items()}
    first_norm = _norm(config, f"{LAYER}/attention_layer_norm", width, in_layer["attention_norm"])
    has_none = config.embedding_norm and config.norm_place == BEFORE
    found += in_layers(first_norm, range(1, count) if has_none else count)
    found += in_layers([*_attention(config, in_layer, layouts), *_feed_forward(config, in_layer, layouts)], count)
    # Where transformers has the pooler depends on the head.
    found += dense(POOLER, width, width, has_bias=config.classifier_bias or not config.head_pooler)
    if config.head_pooler:
        found += layer_norm(f"{form.POOLER}/layer_norm", width, has_bias=config.norm_bias)
    return [*found, *masked_lm(config, head)]


def _norm(config: RotaryConfig, ours: str, width: int, theirs: str) -> list[Weight]:
    return layer_norm(ours, width, theirs, has_bias=config.norm == LAYER_NORM and config.norm_bias)


def _attention(config: RotaryConfig, names: Mapping[str, str], layouts: Mapping[str, Layout]) -> list[Weight]:
    width, ours, has_bias = config.hidden_size, f"{LAYER}/attention", config.attention_bias
    queries, keys = (number * config.head_size for number in (config.num_attention_heads, config.key_value_heads))
    sizes = {"query": queries, "key": keys, "value": keys}
    if config.joined_attention:
        kernel, bias = dense(f"{ours}/qkv", width, queries + 2 * keys, names["qkv"], has_bias=has_bias)
        rows = [kernel._replace(hugging_face_layout=layouts.get("qkv", TRANSPOSED)), bias]
    else:
        layers = [dense(f"{ours}/{part}", width, size, names[part], has_bias=has_bias) for part, size in sizes.items()]
        rows = [row for layer in layers for row in layer]
    if config.query_key_norm:
        rows += _norm(config, f"{ours}/query_norm", config.head_size, names["query_norm"])
        rows += _norm(config, f"{ours}/key_norm", config.head_size, names["key_norm"])
    return [*rows, *dense(f"{ours}/output_dense", queries, width, names["attention_output"], has_bias=has_bias)]


def _feed_forward(config: RotaryConfig, names: Mapping[str, str], layouts: Mapping[str, Layout]) -> list[Weight]:
    width, inner, has_bias = config.hidden_size, config.intermediate_size, config.mlp_bias
    is_joined = config.gated and config.joined_mlp
    first = dense(f"{LAYER}/intermediate_dense", width, 2 * inner if is_joined else inner, names["inner"], "", has_bias)
    rows = [first[0]._replace(hugging_face_layout=layouts.get("inner", TRANSPOSED)), first[1]]
    if config.gated and not is_joined:
        rows += dense(f"{LAYER}/factor_dense", width, inner, names["factor"], has_bias=has_bias)
    output_bias = has_bias if config.mlp_output_bias is None else config.mlp_output_bias
    rows += dense(f"{LAYER}/output_dense", inner, width, names["output"], has_bias=output_bias)
    rows += _norm(config, f"{LAYER}/feed_forward_layer_norm", width, names["output_norm"])
    if config.norm_place == AROUND:
        rows += _norm(config, f"{LAYER}/attention_output_norm", width, names["attention_output_norm"])
        rows += _norm(config, f"{LAYER}/feed_forward_output_norm", width, names["output_output_norm"])
    return rows
