import errno
import json
import os
import shutil

import numpy as np
import pytest
import tiny
from python_encoder import write_corpus
from small_corpora import contents, texts_of

from data_prep.text import text_chunks
from data_prep.tokenized import corpus_writer, tokenize_text, tokenized_corpus
from data_prep.tokenized.tokenize_text import TextSettings
from data_prep.tokenized.tokenized_corpus import TokenizedCorpus
from keras_bert.program.errors import InputError
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

VOCABULARY = tiny.vocabulary("the quick brown fox")
DOCUMENTS = [["the quick fox", "brown"], ["fox the"], ["quick", "the the", "cat"]]
ARRAYS = ("tokens.bin", "sentence_offsets.bin", "document_offsets.bin")

pytestmark = pytest.mark.usefixtures("python_tokenizer")


def write(path, documents=None, **options):
    return write_corpus(path, documents or DOCUMENTS, VOCABULARY, **options)


def test_a_corpus_gives_the_text_back(tmp_path):
    write(tmp_path / "corpus")
    corpus = TokenizedCorpus.open(tmp_path / "corpus")
    assert texts_of(corpus) == [["the quick fox", "brown"], ["fox the"], ["quick", "the the", "[UNK]"]]
    assert corpus.tokens.tolist() == [5, 6, 8, 7, 8, 5, 6, 5, 5, 1]
    assert corpus.sentence_offsets.tolist() == [0, 3, 4, 6, 7, 9, 10]
    assert corpus.document_offsets.tolist() == [0, 2, 3, 6]
    corpus.verify()


def test_a_tokenizer_brings_its_casing(tmp_path):
    (tmp_path / "a.txt").write_text("the The")
    cased = WordPieceTokenizer(VOCABULARY, do_lower_case=False)
    corpus = tokenize_text.tokenize_text(str(tmp_path / "a.txt"), tmp_path / "corpus", cased)
    assert (texts_of(corpus), corpus.manifest["do_lower_case"]) == ([["the [UNK]"]], False)


def test_batches_and_chunks_of_any_size_give_the_same_corpus(tmp_path, monkeypatch):
    documents = [[f"the {'quick ' * (n % 7)}" for n in range(m % 5 + 1)] for m in range(40)]
    whole = write(tmp_path / "corpus", documents)
    tokens = whole.tokens.tolist()
    shutil.rmtree(tmp_path / "corpus")
    monkeypatch.setattr(tokenize_text, "_BATCH_CHARACTERS", 50)
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", 10)
    in_parts = write(tmp_path / "corpus", documents)
    assert in_parts.tokens.tolist() == tokens
    assert texts_of(whole) == texts_of(in_parts)
    assert {**whole.manifest, "parts": None} == {**in_parts.manifest, "parts": None}
    assert len(in_parts.manifest["parts"]) > 1
    in_parts.verify()


def test_the_manifest_counts_and_says_what_was_left_out(tmp_path):
    zero_width = "\u200b"
    corpus = write(tmp_path / "corpus", [["the", zero_width, "quick"], [zero_width, zero_width], ["cat dog"]])
    assert {**corpus.manifest, "parts": None} == {
        "format": "keras_bert tokenised corpus 3",
        "num_documents": 2,
        "num_sentences": 3,
        "num_tokens": 4,
        "num_dropped_documents": 1,
        "num_dropped_sentences": 3,
        "num_unknown_tokens": 2,
        "token_dtype": "uint16",
        "vocabulary_sha256": VOCABULARY.sha256,
        "input_file": [str(tmp_path / "corpus.txt")],
        "input_bytes": 32,
        "do_lower_case": True,
        "split_sentences": False,
        "language": "en",
        "text_field": "text",
        "parts": None,
    }
    assert (corpus.num_documents, corpus.num_sentences, corpus.num_tokens) == (2, 3, 4)
    assert texts_of(corpus) == [["the", "quick"], ["[UNK] [UNK]"]]
    assert corpus.sentence_offsets.tolist() == [0, 1, 2, 4]


def test_a_large_vocabulary_gets_four_bytes_a_token(tmp_path):
    vocabulary = Vocabulary([*VOCABULARY.tokens, *(f"word{number}" for number in range(70_000))])
    corpus = write_corpus(tmp_path / "corpus", [["the word69999"]], vocabulary)
    assert corpus.tokens.dtype == np.uint32
    assert corpus.tokens.tolist() == [5, 70_008]
    corpus.verify()


class Killed(BaseException):
    """An exception that stands for the end of the process; no code may catch it."""


def kill_after(monkeypatch, num_chunks):
    add = corpus_writer.CorpusWriter.add

    def add_or_die(self, chunk):
        if add_or_die.left == 0:
            raise Killed
        add_or_die.left -= 1
        add(self, chunk)

    add_or_die.left = num_chunks
    monkeypatch.setattr(corpus_writer.CorpusWriter, "add", add_or_die)
    return lambda: monkeypatch.setattr(corpus_writer.CorpusWriter, "add", add)


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", 100)
    monkeypatch.setattr(corpus_writer, "_CHUNKS_PER_PART", 3)


MANY = [["the quick fox"] * (n % 4 + 1) for n in range(60)]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("num_chunks", [0, 1, 3, 4, 8, 16])
def test_a_corpus_whose_making_was_killed_is_finished_by_the_same_call(tmp_path, monkeypatch, num_chunks):
    write(tmp_path / "corpus", MANY)
    whole = contents(tmp_path / "corpus")
    shutil.rmtree(tmp_path / "corpus")
    revive = kill_after(monkeypatch, num_chunks)
    with pytest.raises(Killed):
        write(tmp_path / "corpus", MANY)
    if num_chunks >= 3:
        with pytest.raises(InputError, match="corpus is not finished. Run the command"):
            TokenizedCorpus.open(tmp_path / "corpus")
    else:  # nothing was finished, so nothing stays
        assert not (tmp_path / "corpus").exists()
    revive()
    write(tmp_path / "corpus", MANY).verify()
    assert contents(tmp_path / "corpus") == whole


@pytest.mark.usefixtures("small_parts")
def test_a_full_disk_is_one_error_and_the_same_call_goes_on_when_there_is_space(tmp_path, monkeypatch):
    write(tmp_path / "whole", MANY)
    fsync, calls = os.fsync, []

    def is_full(descriptor):
        calls.append(descriptor)
        if len(calls) > 12:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", is_full)
    with pytest.raises(InputError, match="Cannot write .*corpus.*: no space is left on the disk"):
        write(tmp_path / "corpus", MANY)
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(InputError, match="corpus is not finished. Run the command"):
        TokenizedCorpus.open(tmp_path / "corpus")
    write(tmp_path / "corpus", MANY).verify()
    for name in ARRAYS:
        assert (tmp_path / "corpus" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.usefixtures("small_parts")
def test_what_was_finished_before_the_kill_is_not_tokenised_again(tmp_path, monkeypatch):
    revive = kill_after(monkeypatch, 10)
    with pytest.raises(Killed):
        write(tmp_path / "corpus", MANY)
    revive()
    sources = []
    encode_chunk = tokenize_text.encode_chunk
    monkeypatch.setattr(
        tokenize_text, "encode_chunk", lambda chunk, **options: sources.append(chunk) or encode_chunk(chunk, **options)
    )
    write(tmp_path / "corpus", MANY)
    num_chunks = len(list(text_chunks.read_chunks(str(tmp_path / "corpus.txt"), "text")))
    assert len(sources) == num_chunks - 9  # three parts of three chunks were safe


@pytest.mark.usefixtures("small_parts")
def test_a_corpus_that_is_not_finished_goes_on_only_with_the_same_text(tmp_path, monkeypatch):
    revive = kill_after(monkeypatch, 10)
    with pytest.raises(Killed):
        write(tmp_path / "corpus", MANY)
    revive()
    (tmp_path / "other.txt").write_text("the fox")
    with pytest.raises(InputError, match="is not finished: reading input_file=.*corpus.txt.* was stopped"):
        tokenize_text.tokenize_text(str(tmp_path / "other.txt"), tmp_path / "corpus", VOCABULARY)
    with pytest.raises(InputError, match="was made with do_lower_case=True, not False"):
        write(tmp_path / "corpus", MANY, settings=TextSettings(do_lower_case=False))
    with pytest.raises(InputError, match=r"corpus.txt has changed since .*corpus was begun. Remove .*corpus"):
        write(tmp_path / "corpus", MANY[1:])


@pytest.mark.usefixtures("small_parts")
def test_a_bad_file_can_be_repaired_and_the_rest_is_kept(tmp_path):
    VOCABULARY.save(tmp_path / "vocab.txt")
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("the quick fox\n\n" * 50)
    (tmp_path / "b.txt").write_bytes(b"the \xff fox")
    inputs = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]
    with pytest.raises(InputError, match="b.txt is not UTF-8"):
        tokenize_text.tokenize_text(inputs, tmp_path / "corpus", VOCABULARY)
    assert json.loads((tmp_path / "corpus" / "progress.json").read_text())["num_documents"] > 30
    (tmp_path / "b.txt").write_text("the fox")
    corpus = tokenize_text.tokenize_text(inputs, tmp_path / "corpus", VOCABULARY)
    assert corpus.num_documents == 51
    corpus.verify()


@pytest.mark.usefixtures("small_parts")
def test_text_is_appended_behind_what_is_there(tmp_path):
    first, second, both = (tmp_path / name for name in ("first", "second", "both"))
    write(first, MANY)
    (tmp_path / "second.txt").write_text("brown fox\n\nfox\n")
    with pytest.raises(InputError, match="There is no tokenised corpus in .*second to add text to"):
        tokenize_text.tokenize_text(str(tmp_path / "second.txt"), second, VOCABULARY, append=True)
    corpus = tokenize_text.tokenize_text(str(tmp_path / "second.txt"), first, VOCABULARY, append=True)
    corpus.verify()
    write(both, [*MANY, ["brown fox"], ["fox"]])
    for name in ARRAYS:
        assert (first / name).read_bytes() == (both / name).read_bytes()
    assert corpus.manifest["input_file"] == [str(tmp_path / "first.txt"), str(tmp_path / "second.txt")]
    with pytest.raises(InputError, match="already has the text of .*second.txt. Leave it out"):
        tokenize_text.tokenize_text(str(tmp_path / "second.txt"), first, VOCABULARY, append=True)


@pytest.mark.usefixtures("small_parts")
def test_while_text_is_appended_the_corpus_is_what_it_was(tmp_path, monkeypatch):
    write(tmp_path / "corpus", DOCUMENTS)
    (tmp_path / "more.txt").write_text("brown fox\n\n" * 100)
    revive = kill_after(monkeypatch, 5)
    with pytest.raises(Killed):
        tokenize_text.tokenize_text(str(tmp_path / "more.txt"), tmp_path / "corpus", VOCABULARY, append=True)
    revive()
    before = TokenizedCorpus.open(tmp_path / "corpus")
    before.verify()
    assert before.num_documents == 3
    after = tokenize_text.tokenize_text(str(tmp_path / "more.txt"), tmp_path / "corpus", VOCABULARY, append=True)
    after.verify()
    assert after.num_documents == 103
    assert not (tmp_path / "corpus" / "progress.json").exists()


def test_two_writers_do_not_meet(tmp_path):
    source, tokenizer = corpus_writer.TextSource(["a"], {"a": 1}, {}), WordPieceTokenizer(VOCABULARY)
    with (
        corpus_writer.open_corpus_writer(str(tmp_path / "corpus"), tokenizer, source),
        pytest.raises(InputError, match="Another process is writing to .*corpus. Wait for it"),
        corpus_writer.open_corpus_writer(str(tmp_path / "corpus"), tokenizer, source),
    ):
        pass


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", ARRAYS)
def test_a_changed_byte_a_cut_and_bytes_that_do_not_count_are_told_apart(tmp_path, name):
    corpus = write(tmp_path / "corpus", MANY)
    path, last = tmp_path / "corpus" / name, len(corpus.manifest["parts"])
    texts, data = texts_of(corpus), path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(InputError, match=rf"{name} is damaged: part {last} of {last} \(bytes"):
        TokenizedCorpus.open(tmp_path / "corpus").verify()
    path.write_bytes(data[:-1])
    with pytest.raises(InputError, match=rf"{name} is cut off: \d+ bytes instead of \d+\. Make the corpus again"):
        TokenizedCorpus.open(tmp_path / "corpus")
    path.write_bytes(data + b"\1" * 24)  # behind the counts of the manifest
    assert texts_of(TokenizedCorpus.open(tmp_path / "corpus")) == texts


@pytest.mark.parametrize("name", ["sentence_offsets.bin", "document_offsets.bin"])
@pytest.mark.parametrize("place", [0, 1, -1])
def test_offsets_that_do_not_divide_what_is_there_are_refused(tmp_path, name, place, monkeypatch):
    monkeypatch.setattr(tokenized_corpus, "_OFFSETS_AT_ONCE", 2)
    write(tmp_path / "corpus").check_offsets()
    path = tmp_path / "corpus" / name
    offsets = np.fromfile(path, np.int64)
    offsets[place] = 1 << 40
    offsets.tofile(path)
    with pytest.raises(InputError, match=rf"{name} is damaged: its offsets do not rise from 0 to \d+\. Make"):
        TokenizedCorpus.open(tmp_path / "corpus").check_offsets()


def test_another_folder_a_damaged_manifest_and_another_vocabulary_are_refused(tmp_path):
    with pytest.raises(InputError, match="is not a tokenised corpus: it has no manifest.json"):
        TokenizedCorpus.open(tmp_path)
    write(tmp_path / "corpus")
    manifest = tmp_path / "corpus" / "manifest.json"
    good = manifest.read_text()
    other = (tmp_path / "corpus" / "vocab.txt").read_text() + "dog\n"
    counts = [("num_tokens", -5), ("num_sentences", "3"), ("num_documents", None), ("num_tokens", 1e3)]
    for file, content, message in [
        *(
            ("manifest.json", json.dumps(json.loads(good) | {name: value}), f"damaged: {name} is {value!r}, not ")
            for name, value in [*counts, ("token_dtype", "O")]
        ),
        ("manifest.json", good[:40], "manifest.json is damaged: it is not JSON"),
        ("manifest.json", '{"format": "another"}', "expected 'keras_bert tokenised corpus 3', found 'another'"),
        ("vocab.txt", other, "its vocabulary was changed after this corpus was tokenised"),
    ]:
        manifest.write_text(good)
        (tmp_path / "corpus" / file).write_text(content)
        with pytest.raises(InputError, match=message):
            TokenizedCorpus.open(tmp_path / "corpus")


def test_text_without_a_token_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match="There is no text in the input: no line has a token"):
        write(tmp_path / "corpus", [["\u200b", "\u200b"]])
    assert not (tmp_path / "corpus").exists()


def test_shards_deal_out_every_document_alike_and_more_documents_move_none(tmp_path):
    few = write(tmp_path / "few", [["the"]] * 2_000).shard_of_documents(8, seed=1)
    many = write(tmp_path / "many", [["the"]] * 8_000).shard_of_documents(8, seed=1)
    other_seed = write(tmp_path / "other", [["the"]] * 2_000).shard_of_documents(8, seed=2)
    assert many[:2_000].tolist() == few.tolist()
    assert (few == other_seed).mean() == pytest.approx(1 / 8, abs=0.04)
    counts = np.bincount(many, minlength=8)
    # Chi-square with 7 degrees of freedom; 45 is exceeded by chance once in ten million.
    assert ((counts - 1_000) ** 2 / 1_000).sum() < 45


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_to_is_refused(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(InputError, match="Cannot write .*permission denied"):
        tokenize_text.tokenize_text(__file__, tmp_path / "closed" / "corpus", VOCABULARY)


def test_the_manifest_has_no_secrets_of_urls(tmp_path):
    sizes = {"https://host/x?sig=abc": 1, "https://host/x?sig=def": 2}
    source = corpus_writer.TextSource(["https://ada:word@host/*?sig=abc", "caf\udce9"], sizes, {})
    assert corpus_writer.empty_manifest(VOCABULARY, source)["input_file"] == ["https://***@host/*?sig=***", "caf?"]
    assert source.recorded_sizes == [("https://host/x?sig=***", 1), ("https://host/x?sig=***", 2)]
