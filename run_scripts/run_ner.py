"""Trains, evaluates and applies a tagger of words: named entities, parts of speech.

Reads CoNLL columns (one word per line, blank lines between sentences; tabs or blanks between columns; BIO, IOB1, BIOES,
BILOU or BMES), CoNLL-U, JSON Lines with lists of words and tags, texts with spans of Doccano, spaCy, Prodigy and Label
Studio (.jsonl, .json), and tensorflow_datasets (tfds:NAME@SPLIT):

    run_ner --train_file=train.conll --dev_file=dev.conll --test_file=test.conll --init_checkpoint=my_bert \\
        --output_dir=runs/ner --do_train --do_eval --do_predict

Writes to output_dir: model/ (a model folder with the labels), eval_results.txt (entity F1, precision and recall as in
conlleval), eval_report/ (a table and a picture of all types, the worst sentences), history.jsonl,
test_predictions.conll (words, their tags if the file has them, predicted tags), of texts test_predictions.jsonl (with
the predicted spans) and, if the file has tags, test_results.txt.
If the command is killed or stopped, the same command resumes from the newest checkpoint. docs/tagging.md describes all
of it.
"""

import logging

from absl import flags

from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.option_flags import flags_by_name
from keras_bert.tasks.tagging.decoding import INDEPENDENT, VITERBI
from run_scripts.fine_tuning_flags import data_files, define_data_file_flags, define_fine_tuning_flags, run_task

FLAGS = flags.FLAGS
_logger = logging.getLogger(__name__)


def define_flags() -> None:
    define_data_file_flags("Tagged sentences", "train.conll, train.jsonl ...")
    flags.DEFINE_string("text_column", None, "The column of the words, from 0, or a name (default: 0, tokens or text).")
    flags.DEFINE_string("label_column", None, "The column of the tags, likewise (default: the last, tags or spans).")
    flags.DEFINE_list("labels", None, "The tags in the order of their ids (default: those of the data or the model).")
    help = "Cut too long sentences into rows this many tokens apart. Default: as the model does, at first none."
    flags.DEFINE_integer("doc_stride", None, help)
    help = "The best sequence that the tags' scheme allows, or the best tag of each word. Default: as the model does."
    flags.DEFINE_enum("decoding", None, [VITERBI, INDEPENDENT], help)
    define_fine_tuning_flags()


def main() -> None:
    from data_prep.finetuning.tagging_records import Tagging
    from keras_bert.tasks.tagging.examples import label_ids, labels_of
    from keras_bert.tasks.tagging.tag_schemes import TagLabels

    refuse_flags_without_effect(FLAGS.do_eval, "without --do_eval", "calibrate")
    # All files are read before TensorFlow is loaded, so that errors appear early.
    files = data_files(Tagging.endings)
    parts = {part: _read(path, has_tags=None if part == "predict" else True) for part, path in files.items()}
    labels = FLAGS.labels
    settings = {"doc_stride": FLAGS.doc_stride, "decoding": FLAGS.decoding}
    arguments = {name: value for name, value in settings.items() if value is not None}
    if "train" in parts:
        labels = labels or labels_of(parts["train"])
        arguments["labels"] = list(labels)
        for part, examples in parts.items():
            if part != "predict":
                label_ids(examples, TagLabels.of(labels, "labels"))  # raises an error before the training

    # Tags that are not of entities have no entity F1.
    main_score = "f1" if labels is None or TagLabels.of(labels, "labels").scheme else "accuracy"
    run_task("TokenClassifier", parts, main_score, model_arguments=arguments, **settings)


def _read(path: str, has_tags: bool | None):
    from data_prep.finetuning.conll import read_tagged_sentences
    from keras_bert.tasks.tagging.examples import in_one_scheme

    how = flags_by_name("text_column", "label_column", "skip_missing")
    found = read_tagged_sentences(path, has_tags=has_tags, labels=FLAGS.labels or (), **how)
    if has_tags:
        found, _, notes = in_one_scheme(found)
        for note in notes:
            _logger.warning("%s: %s.", path, note)
    return found


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
