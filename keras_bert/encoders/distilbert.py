"""DistilBERT. Reference: Sanh et al., 2019, arXiv 1910.01108; transformers, `models/distilbert/`."""

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.family_formats import HUB_EPSILON, HuggingFace, KerasHub
from keras_bert.checkpoints.weight_list import Weight, blocks, embeddings, masked_lm, pooler, projection
from keras_bert.config import BertConfig
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.registry import Family, size

_PARTS = (
    "attention.q_lin attention.k_lin attention.v_lin attention.out_lin sa_layer_norm "
    "ffn.lin1 ffn.lin2 output_layer_norm"
)
_PREDICTIONS = ("vocab_transform", "vocab_layer_norm", "vocab_projector.bias", "vocab_projector")


def weights(config: BertConfig) -> list[Weight]:
    """Returns the weights of a DistilBERT. Its encoder has no pooler in other projects."""
    return [
        *embeddings(config, "distilbert", one_hub_layer=True),
        *projection(config),
        *blocks(config, "distilbert.transformer.layer.*", _PARTS),
        *pooler(config, in_backbone=False),
        *masked_lm(config, _PREDICTIONS),
    ]


FAMILY = Family(
    defaults={"vocab_size": 30522, "hidden_act": "gelu_erf", "type_vocab_size": 0, "pooler_act": "relu"},
    sizes={"distilbert-base": size(6, 768, 12)},
    pairs_need_segments=False,
    weights=f"{__name__}.weights",
    hugging_face=HuggingFace(
        classes="DistilBert",
        prefix="distilbert",
        poolers={form.CLASSIFIER: ("pre_classifier",), "choice_scorer": ("pre_classifier",)},
        keys={
            "dim": "hidden_size",
            "n_layers": "num_hidden_layers",
            "n_heads": "num_attention_heads",
            "hidden_dim": "intermediate_size",
            "activation": "hidden_act",
            "dropout": "hidden_dropout_prob",
            "attention_dropout": "attention_probs_dropout_prob",
        },
        defaults={"num_hidden_layers": 6},
        more=KnownKeys(harmless=("sinusoidal_pos_embds", "tie_weights_", "qa_dropout", "seq_classif_dropout")),
        absent=("type_vocab_size",),
    ),
    keras_hub=KerasHub(
        "DistilBertBackbone",
        {"hidden_act": "gelu_erf"},
        has_segments=False,
        has_pooler=False,
        masked_lm_remark=HUB_EPSILON,
    ),
)
