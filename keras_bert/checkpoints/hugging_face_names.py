"""What Hugging Face calls the weights and classes of each family: our name, their name, layout.

Reference: transformers, `models/{bert,roberta,albert,distilbert,electra}/modeling_*.py`.
"""

import dataclasses
from collections.abc import Callable

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.name_table import SAME, TRANSPOSED, NameTable
from keras_bert.config import BertConfig

_LAYER = "encoder/layer_*"
_SEGMENTS = "encoder/embeddings/segment_embeddings"
_POOLER = f"{form.POOLER}/dense"


def _dense(ours: str, theirs: str) -> list[tuple]:
    return [(f"{ours}/kernel", f"{theirs}.weight", TRANSPOSED), (f"{ours}/bias", f"{theirs}.bias", SAME)]


def _layer_norm(ours: str, theirs: str) -> list[tuple]:
    return [(f"{ours}/gamma", f"{theirs}.weight", SAME), (f"{ours}/beta", f"{theirs}.bias", SAME)]


def _embeddings(prefix: str) -> list[tuple]:
    return [
        (form.TOKEN_EMBEDDINGS, f"{prefix}.embeddings.word_embeddings.weight", SAME),
        (form.POSITION_EMBEDDINGS, f"{prefix}.embeddings.position_embeddings.weight", SAME),
        (_SEGMENTS, f"{prefix}.embeddings.token_type_embeddings.weight", SAME),
        *_layer_norm("encoder/embeddings/layer_norm", f"{prefix}.embeddings.LayerNorm"),
    ]


def _bert_block(ours: str, theirs: str) -> list[tuple]:
    return [
        *_dense(f"{ours}/attention/query", f"{theirs}.attention.self.query"),
        *_dense(f"{ours}/attention/key", f"{theirs}.attention.self.key"),
        *_dense(f"{ours}/attention/value", f"{theirs}.attention.self.value"),
        *_dense(f"{ours}/attention/output_dense", f"{theirs}.attention.output.dense"),
        *_layer_norm(f"{ours}/attention_layer_norm", f"{theirs}.attention.output.LayerNorm"),
        *_dense(f"{ours}/intermediate_dense", f"{theirs}.intermediate.dense"),
        *_dense(f"{ours}/output_dense", f"{theirs}.output.dense"),
        *_layer_norm(f"{ours}/output_layer_norm", f"{theirs}.output.LayerNorm"),
    ]


def _albert_block(ours: str, theirs: str) -> list[tuple]:
    return [
        *_dense(f"{ours}/attention/query", f"{theirs}.attention.query"),
        *_dense(f"{ours}/attention/key", f"{theirs}.attention.key"),
        *_dense(f"{ours}/attention/value", f"{theirs}.attention.value"),
        *_dense(f"{ours}/attention/output_dense", f"{theirs}.attention.dense"),
        *_layer_norm(f"{ours}/attention_layer_norm", f"{theirs}.attention.LayerNorm"),
        *_dense(f"{ours}/intermediate_dense", f"{theirs}.ffn"),
        *_dense(f"{ours}/output_dense", f"{theirs}.ffn_output"),
        *_layer_norm(f"{ours}/output_layer_norm", f"{theirs}.full_layer_layer_norm"),
    ]


def _distilbert_block(ours: str, theirs: str) -> list[tuple]:
    return [
        *_dense(f"{ours}/attention/query", f"{theirs}.attention.q_lin"),
        *_dense(f"{ours}/attention/key", f"{theirs}.attention.k_lin"),
        *_dense(f"{ours}/attention/value", f"{theirs}.attention.v_lin"),
        *_dense(f"{ours}/attention/output_dense", f"{theirs}.attention.out_lin"),
        *_layer_norm(f"{ours}/attention_layer_norm", f"{theirs}.sa_layer_norm"),
        *_dense(f"{ours}/intermediate_dense", f"{theirs}.ffn.lin1"),
        *_dense(f"{ours}/output_dense", f"{theirs}.ffn.lin2"),
        *_layer_norm(f"{ours}/output_layer_norm", f"{theirs}.output_layer_norm"),
    ]


def _masked_lm(dense: str, layer_norm: str, bias: str, decoder: str) -> list[tuple]:
    return [
        *_dense("masked_lm_head/dense", dense),
        *_layer_norm("masked_lm_head/layer_norm", layer_norm),
        (form.OUTPUT_BIAS, bias, SAME),
        (form.OUTPUT_EMBEDDINGS, f"{decoder}.weight", SAME),
    ]


def _bert_encoder(config: BertConfig) -> list[tuple]:
    return [*_embeddings("bert"), *_bert_block(_LAYER, "bert.encoder.layer.*"), *_dense(_POOLER, "bert.pooler.dense")]


def _roberta_encoder(config: BertConfig) -> list[tuple]:
    return [*_embeddings("roberta"), *_bert_block(_LAYER, "roberta.encoder.layer.*")]


def _albert_encoder(config: BertConfig) -> list[tuple]:
    rows = [
        *_embeddings("albert"),
        *_dense("encoder/embeddings/projection", "albert.encoder.embedding_hidden_mapping_in"),
        *_dense(_POOLER, "albert.pooler"),
    ]
    for number in range(config.num_blocks):
        group, inner = divmod(number, config.inner_group_num)
        theirs = f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}"
        rows += _albert_block(f"encoder/layer_{number}", theirs)
    return rows


def _distilbert_encoder(config: BertConfig) -> list[tuple]:
    return [*_embeddings("distilbert"), *_distilbert_block(_LAYER, "distilbert.transformer.layer.*")]


def _electra_encoder(config: BertConfig) -> list[tuple]:
    return [
        *_embeddings("electra"),
        *_dense("encoder/embeddings/projection", "electra.embeddings_project"),
        *_bert_block(_LAYER, "electra.encoder.layer.*"),
    ]


@dataclasses.dataclass(frozen=True)
class HuggingFaceNames:
    """The names of a family in transformers.

    Attributes:
        prefix: where its encoder is in models with a head, and the start of `classes`' names with other capitals.
        classes: what its class names start with.
        encoder: config -> rows of the encoder.
        masked_lm: rows of the masked-LM head.
        next_sentence: the layer that tells whether sentences follow each other, or "".
        poolers: head ("" is the bare encoder) -> the dense layer that computes what our pooler does.
        outputs: head -> its output layer; `classifier` where it is not here.
        decoder_bias: a second name of the bias of the masked-LM head, or "".
    """

    prefix: str
    classes: str
    encoder: Callable[[BertConfig], list[tuple]]
    masked_lm: list[tuple]
    next_sentence: str = ""
    poolers: dict[str, str] = dataclasses.field(default_factory=dict)
    outputs: dict[str, str] = dataclasses.field(default_factory=dict)
    decoder_bias: str = ""

    def table(self, config: BertConfig, head: str | None) -> NameTable:
        """Returns the names of a model with this head, None: of an encoder or a language model.

        `classifier` is a name of several heads there.
        """
        rows = [*self.encoder(config), *self.masked_lm, *_dense(form.SPAN_CLASSIFIER, "qa_outputs")]
        if self.next_sentence:
            rows += _dense(form.NEXT_SENTENCE, self.next_sentence)
        pooler = self.poolers.get(head or "", self.poolers.get(""))
        if pooler:
            rows += _dense(_POOLER, pooler)
        return NameTable([*rows, *_dense(head or form.CLASSIFIER, self.outputs.get(head, "classifier"))])


_OWN_POOLER = {form.CLASSIFIER: "classifier.out_proj"}
NAMES: dict[str, HuggingFaceNames] = {
    "bert": HuggingFaceNames(
        prefix="bert",
        classes="Bert",
        encoder=_bert_encoder,
        masked_lm=_masked_lm(
            "cls.predictions.transform.dense",
            "cls.predictions.transform.LayerNorm",
            "cls.predictions.bias",
            "cls.predictions.decoder",
        ),
        next_sentence="cls.seq_relationship",
        decoder_bias="cls.predictions.decoder.bias",
    ),
    "roberta": HuggingFaceNames(
        prefix="roberta",
        classes="Roberta",
        encoder=_roberta_encoder,
        masked_lm=_masked_lm("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder"),
        poolers={"": "roberta.pooler.dense", form.CLASSIFIER: "classifier.dense"},
        outputs=_OWN_POOLER,
        decoder_bias="lm_head.decoder.bias",
    ),
    "albert": HuggingFaceNames(
        prefix="albert",
        classes="Albert",
        encoder=_albert_encoder,
        masked_lm=_masked_lm("predictions.dense", "predictions.LayerNorm", "predictions.bias", "predictions.decoder"),
        next_sentence="sop_classifier.classifier",
        decoder_bias="predictions.decoder.bias",
    ),
    "distilbert": HuggingFaceNames(
        prefix="distilbert",
        classes="DistilBert",
        encoder=_distilbert_encoder,
        masked_lm=_masked_lm("vocab_transform", "vocab_layer_norm", "vocab_projector.bias", "vocab_projector"),
        poolers={form.CLASSIFIER: "pre_classifier", form.MULTIPLE_CHOICE: "pre_classifier"},
    ),
    "electra": HuggingFaceNames(
        prefix="electra",
        classes="Electra",
        encoder=_electra_encoder,
        masked_lm=_masked_lm(
            "generator_predictions.dense",
            "generator_predictions.LayerNorm",
            "generator_lm_head.bias",
            "generator_lm_head",
        ),
        poolers={form.CLASSIFIER: "classifier.dense", form.MULTIPLE_CHOICE: "sequence_summary.summary"},
        outputs=_OWN_POOLER,
    ),
}
