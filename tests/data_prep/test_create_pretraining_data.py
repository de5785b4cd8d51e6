import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf
import tiny
from example_records import renamed
from full_disk import file_size_limit
from small_corpora import contents

from data_prep import create_pretraining_data as command
from data_prep.create_pretraining_data import create_pretraining_data, verify_pretraining_data
from data_prep.pretraining import document_block, shard_pool
from data_prep.pretraining.pretraining_records import PretrainingOptions
from data_prep.tokenized.tokenize_text import TextSettings
from keras_bert.program.errors import InputError
from keras_bert.program.record_files import iterate_records
from keras_bert.records.datasets import pretraining_dataset
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

pytestmark = pytest.mark.usefixtures("python_tokenizer")
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "every", "good", "boy", "we", "sing"]
PIECES = ["em", "##bed", "##ding", "##s"]
VOCABULARY = tiny.vocabulary("[unused1]", *WORDS, *PIECES)


def make_documents(num_documents, seed=0):
    """Documents of one to twelve sentences of random words."""
    rng = random.Random(seed)
    words = [*WORDS, "embedding", "embeddings"]
    return [
        [" ".join(rng.choices(words, k=rng.randint(2, 20))) for _ in range(rng.randint(1, 12))]
        for _ in range(num_documents)
    ]


@pytest.fixture
def text(tmp_path):
    """Writes documents as Google's input file; returns its name and that of a vocabulary."""

    def write(documents, name="text.txt"):
        path = tmp_path / name
        path.write_text("\n\n".join("\n".join(sentences) for sentences in documents) + "\n")
        VOCABULARY.save(tmp_path / "vocab.txt")
        return str(path), str(tmp_path / "vocab.txt")

    return write


@pytest.fixture
def create(tmp_path, text):
    """Makes records of documents, by default in the file a.tfrecord."""

    def make(documents, **arguments):
        if "output_dir" not in arguments:
            arguments = {"output_file": [str(tmp_path / "a.tfrecord")], **arguments}
        return create_pretraining_data(*text(documents), **arguments)

    return make


AS_ARGUMENTS = [str, pathlib.Path, lambda name: [pathlib.Path(name)], lambda name: f"{name}, "]


@pytest.mark.parametrize("as_argument", AS_ARGUMENTS)
def test_the_text_is_named_by_string_path_or_list(text, tmp_path, as_argument):
    path, vocab_file = text(make_documents(4))
    create_pretraining_data(as_argument(path), vocab_file, output_file=[str(tmp_path / "a.tfrecord")])
    assert list(read_records(str(tmp_path / "a.tfrecord")))


def read_records(paths):
    """Parses tf.train.Examples in the usual way, without this project's code."""
    for path in [paths] if isinstance(paths, str) else paths:
        for serialized in tf.data.TFRecordDataset(path).as_numpy_iterator():
            lists = tf.train.Example.FromString(serialized).features.feature
            yield {name: list(value.int64_list.value) or list(value.float_list.value) for name, value in lists.items()}


def unmasked_segments(record):
    """The two segments of a record as texts, with the masks undone."""
    ids = list(record["input_ids"])
    for position, number, weight in zip(
        record["masked_lm_positions"], record["masked_lm_ids"], record["masked_lm_weights"], strict=True
    ):
        if weight:
            ids[position] = number
    length = sum(record["input_mask"])
    tokens = [VOCABULARY.tokens[number] for number in ids]
    assert tokens[0] == "[CLS]"
    assert tokens[length - 1] == "[SEP]"
    assert set(tokens[length:]) <= {"[PAD]"}
    middle = record["segment_ids"].index(1)
    assert tokens[middle - 1] == "[SEP]"
    return " ".join(tokens[1 : middle - 1]), " ".join(tokens[middle : length - 1])


def test_every_record_is_text_again_when_unmasked(create):
    documents = make_documents(30)
    options = PretrainingOptions(max_seq_length=32, max_predictions_per_seq=5, dupe_factor=3)
    summary = create(documents, options=options)
    tokenizer = WordPieceTokenizer(VOCABULARY)
    texts = [" " + " ".join(" ".join(tokenizer.tokenize(s)) for s in sentences) + " " for sentences in documents]
    records = list(read_records(summary.files))
    assert len(records) == summary.records.num_examples > 200
    for record in records:
        first, second = unmasked_segments(record)
        together = f" {first} {second} "
        assert any(f" {first} " in document for document in texts)
        assert any(f" {second} " in document for document in texts)
        if not record["next_sentence_labels"][0] and sum(record["input_mask"]) < 32:
            # Not cut: the second segment follows the first.
            assert any(together in document for document in texts)


def test_the_summary_counts_what_was_written(tmp_path, create):
    documents = make_documents(40)
    options = PretrainingOptions(max_seq_length=64, dupe_factor=2)
    summary = create(documents, output_dir=tmp_path / "out", num_shards=2, options=options)
    records = list(read_records(summary.files))
    counts = summary.records
    assert counts.num_examples == len(records)
    assert counts.num_random_next == sum(record["next_sentence_labels"][0] for record in records)
    assert counts.num_tokens == sum(sum(record["input_mask"]) for record in records)
    assert counts.num_positions == 64 * len(records)
    assert counts.num_predicted == sum(sum(record["masked_lm_weights"]) for record in records)
    assert summary.corpus["num_documents"] == 40
    assert summary.corpus["num_sentences"] == sum(map(len, documents))
    assert f"{len(records):,}" in str(summary)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["records"]["num_examples"] == len(records)
    names = [f"pretraining-{number:05}-of-00002.tfrecord" for number in range(2)]
    assert [file["name"] for file in manifest["files"]] == names
    assert manifest["request"]["options"]["dupe_factor"] == 2


def test_the_same_seed_gives_the_same_bytes_with_any_number_of_processes(tmp_path, create):
    made, documents = {}, make_documents(50)
    for name, seed, num_processes in (("one", 1, 1), ("again", 1, 1), ("two", 1, 2), ("other seed", 2, 1)):
        options = PretrainingOptions(max_seq_length=32, dupe_factor=2, random_seed=seed)
        arguments = {"output_dir": tmp_path / name, "num_shards": 3, "num_processes": num_processes}
        create(documents, options=options, **arguments)
        made[name] = contents(tmp_path / name)
    assert made["one"] == made["again"] == made["two"]
    assert made["one"] != made["other seed"]


def test_a_tokenised_corpus_is_reused_and_must_be_the_same(tmp_path, text):
    input_file, vocab_file = text(make_documents(20))
    other_file, _ = text(make_documents(5, seed=1), "other.txt")
    corpus = tmp_path / "corpus"

    def create(input_file, name, vocab_file=vocab_file, **options):
        return create_pretraining_data(
            input_file, vocab_file, output_file=[str(tmp_path / name)], tokenized_corpus=corpus, **options
        )

    create(input_file, "first")
    modified = (corpus / "tokens.bin").stat().st_mtime_ns
    create(input_file, "second")
    create(None, "third")
    assert (corpus / "tokens.bin").stat().st_mtime_ns == modified
    assert (tmp_path / "first").read_bytes() == (tmp_path / "third").read_bytes()
    with pytest.raises(InputError, match=r"corpus was made with input_file=.*text\.txt.*, not .*other\.txt"):
        create(other_file, "fourth")
    with pytest.raises(InputError, match="corpus was made with do_lower_case=True, not False"):
        create(None, "fourth", settings=TextSettings(do_lower_case=False))
    Vocabulary([*VOCABULARY.tokens, "cat"]).save(tmp_path / "other_vocab.txt")
    with pytest.raises(InputError, match="corpus was tokenised with another vocabulary"):
        create(None, "fourth", vocab_file=str(tmp_path / "other_vocab.txt"))


def test_paragraphs_are_split_into_sentences(create):
    documents = [["The quick fox jumps. A lazy dog!", "We sing."], ["Every good boy."]]
    for split_sentences, num_sentences in ((False, 3), (True, 4)):
        summary = create(documents, settings=TextSettings(split_sentences=split_sentences))
        assert summary.corpus["num_sentences"] == num_sentences


def test_a_single_document_has_random_nexts_and_says_where_they_come_from(tmp_path, create, caplog):
    summary = create([["the quick fox", "a dog", "we sing", "every boy"]])
    assert 0 < summary.records.num_random_next < summary.records.num_examples
    assert "random next sentences come from other places of the same document" in caplog.text
    assert (tmp_path / "a.manifest.json").exists()


@pytest.mark.parametrize(("num_documents", "sentence_task"), [(1, "next_sentence"), (3, "sentence_order"), (1, "none")])
def test_long_documents_are_dealt_out_in_parts_so_that_every_file_has_records(
    tmp_path, create, caplog, num_documents, sentence_task
):
    # Twelve sentences with one word, twelve with the next, and so on: each file gets one word.
    sentences = [f"{word} " * length for word in WORDS[:12] for length in range(1, 13)]
    size = len(sentences) // num_documents
    documents = [sentences[n * size : n * size + size] for n in range(num_documents)]
    options = PretrainingOptions(max_seq_length=64, sentence_task=sentence_task, dynamic_masking=True)
    summary = create(documents, output_dir=tmp_path / "out", num_shards=12, options=options)
    assert f"too few documents ({num_documents}) for 12 output files" in caplog.text
    words, labels = [], set()
    for path in summary.files:
        records = list(read_records(path))
        words.append({VOCABULARY.tokens[token] for record in records for token in record["input_ids"]} & set(WORDS))
        labels.update(record["next_sentence_labels"][0] for record in records)
    assert words == [{word} for word in WORDS[:12]]
    assert labels == ({0} if sentence_task == "none" else {0, 1})


def test_too_many_files_for_a_text_are_refused_with_the_amount_that_would_do(tmp_path, create):
    documents = [["the fox", "a dog"], ["we sing", "every boy"], ["lazy dog"]]
    message = r"too short for 20 .* 5 sentences \(43 bytes\), .* at least 40 \(about 344 bytes\)\. .* at most 2 files"
    with pytest.raises(InputError, match=message):
        create(documents, output_dir=tmp_path / "out", num_shards=20)
    assert not (tmp_path / "out").exists()
    summary = create(documents, output_dir=tmp_path / "out", num_shards=2)
    assert all(list(read_records(path)) for path in summary.files)
    documents = [["we sing"], ["the fox", "a dog"], *[["lazy dog"]] * 5]
    options = PretrainingOptions(sentence_task="sentence_order")
    with pytest.raises(InputError, match=r"Of 3 output files \d would have no sentence pair, .* Write fewer"):
        create(documents, output_dir=tmp_path / "other", num_shards=3, options=options)


def test_several_processes_write_one_file_with_the_same_bytes(tmp_path, create, monkeypatch):
    monkeypatch.setattr(document_block, "BLOCK_TOKENS", 1_000)
    monkeypatch.setattr(shard_pool, "_TOKENS_PER_PROCESS", 1)
    arguments = {"options": PretrainingOptions(max_seq_length=32, dupe_factor=3), "use_v2_feature_names": True}
    for num_processes in (1, 2):
        output_file = [str(tmp_path / str(num_processes) / "a.tfrecord")]
        create(make_documents(50), output_file=output_file, num_processes=num_processes, **arguments)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_a_vocabulary_that_does_not_fit_is_announced(create, caplog):
    create([["Ἄνδρα μοι ἔννεπε", "the fox"], ["Μοῦσα, πολύτροπον"]])
    assert "75.0 % of the tokens are [UNK]" in caplog.text


def test_text_that_was_not_split_into_sentences_is_announced(create, caplog):
    options = PretrainingOptions(max_seq_length=16)
    for num_words, is_lost in ((13, False), (100, True)):
        documents = [["the fox " * (num_words // 2)] * 3] * 3
        create(documents, options=options)
        assert ("87.0 % of the tokens are lost" in caplog.text) == is_lost
    assert "add --split_sentences." in caplog.text
    caplog.clear()
    create(documents, options=options, settings=TextSettings(split_sentences=True))
    assert "87.0 % of the tokens are lost" in caplog.text
    assert "--language" in caplog.text
    assert "add --split_sentences" not in caplog.text


def test_too_few_predictions_are_announced(create, caplog):
    create(make_documents(3), options=PretrainingOptions(max_seq_length=512, max_predictions_per_seq=20))
    assert "max_predictions_per_seq=20 is less than masked_lm_prob * max_seq_length = 77" in caplog.text
    assert "only 20 masks, 3.9 % of their tokens" in caplog.text


def test_bad_input_is_refused_before_anything_is_written(tmp_path, text, monkeypatch):
    monkeypatch.chdir(tmp_path)
    input_file, vocab_file = text(make_documents(3))
    text([["the fox"]], "single.txt")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "old.tfrecord").write_bytes(b"")
    (tmp_path / "blank.txt").write_text("\n\n")
    (tmp_path / "link").symlink_to("full")
    before = sorted(os.listdir(tmp_path))
    for arguments, message in [
        ({"input_file": "no.txt", "output_dir": "out"}, "no.txt"),
        ({"input_file": None, "output_dir": "out"}, "Give input_file"),
        ({"input_file": "blank.txt", "output_dir": "out"}, "blank.txt is empty"),
        ({"input_file": "single.txt", "output_dir": "out"}, "too short for a single example"),
        ({"output_dir": "full"}, "The output folder .*full is not empty"),
        ({"output_dir": "text.txt/out"}, "a part of the path is a file"),
        ({"output_file": ["text.txt/a"]}, "a part of the path is a file"),
        ({"output_file": ["full"]}, "full is a folder"),
        ({"output_file": ["a", "a"]}, "output_file names a file twice"),
        ({"output_file": ["a", "./a"]}, "output_file names a file twice: ./a, which is a"),
        ({"output_file": ["full/a", "link/a"]}, "names a file twice: link/a, which is full/a"),
        ({"output_file": ["a", "./text.txt"]}, "text.txt is read by this command"),
        ({"output_file": [vocab_file]}, "vocab.txt is read by this command"),
        ({}, "Give either output_file, .* or output_dir"),
        ({"output_file": ["a"], "output_dir": "b"}, "Give either output_file, .* or output_dir"),
        ({"output_dir": "out", "num_processes": 0}, "num_processes must be a whole number of at least 1"),
    ]:
        with pytest.raises(InputError, match=message):
            create_pretraining_data(**{"input_file": input_file, "vocab_file": vocab_file, **arguments})
    assert sorted(os.listdir(tmp_path)) == before


def test_a_full_disk_leaves_no_half_file(tmp_path, text):
    input_file, vocab_file = text(make_documents(60))
    corpus = tmp_path / "corpus"
    create_pretraining_data(input_file, vocab_file, output_file=[str(tmp_path / "first")], tokenized_corpus=corpus)
    size = (tmp_path / "first").stat().st_size
    with file_size_limit(size // 2):
        with pytest.raises(InputError, match=r"Cannot write .*second.*: a file grew over the size limit"):
            create_pretraining_data(None, vocab_file, output_file=[str(tmp_path / "second")], tokenized_corpus=corpus)
        with pytest.raises(InputError, match=r"Cannot write .*: a file grew over the size limit"):
            create_pretraining_data(input_file, vocab_file, output_file=[f"{tmp_path}/first"], tokenized_corpus=corpus)
    assert (tmp_path / "first").stat().st_size == size
    beside = ["first.manifest.json", "first.unfinished.json", "second.unfinished.json", "text.txt", "vocab.txt"]
    assert sorted(os.listdir(tmp_path)) == ["corpus", "first", *beside]
    # The same call succeeds when there is space again.
    create_pretraining_data(None, vocab_file, output_file=[str(tmp_path / "second")], tokenized_corpus=corpus)
    assert (tmp_path / "second").read_bytes() == (tmp_path / "first").read_bytes()
    assert not (tmp_path / "second.unfinished.json").exists()


def test_the_command_makes_records_that_the_input_pipeline_reads(tmp_path, text, done_here):
    input_file, vocab_file = text(make_documents(30))
    files = f"--output_file={tmp_path}/a.tfrecord,{tmp_path}/b.tfrecord"
    flags = ["--max_seq_length=32", "--max_predictions_per_seq=5", "--dupe_factor=2", "--num_processes=2"]
    shown = done_here(command, f"--input_file={input_file}", f"--vocab_file={vocab_file}", files, *flags).out
    assert re.search(r"^first example\nA  \[CLS\] .* \[SEP\]\nB  .* \[SEP\]\n", shown, re.M | re.S)
    assert re.search(r"[\w\]]\(\w+\)", shown.split("first example")[1])
    batch = next(iter(pretraining_dataset(f"{tmp_path}/*.tfrecord", 8)))
    assert batch["input_ids"].shape == (8, 32)


MASKING_FLAGS = ["--masked_lm_prob=0.3", "--max_predictions_per_seq=9"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--num_shards=4"], "--num_shards has no effect without --output_dir."),
        (["--ngram_geometric_p=0.2"], "--ngram_geometric_p has no effect without --max_ngram_size."),
        (["--language=de"], "--language has no effect without --split_sentences."),
        (["--sentence_task=none", "--short_seq_prob=0"], "--short_seq_prob has no effect with --sentence_task=none."),
        (["--dynamic_masking", *MASKING_FLAGS], "--masked_lm_prob, --max_predictions_per_seq have no effect with"),
        (["--verify", "--dupe_factor=3"], "--dupe_factor have no effect with --verify."),
    ],
)
def test_flags_that_would_change_nothing_are_refused(tmp_path, text, given, message, refused_here):
    input_file, vocab_file = text(make_documents(3))
    files = f"--input_file={input_file}", f"--vocab_file={vocab_file}", f"--output_file={tmp_path}/a"
    error = refused_here(command, *files, *given).err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "a").exists()


# The command, killed in the middle of the second file that it writes.
KILLED_IN_A_FILE = """
import os, signal
from data_prep import create_pretraining_data
from data_prep.pretraining import shard_pool
from data_prep.text import ordered_map
num_batches = {}
def on_batch(shard, *_):
    num_batches[shard] = num_batches.get(shard, 0) + 1
    if list(num_batches.values())[1:] == [2]:
        os.kill(os.getpid(), signal.SIGKILL)
write_shard = shard_pool.write_shard
shard_pool.write_shard = lambda job, shard, *_: write_shard(job, shard, on_batch)
ordered_map.available_cores = lambda: 1
create_pretraining_data.command()
"""


def arguments(input_file, vocab_file, out):
    return [
        *(f"--input_file={input_file}", f"--vocab_file={vocab_file}", f"--output_dir={out}"),
        *("--num_shards=60", "--dupe_factor=40", "--max_seq_length=32"),
    ]


# Tests that run in the background of a shell inherit an ignored SIGINT.
INTERRUPTIBLE = (
    "import signal\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from data_prep.create_pretraining_data import command\n"
    "command()\n"
)


def start(tmp_path, input_file, vocab_file, out):
    return subprocess.Popen(
        [
            *(sys.executable, "-c", INTERRUPTIBLE),
            *arguments(input_file, vocab_file, tmp_path / out),
            "--num_processes=2",
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def wait_for_files(process, folder, num_files):
    deadline = time.monotonic() + 120
    while len(list(folder.glob("*.tfrecord"))) < num_files and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)


@pytest.mark.slow
def test_ctrl_c_and_kill_lose_nothing_that_was_finished(tmp_path, text):
    input_file, vocab_file = text(make_documents(2_000))
    out = tmp_path / "out"

    process = start(tmp_path, input_file, vocab_file, "out")
    wait_for_files(process, out, 1)
    # To the whole group, as a terminal does.
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert "Finished files are kept in" in stderr
    assert stderr.splitlines()[-1] == "error: stopped by Ctrl-C"
    assert "Traceback" not in stderr
    names = sorted(name for name in os.listdir(out) if name.endswith(".tfrecord"))
    assert 1 <= len(names) < 60
    assert sorted(os.listdir(out)) == [*names, "tokenized_corpus.unfinished", "unfinished.json"]
    assert len(list(read_records([str(out / name) for name in names]))) > 100
    done = [file["name"] for file in json.loads((out / "unfinished.json").read_text())["files"]]
    times = {name: (out / name).stat().st_mtime_ns for name in done}

    killed = subprocess.run(
        [sys.executable, "-c", KILLED_IN_A_FILE, *arguments(input_file, vocab_file, out)], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert [name for name in os.listdir(out) if ".partial-" in name]

    for name in ("out", "not stopped"):
        process = start(tmp_path, input_file, vocab_file, name)
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, stderr
        assert (" files are finished. Writing the others." in stderr) == (name == "out")
    assert contents(out) == contents(tmp_path / "not stopped")
    assert {name: (out / name).stat().st_mtime_ns for name in done} == times


def test_a_finished_folder_is_left_alone_by_the_same_call_and_kept_from_another(tmp_path, create, caplog):
    arguments = {"documents": make_documents(20), "output_dir": tmp_path / "out"}
    summary = create(**arguments)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    assert create(**arguments) == summary
    assert "already holds these records. Nothing was done" in caplog.text
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before
    with pytest.raises(InputError, match=r"out holds records that were made with options=.* Remove it or give another"):
        create(**arguments, options=PretrainingOptions(dupe_factor=3))


@pytest.mark.parametrize("num_noted", [2, 0])
def test_an_unfinished_folder_is_finished_with_the_same_text_flags_and_vocabulary_only(tmp_path, text, num_noted):
    input_file, vocab_file = text(make_documents(20))
    create_pretraining_data(input_file, vocab_file, output_dir=tmp_path / "whole", num_shards=3)
    create_pretraining_data(
        input_file, vocab_file, output_dir=tmp_path / "out", num_shards=3, tokenized_corpus=tmp_path / "corpus"
    )
    # The folder looks as after a kill in the middle, or before the first file was noted.
    out = tmp_path / "out"
    manifest = json.loads((out / "manifest.json").read_text())
    noted = {"request": manifest["request"], "files": manifest["files"][:num_noted]}
    (out / "unfinished.json").write_text(json.dumps(noted))
    for name in ("manifest.json", "dataset_info.json", "features.json", "pretraining-00002-of-00003.tfrecord"):
        (out / name).unlink()
    (out / "pretraining-00001-of-00003.tfrecord").write_bytes(b"cut off")

    def finish(**changes):
        arguments = {"input_file": input_file, "vocab_file": vocab_file, "num_shards": 3, **changes}
        return create_pretraining_data(**arguments, output_dir=out, tokenized_corpus=tmp_path / "corpus")

    Vocabulary([*VOCABULARY.tokens, "cat"]).save(tmp_path / "other_vocab.txt")
    other_file, _ = text(make_documents(21), "other.txt")
    for changes, difference in [
        ({"vocab_file": tmp_path / "other_vocab.txt"}, "vocabulary_sha256="),
        ({"input_file": other_file}, "input_file="),
        ({"options": PretrainingOptions(random_seed=1)}, "options="),
        ({"compression": "gzip"}, "compression='none', not 'gzip'"),
        ({"num_shards": 4}, "num_files=3, not 4"),
    ]:
        with pytest.raises(InputError, match=f"holds an unfinished run, made with {difference}"):
            finish(**changes)
    finish()
    assert contents(out) == contents(tmp_path / "whole")


def test_packed_files_hold_the_same_records(tmp_path, create):
    files = {}
    for name in ("none", "zstd"):
        summary = create(make_documents(20), output_dir=tmp_path / name, compression=name)
        files[name] = [list(iterate_records(path)) for path in summary.files]
        verify_pretraining_data(output_dir=tmp_path / name)
        # tensorflow_datasets cannot read compressed files.
        assert (tmp_path / name / "dataset_info.json").exists() == (name == "none")
    assert files["none"] == files["zstd"]
    sizes = [sum(path.stat().st_size for path in (tmp_path / name).glob("*.tfrecord")) for name in files]
    assert sizes[1] < sizes[0] / 3


def test_names_of_tf_model_garden_are_the_only_difference(create):
    google, garden = (
        list(read_records(create(make_documents(20), use_v2_feature_names=names).files)) for names in (False, True)
    )
    assert garden == [renamed(row, input_ids="input_word_ids", segment_ids="input_type_ids") for row in google]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("one/a.tfrecord", "two/a.tfrecord"),
        ("link/a.tfrecord", "link/b.tfrecord"),
        ("one/a.tfrecord", "link/../two/b.tfrecord"),
    ],
)
def test_verify_finds_files_in_two_folders(tmp_path, create, first, second):
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/deep")
    (tmp_path / "real" / "two").mkdir()
    files = [str(tmp_path / first), str(tmp_path / second)]
    summary = create(make_documents(20), output_file=files)
    assert (tmp_path / "two").is_dir() == (second == "two/a.tfrecord"), "no other folder is made"
    assert sum(sum(1 for _ in iterate_records(path)) for path in files) == summary.records.num_records
    assert verify_pretraining_data(files)["records"]["num_records"] == summary.records.num_records
    with open(files[1], "ab") as file:
        file.write(b"more")
    with pytest.raises(InputError, match="1 file.s. differ from what was written: .* bytes instead of"):
        verify_pretraining_data(files)


def test_a_stopped_run_keeps_no_file_that_now_has_another_place(tmp_path, create, monkeypatch):
    a, b, c = (str(tmp_path / name) for name in "abc")
    expected = create(make_documents(20), output_file=[a, b, c]).files
    expected = [pathlib.Path(path).read_bytes() for path in expected]

    write_shards = shard_pool.write_shards

    def write_two(*arguments):
        shards = write_shards(*arguments)
        yield next(shards)
        yield next(shards)
        raise KeyboardInterrupt

    monkeypatch.setattr("data_prep.pretraining.local_run.write_shards", write_two)
    with pytest.raises(KeyboardInterrupt):
        create(make_documents(20), output_file=[a, b, c])
    monkeypatch.undo()
    create(make_documents(20), output_file=[a, c, b])
    assert [pathlib.Path(path).read_bytes() for path in (a, c, b)] == expected


def test_verify_finds_a_changed_byte_in_records_and_corpus(tmp_path, create):
    out, corpus = tmp_path / "out", tmp_path / "corpus"
    create(make_documents(20), output_dir=out, tokenized_corpus=corpus)
    assert verify_pretraining_data(output_dir=out, tokenized_corpus=corpus)["records"]["num_records"] > 50
    tokens = (corpus / "tokens.bin").read_bytes()
    (corpus / "tokens.bin").write_bytes(b"\7" + tokens[1:])
    with pytest.raises(InputError, match="tokens.bin is damaged"):
        verify_pretraining_data(output_dir=out, tokenized_corpus=corpus)


def test_the_command_passes_every_flag_on(tmp_path, text, done_here):
    input_file, vocab_file = text(make_documents(30))
    options = {"max_seq_length": 64, "max_predictions_per_seq": 12, "random_seed": 7, "dupe_factor": 2}
    options |= {"masked_lm_prob": 0.2, "short_seq_prob": 0.5, "max_ngram_size": 3, "ngram_geometric_p": 0.4}
    options |= {"do_whole_word_mask": True, "whole_word_actions": True, "max_sequences_per_row": 4}
    options |= {"sentence_task": "sentence_order", "replacement_tokens": "vocabulary"}
    done_here(
        command,
        *(f"--input_file={input_file}", f"--vocab_file={vocab_file}", f"--output_dir={tmp_path}/out"),
        *(f"--{name}={value}" for name, value in options.items()),
        *("--compression=gzip", "--use_v2_feature_names", "--num_processes=1"),
        *("--nodo_lower_case", "--text_field=body", "--num_shards=1"),
    )
    request = json.loads((tmp_path / "out" / "manifest.json").read_text())["request"]
    assert {**request, "vocabulary_sha256": "", "input_bytes": 0} == {
        "input_file": [input_file],
        "input_bytes": 0,
        "do_lower_case": False,
        "split_sentences": False,
        "language": "en",
        "text_field": "body",
        "vocabulary_sha256": "",
        "options": {**options, "ngram_distribution": "geometric", "dynamic_masking": False},
        "compression": "gzip",
        "use_v2_feature_names": True,
        "num_files": 1,
    }
    verified = done_here(command, "--verify", f"--output_dir={tmp_path}/out")
    assert re.match(r"1 files, [\d,]+ records: all as written\n", verified.out)
