"""Transformer-XL. Reference: Dai et al., 2019, arXiv 1901.02860; kimiyoung/transformer-xl."""

from keras_bert.checkpoints.family_formats import OwnFiles
from keras_bert.checkpoints.weight_list import LAYER, Weight, dense, in_layers, layer_norm
from keras_bert.config import BertConfig
from keras_bert.registry import STREAM, Family, size

_CUTOFFS = [20000, 40000, 200000]
_FILES = "keras_bert.encoders.transformer_xl.files"


def weights(config: BertConfig) -> list[Weight]:
    """Returns the weights of a Transformer-XL. Other projects join some of them, see `files`."""
    rows, clusters = in_layers(_layer(config), config.num_hidden_layers), config.clusters
    for number, cluster in enumerate(clusters):
        rows.append(Weight(f"encoder/embeddings/table_{number}", (cluster.size, cluster.width)))
        rows.append(Weight(f"encoder/softmax/bias_{number}", (cluster.size,)))
        projection = (cluster.width, config.hidden_size)
        if cluster.is_projected:
            rows.append(Weight(f"encoder/embeddings/projection_{number}", projection))
        if cluster.is_projected and not cluster.is_tied:
            rows.append(Weight(f"encoder/softmax/projection_{number}", projection))
    if len(clusters) > 1:
        rows.append(Weight("encoder/softmax/cluster_table_0", (len(clusters) - 1, clusters[0].width)))
        rows.append(Weight("encoder/softmax/cluster_bias", (len(clusters) - 1,)))
    return rows


def _layer(config: BertConfig) -> list[Weight]:
    width, inner, attention = config.hidden_size, config.intermediate_size, f"{LAYER}/attention"
    heads = (config.num_attention_heads, config.head_size)
    kernels = ("query", "key", "value", "distance", "output_dense")
    return [
        *(Weight(f"{attention}/{name}/kernel", (width, width)) for name in kernels),
        *(Weight(f"{attention}/{bias}", heads) for bias in ("content_bias", "distance_bias")),
        *layer_norm(f"{LAYER}/attention_layer_norm", width),
        *dense(f"{LAYER}/intermediate_dense", width, inner),
        *dense(f"{LAYER}/output_dense", inner, width),
        *layer_norm(f"{LAYER}/output_layer_norm", width),
    ]


FAMILY = Family(
    defaults={
        "vocab_size": 267735,
        "hidden_act": "relu",
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 32_768,
        "type_vocab_size": 0,
        "layer_norm_eps": 1e-5,
        "do_lower_case": False,
    },
    sizes={
        "transformer-xl-wt103-base": size(16, 410, 10, 2100, cutoffs=_CUTOFFS, mem_len=150),
        "transformer-xl-wt103-large": size(
            *(18, 1024, 16),
            cutoffs=_CUTOFFS,
            div_val=4,
            proj_same_dim=True,
            mem_len=1600,
            clamp_len=1000,
            same_length=True,
        ),
        "transformer-xl-enwik8": size(12, 512, 8, vocab_size=204, mem_len=512),
    },
    tokenizer=STREAM,
    is_language_model=True,
    config="keras_bert.encoders.transformer_xl.config.TransformerXLConfig",
    encoder="keras_bert.encoders.transformer_xl.model.TransformerXL",
    weights=f"{__name__}.weights",
    own_files=OwnFiles(
        variable="transformer/r_w_bias",
        read_official=f"{_FILES}.read_official",
        read_hugging_face=f"{_FILES}.read_hugging_face",
        writer=f"{_FILES}.writer",
    ),
)
