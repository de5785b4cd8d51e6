"""What a family's weights, heads and classes are called in transformers and in Google's TensorFlow 1 files."""

import dataclasses
from collections.abc import Callable

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints import encoder_names
from keras_bert.checkpoints.encoder_names import LAYER, POOLER, PROJECTION
from keras_bert.checkpoints.name_table import AS_FIRST_ROWS, TRANSPOSED, NameTable
from keras_bert.checkpoints.weight_rows import Weight, dense, layer_norm, output
from keras_bert.config import BertConfig


def _masked_lm(transform: str, norm: str, bias: str, decoder: str, google: tuple = ("", "", "")) -> list[Weight]:
    return [
        *dense("masked_lm_head/dense", transform, google[0]),
        *layer_norm("masked_lm_head/layer_norm", norm, google[1]),
        Weight(form.OUTPUT_BIAS, bias, google[2]),
        Weight(form.OUTPUT_EMBEDDINGS, f"{decoder}.weight"),
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
        last_layer = self.outputs.get(head, "qa_outputs" if head == form.SPAN_CLASSIFIER else "classifier")
        rows = [
            *self.poolers.get(head or "", self.poolers.get("", [])),
            *dense(head or form.CLASSIFIER, last_layer),
        ]
        names = {row.hugging_face for row in rows}
        rows += [row for row in self._weights(config) if row.hugging_face not in names]
        return NameTable((row.ours, row.hugging_face, row.hugging_face_layout) for row in rows if row.hugging_face)

    def google(self, config: BertConfig, head: str) -> NameTable:
        """Returns the names in TensorFlow 1. Google's scripts name the last layer of every task `output_weights`."""
        rows = [*self._weights(config), *output(head, "", ""), *self._generator(config)]
        return NameTable((row.ours, row.google, row.google_layout) for row in rows if row.google)

    def _generator(self, config: BertConfig) -> list[Weight]:
        """Returns the weights of ELECTRA's generator that it does not share with the discriminator."""
        own = [row for row in self.encoder(config) if row.ours.startswith((LAYER, PROJECTION))]
        rows = [*own, *self.masked_lm] if self.replaced_token else []
        own_encoder, prefix = f"{form.GENERATOR}/", f"{self.google_encoder}/"
        names = [
            (row.ours, own_encoder + row.google.removeprefix(prefix) if row in own else row.google) for row in rows
        ]
        return [Weight(f"{form.GENERATOR}/{ours}", google=google) for ours, google in names if google]

    def _weights(self, config: BertConfig) -> list[Weight]:
        rows = [*self.encoder(config), *self.masked_lm, *self.replaced_token]
        rows += output(form.SPAN_CLASSIFIER, "qa_outputs", "cls/squad/")
        if self.next_sentence:
            rows += output(form.NEXT_SENTENCE, self.next_sentence, "cls/seq_relationship/")
        return rows


def _poolers(**names: str) -> dict[str, list[Weight]]:
    """Returns head -> the weights of a pooler that is one dense layer; `bare` is the encoder without a head."""
    return {"" if head == "bare" else head: dense(POOLER, name) for head, name in names.items()}


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
        encoder=encoder_names.bert,
        masked_lm=_masked_lm(*_BERT_PREDICTIONS, _CLS_PREDICTIONS),
        next_sentence="cls.seq_relationship",
        decoder_bias="cls.predictions.decoder.bias",
        google_encoder="bert",
    ),
    "roberta": FamilyNames(
        prefix="roberta",
        classes="Roberta",
        encoder=encoder_names.roberta,
        masked_lm=_masked_lm("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder"),
        poolers=_poolers(bare="roberta.pooler.dense", classifier="classifier.dense"),
        outputs=_OWN_POOLER,
        decoder_bias="lm_head.decoder.bias",
    ),
    "albert": FamilyNames(
        prefix="albert",
        classes="Albert",
        encoder=encoder_names.albert,
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
        encoder=encoder_names.distilbert,
        masked_lm=_masked_lm("vocab_transform", "vocab_layer_norm", "vocab_projector.bias", "vocab_projector"),
        poolers=_poolers(classifier="pre_classifier", choice_scorer="pre_classifier"),
    ),
    "electra": FamilyNames(
        prefix="electra",
        classes="Electra",
        encoder=encoder_names.electra,
        masked_lm=_masked_lm(
            "generator_predictions.dense",
            "generator_predictions.LayerNorm",
            "generator_lm_head.bias",
            "generator_lm_head",
            ("generator_predictions/dense", "generator_predictions/LayerNorm", "generator_predictions/output_bias"),
        ),
        replaced_token=[
            *dense(
                f"{form.REPLACED_TOKEN}/dense", "discriminator_predictions.dense", "discriminator_predictions/dense"
            ),
            *dense(
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
        encoder=encoder_names.longformer,
        masked_lm=_masked_lm("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder"),
        poolers=_poolers(bare="longformer.pooler.dense", classifier="classifier.dense"),
        outputs=_OWN_POOLER,
        decoder_bias="lm_head.decoder.bias",
    ),
    "big_bird": FamilyNames(
        prefix="bert",
        classes="BigBird",
        encoder=encoder_names.big_bird,
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
        encoder=encoder_names.mobile_bert,
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
        encoder=encoder_names.xlnet,
        masked_lm=_XLNET_HEAD,
        poolers=_poolers(classifier="sequence_summary.summary", choice_scorer="sequence_summary.summary"),
        outputs={form.CLASSIFIER: "logits_proj", form.MULTIPLE_CHOICE: "logits_proj"},
        google_encoder="model/transformer",
        renamed={"ForMaskedLM": "LMHeadModel", "ForQuestionAnswering": "ForQuestionAnsweringSimple"},
    ),
    "modernbert": FamilyNames(
        prefix="model",
        classes="ModernBert",
        encoder=encoder_names.modern_bert,
        masked_lm=_masked_lm("head.dense", "head.norm", "decoder.bias", "decoder"),
        poolers=dict.fromkeys(
            _TASKS, [*dense(POOLER, "head.dense"), *layer_norm(f"{form.POOLER}/layer_norm", "head.norm")]
        ),
        outputs=dict.fromkeys(_TASKS, "classifier"),
    ),
}
