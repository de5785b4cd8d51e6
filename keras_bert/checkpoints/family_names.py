"""The weights of each family: our names, the names and layouts in transformers and in Google's TensorFlow 1 files.
Reference: transformers, `models/{bert,roberta,albert,distilbert,electra,modernbert}/modeling_*.py`;
google-research/bert, /albert and /electra, `modeling.py`.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.name_table import AS_FIRST_ROWS, HEADS_LAST, HEADS_OUT, SAME, TRANSPOSED, NameTable
from keras_bert.config import BertConfig

_LAYER = "encoder/layer_*"
# Weights of XLNet's attention -> their names in transformers; Google's have those too, without a layer.
XLNET_ATTENTION = {
    "content_bias": "r_w_bias",
    "distance_bias": "r_r_bias",
    "segment_bias": "r_s_bias",
    "segment_embeddings": "seg_embed",
}
_SEGMENTS = "encoder/embeddings/segment_embeddings"
_POOLER = f"{form.POOLER}/dense"
_PROJECTION = "encoder/embeddings/projection"


class Weight(NamedTuple):
    """The names of a weight in three formats. `*` stands for the number of a layer; "" means that there is no name.

    Attributes:
        ours: our name.
        hugging_face, google: the names in transformers and in TensorFlow 1.
        hugging_face_layout, google_layout: the layouts there, see `name_table`.
    """

    ours: str
    hugging_face: str = ""
    google: str = ""
    hugging_face_layout: str = SAME
    google_layout: str = SAME


def _dense(ours: str, hugging_face: str, google: str = "") -> list[Weight]:
    return [
        Weight(f"{ours}/kernel", f"{hugging_face}.weight", google and f"{google}/kernel", TRANSPOSED),
        Weight(f"{ours}/bias", f"{hugging_face}.bias", google and f"{google}/bias"),
    ]


def _output(ours: str, hugging_face: str, google: str) -> list[Weight]:
    """Returns the weights of a task's last layer. Google stores its kernel as [classes, inputs]."""
    return [
        Weight(f"{ours}/kernel", f"{hugging_face}.weight", f"{google}output_weights", TRANSPOSED, TRANSPOSED),
        Weight(f"{ours}/bias", f"{hugging_face}.bias", f"{google}output_bias"),
    ]


def _layer_norm(ours: str, hugging_face: str, google: str = "") -> list[Weight]:
    return [
        Weight(f"{ours}/gamma", f"{hugging_face}.weight", google and f"{google}/gamma"),
        Weight(f"{ours}/beta", f"{hugging_face}.bias", google and f"{google}/beta"),
    ]


def _embeddings(prefix: str, google: str = "") -> list[Weight]:
    def table(ours: str, theirs: str) -> Weight:
        return Weight(ours, f"{prefix}.embeddings.{theirs}.weight", google and f"{google}/embeddings/{theirs}")

    return [
        table(form.TOKEN_EMBEDDINGS, "word_embeddings"),
        table(form.POSITION_EMBEDDINGS, "position_embeddings"),
        table(_SEGMENTS, "token_type_embeddings"),
        *_layer_norm(
            "encoder/embeddings/layer_norm",
            f"{prefix}.embeddings.LayerNorm",
            google and f"{google}/embeddings/LayerNorm",
        ),
    ]


def _bert_block(prefix: str, google: str = "") -> list[Weight]:
    theirs, google = f"{prefix}.encoder.layer.*", google and f"{google}/encoder/layer_*"

    def names(part: str) -> tuple[str, str]:
        return f"{theirs}.{part.replace('/', '.')}", google and f"{google}/{part}"

    return [
        *_dense(f"{_LAYER}/attention/query", *names("attention/self/query")),
        *_dense(f"{_LAYER}/attention/key", *names("attention/self/key")),
        *_dense(f"{_LAYER}/attention/value", *names("attention/self/value")),
        *_dense(f"{_LAYER}/attention/output_dense", *names("attention/output/dense")),
        *_layer_norm(f"{_LAYER}/attention_layer_norm", *names("attention/output/LayerNorm")),
        *_dense(f"{_LAYER}/intermediate_dense", *names("intermediate/dense")),
        *_dense(f"{_LAYER}/output_dense", *names("output/dense")),
        *_layer_norm(f"{_LAYER}/output_layer_norm", *names("output/LayerNorm")),
    ]


def _albert_block(number: int, group: int, inner: int) -> list[Weight]:
    ours = f"encoder/layer_{number}"
    theirs = f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}"
    google = f"bert/encoder/transformer/group_{group}/inner_group_{inner}"
    return [
        *_dense(f"{ours}/attention/query", f"{theirs}.attention.query", f"{google}/attention_1/self/query"),
        *_dense(f"{ours}/attention/key", f"{theirs}.attention.key", f"{google}/attention_1/self/key"),
        *_dense(f"{ours}/attention/value", f"{theirs}.attention.value", f"{google}/attention_1/self/value"),
        *_dense(f"{ours}/attention/output_dense", f"{theirs}.attention.dense", f"{google}/attention_1/output/dense"),
        *_layer_norm(f"{ours}/attention_layer_norm", f"{theirs}.attention.LayerNorm", f"{google}/LayerNorm"),
        *_dense(f"{ours}/intermediate_dense", f"{theirs}.ffn", f"{google}/ffn_1/intermediate/dense"),
        *_dense(f"{ours}/output_dense", f"{theirs}.ffn_output", f"{google}/ffn_1/intermediate/output/dense"),
        *_layer_norm(f"{ours}/output_layer_norm", f"{theirs}.full_layer_layer_norm", f"{google}/LayerNorm_1"),
    ]


def _distilbert_block() -> list[Weight]:
    theirs = "distilbert.transformer.layer.*"
    return [
        *_dense(f"{_LAYER}/attention/query", f"{theirs}.attention.q_lin"),
        *_dense(f"{_LAYER}/attention/key", f"{theirs}.attention.k_lin"),
        *_dense(f"{_LAYER}/attention/value", f"{theirs}.attention.v_lin"),
        *_dense(f"{_LAYER}/attention/output_dense", f"{theirs}.attention.out_lin"),
        *_layer_norm(f"{_LAYER}/attention_layer_norm", f"{theirs}.sa_layer_norm"),
        *_dense(f"{_LAYER}/intermediate_dense", f"{theirs}.ffn.lin1"),
        *_dense(f"{_LAYER}/output_dense", f"{theirs}.ffn.lin2"),
        *_layer_norm(f"{_LAYER}/output_layer_norm", f"{theirs}.output_layer_norm"),
    ]


def _masked_lm(dense: str, layer_norm: str, bias: str, decoder: str, google: tuple = ("", "", "")) -> list[Weight]:
    return [
        *_dense("masked_lm_head/dense", dense, google[0]),
        *_layer_norm("masked_lm_head/layer_norm", layer_norm, google[1]),
        Weight(form.OUTPUT_BIAS, bias, google[2]),
        Weight(form.OUTPUT_EMBEDDINGS, f"{decoder}.weight"),
    ]


def _bert_encoder(config: BertConfig) -> list[Weight]:
    return [
        *_embeddings("bert", "bert"),
        *_bert_block("bert", "bert"),
        *_dense(_POOLER, "bert.pooler.dense", "bert/pooler/dense"),
    ]


def _roberta_encoder(config: BertConfig) -> list[Weight]:
    return [*_embeddings("roberta"), *_bert_block("roberta")]


def _longformer_encoder(config: BertConfig) -> list[Weight]:
    rows, theirs = [*_embeddings("longformer"), *_bert_block("longformer")], "longformer.encoder.layer.*.attention.self"
    for name in ("query_global", "key_global", "value_global"):
        rows += _dense(f"{_LAYER}/attention/{name}", f"{theirs}.{name}")
    return rows


def _big_bird_encoder(config: BertConfig) -> list[Weight]:
    return [*_embeddings("bert"), *_bert_block("bert")]


def _albert_encoder(config: BertConfig) -> list[Weight]:
    rows = [
        *_embeddings("albert", "bert"),
        *_dense(
            _PROJECTION,
            "albert.encoder.embedding_hidden_mapping_in",
            "bert/encoder/embedding_hidden_mapping_in",
        ),
        *_dense(_POOLER, "albert.pooler", "bert/pooler/dense"),
    ]
    for number in range(config.num_blocks):
        rows += _albert_block(number, *divmod(number, config.inner_group_num))
    return rows


def _distilbert_encoder(config: BertConfig) -> list[Weight]:
    return [*_embeddings("distilbert"), *_distilbert_block()]


def _electra_encoder(config: BertConfig) -> list[Weight]:
    return [
        *_embeddings("electra", "electra"),
        *_dense(_PROJECTION, "electra.embeddings_project", "electra/embeddings_project"),
        *_bert_block("electra", "electra"),
    ]


def _mobile_bert_encoder(config: BertConfig) -> list[Weight]:
    layer, last = "mobilebert.encoder.layer.*", config.num_feedforward_networks - 1
    rows = [
        *_embeddings("mobilebert"),
        *_dense("encoder/embeddings/transformation", "mobilebert.embeddings.embedding_transformation"),
        *_dense(f"{_LAYER}/output_bottleneck", f"{layer}.output.bottleneck.dense"),
        *_layer_norm(f"{_LAYER}/output_bottleneck_layer_norm", f"{layer}.output.bottleneck.LayerNorm"),
        *_layer_norm(f"{_LAYER}/attention_layer_norm", f"{layer}.attention.output.LayerNorm"),
        *_dense(f"{_LAYER}/attention/output_dense", f"{layer}.attention.output.dense"),
        *_dense(_POOLER, "mobilebert.pooler.dense"),
    ]
    for part in ("query", "key", "value"):
        rows += _dense(f"{_LAYER}/attention/{part}", f"{layer}.attention.self.{part}")
    for ours, theirs in (("input", "input"), ("shared", "attention")):
        rows += _dense(f"{_LAYER}/{ours}_bottleneck", f"{layer}.bottleneck.{theirs}.dense")
        rows += _layer_norm(f"{_LAYER}/{ours}_layer_norm", f"{layer}.bottleneck.{theirs}.LayerNorm")
    for net in range(last + 1):
        theirs = layer if net == last else f"{layer}.ffn.{net}"
        rows += _dense(f"{_LAYER}/intermediate_dense_{net}", f"{theirs}.intermediate.dense")
        rows += _dense(f"{_LAYER}/output_dense_{net}", f"{theirs}.output.dense")
        rows += _layer_norm(f"{_LAYER}/output_layer_norm_{net}", f"{theirs}.output.LayerNorm")
    return rows


def _modern_bert_encoder(config: BertConfig) -> list[Weight]:
    layer = "model.layers.*"
    return [
        Weight(form.TOKEN_EMBEDDINGS, "model.embeddings.tok_embeddings.weight"),
        *_layer_norm("encoder/embeddings/layer_norm", "model.embeddings.norm"),
        *_layer_norm(f"{_LAYER}/attention_layer_norm", f"{layer}.attn_norm"),
        *_dense(f"{_LAYER}/attention/qkv", f"{layer}.attn.Wqkv"),
        *_dense(f"{_LAYER}/attention/output_dense", f"{layer}.attn.Wo"),
        *_layer_norm(f"{_LAYER}/feed_forward_layer_norm", f"{layer}.mlp_norm"),
        *_dense(f"{_LAYER}/intermediate_dense", f"{layer}.mlp.Wi"),
        *_dense(f"{_LAYER}/output_dense", f"{layer}.mlp.Wo"),
        *_layer_norm("encoder/final_layer_norm", "model.final_norm"),
    ]


def _xlnet_encoder(config: BertConfig) -> list[Weight]:
    # Google's files have the biases of all layers in one variable, which `xlnet_files.py` divides.
    theirs, google, ours = "transformer.layer.*", "model/transformer/layer_*", f"{_LAYER}/attention"
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
        *_layer_norm(f"{_LAYER}/attention_layer_norm", f"{theirs}.rel_attn.layer_norm", f"{google}/rel_attn/LayerNorm"),
        *_dense(f"{_LAYER}/intermediate_dense", f"{theirs}.ff.layer_1", f"{google}/ff/layer_1"),
        *_dense(f"{_LAYER}/output_dense", f"{theirs}.ff.layer_2", f"{google}/ff/layer_2"),
        *_layer_norm(f"{_LAYER}/output_layer_norm", f"{theirs}.ff.layer_norm", f"{google}/ff/LayerNorm"),
        # The first name is misspelt in Google's code.
        Weight(f"{_POOLER}/kernel", google="model/sequnece_summary/summary/kernel"),
        Weight(f"{_POOLER}/bias", google="model/sequnece_summary/summary/bias"),
    ]


_BERT_PREDICTIONS = (
    "cls.predictions.transform.dense",
    "cls.predictions.transform.LayerNorm",
    "cls.predictions.bias",
    "cls.predictions.decoder",
)
_CLS_PREDICTIONS = (
    "cls/predictions/transform/dense",
    "cls/predictions/transform/LayerNorm",
    "cls/predictions/output_bias",
)


@dataclasses.dataclass(frozen=True)
class FamilyNames:
    """The names of a family's weights and classes in other formats.

    Attributes:
        prefix: the prefix of encoder weights in transformers' models with a head.
        classes: the prefix of class names in transformers.
        encoder: config -> the weights of the encoder.
        masked_lm: the weights of the masked-LM head.
        replaced_token: the weights of the head of ELECTRA's discriminator.
        next_sentence: the next-sentence layer in transformers, or "".
        poolers: head ("" is the bare encoder) -> the weights of our pooler, named as in transformers.
        outputs: head -> its output layer in transformers; by default `qa_outputs` for questions, else `classifier`.
        decoder_bias: a second name of the bias of the masked-LM head in transformers, or "".
        google_encoder: the prefix of encoder weights in Google's TensorFlow 1 files; "" if Google published none.
        renamed: the end of a class name in transformers' other families -> that in this one.
        classifier_has_hidden_act: whether the dense layer of a classifier in transformers has `hidden_act`, and other
            poolers tanh.
    """

    prefix: str
    classes: str
    encoder: Callable[[BertConfig], list[Weight]]
    masked_lm: list[Weight]
    replaced_token: list[Weight] = dataclasses.field(default_factory=list)
    next_sentence: str = ""
    poolers: dict[str, list[Weight]] = dataclasses.field(default_factory=dict)
    outputs: dict[str, str] = dataclasses.field(default_factory=dict)
    decoder_bias: str = ""
    google_encoder: str = ""
    renamed: dict[str, str] = dataclasses.field(default_factory=dict)
    classifier_has_hidden_act: bool = False

    def hugging_face(self, config: BertConfig, head: str | None) -> NameTable:
        """Returns the names in transformers of a model with this head; None for an encoder or a language model.

        The head must be given, since transformers calls several heads `classifier`, and the pooler of ModernBERT as
        the dense layer of its masked-LM head.
        """
        output = self.outputs.get(head, "qa_outputs" if head == form.SPAN_CLASSIFIER else "classifier")
        rows = [
            *self.poolers.get(head or "", self.poolers.get("", [])),
            *_dense(head or form.CLASSIFIER, output),
        ]
        names = {row.hugging_face for row in rows}
        rows += [row for row in self._weights(config) if row.hugging_face not in names]
        return NameTable((row.ours, row.hugging_face, row.hugging_face_layout) for row in rows if row.hugging_face)

    def google(self, config: BertConfig, head: str) -> NameTable:
        """Returns the names in TensorFlow 1. Google's scripts name the last layer of every task `output_weights`."""
        rows = [*self._weights(config), *_output(head, "", ""), *self._generator(config)]
        return NameTable((row.ours, row.google, row.google_layout) for row in rows if row.google)

    def _generator(self, config: BertConfig) -> list[Weight]:
        """Returns the weights of ELECTRA's generator that it does not share with the discriminator."""
        own = [row for row in self.encoder(config) if row.ours.startswith((_LAYER, _PROJECTION))]
        rows = [*own, *self.masked_lm] if self.replaced_token else []
        own_encoder, prefix = f"{form.GENERATOR}/", f"{self.google_encoder}/"
        names = [
            (row.ours, own_encoder + row.google.removeprefix(prefix) if row in own else row.google) for row in rows
        ]
        return [Weight(f"{form.GENERATOR}/{ours}", google=google) for ours, google in names if google]

    def _weights(self, config: BertConfig) -> list[Weight]:
        rows = [*self.encoder(config), *self.masked_lm, *self.replaced_token]
        rows += _output(form.SPAN_CLASSIFIER, "qa_outputs", "cls/squad/")
        if self.next_sentence:
            rows += _output(form.NEXT_SENTENCE, self.next_sentence, "cls/seq_relationship/")
        return rows


def _poolers(**names: str) -> dict[str, list[Weight]]:
    """Returns head -> the weights of a pooler that is one dense layer; `bare` is the encoder without a head."""
    return {"" if head == "bare" else head: _dense(_POOLER, name) for head, name in names.items()}


_XLNET_HEAD = [
    Weight(
        form.MASK_EMBEDDING,
        "transformer.mask_emb",
        "model/transformer/mask_emb/mask_emb",
        AS_FIRST_ROWS,
        AS_FIRST_ROWS,
    ),
    Weight(form.OUTPUT_BIAS, "lm_loss.bias", "model/lm_loss/bias"),
    Weight(form.OUTPUT_EMBEDDINGS, "lm_loss.weight"),
]
_OWN_POOLER = {form.CLASSIFIER: "classifier.out_proj"}
_TASKS = (form.CLASSIFIER, form.TOKEN_CLASSIFIER, form.SPAN_CLASSIFIER, form.MULTIPLE_CHOICE)
NAMES: dict[str, FamilyNames] = {
    "bert": FamilyNames(
        prefix="bert",
        classes="Bert",
        encoder=_bert_encoder,
        masked_lm=_masked_lm(*_BERT_PREDICTIONS, _CLS_PREDICTIONS),
        next_sentence="cls.seq_relationship",
        decoder_bias="cls.predictions.decoder.bias",
        google_encoder="bert",
    ),
    "roberta": FamilyNames(
        prefix="roberta",
        classes="Roberta",
        encoder=_roberta_encoder,
        masked_lm=_masked_lm("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder"),
        poolers=_poolers(bare="roberta.pooler.dense", classifier="classifier.dense"),
        outputs=_OWN_POOLER,
        decoder_bias="lm_head.decoder.bias",
    ),
    "albert": FamilyNames(
        prefix="albert",
        classes="Albert",
        encoder=_albert_encoder,
        masked_lm=_masked_lm(
            "predictions.dense",
            "predictions.LayerNorm",
            "predictions.bias",
            "predictions.decoder",
            _CLS_PREDICTIONS,
        ),
        next_sentence="sop_classifier.classifier",
        decoder_bias="predictions.decoder.bias",
        google_encoder="bert",
    ),
    "distilbert": FamilyNames(
        prefix="distilbert",
        classes="DistilBert",
        encoder=_distilbert_encoder,
        masked_lm=_masked_lm("vocab_transform", "vocab_layer_norm", "vocab_projector.bias", "vocab_projector"),
        poolers=_poolers(classifier="pre_classifier", choice_scorer="pre_classifier"),
    ),
    "electra": FamilyNames(
        prefix="electra",
        classes="Electra",
        encoder=_electra_encoder,
        masked_lm=_masked_lm(
            "generator_predictions.dense",
            "generator_predictions.LayerNorm",
            "generator_lm_head.bias",
            "generator_lm_head",
            ("generator_predictions/dense", "generator_predictions/LayerNorm", "generator_predictions/output_bias"),
        ),
        replaced_token=[
            *_dense(
                f"{form.REPLACED_TOKEN}/dense", "discriminator_predictions.dense", "discriminator_predictions/dense"
            ),
            *_dense(
                f"{form.REPLACED_TOKEN}/output_dense",
                "discriminator_predictions.dense_prediction",
                "discriminator_predictions/dense_1",
            ),
        ],
        google_encoder="electra",
        poolers=_poolers(classifier="classifier.dense", choice_scorer="sequence_summary.summary"),
        outputs=_OWN_POOLER,
    ),
    "longformer": FamilyNames(
        prefix="longformer",
        classes="Longformer",
        encoder=_longformer_encoder,
        masked_lm=_masked_lm("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder"),
        poolers=_poolers(bare="longformer.pooler.dense", classifier="classifier.dense"),
        outputs=_OWN_POOLER,
        decoder_bias="lm_head.decoder.bias",
    ),
    "big_bird": FamilyNames(
        prefix="bert",
        classes="BigBird",
        encoder=_big_bird_encoder,
        masked_lm=_masked_lm(*_BERT_PREDICTIONS),
        next_sentence="cls.seq_relationship",
        poolers=_poolers(bare="bert.pooler", classifier="classifier.dense"),
        classifier_has_hidden_act=True,
        outputs=_OWN_POOLER,
        decoder_bias="cls.predictions.decoder.bias",
    ),
    "mobilebert": FamilyNames(
        prefix="mobilebert",
        classes="MobileBert",
        encoder=_mobile_bert_encoder,
        masked_lm=[
            *_masked_lm(*_BERT_PREDICTIONS),
            Weight(form.EXTRA_OUTPUT_EMBEDDINGS, "cls.predictions.dense.weight", hugging_face_layout=TRANSPOSED),
        ],
        next_sentence="cls.seq_relationship",
        decoder_bias="cls.predictions.decoder.bias",
    ),
    "xlnet": FamilyNames(
        prefix="transformer",
        classes="XLNet",
        encoder=_xlnet_encoder,
        masked_lm=_XLNET_HEAD,
        poolers=_poolers(classifier="sequence_summary.summary", choice_scorer="sequence_summary.summary"),
        outputs={form.CLASSIFIER: "logits_proj", form.MULTIPLE_CHOICE: "logits_proj"},
        google_encoder="model/transformer",
        renamed={"ForMaskedLM": "LMHeadModel", "ForQuestionAnswering": "ForQuestionAnsweringSimple"},
    ),
    "modernbert": FamilyNames(
        prefix="model",
        classes="ModernBert",
        encoder=_modern_bert_encoder,
        masked_lm=_masked_lm("head.dense", "head.norm", "decoder.bias", "decoder"),
        poolers=dict.fromkeys(
            _TASKS, [*_dense(_POOLER, "head.dense"), *_layer_norm(f"{form.POOLER}/layer_norm", "head.norm")]
        ),
        outputs=dict.fromkeys(_TASKS, "classifier"),
    ),
}
