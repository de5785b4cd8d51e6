"""The weights of each family's encoder: our names, and those in transformers and in Google's TensorFlow 1 files.

Reference: transformers, `models/{bert,roberta,albert,distilbert,electra,modernbert}/modeling_*.py`;
google-research/bert, /albert and /electra, `modeling.py`.
"""

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.name_table import HEADS_LAST, HEADS_OUT
from keras_bert.checkpoints.weight_rows import Weight, block, dense, embeddings, layer_norm
from keras_bert.config import BertConfig

LAYER = "encoder/layer_*"
POOLER = f"{form.POOLER}/dense"
PROJECTION = "encoder/embeddings/projection"
# Weights of XLNet's attention -> their names in transformers; Google's have those too, without a layer.
XLNET_ATTENTION = {
    "content_bias": "r_w_bias",
    "distance_bias": "r_r_bias",
    "segment_bias": "r_s_bias",
    "segment_embeddings": "seg_embed",
}
# The parts of a block, in the order of `weight_rows.block`.
_BERT_PARTS = (
    "attention.self.query attention.self.key attention.self.value attention.output.dense attention.output.LayerNorm "
    "intermediate.dense output.dense output.LayerNorm"
)
_GOOGLE_PARTS = _BERT_PARTS.replace(".", "/")
_ALBERT_PARTS = (
    "attention.query attention.key attention.value attention.dense attention.LayerNorm "
    "ffn ffn_output full_layer_layer_norm"
)
_ALBERT_GOOGLE_PARTS = (
    "attention_1/self/query attention_1/self/key attention_1/self/value attention_1/output/dense LayerNorm "
    "ffn_1/intermediate/dense ffn_1/intermediate/output/dense LayerNorm_1"
)
_DISTILBERT_PARTS = (
    "attention.q_lin attention.k_lin attention.v_lin attention.out_lin sa_layer_norm "
    "ffn.lin1 ffn.lin2 output_layer_norm"
)


def bert(config: BertConfig) -> list[Weight]:
    return [
        *embeddings("bert", "bert"),
        *block(LAYER, "bert.encoder.layer.*", _BERT_PARTS, "bert/encoder/layer_*", _GOOGLE_PARTS),
        *dense(POOLER, "bert.pooler.dense", "bert/pooler/dense"),
    ]


def roberta(config: BertConfig) -> list[Weight]:
    return [*embeddings("roberta"), *block(LAYER, "roberta.encoder.layer.*", _BERT_PARTS)]


def longformer(config: BertConfig) -> list[Weight]:
    layer = "longformer.encoder.layer.*"
    rows = [*embeddings("longformer"), *block(LAYER, layer, _BERT_PARTS)]
    for name in ("query_global", "key_global", "value_global"):
        rows += dense(f"{LAYER}/attention/{name}", f"{layer}.attention.self.{name}")
    return rows


def big_bird(config: BertConfig) -> list[Weight]:
    return [*embeddings("bert"), *block(LAYER, "bert.encoder.layer.*", _BERT_PARTS)]


def albert(config: BertConfig) -> list[Weight]:
    rows = [
        *embeddings("albert", "bert"),
        *dense(
            PROJECTION,
            "albert.encoder.embedding_hidden_mapping_in",
            "bert/encoder/embedding_hidden_mapping_in",
        ),
        *dense(POOLER, "albert.pooler", "bert/pooler/dense"),
    ]
    for number in range(config.num_blocks):
        group, inner = divmod(number, config.inner_group_num)
        rows += block(
            f"encoder/layer_{number}",
            f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}",
            _ALBERT_PARTS,
            f"bert/encoder/transformer/group_{group}/inner_group_{inner}",
            _ALBERT_GOOGLE_PARTS,
        )
    return rows


def distilbert(config: BertConfig) -> list[Weight]:
    return [*embeddings("distilbert"), *block(LAYER, "distilbert.transformer.layer.*", _DISTILBERT_PARTS)]


def electra(config: BertConfig) -> list[Weight]:
    return [
        *embeddings("electra", "electra"),
        *dense(PROJECTION, "electra.embeddings_project", "electra/embeddings_project"),
        *block(LAYER, "electra.encoder.layer.*", _BERT_PARTS, "electra/encoder/layer_*", _GOOGLE_PARTS),
    ]


def mobile_bert(config: BertConfig) -> list[Weight]:
    layer, last = "mobilebert.encoder.layer.*", config.num_feedforward_networks - 1
    rows = [
        *embeddings("mobilebert"),
        *dense("encoder/embeddings/transformation", "mobilebert.embeddings.embedding_transformation"),
        *dense(f"{LAYER}/output_bottleneck", f"{layer}.output.bottleneck.dense"),
        *layer_norm(f"{LAYER}/output_bottleneck_layer_norm", f"{layer}.output.bottleneck.LayerNorm"),
        *layer_norm(f"{LAYER}/attention_layer_norm", f"{layer}.attention.output.LayerNorm"),
        *dense(f"{LAYER}/attention/output_dense", f"{layer}.attention.output.dense"),
        *dense(POOLER, "mobilebert.pooler.dense"),
    ]
    for part in ("query", "key", "value"):
        rows += dense(f"{LAYER}/attention/{part}", f"{layer}.attention.self.{part}")
    for ours, theirs in (("input", "input"), ("shared", "attention")):
        rows += dense(f"{LAYER}/{ours}_bottleneck", f"{layer}.bottleneck.{theirs}.dense")
        rows += layer_norm(f"{LAYER}/{ours}_layer_norm", f"{layer}.bottleneck.{theirs}.LayerNorm")
    for net in range(last + 1):
        theirs = layer if net == last else f"{layer}.ffn.{net}"
        rows += dense(f"{LAYER}/intermediate_dense_{net}", f"{theirs}.intermediate.dense")
        rows += dense(f"{LAYER}/output_dense_{net}", f"{theirs}.output.dense")
        rows += layer_norm(f"{LAYER}/output_layer_norm_{net}", f"{theirs}.output.LayerNorm")
    return rows


def modern_bert(config: BertConfig) -> list[Weight]:
    layer = "model.layers.*"
    return [
        Weight(form.TOKEN_EMBEDDINGS, "model.embeddings.tok_embeddings.weight"),
        *layer_norm("encoder/embeddings/layer_norm", "model.embeddings.norm"),
        *layer_norm(f"{LAYER}/attention_layer_norm", f"{layer}.attn_norm"),
        *dense(f"{LAYER}/attention/qkv", f"{layer}.attn.Wqkv"),
        *dense(f"{LAYER}/attention/output_dense", f"{layer}.attn.Wo"),
        *layer_norm(f"{LAYER}/feed_forward_layer_norm", f"{layer}.mlp_norm"),
        *dense(f"{LAYER}/intermediate_dense", f"{layer}.mlp.Wi"),
        *dense(f"{LAYER}/output_dense", f"{layer}.mlp.Wo"),
        *layer_norm("encoder/final_layer_norm", "model.final_norm"),
    ]


def xlnet(config: BertConfig) -> list[Weight]:
    # Google's files have the biases of all layers in one variable, which `xlnet_files.py` divides.
    theirs, google, ours = "transformer.layer.*", "model/transformer/layer_*", f"{LAYER}/attention"
    rows = [
        Weight(
            form.TOKEN_EMBEDDINGS, "transformer.word_embedding.weight", "model/transformer/word_embedding/lookup_table"
        )
    ]
    for name, letter in (("query", "q"), ("key", "k"), ("value", "v"), ("distance", "r"), ("output_dense", "o")):
        layout = HEADS_LAST if letter == "o" else HEADS_OUT
        names = f"{theirs}.rel_attn.{letter}", f"{google}/rel_attn/{letter}/kernel"
        rows.append(Weight(f"{ours}/{name}/kernel", *names, layout, layout))
    for name, their_name in XLNET_ATTENTION.items():
        rows.append(Weight(f"{ours}/{name}", f"{theirs}.rel_attn.{their_name}", f"{google}/{their_name}"))
    return [
        *rows,
        *layer_norm(f"{LAYER}/attention_layer_norm", f"{theirs}.rel_attn.layer_norm", f"{google}/rel_attn/LayerNorm"),
        *dense(f"{LAYER}/intermediate_dense", f"{theirs}.ff.layer_1", f"{google}/ff/layer_1"),
        *dense(f"{LAYER}/output_dense", f"{theirs}.ff.layer_2", f"{google}/ff/layer_2"),
        *layer_norm(f"{LAYER}/output_layer_norm", f"{theirs}.ff.layer_norm", f"{google}/ff/LayerNorm"),
        # The first name is misspelt in Google's code.
        Weight(f"{POOLER}/kernel", google="model/sequnece_summary/summary/kernel"),
        Weight(f"{POOLER}/bias", google="model/sequnece_summary/summary/bias"),
    ]
