import gzip
import json
import os

import pytest
from bounded_memory import memory_below

from data_prep.text import text_chunks
from data_prep.text.corpus import input_size, list_sources, read_documents, read_text_chunks
from keras_bert.program.errors import InputError

TWO_DOCUMENTS = "The quick brown fox.\nIt jumped.\n\nA second document.\n"
AS_LISTS = [["The quick brown fox.", "It jumped."], ["A second document."]]


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return str(path)


def read(patterns, **options):
    return list(read_documents(patterns, **options))


def test_a_blank_line_parts_documents(tmp_path):
    assert read(write(tmp_path / "a.txt", TWO_DOCUMENTS)) == AS_LISTS


def test_white_space_windows_line_ends_and_a_byte_order_mark_are_no_text(tmp_path):
    path = write(tmp_path / "a.txt", "\ufeff  The quick brown fox. \r\nIt jumped.\r\n \t\r\n\r\n\r\nA second document.")
    assert read(path) == AS_LISTS


def test_only_line_feeds_end_lines(tmp_path):
    assert read(write(tmp_path / "a.txt", "one\u2028still one\x0bstill\n")) == [["one\u2028still one\x0bstill"]]


def test_gzip_is_unpacked_even_in_several_members(tmp_path):
    first, second = TWO_DOCUMENTS[:30].encode(), TWO_DOCUMENTS[30:].encode()
    assert read(write(tmp_path / "a.gz", gzip.compress(first) + gzip.compress(second))) == AS_LISTS


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".ndjson", ".JSONL"])
def test_a_json_record_is_a_document_and_its_line_breaks_part_paragraphs(tmp_path, suffix):
    texts = ["The quick brown fox.\n\nIt jumped.", "", "Two."]
    lines = "\n".join(json.dumps({"id": 1, "body": text}) for text in texts)
    content = gzip.compress(lines.encode()) if suffix.endswith("gz") else lines
    path = write(tmp_path / f"a{suffix}", content)
    assert read(path, text_field="body") == [["The quick brown fox.", "It jumped."], ["Two."]]


def test_half_a_surrogate_pair_in_json_becomes_a_replacement_character(tmp_path):
    assert read(write(tmp_path / "a.jsonl", '{"text": "cut \\ud83d"}')) == [["cut \ufffd"]]


def test_folders_are_searched_in_sorted_order_without_hidden_files_and_other_kinds(tmp_path):
    for name in ("b/2.txt", "b/10.txt", "a/wiki_00", "c.jsonl", ".hidden.txt", "_SUCCESS", "picture.png", ".git/x.txt"):
        write(tmp_path / name, '{"text": "c.jsonl"}' if name == "c.jsonl" else name)
    assert read(str(tmp_path)) == [["a/wiki_00"], ["b/10.txt"], ["b/2.txt"], ["c.jsonl"]]


def test_a_link_to_a_folder_above_is_not_followed_for_ever(tmp_path):
    write(tmp_path / "a/1.txt", "one")
    (tmp_path / "a/loop").symlink_to(tmp_path)
    assert read(str(tmp_path)) == [["one"]]


def test_patterns_lists_and_overlaps_read_each_file_once_in_the_given_order(tmp_path):
    for name in ("a.txt", "b.txt", "c.txt"):
        write(tmp_path / name, name)
    assert read(f"{tmp_path}/b.txt, {tmp_path}/*.txt") == [["b.txt"], ["a.txt"], ["c.txt"]]
    assert read([f"{tmp_path}/c.txt", f"{tmp_path}/[ab].txt"]) == [["c.txt"], ["a.txt"], ["b.txt"]]
    assert list_sources(f"{tmp_path}/**/b*") == [f"{tmp_path}/b.txt"]


def test_a_file_whose_name_looks_like_a_pattern_is_read(tmp_path):
    assert read(write(tmp_path / "notes[1].txt", "one")) == [["one"]]


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz"])
def test_progress_adds_up_to_the_size_on_disk(tmp_path, suffix):
    content = b"A sentence of some length, again and again.\n" * 200_000
    path = write(tmp_path / f"a{suffix}", gzip.compress(content) if suffix.endswith("gz") else content)
    steps = []
    read(path, on_progress=steps.append)
    assert sum(steps) == input_size(path) == os.path.getsize(path)
    assert len(steps) > 1 or suffix.endswith("gz")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (" , ", "No input was given"),
        ("none", "no file or folder none"),
        ("*.txt", "No file matches"),
        ("folder", r"no file named \*\.txt, .* holds a.png"),
    ],
)
def test_names_without_a_text_are_refused_before_reading_starts(tmp_path, monkeypatch, names, message):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "folder" / "a.png", b"\x89PNG")
    with pytest.raises(InputError, match=message):
        read_documents(names)


@pytest.mark.parametrize("content", ["", "\n \n\n"])
def test_an_empty_file_is_refused_when_it_was_named(tmp_path, content):
    path = write(tmp_path / "a.txt", content)
    with pytest.raises(InputError, match="a.txt is empty: it has no line of text"):
        read(path)
    with pytest.raises(InputError, match="None of the 1 input files has a line of text"):
        read(str(tmp_path))
    write(tmp_path / "b.txt", "one")
    assert read(str(tmp_path)) == [["one"]]


PACKED = gzip.compress(b"A line.\n" * 9999)
BAD_FILES = {
    "binary.txt": (b"text\nmore\0text\n", "is binary, not text: line 2 has a NUL byte at position 9 of the file"),
    "latin1.txt": ("A line…\n".encode() + b"A caf\xe9.\n", "not UTF-8: byte 0xe9 in line 2 at position 15"),
    "utf16.txt": ("A line.\n".encode("utf-16"), "is UTF-16, not UTF-8"),
    "marked.txt": (b"\xef\xbb\xbfa\xff\n", "not UTF-8: byte 0xff in line 1 at position 4"),
    "cut.gz": (PACKED[:-9], "cut.gz is not a complete gzip file"),
    "plain.gz": (b"A line.\n", "plain.gz is not a complete gzip file"),
    "wrong.gz": (PACKED[:-8] + b"12345678", "wrong.gz is not a complete gzip file: CRC"),
    "bad.jsonl": (b'{"text": "a"}\n\n{"text": \n', "bad.jsonl: line 3 is not JSON"),
    "list.jsonl": (b"[1, 2]\n", "list.jsonl: line 1 must be a JSON object. Received: list"),
    "field.jsonl": (b'{"body": "a", "id": 1}\n', "line 1 has no field 'text'. It has: 'body', 'id'"),
    "number.jsonl": (b'{"text": 1}\n', "line 1: the field 'text' must be a string. Received: int"),
    "large.txt.gz": (gzip.compress((b"word " * 200 + b"\n") * 20_000), "decompresses to more than 50 times its size"),
    "deep.jsonl": (
        b'{"text": [' + b"[]," * 2_200_000 + b"[]]}",
        "line 1 has 4,400,003 values, more than the 4,194,304",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused_with_file_place_and_reason(tmp_path, name):
    content, message = BAD_FILES[name]
    path = write(tmp_path / name, content)
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert path in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    path = write(tmp_path / "a.txt", "one")
    os.chmod(path, 0)
    with pytest.raises(InputError, match="Cannot read .*Permission denied"):
        read(path)


def test_a_text_without_blank_lines_is_cut_into_documents(tmp_path, monkeypatch):
    monkeypatch.setattr(text_chunks, "MAX_DOCUMENT_CHARACTERS", 10)
    path = write(tmp_path / "a.txt", "one two\n" * 6)
    assert read(path) == [["one two"] * 2] * 3


def test_cuts_between_chunks_change_nothing(tmp_path, monkeypatch):
    text = "One.\nTwo.\n\n\n \t\nThree, é.\r\n\r\nFour.\n\u3000\nFive.\n\n"
    records = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for _ in range(3))
    paths = [write(tmp_path / "a.txt", text * 3), write(tmp_path / "b.jsonl", records)]
    paths.append(write(tmp_path / "c.txt.gz", gzip.compress(text.encode() * 3)))
    whole = read(paths)
    for chunk_bytes in range(1, 40):
        monkeypatch.setattr(text_chunks, "CHUNK_BYTES", chunk_bytes)
        chunks = list(read_text_chunks(paths))
        assert [document for chunk in chunks for document in chunk.documents()] == whole
        assert sum(chunk.source_bytes for chunk in chunks) == input_size(paths)
    assert len(chunks) > 6


def test_a_line_that_is_too_long_is_cut_between_words_or_else_between_characters(tmp_path, monkeypatch):
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", 5)
    monkeypatch.setattr(text_chunks, "MAX_LINE_BYTES", 9)
    assert read(write(tmp_path / "a.txt", "one two three four\nfive\n")) == [["one two"], ["three four"], ["five"]]
    cut = read(write(tmp_path / "b.txt", "é" * 3 + "汶川大地震" + "😀" * 5))
    assert len(cut) > 2
    assert "".join(line for [line] in cut) == "ééé汶川大地震😀😀😀😀😀"


def test_a_json_line_that_is_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", 5)
    monkeypatch.setattr(text_chunks, "MAX_JSON_LINE_BYTES", 10)
    with pytest.raises(InputError, match="has a line of more than 10 bytes"):
        read(write(tmp_path / "a.jsonl", '{"text": "one two three"}'))


def test_memory_stays_bounded_whatever_the_input(tmp_path, monkeypatch):
    """5 MB without a line break and 5 MB without a blank line are read in 2 MB when parts are kept below 0.1 MB."""
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", 50_000)
    monkeypatch.setattr(text_chunks, "MAX_LINE_BYTES", 100_000)
    write(tmp_path / "one_line.gz", gzip.compress(b"word " * 1_000_000, compresslevel=1))
    write(tmp_path / "no_blank_line.gz", gzip.compress(b"A sentence of words.\n" * 250_000, compresslevel=1))
    with memory_below(2_000_000):
        characters = sum(len(line) + 1 for document in read_documents(f"{tmp_path}/*.gz") for line in document)
    assert characters == 5_000_000 + 5_250_000


def test_wikipedia_comes_whole(shared_data):
    documents = read(str(shared_data("corpus")))
    assert (len(documents), sum(map(len, documents))) == (442, 18_896)
