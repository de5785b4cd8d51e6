"""Selects the model class for a checkpoint, by class name or by the stored heads."""

import reprlib

from keras_bert import registry
from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.program.errors import InputError


def class_name(model_class: type) -> str:
    """Returns the name of a class in model folders."""
    import keras

    return keras.saving.get_registered_name(model_class).removeprefix("keras_bert>")


def find_class(name: str, where: str) -> type:
    """Returns the class with this name. Raises `InputError`, starting with `where`, if the name is unknown."""
    import keras

    from keras_bert.models.base import BertModel

    paths = [family.encoder for family in registry.families().values()]
    known = {path.rsplit(".", 1)[1]: path for path in (*paths, *registry.model_paths())}
    if name in known:
        return registry.imported(known[name])
    if (short := name.rpartition(">")[2]) in known:
        registry.imported(known[short])  # now Keras knows the class, if it is that of a registered task or family
    model_class = keras.saving.get_registered_object(name)
    if not (isinstance(model_class, type) and issubclass(model_class, BertModel)):
        raise InputError(
            f"{where}: the weights are of {reprlib.repr(name)}, which is unknown. Import the module that "
            f"defines it, or use one of: {', '.join(known)}"
        )
    return model_class


def labelled_head(model_class: type) -> str | None:
    """Returns the head of a model whose outputs have labels, or None."""
    task = registry.task_of(model_class)
    return next((head.name for head in task.heads if head.has_labels), None) if task else None


def heads_of(model_class: type) -> tuple[str, ...]:
    """Returns the heads that a model class needs; subclasses have the heads of their base class."""
    task = registry.task_of(model_class)
    return tuple(head.name for head in task.heads if not head.is_optional) if task else ()


def class_for(checkpoint: BertCheckpoint) -> tuple[type, dict]:
    """Returns the class of the model in a checkpoint, and its constructor arguments besides the config.

    It is the class that was saved; else the one that uses the most heads. Of several, it is the one that the files
    name; else the one that needs no other head.
    """
    if (saved := checkpoint.model_class) is not None:
        return saved, dict(checkpoint.arguments.get(saved.kind, {}))
    present = set(checkpoint.heads)

    def fit(kind: str) -> tuple:
        names = [head.name for head in registry.task(kind).heads]
        return len(present.intersection(names)), checkpoint.tells(kind), -len(names)

    best = max(registry.TASKS, key=fit)
    path = registry.task(best).model
    if path is None:
        from keras_bert.models.encoder_base import encoder_class  # only now: it needs Keras

        return encoder_class(checkpoint.config), {}
    model_class, is_told = registry.imported(path), checkpoint.tells(best)
    arguments = dict(checkpoint.arguments[best]) if is_told else {}
    head = labelled_head(model_class)
    if head:
        arguments["labels"] = list(checkpoint.labels)
    if head == form.CLASSIFIER and not is_told and checkpoint.problem_type != "classification":
        arguments["problem_type"] = checkpoint.problem_type
    return model_class, arguments
