"""NomicBERT. Reference: Nussbaum et al., 2024, arXiv 2402.01613; nomic-ai/contrastors; transformers,
`models/nomic_bert/`."""

import reprlib
from collections.abc import Mapping
from typing import Any

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.weight_list import CLS_PREDICTIONS, Weight
from keras_bert.encoders.rotary.config import RotaryConfig
from keras_bert.encoders.rotary.entries import ROTARY_KEYS, joined_as_stored, read_bases, rotary_family, rotary_files
from keras_bert.encoders.rotary.names import PARTS, rotary_weights
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member
from keras_bert.registry import size

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
_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
_TRAINED = 2048  # the longest row in training, by default
_EXPERTS = "some of its feed-forward parts are mixtures of experts. Use a NomicBERT without them."
_FALSE = (
    *("prenorm", "rotary_emb_interleaved", "causal", "parallel_block", "parallel_block_tied_norm", "use_rms_norm"),
    *("last_layer_subset", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "scale_attn_by_inverse_layer_idx"),
)


def weights(config: RotaryConfig) -> list[Weight]:
    """Returns the weights of a NomicBERT, in the form of its files or, not joined, in that of transformers' classes."""
    if config.joined_attention:
        return rotary_weights(config, "nomic_bert", _NAMES, _PARTS, _TRANSFORM, "encoder.layers")
    return rotary_weights(
        config, "nomic_bert", {**_TABLES, "embedding_norm": "embeddings.LayerNorm"}, PARTS, _TRANSFORM
    )


def _of_theirs(values: Mapping[str, Any], file: str) -> dict[str, Any]:
    of_gpt_2 = {ours: values[name] for name, ours in _OF_GPT_2.items() if values.get(name) is not None}
    kept = {name: value for name, value in values.items() if name not in _OF_GPT_2 and value is not None}
    # Published files have 8192 positions under the name of GPT-2, and the 2048 of the training under the other.
    for name in sorted((of_gpt_2.keys() & kept) - {"max_position_embeddings", *_DROPOUTS}):
        if of_gpt_2[name] != kept[name]:
            theirs = next(key for key, ours in _OF_GPT_2.items() if ours == name)
            raise InputError(
                f"{file}: {name} is {reprlib.repr(kept[name])}, but {theirs}, another name of the same setting, is "
                f"{reprlib.repr(of_gpt_2[name])}. Remove the wrong one from a copy of the file."
            )
    values = of_gpt_2 | kept
    if values.pop("rotary_scaling_factor", None):
        # It scales the positions of rows that are longer than those of the training.
        longest, trained = (
            member(values, name, int, file, _TRAINED) for name in ("max_position_embeddings", "max_trained_positions")
        )
        values["max_position_embeddings"] = min(longest, trained)
    values.pop("max_trained_positions", None)
    activation = values.pop("activation_function", values.get("hidden_act", "silu"))
    values["hidden_act"] = {"swiglu": "silu", "geglu": "gelu"}.get(activation, activation)
    return read_bases(values, file)


FAMILY = rotary_family(
    __name__,
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
        "classifier_bias": True,
        "global_rope_theta": 1000.0,
    },
    sizes={"nomic-embed-text-v1.5": size(12, 768, 12)},
    hugging_face=rotary_files(
        "NomicBert",
        "nomic_bert",
        poolers={name: ("nomic_bert.pooler.dense",) for name in ("", form.CLASSIFIER)},
        decoder_bias="cls.predictions.decoder.bias",
        more=KnownKeys(
            used=(
                *(*ROTARY_KEYS, *_OF_GPT_2, "activation_function"),
                *("rotary_scaling_factor", "max_trained_positions"),
            ),
            harmless=(
                *("embd_pdrop", "pad_vocab_size_multiple", "dense_seq_output", "use_xentropy"),
                *("fused_bias_fc", "fused_dropout_add_ln", "use_flash_attn", "reorder_and_upcast_attn", "auto_map"),
                *("summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type"),
                *("summary_use_proj", "add_pooling_layer", "use_fused_kernel", "layer_norm_training"),
            ),
            fixed={
                **dict.fromkeys(_FALSE, (False,)),
                **{"rotary_emb_fraction": (1.0,), "scale_attn_weights": (True,), "rotary_emb_scale_base": ()},
            },
            refused=dict.fromkeys(("num_experts", "moe_every_n_layers"), _EXPERTS),
        ),
        fields=("head_dim",),
        read=_of_theirs,
        of_weights=joined_as_stored("joined_attention"),
    ),
)
