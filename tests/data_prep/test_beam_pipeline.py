"""The Beam pipeline writes the same files as the local run, byte for byte.

Apache Beam has an environment of its own; `make test-beam` makes it, and test_beam_pretraining_data.py runs these tests
there.
"""

import gzip
import json
import os
import random

import pytest
import tiny
from small_corpora import contents

from data_prep.beam_pretraining_data import beam_pretraining_data
from data_prep.create_pretraining_data import create_pretraining_data
from data_prep.pretraining import document_block, document_dealing
from data_prep.pretraining.pretraining_records import PretrainingOptions
from data_prep.text import text_chunks
from data_prep.tokenized.tokenize_text import TextSettings
from keras_bert.program.errors import InputError

WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "runs", "away"]

pytest.importorskip("apache_beam", reason="apache_beam is not installed: make test-beam")


def write_text(path, num_documents, seed=0):
    """Documents of 1 to 8 sentences of 2 to 15 words; one word is not in the vocabulary."""
    draws = random.Random(seed)
    documents = [
        [" ".join(draws.choices([*WORDS, "zebra"], k=draws.randint(2, 15))) for _ in range(draws.randint(1, 8))]
        for _ in range(num_documents)
    ]
    text = "\n\n".join("\n".join(document) for document in documents) + "\n"
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.fixture
def vocab_file(tmp_path):
    tiny.vocabulary(*WORDS).save(tmp_path / "vocab.txt")
    return tmp_path / "vocab.txt"


@pytest.fixture
def text(tmp_path):
    """Three files: plain, gzip and JSON Lines, which has two blank records."""
    folder = tmp_path / "text"
    folder.mkdir()
    write_text(folder / "a.txt", 60, seed=1)
    write_text(folder / "b.txt.gz", 50, seed=2)
    draws = random.Random(3)
    records = ["\n".join(" ".join(draws.choices(WORDS, k=9)) for _ in range(4)) for _ in range(40)]
    records[5] = records[17] = " \n"
    (folder / "c.jsonl").write_text("".join(json.dumps({"text": record}) + "\n" for record in records))
    return str(folder)


@pytest.fixture
def small_chunks(monkeypatch):
    """Each file comes in several chunks."""
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", 1500)


def run_both(tmp_path, text, vocab_file, **arguments):
    """Returns the files of the local run and those of the pipeline: name -> bytes."""
    create_pretraining_data(text, vocab_file, output_dir=tmp_path / "local", **arguments)
    beam_pretraining_data(text, vocab_file, output_dir=tmp_path / "beam", **arguments)
    return contents(tmp_path / "local"), contents(tmp_path / "beam")


PACKED = PretrainingOptions(random_seed=7, max_sequences_per_row=3)
ARGUMENTS = {
    "pairs": {"num_shards": 5, "options": PretrainingOptions(dupe_factor=3, max_seq_length=32)},
    "default_shards": {"options": PretrainingOptions(dupe_factor=1)},
    "packed_gzip": {"num_shards": 3, "options": PACKED, "compression": "gzip"},
    "full_sentences": {"num_shards": 2, "options": PretrainingOptions(sentence_task="none", dynamic_masking=True)},
    "garden_names": {"num_shards": 2, "use_v2_feature_names": True, "settings": TextSettings(split_sentences=True)},
    # More files than documents, so parts of documents are assigned.
    "parts": {"num_shards": 200, "options": PretrainingOptions(dupe_factor=1)},
    "sentences_in_parts": {"num_shards": 150, "options": PretrainingOptions(dupe_factor=1, sentence_task="none")},
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_pipeline_writes_the_bytes_of_the_local_run(tmp_path, text, vocab_file, small_chunks, name):
    arguments = ARGUMENTS[name]
    local, beam = run_both(tmp_path, text, vocab_file, **arguments)
    assert local == beam
    assert sum(name.endswith(".tfrecord") for name in beam) == arguments.get("num_shards", 1)
    assert "manifest.json" in beam


def test_blocks_and_giant_documents_are_cut_as_in_the_local_run(tmp_path, text, vocab_file, small_chunks, monkeypatch):
    monkeypatch.setattr(document_block, "BLOCK_TOKENS", 60)  # a document has up to 120
    monkeypatch.setattr(document_dealing, "_SLICE_DOCUMENTS", 37)
    local, beam = run_both(tmp_path, text, vocab_file, num_shards=2, options=PretrainingOptions(dupe_factor=2))
    assert local == beam


@pytest.mark.parametrize(
    "beam_options",
    [
        ["--runner=DirectRunner", "--direct_num_workers=2", "--direct_running_mode=multi_processing"],
        # The pipeline passes through Beam's job service, as on Flink and Spark.
        ["--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"],
    ],
    ids=["processes", "job_service"],
)
def test_other_runners_write_the_same_bytes_and_give_the_same_errors(tmp_path, text, vocab_file, beam_options):
    options = PretrainingOptions(dupe_factor=2)
    arguments = {"num_shards": 4, "options": options}
    create_pretraining_data(text, vocab_file, output_dir=tmp_path / "local", **arguments)
    beam_pretraining_data(text, vocab_file, output_dir=tmp_path / "beam", beam_options=beam_options, **arguments)
    assert contents(tmp_path / "local") == contents(tmp_path / "beam")
    (tmp_path / "binary.txt").write_bytes(b"a \0 line\n")
    with pytest.raises(InputError, match=r"binary.txt is binary, not text: .* at position 2 of the file\.$"):
        beam_pretraining_data(
            str(tmp_path / "binary.txt"), vocab_file, output_dir=tmp_path / "none", beam_options=beam_options
        )


def test_a_finished_folder_is_left_as_it_is(tmp_path, text, vocab_file, caplog):
    first = beam_pretraining_data(text, vocab_file, output_dir=tmp_path / "beam")
    again = beam_pretraining_data(text, vocab_file, output_dir=tmp_path / "beam")
    assert first == again
    assert "already holds these records" in caplog.text
    with pytest.raises(InputError, match="holds records that were made with num_files=None, not 7"):
        beam_pretraining_data(text, vocab_file, output_dir=tmp_path / "beam", num_shards=7)


def test_a_run_that_failed_goes_on_with_the_files_that_are_missing(tmp_path, text, vocab_file, monkeypatch):
    from data_prep.pretraining import beam_pipeline

    create_pretraining_data(text, vocab_file, output_dir=tmp_path / "local", num_shards=6)
    write_encoded = beam_pipeline.write_encoded
    written = []

    def write_four(path, *arguments):
        if len(written) == 4:
            raise OSError("the machine was taken away")
        file = write_encoded(path, *arguments)
        written.append(file.name)
        return file

    monkeypatch.setattr(beam_pipeline, "write_encoded", write_four)
    with pytest.raises(Exception, match="the machine was taken away"):
        beam_pretraining_data(text, vocab_file, output_dir=tmp_path / "beam", num_shards=6)
    assert len(written) == 4
    assert {name for name in contents(tmp_path / "beam") if name.endswith(".tfrecord")} == set(written)

    with pytest.raises(InputError, match="holds an unfinished run, made with num_files=6, not 5"):
        beam_pretraining_data(text, vocab_file, output_dir=tmp_path / "beam", num_shards=5)
    (tmp_path / "beam" / written[3]).write_bytes(b"cut off")
    (tmp_path / "beam" / f".{written[3]}.partial-0123abcd").write_bytes(b"of a worker that was killed")
    written_again = []
    monkeypatch.setattr(
        beam_pipeline,
        "write_encoded",
        lambda path, *arguments: written_again.append(os.path.basename(path)) or write_encoded(path, *arguments),
    )
    beam_pretraining_data(text, vocab_file, output_dir=tmp_path / "beam", num_shards=6)
    assert len(written_again) == 3
    assert set(written_again) & set(written) == {written[3]}
    assert contents(tmp_path / "local") == contents(tmp_path / "beam")


def test_errors_in_the_text_are_those_of_the_local_run(tmp_path, vocab_file):
    for name, data in (
        ("binary.txt", b"a line\nthe \0 quick\n"),
        ("latin.txt", "the caf\u00e9\n".encode("latin-1")),
        ("empty.txt", b""),
        ("no_field.jsonl", b'{"body": "the quick"}\n'),
        ("cut_off.txt.gz", gzip.compress(b"the quick\n" * 99)[:-9]),
        ("one_word.txt", b"the\n"),
        ("few_sentences.txt", b"the quick\nfox\n\nthe dog\n"),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(InputError) as local:
            create_pretraining_data(str(path), vocab_file, output_dir=tmp_path / f"local_{name}", num_shards=2)
        with pytest.raises(InputError) as beam:
            beam_pretraining_data(str(path), vocab_file, output_dir=tmp_path / f"beam_{name}", num_shards=2)
        assert str(beam.value) == str(local.value)
        assert not (tmp_path / f"beam_{name}").exists()


def test_output_that_cannot_be_made_is_refused_before_anything_runs(tmp_path, text, vocab_file):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    for arguments, message in (
        ({"output_dir": tmp_path / "full"}, "full is not empty"),
        ({"output_dir": tmp_path / "vocab.txt"}, "is a file. Give the name of a folder"),
        ({"output_dir": ""}, "Give output_dir"),
        ({"output_dir": tmp_path / "new", "num_shards": 0}, "num_shards must be a whole number .* Received: 0"),
        ({"output_dir": "unknown://bucket/records"}, "unknown://bucket/records: Unable to get filesystem"),
        (
            {"output_dir": tmp_path / "new", "beam_options": ["--runner=Nobody"]},
            "Beam does not accept --runner=Nobody: ",
        ),
    ):
        with pytest.raises(InputError, match=message):
            beam_pretraining_data(text, vocab_file, **arguments)
    with pytest.raises(InputError, match="Give input_file"):
        beam_pretraining_data(None, vocab_file, output_dir=tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.fixture
def memory_files():
    """The files of an object store in memory: path -> bytes."""
    from memory_file_system import FILES

    FILES.clear()
    return FILES


def test_text_and_records_may_be_in_an_object_store(tmp_path, text, vocab_file, small_chunks, memory_files):
    create_pretraining_data(text, vocab_file, output_dir=tmp_path / "local", num_shards=3)
    for name, data in contents(text).items():
        memory_files[f"memory://bucket/text/{name}"] = data
    # The file that an earlier attempt had finished but not yet noted.
    shard = "memory://bucket/records/pretraining-00001-of-00003.tfrecord"
    arguments = {"output_dir": "memory://bucket/records", "num_shards": 3}
    with pytest.raises(InputError, match="No file matches the pattern memory://bucket/other"):
        beam_pretraining_data("memory://bucket/other/*", vocab_file, **arguments)
    memory_files[shard] = b"stale"
    with pytest.raises(InputError, match="memory://bucket/records is not empty"):
        beam_pretraining_data("memory://bucket/text/*", vocab_file, **arguments)
    del memory_files[shard]

    summary = beam_pretraining_data("memory://bucket/text/*", vocab_file, **arguments)
    prefix = "memory://bucket/records/"
    written = {path.removeprefix(prefix): data for path, data in memory_files.items() if path.startswith(prefix)}
    local = contents(tmp_path / "local")
    manifest, local_manifest = (json.loads(files.pop("manifest.json")) for files in (written, local))
    assert written == local
    assert manifest["files"] == local_manifest["files"]
    assert manifest["request"]["input_file"] == ["memory://bucket/text/*"]
    assert summary.files == [prefix + f"pretraining-{shard:05d}-of-00003.tfrecord" for shard in range(3)]
    assert beam_pretraining_data("memory://bucket/text/*", vocab_file, **arguments) == summary


def test_a_file_that_a_repeated_attempt_finds_is_replaced_and_one_that_fails_leaves_nothing(memory_files):
    from data_prep.pretraining.beam_files import BeamFiles

    files = BeamFiles()
    for data in (b"first", b"second"):
        with files.open_output("memory://bucket/a") as file:
            file.write(data)
        assert memory_files == {"memory://bucket/a": data}
    with pytest.raises(TypeError), files.open_output("memory://bucket/b") as file:
        file.writelines([b"half", "not bytes"])
    assert memory_files == {"memory://bucket/a": b"second"}
    with pytest.raises(FileNotFoundError):
        files.read("memory://bucket/b")
