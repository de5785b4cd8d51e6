"""Parts of a table: the same bytes however they are written, finished parts stay, and those of others are refused."""

import json

import pytest
from full_disk import file_size_limit

from keras_bert.program.errors import InputError

pa = pytest.importorskip("pyarrow")
from keras_bert.program import table_parts  # noqa: E402
from keras_bert.program.table_parts import TableParts, parts_of  # noqa: E402

FACTS = {b"model_sha256": "ab"}


def batches(sizes, first=0):
    """Yields batches of these sizes with the numbers from `first` on."""
    for size in sizes:
        yield pa.record_batch({"n": list(range(first, first + size))}).replace_schema_metadata(FACTS)
        first += size


def written(folder, format="arrow", num_rows=7):
    parts = TableParts(str(folder), num_rows, 3, format)
    for number in parts.unfinished({}, FACTS):
        parts.write(number, batches([parts.rows_of(number)], 3 * number))
    return parts


def test_batches_depend_on_the_rows_and_their_part_only(monkeypatch):
    found = [(number, batch["n"].to_pylist()) for number, batch in parts_of(batches([1, 9, 2, 1]), 5, 3)]
    assert found == [(0, [0, 1, 2]), (0, [3, 4]), (1, [5, 6, 7]), (1, [8, 9]), (2, [10, 11, 12])]
    assert [batch for _, batch in parts_of(batches([13]), 5, 3)] == [pa.record_batch({"n": rows}) for _, rows in found]
    monkeypatch.setattr(table_parts, "_BYTES_AT_ONCE", 16)
    assert [len(batch) for _, batch in parts_of(batches([1] * 5), 5)] == [2, 2, 1]


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_finished_parts_stay_and_the_others_are_written(tmp_path, format):
    parts = written(tmp_path / "a", format)
    assert [parts.rows_of(number) for number in range(parts.num_parts)] == [3, 3, 1]
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["_parts.json", *(f"part-0000{number}-of-00003.{format}" for number in range(3))]
    content = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    (tmp_path / "a" / names[2]).unlink()
    assert parts.unfinished({}, FACTS) == [1]
    written(tmp_path / "a", format)
    assert {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()} == content


def test_what_the_folder_has_of_others_is_named(tmp_path):
    parts = written(tmp_path / "a")
    first = tmp_path / "a" / "part-00000-of-00003.arrow"
    for settings, facts, message in (
        ({"skip": True}, FACTS, "another run, whose skip is None. Here it is True"),
        ({}, {b"model_sha256": "cd"}, "whose model_sha256 is 'ab'. Here it is 'cd'"),
    ):
        with pytest.raises(InputError, match=message):
            parts.unfinished(settings, facts)
    with pytest.raises(InputError, match="whose num_rows is 7. Here it is 9"):
        TableParts(parts.folder, 9, 3, "arrow").unfinished({}, FACTS)
    content = first.read_bytes()
    first.write_bytes(content[:-20])
    with pytest.raises(InputError, match="part-00000-of-00003.arrow is damaged .*Remove it and run again"):
        parts.unfinished({}, FACTS)
    first.write_bytes((tmp_path / "a" / "part-00002-of-00003.arrow").read_bytes())
    with pytest.raises(InputError, match="part-00000-of-00003.arrow is a part of another run"):
        parts.unfinished({}, FACTS)
    other = pa.record_batch({"n": [0, 1, 2]}).replace_schema_metadata({b"model_sha256": "cd"})
    first.unlink()
    parts.write(0, [other])
    with pytest.raises(InputError, match="part-00000-of-00003.arrow is a part of another run or another model"):
        parts.unfinished({}, FACTS)
    first.write_bytes(content)
    (tmp_path / "a" / "part-00000-of-00009.arrow").write_bytes(content)
    with pytest.raises(InputError, match="part-00000-of-00009.arrow is a part of another run"):
        parts.unfinished({}, FACTS)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="b is not empty"):
        written(tmp_path / "b")
    (tmp_path / "a" / "_parts.json").write_text(json.dumps({"format": 2}))
    with pytest.raises(InputError, match="whose format is 2"):
        parts.unfinished({}, FACTS)


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_a_part_that_is_cut_off_is_not_there(tmp_path, format):
    parts = TableParts(str(tmp_path / "a"), 100_000, 100_000, format)
    parts.unfinished({}, FACTS)
    with (
        file_size_limit(10_000),
        pytest.raises(InputError, match="part-00000-of-00001.*a file grew over the size limit"),
    ):
        parts.write(0, batches([50_000, 50_000]))
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["_parts.json"]
    assert parts.unfinished({}, FACTS) == [0]
