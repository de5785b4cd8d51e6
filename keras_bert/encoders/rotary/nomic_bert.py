"""NomicBERT. Reference: Nussbaum et al., 2024, arXiv 2402.01613; nomic-ai/contrastors; transformers,
`models/nomic_bert/`."""

from collections.abc import Collection, Mapping
from typing import Any

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.family_formats import HuggingFace
from keras_bert.checkpoints.weight_list import CLS_PREDICTIONS, Weight, masked_lm
from keras_bert.encoders.rotary.config import RotaryConfig
from keras_bert.encoders.rotary.keys import ROTARY_KEYS, absent_but, bases_of, bases_to, without
from keras_bert.encoders.rotary.names import PARTS, poolers, rotary_weights
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.registry import Family, size

_TABLES = {"tokens": "embeddings.word_embeddings", "segments": "embeddings.token_type_embeddings"}
_NAMES = {**_TABLES, "embedding_norm": "emb_ln"}
_PARTS = {"qkv": "attn.Wqkv", "attention_output": "attn.out_proj", "attention_norm": "norm1"}
_PARTS |= {"inner": "mlp.fc12", "factor": "mlp.fc11", "output": "mlp.fc2", "output_norm": "norm2"}
_TRANSFORM = tuple(name.replace("LayerNorm", "layer_norm") for name in CLS_PREDICTIONS)
# The keys of the files on the hub, which are GPT-2's -> those of transformers.
_OF_GPT_2 = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
    "layer_norm_epsilon": "layer_norm_eps",
    "rotary_emb_base": "rope_theta",
    "resid_pdrop": "hidden_dropout_prob",
    "attn_pdrop": "attention_probs_dropout_prob",
}
_FALSE = (
    *("prenorm", "rotary_emb_interleaved", "causal", "parallel_block", "parallel_block_tied_norm", "use_rms_norm"),
    *("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "scale_attn_by_inverse_layer_idx"),
)


def weights(config: RotaryConfig) -> list[Weight]:
    """Returns the weights of a NomicBERT, in the form of its files or, not joined, in that of transformers' classes."""
    if config.joined_attention:
        encoder = rotary_weights(config, "nomic_bert", _NAMES, _PARTS, "encoder.layers")
    else:
        names = {**_TABLES, "embedding_norm": "embeddings.LayerNorm"}
        encoder = rotary_weights(config, "nomic_bert", names, PARTS)
    return [*encoder, *poolers(config), *masked_lm(config, _TRANSFORM)]


def of_weights(config: RotaryConfig, names: Collection[str]) -> RotaryConfig:
    """Returns the config with joined layers if a file of weights has them."""
    return config.replace(joined_attention=not any(".q_proj." in name for name in names))


def _of_theirs(values: Mapping[str, Any], file: str) -> dict[str, Any]:
    values = {_OF_GPT_2.get(name, name): value for name, value in values.items()}
    values["hidden_act"] = {"swiglu": "silu"}.get(
        values.pop("activation_function", ""), values.get("hidden_act", "silu")
    )
    return bases_of(values, file)


FAMILY = Family(
    defaults={
        "vocab_size": 30528,
        "hidden_act": "silu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 2048,
        "norm_bias": True,
        "norm_place": "after",
        "final_norm": False,
        "layer_dropout": True,
        "joined_mlp": False,
        "head_pooler": False,
        "classifier_bias": True,
        "global_attn_every_n_layers": 1,
        "global_rope_theta": 1000.0,
    },
    sizes={"nomic-embed-text-v1.5": size(12, 768, 12)},
    config="keras_bert.encoders.rotary.config.RotaryConfig",
    encoder="keras_bert.encoders.rotary.encoder.RotaryEncoder",
    onnx="keras_bert.encoders.rotary.onnx.OnnxRotaryEncoder",
    weights=f"{__name__}.weights",
    hugging_face=HuggingFace(
        classes="NomicBert",
        prefix="nomic_bert",
        poolers={name: ("nomic_bert.pooler.dense",) for name in ("", form.CLASSIFIER)},
        decoder_bias="cls.predictions.decoder.bias",
        more=KnownKeys(
            used=(*ROTARY_KEYS, *_OF_GPT_2, "activation_function"),
            harmless=(
                *("embd_pdrop", "max_trained_positions", "pad_vocab_size_multiple", "dense_seq_output", "use_xentropy"),
                *("fused_bias_fc", "fused_dropout_add_ln", "use_flash_attn", "reorder_and_upcast_attn", "auto_map"),
                *("summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type"),
                *("summary_use_proj", "add_pooling_layer", "use_fused_kernel", "layer_norm_training"),
            ),
            fixed={
                **dict.fromkeys(_FALSE, (False,)),
                **{"rotary_emb_fraction": (1.0,), "scale_attn_weights": (True,)},
            },
        ),
        absent=absent_but("head_dim"),
        read=_of_theirs,
        write=lambda values, checkpoint: without(values) | bases_to(checkpoint.config),
        of_weights=of_weights,
    ),
)
