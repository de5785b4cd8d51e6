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
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from absl import flags

from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import checked, member, read_json, read_json_object, strings
from keras_bert.program.option_flags import define_option_flags, options_of_flags, refuse_unneeded_flags
from keras_bert.program.options import Options, option
from keras_bert.tasks.embedding.examples import PROPORTIONAL, ROUND_ROBIN, DataSets, SentenceExamples
from keras_bert.tasks.embedding.loss_table import LOSSES, Loss, loss_of_name
from keras_bert.tasks.multi_vector.max_sim import MAX_SIM_LOSSES
from keras_bert.tasks.ranking.loss_table import RANKING_LOSSES
from keras_bert.tasks.sparse.encoding import SPARSE_LOSSES
from run_scripts.fine_tuning_flags import data_files, define_data_file_flags, define_fine_tuning_flags, run_task

FLAGS = flags.FLAGS
_logger = logging.getLogger(__name__)
_OF_VECTORS = ("label_column", "matryoshka_dimensions", "pooling")
# The fields of a data set that are no options of losses.
_OF_DATA = ("text_columns", "score_column", "score_scale", "label_column", "loss", "matryoshka_dimensions")


class Kind(NamedTuple):
    """A kind of model that the command trains.

    `flag` selects it; `losses` are its losses by name, and `what` is what they are called in messages. `of_texts` and
    `of_scores` are the names of those for texts alone, and with a column of scores.
    """

    flag: str | None
    losses: Mapping[str, Loss]
    what: str
    of_texts: str
    of_scores: str


KINDS = {
    "SentenceEncoder": Kind(None, LOSSES, "an EmbeddingLoss", "in_batch_negatives", "cosent"),
    "CrossEncoder": Kind("cross_encoder", RANKING_LOSSES, "a RankingLoss", "cross_entropy", "binary_cross_entropy"),
    "SparseEncoder": Kind("sparse_encoder", SPARSE_LOSSES, "a SpladeLoss", "in_batch_negatives", "margin_mse"),
    "MultiVectorEncoder": Kind(
        "multi_vector_encoder", MAX_SIM_LOSSES, "a MaxSimLoss", "in_batch_negatives", "distillation"
    ),
}


@dataclasses.dataclass(frozen=True)
class DataSet(Options):
    """The columns of a data set, and its loss."""

    text_columns: Sequence[str] = option(
        dataclasses.MISSING, "The columns of the texts: anchor, positive, hard negatives; or one column."
    )
    score_column: str | None = option(
        None,
        "The column with the similarity of each pair. For more texts, with a list: a score for each text after the "
        "first, or by how much that of the second exceeds those of the others.",
    )
    score_scale: float = option(1.0, "Scores are divided by it, such as 5 for 0 to 5.", needs="score_column")
    label_column: str | None = option(None, "The column with the label of each text.")
    loss: str | None = option(None, "The loss, see above. Default: chosen by the columns.")
    temperature: float | None = option(None, "Divides cosines or scores, in losses that have a temperature.", above=0)
    symmetric: bool | None = option(None, "in_batch_negatives: whether positives must find their anchors too.")
    margin: float | None = option(None, "The margin of losses that have one.")
    teacher: str | None = option(None, "For losses with a teacher: a folder of a CrossEncoder or SentenceEncoder.")
    guide: str | None = option(None, "The guide of gist_embed: the folder of a SentenceEncoder.")
    scale: float | None = option(None, "The factor of sparse or multi-vector scores in in_batch_negatives.", above=0)
    document_regularizer_weight: float | None = option(None, "Sparse: the weight of FLOPS. Default: 3e-5.", at_least=0)
    query_regularizer_weight: float | None = option(None, "The same for queries. Default: 5e-5.", at_least=0)
    document_regularizer_threshold: int | None = option(None, "Sparse: for vectors with more weights.", at_least=0)
    query_regularizer_threshold: int | None = option(None, "The same for queries.", at_least=0)
    warmup_ratio: float | None = option(
        None, "Sparse: the share of updates in which it rises. Default: a third.", at_least=0, at_most=1
    )
    matryoshka_dimensions: Sequence[int] | None = option(None, "Prefixes to train too, such as 384,128,64.", at_least=1)

    def read(self, path: str, *, with_labels: bool, has_header: bool, skip_missing: bool) -> SentenceExamples:
        """Returns the examples of a file."""
        from data_prep.finetuning.complete_rows import complete_rows
        from data_prep.finetuning.tables import read_rows

        score_column, label_column = (self.score_column, self.label_column) if with_labels else (None, None)

        def scores_of(row):
            if len(self.text_columns) < 3:
                return row.number(score_column) / self.score_scale
            return [score / self.score_scale for score in row.numbers(score_column)]

        def values(row):
            """Returns the examples of a row: one, or one for each of a list of positives."""
            if not score_column and not label_column and len(self.text_columns) > 1:
                positives, *negatives = (row.texts([name], "text") for name in self.text_columns[1:])
                anchor, negatives = row.text(self.text_columns[0]), [text for several in negatives for text in several]
                return [(anchor, positive, *negatives, None, None) for positive in positives]
            texts = [row.text(name) for name in self.text_columns]
            score = scores_of(row) if score_column else None
            return [(*texts, score, row.label(label_column) if label_column else None)]

        rows = complete_rows(path, read_rows(path, has_header=has_header), values, skip_missing=skip_missing)
        found = [example for examples in rows for example in examples]
        widths = set(map(len, found))
        if len(widths) > 1:
            fewest, most = min(widths) - 4, max(widths) - 4
            _logger.warning(f"{path}: examples have {fewest} to {most} negatives. The first {fewest} of each are used.")
            found = [(*example[: fewest + 2], None, None) for example in found]
        *columns, scores, labels = zip(*found, strict=True) if found else ((), (), ())
        scores, labels = (None if None in column else list(column) for column in (scores, labels))
        return SentenceExamples(list(map(list, columns)), scores, labels, source=path)

    def made_loss(self, kind: Kind) -> Any:
        """Returns the loss of a kind of model; None for that of the columns. Raises `InputError` for a wrong option."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        given = {name: value for name, value in values.items() if name not in _OF_DATA and value is not None}
        name = self.loss
        if name is None and (given or self.matryoshka_dimensions):
            by_columns = kind.of_scores if self.score_column else kind.of_texts
            name = "label_triplets" if self.label_column else by_columns
        if name is None:
            return None
        loss_class = loss_of_name(kind.losses, kind.what, name)
        known = {field.name for field in dataclasses.fields(loss_class) if field.init}
        wrong = next((option for option in given if option not in known), None)
        if wrong:
            raise InputError(f"The loss {name} has no --{wrong}. Leave it out, or give another --loss.")
        if "ranking" in known:  # one class computes all losses of the kind
            given["ranking"] = name
        if not self.matryoshka_dimensions:
            return loss_class(**given)
        from keras_bert.tasks.embedding.losses import Matryoshka

        return Matryoshka(loss_class(**given), self.matryoshka_dimensions)


def data_sets_of_file(path: str) -> list[tuple[str, DataSet]]:
    """Returns the file with examples and the `DataSet` of each object in a JSON list.

    Raises `InputError` if the file is no such list, or a name or a value in it is wrong.
    """
    known = ["train_file", *(field.name for field in dataclasses.fields(DataSet))]
    found = []
    for number, given in enumerate(checked(read_json(path), list, "the file", path), start=1):
        where = f"{path}: data set {number}"
        values = dict(checked(given, dict, "it", where))
        unknown = next((name for name in values if name not in known), None)
        if unknown is not None:
            raise InputError(f"{where}: there is no {unknown!r:.100}. Possible are: {', '.join(known)}")
        file = checked(values.pop("train_file", ""), str, "train_file", where)
        if not file or not values.get("text_columns"):
            raise InputError(f"{where}: it must have a train_file and text_columns.")
        try:
            found.append((file, DataSet(**values)))
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
    return found


def loss_lines() -> str:
    """Returns a line for each loss: its name, and what it needs."""
    lines = []
    for kind in KINDS.values():
        lines += [f"With --{kind.flag}:" if kind.flag else "The losses of --loss need:", ""]
        lines += [*(f"    {name:<22}{entry.needs}" for name, entry in kind.losses.items()), ""]
    return "\n".join(lines[:-1])


__doc__ = f"{__doc__}\n{loss_lines()}"


def define_flags() -> None:
    define_data_file_flags("Examples", "train.csv, train.tsv, train.jsonl ...")
    flags.DEFINE_boolean("has_header", True, "Whether the first line of .tsv and .csv files names the columns.")
    define_option_flags(DataSet)
    flags.mark_flag_as_required("text_columns")
    flags.DEFINE_string("more_data", None, "A JSON file with further data sets to train on, see above.")
    help = "With more_data: all batches of all data sets in random order, or the data sets in turns until one ends."
    flags.DEFINE_enum("sampler", PROPORTIONAL, [PROPORTIONAL, ROUND_ROBIN], help)
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
        train = [dataclasses.replace(found, loss=one.made_loss(KINDS[kind])) for one, found in sets]
        parts["train"] = train[0] if len(train) == 1 else DataSets(train, FLAGS.sampler)
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


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
