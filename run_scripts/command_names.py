"""The modules of all commands, in the order of the data flow. setup.py reads this file too."""

# Each module has a function `command`, and each command is a console script: keras-bert-build-vocabulary, ...
COMMANDS = {
    "Text to records": (
        "run_scripts.documentation_corpus",
        "data_prep.build_vocabulary",
        "data_prep.tokenize_corpus",
        "data_prep.create_pretraining_data",
        "data_prep.beam_pretraining_data",
        "data_prep.create_language_model_data",
        "data_prep.create_finetuning_data",
        "data_prep.inspect_records",
    ),
    "Pre-training": (
        "run_scripts.run_pretraining",
        "run_scripts.run_language_model",
        "run_scripts.adapt_to_domain",
        "run_scripts.launch_workers",
    ),
    "Weights of other projects": ("run_scripts.convert_checkpoint",),
    "Training for a task": (
        "run_scripts.run_classifier",
        "run_scripts.run_ner",
        "run_scripts.run_squad",
        "run_scripts.evaluate_squad",
        "run_scripts.run_multiple_choice",
        "run_scripts.run_text_to_text",
        "run_scripts.run_embeddings",
    ),
    "Asking a model": (
        "run_scripts.fill_mask",
        "run_scripts.generate_text",
        "run_scripts.summarize",
        "run_scripts.embed_sentences",
        "run_scripts.predict_table",
        "run_scripts.search_sentences",
        "run_scripts.evaluate_search",
        "run_scripts.word_senses",
        "run_scripts.extract_features",
    ),
    "Export and serving": (
        "run_scripts.export_model",
        "run_scripts.ask_saved_model",
        "run_scripts.check_saved_model",
        "run_scripts.make_serving_kit",
        "run_scripts.serve",
        "run_scripts.query_server",
    ),
    "The whole way": (
        "run_scripts.quickstart",
        "run_scripts.quickstart_text",
        "run_scripts.quickstart_report",
    ),
}


def program_name(module: str) -> str:
    """Returns the name of a command without its package: build-vocabulary of data_prep.build_vocabulary."""
    return module.rpartition(".")[2].replace("_", "-")
