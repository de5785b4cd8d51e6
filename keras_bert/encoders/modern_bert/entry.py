"""ModernBERT. Reference: Warner et al., 2024, arXiv 2412.13663; transformers, `models/modernbert/`."""

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.family_formats import EVERY_HEAD, HuggingFace
from keras_bert.checkpoints.weight_list import LAYER, POOLER, Weight, dense, in_layers, layer_norm, masked_lm
from keras_bert.config import BertConfig
from keras_bert.encoders.modern_bert import keys
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.registry import BYTE_PAIR, Family, size

_RENAMED = ("hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob", "layer_norm_eps")


def weights(config: BertConfig) -> list[Weight]:
    """Returns the weights of a ModernBERT. Its first layer has no LayerNorm before the attention."""
    width, inner, layer, count = (
        config.hidden_size,
        config.intermediate_size,
        "model.layers.*",
        config.num_hidden_layers,
    )
    norm, attention, mlp = ({"has_bias": bias} for bias in (config.norm_bias, config.attention_bias, config.mlp_bias))
    attention_norm = layer_norm(f"{LAYER}/attention_layer_norm", width, f"{layer}.attn_norm", **norm)
    parts = [
        *dense(f"{LAYER}/attention/qkv", width, 3 * width, f"{layer}.attn.Wqkv", **attention),
        *dense(f"{LAYER}/attention/output_dense", width, width, f"{layer}.attn.Wo", **attention),
        *layer_norm(f"{LAYER}/feed_forward_layer_norm", width, f"{layer}.mlp_norm", **norm),
        *dense(f"{LAYER}/intermediate_dense", width, 2 * inner, f"{layer}.mlp.Wi", **mlp),
        *dense(f"{LAYER}/output_dense", inner, width, f"{layer}.mlp.Wo", **mlp),
    ]
    return [
        Weight(form.TOKEN_EMBEDDINGS, (config.vocab_size, width), "model.embeddings.tok_embeddings.weight"),
        *layer_norm("encoder/embeddings/layer_norm", width, "model.embeddings.norm", **norm),
        *layer_norm("encoder/final_layer_norm", width, "model.final_norm", **norm),
        *in_layers(attention_norm, range(1, count)),
        *in_layers(parts, count),
        *dense(POOLER, width, width, has_bias=config.classifier_bias),
        *layer_norm(f"{form.POOLER}/layer_norm", width, **norm),
        *masked_lm(config, ("head.dense", "head.norm", "decoder.bias", "decoder")),
    ]


FAMILY = Family(
    defaults={
        "vocab_size": 50368,
        "hidden_act": "gelu_erf",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 8192,
        "type_vocab_size": 0,
        "layer_norm_eps": 1e-5,
        "do_lower_case": False,
        "pooler_act": "gelu_erf",
    },
    sizes={"modernbert-base": size(22, 768, 12, 1152), "modernbert-large": size(28, 1024, 16, 2624)},
    tokenizer=BYTE_PAIR,
    pairs_need_segments=False,
    pooler_is_masked_lm_head=True,
    config="keras_bert.encoders.modern_bert.config.ModernBertConfig",
    encoder="keras_bert.encoders.modern_bert.encoder.ModernBertEncoder",
    onnx="keras_bert.encoders.modern_bert.onnx.OnnxModernBertEncoder",
    weights=f"{__name__}.weights",
    hugging_face=HuggingFace(
        classes="ModernBert",
        prefix="model",
        poolers={EVERY_HEAD: ("head.dense", "head.norm")},
        outputs={EVERY_HEAD: "classifier"},
        pooler_act_heads=None,
        keys={
            "hidden_activation": "hidden_act",
            "classifier_activation": "pooler_act",
            "norm_eps": "layer_norm_eps",
            "classifier_dropout": "hidden_dropout_prob",
            "attention_dropout": "attention_probs_dropout_prob",
        },
        defaults={"num_hidden_layers": 22, "intermediate_size": 1152, "pooler_act": "gelu"},
        more=KnownKeys(
            used=("layer_types", "rope_parameters", "rope_scaling"),
            harmless=(
                *("initializer_cutoff_factor", "deterministic_flash_attn", "reference_compile"),
                *("repad_logits_with_grad", "sparse_prediction", "sparse_pred_ignore_index", *_RENAMED),
            ),
            fixed={"decoder_bias": (True,)},
        ),
        absent=(*_RENAMED, "type_vocab_size"),
        read=keys.of_theirs,
        write=keys.to_theirs,
    ),
)
