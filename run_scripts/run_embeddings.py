"""Trains and evaluates sentence embeddings on pairs, triplets, scored pairs or labelled texts.

Reads .tsv, .csv, .jsonl and .parquet files. Which columns are named decides what is learnt:

    --text_columns=question,answer                        pairs: in-batch negatives
    --text_columns=question,answer,wrong                  the same with hard negatives
    --text_columns=sentence1,sentence2 --score_column=s   scored pairs: CoSENT
    --text_columns=text --label_column=label              labelled texts: triplets

With --cross_encoder it trains a model that scores a query and a text together: the first column is the query, and
scores are relevances from 0 to 1.

Example:
  python -m run_scripts.run_embeddings --init_checkpoint=all-MiniLM-L6-v2 --data_dir=questions \\
      --text_columns=question,answer --do_train --do_eval --output_dir=runs/search

Writes into output_dir: model/, eval_results.txt, eval_report/, and with --do_predict test_vectors.npy. If it stops,
the same command continues from the newest checkpoint. docs/embeddings.md describes training.
"""

from absl import flags

from keras_bert.program.command_line import refuse_flags_without_effect, run_command
from keras_bert.program.errors import InputError
from run_scripts.data_file_flags import data_files, define_data_file_flags
from run_scripts.fine_tuning_flags import (
    check_training_flags,
    define_fine_tuning_flags,
    fine_tuning_options,
    starting_point,
    train_evaluate_predict,
    trained_model_flags,
)

FLAGS = flags.FLAGS
_LOSS_NAMES = ("in_batch_negatives", "cosent", "cosine", "triplet", "label_triplets")
# Loss -> the flags that it takes.
_LOSS_FLAGS = {"in_batch_negatives": ("temperature", "symmetric"), "cosent": ("temperature",), "cosine": ()}
_LOSS_FLAGS |= {"triplet": ("margin",), "label_triplets": ("margin",)}


def define_flags() -> None:
    define_data_file_flags("Examples", "train.csv, train.tsv, train.jsonl ...")
    flags.DEFINE_boolean("has_header", True, "Whether the first line of .tsv and .csv files names the columns.")
    flags.DEFINE_list(
        "text_columns",
        None,
        "The columns of the texts, by name or number from 0: anchor, positive, hard negatives; or one column.",
        required=True,
    )
    flags.DEFINE_string("score_column", None, "The column with the similarity of each pair.")
    flags.DEFINE_float("score_scale", 1.0, "Scores are divided by this number, such as 5 for scores from 0 to 5.")
    flags.DEFINE_string("label_column", None, "The column with the label of each text.")
    flags.DEFINE_boolean("cross_encoder", False, "Train a CrossEncoder, which ranks texts, instead of vectors.")
    flags.DEFINE_enum("loss", None, _LOSS_NAMES, "The loss. Default: chosen by the columns.")
    flags.DEFINE_float("temperature", None, "Divides the cosines of in_batch_negatives and cosent (default: 0.05).")
    flags.DEFINE_boolean("symmetric", None, "in_batch_negatives: whether positives must find their anchors too.")
    flags.DEFINE_float("margin", None, "The margin of triplet and label_triplets (default: 5).")
    flags.DEFINE_list("matryoshka_dimensions", None, "Train these prefixes of the vectors too, such as 384,128,64.")
    flags.DEFINE_list("pooling", None, "How token vectors are pooled. Default: as the checkpoint says, or mean.")
    define_fine_tuning_flags()


def main() -> None:
    # All files are read before TensorFlow is loaded.
    files = data_files()
    refuse_flags_without_effect(FLAGS.score_column, "without --score_column", "score_scale")
    if FLAGS.cross_encoder:
        flags_of_vectors = (
            "label_column",
            "loss",
            "temperature",
            "symmetric",
            "margin",
            "matryoshka_dimensions",
            "pooling",
        )
        given = next((name for name in flags_of_vectors if FLAGS[name].value is not None), None)
        if given:
            raise InputError(f"--cross_encoder has no --{given}. Leave it out.")
    parts = {part: _read(path, with_labels=part != "predict") for part, path in files.items()}
    train, dev, test = (parts.get(part) for part in ("train", "eval", "predict"))
    check_training_flags(has_train=bool(train), has_dev=bool(dev))

    from keras_bert.tasks.embedding.model import SentenceEncoder
    from keras_bert.tasks.embedding.task import MAIN_SCORES
    from keras_bert.tasks.ranking.model import CrossEncoder
    from keras_bert.training.fine_tuning import fine_tune
    from keras_bert.training.finished_runs import evaluate_run, predict_run

    model = trained_model_flags()
    arguments = {"pooling": FLAGS.pooling} if FLAGS.pooling else {}
    model_class = CrossEncoder if FLAGS.cross_encoder else SentenceEncoder
    main_score = MAIN_SCORES.get((train or dev or test).kind, "spearman")
    if FLAGS.cross_encoder and main_score == "ndcg@10":
        main_score = "mrr@10"

    def train_in(folder, options):
        fine_tune(folder, model_class, train, dev, start=starting_point(), options=options, model_arguments=arguments)

    def evaluate_in(folder):
        return evaluate_run(folder, model_class, dev, batch_size=FLAGS.eval_batch_size, **model)

    def predict_in(folder):
        predict_run(folder, model_class, test, batch_size=FLAGS.predict_batch_size, **model)

    train_evaluate_predict(
        fine_tuning_options(),
        train_in if train else None,
        evaluate_in if dev else None,
        main_score,
        predict_in if test else None,
    )


def _read(path: str, with_labels: bool):
    from data_prep.finetuning.complete_rows import complete_rows
    from data_prep.finetuning.tables import read_rows
    from keras_bert.tasks.embedding.examples import SentenceExamples

    def values(row):
        texts = [row.text(name) for name in FLAGS.text_columns]
        score = row.number(FLAGS.score_column) / FLAGS.score_scale if with_labels and FLAGS.score_column else None
        return *texts, score, row.label(FLAGS.label_column) if with_labels and FLAGS.label_column else None

    rows = read_rows(path, has_header=FLAGS.has_header)
    found = complete_rows(path, rows, values, skip_missing=FLAGS.skip_missing)
    *columns, scores, labels = zip(*found, strict=True) if found else ((), (), ())
    scores, labels = (None if None in column else list(column) for column in (scores, labels))
    return SentenceExamples(list(map(list, columns)), scores, labels, source=path, loss=_loss())


def _loss():
    """Returns the loss that the flags name, or None."""
    given = {
        name: FLAGS[name].value for name in ("temperature", "symmetric", "margin") if FLAGS[name].value is not None
    }
    name = FLAGS.loss
    if name is None and (given or FLAGS.matryoshka_dimensions):
        name = "cosent" if FLAGS.score_column else "label_triplets" if FLAGS.label_column else "in_batch_negatives"
    if name is None:
        return None
    wrong = [flag for flag in given if flag not in _LOSS_FLAGS[name]]
    if wrong:
        raise InputError(f"The loss {name} has no --{wrong[0]}. Leave it out, or give another --loss.")

    from keras_bert.tasks.embedding.losses import LOSSES, Matryoshka

    loss = LOSSES[name](**given)
    if not FLAGS.matryoshka_dimensions:
        return loss
    try:
        return Matryoshka(loss, [int(number) for number in FLAGS.matryoshka_dimensions])
    except ValueError:
        given = ",".join(FLAGS.matryoshka_dimensions)
        raise InputError(
            f"--matryoshka_dimensions must be whole numbers with commas between. Received: {given}"
        ) from None


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
