"""Says what to do instead of flags that commands had once."""

_TRACK = "Give --tensorboard; other trackers get their own Keras callback in Python, see docs/training.md."
# "command --flag" -> one sentence that says what to do instead. A command is named as its file: export_model.
# Keep the entries sorted.
REMOVED_FLAGS: dict[str, str] = {
    "adapt_to_domain --held_out_share": "There is no report: compare the models by their scores in your task.",
    "check_saved_model --batching_file": "The report says which signatures must not be padded by a server.",
    "check_saved_model --json": "Use keras_bert.tf_serving.check in Python: its report has the findings.",
    "documentation_corpus --num_dev": "No dev.tsv is written: divide train.tsv, or evaluate on test.tsv.",
    "export_model --calibration_file": (
        "Export with --format=onnx and let OpenVINO compute it in bfloat16: load(path, precision='bfloat16'), or "
        "--precision=bfloat16 of the commands. Without bfloat16, --format=litert --weights=int8 is faster."
    ),
    "export_model --compute": (
        "--weights=int8 still makes the file smaller. --format=onnx or litert with --weights=int8 multiplies integers."
    ),
    "export_model --explain": "Explain answers in Python: model.explain(texts), or run_classifier --explain.",
    "inspect_records --output_dir": "The counts are printed: redirect the output to a file.",
    "inspect_records --plot": "The counts are printed; draw them with a program of your own.",
    "make_serving_kit --batching_file": "Edit config/batching.config in the kit, and its copy in kubernetes.yaml.",
    "run_classifier --track": _TRACK,
    "run_embeddings --track": _TRACK,
    "run_language_model --track": _TRACK,
    "run_multiple_choice --track": _TRACK,
    "run_ner --track": _TRACK,
    "run_pretraining --track": _TRACK,
    "run_squad --track": _TRACK,
    "run_text_to_text --track": _TRACK,
    "search_sentences --precision": "Vectors are float32; quantised_vectors.quantise makes codes for other engines.",
    "serve --allow_version_labels_for_unavailable_models": "Labels of versions need TensorFlow Serving.",
    "serve --enable_batching": "The server computes each request by itself; TensorFlow Serving joins them.",
    "serve --file_system_poll_wait_seconds": "Start the server again to serve a new version.",
    "serve --load_retry_seconds": "Start the server again to load an export.",
    "serve --model_config_file": "Give the folders as arguments, each as NAME=FOLDER.",
    "serve --model_config_file_poll_wait_seconds": "Start the server again to serve other models.",
}


def instead_of(command: str, flag: str) -> str | None:
    """Returns what a user of a flag that went should do, or None if the command never had the flag.

    The flag is given as typed, without dashes: `noexplain` counts as `explain`.
    """
    for name in (flag, flag.removeprefix("no")):
        if sentence := REMOVED_FLAGS.get(f"{command} --{name}"):
            return f"--{name} was removed. {sentence}"
    return None
