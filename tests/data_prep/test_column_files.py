"""Parquet, Arrow and Feather files: read like JSON Lines everywhere, and refused in one line if they are bad."""

import datetime
import decimal
import json
import os
import random
import sys

import pytest

from data_prep.finetuning.conll import read_tagged_sentences
from data_prep.finetuning.data_folder import TABLE_ENDINGS, find_parts
from data_prep.finetuning.labelled_text import read_labelled_text, read_multi_label_text, read_scored_text
from data_prep.finetuning.squad import read_squad
from data_prep.finetuning.tables import has_named_values, read_rows
from data_prep.text.column_files import read_column_file
from data_prep.text.corpus import input_size, read_documents
from keras_bert.program.errors import InputError

pa = pytest.importorskip("pyarrow")
import pyarrow.feather  # noqa: E402
import pyarrow.parquet  # noqa: E402

FORMS = ("parquet", "feather", "arrow")


def write(path, columns, classes=None, **options):
    """Writes a table in the form that the name says; `.arrow` is a stream, as `datasets` writes it."""
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    if classes:
        features = {name: {"names": names, "_type": "ClassLabel"} for name, names in classes.items()}
        features = {
            name: {"feature": its, "_type": "List"} if name == "tags" else its for name, its in features.items()
        }
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path, **options)
    elif path.suffix == ".feather":
        pyarrow.feather.write_feather(table, str(path), **options)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    return path


def test_numbers_without_a_class_are_kept(tmp_path):
    """A test set without labels has the class -1, which is not the last one."""
    columns = {"label": [-1, 0, 1, 2, None], "tags": [[-1, 1], [], [2], [-3, 0], None]}
    classes = {"label": ["no", "yes"], "tags": ["O", "B"]}
    rows = [row for row, _ in read_column_file(str(write(tmp_path / "test.parquet", columns, classes)))]
    assert [row["label"] for row in rows] == [-1, "no", "yes", 2, None]
    assert [row["tags"] for row in rows] == [[-1, "B"], [], [2], [-3, "O"], None]


@pytest.mark.parametrize("form", FORMS)
def test_values_are_those_of_json(tmp_path, form):
    columns = {
        "text": ["caf\u00e9\n", None, ""],
        "number": [1.5, float("nan"), float("-inf")],
        "day": [datetime.date(2020, 1, 31)] * 3,
        "moment": pa.array([1, 2, 3], pa.timestamp("ns")),
        "price": [decimal.Decimal("1.50")] * 3,
        "words": [["a", "b"], [], None],
        "pair": [{"text": ["x"], "start": [3]}] * 3,
        "data": [b"caf\xc3\xa9", b"\xff", None],
        "kind": pa.array(["u", "v", "u"]).dictionary_encode(),
        "image": [{"bytes": b"\xff", "path": "a.png"}] * 3,
    }
    path = write(tmp_path / f"a.{form}", columns)
    rows = [row for row, _ in read_column_file(str(path))]
    assert [row["text"] for row in rows] == columns["text"]
    assert [row["number"] for row in rows] == [1.5, None, None]
    assert [row["words"] for row in rows] == columns["words"]
    assert [row["data"] for row in rows] == ["caf\u00e9", None, None]
    assert [row["kind"] for row in rows] == ["u", "v", "u"]
    assert rows[0]["day"] == "2020-01-31"
    assert rows[0]["moment"].startswith("1970-01-01 00:00:00.000000001")
    assert rows[0]["price"] == "1.50"
    assert rows[0]["pair"] == {"text": ["x"], "start": [3]}
    assert "image" not in rows[0]
    assert next(read_column_file(str(path), ["text"]))[0] == {"text": "caf\u00e9\n"}


@pytest.mark.parametrize("form", FORMS)
def test_labelled_texts_are_read_with_the_names_of_their_classes(tmp_path, form):
    columns = {"text": ["fine", "dull", "good"], "label": [1, 0, 1]}
    path = write(tmp_path / f"train.{form}", columns, {"label": ["neg", "pos"]})
    assert read_labelled_text(path).labels == ["pos", "neg", "pos"]
    assert read_labelled_text(write(tmp_path / f"plain.{form}", columns)).labels == ["1", "0", "1"]
    assert has_named_values(str(path))
    scored = write(tmp_path / f"b.{form}", {"text": ["a"], "label": [0.5]})
    assert read_scored_text(scored).labels == [0.5]
    several = write(tmp_path / f"c.{form}", {"text": ["a", "b"], "label": [["x", "y"], []]})
    assert read_multi_label_text(several).labels == [["x", "y"], []]


def test_words_with_tags_and_questions_are_read(tmp_path):
    tags = {"tokens": [["Ada", "wrote"], ["Hi"]], "tags": [[1, 0], [0]]}
    found = read_tagged_sentences(write(tmp_path / "a.parquet", tags, {"tags": ["O", "B-PER"]}))
    assert (found.words, found.tags) == (tags["tokens"], [["B-PER", "O"], ["O"]])
    answers = [{"text": ["London"], "answer_start": [3]}, {"text": [], "answer_start": []}]
    columns = {"id": ["1", "2"], "question": ["Where?", "Who?"], "context": ["In London."] * 2, "answers": answers}
    found = read_squad(write(tmp_path / "b.parquet", columns))
    assert [[(one.text, one.start) for one in its] for its in found.answers] == [[("London", 3)], []]


def test_a_missing_value_is_named_by_its_row(tmp_path):
    path = write(tmp_path / "a.parquet", {"text": ["a", None], "label": ["x", "y"]})
    with pytest.raises(InputError, match="a.parquet: 1 of 2 rows .* number 1, .* at row 2: the text .*'text' is None"):
        read_labelled_text(path)
    with pytest.raises(InputError, match=r"a.parquet: row 2: the column 'text' must be a string. Received: None"):
        list(read_documents(str(path)))


@pytest.mark.parametrize("form", FORMS)
def test_a_corpus_is_read_as_from_json_lines(tmp_path, form):
    texts = [f"Text {number}.\n\nSecond paragraph." for number in range(700)]
    write(tmp_path / f"a.{form}", {"body": texts, "other": [b"\xff"] * 700})
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"body": text}) + "\n" for text in texts))
    reported = []
    found = list(read_documents(str(tmp_path / f"a.{form}"), text_field="body", on_progress=reported.append))
    assert found == list(read_documents(str(tmp_path / "b.jsonl"), text_field="body"))
    size = os.path.getsize(tmp_path / f"a.{form}")
    assert input_size(str(tmp_path / f"a.{form}")) == size
    assert 0.99 * size < sum(reported) <= size
    assert len(list(read_documents(str(tmp_path), text_field="body"))) == 1400  # the folder has both
    with pytest.raises(InputError, match=f"a.{form} cannot be read: it has no column 'text'. It has: 'body', 'other'."):
        list(read_documents(str(tmp_path / f"a.{form}")))


def test_a_folder_as_hugging_face_stores_it_is_found(tmp_path):
    for part in ("train", "validation", "test"):
        write(tmp_path / f"{part}-00000-of-00001.parquet", {"text": ["a"], "label": ["x"]})
    found = find_parts(tmp_path, TABLE_ENDINGS)
    names = {"train": "train", "eval": "validation", "predict": "test"}
    assert found == {part: f"{tmp_path}/{name}-00000-of-00001.parquet" for part, name in names.items()}


def test_a_reader_that_is_left_early_ends(tmp_path):
    path = write(tmp_path / "a.parquet", {"text": [f"{number} " * 200 for number in range(20_000)]})
    rows = read_rows(str(path))
    assert next(rows).values["text"] == "0 " * 200
    rows.close()


def long_text(path, length, times):
    """A file in which one text is stored once and repeated."""
    column = pa.DictionaryArray.from_arrays(pa.array([0] * times, pa.int32()), ["x" * length])
    options = {"store_schema": False} if path.suffix == ".parquet" else {}
    return write(path, {"text": column}, compression="zstd", **options)


def cut_off(path):
    write(path, {"text": ["a", "b"] * 1000})
    return with_bytes(path, path.read_bytes()[:-300])


def with_bytes(path, data):
    path.write_bytes(data)
    return path


def file_of(name, data):
    return lambda folder: with_bytes(folder / name, data)


def two_columns_text(folder):
    return write(folder / "a.arrow", pa.Table.from_arrays([pa.array(["a"])] * 2, ["text", "text"]))


DAMAGED = "it is damaged or of another kind"
BAD = {
    "missing": (lambda folder: folder / "a.parquet", "There is no file .*a.parquet"),
    "empty": (file_of("a.parquet", b""), DAMAGED),
    "text": (file_of("a.arrow", b"text,label\n"), DAMAGED),
    "cut": (lambda folder: cut_off(folder / "a.parquet"), DAMAGED),
    "cut feather": (lambda folder: cut_off(folder / "a.feather"), DAMAGED),
    "cut stream": (lambda folder: cut_off(folder / "a.arrow"), DAMAGED),
    "first feather": (file_of("a.feather", b"FEA1" + b"\0" * 99), "it is a file of the first version of Feather"),
    "same names": (two_columns_text, "it has several columns named 'text'"),
    "expansion": (lambda folder: long_text(folder / "a.parquet", 300_000, 4000), "stand for more than 1,073,741,824"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "expansion" else name for name in BAD]
)
def test_a_bad_file_is_refused_in_one_line(name, tmp_path):
    make, message = BAD[name]
    path = make(tmp_path)
    with pytest.raises(InputError, match=message) as caught:
        sum(1 for _ in read_column_file(str(path)))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_needs_too_much_memory_is_refused_in_one_line(tmp_path, monkeypatch):
    path = write(tmp_path / "a.parquet", {"text": ["a"]})

    def allocate(*_, **options):
        raise pa.ArrowMemoryError("malloc of size 1099511627776 failed")

    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "iter_batches", allocate)
    with pytest.raises(InputError, match="a few of its rows need more memory than there is. Write it with smaller row"):
        list(read_column_file(str(path)))


def test_without_pyarrow_the_message_names_it(tmp_path, monkeypatch):
    path = write(tmp_path / "a.parquet", {"text": ["a"]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match="need the package pyarrow: pip install pyarrow, or the extra 'parquet'"):
        next(read_column_file(str(path)))


@pytest.mark.parametrize("form", FORMS)
def test_changed_files_are_read_or_refused(tmp_path, form):
    columns = {
        "text": [f"a text of number {number}" for number in range(200)],
        "label": [number % 3 for number in range(200)],
        "words": [["a", "b"]] * 200,
    }
    path = write(tmp_path / f"a.{form}", columns, {"label": ["x", "y", "z"]})
    draw, data, num_refused = random.Random(0), path.read_bytes(), 0
    for _ in range(120):
        changed = bytearray(data)
        for _ in range(draw.choice([1, 1, 2, 8])):
            place = draw.randrange(len(changed) - 400 if draw.random() < 0.5 else 0, len(changed))
            changed[place] = draw.choice([0, 1, 127, 128, 255, draw.randrange(256)])
        if draw.random() < 0.1:
            del changed[draw.randrange(len(changed)) :]
        try:
            list(read_column_file(str(with_bytes(path, changed))))
        except InputError:
            num_refused += 1
    assert num_refused > 10
