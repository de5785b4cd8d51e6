"""docs/beyond_one_machine.md is correct: its programs write the vectors of `encode`, where their engines are installed.

KERAS_BERT_BEAM_PYTHON and KERAS_BERT_ENGINES_PYTHON name the Pythons that have them, see CONTRIBUTING.md.
"""

import os
import re
import subprocess

import numpy as np
import pyarrow as pa
import pytest
from places import DOCS, PROJECT
from portable_answers import TEXTS
from pyarrow import parquet

from keras_bert.serving import load

PAGE = (DOCS / "beyond_one_machine.md").read_text("utf-8")
PROGRAMS = {part.partition("\n")[0]: re.findall(r"```python\n(.*?)```", part, re.S) for part in PAGE.split("\n## ")}
PYTHONS = {"Apache Beam": "KERAS_BERT_BEAM_PYTHON", "Spark": "KERAS_BERT_ENGINES_PYTHON"}
PYTHONS["Ray"] = PYTHONS["Spark"]
RUNNER = "--runner=FnApiRunner"


def test_each_engine_has_one_program():
    assert {name for name, programs in PROGRAMS.items() if len(programs) == 1} == set(PYTHONS)


@pytest.mark.slow
@pytest.mark.parametrize("name", PYTHONS)
def test_the_program_writes_the_vectors_of_encode(name, tmp_path):
    python = os.environ.get(PYTHONS[name])
    if not python:
        pytest.skip(f"{PYTHONS[name]} names no Python that has {name}")
    from tiny_models import make_model  # only now: it imports TensorFlow

    make_model("sentence encoder").export_for_serving(tmp_path / "exports" / "minilm", format="onnx")
    (tmp_path / "texts").mkdir()
    texts = [f"{text} {number}" for number, text in enumerate(TEXTS)]
    table = pa.table({"id": [f"id {number}" for number in range(len(texts))], "text": texts})
    parquet.write_table(table, tmp_path / "texts" / "all.parquet")
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": python}
    command = [python, "-c", *PROGRAMS[name], *([RUNNER] if name == "Apache Beam" else [])]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [
        row for file in sorted(tmp_path.rglob("vectors*/**/*.parquet")) for row in parquet.read_table(file).to_pylist()
    ]
    rows.sort(key=lambda row: row["id"])
    assert [row["id"] for row in rows] == sorted(table["id"].to_pylist())
    vectors = load(tmp_path / "exports" / "minilm").encode([texts[int(row["id"].split()[1])] for row in rows])
    np.testing.assert_allclose([row["vector"] for row in rows], vectors, rtol=0, atol=1e-6)
