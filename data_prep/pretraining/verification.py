"""Compares record files with the hashes in their manifest: the flag --verify."""

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from data_prep.pretraining.pretraining_plan import output_prefix
from data_prep.pretraining.record_folder import MANIFEST_NAME, read_manifest
from data_prep.tokenized.tokenized_corpus import TokenizedCorpus
from keras_bert.program.errors import InputError
from keras_bert.program.long_work import progress_bar


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
    manifest_path = output_prefix(output_file, output_dir) + MANIFEST_NAME
    num_bytes = sum(file["num_bytes"] for file in read_manifest(manifest_path)["files"])
    with progress_bar(total=num_bytes, desc="verifying", unit="B", unit_scale=True, disable=not show_progress) as bar:
        manifest = verify_records(manifest_path, bar.update)
    if tokenized_corpus is not None:
        TokenizedCorpus.open(tokenized_corpus).verify()
    return manifest


def verify_records(manifest_path: str, on_progress: Callable[[int], None] = lambda num_bytes: None) -> dict[str, Any]:
    """Reads every byte of the files that a manifest lists and compares their hashes. Returns the manifest.

    Raises:
        InputError: files are missing, cut off, damaged or not in the manifest. The message names all of them.
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
