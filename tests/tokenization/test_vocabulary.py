import hashlib
import pickle

import pytest
import tiny
from tiny_checkpoints import random_checkpoint

from keras_bert.checkpoints.formats import read_checkpoint, write_checkpoint
from keras_bert.program.errors import InputError
from keras_bert.tokenization.core_wordpiece import CoreWordPiece
from keras_bert.tokenization.graph_wordpiece import GraphTokenizer
from keras_bert.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

TOKENS = (*SPECIAL_TOKENS, "the", "quick", "##est")
REAL_SIZES = {"uncased": 30522, "cased": 28996, "multilingual-cased": 119547, "chinese": 21128}


def write(path, text):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def as_file(tokens):
    return "".join(f"{token}\n" for token in tokens)


def test_ids_are_line_numbers(tmp_path):
    vocabulary = Vocabulary.from_file(write(tmp_path / "vocab.txt", as_file(TOKENS)))
    assert vocabulary.tokens == TOKENS
    assert vocabulary.ids["##est"] == 7
    assert len(vocabulary) == 8
    special_ids = vocabulary.pad_id, vocabulary.unk_id, vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id
    assert special_ids == (0, 1, 2, 3, 4)


def test_what_is_saved_is_what_was_read(tmp_path):
    vocabulary = Vocabulary(TOKENS)
    vocabulary.save(tmp_path / "made" / "vocab.txt")
    assert (tmp_path / "made" / "vocab.txt").read_bytes() == as_file(TOKENS).encode()
    assert Vocabulary.from_file(tmp_path / "made" / "vocab.txt") == vocabulary
    assert vocabulary.sha256 == hashlib.sha256(as_file(TOKENS).encode()).hexdigest()
    assert pickle.loads(pickle.dumps(vocabulary)) == vocabulary


def test_white_space_around_tokens_and_a_missing_last_line_end_do_not_matter(tmp_path):
    text = as_file(TOKENS).replace("quick\n", " quick\t\n").removesuffix("\n")
    assert Vocabulary.from_file(write(tmp_path / "vocab.txt", "\ufeff" + text)).tokens == TOKENS


def test_a_token_of_white_space_alone_keeps_its_line(tmp_path):
    text = as_file([*TOKENS[:5], "\u2028", "##\u2028", "the"])
    vocabulary = Vocabulary.from_file(write(tmp_path / "vocab.txt", text))
    assert vocabulary.ids["the"] == 7
    vocabulary.save(tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_bytes() == text.encode()


@pytest.mark.parametrize("name", REAL_SIZES)
def test_published_vocabularies_load_with_googles_ids_and_save_byte_for_byte(shared_data, tmp_path, name):
    path = shared_data("vocab", f"bert-base-{name}-vocab.txt")
    vocabulary = Vocabulary.from_file(path)
    lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
    assert len(vocabulary) == len(lines) == REAL_SIZES[name]
    assert [vocabulary.ids[line.decode().strip() or line.decode()] for line in lines if line != b"##\xe2\x80\xa8"] == [
        number for number, line in enumerate(lines) if line != b"##\xe2\x80\xa8"
    ]
    special_ids = vocabulary.pad_id, vocabulary.unk_id, vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id
    assert special_ids == (0, 100, 101, 102, 103)
    vocabulary.save(tmp_path / "vocab.txt")
    assert (tmp_path / "vocab.txt").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"vocab\.txt is empty. It must have one token per line"),
        ("\n\n", "is empty"),
        (b"[PAD]\n\0\1\2\n", "is a binary file"),
        (b"[PAD]\n[UNK]\nf\xfcr\n", r"is not UTF-8 \(line 3\). Save it as UTF-8"),
        (as_file(TOKENS).replace("\n", "\r\n"), r"Windows line ends \(CRLF, line 1\). Convert it: tr -d '\\r' <"),
        (as_file(TOKENS[2:]), r"\[PAD\] \[UNK\] missing. A BERT vocabulary must have"),
        (None, r"Cannot read .*vocab\.txt: No such file"),
    ],
)
def test_unusable_files_are_refused_with_what_to_do(tmp_path, content, message):
    if content is not None:
        write(tmp_path / "vocab.txt", content)
    with pytest.raises(InputError, match=message):
        Vocabulary.from_file(tmp_path / "vocab.txt")
    with pytest.raises(InputError, match="Cannot read .*: Is a directory"):
        Vocabulary.from_file(tmp_path)


def test_tokens_with_line_ends_are_refused():
    with pytest.raises(InputError, match="contains a line end"):
        Vocabulary([*TOKENS, "a\nb"])


@pytest.mark.parametrize(
    ("more", "ids"),
    [(["", "fox"], [5, 9, 6, 7]), (["", "the", "##est", "", "fox", ""], [9, 12, 6, 10])],
    ids=["a blank line", "tokens twice"],
)
def test_a_blank_line_matches_no_text_and_of_a_token_that_occurs_twice_the_last_one_counts(tmp_path, more, ids):
    path = write(tmp_path / "vocab.txt", as_file((*TOKENS, *more)))
    vocabulary = Vocabulary.from_file(path)
    assert (len(vocabulary), vocabulary.tokens[8]) == (8 + len(more), "")
    vocabulary.save(tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_bytes() == path.read_bytes()
    texts, expected = ["the  fox\n\n quickest", ""], [ids, []]
    assert [WordPieceTokenizer(vocabulary).encode(text) for text in texts] == expected
    assert GraphTokenizer(vocabulary).tokenize(texts).to_list() == expected
    assert CoreWordPiece(WordPieceTokenizer(vocabulary)).tokenize(texts).to_list() == expected


def test_blank_lines_at_the_end_are_left_out_for_a_table_without_rows_for_them():
    vocabulary = Vocabulary([*TOKENS, "", ""])
    assert [len(vocabulary.of_size(size)) for size in (10, 9, 8, 7)] == [10, 9, 8, 10]
    assert vocabulary.sha256 == Vocabulary(TOKENS).sha256


@pytest.mark.parametrize("format", ["google", "huggingface"])
def test_a_checkpoint_may_have_a_row_for_a_blank_last_line_or_none(format, tmp_path):
    write_checkpoint(random_checkpoint(), tmp_path / "folder", format)
    (tmp_path / "folder" / "tokenizer.json").unlink(missing_ok=True)
    file = tmp_path / "folder" / "vocab.txt"
    lines = file.read_text().split("\n")[:-1]
    file.write_text("\n".join([*lines, "", ""]))
    assert read_checkpoint(tmp_path / "folder").vocabulary.tokens == (*lines,)
    file.write_text("\n".join([*lines[:-1], "", ""]))
    assert read_checkpoint(tmp_path / "folder").vocabulary.tokens == (*lines[:-1], "")


@pytest.mark.parametrize(("casing", "blank", "size"), [("uncased", 30107, 31090), ("cased", 30105, 31116)])
def test_the_vocabularies_of_scibert_load(shared_data, casing, blank, size):
    vocabulary = Vocabulary.from_file(shared_data("family", "vocab", f"scibert_scivocab_{casing}.txt"))
    assert (vocabulary.ids[""], len(vocabulary)) == (blank - 1, size)


def test_half_of_a_surrogate_pair_is_no_token(tmp_path):
    from keras_bert.tokenization.byte_pair import BytePairTokenizer, byte_alphabet
    from keras_bert.tokenization.stream_vocabulary import StreamVocabulary

    byte_pairs = [*byte_alphabet(), "<s>", "</s>", "<pad>", "<unk>", "<mask>", "a\udc80"]
    for make in (
        lambda: tiny.vocabulary("a\udc80"),
        lambda: StreamVocabulary(["<unk>", "\ud800"], "characters"),
        lambda: BytePairTokenizer({token: number for number, token in enumerate(byte_pairs)}, []),
    ):
        with pytest.raises(InputError, match=r"the token \d+, 'a?\\ud.00'|'a\\udc80', has half of a surrogate pair"):
            make()
