"""What a portable export stores of a model: the network in float32, and the settings that its answers depend on."""

import contextlib
from collections.abc import Iterator

from keras_bert.checkpoints.checkpoint import MASKED_LM
from keras_bert.checkpoints.model_folder import constructor_arguments
from keras_bert.checkpoints.pretrained import checkpoint_of, model_of
from keras_bert.models.cross_encoder import CrossEncoder
from keras_bert.models.encoder_base import Encoder, encoder_of
from keras_bert.models.masked_lm import MaskedLM
from keras_bert.models.multiple_choice import MultipleChoice
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.models.sentence_classifier import SentenceClassifier
from keras_bert.models.sentence_encoder import SentenceEncoder
from keras_bert.models.sequence_classifier import SequenceClassifier
from keras_bert.models.span_classifier import SpanClassifier
from keras_bert.models.text_to_text import TextToText
from keras_bert.models.token_classifier import TokenClassifier
from keras_bert.models.trainable_parts import lora_layers
from keras_bert.program.errors import InputError

# Subclasses first.
_CLASSES = (
    CrossEncoder,
    SentenceClassifier,
    SequenceClassifier,
    TokenClassifier,
    SpanClassifier,
    MultipleChoice,
    MaskedLM,
    SentenceEncoder,
)
# A model of the first class is stored as one of the second: what exports answer with.
_STORED_AS = {Encoder: SentenceEncoder, BertPretrainer: MaskedLM}
# The parts that such a model does not need.
_NEEDED_PARTS = {BertPretrainer: (MASKED_LM,), Encoder: ()}


def portable_model(model, pooling: str | None = None, normalize: bool | None = None):
    """Returns a model with the same answers that exports can hold: in float32, with LoRA merged into the kernels.

    A `BertEncoder` becomes a `SentenceEncoder`, and a `BertPretrainer` a `MaskedLM`.

    Args:
        model: a model with a vocabulary.
        pooling, normalize: for encoders, see `SignatureOptions`.

    Raises:
        InputError: the model has no vocabulary or cannot be exported, or an option is for other models.
    """
    known = (*_CLASSES, *_STORED_AS)
    if not isinstance(model, known):
        names = ", ".join(kind.__name__ for kind in known)
        raise InputError(f"Only these models can be exported: {names}. Received: {type(model).__name__}")
    if model.vocabulary is None:
        raise InputError(
            "The model has no vocabulary, so its export could not take texts. Set model.vocabulary = "
            "load_vocabulary(path), or put the files of its tokenizer into the model folder."
        )
    model.config.check_vocabulary(len(model.vocabulary))
    model.warn_if_untrained(next((parts for kind, parts in _NEEDED_PARTS.items() if isinstance(model, kind)), None))
    if pooling is not None and not isinstance(model, Encoder):
        raise InputError(f"pooling is for a BertEncoder only. Received: {type(model).__name__}. Leave pooling out.")
    if normalize is not None and not isinstance(model, (Encoder, SentenceEncoder)):
        raise InputError(f"normalize is for encoders only. Received: {type(model).__name__}. Leave normalize out.")
    stored = next((stored for kind, stored in _STORED_AS.items() if isinstance(model, kind)), type(model))
    arguments = {} if normalize is None else {"normalize": normalize}
    if isinstance(model, Encoder):
        from keras_bert.embeddings.text_vectors import check_pooling

        check_pooling(model.config, pooling or "mean")
        arguments["pooling"] = [pooling or "mean"]
    if stored is type(model) and not arguments and not lora_layers(model) and model.compute_dtype == "float32":
        return model
    return model_of(stored, checkpoint_of(model), dtype="float32", **arguments)


def stored_class_name(model) -> str:
    """Returns the name of the class that a loaded export behaves as; users' classes behave as their base class."""
    stored = next((stored for kind, stored in _STORED_AS.items() if isinstance(model, kind)), type(model))
    return next(kind.__name__ for kind in (*_CLASSES, TextToText) if issubclass(stored, kind))


def answer_settings(model) -> dict:
    """Returns the constructor arguments of a model as JSON values; of a sentence encoder also the size of vectors."""
    settings = constructor_arguments(model)
    return settings | ({"embedding_size": model.embedding_size} if isinstance(model, SentenceEncoder) else {})


@contextlib.contextmanager
def padded(model) -> Iterator[None]:
    """Makes a model compute padding too: other runtimes lack the operations that computing without it needs."""
    encoder = encoder_of(model)
    before = encoder.unpadded
    encoder.unpadded = False
    try:
        yield
    finally:
        encoder.unpadded = before
