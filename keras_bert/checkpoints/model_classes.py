"""Selects the model class for a checkpoint, by class name or by the stored heads."""

import reprlib
from collections.abc import Mapping

from keras_bert import registry
from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.models.encoders import encoder_class
from keras_bert.program.errors import InputError

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
    paths = [family.encoder for family in registry.families().values()]
    known = {path.rsplit(".", 1)[1]: path for path in (*paths, *registry.model_paths())}
    if name in known:
        return registry.imported(known[name])
    model_class = keras.saving.get_registered_object(name)
    if not (isinstance(model_class, type) and issubclass(model_class, BertModel)):
        raise InputError(
            f"{where}: the weights are of {reprlib.repr(name)}, which is unknown. Import the module that "
            f"defines it, or use one of: {', '.join(known)}"
        )
    return model_class


def labelled_head(model_class: type) -> str | None:
    """Returns the head of a model whose outputs have labels, or None."""
    return next((head for head in heads_of(model_class) if head in _LABELLED), None)


def heads_of(model_class: type) -> tuple[str, ...]:
    """Returns the heads of a model class; subclasses have the heads of their base class."""
    task = registry.task_of(model_class)
    return task.heads if task else ()


def fields_of(model_class: type, arguments: Mapping) -> dict[str, Mapping]:
    """Returns the fields of a `BertCheckpoint` that tell writers of other formats the arguments of such a model."""
    task = registry.task_of(model_class)
    return {task.told_as: arguments} if task and task.told_as else {}


def class_for(checkpoint: BertCheckpoint) -> tuple[type, dict]:
    """Returns the class that uses the most heads of a checkpoint, and its constructor arguments besides the config."""
    heads = set(checkpoint.heads)
    if checkpoint.sentence is not None and not heads & set(form.HEADS):
        return find_class("SentenceEncoder", checkpoint.path), dict(checkpoint.sentence)
    if not heads & set(form.HEADS):
        return encoder_class(checkpoint.config), {}
    best = max(map(registry.task, registry.TASKS), key=lambda task: (len(heads & set(task.heads)), -len(task.heads)))
    model_class = registry.imported(best.model)
    head = labelled_head(model_class)
    arguments = {"labels": list(checkpoint.labels)} if head else {}
    if head == form.CLASSIFIER and checkpoint.ranking and checkpoint.ranking.get("activation"):
        return find_class("CrossEncoder", checkpoint.path), {**checkpoint.ranking, **arguments}
    if head == form.CLASSIFIER and checkpoint.problem_type != "classification":
        arguments["problem_type"] = checkpoint.problem_type
    return model_class, arguments
