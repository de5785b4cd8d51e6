"""`ElectraPretrainer`: a generator replaces tokens, a discriminator finds them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops, random

from keras_bert.checkpoints.checkpoint import GENERATOR, MASKED_LM, TOKEN_DIFFERENCE, TOKEN_EMBEDDINGS, BertCheckpoint
from keras_bert.config import BertConfig
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.layers.token_replacement import draw_tokens, put_tokens
from keras_bert.models.encoder_base import encoder_class
from keras_bert.models.losses import LossTerm
from keras_bert.models.task_model import FeatureModel
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_number
from keras_bert.records import features
from keras_bert.tasks.masked_lm.model import MaskedLM
from keras_bert.tasks.pretraining.replaced_token_detector import ReplacedTokenDetector

# Evaluations always draw the same tokens, and leave the random state of the training as it is.
_EVALUATION_SEED = 0
# The sizes of the generator, as fractions of the discriminator's.
_FRACTIONS = {"generator_hidden_size": 0.25, "generator_layers": 1.0}


@keras.saving.register_keras_serializable(package="keras_bert")
class ElectraPretrainer(FeatureModel):
    """Pre-trains an encoder to find replaced tokens (ELECTRA).

    A small masked LM, the generator, predicts the masked tokens of a row. A token drawn from each of its predictions
    replaces the masked one. The discriminator predicts for every token whether it differs from the original one, so a
    drawn token that is the original one counts as original. Both models share their embedding tables. In a DeBERTa they
    share that of tokens only, which the generator trains; the discriminator trains what it adds to it.

    The loss is that of the generator plus `disc_weight` times the mean binary cross-entropy over all tokens that are
    not padding. Labels of next sentences are ignored. `fit` and `evaluate` report `loss`, `masked_lm_loss`,
    `masked_lm_accuracy`, `sampled_masked_lm_accuracy` (how often the drawn token is the original one), and of the
    discriminator `disc_loss`, `disc_accuracy`, `disc_precision`, `disc_recall` and `disc_entropy`: the entropy of the
    share of replaced tokens, which is the `disc_loss` of a discriminator that knows this share only.

    Args:
        config: the `BertConfig` of the discriminator, of a family with BERT's or DeBERTa's embeddings.
        generator_hidden_size: the hidden size of the generator, as a fraction of the discriminator's.
        generator_layers: the number of its layers, as a fraction of the discriminator's.
        disc_weight: the weight of the discriminator's loss.
        temperature: the logits of the generator are divided by it before tokens are drawn; 0: no draw, the most
            probable token.

    Call arguments:
        inputs: the features of a pre-training record with its labels: `input_ids`, `input_mask`, `segment_ids`, int
            `[B, S]` (see `BertEncoder`), `masked_lm_positions`, `masked_lm_ids` and `masked_lm_weights`, `[B, P]`.
            Other keys are ignored.
        training: whether to apply dropout, and to draw other tokens in every call.

    Returns:
        dictionary of the generator's `masked_lm_logits`, float32 `[B, P, vocab_size]`; the drawn `sampled_ids`, int32
        `[B, P]`; the discriminator's `disc_logits`, float32 `[B, S]`, and its labels `is_replaced`, int32 `[B, S]`.

    Raises:
        InputError: an argument is out of range, or the family has other embeddings.

    Example:
        model = ElectraPretrainer(BertConfig.from_size("electra-small"))
        model.compile(optimizer=AdamW(5e-4))
        model.fit(pretraining_dataset("records", batch_size=128, vocabulary=vocabulary))
        model.discriminator.save_pretrained("discriminator")
        model.generator.save_pretrained("generator")

    Reference: Clark et al., 2020, arXiv 2003.10555; google-research/electra `run_pretraining.py`, whose names the
    arguments and metrics have; He et al., 2021, arXiv 2111.09543, section 3.2, for DeBERTa.
    """

    kind = "ElectraPretrainer"
    feature_names = (
        *FeatureModel.feature_names,
        features.MASKED_LM_POSITIONS,
        features.MASKED_LM_IDS,
        features.MASKED_LM_WEIGHTS,
    )
    has_token_outputs = True
    uses_pooler = False
    counts_weights = True
    loss_names = ("masked_lm_loss", "disc_loss")
    metrics_refusal = (
        "ElectraPretrainer reports the metrics of its generator and discriminator; Keras' metrics cannot see its "
        "labels."
    )
    metric_names = (
        "masked_lm_accuracy",
        "sampled_masked_lm_accuracy",
        "disc_accuracy",
        "disc_precision",
        "disc_recall",
        "disc_entropy",
    )
    # As `BertPretrainer.masking`. ELECTRA has no random tokens: a masked token becomes [MASK] or stays.
    masking = {"mask_share": 0.85, "random_share": 0.0}

    def __init__(
        self,
        config: BertConfig,
        *,
        generator_hidden_size: float = _FRACTIONS["generator_hidden_size"],
        generator_layers: float = _FRACTIONS["generator_layers"],
        disc_weight: float = 50.0,
        temperature: float = 1.0,
        **kwargs: Any,
    ):
        super().__init__(config, **kwargs)
        check_number("disc_weight", disc_weight, above=0)
        check_number("temperature", temperature, at_least=0)
        encoder = encoder_class(config)
        adds_to_tables = getattr(encoder, "adds_to_tables", False)
        # MobileBERT has other embeddings, ModernBERT and XLNet another class.
        if not adds_to_tables and getattr(encoder, "_new_embeddings", None) is not BertEncoder._new_embeddings:
            raise InputError(
                f"A generator cannot share the embeddings of the family {config.model_type!r}. Use a config of another "
                "family, such as electra."
            )
        self.generator_hidden_size, self.generator_layers = generator_hidden_size, generator_layers
        self.disc_weight, self.temperature = disc_weight, temperature
        small, dtype = generator_config(config, generator_hidden_size, generator_layers), self.dtype_policy
        if adds_to_tables:
            self.generator = MaskedLM(small, dtype=dtype, name="generator")
            tables = self.generator.encoder.embeddings
            self.discriminator = ReplacedTokenDetector(config, tables_of=tables, dtype=dtype, name="discriminator")
        else:
            self.discriminator = ReplacedTokenDetector(config, dtype=dtype, name="discriminator")
            tables = self.encoder.embeddings
            self.generator = MaskedLM(small, tables_of=tables, dtype=dtype, name="generator")
        self.seed_generator = random.SeedGenerator()
        self.built = True  # its models are built

    @property
    def encoder(self) -> Any:
        """The encoder of the discriminator."""
        return self.discriminator.encoder

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of both models, or None."""
        return self.discriminator.tokenizer

    @tokenizer.setter
    def tokenizer(self, tokenizer: Any) -> None:
        self.generator.tokenizer = self.discriminator.tokenizer = tokenizer
        self.config = self.config.with_casing_of(self.tokenizer)

    @staticmethod
    def narrowest(config: BertConfig, arguments: Mapping) -> tuple[BertConfig, dict]:
        """Returns the config and the arguments of the smallest model whose weights have the same names.

        Projections follow from unequal widths, so the smallest width becomes 1, the next one 2.
        """
        hidden_size, layers = (arguments.get(name, default) for name, default in _FRACTIONS.items())
        generator = generator_config(config, hidden_size, layers)
        table_width = config.embedding_size or config.hidden_size
        widths = sorted({generator.hidden_size, table_width, config.hidden_size})
        sizes = {width: number for number, width in enumerate(widths, start=1)}
        narrow = config.narrowest().replace(
            hidden_size=sizes[config.hidden_size],
            embedding_size=sizes[table_width],
            embedding_projection=config.embedding_projection,
        )
        fraction = sizes[generator.hidden_size] / sizes[config.hidden_size]
        fractions = (fraction, 0.5 if generator.num_hidden_layers == 1 else 1.0)
        return narrow, {**arguments, **dict(zip(_FRACTIONS, fractions, strict=True))}

    def call(self, inputs: Any, training: bool = False) -> Any:
        masked_lm_logits = self.generator(inputs, training=training)["masked_lm_logits"]
        seed = self.seed_generator if training else _EVALUATION_SEED
        sampled_ids = draw_tokens(masked_lm_logits, self.temperature, seed)
        columns, ids = (
            ops.cast(inputs[name], "int32") for name in (features.MASKED_LM_POSITIONS, features.MASKED_LM_IDS)
        )
        is_used = ops.cast(inputs[features.MASKED_LM_WEIGHTS], "float32") > 0
        original = put_tokens(ops.cast(inputs[features.INPUT_IDS], "int32"), columns, ids, is_used)
        replaced = put_tokens(original, columns, sampled_ids, is_used)
        return {
            "masked_lm_logits": masked_lm_logits,
            "sampled_ids": sampled_ids,
            "disc_logits": self.discriminator({**inputs, features.INPUT_IDS: replaced}, training=training),
            "is_replaced": ops.cast(ops.not_equal(original, replaced), "int32"),
        }

    def loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        generator_terms = self.generator.loss_terms(x, None, y_pred, sample_weight)
        (term,) = self.discriminator.loss_terms(x, y_pred["is_replaced"], y_pred["disc_logits"], sample_weight)
        return [*generator_terms, LossTerm("disc_loss", self.disc_weight * term.numerator, term.weight)]

    def metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        (accuracy,) = self.generator.metric_terms(x, None, y_pred, sample_weight)
        ids, weights = self.generator._labels(x, sample_weight)
        is_same = ops.cast(ops.equal(y_pred["sampled_ids"], ops.cast(ids, "int32")), weights.dtype)
        of_discriminator = (x, y_pred["is_replaced"], y_pred["disc_logits"], sample_weight)
        logits, labels, tokens = self.discriminator._labels(*of_discriminator)
        labels = ops.cast(labels[..., 0], tokens.dtype)
        found = ops.cast(logits[..., 0] > 0, tokens.dtype)
        (disc_accuracy,) = self.discriminator.metric_terms(*of_discriminator)
        num_right = ops.sum(labels * found * tokens)
        return [
            accuracy,
            LossTerm("sampled_masked_lm_accuracy", ops.sum(is_same * weights), ops.sum(weights)),
            dataclasses.replace(disc_accuracy, name="disc_accuracy"),
            LossTerm("disc_precision", num_right, ops.sum(found * tokens)),
            LossTerm("disc_recall", num_right, ops.sum(labels * tokens)),
            LossTerm("disc_entropy", ops.sum(labels * tokens), ops.sum(tokens)),  # the share, see below
        ]

    def get_metrics_result(self) -> dict[str, Any]:
        results = super().get_metrics_result()
        results["disc_loss"] = results["disc_loss"] / self.disc_weight
        share = results["disc_entropy"]
        results["disc_entropy"] = -sum(part * ops.log(ops.maximum(part, 1e-30)) for part in (share, 1 - share))
        return results

    def get_config(self) -> dict[str, Any]:
        names = (*_FRACTIONS, "disc_weight", "temperature")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def generator_config(config: BertConfig, hidden_size: float, layers: float) -> BertConfig:
    """Returns the config of a generator, whose hidden size and layers are fractions of the discriminator's.

    Raises `InputError` if a fraction is not above 0 and at most 1, or the hidden size does not fit the number of heads.

    Reference: google-research/electra `run_pretraining.py`, `get_generator_config`.
    """
    for name, value in (("generator_hidden_size", hidden_size), ("generator_layers", layers)):
        check_number(name, value, above=0, at_most=1)
    width = max(1, round(config.hidden_size * hidden_size))
    return config.replace(
        hidden_size=width,
        num_hidden_layers=max(1, round(config.num_hidden_layers * layers)),
        intermediate_size=4 * width,
        num_attention_heads=max(1, width // 64),
        embedding_size=config.embedding_size,
        embedding_projection=None,
        num_hidden_groups=None,
        inner_group_num=1,
    )


def start(model_class: type, checkpoint: BertCheckpoint, arguments: Mapping) -> tuple[dict, BertCheckpoint]:
    """Returns the arguments, and the checkpoint with its own masked LM as the generator of an ELECTRA of equal size.

    A discriminator that adds to the table of tokens begins with zeros.
    """
    if checkpoint.model_class is model_class:
        return dict(arguments), checkpoint
    tensors, config = dict(checkpoint.tensors), checkpoint.config
    sizes = [arguments.get(name, 0) for name in ("generator_hidden_size", "generator_layers")]
    if MASKED_LM in checkpoint.heads and sizes[0] == 1 and generator_config(config, 1, sizes[1] or 1) == config:
        tensors |= {f"{GENERATOR}/{name}": tensor for name, tensor in tensors.items()}
    if getattr(encoder_class(config), "adds_to_tables", False):
        table = tensors[TOKEN_EMBEDDINGS]
        tensors[TOKEN_DIFFERENCE] = table.changed(table.shape, np.zeros_like)
    return dict(arguments), checkpoint.replace(tensors=tensors)
