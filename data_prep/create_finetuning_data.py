"""Makes fine-tuning records from data sets: classification, regression, multiple choice, tagging, questions.

Reads TSV, CSV, JSON Lines, CoNLL columns, SQuAD files and tensorflow_datasets (tfds:NAME@SPLIT). Writes into output_dir
train.tf_record, eval.tf_record and predict.tf_record, in the formats of google-research/bert and TF Model Garden, and
metadata.json. docs/finetuning_data.md describes all of them.

Examples:
  python -m data_prep.create_finetuning_data --task=classification --train_file=train.tsv --eval_file=dev.tsv \\
      --vocab_file=vocab.txt --output_dir=records
  python -m data_prep.create_finetuning_data --task_name=MRPC --data_dir=glue/MRPC --vocab_file=vocab.txt \\
      --output_dir=records
  python -m data_prep.create_finetuning_data --task=question_answering --train_file=train-v2.0.json \\
      --predict_file=dev-v2.0.json --version_2_with_negative --vocab_file=vocab.txt --output_dir=records
"""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Mapping
from typing import Any

from absl import flags

from data_prep.finetuning.finetuning_task import FinetuningOptions, FinetuningTask
from data_prep.finetuning.glue import GlueTask, find_task
from keras_bert.program.atomic_output import atomic_file, atomic_folder, check_output_folder
from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import write_json
from keras_bert.program.option_flags import define_option_flags, options_of_flags
from keras_bert.program.options import check_choice, check_whole
from keras_bert.program.printing import recordable

_logger = logging.getLogger(__name__)

KINDS = ("classification", "regression", "multi_label", "multiple_choice", "tagging", "question_answering")
# Above this share of [UNK], the user is warned that the vocabulary does not fit the text.
_MANY_UNKNOWN = 0.05

_COUNT_NAMES = {
    "cut_texts": "texts were cut to max_seq_length",
    "cut_sentences": "sentences were split into several records",
    "unknown_words": "words became [UNK], because they have no pieces or too many",
    "cut_questions": "questions were cut to max_query_length",
    "moved_answers": "answers were found at another position than answer_start",
    "answers_without_tokens": "questions were left out, because their answer has no tokens",
    "answers_longer_than_a_window": "answers fit into no window, so all their windows are labelled as unanswerable",
}


def create_finetuning_data(
    task: str,
    files: Mapping[str, str],
    vocab_file: str | os.PathLike,
    output_dir: str | os.PathLike,
    *,
    options: FinetuningOptions | None = None,
    task_name: str | None = None,
    do_lower_case: bool = True,
    use_v2_feature_names: bool = False,
    show_progress: bool = False,
) -> dict[str, Any]:
    """Makes fine-tuning records; see the top of this file.

    Args:
        task: one of `KINDS`.
        files: "train", "eval" and "predict" -> a file or `tfds:` name. Each becomes a record file with that name.
            Longer names, like "eval_mismatched", are treated alike. Files to predict need no labels.
        output_dir: a new or empty folder. It is written atomically.
        options: `FinetuningOptions()` by default.
        task_name: the GLUE task of the files, which determines columns and labels.
        use_v2_feature_names: whether to use TF Model Garden's names, `input_word_ids` and `input_type_ids`.

    Returns:
        The content of `metadata.json`.

    Raises:
        InputError: a file cannot be read or does not fit the task, or the output cannot be written.
    """
    from keras_bert.tokenization.kinds import as_tokenizer, load_vocabulary

    options = options or FinetuningOptions()
    check_whole("max_seq_length", options.max_seq_length, at_least=4)
    check_output_folder(output_dir)
    tokenizer = as_tokenizer(load_vocabulary(vocab_file), do_lower_case)
    processor_type, glue = find_task(task_name) if task_name else ("text", None)
    maker = make_task(task, options, glue)
    if not files:
        raise InputError("There is nothing to read. Give --train_file, --eval_file, --predict_file or --data_dir.")
    for part, path in files.items():
        maker.read(part, path)
    maker.settle()

    graph = tokenizer.graph()
    further_options = {"do_lower_case": do_lower_case, "use_v2_feature_names": use_v2_feature_names}
    with atomic_folder(output_dir) as folder:
        written = {
            part: _write_part(maker, part, path, graph, folder, use_v2_feature_names, show_progress)
            for part, path in files.items()
        }
        metadata = {
            **_garden_metadata(maker, written, processor_type),
            "task": task,
            "files": written,
            "vocabulary": {"num_tokens": len(tokenizer), "sha256": tokenizer.sha256},
            "options": {**dataclasses.asdict(options), **further_options},
        }
        write_json(os.path.join(folder, "metadata.json"), metadata)
    return metadata


def make_task(task: str, options: FinetuningOptions, glue: GlueTask | None = None) -> FinetuningTask:
    """Returns the object that reads the files of a task and makes its records."""
    from data_prep.finetuning.classification_records import Classification, MultiLabel, Regression
    from data_prep.finetuning.multiple_choice_records import MultipleChoice
    from data_prep.finetuning.question_answering_records import QuestionAnswering
    from data_prep.finetuning.tagging_records import Tagging

    makers = dict(
        zip(KINDS, (Classification, Regression, MultiLabel, MultipleChoice, Tagging, QuestionAnswering), strict=True)
    )
    check_choice("task", task, KINDS)
    return makers[task](options, glue)


def _write_part(
    maker: FinetuningTask,
    part: str,
    source: str,
    tokenizer,
    folder: str,
    use_v2_feature_names: bool,
    show_progress: bool,
) -> dict[str, Any]:
    """Writes the records of one part, and returns their metadata."""
    from data_prep.pretraining.record_writer import write_records
    from keras_bert.program.long_work import progress_bar
    from keras_bert.records import features

    record = maker.record(part)
    if use_v2_feature_names:
        record = features.with_garden_names(record)
    num_examples = len(maker.examples[part])
    tokens = {"all": 0, "unknown": 0}
    names = {"name": f"{part}.tf_record"}
    with contextlib.ExitStack() as stack:
        bar = stack.enter_context(
            progress_bar(desc=part, total=num_examples, unit=" examples", disable=not show_progress)
        )
        write_line = None
        if maker.has_side_file(part):
            names["side_file"] = f"{part}.windows.jsonl"
            write_line = stack.enter_context(atomic_file(os.path.join(folder, names["side_file"]))).write

        def batches():
            for batch, number in maker.batches(part, tokenizer, write_line):
                tokens["all"] += int((batch[features.INPUT_MASK] > 0).sum())
                tokens["unknown"] += int((batch[features.INPUT_IDS] == tokenizer.vocabulary.unk_id).sum())
                yield features.to_garden_names(batch) if use_v2_feature_names else batch, number / num_examples
                bar.update(number)

        written = write_records(os.path.join(folder, names["name"]), batches(), record)
    _warn(maker, part, source, tokens["unknown"] / max(tokens["all"], 1))
    counts = {name: count for name, count in sorted(maker.counts[part].items()) if count}
    numbers = {"num_examples": num_examples, "num_records": written.num_records}
    return {**names, "source": recordable(source), **numbers, "sha256": written.sha256, "counts": counts}


def _warn(maker: FinetuningTask, part: str, source: str, unknown_share: float) -> None:
    for note in maker.notes[part]:
        _logger.warning("%s: %s", source, note if note.endswith("?") else f"{note}.")
    for name, text in _COUNT_NAMES.items():
        if maker.counts[part][name]:
            _logger.warning("%s: %d %s.", source, maker.counts[part][name], text)
    if unknown_share > _MANY_UNKNOWN:
        _logger.warning(
            "%s: %.1f %% of the tokens are [UNK]: the vocabulary does not fit the text. Check vocab_file and "
            "do_lower_case.",
            source,
            100 * unknown_share,
        )


def _garden_metadata(maker: FinetuningTask, written: dict[str, dict], processor_type: str) -> dict[str, Any]:
    """Returns the entries that TF Model Garden reads."""
    sizes = {f"{part.replace('predict', 'test')}_data_size": file["num_records"] for part, file in written.items()}
    task = {"task_type": maker.task_type, "processor_type": processor_type}
    task["max_seq_length"] = maker.options.max_seq_length
    return {**task, "train_data_size": 0, **sizes, **maker.metadata()}


FLAGS = flags.FLAGS

_OF_TEXTS = ("classification", "regression", "multi_label")
_WITH_CLASSES = ("classification", "multi_label", "multiple_choice", "tagging")
# Flags that are for some tasks only.
_TASKS_OF_FLAG = {
    "has_header": (*_OF_TEXTS, "multiple_choice"),
    "text_column": (*_OF_TEXTS, "multiple_choice", "tagging"),
    "second_text_column": _OF_TEXTS,
    "label_column": (*_OF_TEXTS, "multiple_choice", "tagging"),
    "label_separator": ("multi_label",),
    "choice_columns": ("multiple_choice",),
    "labels": _WITH_CLASSES,
    "doc_stride": ("question_answering",),
    "max_query_length": ("question_answering",),
    "version_2_with_negative": ("question_answering",),
}


def define_flags() -> None:
    flags.DEFINE_enum("task", None, list(KINDS), "The task. --task_name implies it.")
    flags.DEFINE_string(
        "task_name",
        None,
        "A task of GLUE, whose files, columns and labels are known: CoLA, SST-2, MRPC, QQP, STS-B, MNLI, QNLI, RTE, "
        "WNLI, AX.",
    )
    flags.DEFINE_string("data_dir", None, "A folder with train, dev and test files, instead of naming them.")
    flags.DEFINE_string("train_file", None, "Examples to train on: a file, or tfds:NAME@SPLIT.")
    flags.DEFINE_string("eval_file", None, "Examples with labels to evaluate on.")
    flags.DEFINE_string("predict_file", None, "Examples to predict labels for.")
    flags.DEFINE_alias("dev_file", "eval_file")
    flags.DEFINE_alias("test_file", "predict_file")
    flags.DEFINE_string("vocab_file", None, "A vocab.txt, or a folder with vocab.json and merges.txt (byte-level BPE).")
    flags.DEFINE_bool("do_lower_case", True, "Lower-case the text and strip accents, as for uncased vocabularies.")
    flags.DEFINE_string("output_dir", None, "A new or empty folder for the records.")
    flags.DEFINE_integer(
        "max_seq_length", None, "Tokens in a record, special tokens included (default: 128; 384 for questions)."
    )
    define_option_flags(FinetuningOptions)
    flags.DEFINE_bool(
        "use_v2_feature_names", False, "Use TF Model Garden's feature names: input_word_ids, input_type_ids."
    )
    flags.mark_flags_as_required(["vocab_file", "output_dir"])


def main() -> None:
    task = _task()
    for name, tasks in _TASKS_OF_FLAG.items():
        refuse_flags_without_effect(task in tasks, f"for {task}", name)
    usual_length = 384 if task == "question_answering" else 128  # Google's defaults
    options = options_of_flags(FinetuningOptions, max_seq_length=FLAGS.max_seq_length or usual_length)
    metadata = create_finetuning_data(
        task,
        _files(task),
        FLAGS.vocab_file,
        FLAGS.output_dir,
        options=options,
        task_name=FLAGS.task_name,
        do_lower_case=FLAGS.do_lower_case,
        use_v2_feature_names=FLAGS.use_v2_feature_names,
        show_progress=True,
    )
    for part, file in metadata["files"].items():
        print(f"{part:<18}{file['num_examples']:>10,} examples{file['num_records']:>10,} records   {file['name']}")
    if labels := metadata.get("label_list"):
        shown = ", ".join(labels[:20]) + (", ..." if len(labels) > 20 else "")
        print(f"{'labels':<18}{len(labels):>10,}: {shown}")


def _task() -> str:
    """Returns the task that --task or --task_name selects."""
    if FLAGS.task_name is None:
        if FLAGS.task is None:
            raise InputError(f"Give the task: --task={'|'.join(KINDS)}, or --task_name for a task of GLUE.")
        return FLAGS.task
    name, glue = find_task(FLAGS.task_name)
    if FLAGS.task not in (None, glue.kind):
        raise InputError(f"{name} has the task {glue.kind}, not {FLAGS.task}. Leave --task out.")
    return glue.kind


def _files(task: str) -> dict[str, str]:
    """Returns part -> file. Files that flags name replace those of the folder."""
    from data_prep.finetuning.data_folder import find_parts

    found = {}
    if FLAGS.data_dir and FLAGS.task_name:
        found = find_task(FLAGS.task_name)[1].find_files(FLAGS.data_dir)
    elif FLAGS.data_dir:
        found = find_parts(FLAGS.data_dir, make_task(task, FinetuningOptions()).endings)
    named = {"train": FLAGS.train_file, "eval": FLAGS.eval_file, "predict": FLAGS.predict_file}
    return found | {part: path for part, path in named.items() if path}


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
