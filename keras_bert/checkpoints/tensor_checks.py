"""Checks that a checkpoint has the weights that its config requires, and no others."""

from collections.abc import Sequence

from keras_bert.checkpoints.checkpoint import CLASSIFIER, ENCODER, MODEL, POOLER, WEIGHT_TYPES, BertCheckpoint, part_of
from keras_bert.checkpoints.weight_list import encoder_shapes, head_shapes
from keras_bert.program.errors import InputError, named


def check_tensors(checkpoint: BertCheckpoint) -> None:
    """Raises `InputError` unless the encoder and each stored head are complete and match the config."""
    config, tensors = checkpoint.config, checkpoint.tensors
    expected = encoder_shapes(config)
    if not any(name.startswith(f"{POOLER}/") for name in tensors):
        expected = {name: shape for name, shape in expected.items() if not name.startswith(f"{POOLER}/")}
    for head in checkpoint.heads:
        kernel = tensors.get(f"{head}/kernel")
        num_classes = kernel.shape[-1] if kernel and kernel.shape else len(checkpoint.labels or ())
        expected |= head_shapes(config, head, num_classes)
        if head == CLASSIFIER and kernel and config.sentence_pooling != "mean":
            # A SentenceClassifier reads the vector of a text, of any width.
            expected[f"{head}/kernel"] = (kernel.shape[0], num_classes)
    missing = [name for name in expected if name not in tensors]
    surplus = [name for name in tensors if part_of(name) == ENCODER and name not in expected]
    # The files of a model in memory cannot be at fault.
    of_entry = f"Correct `weights` in the entry of {config.model_type!r}." if checkpoint.kind == MODEL else None
    if missing:
        others = f"It has others: {_some(surplus) or 'none'}. {of_entry}"
        raise InputError(
            f"{checkpoint.path} ({checkpoint.kind}) is incomplete: {len(missing)} of {len(expected)} tensors are "
            f"missing: {_some(missing)}. {others if of_entry else 'Copy it again, or correct its config.'}"
        )
    if checkpoint.model_class is None:  # a user's own class may have additional weights in its encoder
        check_no_surplus(checkpoint, surplus)
    for name, shape in expected.items():
        if tensors[name].shape != shape:
            raise InputError(
                f"{checkpoint.path} ({checkpoint.kind}): {name} has the shape {list(tensors[name].shape)}, but its "
                f"config requires {list(shape)}. "
                f"{of_entry or 'The config belongs to another checkpoint, or the file is damaged.'}"
            )
        if tensors[name].dtype not in WEIGHT_TYPES:
            raise InputError(
                f"{checkpoint.path} ({checkpoint.kind}): {name} has the dtype {tensors[name].dtype}, but weights must "
                f"have one of {', '.join(WEIGHT_TYPES)}. The file is damaged, or its weights are quantised."
            )
    if checkpoint.vocabulary is not None:
        with named(checkpoint.path):
            config.check_vocabulary(len(checkpoint.vocabulary))


def check_no_surplus(checkpoint: BertCheckpoint, names: Sequence[str]) -> None:
    """Raises `InputError` for weights that the config has not: fewer layers than trained would give other outputs."""
    if names:
        raise InputError(
            f"{checkpoint.path} ({checkpoint.kind}) has more weights than a model with num_hidden_layers="
            f"{checkpoint.config.num_hidden_layers}: {_some(names)}. The config belongs to another checkpoint."
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
