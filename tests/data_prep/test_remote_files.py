"""Files by URL: with fsspec, whose memory:// stands for an object store, and with TensorFlow, whose ram:// does."""

import gzip
import json

import fsspec
import pytest
import tensorflow as tf

from data_prep.finetuning.conll import read_tagged_sentences
from data_prep.finetuning.data_folder import TABLE_ENDINGS, find_parts
from data_prep.finetuning.labelled_text import read_labelled_text
from data_prep.finetuning.squad import read_squad
from data_prep.text.corpus import input_size, read_documents
from data_prep.text.remote_files import is_remote, local_copy, remote_names
from data_prep.text.text_lines import read_lines
from keras_bert.program.errors import InputError

TABLE = b"text,label\na good film,pos\ndull,neg\n"
QUESTION = {"id": "1", "question": "Where?", "answers": []}
SQUAD = {"data": [{"paragraphs": [{"context": "In London.", "qas": [QUESTION]}]}]}


def write_by_fsspec(path, data):
    with fsspec.open(path, "wb") as file:
        file.write(data)


def write_by_tensorflow(path, data):
    tf.io.gfile.makedirs(path.rpartition("/")[0])
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(data)


@pytest.fixture(params=["memory:///bucket/", "ram://bucket/"], ids=["fsspec", "tensorflow"])
def store(request):
    """The URL of a folder, and a function that writes a file into it."""
    url = f"{request.param}{abs(hash(request.node.name))}"
    write = write_by_fsspec if url.startswith("memory") else write_by_tensorflow
    return url, lambda name, data: write(f"{url}/{name}", data) or f"{url}/{name}"


def test_files_for_fine_tuning_are_read(store):
    folder, write = store
    expected = ["pos", "neg"]
    assert read_labelled_text(write("train.csv", TABLE)).labels == expected
    assert read_labelled_text(write("dev.csv.gz", gzip.compress(TABLE))).labels == expected
    lines = [json.dumps({"text": "a", "label": label}) for label in expected]
    assert read_labelled_text(write("lines.jsonl", "\n".join(lines).encode())).labels == expected
    assert read_tagged_sentences(write("a.conll", b"Ada B-PER\nwrote O\n")).words == [["Ada", "wrote"]]
    assert read_squad(write("a.json", json.dumps(SQUAD).encode())).questions == ["Where?"]
    assert find_parts(folder, TABLE_ENDINGS) == {"train": f"{folder}/train.csv", "eval": f"{folder}/dev.csv.gz"}


def test_tables_are_read(store, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    _, write = store
    parquet.write_table(pa.table({"text": ["a", "b"], "label": ["x", "y"]}), tmp_path / "a.parquet")
    path = write("a.parquet", (tmp_path / "a.parquet").read_bytes())
    assert read_labelled_text(path).labels == ["x", "y"]
    assert list(read_documents(path)) == [["a"], ["b"]]
    with pytest.raises(InputError, match=f"{path} cannot be read: it has no column 'body'"):
        list(read_documents(path, text_field="body"))
    bad = write("b.parquet", b"PAR1")
    with pytest.raises(InputError, match=f"{bad} cannot be read: it is damaged"):
        read_labelled_text(bad)


def test_a_corpus_is_read_from_files_folders_and_patterns(store):
    folder, write = store
    one = write("text/one.txt", b"First line.\nSecond.\n\nOther document.\n")
    two = write("text/deep/two.txt.gz", gzip.compress(b"Third.\n" * 1000))
    write("text/notes.pdf", b"%PDF")
    three = write("text/three.jsonl", b'{"text": "Fourth."}\n')
    assert sorted(remote_names(f"{folder}/text")) == sorted([one, two, three, f"{folder}/text/notes.pdf"])
    expected = [["First line.", "Second."], ["Other document."]]
    assert list(read_documents(one)) == expected
    assert list(read_documents([one, one])) == expected
    assert list(read_documents(f"{folder}/text/o*.txt")) == expected
    reported = []
    found = list(read_documents(f"{folder}/text", on_progress=reported.append))
    assert sorted(found) == sorted([*expected, ["Third."] * 1000, ["Fourth."]])
    assert sum(reported) == input_size(f"{folder}/text") > 100


def test_what_is_not_there_is_said_in_one_line(store):
    folder, write = store
    write("a.txt", b"text")
    for read in (lambda path: list(read_lines(path)), lambda path: list(read_documents(path))):
        with pytest.raises(InputError, match=f"There is no file {folder}/none.txt."):
            read(f"{folder}/none.txt")
    with pytest.raises(InputError, match=f"No text file matches {folder}/x[*].txt. Check the name."):
        list(read_documents(f"{folder}/x*.txt"))
    with pytest.raises(InputError, match="has no train, dev or test file"):
        find_parts(folder, TABLE_ENDINGS)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("s3://bucket/train.csv", "s3:// needs the package s3fs: pip install fsspec s3fs"),
        ("az://bucket/train.csv", "az:// needs the package adlfs: pip install fsspec adlfs"),
        ("ftq://bucket/train.csv", "files of ftq:// cannot be read. Copy the file"),
    ],
)
def test_a_missing_package_is_named(path, message, monkeypatch):
    known = fsspec.core.url_to_fs

    def without_packages(url):
        if url.startswith(("s3:", "az:")):
            raise ImportError("Install s3fs to access S3")
        return known(url)

    monkeypatch.setattr(fsspec.core, "url_to_fs", without_packages)
    for read in (read_labelled_text, lambda path: list(read_documents(path))):
        with pytest.raises(InputError, match=message):
            read(path)


class Store:
    """Opens no file, or one that cannot be read."""

    def open(self, path, mode):
        if path.startswith("gs:"):
            raise RuntimeError("no credentials\nwere found")
        return self

    def read(self, size):
        raise RuntimeError("401 for https://ada:word@host/x?sig=abc")

    def close(self):
        pass


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("gs://b/a.csv", "Cannot read gs://b/a.csv: RuntimeError: no credentials were found"),
        ("https://ada:word@host/x.tsv?sig=abc", "https://***@host/x.tsv?sig=***: 401 for https://***@host/x?sig=***"),
    ],
)
def test_errors_of_a_store_are_one_line_without_secrets(path, message, monkeypatch):
    monkeypatch.setattr(fsspec.core, "url_to_fs", lambda url: (Store(), url))
    with pytest.raises(InputError) as raised:
        list(read_lines(path))
    assert message in str(raised.value)


def test_local_files_are_not_copied(tmp_path):
    with local_copy(str(tmp_path / "a.parquet")) as path:
        assert path == str(tmp_path / "a.parquet")
    assert not is_remote("C:\\data\\train.csv")
