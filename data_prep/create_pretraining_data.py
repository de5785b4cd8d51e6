"""Makes pre-training records from text: masked tokens and sentence pairs, as TFRecord files.

The text has one sentence per line and a blank line between documents; with --split_sentences, lines may be paragraphs.
It may come from files, folders, patterns, .gz, .jsonl, .parquet and tensorflow_datasets names. Records and flags are
those of google-research/bert.

Example:
  python -m data_prep.create_pretraining_data --input_file='text/*.txt' --vocab_file=vocab.txt --output_dir=records

The text is tokenised once and then read `dupe_factor` times, each time cut and masked anew. A seeded hash assigns
documents to output files. A random next sentence comes from another document of the same file, so each file should have
at least a hundred documents. If there are too few documents for every file to have a record, parts of documents are
assigned. The same text, flags and seed give the same bytes, with any number of processes. To resume a run that was
stopped, give the same command again.
"""

import contextlib
import dataclasses
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

from keras_bert.program.command_line import refuse_flags_without_effect, run_command
from keras_bert.program.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from data_prep.pretraining.document_dealing import Dealing
    from data_prep.pretraining.pretraining_plan import ShardSizes
    from data_prep.pretraining.pretraining_records import PretrainingOptions
    from data_prep.pretraining.record_folder import FinishedShard, PretrainingDataSummary, RecordFolder
    from data_prep.pretraining.shard_pool import ShardJob
    from data_prep.text.ordered_map import WorkerPool
    from data_prep.tokenized.tokenize_text import TextSettings
    from data_prep.tokenized.tokenized_corpus import TokenizedCorpus
    from keras_bert.tokenization.tokenizer import TokenTable

_logger = logging.getLogger(__name__)

_TOKENIZED_CORPUS_NAME = "tokenized_corpus.unfinished"
VOCAB_FILE_HELP = (
    "The vocabulary: a vocab.txt with one token per line, or a folder with it or with the vocab.json and merges.txt of "
    "byte-level BPE."
)


def create_pretraining_data(
    input_file: str | Sequence[str] | None,
    vocab_file: str | os.PathLike,
    *,
    output_file: Sequence[str] | None = None,
    output_dir: str | os.PathLike | None = None,
    num_shards: int | None = None,
    options: "PretrainingOptions | None" = None,
    settings: "TextSettings | None" = None,
    tokenized_corpus: str | os.PathLike | None = None,
    compression: str = "none",
    use_v2_feature_names: bool = False,
    num_processes: int = 1,
    show_progress: bool = False,
) -> "PretrainingDataSummary":
    """Makes pre-training records from text; see the top of this file.

    Args:
        input_file: as in `data_prep.text.corpus.read_documents`. May be None if `tokenized_corpus` exists.
        vocab_file: a vocab.txt, or a folder with it or with the vocab.json and merges.txt of byte-level BPE.
        output_file: names of the files to write; existing files are replaced.
        output_dir: instead, a folder for `num_shards` files: new, empty, or left by the same call when it was stopped.
        num_shards: by default one per hundred documents up to 16, and more if files would exceed 250 MB.
        options: `PretrainingOptions()` by default.
        settings: how the text is read; `TextSettings()` by default.
        tokenized_corpus: a folder that keeps the tokenised text. An existing one is used unchanged.
        compression: "none", "gzip" or "zstd".
        use_v2_feature_names: whether to use TF Model Garden's feature names instead of Google's.
        num_processes: processes that tokenise and write. With more than one, the calling script needs the usual
            `if __name__ == "__main__":`.

    Raises:
        InputError: the input has no text, or too little for its files; a value is out of range; the existing tokenised
            corpus was made from other text or with another vocabulary; the output cannot be written, or the disk has
            too little space.
    """
    from data_prep.pretraining import pretraining_plan as plan
    from data_prep.pretraining.pretraining_records import PretrainingOptions
    from data_prep.pretraining.record_folder import RecordFolder
    from data_prep.pretraining.record_writer import check_compression
    from data_prep.pretraining.shard_pool import ShardJob
    from data_prep.text.corpus import list_sources
    from data_prep.text.ordered_map import WorkerPool
    from data_prep.tokenized.tokenize_text import TextSettings, tokenize_text
    from keras_bert.program.atomic_output import check_output_file
    from keras_bert.tokenization.kinds import load_vocabulary

    options = options or PretrainingOptions()
    if num_processes < 1 or (num_shards is not None and num_shards < 1):
        raise InputError(f"num_processes and num_shards must be 1 or more. Received: {num_processes} and {num_shards}")
    check_compression(compression)
    plan.warn_about_too_few_predictions(options)
    vocabulary = load_vocabulary(vocab_file)
    settings = (settings or TextSettings()).of(vocabulary)
    prefix = plan.check_output(output_file, output_dir)
    for path in output_file or ():
        check_output_file(path, [vocab_file, *(list_sources(input_file) if input_file else ())])
    text = plan.describe_text(input_file, tokenized_corpus, vocabulary, settings)
    num_files = len(output_file) if output_file else num_shards
    request = plan.describe_request(text, options, compression, use_v2_feature_names, num_files)
    folder = RecordFolder(prefix, request)
    if output_dir is not None and (finished := folder.finished_run(os.fspath(output_dir))):
        _logger.warning("%s already holds these records. Nothing was done.", output_dir)
        return finished
    names = [folder.name_of(path) for path in output_file] if output_file else None
    done = folder.read_progress(may_replace=output_dir is None, names=names)
    if output_dir is not None and not folder.is_begun():
        plan.check_nothing_else(output_dir, _TOKENIZED_CORPUS_NAME)

    keep_corpus = tokenized_corpus is not None
    with _output_place(prefix) as place, WorkerPool(num_processes) as pool:
        needs = plan.DiskNeeds(place, vocabulary, options, compression)
        corpus = tokenize_text(
            input_file,
            tokenized_corpus or prefix + _TOKENIZED_CORPUS_NAME,
            vocabulary,
            settings,
            pool=pool,
            on_first_chunk=needs.announce_for_text,
            show_progress=show_progress,
        )
        paths = list(output_file) if output_file else plan.shard_paths(output_dir, num_shards, corpus, options)
        dealing, sizes = _planned_dealing(corpus, options, len(paths), keep_corpus)
        if not done:
            needs.announce_for_corpus(corpus)
        job = ShardJob(corpus.path, options, paths, dealing, compression, use_v2_feature_names)
        shards = _write_shards(job, sizes.num_tokens, folder, names, done, pool, show_progress)
        return _finish(job, corpus, folder, shards, output_dir, keep_corpus)


@contextlib.contextmanager
def _output_place(prefix: str) -> Iterator[str]:
    """Creates the output folder, locks it, and removes it at the end if it is empty."""
    from data_prep.pretraining.record_folder import PROGRESS_NAME
    from keras_bert.program.folder_lock import only_writer

    place, name = os.path.split(os.path.abspath(prefix) + ("" if os.path.basename(prefix) else os.sep))
    os.makedirs(place, exist_ok=True)
    try:
        with only_writer(os.path.join(place, f".{name}lock")):
            yield place
    except BaseException:
        with contextlib.suppress(OSError):
            os.rmdir(place)  # fails unless the folder is empty
        if any(os.path.exists(prefix + name) for name in (PROGRESS_NAME, _TOKENIZED_CORPUS_NAME)):
            _logger.warning("Finished files are kept in %s. Give the same command again to resume.", place)
        raise


def _planned_dealing(
    corpus: "TokenizedCorpus", options: "PretrainingOptions", num_shards: int, keep_corpus: bool
) -> "tuple[Dealing, ShardSizes]":
    """Checks the text and plans its shards. If the text is too short for them, its tokenised form is removed."""
    from data_prep.pretraining.pretraining_plan import plan_dealing

    try:
        return plan_dealing(corpus, options, num_shards)
    except InputError:
        if not keep_corpus:
            shutil.rmtree(corpus.path)
        raise


def _write_shards(
    job: "ShardJob",
    num_tokens: "np.ndarray",
    folder: "RecordFolder",
    noted_names: list[str] | None,
    done: "dict[str, FinishedShard]",
    pool: "WorkerPool",
    show_progress: bool,
) -> "list[FinishedShard]":
    """Writes the missing shards, with a progress bar whose estimated total is refined as shards finish.

    Args:
        noted_names: the names of all files, if the user gave them; see `RecordFolder.read_progress`.
    """
    from tqdm import tqdm

    from data_prep.pretraining.shard_pool import write_shards
    from keras_bert.program.atomic_output import remove_partial_files

    names = [folder.name_of(path) for path in job.paths]
    shards = {names.index(name): shard for name, shard in done.items() if _is_there(job.paths, names, shard)}
    missing = [number for number in range(len(names)) if number not in shards]
    for number in missing:
        remove_partial_files(job.paths[number])
    if shards:
        _logger.warning("%d of %d files are finished. Writing the others.", len(shards), len(names))
    folder.write_progress(list(shards.values()), noted_names)
    tokens_done = 0.0
    with tqdm(desc="writing", unit=" records", unit_scale=True, disable=not show_progress) as bar:

        def on_records(shard: int, num_records: int, share: float) -> None:
            nonlocal tokens_done
            tokens_done += num_tokens[shard] * share
            if tokens_done:
                bar.total = round((bar.n + num_records) * num_tokens[missing].sum() / tokens_done)
            bar.update(num_records)

        for number, shard in write_shards(job, missing, pool, on_records):
            file = dataclasses.replace(shard.file, name=names[number])
            shards[number] = dataclasses.replace(shard, file=file)
            folder.write_progress([shards[number] for number in sorted(shards)], noted_names)
    return [shards[number] for number in range(len(names))]


def _is_there(paths: Sequence[str], names: list[str], shard: "FinishedShard") -> bool:
    path = paths[names.index(shard.file.name)]
    return os.path.exists(path) and os.path.getsize(path) == shard.file.num_bytes


def _finish(
    job: "ShardJob",
    corpus: "TokenizedCorpus",
    folder: "RecordFolder",
    shards: "list[FinishedShard]",
    output_dir: str | os.PathLike | None,
    keep_corpus: bool,
) -> "PretrainingDataSummary":
    """Writes the manifest and other files beside the records, and removes intermediate files."""
    from data_prep.pretraining.record_folder import PretrainingDataSummary, RecordCounts
    from data_prep.pretraining.tfds_metadata import write_tfds_metadata

    description = {name: value for name, value in corpus.manifest.items() if name != "parts"}
    summary = PretrainingDataSummary(
        list(job.paths), description, sum((shard.counts for shard in shards), RecordCounts())
    )
    if output_dir is not None:
        write_tfds_metadata(
            output_dir,
            "pretraining",
            job.record,
            [shard.file.name for shard in shards],
            [shard.file.num_records for shard in shards],
            sum(shard.file.num_bytes for shard in shards),
        )
    if not keep_corpus:
        shutil.rmtree(corpus.path)
    folder.finish(summary, shards)
    return summary


def verify_pretraining_data(
    output_file: Sequence[str] | None = None,
    output_dir: str | os.PathLike | None = None,
    tokenized_corpus: str | os.PathLike | None = None,
    *,
    show_progress: bool = False,
) -> dict[str, Any]:
    """Compares every byte of records, and of a tokenised corpus, with the hashes in their manifests.

    Returns:
        The manifest of the records.

    Raises:
        InputError: something differs. The message names all files that do.
    """
    from tqdm import tqdm

    from data_prep.pretraining import pretraining_plan as plan
    from data_prep.pretraining.record_folder import MANIFEST_NAME, read_manifest, verify_records
    from data_prep.tokenized.tokenized_corpus import TokenizedCorpus

    manifest_path = plan.output_prefix(output_file, output_dir) + MANIFEST_NAME
    num_bytes = sum(file["num_bytes"] for file in read_manifest(manifest_path)["files"])
    with tqdm(total=num_bytes, desc="verifying", unit="B", unit_scale=True, disable=not show_progress) as bar:
        manifest = verify_records(manifest_path, bar.update)
    if tokenized_corpus is not None:
        TokenizedCorpus.open(tokenized_corpus).verify()
    return manifest


def read_first_example(paths: Sequence[str], vocabulary: "TokenTable") -> str:
    """Returns the first record of the files as text; see `data_prep.inspection.record_text.show_record`."""
    from data_prep.inspection.record_text import show_record
    from keras_bert.program.record_files import iterate_records

    return show_record(next(record for path in paths for record in iterate_records(path)), vocabulary)


FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_list("output_file", None, "TFRecord files to write, separated by commas. Existing files are replaced.")
    flags.DEFINE_string("output_dir", None, "Instead of --output_file: a folder for the TFRecord files.")
    flags.DEFINE_integer(
        "num_shards",
        None,
        "With --output_dir: the number of files (default: one for every 100 documents up to 16, more for large text).",
    )
    define_record_flags()
    flags.DEFINE_string(
        "tokenized_corpus",
        None,
        "A folder that keeps the tokenised text, for further runs with other lengths, masks or seeds.",
    )
    flags.DEFINE_integer(
        "num_processes", None, "Number of processes that tokenise and write (default: one per core).", lower_bound=1
    )
    flags.DEFINE_bool("verify", False, "Write nothing: compare every byte of --output_dir with its manifest.")
    flags.register_multi_flags_validator(
        ["vocab_file", "verify"],
        lambda values: values["vocab_file"] or values["verify"],
        message="Give --vocab_file, the vocabulary.",
    )


def define_record_flags() -> None:
    """Defines the flags that determine the records, for all commands that make pre-training records."""
    flags.DEFINE_list("input_file", None, "Text: files, folders, patterns or tfds:NAME, separated by commas.")
    flags.DEFINE_string("vocab_file", None, VOCAB_FILE_HELP)
    flags.DEFINE_bool("do_lower_case", True, "WordPiece: lower-case and strip accents, as for uncased vocabularies.")
    flags.DEFINE_bool("do_whole_word_mask", False, "Mask all pieces of a word together.")
    flags.DEFINE_integer("max_ngram_size", 0, "Above 0: mask spans of up to this many whole words.")
    flags.DEFINE_enum(
        "ngram_distribution",
        "geometric",
        ["geometric", "inverse"],
        "With --max_ngram_size: the distribution of span lengths, geometric (SpanBERT) or inverse, ~ 1/n (ALBERT).",
    )
    flags.DEFINE_float("ngram_geometric_p", 0.2, "Parameter of the geometric distribution.")
    flags.DEFINE_bool(
        "whole_word_actions", False, "Choose between [MASK], the same and a random token once per word or span."
    )
    flags.DEFINE_enum(
        "replacement_tokens",
        "text",
        ["text", "vocabulary"],
        "Random tokens are drawn from the tokens that text can contain, or from the whole vocabulary, as Google does.",
    )
    flags.DEFINE_bool("dynamic_masking", False, "Write records without masks, which are masked while they are read.")
    flags.DEFINE_enum(
        "sentence_task",
        "next_sentence",
        ["next_sentence", "sentence_order", "none"],
        "Random second segments (BERT), swapped segments (ALBERT), or none: full sentences (RoBERTa).",
    )
    flags.DEFINE_integer("max_sequences_per_row", 1, "Above 1: pack up to this many examples into a record.")
    flags.DEFINE_integer(
        "reuse_len",
        0,
        "Above 0: rows for XLNet. Each row begins this number of tokens after the row before it. Tokens are predicted "
        "in a random order.",
    )
    flags.DEFINE_integer("perm_size", 0, "XLNet: the tokens that are permuted together (default: --reuse_len).")
    flags.DEFINE_integer("mask_alpha", 6, "XLNet: --mask_beta of every --mask_alpha tokens are predicted.")
    flags.DEFINE_integer("mask_beta", 1, "XLNet: the number of tokens to predict of every --mask_alpha.")
    flags.DEFINE_integer(
        "num_streams",
        0,
        "XLNet: above 0, rows come in the order for training with a memory (run_pretraining --mem_len). This is "
        "the number of rows in a batch.",
    )
    flags.DEFINE_integer("max_seq_length", 128, "Tokens in a record, special tokens included.")
    flags.DEFINE_integer("max_predictions_per_seq", 20, "The largest number of masks in a record.")
    flags.DEFINE_integer("random_seed", 12345, "Seed of every draw.")
    flags.DEFINE_integer("dupe_factor", 10, "The number of passes over the text, each with other masks and pairs.")
    flags.DEFINE_float("masked_lm_prob", 0.15, "Share of the tokens to predict.")
    flags.DEFINE_float("short_seq_prob", 0.1, "Share of the documents that are cut into shorter pairs.")
    flags.DEFINE_bool("split_sentences", False, "Lines are paragraphs: split them into sentences.")
    flags.DEFINE_string("language", "en", "The language whose rules --split_sentences follows, as its ISO 639 code.")
    flags.DEFINE_string("text_field", "text", "The field with the text, in JSON Lines and tensorflow_datasets.")
    flags.DEFINE_enum("compression", "none", ["none", "gzip", "zstd"], "The compression of the files.")
    flags.DEFINE_bool("use_v2_feature_names", False, "Use TF Model Garden's feature names: input_word_ids, ...")


def check_casing_flag(vocabulary: "TokenTable") -> None:
    """Raises `InputError` if --do_lower_case is given for a vocabulary whose tokenizer does not use it."""
    from keras_bert.tokenization.vocabulary import Vocabulary

    takes_casing = isinstance(vocabulary, Vocabulary) or not FLAGS.do_lower_case
    refuse_flags_without_effect(takes_casing, "on a tokenizer that is not WordPiece", "do_lower_case")


def check_record_flags() -> None:
    """Raises `InputError` for flags of `define_record_flags` that were given but have no effect."""
    refuse_flags_without_effect(
        FLAGS.max_ngram_size, "without --max_ngram_size", "ngram_geometric_p", "ngram_distribution"
    )
    refuse_flags_without_effect(
        FLAGS.ngram_distribution == "geometric", "with --ngram_distribution=inverse", "ngram_geometric_p"
    )
    refuse_flags_without_effect(FLAGS.split_sentences, "without --split_sentences", "language")
    refuse_flags_without_effect(FLAGS.sentence_task != "none", "with --sentence_task=none", "short_seq_prob")
    refuse_flags_without_effect(
        not FLAGS.dynamic_masking,
        "with --dynamic_masking: masks are made when the records are read",
        *("masked_lm_prob", "max_predictions_per_seq"),
    )
    refuse_flags_without_effect(
        FLAGS.reuse_len, "without --reuse_len", "perm_size", "mask_alpha", "mask_beta", "num_streams"
    )
    refuse_flags_without_effect(
        not FLAGS.reuse_len,
        "with --reuse_len",
        *("masked_lm_prob", "short_seq_prob", "whole_word_actions", "replacement_tokens"),
    )
    refuse_flags_without_effect(FLAGS.input_file, "without --input_file", "split_sentences", "language", "text_field")


def main() -> None:
    refuse_flags_without_effect(FLAGS.output_dir, "without --output_dir", "num_shards")
    _refuse_flags_of_making_beside_verify()
    if FLAGS.verify:
        manifest = verify_pretraining_data(
            FLAGS.output_file, FLAGS.output_dir, FLAGS.tokenized_corpus, show_progress=True
        )
        print(f"{len(manifest['files'])} files, {manifest['records']['num_records']:,} records: all as written")
        return
    check_record_flags()
    from data_prep.pretraining.pretraining_records import PretrainingOptions
    from data_prep.text.ordered_map import available_cores
    from data_prep.tokenized.tokenize_text import TextSettings
    from keras_bert.tokenization.kinds import load_vocabulary

    vocabulary = load_vocabulary(FLAGS.vocab_file)
    check_casing_flag(vocabulary)
    options = {field.name: FLAGS[field.name].value for field in dataclasses.fields(PretrainingOptions)}
    settings = {field.name: FLAGS[field.name].value for field in dataclasses.fields(TextSettings)}
    summary = create_pretraining_data(
        FLAGS.input_file,
        FLAGS.vocab_file,
        output_file=FLAGS.output_file,
        output_dir=FLAGS.output_dir,
        num_shards=FLAGS.num_shards,
        options=PretrainingOptions(**options),
        settings=TextSettings(**settings),
        tokenized_corpus=FLAGS.tokenized_corpus,
        compression=FLAGS.compression,
        use_v2_feature_names=FLAGS.use_v2_feature_names,
        num_processes=FLAGS.num_processes or available_cores(),
        show_progress=True,
    )
    print(summary)
    print(f"\nfirst example\n{read_first_example(summary.files, vocabulary)}")


def _refuse_flags_of_making_beside_verify() -> None:
    read = ("output_file", "output_dir", "tokenized_corpus", "verify")
    made = [flag.name for flag in FLAGS.get_key_flags_for_module(__name__) if flag.name not in read]
    refuse_flags_without_effect(not FLAGS.verify, "with --verify", *made)


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
