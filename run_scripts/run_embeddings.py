"""Trains and evaluates sentence embeddings on pairs, triplets, scored pairs or labelled texts.

Reads .tsv, .csv, .jsonl and .parquet files. Which columns are named decides what is learnt:

    --text_columns=question,answer                        pairs: in-batch negatives
    --text_columns=question,answer,wrong                  the same with hard negatives
    --text_columns=query,pos,neg                          FlagEmbedding's lists: an example for each positive
    --text_columns=sentence1,sentence2 --score_column=s   scored pairs: CoSENT
    --text_columns=text --label_column=label              labelled texts: triplets

With --cross_encoder it trains a model that scores a query and a text together: the first column is the query, and
scores are relevances from 0 to 1, or a list of scores for the texts of a query. With --sparse_encoder (SPLADE) it
trains a weight for each token of the vocabulary, with --multi_vector_encoder (ColBERT) a vector for each token of a
text: the columns are queries, their documents and other documents, and scores are those of a teacher.

--model_settings names a JSON file with arguments of the model, as in Python, and new_tokens of its vocabulary:

    {"prompts": {"query": "[Q] ", "document": "[D] "}, "new_tokens": ["[Q]", "[D]"], "skiplist_words": [".", ","]}

--more_data names a JSON file with further data sets to train on, each with its loss. It is a list of objects with a
train_file and the flags of its columns and its loss:

    [{"train_file": "sts.tsv", "text_columns": ["sentence1", "sentence2"], "score_column": "score", "loss": "angle"}]

Example:
  python -m run_scripts.run_embeddings --init_checkpoint=all-MiniLM-L6-v2 --data_dir=questions \\
      --text_columns=question,answer --do_train --do_eval --output_dir=runs/search

Writes into output_dir: model/, eval_results.txt, eval_report/, and with --do_predict test_vectors.npy or .npz, or
test_predictions.tsv with the best text for each query. If it stops, the same command continues from the newest
checkpoint. docs/training_embeddings.md describes training.
"""

import dataclasses
from typing import Any

from absl import flags

from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import member, read_json_object, strings
from keras_bert.program.option_flags import define_option_flags, options_of_flags, refuse_unneeded_flags
from keras_bert.tasks.embedding.examples import PROPORTIONAL, ROUND_ROBIN
from run_scripts.embedding_data import KINDS, DataSet, data_sets_of_file, loss_lines
from run_scripts.fine_tuning_flags import (
    data_files,
    define_data_file_flags,
    define_fine_tuning_flags,
    run_task,
)

FLAGS = flags.FLAGS
_OF_VECTORS = ("label_column", "matryoshka_dimensions", "pooling")
__doc__ = f"{__doc__}\n{loss_lines()}"


def define_flags() -> None:
    define_data_file_flags("Examples", "train.csv, train.tsv, train.jsonl ...")
    flags.DEFINE_boolean("has_header", True, "Whether the first line of .tsv and .csv files names the columns.")
    define_option_flags(DataSet)
    flags.mark_flag_as_required("text_columns")
    flags.DEFINE_string("more_data", None, "A JSON file with further data sets to train on, see above.")
    flags.DEFINE_enum(
        "sampler",
        PROPORTIONAL,
        [PROPORTIONAL, ROUND_ROBIN],
        "With more_data: all batches of all data sets in random order, or the data sets in turns until one ends.",
    )
    flags.DEFINE_boolean("cross_encoder", False, "Train a CrossEncoder, which ranks texts, instead of vectors.")
    flags.DEFINE_boolean("sparse_encoder", False, "Train a SparseEncoder (SPLADE).")
    flags.DEFINE_boolean("multi_vector_encoder", False, "Train a MultiVectorEncoder (ColBERT).")
    flags.DEFINE_string("model_settings", None, "A JSON file with arguments of the model, see above.")
    flags.DEFINE_list("pooling", None, "How token vectors are pooled. Default: as the checkpoint says, or mean.")
    define_fine_tuning_flags(has_probabilities=False)


def main() -> None:
    # All files are read before TensorFlow is loaded.
    files = data_files()
    refuse_unneeded_flags(DataSet)
    refuse_flags_without_effect(FLAGS.more_data, "without --more_data", "sampler")
    refuse_flags_without_effect(FLAGS.do_train, "without --do_train", "more_data", "model_settings")
    refuse_flags_without_effect(FLAGS.init_checkpoint, "without --init_checkpoint", "model_settings")
    kind = _kind()
    settings = read_json_object(FLAGS.model_settings) if FLAGS.model_settings else {}
    own = options_of_flags(DataSet)
    parts = {part: _read(own, path, part != "predict") for part, path in files.items()}
    further = data_sets_of_file(FLAGS.more_data) if FLAGS.more_data else []
    arguments: dict[str, Any] = {}
    new_tokens: list[str] = []

    from keras_bert import registry

    task = registry.task(kind)
    if "train" in parts:
        sets = [(own, parts["train"]), *((data_set, _read(data_set, path)) for path, data_set in further)]
        parts["train"] = _with_losses(sets, kind)
        arguments, new_tokens = _model_arguments(registry.imported(task.model), settings)
    main_score = registry.imported(task.text_task).main_scores.get(next(iter(parts.values())).kind, "spearman")
    run_task(kind, parts, main_score, model_arguments=arguments, new_tokens=new_tokens)


def _kind() -> str:
    """Returns the name of the kind of model in the flags. Raises `InputError` for flags that it has not."""
    chosen = [name for name, kind in KINDS.items() if kind.flag and FLAGS[kind.flag].value]
    if not chosen:
        return "SentenceEncoder"
    given = [f"--{KINDS[name].flag}" for name in chosen]
    if len(given) > 1:
        raise InputError(f"A run trains one model. Received: {' and '.join(given)}. Give one of them.")
    wrong = next((name for name in _OF_VECTORS if FLAGS[name].value is not None), None)
    if wrong:
        raise InputError(f"{given[0]} has no --{wrong}. Leave it out.")
    if len(FLAGS.text_columns) < 2 and chosen[0] != "SparseEncoder":
        columns = ",".join(FLAGS.text_columns)
        raise InputError(f"{given[0]} needs --text_columns=QUERY,TEXT or more. Received: {columns}")
    return chosen[0]


def _model_arguments(model_class: type, settings: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Returns the arguments of the model in --model_settings and --pooling, and its new tokens."""
    from keras_bert.models.shown_arguments import constructor_arguments_of

    path = FLAGS.model_settings
    known = [name for name in constructor_arguments_of(model_class) if name not in ("name", "dtype", "trainable")]
    unknown = next((name for name in settings if name not in (*known, "new_tokens")), None)
    if unknown is not None:
        names = ", ".join([*known, "new_tokens"])
        raise InputError(f"{path}: {model_class.__name__} has no argument {unknown!r:.100}. Possible are: {names}")
    for name, expected in (("prompts", dict), ("dense", list)):
        member(settings, name, expected, path)
    arguments = {name: value for name, value in settings.items() if name != "new_tokens"}
    if FLAGS.pooling:
        arguments["pooling"] = FLAGS.pooling
    return arguments, strings(settings, "new_tokens", path)


def _read(data_set: DataSet, path: str, with_labels: bool = True):
    options = {"has_header": FLAGS.has_header, "skip_missing": FLAGS.skip_missing}
    return data_set.read(path, with_labels=with_labels, **options)


def _with_losses(sets: list[tuple], kind: str):
    """Returns the examples of a data set with its loss, or those of several data sets."""
    from keras_bert.tasks.embedding.examples import DataSets

    found = [dataclasses.replace(examples, loss=data_set.made_loss(KINDS[kind])) for data_set, examples in sets]
    return found[0] if len(found) == 1 else DataSets(found, FLAGS.sampler)


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
