"""Selects the model class for a checkpoint, by class name or by the stored heads."""

import importlib
import reprlib

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.models.encoders import encoder_class
from keras_bert.program.errors import InputError
from keras_bert.registry import families

# Class name -> module and heads, the fewest heads first. The encoders are those of the families; users' own classes are
# in Keras' registry.
_CLASSES = {
    "SentenceEncoder": ("keras_bert.models.sentence_encoder", ()),
    "SequenceClassifier": ("keras_bert.models.sequence_classifier", (form.CLASSIFIER,)),
    "SentenceClassifier": ("keras_bert.models.sentence_classifier", (form.CLASSIFIER,)),
    "CrossEncoder": ("keras_bert.models.cross_encoder", (form.CLASSIFIER,)),
    "TokenClassifier": ("keras_bert.models.token_classifier", (form.TOKEN_CLASSIFIER,)),
    "SpanClassifier": ("keras_bert.models.span_classifier", (form.SPAN_CLASSIFIER,)),
    "MultipleChoice": ("keras_bert.models.multiple_choice", (form.MULTIPLE_CHOICE,)),
    "ReplacedTokenDetector": ("keras_bert.models.replaced_token_detector", (form.REPLACED_TOKEN,)),
    "ElectraPretrainer": ("keras_bert.models.electra_pretrainer", (form.REPLACED_TOKEN, form.GENERATOR)),
    "MaskedLM": ("keras_bert.models.masked_lm", (form.MASKED_LM,)),
    "TextToText": ("keras_bert.models.text_to_text", (form.CROSS_ATTENTION, form.MASKED_LM)),
    "BertPretrainer": ("keras_bert.models.pretrainer", (form.MASKED_LM, form.NEXT_SENTENCE)),
    "SpanPretrainer": ("keras_bert.models.span_pretrainer", (form.MASKED_LM, form.NEXT_SENTENCE, form.SPAN_BOUNDARY)),
}
_LABELLED = (form.CLASSIFIER, form.TOKEN_CLASSIFIER)


def class_name(model_class: type) -> str:
    """Returns the name of a class in model folders."""
    import keras

    return keras.saving.get_registered_name(model_class).removeprefix("keras_bert>")


def find_class(name: str, where: str) -> type:
    """Returns the class with this name. Raises `InputError`, starting with `where`, if the name is unknown."""
    import keras

    from keras_bert.models.base import BertModel
    from keras_bert.models.class_names import EARLIER_NAMES

    name = EARLIER_NAMES.get(name, name)
    modules = dict(family.encoder.rsplit(".", 1)[::-1] for family in families().values())
    modules |= {known: module for known, (module, _) in _CLASSES.items()}
    if name in modules:
        return getattr(importlib.import_module(modules[name]), name)
    model_class = keras.saving.get_registered_object(name)
    if not (isinstance(model_class, type) and issubclass(model_class, BertModel)):
        raise InputError(
            f"{where}: the weights are of {reprlib.repr(name)}, which is unknown. Import the module that "
            f"defines it, or use one of: {', '.join(modules)}"
        )
    return model_class


def labelled_head(model_class: type) -> str | None:
    """Returns the head of a model whose outputs have labels, or None."""
    return next((head for head in heads_of(model_class) if head in _LABELLED), None)


def heads_of(model_class: type) -> tuple[str, ...]:
    """Returns the heads of a model class; subclasses have the heads of their base class."""
    return next((_CLASSES[base.__name__][1] for base in model_class.__mro__ if base.__name__ in _CLASSES), ())


def class_for(checkpoint: BertCheckpoint) -> tuple[type, dict]:
    """Returns the class that uses the most heads of a checkpoint, and its constructor arguments besides the config."""
    heads = set(checkpoint.heads)
    if checkpoint.sentence is not None and not heads & set(form.HEADS):
        return find_class("SentenceEncoder", checkpoint.path), dict(checkpoint.sentence)
    if not heads & set(form.HEADS):
        return encoder_class(checkpoint.config), {}
    best = max(_CLASSES, key=lambda name: (len(heads & set(_CLASSES[name][1])), -len(_CLASSES[name][1])))
    model_class = find_class(best, checkpoint.path)
    head = labelled_head(model_class)
    arguments = {"labels": list(checkpoint.labels)} if head else {}
    if head == form.CLASSIFIER and checkpoint.ranking and checkpoint.ranking.get("activation"):
        return find_class("CrossEncoder", checkpoint.path), {**checkpoint.ranking, **arguments}
    if head == form.CLASSIFIER and checkpoint.problem_type != "classification":
        arguments["problem_type"] = checkpoint.problem_type
    return model_class, arguments
