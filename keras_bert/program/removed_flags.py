"""Says what to do instead of flags that commands had once."""

_TRACK = "Give --tensorboard; other trackers get their own Keras callback in Python, see docs/training.md."
# "command --flag" -> one sentence that says what to do instead. A command is named as its file: export_model.
# Keep the entries sorted.
REMOVED_FLAGS: dict[str, str] = {
    "adapt_to_domain --held_out_share": "There is no report: compare the models by their scores in your task.",
    "documentation_corpus --num_dev": "No dev.tsv is written: divide train.tsv, or evaluate on test.tsv.",
    "inspect_records --output_dir": "The counts are printed: redirect the output to a file.",
    "inspect_records --plot": "The counts are printed; draw them with a program of your own.",
    "run_classifier --track": _TRACK,
    "run_embeddings --track": _TRACK,
    "run_language_model --track": _TRACK,
    "run_multiple_choice --track": _TRACK,
    "run_ner --track": _TRACK,
    "run_pretraining --track": _TRACK,
    "run_squad --track": _TRACK,
    "run_text_to_text --track": _TRACK,
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
