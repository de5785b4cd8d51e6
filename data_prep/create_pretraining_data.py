"""Makes pre-training records from text: masked tokens and sentence pairs, as TFRecord files.

The text has one sentence a line and a blank line between documents; with --split_sentences lines may be whole
paragraphs. Files, folders, patterns, .gz, .jsonl and tensorflow_datasets names are read. The records are those of
google-research/bert, and so are the flags.

Example:
  python -m data_prep.create_pretraining_data --input_file='text/*.txt' --vocab_file=vocab.txt --output_dir=records

The text is tokenised once and then read `dupe_factor` times, each time cut and masked anew. Documents are dealt out to
the output files by a seeded hash, and a random next sentence comes from another document of the same file: give each
file a hundred documents or more. The same text, flags and seed give the same bytes, with any number of processes.
"""

import contextlib
import dataclasses
import logging
import os
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags

from keras_bert.atomic_output import check_output_folder, say_why_writing_failed
from keras_bert.command_line import run_command
from keras_bert.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from data_prep.pretraining_records import PretrainingOptions
    from data_prep.record_writer import PretrainingDataSummary, RecordCounts
    from data_prep.tokenized_corpus import TokenizedCorpus
    from keras_bert.tokenization.vocabulary import Vocabulary

_logger = logging.getLogger(__name__)

# Above this share of [UNK] the vocabulary does not fit the text.
_MANY_UNKNOWN = 0.05
# Without --num_shards: this many documents a file, so that random next sentences have enough to choose from.
_DOCUMENTS_PER_SHARD = 100
_MOST_SHARDS = 16


def create_pretraining_data(
    input_file: str | Sequence[str] | None,
    vocab_file: str | os.PathLike,
    *,
    output_file: Sequence[str] | None = None,
    output_dir: str | os.PathLike | None = None,
    num_shards: int | None = None,
    options: "PretrainingOptions | None" = None,
    do_lower_case: bool = True,
    split_sentences: bool = False,
    language: str = "en",
    text_field: str = "text",
    tokenized_corpus: str | os.PathLike | None = None,
    num_processes: int = 1,
    show_progress: bool = False,
) -> "PretrainingDataSummary":
    """Makes pre-training records from text; see the top of this file.

    Args:
        input_file: what `data_prep.corpus.read_documents` takes. May be None when `tokenized_corpus` exists.
        output_file: names of the files to write; files that exist are replaced.
        output_dir: instead, a new or empty folder for `num_shards` files.
        num_shards: by default one for every hundred documents, at most 16.
        options: `PretrainingOptions()` by default.
        split_sentences: the lines are paragraphs, to be split by the rules of `language`.
        tokenized_corpus: a folder to keep the tokenised text in. One that exists is used as it is.
        num_processes: processes that write records. With more than one, the calling script needs the usual
            `if __name__ == "__main__":`.

    Raises:
        InputError: the input holds no text, a value is out of range, the tokenised corpus that exists was made from
            other text or with another vocabulary, or the output cannot be written.
    """
    from data_prep.pretraining_records import PretrainingOptions
    from data_prep.record_writer import MANIFEST_NAME, PretrainingDataSummary, RecordCounts, write_manifest
    from data_prep.tokenize_text import tokenize_text
    from keras_bert.tokenization.vocabulary import Vocabulary

    options = options or PretrainingOptions()
    if num_processes < 1 or (num_shards is not None and num_shards < 1):
        raise InputError(f"num_processes and num_shards must be 1 or more. Received: {num_processes} and {num_shards}")
    if (output_file is None) == (output_dir is None):
        raise InputError("Give either output_file, the names of the files, or output_dir, a folder for them.")
    _warn_about_too_few_predictions(options)
    vocabulary = Vocabulary.from_file(vocab_file)
    beside = _check_output(output_file, output_dir)
    with contextlib.ExitStack() as stack:
        if tokenized_corpus is None:
            with say_why_writing_failed(beside):
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=".tokenized-corpus-", dir=beside))
            tokenized_corpus = os.path.join(folder, "corpus")
        corpus = tokenize_text(
            input_file,
            tokenized_corpus,
            vocabulary,
            do_lower_case=do_lower_case,
            split_sentences=split_sentences,
            language=language,
            text_field=text_field,
            show_progress=show_progress,
        )
        _warn_about_unknown_tokens(corpus)
        paths = list(output_file) if output_file else _shard_paths(output_dir, num_shards, corpus.num_documents)
        _check_shards(corpus, options.random_seed, len(paths))
        counts = _write_shards(corpus, os.fspath(tokenized_corpus), options, paths, num_processes, show_progress)
    summary = PretrainingDataSummary(paths, corpus.manifest, sum(counts, RecordCounts()))
    # Beside files that the user named, the manifest has the name of the first: the folder may hold other records too.
    prefix = os.path.join(output_dir, "") if output_dir is not None else os.path.splitext(paths[0])[0] + "."
    write_manifest(prefix + MANIFEST_NAME, summary, counts, dataclasses.asdict(options))
    return summary


def _check_output(output_file: Sequence[str] | None, output_dir: str | os.PathLike | None) -> str:
    """Checks before any work that the output can be written; returns a folder on the same disk."""
    if output_dir is not None:
        check_output_folder(output_dir)
        return os.path.dirname(os.path.abspath(output_dir))
    if not output_file or not all(output_file):
        raise InputError("output_file names no file.")
    if len(set(output_file)) < len(output_file):
        raise InputError("output_file names a file twice.")
    for path in output_file:
        if os.path.isdir(path):
            raise InputError(f"{path} is a folder. Give the name of a file, or use output_dir.")
        with say_why_writing_failed(path):
            folder = os.path.dirname(os.path.abspath(path))
            os.makedirs(folder, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
    return os.path.dirname(os.path.abspath(output_file[0]))


def _shard_paths(output_dir: str | os.PathLike, num_shards: int | None, num_documents: int) -> list[str]:
    num_shards = num_shards or min(max(num_documents // _DOCUMENTS_PER_SHARD, 1), _MOST_SHARDS)
    names = (f"pretraining-{shard:05d}-of-{num_shards:05d}.tfrecord" for shard in range(num_shards))
    return [os.path.join(output_dir, name) for name in names]


def _write_shards(
    corpus: "TokenizedCorpus",
    corpus_path: str,
    options: "PretrainingOptions",
    paths: list[str],
    num_processes: int,
    show_progress: bool,
) -> "list[RecordCounts]":
    """Writes all shards under a progress bar whose total, not known beforehand, is estimated and gets ever better."""
    from tqdm import tqdm

    from data_prep.shard_pool import write_shards

    num_tokens = _tokens_in_shards(corpus, len(paths), options.random_seed)
    num_done = 0.0
    with tqdm(desc="writing", unit=" examples", unit_scale=True, disable=not show_progress) as bar:

        def on_examples(shard: int, num_examples: int, share: float) -> None:
            nonlocal num_done
            num_done += num_tokens[shard] * share
            bar.total = round((bar.n + num_examples) * num_tokens.sum() / num_done)
            bar.update(num_examples)

        return write_shards(corpus_path, options, paths, num_processes, on_examples)


def _tokens_in_shards(corpus: "TokenizedCorpus", num_shards: int, seed: int) -> "np.ndarray":
    import numpy as np

    tokens_of_documents = np.diff(corpus.sentence_offsets[corpus.document_offsets])
    return np.bincount(corpus.shard_of_documents(num_shards, seed), tokens_of_documents, num_shards)


def _warn_about_too_few_predictions(options: "PretrainingOptions") -> None:
    wanted = round(options.masked_lm_prob * options.max_seq_length)
    if options.max_predictions_per_seq < wanted:
        _logger.warning(
            "max_predictions_per_seq=%d is less than masked_lm_prob * max_seq_length = %d: full records get only %d "
            "masks, %.1f %% of their tokens.",
            options.max_predictions_per_seq,
            wanted,
            options.max_predictions_per_seq,
            100 * options.max_predictions_per_seq / options.max_seq_length,
        )


def _warn_about_unknown_tokens(corpus: "TokenizedCorpus") -> None:
    share = corpus.manifest["num_unknown_tokens"] / corpus.num_tokens
    if share > _MANY_UNKNOWN:
        _logger.warning(
            "%.1f %% of the tokens are [UNK]: this vocabulary does not fit the text. Check vocab_file and "
            "do_lower_case=%s, or build a vocabulary from this text.",
            100 * share,
            corpus.manifest["do_lower_case"],
        )


def _check_shards(corpus: "TokenizedCorpus", seed: int, num_shards: int) -> None:
    """Says which shards have no random next sentences, before anything is written."""
    import numpy as np

    shards = corpus.shard_of_documents(num_shards, seed)
    num_documents = np.bincount(shards, minlength=num_shards)
    num_sentences = np.bincount(shards, np.diff(corpus.document_offsets), num_shards)
    if not ((num_documents >= 2) | (num_sentences >= 2)).any():
        raise InputError(
            "The text is too short for a single example: a pair takes two documents in one output file, or two "
            "sentences in one document. Is there one sentence a line, and a blank line between documents?"
        )
    if corpus.num_documents == 1:
        _logger.warning(
            "The text is a single document (a blank line begins a new one), so no next sentence can come from another: "
            "all next_sentence_labels are 0, and the next-sentence task teaches nothing."
        )
    elif (num_documents < 2).any():
        _logger.warning(
            "Of %d output files %d get no document, and %d get a single one and so no random next sentences. Write "
            "fewer files: there are %d documents.",
            num_shards,
            (num_documents == 0).sum(),
            (num_documents == 1).sum(),
            corpus.num_documents,
        )


def read_first_example(paths: Sequence[str], vocabulary: "Vocabulary") -> str:
    """Returns the first record of the files as text; see `data_prep.record_text.show_record`."""
    from data_prep.record_text import show_record
    from keras_bert.record_files import iterate_records

    return show_record(next(record for path in paths for record in iterate_records(path)), vocabulary)


FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_list("input_file", None, "Text: files, folders, patterns or tfds:NAME, with commas between them.")
    flags.DEFINE_list(
        "output_file", None, "TFRecord files to write, with commas between them. Files that exist are replaced."
    )
    flags.DEFINE_string("output_dir", None, "Instead of --output_file: a new or empty folder for the TFRecord files.")
    flags.DEFINE_integer(
        "num_shards", None, "With --output_dir: the number of files (default: one for every 100 documents, at most 16)."
    )
    flags.DEFINE_string("vocab_file", None, "The vocabulary, one token a line.")
    flags.DEFINE_bool("do_lower_case", True, "Lower-case the text and strip accents, as for uncased vocabularies.")
    flags.DEFINE_bool("do_whole_word_mask", False, "Mask all pieces of a word together.")
    flags.DEFINE_integer("max_seq_length", 128, "Tokens in a record, special tokens included.")
    flags.DEFINE_integer("max_predictions_per_seq", 20, "Masks in a record at most.")
    flags.DEFINE_integer("random_seed", 12345, "Seed of every draw.")
    flags.DEFINE_integer("dupe_factor", 10, "How often the text is read, each time with other masks and pairs.")
    flags.DEFINE_float("masked_lm_prob", 0.15, "Share of the tokens to predict.")
    flags.DEFINE_float("short_seq_prob", 0.1, "Share of the documents that are cut into shorter pairs.")
    flags.DEFINE_bool("split_sentences", False, "Lines are paragraphs: split them into sentences.")
    flags.DEFINE_string("language", "en", "The language whose rules --split_sentences follows, as its ISO 639 code.")
    flags.DEFINE_string("text_field", "text", "The field with the text, in JSON Lines and tensorflow_datasets.")
    flags.DEFINE_string(
        "tokenized_corpus",
        None,
        "A folder that keeps the tokenised text, for further runs with other lengths, masks or seeds (default: none).",
    )
    flags.DEFINE_integer("num_processes", 1, "Processes that write records, each one file at a time.")
    flags.mark_flag_as_required("vocab_file")


def main() -> None:
    from data_prep.pretraining_records import PretrainingOptions
    from keras_bert.tokenization.vocabulary import Vocabulary

    options = {field.name: FLAGS[field.name].value for field in dataclasses.fields(PretrainingOptions)}
    summary = create_pretraining_data(
        FLAGS.input_file,
        FLAGS.vocab_file,
        output_file=FLAGS.output_file,
        output_dir=FLAGS.output_dir,
        num_shards=FLAGS.num_shards,
        options=PretrainingOptions(**options),
        do_lower_case=FLAGS.do_lower_case,
        split_sentences=FLAGS.split_sentences,
        language=FLAGS.language,
        text_field=FLAGS.text_field,
        tokenized_corpus=FLAGS.tokenized_corpus,
        num_processes=FLAGS.num_processes,
        show_progress=True,
    )
    print(summary)
    print(f"\nfirst example\n{read_first_example(summary.files, Vocabulary.from_file(FLAGS.vocab_file))}")


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
