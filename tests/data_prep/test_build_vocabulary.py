import os
import subprocess
import sys
from collections import Counter

import pytest

from data_prep import build_vocabulary as command
from data_prep.build_vocabulary import build_vocabulary
from data_prep.text.corpus import read_documents
from data_prep.vocabulary import word_counts
from data_prep.vocabulary.learn_wordpiece import learn_wordpiece
from data_prep.vocabulary.word_counts import count_words
from keras_bert.program.errors import InputError
from keras_bert.tokenization.kinds import load_vocabulary
from keras_bert.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer, words_of_stretch

FOX = "the quick brown fox jumps over the lazy dog and the quickest fox jumped highest of all the foxes"


def fox_counts():
    return Counter({word: 10 * count for word, count in Counter(FOX.split()).items()})


def learn(counts, vocab_size=200, **options):
    return learn_wordpiece(counts, vocab_size=vocab_size, **options).tokens


def test_tokens_come_in_order_special_characters_continuations_pieces():
    tokens = learn(fox_counts(), 150)
    assert tokens[:5] == SPECIAL_TOKENS == ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    kinds = [1 if len(token) == 1 else 2 if len(token) == 3 and token.startswith("##") else 3 for token in tokens[5:]]
    assert kinds == sorted(kinds)
    assert {"the", "fox", "quick"} <= set(tokens)


def test_unused_slots_follow_the_special_tokens():
    assert learn(fox_counts(), num_unused_tokens=2)[4:8] == ("[MASK]", "[unused0]", "[unused1]", "!")


@pytest.mark.parametrize("vocab_size", [120, 121, 140])
def test_the_size_is_exact_where_the_text_is_enough(vocab_size):
    assert len(learn(fox_counts(), vocab_size)) == vocab_size


def test_little_text_gives_fewer_tokens_and_whole_words():
    tokens = learn(fox_counts(), 5000)
    assert len(tokens) < 300
    assert set(FOX.split()) <= set(tokens)


def test_rare_pieces_are_not_learnt():
    counts = Counter({"fox": 10, "dog": 3})
    assert {"fox", "dog"} <= set(learn(counts, min_frequency=3))
    assert "dog" not in learn(counts, min_frequency=4)


def test_ascii_can_always_be_spelt():
    tokenizer = WordPieceTokenizer(Vocabulary(learn(fox_counts())))
    assert "[UNK]" not in tokenizer.tokenize("Zebras: 42, #1 @ ~x_Y{z}!")
    cased = Vocabulary(learn(fox_counts(), 300, do_lower_case=False))
    assert "[UNK]" not in WordPieceTokenizer(cased, do_lower_case=False).tokenize("ZEBRAS Zz9")


def test_characters_are_kept_until_the_text_is_covered():
    counts = Counter({"ööö": 98, "ü": 5, "ä": 1})
    assert {"ö", "ü", "ä"} <= set(learn(counts, character_coverage=1.0))
    some = learn(counts, character_coverage=0.99)
    assert {"ö", "ü"} <= set(some)
    assert "ä" not in some


def test_the_summary_counts_words_that_cannot_be_spelt(tmp_path):
    (tmp_path / "text.txt").write_text("ööö " * 98 + "ü " * 5 + "ä", encoding="utf-8")
    options = {"character_coverage": 0.99, "do_lower_case": False}
    summary = build_vocabulary(str(tmp_path / "text.txt"), tmp_path / "vocab.txt", **options)
    assert summary.unknown_share == pytest.approx(1 / 104)


def test_a_word_with_a_character_that_is_left_out_teaches_nothing():
    counts = Counter({"fox": 1000, "töx": 20})
    assert not {"tx", "##tx", "t", "##x"} & set(learn(counts, character_coverage=0.99)[140:])
    assert "tx" not in learn(counts, character_coverage=0.99)


def test_counts_beyond_the_limit_are_scaled_down_together(monkeypatch):
    small = learn(fox_counts())
    monkeypatch.setattr(word_counts, "_MAX_WORDS_TO_LEARNER", sum(fox_counts().values()))
    large = Counter({word: 1000 * count for word, count in fox_counts().items()})
    assert learn(large, min_frequency=2000) == small


@pytest.mark.slow
def test_every_piece_learnt_from_wikipedia_can_be_reached(shared_data):
    wikipedia = count_words(read_documents(str(shared_data("corpus"))), do_lower_case=True)
    vocabulary = learn_wordpiece(wikipedia, vocab_size=8000)
    assert len(vocabulary) == 8000
    for token in vocabulary.tokens[5:]:
        assert words_of_stretch(token.removeprefix("##"), True) == [token.removeprefix("##")]
    tokenizer = WordPieceTokenizer(vocabulary)
    ids = Counter()
    for word, count in wikipedia.items():
        for number in tokenizer.encode(word):
            ids[number] += count
    assert ids.total() / wikipedia.total() < 1.25
    assert ids[vocabulary.unk_id] / wikipedia.total() < 0.0005


def run(*flags, **environment):
    command = [sys.executable, "-m", "data_prep.build_vocabulary", *flags]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


def test_the_command_writes_the_same_bytes_whatever_the_hash_seed_threads_and_processes(tmp_path, shared_data):
    lines = [line for document in read_documents(str(shared_data("corpus"))) for line in document][:1000]
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    written = set()
    for seed, threads, processes in [("1", "1", "1"), ("2", "2", "2")]:
        output = tmp_path / f"vocab{seed}.txt"
        flags = [f"--input_file={tmp_path}/text.txt", f"--output_file={output}", "--vocab_size=3000"]
        result = run(*flags, f"--num_processes={processes}", PYTHONHASHSEED=seed, RAYON_NUM_THREADS=threads)
        assert result.returncode == 0, result.stderr
        assert "vocab" in result.stdout
        assert "3,000 tokens" in result.stdout
        assert "counting words" in result.stderr
        written.add(output.read_bytes())
    assert len(written) == 1
    assert len(Vocabulary.from_file(tmp_path / "vocab1.txt")) == 3000


KIND_FILES = {"byte_pair": {"vocab.json", "merges.txt"}, "sentence_piece": {"spiece.model"}}
KIND_FILES |= {"modern_byte_pair": {"tokenizer.json"}}


@pytest.mark.parametrize("kind", KIND_FILES)
def test_other_kinds_are_learnt_with_the_same_bytes_for_any_number_of_processes(tmp_path, kind):
    (tmp_path / "text.txt").write_text(f"{FOX} Café don't 12, 字\n" * 40, encoding="utf-8")
    options = {"kind": kind, "vocab_size": 360 if "byte_pair" in kind else 60}
    summary = build_vocabulary(str(tmp_path / "text.txt"), tmp_path / "one", **options)
    build_vocabulary(str(tmp_path / "text.txt"), tmp_path / "two", num_processes=2, **options)
    files = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert set(files) == KIND_FILES[kind] | {"tokenizer_config.json"}
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()}
    found = load_vocabulary(tmp_path / "one")
    assert len(found) == len(summary.vocabulary) <= options["vocab_size"]
    assert summary.unknown_share == 0
    assert found.unk_id not in found.encode("the quickest foxes Café 字")
    assert found.decode(found.encode("the quick fox")).strip() == "the quick fox"
    assert len(found.encode("the quick fox")) < 9
    assert "all characters" in str(summary) or kind == "sentence_piece"


REFUSED = [
    ({"kind": "byte_pair", "vocab_size": 261}, "vocab_size=261 is too small: special tokens and bytes take 261"),
    ({"kind": "byte_pair", "num_unused_tokens": 3}, "num_unused_tokens=3 has no effect on the kind byte_pair"),
    ({"kind": "sentence_piece", "min_frequency": 5}, "min_frequency=5 has no effect on the kind sentence_piece"),
    ({"kind": "sentence_piece", "vocab_size": 14}, "sentencepiece cannot learn 14 tokens"),
    ({"kind": "word"}, "kind must be one of wordpiece, byte_pair, modern_byte_pair, sentence_piece. Rec"),
    ({"vocab_size": 50}, "vocab_size=50 is too small: .* take 109"),
    ({"vocab_size": 0}, "vocab_size must be a whole number of at least 1. Received: 0"),
    ({"min_frequency": 0}, "min_frequency must be a whole number of at least 1"),
    ({"num_unused_tokens": -1}, "num_unused_tokens must be a whole number of at least 0"),
    ({"num_processes": 0}, "num_processes must be a whole number of at least 1"),
    ({"character_coverage": 1.5}, "character_coverage must be a number above 0 and at most 1. Received: 1.5"),
    ({"input_file": "blank.txt"}, "The text has no words"),
    # The output is checked before anything is read.
    ({"input_file": "tfds:never_opened_here", "output_file": "fox.txt/out"}, "a part of the path is a file"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_cannot_be_done_is_refused(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fox.txt").write_text(FOX)
    (tmp_path / "blank.txt").write_text("\u200b\u200b\n\x01\n")
    with pytest.raises(InputError, match=message):
        build_vocabulary(**{"input_file": "fox.txt", "output_file": "out", **options})
    assert not (tmp_path / "out").exists()


def test_the_size_may_be_that_of_the_characters(tmp_path):
    (tmp_path / "text.txt").write_text(FOX)
    assert len(build_vocabulary(str(tmp_path / "text.txt"), tmp_path / "vocab.txt", vocab_size=109).vocabulary) == 109


def test_bad_input_to_the_command_is_one_line(tmp_path, refused_here):
    printed = refused_here(command, f"--input_file={tmp_path}/no.txt", f"--output_file={tmp_path}/vocab.txt")
    assert printed.out == ""
    assert printed.err.splitlines()[-1] == f"error: There is no file or folder {tmp_path}/no.txt."
