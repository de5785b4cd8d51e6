"""The folder of an index and Arrow files of others: opened without a copy, or refused with a reason."""

import contextlib
import json
import os
import pathlib
import shutil
import struct

import numpy as np
import pyarrow as pa
import pytest
from clustered_vectors import clusters, index_of
from pyarrow import feather, parquet

from keras_bert.embeddings.vector_index import VectorIndex
from keras_bert.program.errors import InputError

VECTORS = clusters(40, 8)
COLUMNS = {
    "id": pa.array([f"d{number}" for number in range(40)]),
    "text": pa.array([f"text {number}" for number in range(40)]),
    "year": pa.array(np.arange(40, dtype=np.int16)),
    "vector": pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.reshape(-1)), 8),
}


@pytest.fixture(autouse=True)
def vectors(use_vectors):
    use_vectors(lambda text: VECTORS[int(text.split()[-1])])


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "others.arrow")


def written(path, columns=COLUMNS, **options):
    feather.write_feather(pa.table(columns), path, **{"compression": "uncompressed", **options})
    return path


def found(index, **options):
    return [(hit.id, hit.score, hit.metadata) for hit in index.search(None, "text 7", 5, **options)[0]]


def test_files_of_others_are_searched_without_a_copy_of_the_vectors(tmp_path):
    table = pa.table(COLUMNS)
    for number, part in enumerate((table.slice(0, 25), table.slice(25))):
        feather.write_feather(part, str(tmp_path / f"{number}.feather"), compression="uncompressed", chunksize=10)
    allocated = pa.total_allocated_bytes()
    index = VectorIndex.from_arrow([tmp_path / "0.feather", tmp_path / "1.feather"], None)
    assert pa.total_allocated_bytes() == allocated
    assert [len(part) for part in index.rows.search.parts] == [10, 10, 5, 10, 5]
    expected = index_of(VECTORS, [f"text {number}" for number in range(40)], ids=range(40))
    for where in (None, {"year": [3, 7, 38]}):
        mask = None if where is None else (lambda columns: np.isin(np.arange(40), [3, 7, 38]))
        hits = expected.search(None, "text 7", 5, where=mask)[0]
        assert found(index, where=where) == [
            (f"d{hit.id}", pytest.approx(hit.score), {"year": hit.number}) for hit in hits
        ]
    index.upsert(None, ["d7", "new"], ["text 8", "text 9"], metadata={"year": [1, 2]})
    index.save(tmp_path / "index")
    assert found(VectorIndex.load(tmp_path / "index")) == found(index)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["0.feather", "1.feather", "index"]


def test_columns_of_others_can_have_other_names(path):
    written(path, {"embedding": COLUMNS["vector"], "body": COLUMNS["text"]})
    index = VectorIndex.from_arrow(path, None, names={"embedding": "vector", "body": "text"})
    assert index.search(None, "text 7", 1)[0][0].text == "text 7"


def test_others_read_the_files_and_parquet_has_what_is_not_deleted(tmp_path):
    index = index_of(VECTORS, COLUMNS["text"].to_pylist(), ids=range(40), metadata={"open": [True, False] * 20})
    index.delete([3])
    index.save(tmp_path / "index")
    table = feather.read_table(tmp_path / "index" / "rows-000001.arrow")
    assert table.column_names == ["id", "text", "open", "vector"]
    np.testing.assert_array_equal(table["vector"].combine_chunks().flatten().to_numpy().reshape(-1, 8), VECTORS)
    assert np.load(tmp_path / "index" / "deleted.npy").tolist() == [3]
    index.to_parquet(tmp_path / "index.parquet")
    table = parquet.read_table(tmp_path / "index.parquet")
    assert table["id"].to_pylist() == [number for number in range(40) if number != 3]
    assert pa.types.is_fixed_size_list(table.schema.field("vector").type)
    assert table.schema.metadata[b"model_sha256"] == b""


def with_buffer(column: pa.Array, number: int, values: list, dtype: str) -> pa.Array:
    """Returns a column in which one buffer has these first values, whatever they mean."""
    buffers = column.buffers()
    content = bytearray(buffers[number].to_pybytes())
    content[: len(values) * np.dtype(dtype).itemsize] = np.array(values, dtype).tobytes()
    buffers[number] = pa.py_buffer(bytes(content))
    return pa.Array.from_buffers(column.type, len(column), buffers)


def with_list_size(path: str) -> None:
    """Writes another list size into the schema of a file, twice: in its first message and in the footer."""
    content = pathlib.Path(path).read_bytes()
    assert content.count(struct.pack("<i", 77)) == 2
    pathlib.Path(path).write_bytes(content.replace(struct.pack("<i", 77), struct.pack("<i", 2**31 - 1)))


TEXT, VECTOR, HALVES = COLUMNS["text"], COLUMNS["vector"], pa.array(VECTORS.reshape(-1).astype("float16"))
WITH_NULL = pa.array([None, *VECTORS.reshape(-1)[1:].tolist()], pa.float32())
REFUSED = {
    "lists of another type": ({"vector": pa.FixedSizeListArray.from_arrays(HALVES, 8)}, "'vector' has the type"),
    "lists of any size": ({"vector": pa.array(VECTORS.tolist(), pa.list_(pa.float32()))}, "'vector' has the type"),
    "numbers as vectors": ({"vector": COLUMNS["year"]}, r"Received: .* vector \(int16\)"),
    "a null as a vector": ({"vector": pa.array([None, *VECTORS[1:].tolist()], VECTOR.type)}, "'vector' has nulls"),
    "a null in a vector": ({"vector": pa.FixedSizeListArray.from_arrays(WITH_NULL, 8)}, "'vector' has nulls"),
    "a null as a text": ({"text": pa.array([None, *TEXT.to_pylist()[1:]])}, "'text' has nulls"),
    "a null in metadata": ({"year": pa.array([None, *range(39)])}, "'year' has nulls"),
    "a dictionary": ({"text": TEXT.dictionary_encode()}, "'text' has the type dictionary"),
    "numbers as texts": ({"text": COLUMNS["year"]}, r"Received: .*text \(int16\)"),
    "truth values as ids": ({"id": pa.array([True, False] * 20)}, r"Received: id \(bool\)"),
    "dates": ({"day": pa.array([0] * 40, pa.date32())}, "'day' has the type date32"),
    "offsets that go back": ({"text": with_buffer(TEXT, 1, [0, 90, 3], "int32")}, "[Oo]ffset"),
    "offsets that lead outside": ({"text": with_buffer(TEXT, 1, [0, 2**31 - 1], "int32")}, "[Oo]ffset"),
    "no UTF-8": ({"text": with_buffer(TEXT, 2, [255], "uint8")}, "UTF8"),
    "an id twice": ({"id": pa.array(["d"] * 40)}, "an id occurs twice"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_crafted_file_has_is_refused(name, path):
    columns, message = REFUSED[name]
    written(path, COLUMNS | columns)
    with pytest.raises(InputError, match=f"The files are no index: .*{message}"):
        VectorIndex.from_arrow(path, None)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_buffers_are_refused_before_they_are_read(compression, path, monkeypatch):
    written(path, compression=compression)
    monkeypatch.setattr(pa, "Table", None)  # nothing is made of them
    with pytest.raises(InputError, match="its buffers are compressed. Write it again without compression"):
        VectorIndex.from_arrow(path, None)


def truncated(path):
    os.truncate(path, os.path.getsize(path) - 20)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: os.remove(path), "others.arrow: .*No such file"),
        (lambda path: pathlib.Path(path).write_bytes(b""), "others.arrow: "),
        (truncated, "others.arrow: Not an Arrow file"),
        (lambda path: parquet.write_table(pa.table(COLUMNS), path), "others.arrow: Not an Arrow file"),
        (lambda path: written(path, {"text": TEXT}), r"expected text .* Received: text \(string\)"),
        (lambda path: written(path, {"vector": VECTOR}), "expected text .* Received: vector"),
        (lambda path: written(path, {name: column[:0] for name, column in COLUMNS.items()}), "there are no rows"),
        (lambda path: feather.write_feather(twice(), path, compression="uncompressed"), "two columns have one name"),
        (lambda path: with_list_size(written(path, {"text": TEXT[:2], "vector": list_of(77)})), "others.arrow: "),
        (lambda path: written(path, of_model("b")), "made with another model"),
    ],
)
def test_damaged_files_and_those_of_another_kind_are_refused(damage, message, path):
    damage(written(path))
    with pytest.raises(InputError, match=f"The files are no index: .*{message}"):
        VectorIndex.from_arrow(path, None)


def twice():
    return pa.Table.from_arrays([TEXT, TEXT, VECTOR], ["text", "text", "vector"])


def list_of(size):
    return pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(2 * size, "float32")), size)


def of_model(fingerprint):
    schema = pa.table(COLUMNS).schema.with_metadata({"model_sha256": fingerprint})
    return pa.table(COLUMNS).cast(schema)


def test_files_with_different_columns_are_refused(tmp_path):
    paths = [written(str(tmp_path / "a")), written(str(tmp_path / "b"), COLUMNS | {"year": TEXT})]
    with pytest.raises(InputError, match="the files have different columns"):
        VectorIndex.from_arrow(paths, None)


def test_flipped_bytes_are_refused_or_harmless(path):
    """Of the first and the last part of a file, which say where everything is."""
    whole = pathlib.Path(written(path)).read_bytes()
    generator = np.random.default_rng(0)
    refused = 0
    for number in range(400):
        content = bytearray(whole)
        near = int(generator.integers(1200))
        content[near if number % 2 else -1 - near] ^= 1 << int(generator.integers(8))
        pathlib.Path(path + ".new").write_bytes(content)
        os.replace(path + ".new", path)
        try:
            index = VectorIndex.from_arrow(path, None)
        except InputError:
            refused += 1
            continue
        assert len(index.texts) == len(index.vectors) == len(index)
        with contextlib.suppress(InputError):  # other names of columns, or a vector that is not finite
            hits = index.search(None, "text 7", 5, where={"year": 7})[0]
            assert all(0 <= hit.number < len(index) for hit in hits)
    assert 0 < refused < 400


def wrong_facts(folder, **facts):
    text = (folder / "index.json").read_text()
    (folder / "index.json").write_text(json.dumps({**json.loads(text), **facts}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "index is not an index: there is no such folder"),
        (lambda folder: (folder / "index.json").unlink(), "is not an index: it has no index.json"),
        (lambda folder: (folder / "rows-000001.arrow").unlink(), "there are no rows"),
        (lambda folder: (folder / "rows-000001.arrow").rename(folder / "rows-000002.arrow"), "some are missing"),
        (lambda folder: wrong_facts(folder, rows=39), "the files have 40 rows, and index.json says 39"),
        (lambda folder: wrong_facts(folder, format=1), "has the format 1, and this version of keras_bert reads 2"),
        (lambda folder: wrong_facts(folder, model_sha256="b"), "made with another model"),
        (lambda folder: wrong_facts(folder, pooling=1), "pooling"),
        (lambda folder: np.save(folder / "deleted.npy", [40]), "deleted.npy does not fit"),
        (lambda folder: np.save(folder / "deleted.npy", [-1]), "deleted.npy does not fit"),
        (lambda folder: np.save(folder / "deleted.npy", np.zeros(0, int)), "deleted.npy does not fit"),
        (lambda folder: np.save(folder / "deleted.npy", [0.0]), "deleted.npy does not fit"),
        (lambda folder: written(str(folder / "rows-000001.arrow"), compression="lz4"), "compressed"),
        (lambda folder: (folder / "graph.npy").symlink_to("/etc/hostname"), "is a link out of the folder"),
    ],
)
def test_a_damaged_folder_is_named(damage, message, tmp_path):
    index_of(VECTORS, TEXT.to_pylist(), ids=range(40), metadata={"year": range(40)}).save(tmp_path / "index")
    damage(tmp_path / "index")
    with pytest.raises(InputError, match=message):
        VectorIndex.load(tmp_path / "index")
