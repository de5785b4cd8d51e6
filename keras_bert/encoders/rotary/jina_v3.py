"""jina-embeddings-v3, without its adapters. Reference: Sturua et al., 2024, arXiv 2409.10173; transformers,
`models/jina_embeddings_v3/`."""

from keras_bert.checkpoints.weight_list import Weight
from keras_bert.encoders.roberta import LM_HEAD, heads_of
from keras_bert.encoders.rotary.config import RotaryConfig
from keras_bert.encoders.rotary.entries import ROTARY_KEYS, joined_as_stored, rotary_family, rotary_files
from keras_bert.encoders.rotary.names import PARTS, rotary_weights
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.registry import SENTENCE_PIECE, size

_TABLES = {"tokens": "embeddings.word_embeddings", "segments": "embeddings.token_type_embeddings"}
_PARTS = {"qkv": "mixer.Wqkv", "attention_output": "mixer.out_proj", "attention_norm": "norm1"}
_PARTS |= {"inner": "mlp.fc1", "output": "mlp.fc2", "output_norm": "norm2"}


def weights(config: RotaryConfig) -> list[Weight]:
    """Returns the weights of a jina-embeddings-v3, in the form of its files or, not joined, in that of transformers'
    classes."""
    if config.joined_attention:
        names = {**_TABLES, "embedding_norm": "emb_ln"}
        return rotary_weights(config, "roberta", names, _PARTS, LM_HEAD, "encoder.layers")
    names, parts = {**_TABLES, "embedding_norm": "embeddings.LayerNorm"}, PARTS | {"inner": "mlp.fc1"}
    return rotary_weights(config, "roberta", names, parts | {"output": "mlp.fc2"}, LM_HEAD)


_ADAPTERS = "its adapters are computed by code in its folder. Use the folder of jina-embeddings-v3 without adapters."

FAMILY = rotary_family(
    __name__,
    defaults={
        "vocab_size": 250002,
        "hidden_act": "gelu_erf",
        "max_position_embeddings": 8194,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
        "do_lower_case": False,
        "norm_bias": True,
        "norm_place": "after",
        "final_norm": False,
        "layer_dropout": True,
        "attention_bias": True,
        "mlp_bias": True,
        "gated": False,
        "classifier_bias": True,
        "global_rope_theta": 20_000.0,
    },
    sizes={"jina-embeddings-v3": size(24, 1024, 16)},
    tokenizer=SENTENCE_PIECE,
    pairs_need_segments=False,
    masked_lm_act="gelu_erf",
    hugging_face=rotary_files(
        "JinaEmbeddingsV3",
        "roberta",
        **heads_of("roberta"),
        defaults={"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
        more=KnownKeys(used=ROTARY_KEYS, refused=dict.fromkeys(("lora_adaptations", "lora_rank"), _ADAPTERS)),
        of_weights=joined_as_stored("joined_attention"),
    ),
)
