"""Plans a run before records are written: output names, the number of files, and checks of the text."""

import dataclasses
import logging
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from data_prep.pretraining.document_block import count_tokens
from data_prep.pretraining.document_dealing import Dealing
from data_prep.pretraining.permutation_rows import NUM_SPECIAL
from data_prep.pretraining.pretraining_records import PretrainingOptions, RecordForm
from data_prep.pretraining.record_writer import check_compression
from data_prep.text.corpus import as_patterns, input_size
from data_prep.tokenized.document_filters import in_effect
from data_prep.tokenized.tokenize_text import TextSettings
from data_prep.tokenized.tokenized_corpus import TokenizedCorpus
from keras_bert.program.atomic_output import check_output_folder, explain_write_errors
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole
from keras_bert.tokenization.kinds import load_vocabulary
from keras_bert.tokenization.tokenizer import SpecialTokens, TokenTable

_logger = logging.getLogger(__name__)

# Above this share of [UNK], the user is warned that the vocabulary does not fit the text.
_MANY_UNKNOWN = 0.05
# Above this share of cut tokens, the user is warned that the text may not be split into sentences.
_MANY_CUT = 0.05
# Without num_shards: the number of documents per file, so that there are enough random next sentences; and the largest
# number of tokens per file, over all passes, which gives files of about 250 MB.
_DOCUMENTS_PER_SHARD = 100
_FEW_SHARDS = 16
_TOKENS_PER_SHARD = 40_000_000
_DOCUMENTS_AT_ONCE = 1_000_000


def check_arguments(
    vocab_file: str | os.PathLike, settings: TextSettings | None, num_shards: int | None, form: RecordForm
) -> tuple[Any, TextSettings]:
    """Checks what the local run and Beam are both given. Returns the tokenizer, and the settings that fit it."""
    check_whole("num_shards", num_shards, at_least=1, or_none=True)
    check_compression(form.compression)
    warn_about_too_few_predictions(form.options)
    return (settings or TextSettings()).with_tokenizer(load_vocabulary(vocab_file))


def output_prefix(output_file: Sequence[str] | None, output_dir: str | os.PathLike | None) -> str:
    """Returns the prefix of the names of files beside the records.

    If the user named the record files, it is the name of the first: the folder may contain other records too.
    """
    if (output_file is None) == (output_dir is None):
        raise InputError("Give either output_file, the names of the files, or output_dir, a folder for them.")
    if output_dir is not None:
        return os.path.join(output_dir, "")
    if not output_file or not all(output_file):
        raise InputError("output_file is empty. Name at least one file.")
    return os.path.splitext(output_file[0])[0] + "."


def check_output(output_file: Sequence[str] | None, output_dir: str | os.PathLike | None) -> str:
    """Checks before any work that the output can be written. Returns `output_prefix`."""
    prefix = output_prefix(output_file, output_dir)
    if output_dir is not None:
        if not os.path.isdir(output_dir):
            check_output_folder(output_dir)
        return prefix
    seen: dict[str, str] = {}
    for path in output_file:
        place = os.path.realpath(path)
        if place in seen:
            also = "" if path == seen[place] else f", which is {seen[place]}"
            raise InputError(f"output_file names a file twice: {path}{also}. Give each file once.")
        seen[place] = path
    for path in output_file:
        if os.path.isdir(path):
            raise InputError(f"{path} is a folder. Give the name of a file, or use output_dir.")
        with explain_write_errors(path):
            folder = os.path.dirname(os.path.realpath(path))
            os.makedirs(folder, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
    return prefix


def describe_text(
    input_file: str | Sequence[str] | None,
    tokenized_corpus: str | os.PathLike | None,
    vocabulary: TokenTable,
    settings: TextSettings,
) -> dict[str, Any]:
    """Returns the properties that identify a text and how it is read."""
    if input_file:
        patterns = as_patterns(input_file)
        text = {"input_file": patterns, "input_bytes": input_size(patterns), **in_effect(dataclasses.asdict(settings))}
    elif tokenized_corpus is not None and os.path.exists(tokenized_corpus):
        manifest = TokenizedCorpus.open(tokenized_corpus).manifest
        names = ["input_file", "input_bytes", *dataclasses.asdict(settings)]
        text = {name: manifest[name] for name in names if name in manifest}
    else:
        raise InputError("Give input_file, the text to read.")
    return {**text, "vocabulary_sha256": vocabulary.sha256}


def describe_request(text: dict[str, Any], form: RecordForm, num_files: int | None) -> dict[str, Any]:
    """Returns everything that determines the bytes of the records. Runs with equal requests write equal bytes."""
    return {**text, **vars(form), "options": form.options.in_effect(), "num_files": num_files}


def shard_paths(
    output_dir: str | os.PathLike, num_shards: int | None, manifest: dict[str, Any], options: PretrainingOptions
) -> list[str]:
    """Returns the names of the files of a folder. `manifest`, here and below: that of the tokenised corpus."""
    if num_shards is None:
        few = min(max(manifest["num_documents"] // _DOCUMENTS_PER_SHARD, 1), _FEW_SHARDS)
        num_shards = max(few, -(-manifest["num_tokens"] * options.dupe_factor // _TOKENS_PER_SHARD))
    names = (f"pretraining-{shard:05d}-of-{num_shards:05d}.tfrecord" for shard in range(num_shards))
    return [os.path.join(output_dir, name) for name in names]


@dataclasses.dataclass(frozen=True)
class ShardSizes:
    """The counts of each shard: int64 arrays of shape (num_shards,)."""

    num_documents: np.ndarray
    num_sentences: np.ndarray
    num_tokens: np.ndarray


def shard_sizes(corpus: TokenizedCorpus, dealing: Dealing) -> ShardSizes:
    """Counts the documents, sentences and tokens of each shard, in constant memory."""
    sizes = np.zeros((3, dealing.num_shards), np.int64)
    for start in range(0, corpus.num_documents, _DOCUMENTS_AT_ONCE):
        stop = min(start + _DOCUMENTS_AT_ONCE, corpus.num_documents)
        first_sentence = int(corpus.document_offsets[start])
        document_offsets = corpus.document_offsets[start : stop + 1] - first_sentence
        for shard, ranges, _ in dealing.deal(document_offsets, start, first_sentence):
            num_sentences = (ranges[:, 1] - ranges[:, 0]).sum()
            sizes[:, shard] += len(ranges), num_sentences, count_tokens(corpus, ranges + first_sentence).sum()
    return ShardSizes(*sizes)


def plan_dealing(corpus: TokenizedCorpus, options: PretrainingOptions, num_shards: int) -> tuple[Dealing, ShardSizes]:
    """Warns about unusual texts before records are made. Returns how documents are assigned, and the shards' sizes.

    Raises `InputError` if a file would have no record, or the corpus is damaged.
    """
    corpus.check_offsets()
    warn_about_unknown_tokens(corpus.manifest)
    _warn_about_long_sentences(corpus, options)
    sizes = shard_sizes(corpus, Dealing(num_shards, options.random_seed))
    dealing = choose_dealing(corpus.manifest, sizes, options)
    if dealing.num_sentences is not None:
        sizes = shard_sizes(corpus, dealing)
    check_shards(corpus.manifest, sizes, options)
    return dealing, sizes


def choose_dealing(manifest: dict[str, Any], sizes: ShardSizes, options: PretrainingOptions) -> Dealing:
    """Assigns whole documents if every file then has a record, otherwise parts of documents.

    `sizes` are those of the shards with whole documents. Raises `InputError` if the text is too short even for parts.
    """
    num_shards = len(sizes.num_documents)
    whole = Dealing(num_shards, options.random_seed)
    if _has_records(sizes, options.sentence_task).all():
        return whole
    num_sentences = int(sizes.num_sentences.sum())
    needed, at_least = (sentences_needed(number, options.sentence_task) for number in (num_shards, 1))
    if num_shards > 1 and at_least <= num_sentences < needed:
        raise InputError(
            too_short_message(num_sentences, manifest["input_bytes"], num_shards, options.sentence_task)
            + f" Or write at most {num_sentences * num_shards // needed} files."
        )
    if num_shards == 1:
        return whole
    _logger.warning(
        f"The text has too few documents ({manifest['num_documents']}) for {num_shards} output files, so they are cut: "
        f"each file gets 1/{num_shards} of the text, in the order of the text."
    )
    return dataclasses.replace(whole, num_sentences=num_sentences)


def sentences_needed(num_files: int, sentence_task: str) -> int:
    """Returns the smallest number of sentences with which each of `num_files` files can have a record."""
    return num_files if sentence_task == "none" else 2 * num_files


def too_short_message(num_sentences: int, num_bytes: int, num_files: int, sentence_task: str) -> str:
    """Returns a message about the size of the text and the size that `num_files` files need."""
    needed = sentences_needed(num_files, sentence_task)
    size, enough = _readable_bytes(num_bytes), _readable_bytes(-(-num_bytes * needed // max(num_sentences, 1)))
    return (
        f"The text is too short for {num_files} output files: it has {num_sentences} sentences "
        f"({size}), but {num_files} files need at least {needed} (about {enough}). Give more text."
    )


def _readable_bytes(size: int) -> str:
    """Returns a size in a suitable unit.

    >>> _readable_bytes(1_260_000)
    '1.3 MB'
    """
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _has_records(sizes: ShardSizes, sentence_task: str) -> np.ndarray:
    """Returns which shards have a record: bool (num_shards,)."""
    if sentence_task == "next_sentence":
        return (sizes.num_documents >= 2) | (sizes.num_sentences >= 2)
    return sizes.num_sentences > (sizes.num_documents if sentence_task == "sentence_order" else 0)


def check_shards(manifest: dict[str, Any], sizes: ShardSizes, options: PretrainingOptions) -> None:
    """Warns about an uneven distribution of records. Raises `InputError` if a file has no record."""
    if options.reuse_len:
        _check_streams(sizes, options)
        return
    sentence_task = options.sentence_task
    has_records = _has_records(sizes, sentence_task)
    if sentence_task == "next_sentence" and not has_records.any():
        raise InputError(
            "The text is too short for a single example: a pair needs two sentences. " + _advice_about_lines(manifest)
        )
    if sentence_task == "sentence_order" and sizes.num_sentences.sum() == manifest["num_documents"]:
        raise InputError(
            "No document has two sentences, so there is no pair to put in order. " + _advice_about_lines(manifest)
        )
    if not has_records.all():
        raise InputError(
            f"Of {len(has_records)} output files {(~has_records).sum()} would have no sentence pair, because so few "
            "documents have two sentences. Write fewer files."
        )
    if sentence_task == "next_sentence" and manifest["num_documents"] == 1:
        _logger.warning(
            "The text is a single document (a blank line begins a new one), so random next sentences come from other "
            "places of the same document."
        )


def _check_streams(sizes: ShardSizes, options: PretrainingOptions) -> None:
    """Raises `InputError` if the text of a file does not fill one row in each of its streams."""
    num_streams = max(1, options.num_streams)
    needed, fewest = num_streams * (options.max_seq_length - NUM_SPECIAL), int(sizes.num_tokens.min())
    if fewest < needed:
        raise InputError(
            f"A file has {fewest} tokens of text, but {num_streams} stream(s) of rows of {options.max_seq_length} need "
            f"at least {needed}. Give more text, or write fewer files, use fewer num_streams or a smaller "
            "max_seq_length."
        )


def warn_about_too_few_predictions(options: PretrainingOptions) -> None:
    needed, most = round(options.masked_lm_prob * options.max_seq_length), options.max_predictions_per_seq
    if most < needed and not options.dynamic_masking and not options.reuse_len:
        _logger.warning(
            f"max_predictions_per_seq={most} is less than masked_lm_prob * max_seq_length = {needed}: full records get "
            f"only {most} masks, {100 * most / options.max_seq_length:.1f} % of their tokens."
        )


def _warn_about_long_sentences(corpus: TokenizedCorpus, options: PretrainingOptions) -> None:
    """Warns if much of the text is lost because sentences are cut to the length of a record."""
    num_cut = 0
    for start in range(0, corpus.num_sentences, _DOCUMENTS_AT_ONCE):
        lengths = np.diff(corpus.sentence_offsets[start : start + _DOCUMENTS_AT_ONCE + 1])
        num_cut += count_cut_tokens(lengths, options, corpus.vocabulary.special_tokens)
    warn_about_cut_tokens(num_cut, corpus.manifest, options)


def count_cut_tokens(sentence_lengths: np.ndarray, options: PretrainingOptions, special_tokens: SpecialTokens) -> int:
    """Returns the number of tokens lost by cutting sentences, int (num_sentences,), to the length that fits a pair."""
    if not options.has_sentence_task or options.reuse_len:
        return 0
    return int(np.maximum(sentence_lengths - (options.max_seq_length - special_tokens.num_special(2)), 0).sum())


def warn_about_cut_tokens(num_cut: int, manifest: dict[str, Any], options: PretrainingOptions) -> None:
    """Warns if much of the text is lost; see `_warn_about_long_sentences`."""
    if num_cut > _MANY_CUT * manifest["num_tokens"]:
        advice = "Use a larger --max_seq_length, or check --language, whose rules split the lines into sentences."
        _logger.warning(
            f"{100 * num_cut / manifest['num_tokens']:.1f} % of the tokens are lost, because their sentences are "
            f"longer than a record (max_seq_length={options.max_seq_length}). "
            + (advice if manifest["split_sentences"] else _advice_about_lines(manifest))
        )


def _advice_about_lines(manifest: dict[str, Any]) -> str:
    """Returns the advice for a text with too few or too long sentences."""
    if manifest["split_sentences"]:
        return "Its lines were split into sentences. Give more text."
    return "Each line counts as one sentence. If lines are whole paragraphs, add --split_sentences."


def warn_about_unknown_tokens(manifest: dict[str, Any]) -> None:
    share = manifest["num_unknown_tokens"] / manifest["num_tokens"]
    if share > _MANY_UNKNOWN:
        _logger.warning(
            "%.1f %% of the tokens are [UNK]: this vocabulary does not fit the text. Check vocab_file and "
            "do_lower_case=%s, or build a vocabulary from this text.",
            100 * share,
            manifest["do_lower_case"],
        )
