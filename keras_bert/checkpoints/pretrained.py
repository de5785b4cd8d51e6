"""Loads models from checkpoints of any format, and saves them."""

import math
import os
from collections.abc import Mapping, Sequence

from keras_bert import registry
from keras_bert.checkpoints import formats
from keras_bert.checkpoints.checkpoint import ENCODER, GENERATOR, MASKED_LM, MODEL, POOLER, BertCheckpoint, part_of
from keras_bert.checkpoints.model_classes import class_for, class_name, heads_of, labelled_head
from keras_bert.checkpoints.model_folder import constructor_arguments
from keras_bert.checkpoints.model_weights import adam_slots_of, model_weights, start_as, tensors_of, variables_made_last
from keras_bert.checkpoints.resizing import resized
from keras_bert.models.base import NewParts
from keras_bert.models.encoder_base import Encoder, encoder_class
from keras_bert.models.shown_arguments import check_options, constructor_arguments_of
from keras_bert.program.errors import InputError
from keras_bert.program.label_types import label_strings
from keras_bert.tokenization.kinds import as_tokenizer
from keras_bert.tokenization.tokenizer import TokenTable

# New weights, beside as many as a checkpoint has bytes, that a model gets without arguments of the user.
_MOST_NEW_NUMBERS = 1 << 22
# The arguments that determine how large a head is.
_SIZES = {"labels", "dense"}


def from_pretrained(
    model_class: type | None,
    path: str | os.PathLike,
    *,
    max_position_embeddings: int | None = None,
    new_tokens: Sequence[str] = (),
    keep_layers: Sequence[int] | None = None,
    do_lower_case: bool | None = None,
    trust_pickle: bool = False,
    base: str | os.PathLike | None = None,
    **arguments,
):
    """Returns a model with the weights of a checkpoint, see `BertModel.from_pretrained`.

    The class `None` selects the saved one, or the one that fits the heads; `Encoder` selects that of the family.
    """
    checkpoint = formats.read_checkpoint(path, do_lower_case, trust_pickle, base)
    return model_of(model_class, resized(checkpoint, max_position_embeddings, new_tokens, keep_layers), **arguments)


def model_of(model_class: type | None, checkpoint: BertCheckpoint, **arguments):
    """Returns a model with the weights of a `BertCheckpoint`; see `from_pretrained`."""
    if arguments.get("labels", "") is None:
        del arguments["labels"]
    given = set(arguments)
    if model_class is None:
        model_class, saved_arguments = class_for(checkpoint)
        arguments = {**saved_arguments, **arguments}
    if model_class is Encoder:
        model_class = encoder_class(checkpoint.config)
    check_options(model_class.from_pretrained, unknown=sorted(given - set(constructor_arguments_of(model_class))))
    if model_class is not checkpoint.model_class:
        checkpoint = checkpoint.with_whole_table()
    arguments, checkpoint = _arguments(model_class, checkpoint, arguments)
    needed = heads_of(model_class)
    if needed and MASKED_LM not in needed:
        checkpoint = checkpoint.with_pooler_of_masked_lm()
    with variables_made_last() as models:
        model = model_class(checkpoint.config, **arguments)
        models.append(model)
        new, loaded = _load(model, checkpoint)
        if not given & _SIZES:
            _check_new_parts(model, checkpoint, new)
    model.tokenizer = checkpoint.tokenizer
    _remember_new_parts(model, checkpoint, new)
    _report(model, checkpoint, loaded, new)
    return model


def save_pretrained(
    model,
    path: str | os.PathLike,
    vocabulary: TokenTable | None = None,
    format: str = "keras_bert",
    include_optimizer: bool = False,
) -> None:
    """Writes a model in one of the formats of `formats.WRITERS`, atomically.

    Newly initialised parts that have not been trained are left out, with a message, since random weights in a file look
    like trained ones. Loading the folder initialises them again and reports it.

    Args:
        model: a `BertEncoder` or a task model.
        path: a new or empty folder.
        vocabulary: a `Vocabulary` or a tokenizer; by default that of the model. If both are None, the folder has none.
        format: `keras_bert`, a model folder; `google`, a TensorFlow 1 checkpoint; `huggingface`.
        include_optimizer: whether to write the moments of `AdamW` too, named as in Google's `optimization.py`; in
            Google's format only.

    Raises:
        InputError: `path` is not empty or cannot be written to, vocabulary and config contradict each other, or the
            format cannot hold this model or its optimizer.
    """
    checkpoint = checkpoint_of(model, vocabulary).without_parts(untrained_parts(model))
    if include_optimizer:
        checkpoint = checkpoint.replace(adam=adam_slots_of(model))
    for note in formats.write_checkpoint(checkpoint, path, format):
        print(f"{os.fspath(path)}: {note}")
    if model.new_parts.untrained():
        print(f"{os.fspath(path)}: left out, because it is not trained: {_names(model.new_parts.untrained())}")


def checkpoint_of(model, vocabulary: TokenTable | None = None) -> BertCheckpoint:
    """Returns a model as a `BertCheckpoint`, with LoRA merged into the kernels. Tensors are copied when they are read.

    Raises `InputError` if vocabulary and config contradict each other.
    """
    tokenizer = as_tokenizer(vocabulary or model.tokenizer, model.config.do_lower_case)
    if tokenizer is not None:
        model.config.check_vocabulary(len(tokenizer))
    arguments = constructor_arguments(model)
    labels = arguments.get("labels")
    checkpoint = BertCheckpoint(
        path=class_name(type(model)),
        kind=MODEL,
        config=model.config,
        tokenizer=tokenizer,
        tensors=tensors_of(model),
        labels=tuple(labels) if labels else None,
        problem_type=arguments.get("problem_type", "classification"),
        model_class=type(model),
        arguments={model.kind: arguments},
    )
    return checkpoint if GENERATOR in checkpoint.heads else checkpoint.with_whole_table()


def _arguments(model_class: type, checkpoint: BertCheckpoint, given: Mapping) -> tuple[dict, BertCheckpoint]:
    """Returns the constructor arguments, and the checkpoint; a head for other labels is removed from it."""
    arguments = {key: list(value) if isinstance(value, tuple) else value for key, value in given.items()}
    if model_class is checkpoint.model_class:
        arguments = {**checkpoint.arguments.get(model_class.kind, {}), **arguments}
    task = registry.task_of(model_class)
    if task is not None and task.start is not None:
        arguments, checkpoint = registry.imported(task.start)(model_class, checkpoint, arguments)
    head = labelled_head(model_class)
    if head is None:
        return arguments, checkpoint
    has_head = head in checkpoint.heads
    if "labels" not in arguments and arguments.get("problem_type") == "regression" and not checkpoint.labels:
        arguments["labels"] = ["score"]
    if "labels" not in arguments:
        if not has_head or not checkpoint.labels:
            raise InputError(
                f"{model_class.__name__} needs labels, but {checkpoint.path} ({checkpoint.kind}) has none. Give "
                "labels=[...]."
            )
        arguments["labels"] = list(checkpoint.labels)
        if checkpoint.problem_type != "classification":
            arguments.setdefault("problem_type", checkpoint.problem_type)
    if "labels" in given and "label_type" not in given:
        arguments.pop("label_type", None)  # that of the labels which are replaced
    labels = tuple(label_strings(arguments["labels"])[0])
    if has_head and not _same_labels(labels, checkpoint.labels):
        note = (
            f"{head} (its labels are {', '.join(checkpoint.labels[:5])}{', ...' if len(checkpoint.labels) > 5 else ''})"
        )
        for name in {"temperature", "thresholds"} - given.keys():
            arguments.pop(name, None)  # those of the head which is left out
        checkpoint = checkpoint.without_parts({head}).replace(ignored=(note, *checkpoint.ignored))
    return arguments, checkpoint


def _same_labels(given: tuple, stored: tuple) -> bool:
    """Returns whether labels are equal. Placeholders such as LABEL_0 are equal to any labels."""
    made_up = tuple(f"LABEL_{number}" for number in range(len(stored)))
    return given == stored or (stored == made_up and len(given) == len(stored))


def _load(model, checkpoint: BertCheckpoint) -> tuple[set[str], set[str]]:
    """Initialises the variables of a model from a checkpoint; returns the new and the loaded parts."""
    weights = model_weights(model)
    fitting = {
        name
        for name, weight in weights.items()
        if name in checkpoint.tensors and checkpoint.tensors[name].shape == tuple(weight.shape)
    }
    # A head is loaded whole or not at all.
    new = {part_of(name) for name in weights if name not in fitting}
    loaded = {part_of(name) for name in fitting} - new
    if ENCODER not in loaded:
        wrong = next(name for name in weights if part_of(name) == ENCODER and name not in fitting)
        raise InputError(
            f"{checkpoint.path} ({checkpoint.kind}) does not have {wrong} with the shape {list(weights[wrong].shape)}, "
            f"which {type(model).__name__} needs."
        )
    for name, weight in weights.items():
        if part_of(name) in loaded:
            start_as(weight, checkpoint.tensors[name])
    return new, loaded


def _check_new_parts(model, checkpoint: BertCheckpoint, new: set[str]) -> None:
    """Raises `InputError` if the settings of a folder, instead of its weights, would make the model large."""
    num_numbers = sum(math.prod(weight.shape) for name, weight in model_weights(model).items() if part_of(name) in new)
    limit = _MOST_NEW_NUMBERS + checkpoint.num_bytes
    if num_numbers > limit:
        raise InputError(
            f"{checkpoint.path} ({checkpoint.kind}): its settings require {num_numbers:,} numbers for "
            f"{_names(sorted(new))}, which its files do not have. It is damaged or malicious. Give "
            f"{' or '.join(sorted(_SIZES))} to get new weights of this size."
        )


def _remember_new_parts(model, checkpoint: BertCheckpoint, new: set[str]) -> None:
    """Records in a model and its encoder which of their parts are not in the checkpoint."""
    weights: dict[str, list] = {}
    for name, weight in model_weights(model).items():
        weights.setdefault(part_of(name), []).append(weight)
    encoder = getattr(model, "encoder", model)
    for one, parts in ((model, new if model.uses_pooler else new - {POOLER}), (encoder, new & {POOLER})):
        one.new_parts = NewParts({part: weights[part] for part in sorted(parts)}, checkpoint.path)


def untrained_parts(model) -> set[str]:
    """Returns the new, untrained parts of a model, including parts that it does not use."""
    parts = set(model.new_parts.untrained())
    return parts if model.uses_pooler else parts | set(model.encoder.new_parts.untrained())


def _report(model, checkpoint: BertCheckpoint, loaded: set[str], new: set[str]) -> None:
    used = model.new_parts.untrained()
    if checkpoint.model_class is not None and not used:
        return
    ignored = [*sorted({part_of(name) for name in checkpoint.tensors} - loaded), *checkpoint.ignored]
    if POOLER in loaded:
        loaded = loaded - {POOLER}
    until = "until it is trained, pooled_output is random; sequence_output does not depend on it"
    until = until if POOLER in used and model is getattr(model, "encoder", model) else "to be trained before use"
    parts = [
        ("loaded are", ", ".join(sorted(loaded))),
        ("newly initialised are", f"{_names(used)} ({until})" if used else ""),
        ("not needed for this model and not there", _names(sorted(new - set(used)))),
        ("ignored are", _names(ignored)),
        ("note", ", ".join(checkpoint.remarks)),
    ]
    summary = "; ".join(f"{what}: {names}" for what, names in parts if names)
    print(f"{type(model).__name__} from {checkpoint.path} ({checkpoint.kind}): {summary}")


def _names(parts: Sequence[str]) -> str:
    return ", ".join(part.removeprefix(f"{ENCODER}/") for part in parts)
