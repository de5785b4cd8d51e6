"""What exports store of a model: the network that they hold, and the settings that its answers depend on."""

import contextlib
from collections.abc import Iterable, Iterator

from keras_bert import registry
from keras_bert.checkpoints.model_folder import constructor_arguments
from keras_bert.checkpoints.pretrained import checkpoint_of, model_of
from keras_bert.config.bert_config import check_pooling
from keras_bert.config.signature_options import SignatureOptions
from keras_bert.models.encoder_base import FEW_SHAPES, UNPADDING, encoder_of
from keras_bert.models.trainable_parts import lora_layers
from keras_bert.program.errors import InputError


def portable_model(model, options: SignatureOptions):
    """Returns a model with the same answers that exports can hold: in float32, with LoRA merged into the kernels.

    A `BertEncoder` becomes a `SentenceEncoder`, with `pooling` and `normalize`, and a `BertPretrainer` a `MaskedLM`.
    Raises `InputError` if the model has no vocabulary or cannot be exported, or an option is for other models.
    """
    task = exported_task(model, portable=True)
    check_options(model, [name for name in options.given() if name in ("pooling", "normalize")])
    stored = registry.imported(registry.task(task.export.stored_as).model) if task.export.stored_as else type(model)
    arguments = {} if options.normalize is None else {"normalize": options.normalize}
    if "pooling" in task.export.options:
        pooling = options.pooling or "mean"
        check_pooling(model.config, pooling)
        arguments["pooling"] = [pooling]
    if stored is type(model) and not arguments and not lora_layers(model) and model.compute_dtype == "float32":
        return model
    return model_of(stored, checkpoint_of(model), dtype="float32", **arguments)


def exported_task(model, portable: bool = False) -> registry.Task:
    """Returns the entry of a model that is to be exported (`portable`: for LiteRT or ONNX Runtime).

    Warns if its answers would be random. Raises `InputError` if it cannot be exported or has no vocabulary.
    """

    def is_exported(task) -> bool:
        return task is not None and task.export is not None and (not portable or task.onnx is not None)

    task = registry.task_of(model)
    if not is_exported(task):
        names = ", ".join(kind for kind in registry.TASKS if is_exported(registry.task(kind)))
        raise InputError(f"Only these models can be exported: {names}. Received: {type(model).__name__}")
    if model.vocabulary is None:
        raise InputError(
            "The model has no vocabulary, so its export could not take texts. Set model.vocabulary = "
            "load_vocabulary(path), or put the files of its tokenizer into the model folder."
        )
    model.config.check_vocabulary(len(model.vocabulary))
    model.warn_if_untrained(task.export.needed_parts)
    return task


def check_options(model, given: Iterable[str]) -> None:
    """Raises `InputError` if an option is for exports of other models."""
    options = registry.export_of(model).options
    for name in given:
        if name not in options:
            exports = {kind: registry.task(kind).export for kind in registry.TASKS}
            kinds = [kind for kind, export in exports.items() if export and name in export.options]
            raise InputError(
                f"{name} is for exports of {', '.join(kinds)} only. Received: {type(model).__name__}. Leave {name} out."
            )


def stored_kind(model) -> str:
    """Returns the kind of model that a loaded export behaves as; users' classes behave as their base class."""
    return registry.export_of(model).stored_as or model.kind


def answer_settings(model) -> dict:
    """Returns the constructor arguments of a model as JSON values, and its other settings of exports."""
    return constructor_arguments(model) | registry.export_of(model).derived(model)


@contextlib.contextmanager
def padded(model, in_server: bool = False) -> Iterator[None]:
    """Makes a model compute padding too: other runtimes lack the operations that computing without it needs.

    In a server it computes without padding, if it can, since servers combine requests of any length.
    """
    encoder = encoder_of(model)
    before = encoder.unpadded
    can_unpad = UNPADDING in encoder.supports and not getattr(encoder, "output_attentions", False)
    encoder.unpadded = FEW_SHAPES if in_server and can_unpad else False
    try:
        yield
    finally:
        encoder.unpadded = before
