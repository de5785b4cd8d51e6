import json

import numpy as np
import pytest

from data_prep.tokenized_corpus import TokenizedCorpus, write_tokenized_corpus
from keras_bert.errors import InputError
from keras_bert.tokenization.vocabulary import Vocabulary

VOCABULARY = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "quick", "brown", "fox"])
DOCUMENTS = [["the quick fox", "brown"], ["fox the"], ["quick", "the the", "cat"]]


def encode(lines):
    """Words parted by spaces; an unknown one is [UNK]."""
    rows = [[VOCABULARY.ids.get(word, VOCABULARY.unk_id) for word in line.split()] for line in lines]
    return np.array([number for row in rows for number in row], np.int32), np.array([len(row) for row in rows])


def write(path, documents=None, **description):
    return write_tokenized_corpus(documents or DOCUMENTS, path, VOCABULARY, encode, description)


def documents_of(corpus):
    """The corpus as text again."""
    sentences = np.split(corpus.tokens, corpus.sentence_offsets[1:-1])
    sentences = [" ".join(VOCABULARY.tokens[number] for number in sentence) for sentence in sentences]
    bounds = corpus.document_offsets
    return [sentences[start:end] for start, end in zip(bounds[:-1], bounds[1:], strict=True)]


def test_a_corpus_gives_the_text_back(tmp_path):
    write(tmp_path / "corpus")
    corpus = TokenizedCorpus.open(tmp_path / "corpus")
    assert documents_of(corpus) == [["the quick fox", "brown"], ["fox the"], ["quick", "the the", "[UNK]"]]
    assert corpus.tokens.tolist() == [5, 6, 8, 7, 8, 5, 6, 5, 5, 1]
    assert corpus.sentence_offsets.tolist() == [0, 3, 4, 6, 7, 9, 10]
    assert corpus.document_offsets.tolist() == [0, 2, 3, 6]


def test_batches_of_any_size_give_the_same_corpus(tmp_path, monkeypatch):
    documents = [[f"the {'quick ' * (n % 7)}" for n in range(m % 5 + 1)] for m in range(40)]
    whole = write(tmp_path / "whole", documents)
    monkeypatch.setattr("data_prep.tokenized_corpus._BATCH_CHARACTERS", 50)
    in_parts = write(tmp_path / "in_parts", documents)
    assert documents_of(whole) == documents_of(in_parts)
    assert whole.manifest == in_parts.manifest


def test_the_manifest_counts_and_says_what_was_left_out(tmp_path):
    documents = [["the", "", "quick"], ["", ""], [], ["cat dog"]]
    corpus = write(tmp_path / "corpus", documents, input_file="fox.txt")
    assert corpus.manifest == {
        "format": "keras_bert tokenised corpus 1",
        "num_documents": 2,
        "num_sentences": 3,
        "num_tokens": 4,
        "num_dropped_documents": 1,
        "num_dropped_sentences": 3,
        "num_unknown_tokens": 2,
        "token_dtype": "uint16",
        "vocabulary_sha256": VOCABULARY.sha256,
        "input_file": "fox.txt",
    }
    assert (corpus.num_documents, corpus.num_sentences, corpus.num_tokens) == (2, 3, 4)
    assert documents_of(corpus) == [["the", "quick"], ["[UNK] [UNK]"]]
    assert corpus.sentence_offsets.tolist() == [0, 1, 2, 4]


def test_a_large_vocabulary_gets_four_bytes_a_token(tmp_path):
    vocabulary = Vocabulary([*VOCABULARY.tokens, *(f"word{number}" for number in range(70_000))])
    corpus = write_tokenized_corpus(
        [["x"]], tmp_path / "corpus", vocabulary, lambda lines: (np.array([70_000, 5]), np.array([2])), {}
    )
    assert corpus.tokens.tolist() == [70_000, 5]


def test_what_lies_behind_the_counts_of_the_manifest_does_not_count(tmp_path):
    corpus = write(tmp_path / "corpus")
    for name in ("tokens.bin", "sentence_offsets.bin", "document_offsets.bin"):
        with open(tmp_path / "corpus" / name, "ab") as file:
            file.write(b"\1" * 24)
    assert documents_of(TokenizedCorpus.open(tmp_path / "corpus")) == documents_of(corpus)


@pytest.mark.parametrize("name", ["tokens.bin", "sentence_offsets.bin", "document_offsets.bin"])
def test_a_file_that_is_cut_off_is_refused(tmp_path, name):
    write(tmp_path / "corpus")
    path = tmp_path / "corpus" / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=rf"{name} is cut off: \d+ bytes instead of \d+\. Make the corpus again"):
        TokenizedCorpus.open(tmp_path / "corpus")


def test_another_folder_a_damaged_manifest_and_another_vocabulary_are_refused(tmp_path):
    with pytest.raises(InputError, match="is no tokenised corpus: it has no manifest.json"):
        TokenizedCorpus.open(tmp_path)
    write(tmp_path / "corpus")
    manifest = tmp_path / "corpus" / "manifest.json"
    good = manifest.read_text()
    manifest.write_text(good[:40])
    with pytest.raises(InputError, match="manifest.json is damaged: it is not JSON"):
        TokenizedCorpus.open(tmp_path / "corpus")
    manifest.write_text(json.dumps({"format": "something else"}))
    with pytest.raises(InputError, match="expected 'keras_bert tokenised corpus 1', found 'something else'"):
        TokenizedCorpus.open(tmp_path / "corpus")
    manifest.write_text(good)
    Vocabulary([*VOCABULARY.tokens, "dog"]).save(tmp_path / "corpus" / "vocab.txt")
    with pytest.raises(InputError, match="vocab.txt is not the vocabulary that this corpus was tokenised with"):
        TokenizedCorpus.open(tmp_path / "corpus")


def test_text_without_a_token_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match="There is no text in the input: not one line yields a token"):
        write(tmp_path / "corpus", [["", ""], []])
    assert list(tmp_path.iterdir()) == []


def test_shards_deal_out_every_document_alike_and_more_documents_move_none(tmp_path):
    few = write(tmp_path / "few", [["the"]] * 2_000).shard_of_documents(8, seed=1)
    many = write(tmp_path / "many", [["the"]] * 8_000).shard_of_documents(8, seed=1)
    other_seed = write(tmp_path / "other", [["the"]] * 2_000).shard_of_documents(8, seed=2)
    assert many[:2_000].tolist() == few.tolist()
    assert (few == other_seed).mean() == pytest.approx(1 / 8, abs=0.04)
    counts = np.bincount(many, minlength=8)
    # Chi-square with 7 degrees of freedom; 45 is passed by chance once in ten million.
    assert ((counts - 1_000) ** 2 / 1_000).sum() < 45
