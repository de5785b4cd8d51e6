"""A folder of parts: files of Arrow or Parquet with `rows_per_part` rows each. A finished part never changes.

part-00003-of-00062.arrow   the rows from 3 * rows_per_part on, in batches of at most 4,096 rows
_parts.json                 the settings; parts of other settings are refused
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from keras_bert.program.arrow_files import pa
from keras_bert.program.atomic_output import PARTIAL, atomic_named_file, check_output_folder, explain_write_errors
from keras_bert.program.errors import InputError
from keras_bert.program.folder_lock import remove_unheld
from keras_bert.program.json_files import read_json_object, write_json

SETTINGS_FILE, LOCK_FILE = "_parts.json", ".lock"
# Long texts come in batches of fewer rows.
_BYTES_AT_ONCE = 1 << 26


class TableParts:
    """The parts of a table in a folder, which is empty or missing or has parts; `format` is "arrow" or "parquet"."""

    def __init__(self, folder: str, num_rows: int, rows_per_part: int, format: str):
        self.folder, self.num_rows, self.rows_per_part, self.format = folder, num_rows, rows_per_part, format
        self.num_parts = -(-num_rows // rows_per_part)

    def path(self, number: int) -> str:
        return os.path.join(self.folder, f"part-{number:05}-of-{self.num_parts:05}.{self.format}")

    def rows_of(self, number: int) -> int:
        """Returns the number of rows of a part."""
        return min(self.rows_per_part, self.num_rows - number * self.rows_per_part)

    def unfinished(self, settings: Mapping[str, Any], facts: Mapping[bytes, str]) -> list[int]:
        """Returns the numbers of the parts to write. Makes the folder, and writes the settings, if there are none.

        Args:
            settings: what the parts depend on besides the facts and the arguments of this object.
            facts: name -> value of the entries that the metadata of each part must have.

        Raises:
            InputError: the folder has other files, settings are not those of the parts in it, or a part is damaged or
                of another model.
        """
        of_model = {name.decode(): value for name, value in facts.items()}
        own = {"file_format": self.format, "rows_per_part": self.rows_per_part, "num_rows": self.num_rows}
        settings = {"format": 1, **of_model, **settings, **own}
        path = os.path.join(self.folder, SETTINGS_FILE)
        if not os.path.isfile(path):
            check_parts_folder(self.folder)
            write_json(path, settings)
        remove_unheld(os.path.join(self.folder, name) for name in os.listdir(self.folder) if PARTIAL in name)
        stored = read_json_object(path)
        for name in {**settings, **stored}:
            if stored.get(name) != settings.get(name):
                raise InputError(
                    f"{path}: its parts are of another run, whose {name} is {stored.get(name)!r:.100}. Here it is "
                    f"{settings.get(name)!r:.100}. Give another --output_dir, or the same settings."
                )
        numbers = {os.path.basename(self.path(number)): number for number in range(self.num_parts)}
        finished = {name for name in os.listdir(self.folder) if name.startswith("part-")}
        for name in sorted(finished):
            self._check_part(name, numbers.get(name), facts)
        return [number for name, number in numbers.items() if name not in finished]

    def _check_part(self, name: str, number: int | None, facts: Mapping[bytes, str]) -> None:
        from pyarrow import dataset  # only now: it takes a moment

        path = os.path.join(self.folder, name)
        try:
            found = dataset.dataset(path, format=self.format)
            num_rows, metadata = found.count_rows(), found.schema.metadata or {}
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{path} is damaged ({error!s:.100}). Remove it and run again.") from None
        is_other = any(metadata.get(key) != value.encode() for key, value in facts.items())
        if number is None or num_rows != self.rows_of(number) or is_other:
            raise InputError(f"{path} is a part of another run or another model. Remove it, or give another folder.")

    def write(self, number: int, batches: Iterable[Any]) -> None:
        """Writes a part from its batches, one by one. It appears whole or not at all; raises `InputError`."""
        path, writer = self.path(number), None
        with atomic_named_file(path) as temporary, explain_write_errors(path), contextlib.ExitStack() as stack:
            for batch in batches:
                writer = writer or stack.enter_context(_new_writer(temporary, batch.schema, self.format))
                writer.write_batch(batch)


def check_parts_folder(folder: str) -> None:
    """Checks, before the work, that a folder can get parts: it is empty or missing, or has `_parts.json`.

    Raises:
        InputError: it has other files only, or cannot be written.
    """
    if os.path.isfile(os.path.join(folder, SETTINGS_FILE)):
        return
    names = os.listdir(folder) if os.path.isdir(folder) else []
    if any(name != LOCK_FILE and PARTIAL not in name for name in names) or not os.path.isdir(folder):
        check_output_folder(folder)
        with explain_write_errors(folder):
            os.makedirs(folder, exist_ok=True)


def parts_of(batches: Iterable[Any], rows_per_part: int, rows_at_once: int = 4096) -> Iterator[tuple[int, Any]]:
    """Yields batches of at most `rows_at_once` rows, each with the number of its part.

    They depend on the rows and their part only, so that a part has the same bytes whoever writes it.
    """
    pending: list[Any] = []
    first = size = count = 0
    for batch in batches:
        while len(batch):
            room = min(rows_at_once - count, rows_per_part - (first + count) % rows_per_part)
            piece, batch = batch.slice(0, room), batch.slice(room)
            pending, count, size = [*pending, piece], count + len(piece), size + piece.nbytes
            if len(piece) == room or size >= _BYTES_AT_ONCE:
                yield first // rows_per_part, pa.concat_batches(pending)
                pending, first, count, size = [], first + count, 0, 0
    if pending:
        yield first // rows_per_part, pa.concat_batches(pending)


def _new_writer(path: str, schema: Any, format: str) -> Any:
    if format == "arrow":
        return pa.ipc.new_file(path, schema)
    from pyarrow import parquet

    return parquet.ParquetWriter(path, schema)
