"""Writes the answers of a model about the texts of a table, of any number of them, as files of Arrow or Parquet.

It is `embed_sentences` for models of all other tasks: a file has the ids, the columns that --columns names, and the
fields of the answers that `predict` returns, such as `label` and `probability`, `entities`, or `text`, `start` and
`end`. A command that was stopped continues with the next file when it is run again.

Example:
  python -m run_scripts.predict_table --init_checkpoint=exports/sentiment --input_file=reviews.parquet \
    --text_columns=review --id_column=id --output_dir=labels
  python -m run_scripts.predict_table --init_checkpoint=exports/squad --input_file=asked.jsonl \
    --text_columns=question,context --id_column=id --output_dir=answers --format=parquet
"""

import contextlib
import dataclasses
import multiprocessing
import os
import queue
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import flags

from keras_bert.program.command_line import command_of, import_extensions, refuse_flags_without_effect
from keras_bert.program.errors import InputError, UntrainedWarning
from keras_bert.program.folder_lock import only_writer
from keras_bert.program.long_work import long_work, progress_bar
from keras_bert.program.option_flags import define_flag, flags_by_name
from keras_bert.program.quiet_tensorflow import quiet_tensorflow
from run_scripts.asked_models import define_runtime_flags, define_vector_flags, takes_runtime_flags

# The vectors of all tokens of more texts would take too much memory.
_TEXTS_WITH_TOKEN_VECTORS = 256


def define_table_flags(*, has_pooling: bool) -> None:
    """Defines the flags of the model, of the table and of the output."""
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint of any format, or an exported folder.", required=True)
    flags.DEFINE_list("input_file", None, "Texts: files, folders, patterns, URLs, or tfds:NAME.", required=True)
    flags.DEFINE_string("output_dir", None, "The folder of the parts; one that was begun is continued.", required=True)
    columns_help = "The columns of the texts; several for pairs. Default: text, or the lines of files without columns."
    flags.DEFINE_list("text_columns", None, columns_help)
    flags.DEFINE_string("id_column", None, "The column of the ids. Default: the numbers of the rows, from 0.")
    flags.DEFINE_list("columns", [], "Further columns to keep; name the texts too to keep them.")
    flags.DEFINE_bool("has_header", True, "Whether the first line of a .tsv or .csv file has the names of the columns.")
    flags.DEFINE_bool("skip_missing", False, "Whether rows without a text are left out.")
    flags.DEFINE_enum("format", "arrow", ["arrow", "parquet"], "The kind of the files.")
    define_flag("rows_per_part", 16384, "The number of rows of a file.", at_least=1)
    define_flag("workers", 1, "Processes, each of which loads the model and writes parts.", at_least=1)
    define_vector_flags(has_pooling=has_pooling)
    define_runtime_flags()


@dataclasses.dataclass(frozen=True)
class TableWork:
    """What each process needs: the table (a `TextTable`), the model, and the parts (None before the table is read).

    `load` returns the model of a checkpoint from its path and constructor `arguments`. `runtime` are keyword arguments
    of `serving.load`, or None if the path is no export. `role` and `options` are those of `answer_batches`.
    """

    table: Any
    load: Callable
    path: str
    arguments: Mapping[str, Any]
    runtime: Mapping[str, Any] | None
    role: str | None
    options: Mapping[str, Any]
    parts: Any = None

    def model(self, num_threads: int | None = None) -> Any:
        if self.runtime is None:
            return self.load(self.path, **self.arguments)
        from keras_bert.serving import load
        from keras_bert.serving.portable.folder import EXPORT_FILE

        has_threads = os.path.isfile(os.path.join(self.path, EXPORT_FILE))  # that of a SavedModel is elsewhere
        return load(self.path, num_threads=num_threads if has_threads else None, **self.runtime)

    def texts(self, numbers: Sequence[int], has_token_vectors: bool) -> Iterator[tuple[int, Any]]:
        """Yields the batches of the parts with these numbers, in order, each with the number of its part."""
        from keras_bert.program.table_parts import parts_of

        at_once = [_TEXTS_WITH_TOKEN_VECTORS] if has_token_vectors else []
        parts, wanted = parts_of(self.table.batches(), self.parts.rows_per_part, *at_once), set(numbers)
        return (part for part in parts if part[0] in wanted)

    def answers(self, model: Any, batches: Iterable[Any]) -> Iterator[Any]:
        """Returns the batches with the answers about batches of texts."""
        from data_prep.finetuning.text_batches import ID, TEXT
        from keras_bert.serving.answer_batches import answer_batches

        return answer_batches(
            model,
            batches,
            text_columns=self.table.text_columns or [TEXT],
            columns=list(dict.fromkeys([ID, *self.table.columns])),
            role=self.role,
            **self.options,
        )

    def write(self, model: Any, numbers: Sequence[int], report: Callable[[int], Any]) -> None:
        """Writes the parts with these numbers, in order; calls `report` with the number of rows of each batch."""
        texts = self.texts(numbers, has_token_vectors(model))
        answers = self.answers(model, (batch for _, batch in texts))
        for number in numbers:
            batches = _taken(answers, self.parts.rows_of(number), report, is_quiet=number != numbers[0])
            self.parts.write(number, batches)


def has_token_vectors(model: Any) -> bool:
    """Returns whether a model makes a vector for each token."""
    return hasattr(model, "encode_document") and not hasattr(model, "encode")


def _taken(answers: Iterator[Any], num_rows: int, report: Callable[[int], Any], *, is_quiet: bool) -> Iterator[Any]:
    """Yields batches with so many rows. `is_quiet` hides what models print, such as how many texts are cut."""
    while num_rows:
        with open(os.devnull, "w") as nothing, contextlib.redirect_stderr(nothing if is_quiet else sys.stderr):
            batch = next(answers, None)
        if batch is None:
            raise InputError("The table has fewer rows than when it was checked. Run the command again.")
        report(len(batch))
        num_rows, is_quiet = num_rows - len(batch), True
        yield batch


def write_table(
    load: Callable,
    options: Mapping[str, Any],
    arguments: Mapping[str, Any] = {},
    role: str | None = None,
    *,
    is_encoder: bool = False,
    beam_options: Sequence[str] = (),
) -> None:
    """Does the work that the flags of `define_table_flags` ask for. Options that are None are left out.

    `is_encoder` says that the model must make vectors: `InputError` if it does not. With `beam_options`, `--runner=...`
    and others, Beam writes the parts.
    """
    from data_prep.pretraining.beam_runner import new_pipeline
    from keras_bert.program.table_parts import LOCK_FILE, TableParts, check_parts_folder

    given = flags.FLAGS
    folder, path = given.output_dir, given.init_checkpoint
    refuse_flags_without_effect(not beam_options, "with a runner of Beam", "workers")
    if "://" in folder:
        raise InputError(f"--output_dir is a folder on this disk, or one that all machines share. Received: {folder}")
    pipeline = new_pipeline(beam_options) if beam_options else None
    check_parts_folder(folder)
    is_export = takes_runtime_flags(path, arguments=arguments)
    from data_prep.finetuning.text_batches import TextTable
    from keras_bert.serving.answer_batches import answer_facts, makes_vectors

    runtime = flags_by_name("runtime", "precision") if is_export else None
    names = ("text_columns", "id_column", "columns", "has_header", "skip_missing")
    table = TextTable(given.input_file, **flags_by_name(*names))
    options = {name: value for name, value in options.items() if value is not None}
    work = TableWork(table, load, path, arguments, runtime, role, options)
    with only_writer(os.path.join(folder, LOCK_FILE)):
        model = work.model()
        if is_encoder and not makes_vectors(model):
            raise InputError(f"{path} is a {model.kind}, which makes no vectors. Use predict_table for its answers.")
        facts = answer_facts(model, role, **options)
        with long_work(f"reading {','.join(given.input_file)}"):
            rows = table.facts
        parts = TableParts(folder, rows.num_rows, given.rows_per_part, given.format)
        work = dataclasses.replace(work, parts=parts)
        settings = flags_by_name("text_columns", "columns", "skip_missing")
        if is_export:
            settings |= {"runtime": model.runtime.name, "precision": model.runtime.precision}
        numbers = parts.unfinished({**settings, "rows_sha256": rows.rows_sha256}, facts)
        _write_parts(work, model, numbers, pipeline)
    print(f"{folder}: {parts.num_rows:,} rows in {parts.num_parts:,} parts")


def _write_parts(work: TableWork, model: Any, numbers: Sequence[int], pipeline: Any) -> None:
    """Writes parts with a pipeline of Beam if there is one, or in as many processes as --workers says."""
    if pipeline is not None:
        from run_scripts.beam_parts import write_parts

        write_parts(pipeline, work, numbers, model)
        return
    parts, num_workers = work.parts, flags.FLAGS.workers
    num_finished = parts.num_rows - sum(map(parts.rows_of, numbers))
    with progress_bar(total=parts.num_rows, initial=num_finished, unit=" rows", mininterval=1) as bar:
        if num_workers == 1 or len(numbers) < 2:
            work.write(model, numbers, bar.update)
        else:
            _write_in_processes(work, numbers, num_workers, bar.update)


def _write_in_processes(work: TableWork, numbers: Sequence[int], num_workers: int, report: Callable) -> None:
    """Writes parts in several processes. If one fails, or at Ctrl-C, all end; finished parts stay."""
    from data_prep.text.ordered_map import available_cores, ctrl_c_held_back

    context = multiprocessing.get_context("spawn")
    messages, num_threads = context.Queue(), max(1, available_cores() // num_workers)
    shares = filter(None, (numbers[first::num_workers] for first in range(num_workers)))
    workers = [
        context.Process(target=_work, args=(work, share, num_threads, messages), daemon=True) for share in shares
    ]
    try:
        with ctrl_c_held_back():
            for worker in workers:
                worker.start()
        while any(worker.is_alive() for worker in workers) or not messages.empty():
            with contextlib.suppress(queue.Empty):
                message = messages.get(timeout=0.5)
                if isinstance(message, str):
                    raise InputError(message)
                report(message)
            if any(worker.exitcode for worker in workers) and messages.empty():
                raise InputError(
                    "A process was killed, most often for lack of memory. Finished parts stay: run the command again, "
                    "with fewer --workers."
                )
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _work(work: TableWork, numbers: Sequence[int], num_threads: int, messages: Any) -> None:
    """Writes the parts of one process."""
    quiet_tensorflow()
    os.environ["TF_NUM_INTRAOP_THREADS"] = os.environ["RAYON_NUM_THREADS"] = str(num_threads)

    def report(num_rows: int) -> None:
        if not multiprocessing.parent_process().is_alive():
            sys.exit(1)
        messages.put(num_rows)

    try:
        warnings.simplefilter("error", UntrainedWarning)
        import_extensions()
        work.write(work.model(num_threads), numbers, report)
    except InputError as error:
        messages.put(str(error))


def define_flags() -> None:
    define_table_flags(has_pooling=False)


def main(beam_options: list[str]) -> None:
    write_table(load_model, flags_by_name("max_seq_length", "batch_size"), beam_options=beam_options)


def load_model(path: str) -> Any:
    """Returns the model of a checkpoint, of the kind that its files say."""
    from keras_bert.checkpoints.pretrained import from_pretrained

    return from_pretrained(None, path)


command = command_of(main, define_flags, passes_on=True)
if __name__ == "__main__":
    command()
