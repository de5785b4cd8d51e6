"""Makes pre-training records on one machine: tokenises the text, plans its shards, writes those missing; --verify."""

import contextlib
import dataclasses
import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from data_prep.pretraining import pretraining_plan as plan
from data_prep.pretraining.pretraining_records import PretrainingOptions, RecordForm
from data_prep.pretraining.record_folder import (
    MANIFEST_NAME,
    PROGRESS_NAME,
    DiskFiles,
    FinishedShard,
    PretrainingDataSummary,
    RecordFolder,
    read_manifest,
)
from data_prep.pretraining.shard_pool import ShardJob, write_shards
from data_prep.text.corpus import list_sources
from data_prep.text.ordered_map import WorkerPool
from data_prep.tokenized.tokenize_text import TextSettings, tokenize_text
from data_prep.tokenized.tokenized_corpus import TokenizedCorpus
from keras_bert.program.atomic_output import check_output_file, check_output_folder
from keras_bert.program.errors import InputError
from keras_bert.program.folder_lock import only_writer
from keras_bert.program.long_work import progress_bar
from keras_bert.program.options import check_whole

_logger = logging.getLogger(__name__)

_TOKENIZED_CORPUS_NAME = "tokenized_corpus.unfinished"


def create_pretraining_data(
    input_file: str | Sequence[str] | None,
    vocab_file: str | os.PathLike,
    *,
    output_file: Sequence[str] | None = None,
    output_dir: str | os.PathLike | None = None,
    num_shards: int | None = None,
    options: PretrainingOptions | None = None,
    settings: TextSettings | None = None,
    tokenized_corpus: str | os.PathLike | None = None,
    compression: str = "none",
    use_v2_feature_names: bool = False,
    num_processes: int = 1,
    show_progress: bool = False,
) -> PretrainingDataSummary:
    """Makes pre-training records from text on this machine; see `data_prep/create_pretraining_data.py`.

    Args:
        input_file: as in `data_prep.text.corpus.read_documents`. May be None if `tokenized_corpus` exists.
        vocab_file: a vocab.txt, or a folder with it or with the vocab.json and merges.txt of byte-level BPE.
        output_file: names of the files to write; existing files are replaced.
        output_dir: instead, a folder for `num_shards` files: new, empty, or left by the same call when it was stopped.
        num_shards: by default one per hundred documents up to 16, and more if files would exceed 250 MB.
        options, settings: `PretrainingOptions()` and `TextSettings()`, how the text is read, by default.
        tokenized_corpus: a folder that keeps the tokenised text. An existing one is used unchanged.
        compression: "none", "gzip" or "zstd".
        use_v2_feature_names: whether to use TF Model Garden's feature names instead of Google's.
        num_processes: processes that tokenise and write. With more than one, the calling script needs the usual
            `if __name__ == "__main__":`.

    Raises:
        InputError: the input has no text, or too little for its files; a value is out of range; the existing tokenised
            corpus was made from other text or with another vocabulary; the output cannot be written, or the disk is
            full.
    """
    form = RecordForm(options or PretrainingOptions(), compression, use_v2_feature_names)
    check_whole("num_processes", num_processes, at_least=1)
    tokenizer, settings = plan.check_arguments(vocab_file, settings, num_shards, form)
    prefix = plan.check_output(output_file, output_dir)
    for path in output_file or ():
        check_output_file(path, [vocab_file, *(list_sources(input_file) if input_file else ())])
    text = plan.describe_text(input_file, tokenized_corpus, tokenizer, settings)
    request = plan.describe_request(text, form, len(output_file) if output_file else num_shards)
    folder = RecordFolder(prefix, request, output_file)
    if output_dir is not None and (finished := folder.finished_run(os.fspath(output_dir))):
        _logger.warning("%s already holds these records. Nothing was done.", output_dir)
        return finished
    done = folder.read_progress()
    if output_dir is not None and not folder.is_begun():
        _check_new_folder(output_dir)
    with _output_place(prefix), WorkerPool(num_processes) as pool:
        place = tokenized_corpus or prefix + _TOKENIZED_CORPUS_NAME
        corpus = tokenize_text(input_file, place, tokenizer, settings, pool=pool, show_progress=show_progress)
        paths = list(output_file or plan.shard_paths(output_dir, num_shards, corpus.manifest, form.options))
        job, num_tokens = _plan_job(corpus, form, paths, is_temporary=tokenized_corpus is None)
        shards = _write_shards(job, num_tokens, folder, done, pool, show_progress)
        if tokenized_corpus is None:
            shutil.rmtree(corpus.path)
        return folder.finish(paths, corpus.manifest, shards, form.record)


def _check_new_folder(path: str | os.PathLike) -> None:
    """Raises `InputError` unless a folder is new, or has what a run leaves that was stopped at its start."""
    remains = {_TOKENIZED_CORPUS_NAME, ".lock"}
    if not (os.path.isdir(path) and set(os.listdir(path)) <= remains):
        check_output_folder(path)


def _plan_job(
    corpus: TokenizedCorpus, form: RecordForm, paths: list[str], is_temporary: bool
) -> tuple[ShardJob, np.ndarray]:
    """Returns the job and the tokens of each shard. Removes a temporary corpus that is too short for its shards."""
    try:
        dealing, sizes = plan.plan_dealing(corpus, form.options, len(paths))
    except InputError:
        if is_temporary:
            shutil.rmtree(corpus.path)
        raise
    return ShardJob(form, corpus.path, paths, dealing), sizes.num_tokens


@contextlib.contextmanager
def _output_place(prefix: str) -> Iterator[None]:
    """Creates the output folder, locks it, and removes it at the end if it is empty."""
    place, name = os.path.split(os.path.abspath(prefix) + ("" if os.path.basename(prefix) else os.sep))
    os.makedirs(place, exist_ok=True)
    try:
        with only_writer(os.path.join(place, f".{name}lock")):
            yield
    except BaseException:
        with contextlib.suppress(OSError):
            os.rmdir(place)  # fails unless the folder is empty
        if any(os.path.exists(prefix + name) for name in (PROGRESS_NAME, _TOKENIZED_CORPUS_NAME)):
            _logger.warning("Finished files are kept in %s. Give the same command again to resume.", place)
        raise


def _write_shards(
    job: ShardJob,
    num_tokens: np.ndarray,
    folder: RecordFolder,
    done: dict[str, FinishedShard],
    pool: WorkerPool,
    show_progress: bool,
) -> list[FinishedShard]:
    """Writes the missing shards, with a progress bar whose estimated total is refined as shards finish."""
    names = [folder.name_of(path) for path in job.paths]
    shards = {names.index(name): shard for name, shard in done.items()}
    sizes = {number: DiskFiles().size(job.paths[number]) for number in shards}
    shards = {number: shard for number, shard in shards.items() if sizes[number] == shard.file.num_bytes}
    missing = [number for number in range(len(names)) if number not in shards]
    if shards:
        _logger.warning("%d of %d files are finished. Writing the others.", len(shards), len(names))
    folder.write_progress(list(shards.values()))
    tokens_done = 0.0
    with progress_bar(desc="writing", unit=" records", unit_scale=True, disable=not show_progress) as bar:

        def on_records(shard: int, num_records: int, share: float) -> None:
            nonlocal tokens_done
            tokens_done += num_tokens[shard] * share
            if tokens_done:
                bar.total = round((bar.n + num_records) * num_tokens[missing].sum() / tokens_done)
            bar.update(num_records)

        for number, shard in write_shards(job, missing, pool, on_records):
            file = dataclasses.replace(shard.file, name=names[number])
            shards[number] = dataclasses.replace(shard, file=file)
            folder.write_progress([shards[number] for number in sorted(shards)])
    return [shards[number] for number in range(len(names))]


def verify_pretraining_data(
    output_file: Sequence[str] | None = None,
    output_dir: str | os.PathLike | None = None,
    tokenized_corpus: str | os.PathLike | None = None,
    *,
    show_progress: bool = False,
) -> dict[str, Any]:
    """Compares every byte of records, and of a tokenised corpus, with the hashes in their manifests.

    Returns the manifest of the records. Raises `InputError` if something differs: the message names all files that do.
    """
    manifest_path = plan.output_prefix(output_file, output_dir) + MANIFEST_NAME
    num_bytes = sum(file["num_bytes"] for file in read_manifest(manifest_path)["files"])
    with progress_bar(total=num_bytes, desc="verifying", unit="B", unit_scale=True, disable=not show_progress) as bar:
        manifest = verify_records(manifest_path, bar.update)
    if tokenized_corpus is not None:
        TokenizedCorpus.open(tokenized_corpus).verify()
    return manifest


def verify_records(manifest_path: str, on_progress: Callable[[int], None] = lambda num_bytes: None) -> dict[str, Any]:
    """Reads every byte of the files that a manifest lists and compares their hashes. Returns the manifest.

    Raises `InputError` if files are missing, cut off, damaged or not in the manifest. The message names all of them.
    """
    manifest = read_manifest(manifest_path)
    folder = os.path.dirname(os.path.abspath(manifest_path))
    problems = []
    for file in manifest["files"]:
        path = os.path.join(folder, file["name"])
        if not os.path.isfile(path):
            problems.append(f"{path} is missing")
        elif os.path.getsize(path) != file["num_bytes"]:
            problems.append(f"{path} has {os.path.getsize(path):,} bytes instead of {file['num_bytes']:,}")
        elif _sha256(path, on_progress) != file["sha256"]:
            problems.append(f"{path} has other bytes than were written")
    if os.path.basename(manifest_path) == MANIFEST_NAME:
        known = {file["name"] for file in manifest["files"]}
        strangers = [name for name in sorted(os.listdir(folder)) if ".tfrecord" in name and name not in known]
        problems += [f"{os.path.join(folder, name)} is not in the manifest" for name in strangers]
    if problems:
        raise InputError(
            f"{len(problems)} file(s) differ from what was written: {'; '.join(problems[:10])}"
            f"{'; ...' if len(problems) > 10 else ''}. Remove them with {manifest_path} and make the records again."
        )
    return manifest


def _sha256(path: str, on_progress: Callable[[int], None]) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(1 << 24):
            digest.update(data)
            on_progress(len(data))
    return digest.hexdigest()
