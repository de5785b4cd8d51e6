"""Says what to do instead of flags that commands had once."""

# "command --flag" -> one sentence that says what to do instead. A command is named as its file: export_model.
# Keep the entries sorted.
REMOVED_FLAGS: dict[str, str] = {
    "check_saved_model --batching_file": "The report says which signatures must not be padded by a server.",
    "check_saved_model --json": "Use keras_bert.tf_serving.check in Python: its report has the findings.",
    "export_model --explain": "Explain answers in Python: model.explain(texts), or run_classifier --explain.",
    "make_serving_kit --batching_file": "Edit config/batching.config in the kit, and its copy in kubernetes.yaml.",
}


def instead_of(command: str, flag: str) -> str | None:
    """Returns what a user of a flag that went should do, or None if the command never had the flag.

    Args:
        command: the name of the command's file, without ".py".
        flag: the name of the flag as typed, without dashes: `noexplain` counts as `explain`.
    """
    for name in (flag, flag.removeprefix("no")):
        if sentence := REMOVED_FLAGS.get(f"{command} --{name}"):
            return f"--{name} was removed. {sentence}"
    return None
