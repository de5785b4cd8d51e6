"""JSON files beside the records that describe a finished or unfinished run of `create_pretraining_data`.

`unfinished.json` lists the finished files while others are missing. After the last file it is replaced by
`manifest.json`. Both describe the text and the options. So the same call can resume after a kill, and a different call
is detected.
"""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO, Any

import numpy as np

from data_prep.pretraining.record_writer import WrittenFile
from data_prep.pretraining.tfds_metadata import tfds_metadata
from data_prep.tokenized.document_filters import left_out_lines
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import parse_json
from keras_bert.program.printing import recordable
from keras_bert.records import features

FORMAT = "keras_bert pre-training records 3"
MANIFEST_NAME = "manifest.json"
PROGRESS_NAME = "unfinished.json"


class DiskFiles:
    """Reads, writes and removes files by name. `beam_files.BeamFiles` does the same on other file systems."""

    def open_output(self, path: str | os.PathLike) -> AbstractContextManager[IO[bytes]]:
        """Opens a file for writing; it is replaced atomically."""
        return atomic_file(path)

    def read(self, path: str) -> bytes:
        """Returns the content of a file. Raises `FileNotFoundError`."""
        with open(path, "rb") as file:
            return file.read()

    def size(self, path: str) -> int | None:
        """Returns the size of a file in bytes, or None if it does not exist."""
        return os.path.getsize(path) if os.path.exists(path) else None

    def sizes(self, folder: str) -> dict[str, int]:
        """Returns file name -> size in bytes for a folder; empty if it does not exist."""
        if not os.path.isdir(folder):
            return {}
        with os.scandir(folder) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}

    def remove(self, paths: Sequence[str]) -> None:
        """Removes those of the files that exist."""
        for path in paths:
            if os.path.exists(path):
                os.remove(path)


@dataclasses.dataclass(frozen=True)
class RecordCounts:
    """Counts of pre-training records. The counts of several files are added with `+`.

    `num_examples` counts sequences: packed rows have several per record. `num_positions` counts columns, `num_tokens`
    the columns other than padding (including special tokens), `num_predicted` the targets of the masked language model.
    """

    num_records: int = 0
    num_examples: int = 0
    num_random_next: int = 0
    num_positions: int = 0
    num_tokens: int = 0
    num_predicted: int = 0

    def __add__(self, other: "RecordCounts") -> "RecordCounts":
        mine, others = dataclasses.astuple(self), dataclasses.astuple(other)
        return RecordCounts(*(a + b for a, b in zip(mine, others, strict=True)))

    @classmethod
    def of_batch(cls, batch: Mapping[str, np.ndarray]) -> "RecordCounts":
        """Counts a batch: feature name -> array (B, length)."""
        mask = batch[features.INPUT_MASK]
        num_records = len(mask)
        predicted = batch.get(features.MASKED_LM_WEIGHTS)
        return cls(
            num_records=num_records,
            num_examples=int(mask.max(axis=1, initial=0).sum()),
            num_random_next=int(batch[features.NEXT_SENTENCE_LABELS].sum()),
            num_positions=mask.size,
            num_tokens=int(np.count_nonzero(mask)),
            num_predicted=0 if predicted is None else int(np.count_nonzero(predicted)),
        )


@dataclasses.dataclass(frozen=True)
class FinishedShard:
    """A record file and the counts of its records."""

    file: WrittenFile
    counts: RecordCounts


@dataclasses.dataclass(frozen=True)
class PretrainingDataSummary:
    """The result of a run: the files, the counts of the corpus (its manifest) and the counts of the records."""

    files: list[str]
    corpus: dict[str, Any]
    records: RecordCounts

    def __str__(self) -> str:
        corpus, records = self.corpus, self.records
        unknown = corpus["num_unknown_tokens"] / corpus["num_tokens"]
        lines = [
            f"documents       {corpus['num_documents']:>15,}",
            f"sentences       {corpus['num_sentences']:>15,}",
            f"tokens          {corpus['num_tokens']:>15,}   {unknown:.2%} of them [UNK]",
            *left_out_lines(corpus),
            f"examples        {records.num_examples:>15,}   in {len(self.files)} file(s)",
        ]
        if records.num_records < records.num_examples:
            per_row = records.num_examples / records.num_records
            lines.append(f"records         {records.num_records:>15,}   of {per_row:.2f} examples each")
        if records.num_random_next:
            lines.append(f"random next     {records.num_random_next / records.num_examples:>15.2%}   of the examples")
        if records.num_predicted:
            lines.append(f"to predict      {records.num_predicted / records.num_tokens:>15.2%}   of the tokens")
        lines.append(f"padding         {1 - records.num_tokens / records.num_positions:>15.2%}   of the columns")
        return "\n".join(lines)


class RecordFolder:
    """The JSON files of one run.

    Args:
        prefix: the prefix of their names: a folder and a slash, or the name of the first record file and a dot.
        request: everything that determines the records: the text, how it is read, and the options.
        output_file: the paths of all files, if the user gave them. The place in this list determines a file's content,
            and finished files of other calls are replaced.
        files: the operations on the folder's files; by default those of the local disk.
    """

    def __init__(
        self,
        prefix: str,
        request: dict[str, Any],
        output_file: Sequence[str] | None = None,
        files: DiskFiles | None = None,
    ):
        self._files = files or DiskFiles()
        self.manifest_path = prefix + MANIFEST_NAME
        self.progress_path = prefix + PROGRESS_NAME
        # In the form that JSON returns: tuples become lists. A run may be resumed with other secrets.
        self._request = recordable(json.loads(json.dumps(request)))
        self._names = None if output_file is None else [self.name_of(path) for path in output_file]

    def finished_run(self, folder: str) -> PretrainingDataSummary | None:
        """Returns the result of an earlier run of the same call, or None.

        Raises `InputError` if the folder has other records, or a finished file is missing or has changed its size.
        """
        if self._files.size(self.manifest_path) is None:
            return None
        manifest = read_manifest(self.manifest_path, self._files)
        self._check_same(manifest["request"], "holds records that were", "Remove it or give another name.")
        # One listing: there may be a hundred thousand files, and each request to an object store takes time.
        sizes = self._files.sizes(folder)
        for file in manifest["files"]:
            path = os.path.join(folder, file["name"])
            if sizes.get(file["name"]) != file["num_bytes"]:
                raise InputError(f"{path} is missing or has another size. Remove the folder and make it again.")
        paths = [os.path.join(folder, file["name"]) for file in manifest["files"]]
        return PretrainingDataSummary(paths, manifest["corpus"], RecordCounts(**manifest["records"]))

    def is_begun(self) -> bool:
        """Returns whether a run was stopped here, perhaps before it finished any file."""
        return self._files.size(self.progress_path) is not None

    def name_of(self, path: str) -> str:
        """Returns the name of a file in the manifest: its path relative to the folder of the manifest."""
        folder, name = os.path.split(path)
        # Both paths are resolved first, since either may contain links.
        place = os.path.relpath(os.path.realpath(folder), os.path.realpath(os.path.dirname(self.manifest_path)))
        return os.path.normpath(os.path.join(place, name))

    def read_progress(self) -> dict[str, FinishedShard]:
        """Returns the finished files of a stopped run by their names.

        Raises `InputError` if that run made other records in a folder of its own.
        """
        try:
            progress = json.loads(self._files.read(self.progress_path))
        except FileNotFoundError:
            return {}
        if self._names is None:
            advice = "Give the same flags to resume, or remove it."
            self._check_same(progress["request"], "holds an unfinished run,", advice)
        elif progress["request"] != self._request or progress.get("names") != self._names:
            return {}
        shards = [shard_from_json(file) for file in progress["files"]]
        return {shard.file.name: shard for shard in shards}

    def write_progress(self, shards: Sequence[FinishedShard]) -> None:
        progress = {"request": self._request, "files": [shard_to_json(shard) for shard in shards]}
        if self._names is not None:
            progress["names"] = self._names
        self._write_json(self.progress_path, progress)

    def finish(
        self,
        paths: list[str],
        corpus: dict[str, Any],
        shards: Sequence[FinishedShard],
        record: Sequence[features.Feature],
    ) -> PretrainingDataSummary:
        """Writes the manifest, from that of the tokenised corpus, and removes the list of finished files.

        A folder becomes a data set of tensorflow_datasets too; `record` are the features of a record.
        """
        counts = sum((shard.counts for shard in shards), RecordCounts())
        summary = PretrainingDataSummary(paths, {key: corpus[key] for key in corpus if key != "parts"}, counts)
        # tensorflow_datasets cannot read compressed files.
        if self._names is None and self._request.get("compression") == "none":
            contents = tfds_metadata("pretraining", record, [shard.file for shard in shards])
            for name, content in contents.items():
                with self._files.open_output(os.path.join(os.path.dirname(self.manifest_path), name)) as file:
                    file.write(content)
        manifest = {
            "format": FORMAT,
            "request": self._request,
            "corpus": summary.corpus,
            "records": dataclasses.asdict(counts),
            "files": [shard_to_json(shard) for shard in shards],
        }
        self._write_json(self.manifest_path, manifest)
        self._files.remove([self.progress_path])
        return summary

    def _write_json(self, path: str, value: dict[str, Any]) -> None:
        with self._files.open_output(path) as file:
            file.write((json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())

    def _check_same(self, other: dict[str, Any], which: str, advice: str) -> None:
        for name in dict.fromkeys([*self._request, *other]):
            if (value := self._request.get(name)) != other.get(name):
                place = os.path.dirname(self.manifest_path)
                raise InputError(f"{place} {which} made with {name}={other.get(name)!r}, not {value!r}. {advice}")


def read_manifest(path: str, files: DiskFiles | None = None) -> dict[str, Any]:
    """Reads the manifest of records. Raises `InputError` if it is missing, damaged or of another form."""
    try:
        manifest = parse_json((files or DiskFiles()).read(path), path)
    except FileNotFoundError:
        raise InputError(f"There is no {path}, so the records beside it cannot be checked.") from None
    except InputError:
        raise InputError(f"{path} is damaged: it is not JSON. Make the records again.") from None
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if found != FORMAT:
        raise InputError(
            f"{path} is not the manifest of pre-training records: expected {FORMAT!r}, found {found!r}. Make the "
            "records again with create_pretraining_data."
        )
    return manifest


def shard_to_json(shard: FinishedShard) -> dict[str, Any]:
    """Returns one flat dictionary for JSON."""
    return {**dataclasses.asdict(shard.file), **dataclasses.asdict(shard.counts)}


def shard_from_json(value: dict[str, Any]) -> FinishedShard:
    """Returns the argument of `shard_to_json`."""
    kinds = (WrittenFile, RecordCounts)
    return FinishedShard(*(kind(**{name: value[name] for name in kind.__dataclass_fields__}) for kind in kinds))
