"""Checks that another library computes what a checkpoint says, before it is written in that library's format."""

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.family_names import NAMES
from keras_bert.families import FAMILIES
from keras_bert.program.errors import InputError


def check_same_family(checkpoint: form.BertCheckpoint, library: str, always_projects: bool, has_pooler: bool) -> None:
    """Raises `InputError` if another library would compute something else, because it hard-codes what we configure.

    Args:
        checkpoint: the checkpoint to write.
        library: the name of the library, for the message.
        always_projects: whether the library's ALBERT has an embedding projection even if both widths are equal.
        has_pooler: whether the pooler is written.
    """
    config = checkpoint.config
    family, widths_differ = config.model_type, config.embedding_size != config.hidden_size
    fixed = {
        "embedding_projection": family in ("albert", "electra", "mobilebert")
        and widths_differ
        or family == "albert"
        and always_projects,
        "position_offset": max(config.position_offset, 1) if family in ("roberta", "longformer") else 0,
        "type_vocab_size": 0 if family in ("distilbert", "modernbert") else max(config.type_vocab_size, 1),
    }
    # Where transformers reads the activation of the pooler from the config.
    is_setting = library == "transformers" and (
        family in ("modernbert", "xlnet") or (family == "electra" and form.MULTIPLE_CHOICE in checkpoint.heads)
    )
    if has_pooler and not is_setting:
        fixed["pooler_act"] = FAMILIES[family].defaults.get("pooler_act", "tanh")
        if NAMES[family].classifier_has_hidden_act and form.CLASSIFIER in checkpoint.heads:
            fixed["pooler_act"] = config.hidden_act
    if family != "albert":
        fixed |= {"num_hidden_groups": config.num_hidden_layers, "inner_group_num": 1}
    if family == "big_bird" and form.SPAN_CLASSIFIER in checkpoint.heads:
        what = "BigBirdForQuestionAnswering has more layers than this span classifier"
        raise InputError(f"{checkpoint.path}: {library}'s {what}. Write it with format='keras_bert'.")
    wrong = [name for name, value in fixed.items() if getattr(config, name) != value]
    if wrong:
        received = ", ".join(f"{name}={getattr(config, name)} (fixed there: {fixed[name]})" for name in wrong)
        raise InputError(
            f"{checkpoint.path}: {library} cannot compute this model of the family {family}: {received}. Write it with "
            "format='keras_bert'."
        )
