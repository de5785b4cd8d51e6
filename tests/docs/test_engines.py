"""The page on engines: each script runs where its package is installed, and finds what an index finds."""

import pathlib
import re

import numpy as np
import pyarrow as pa
import pytest
from clustered_vectors import clusters, index_of

from keras_bert.embeddings import vector_index

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "engines.md").read_text("utf-8")
SCRIPTS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


@pytest.mark.parametrize("package", ["lancedb", "qdrant_client", "duckdb", "polars"])
def test_an_engine_finds_what_the_index_finds(package, tmp_path, monkeypatch, capsys):
    pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    vectors, years = clusters(300), np.arange(300) % 50 + 2000
    index = index_of(vectors, ids=[f"d{number}" for number in range(300)], metadata={"year": years})
    index.delete(["d49", "d74"])
    index.to_parquet("my_index.parquet")
    query = clusters(1, seed=1)[0]
    numbers, scores = index.nearest(query[None], 2, where=pa.compute.field("year") >= 2023)
    (script,) = [script for script in SCRIPTS if f"import {package}" in script or f"from {package}" in script]
    assert len([line for line in script.splitlines() if line]) <= 10
    exec(compile(script, package, "exec"), {"query": query})
    found = eval(capsys.readouterr().out)
    assert [one for one, _ in found] == [f"d{number}" for number in numbers[0]]
    np.testing.assert_allclose([score for _, score in found], scores[0], atol=1e-4)


def test_the_first_script_of_the_page_runs_with_a_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(vector_index, "model_fingerprint", lambda model: "")
    monkeypatch.setattr(vector_index, "search_vectors", lambda model, texts, *_, **__: clusters(len(texts)))

    class Model:
        from_pretrained = classmethod(lambda cls, path: cls())
        prompt_for = encode = lambda self, *_, **__: clusters(1)

    monkeypatch.setattr("keras_bert.SentenceEncoder", Model, raising=False)
    exec(compile(SCRIPTS[0], "engines", "exec"), {})
    assert [one for one, _ in eval(capsys.readouterr().out)] == ["b", "c"]
    assert pa.parquet.read_table("my_index.parquet")["year"].to_pylist() == [2022, 2023, 2024]


def test_duckdb_and_polars_open_the_files_of_the_folder(tmp_path):
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    index = index_of(clusters(20), ids=range(20), metadata={"name": ["a", "b"] * 10})
    index.save(tmp_path / "index")
    frame = polars.read_ipc(tmp_path / "index" / "rows-*.arrow")
    assert frame["id"].to_list() == list(range(20))
    arrow = frame.to_arrow()
    assert duckdb.sql("SELECT count(*) FROM arrow WHERE name = 'b'").fetchall() == [(10,)]
    frame.write_ipc(tmp_path / "theirs.arrow", compat_level=polars.CompatLevel.oldest())
    opened = vector_index.read_rows([str(tmp_path / "theirs.arrow")], "", {})
    np.testing.assert_array_equal(opened.search[:], index.vectors)
    assert arrow.num_rows == 20
