"""`embed_sentences` and `predict_table`: parts of a table that are the same after a kill and with several processes."""

import functools
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from places import PROJECT
from small_corpora import contents

from keras_bert.embeddings.vector_index import VectorIndex
from keras_bert.program.errors import InputError
from run_scripts import embed_sentences, predict_table
from run_scripts.predict_table import TableWork, _write_in_processes

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402


class Lengths:
    """Stands for a sentence encoder: a vector has the length of the text, and 1."""

    kind, fingerprint, normalize = "SentenceEncoder", "ab", True

    def __init__(self, stops_at=""):
        self.stops_at = stops_at

    def prompt(self, name=None):
        return {None: "", "query": "query: "}[name]

    def prompt_for(self, role):
        return role if role == "query" else None

    def encode(self, texts, *, on_progress, prompt=None, batch_size=32):
        if self.stops_at in texts:
            raise KeyboardInterrupt
        return np.array([[len(self.prompt(prompt) + text), 1] for text in texts], np.float32)


def loaded(model, path, **arguments):
    return model


@pytest.fixture
def table(tmp_path, monkeypatch):
    """The flags of a table of seven texts for `Lengths`, in parts of three."""
    rows = [{"sku": f"n{number}", "text": "x" * number, "year": 2000 + number} for number in range(1, 8)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(embed_sentences, "load_encoder", functools.partial(loaded, Lengths()))
    names = "--id_column=sku", "--columns=text,year", "--rows_per_part=3"
    return f"--init_checkpoint={tmp_path}", f"--input_file={tmp_path}/rows.jsonl", *names


def read(folder):
    return pa.concat_tables(pa.ipc.open_file(path).read_all() for path in sorted(folder.glob("part-*.arrow")))


def test_a_table_becomes_parts_with_ids_columns_and_vectors(table, tmp_path, done_here):
    printed = done_here(embed_sentences, *table, f"--output_dir={tmp_path}/out", "--role=query")
    assert printed.out == f"{tmp_path}/out: 7 rows in 3 parts\n"
    rows = read(tmp_path / "out")
    assert rows.column_names == ["id", "text", "year", "vector"]
    assert rows["id"].to_pylist() == [f"n{number}" for number in range(1, 8)]
    assert rows["vector"].to_pylist() == [[number + len("query: "), 1] for number in range(1, 8)]
    assert str(rows.schema.field("vector").type) == "fixed_size_list<item: float>[2]"
    facts = {"model_sha256": "ab", "model_kind": "SentenceEncoder", "prompt": "query: ", "normalize": "True"}
    found = {name.decode(): value.decode() for name, value in rows.schema.metadata.items()}
    assert found == {**facts, "role": "query", "batch_size": "32"}
    done_here(embed_sentences, *table, f"--output_dir={tmp_path}/p", "--format=parquet")
    assert parquet.read_table(tmp_path / "p")["vector"].to_pylist()[6] == [7, 1]


def test_the_parts_are_an_index(table, tmp_path, done_here):
    done_here(embed_sentences, *table, f"--output_dir={tmp_path}/out")
    index = VectorIndex.from_arrow(sorted((tmp_path / "out").glob("part-*")), Lengths())
    assert len(index) == 7


def test_a_command_that_was_stopped_goes_on_with_the_next_part(table, tmp_path, run_here, done_here, monkeypatch):
    done_here(embed_sentences, *table, f"--output_dir={tmp_path}/whole")
    monkeypatch.setattr(embed_sentences, "load_encoder", functools.partial(loaded, Lengths("x" * 5)))
    code, printed = run_here(embed_sentences, *table, f"--output_dir={tmp_path}/out")
    assert code == 130
    assert printed.err.endswith("error: stopped by Ctrl-C\n")
    finished = contents(tmp_path / "out")
    assert sorted(finished) == ["_parts.json", "part-00000-of-00003.arrow"]
    (tmp_path / "out" / ".part-00000-of-00003.arrow.partial-01234567").mkdir()  # as a kill leaves it
    monkeypatch.setattr(embed_sentences, "load_encoder", functools.partial(loaded, Lengths()))
    done_here(embed_sentences, *table, f"--output_dir={tmp_path}/out")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--role=query"], "whose role is None. Here it is 'query'"),
        (["--batch_size=8"], "whose batch_size is '32'. Here it is '8'"),
        (["--columns=text"], "whose columns is ['text', 'year']. Here it is ['text']"),
        (["--id_column=year"], "whose rows_sha256 is"),
        (["--rows_per_part=4"], "whose rows_per_part is 3. Here it is 4"),
        (["--format=parquet"], "whose file_format is 'arrow'. Here it is 'parquet'"),
        (["--columns=vector"], "no column 'vector'"),
        (["--init_checkpoint=no_such", "--runtime=onnxruntime"], "--runtime is for exported folders"),
    ],
)
def test_parts_of_other_settings_are_refused(change, message, table, tmp_path, done_here, refused_here):
    done_here(embed_sentences, *table, f"--output_dir={tmp_path}/out")
    before = contents(tmp_path / "out")
    printed = refused_here(embed_sentences, *table, f"--output_dir={tmp_path}/out", *change)
    assert message in printed.err.splitlines()[-1]
    assert contents(tmp_path / "out") == before


def work_of(tmp_path, load):
    from data_prep.finetuning.text_batches import TextTable
    from keras_bert.program.table_parts import TableParts

    (tmp_path / "rows.txt").write_text("".join("x" * number + "\n" for number in range(1, 8)))
    (tmp_path / "out").mkdir()
    table = TextTable(str(tmp_path / "rows.txt"))
    return TableWork(table, load, "", {}, None, None, {}, TableParts(str(tmp_path / "out"), 7, 2, "arrow"))


def fails(path):
    raise InputError("no model")


def dies(path):
    sys.exit(9)


def test_several_processes_write_the_same_parts(tmp_path):
    work, done = work_of(tmp_path, functools.partial(loaded, Lengths())), []
    work.write(work.model(), [0, 1, 2, 3], done.append)
    whole = contents(tmp_path / "out")
    for name in whole:
        (tmp_path / "out" / name).unlink()
    _write_in_processes(work, [0, 1, 2, 3], 2, done.append)
    assert contents(tmp_path / "out") == whole
    assert sum(done) == 2 * 7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "message"), [(fails, "no model"), (dies, "A process was killed.*fewer --workers")], ids=["fails", "dies"]
)
def test_a_process_that_fails_ends_all(load, message, tmp_path):
    with pytest.raises(InputError, match=message):
        _write_in_processes(work_of(tmp_path, load), [0, 1], 2, print)


@pytest.mark.slow
def test_a_killed_command_writes_the_same_bytes(tmp_path):
    from tiny_models import make_model  # only now: it needs TensorFlow

    from keras_bert.serving.portable.folder import write_portable

    write_portable(make_model("several labels"), tmp_path / "export", "onnx")
    (tmp_path / "rows.txt").write_text("".join(f"the fox {number}\n" for number in range(3000)))
    flags = f"--init_checkpoint={tmp_path}/export", f"--input_file={tmp_path}/rows.txt", "--rows_per_part=250"
    command = [sys.executable, "-m", "run_scripts.predict_table", *flags]
    subprocess.run([*command, f"--output_dir={tmp_path}/whole"], check=True, cwd=PROJECT)
    process = subprocess.Popen([*command, f"--output_dir={tmp_path}/out"], cwd=PROJECT)
    while not list((tmp_path / "out").glob("part-*")):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    subprocess.run([*command, f"--output_dir={tmp_path}/out", "--workers=2"], check=True, cwd=PROJECT)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_predict_table_writes_the_answers_of_predict(tmp_path, done_here, refused_here, monkeypatch):
    from tiny_models import make_model  # only now: it needs TensorFlow

    model = make_model("pairs")
    (tmp_path / "rows.csv").write_text("a,b\nthe fox,of\nand,the\n")
    monkeypatch.setattr(predict_table, "load_model", functools.partial(loaded, model))
    monkeypatch.setattr(embed_sentences, "load_encoder", functools.partial(loaded, model))
    flags = f"--init_checkpoint={tmp_path}", f"--input_file={tmp_path}/rows.csv", "--text_columns=a,b", "--columns=b"
    done_here(predict_table, *flags, f"--output_dir={tmp_path}/out", "--max_seq_length=20")
    rows = read(tmp_path / "out")
    expected = model.predict((["the fox", "and"], ["of", "the"]), verbose=0)
    assert rows.column_names == ["id", "b", "label", "probability", "probabilities"]
    assert rows["label"].to_pylist() == [answer.label for answer in expected]
    np.testing.assert_allclose(rows["probability"].to_numpy(), [answer.probability for answer in expected], atol=1e-6)
    printed = refused_here(embed_sentences, *flags, f"--output_dir={tmp_path}/vectors")
    assert "is a SequenceClassifier, which makes no vectors. Use predict_table" in printed.err
