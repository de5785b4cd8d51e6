"""Opens the model that a command asks: a checkpoint with Keras, or an exported folder without Keras and TensorFlow."""

from typing import Any

from keras_bert.program.errors import InputError


def open_model(kind: str, path: str, **arguments: Any) -> Any:
    """Returns the model at `path`.

    Args:
        kind: the kind of model, a key of `registry.TASKS`.
        path: an exported folder, or a checkpoint of any format.
        **arguments: constructor arguments of the Keras model. Exports have their own.

    Raises:
        InputError: there is no such model, or `arguments` are given for an export.
    """
    from keras_bert import registry
    from keras_bert.serving.portable.loading import is_export, load_kind

    if not is_export(path):
        return registry.imported(registry.task(kind).model).from_pretrained(path, **arguments)
    if arguments:
        raise InputError(f"The export {path} has its own {', '.join(arguments)}. Leave --{next(iter(arguments))} out.")
    return load_kind([kind], path)
