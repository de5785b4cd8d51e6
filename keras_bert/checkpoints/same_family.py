"""Checks that another library computes what a checkpoint says, before it is written in that library's format."""

import dataclasses

from keras_bert.checkpoints import checkpoint as form
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError

# Fields of a config that change no result of a trained model, or that `check_same_family` and the tokenizer decide.
_NOT_COMPARED = ("extra", "initializer_range", "do_lower_case", "pooler_act", "type_vocab_size")


def check_same_family(checkpoint: form.BertCheckpoint, library: str, always_projects: bool, has_pooler: bool) -> None:
    """Raises `InputError` if another library would compute something else, because it hard-codes what we configure.

    Args:
        library: its name, for the message.
        always_projects: whether the library's models with a narrow table project it even if both widths are equal.
        has_pooler: whether the pooler is written.
    """
    config = checkpoint.config
    family, theirs = config.family, config.family.hugging_face
    widths_differ = config.embedding_size != config.hidden_size
    fixed = {
        "embedding_projection": "embedding_size" in theirs.sizes
        and (widths_differ or (always_projects and bool(family.defaults.get("embedding_projection")))),
        "position_offset": max(config.position_offset, 1) if "position_offset" in family.defaults else 0,
        "type_vocab_size": 0
        if "type_vocab_size" in theirs.absent
        else max(config.type_vocab_size, min(family.defaults.get("type_vocab_size", 2), 1)),
    }
    # Where transformers reads the activation of the pooler from the config.
    is_setting = library == "transformers" and theirs.has_pooler_act(checkpoint.heads)
    if has_pooler and not is_setting:
        fixed["pooler_act"] = family.defaults.get("pooler_act", "tanh")
        if theirs.classifier_has_hidden_act and form.CLASSIFIER in checkpoint.heads:
            fixed["pooler_act"] = config.hidden_act
    if "num_hidden_groups" not in theirs.sizes:
        fixed |= {"num_hidden_groups": config.num_hidden_layers, "inner_group_num": 1}
    for reason in (reason for head, reason in theirs.refused_heads.items() if head in checkpoint.heads):
        raise InputError(f"{checkpoint.path}: {library}'s {reason}. Write it with format='keras_bert'.")
    wrong = [name for name, value in fixed.items() if getattr(config, name) != value]
    if wrong:
        received = ", ".join(f"{name}={getattr(config, name)} (fixed there: {fixed[name]})" for name in wrong)
        raise InputError(
            f"{checkpoint.path}: {library} cannot compute this model of the family {config.model_type}: {received}. "
            "Write it with format='keras_bert'."
        )


def check_is_held(config: BertConfig, found: BertConfig, path: str) -> None:
    """Raises `InputError` if `found`, which transformers would read, is not the config that was to be written."""
    names = [field.name for field in dataclasses.fields(config) if "dropout" not in field.name]
    lost = [
        f"{name}={getattr(config, name)} (fixed there: {getattr(found, name)})"
        for name in names
        if name not in _NOT_COMPARED and getattr(config, name) != getattr(found, name)
    ]
    if lost:
        raise InputError(
            f"{path}: transformers cannot compute this model of the family {config.model_type}: {', '.join(lost)}. "
            "Write it with format='keras_bert'."
        )
