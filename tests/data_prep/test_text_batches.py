"""Tables of texts as record batches: all kinds of files give the same rows, and bad tables are refused in one line."""

import json

import fsspec
import pytest

from data_prep.finetuning import text_batches
from data_prep.finetuning.text_batches import TextTable
from keras_bert.program.errors import InputError

pa = pytest.importorskip("pyarrow")
import pyarrow.feather  # noqa: E402
import pyarrow.parquet  # noqa: E402

ROWS = {"sku": ["a", "b", "c"], "text": ["the fox", "Größe", "of and"], "year": [2022, 2023, 2024]}


@pytest.fixture
def files(tmp_path):
    """The same table in all forms: ending -> path."""
    rows = [dict(zip(ROWS, values, strict=True)) for values in zip(*ROWS.values(), strict=True)]
    lines = [list(ROWS), *([str(value) for value in row.values()] for row in rows)]
    found = {ending: str(tmp_path / f"rows.{ending}") for ending in ("csv", "tsv", "jsonl", "parquet", "arrow")}
    for ending, separator in (("csv", ","), ("tsv", "\t")):
        (tmp_path / f"rows.{ending}").write_text("".join(separator.join(line) + "\n" for line in lines), "utf-8")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    pyarrow.parquet.write_table(pa.table(ROWS), found["parquet"])
    pyarrow.feather.write_feather(pa.table(ROWS), found["arrow"])
    return found


def rows_of(*patterns, **options):
    table = TextTable([str(pattern) for pattern in patterns], **options)
    return pa.Table.from_batches(table.batches()), table.facts


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "arrow"])
def test_all_kinds_of_files_give_the_same_rows(files, ending):
    rows, facts = rows_of(files[ending], id_column="sku", columns=["year"])
    year = "string" if ending in ("csv", "tsv") else "int64"
    assert {field.name: str(field.type) for field in rows.schema} == {"id": "string", "text": "string", "year": year}
    assert rows["id"].to_pylist() == ROWS["sku"]
    assert rows["text"].to_pylist() == ROWS["text"]
    assert list(map(int, rows["year"].to_pylist())) == ROWS["year"]
    assert facts.num_rows == 3


def test_lines_are_texts_and_ids_are_the_numbers_of_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(text_batches, "_ROWS_AT_ONCE", 2)
    (tmp_path / "a.txt").write_text("one\n two \n\n", "utf-8")
    (tmp_path / "b.txt").write_text("three\nfour\n", "utf-8")
    rows, facts = rows_of(tmp_path / "a.txt", tmp_path / "b.txt", skip_missing=True)
    assert rows.to_pydict() == {"id": [0, 1, 3, 4], "text": ["one", "two", "three", "four"]}
    assert facts.num_rows == 4
    assert rows_of(tmp_path / "b.txt")[1].rows_sha256 != facts.rows_sha256


def test_several_texts_lists_and_missing_values_of_other_columns_are_kept(tmp_path):
    lines = [{"q": "a", "c": ["x", "y"], "score": 1}, {"q": "b", "c": ["z"], "score": 0.5}, {"q": "c", "c": ["w"]}]
    lines[1]["q"] = "b\ud83d"  # half a surrogate pair
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    rows, _ = rows_of(tmp_path / "rows.jsonl", text_columns=["q", "c"], columns=["score"])
    assert rows["q"].to_pylist() == ["a", "b\ufffd", "c"]
    assert rows["c"].to_pylist() == [["x", "y"], ["z"], ["w"]]
    assert rows["score"].to_pylist() == [1.0, 0.5, None]


def test_a_url_and_a_table_without_a_header(files, tmp_path):
    with fsspec.open("memory://tables/rows.jsonl", "wb") as file:
        file.write((tmp_path / "rows.jsonl").read_bytes())
    (tmp_path / "many.csv").write_text("n,text\n" + "".join(f"{number},a\n" for number in range(2000)))
    assert rows_of(tmp_path / "many.csv", id_column="n")[1].num_rows == 2000  # no two ids are taken for one
    assert rows_of("memory://tables/rows.jsonl", id_column="sku") == rows_of(files["jsonl"], id_column="sku")
    (tmp_path / "bare.tsv").write_text("a\tone\nb\ttwo\n")
    rows, _ = rows_of(tmp_path / "bare.tsv", text_columns=["1"], id_column="0", has_header=False)
    assert rows.to_pydict() == {"id": ["a", "b"], "1": ["one", "two"]}


REFUSED = {
    "a column that is missing": ({"text": ["a"]}, {"columns": ["year"]}, "no column 'year'.*'text'"),
    "a text column that is missing": ({"body": ["a"]}, {}, "no column 'text'.*'body'"),
    "missing texts": (
        {"text": ["a", None, " ", "b"]},
        {},
        r"2 of 4 rows have no value .* number 1, counted from 0, at .* 2.*--skip_missing",
    ),
    "no text at all": ({"text": [None, ""]}, {"skip_missing": True}, "no row has a text"),
    "numbers as texts": ({"text": [1, 2]}, {}, "'text' must have strings. It has: int at .* 1"),
    "numbers with a point as ids": (
        {"text": ["a"], "n": [0.5]},
        {"id_column": "n"},
        "an id is a string or a whole number. Received: 0.5",
    ),
    "a missing id": (
        {"text": ["a", "b"], "n": ["a", None]},
        {"id_column": "n"},
        "2: an id is a string .* Received: None",
    ),
    "an id twice": (
        {"text": list("abcd"), "n": ["x", "y", "z", "y"]},
        {"id_column": "n"},
        "rows 1 and 3, counted from 0, have the same id",
    ),
    "a number twice": ({"text": list("abc"), "n": [-1, -2, -1]}, {"id_column": "n"}, "rows 0 and 2, counted from 0"),
    "another column of ids": ({"text": ["a"], "id": [1], "n": [2]}, {"id_column": "n", "columns": ["id"]}, "'id' can"),
}


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@pytest.mark.parametrize("name", REFUSED)
def test_bad_tables_are_refused(name, ending, tmp_path):
    columns, options, message = REFUSED[name]
    path = tmp_path / f"rows.{ending}"
    if ending == "parquet":
        pyarrow.parquet.write_table(pa.table(columns), path)
    else:
        rows = zip(*columns.values(), strict=True)
        path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows), "utf-8")
    with pytest.raises(InputError, match=message):
        assert TextTable([str(path)], **options).facts


def test_files_with_other_columns_or_values_are_named(files, tmp_path):
    with pytest.raises(
        InputError, match="'year' must have values of one kind. It has: int at .*parquet: row 1, str at .*"
    ):
        rows_of(files["parquet"], files["csv"], columns=["year"])
    pyarrow.parquet.write_table(pa.table({"text": ["a"]}), tmp_path / "other.parquet")
    with pytest.raises(InputError, match="other.parquet cannot be read: it has no column 'year'"):
        rows_of(files["parquet"], tmp_path / "other.parquet", columns=["year"])
    for name, value, kind in (
        ("objects", {"x": 1}, "dict"),
        ("numbers", [1], "list"),
        ("large", 1 << 63, "int of more"),
    ):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": "a", "m": value}))
        with pytest.raises(InputError, match=f"'m' must have values of one kind. It has: {kind}.* line 1"):
            rows_of(tmp_path / f"{name}.jsonl", columns=["m"])
    (tmp_path / "texts.txt").write_text("a\n")
    with pytest.raises(InputError, match="texts.txt has a text in each line, and no columns"):
        rows_of(tmp_path / "texts.txt", columns=["n"])


def test_ids_are_compared_within_a_bound(files, tmp_path, monkeypatch):
    monkeypatch.setattr(text_batches, "_IDS_AT_ONCE", 3)
    twice = [files["jsonl"], str(tmp_path / "again.jsonl")]
    (tmp_path / "again.jsonl").write_text((tmp_path / "rows.jsonl").read_text("utf-8"), "utf-8")
    assert rows_of(*twice, id_column="sku")[1].num_rows == 6
    monkeypatch.setattr(text_batches, "_IDS_AT_ONCE", 4)
    with pytest.raises(InputError, match="rows 0 and 3"):
        rows_of(*twice, id_column="sku")
