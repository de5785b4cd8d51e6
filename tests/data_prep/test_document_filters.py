"""Documents that repeat an earlier one, or that the vocabulary compresses badly, are left out, always the same ones."""

import shutil

import numpy as np
import pytest
import tiny
from python_encoder import write_corpus
from small_corpora import contents, texts_of

from data_prep.create_pretraining_data import create_pretraining_data
from data_prep.pretraining.pretraining_records import PretrainingOptions
from data_prep.text import text_chunks
from data_prep.text.ordered_map import WorkerPool
from data_prep.tokenized import corpus_writer, document_filters, tokenize_text
from data_prep.tokenized.document_filters import NUM_KEYS, RepeatedDocuments, document_keys
from data_prep.tokenized.tokenize_text import TextSettings
from keras_bert.program.errors import InputError

VOCABULARY = tiny.vocabulary("alpha beta gamma", *tiny.pieces("xyz"))
TOKENS = VOCABULARY.tokens[5:]
BOTH = TextSettings(max_tokens_per_character=0.5, drop_near_duplicates=True)

pytestmark = pytest.mark.usefixtures("python_tokenizer")


def random_document(seed, num_words=60):
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(["alpha", "beta", "gamma"], num_words // 3)) for _ in range(3)]


def changed(document, word):
    """The document with one other word at its end."""
    return [*document[:-1], f"{document[-1]} {word}"]


FIRST, SECOND, THIRD = map(random_document, range(3))
# Its words are single letters, each a token: 0.5 tokens a character and more.
TABLE = ["x y z xyz zyx x"]
DOCUMENTS = [FIRST, SECOND, TABLE, changed(FIRST, "beta"), THIRD, SECOND, ["alpha"], changed(TABLE, "y"), ["alpha"]]


def test_both_filters_leave_out_their_documents_and_the_manifest_counts_them(tmp_path):
    corpus = write_corpus(tmp_path / "corpus", DOCUMENTS, VOCABULARY, settings=BOTH)
    assert texts_of(corpus) == [FIRST, SECOND, THIRD, ["alpha"]]
    counted = {"num_incompressible_documents": 2, "num_repeated_documents": 3, "num_documents": 4}
    assert {name: corpus.manifest[name] for name in counted} == counted
    corpus.verify()
    lines = document_filters.left_out_lines(corpus.manifest)
    assert [line.split(maxsplit=3)[2:] for line in lines] == [
        ["2", "documents of more than 0.5 tokens per character"],
        ["3", "documents that nearly equal an earlier one"],
    ]


def test_a_document_stays_at_the_limit_and_goes_above_it(tmp_path):
    for limit, number in ((1.0, 1), (0.99, 0)):
        settings = TextSettings(max_tokens_per_character=limit)
        documents = [["alpha"], ["xyz"]]  # one token for five characters, three for three
        corpus = write_corpus(tmp_path / f"{limit}", documents, VOCABULARY, settings=settings)
        assert corpus.num_documents == 1 + number


def test_the_number_of_equal_keys_follows_from_the_share_of_equal_groups():
    draw = np.random.default_rng(0)
    found = {}
    for num_new in (3, 25, 60, 150):
        keys = []
        for _ in range(40):
            tokens = draw.integers(0, 10_000, 300 + num_new)
            # Of 297 + num_new groups, 297 - num_new are in both.
            both = np.concatenate([tokens[:300], tokens[num_new:]])
            keys.append(document_keys(both, np.array([300, 300])))
        found[num_new] = np.mean([(one == other).any() for one, other in keys])
    shares = {num_new: (297 - num_new) / (297 + num_new) for num_new in found}
    for num_new, share in shares.items():
        assert found[num_new] == pytest.approx(1 - (1 - share**8) ** NUM_KEYS, abs=0.2)
    assert found[3] == 1.0
    assert found[150] <= 0.1


def test_memory_is_bounded_and_a_full_table_forgets_the_oldest():
    keys = document_keys(np.arange(400_000) % 65_521, np.full(1000, 400))
    repeated = RepeatedDocuments(num_places=64)
    assert repeated.is_new(keys[:8]).all()
    assert not repeated.is_new(keys[:8]).any()
    assert repeated.is_new(keys[8:]).mean() > 0.9
    assert repeated.is_new(keys[:8]).any()


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", 400)
    monkeypatch.setattr(corpus_writer, "_CHUNKS_PER_PART", 2)


@pytest.mark.usefixtures("small_parts")
def test_a_killed_run_leaves_out_the_documents_of_an_undisturbed_one(tmp_path, monkeypatch):
    write_corpus(tmp_path / "corpus", DOCUMENTS, VOCABULARY, settings=BOTH)
    whole = contents(tmp_path / "corpus")
    shutil.rmtree(tmp_path / "corpus")
    add = corpus_writer.CorpusWriter.add

    def add_or_die(self, chunk):
        if self.num_chunks == 3:
            raise KeyboardInterrupt
        add(self, chunk)

    with monkeypatch.context() as patch:
        patch.setattr(corpus_writer.CorpusWriter, "add", add_or_die)
        with pytest.raises(KeyboardInterrupt):
            write_corpus(tmp_path / "corpus", DOCUMENTS, VOCABULARY, settings=BOTH)
    assert (tmp_path / "corpus" / "progress.json").exists()
    write_corpus(tmp_path / "corpus", DOCUMENTS, VOCABULARY, settings=BOTH)
    assert contents(tmp_path / "corpus") == whole


def test_appended_text_does_not_repeat_what_is_there(tmp_path):
    write_corpus(tmp_path / "corpus", DOCUMENTS, VOCABULARY, settings=BOTH)
    (tmp_path / "more.txt").write_text("\n\n".join("\n".join(text) for text in (SECOND, random_document(9))))
    more = str(tmp_path / "more.txt")
    corpus = tokenize_text.tokenize_text(more, tmp_path / "corpus", VOCABULARY, BOTH, append=True)
    assert (corpus.num_documents, corpus.manifest["num_repeated_documents"]) == (5, 4)
    with pytest.raises(InputError, match="made with max_tokens_per_character=0.5, not None. Use the same, or name"):
        tokenize_text.tokenize_text(more, tmp_path / "corpus", VOCABULARY, append=True)


@pytest.mark.usefixtures("small_parts")
def test_several_processes_leave_out_the_same_documents(tmp_path, monkeypatch):
    monkeypatch.undo()  # worker processes use the real tokenizer
    monkeypatch.setattr(tokenize_text, "_BYTES_PER_PROCESS", 500)
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", 400)
    for settings in (BOTH, TextSettings()):
        made = []
        for num_processes in (1, 2):
            with WorkerPool(num_processes) as pool:
                write_corpus(tmp_path / "corpus", DOCUMENTS, VOCABULARY, settings=settings, pool=pool)
            made.append(contents(tmp_path / "corpus"))
            shutil.rmtree(tmp_path / "corpus")
        assert made[0] == made[1]


def test_records_are_made_of_what_is_left_and_other_filters_are_another_run(tmp_path):
    write_corpus(tmp_path / "corpus", DOCUMENTS, VOCABULARY)
    text, vocab_file = str(tmp_path / "corpus.txt"), tmp_path / "vocab.txt"
    arguments = {"output_dir": tmp_path / "records", "options": PretrainingOptions(max_seq_length=32, dupe_factor=1)}
    summary = create_pretraining_data(text, vocab_file, settings=BOTH, num_shards=1, **arguments)
    assert "left out                      3   documents that nearly equal an earlier one" in str(summary)
    with pytest.raises(InputError, match="were made with max_tokens_per_character=0.5, not None"):
        create_pretraining_data(text, vocab_file, num_shards=1, **arguments)


def test_a_text_of_which_nothing_is_left_is_refused(tmp_path):
    settings = TextSettings(max_tokens_per_character=0.1)
    with pytest.raises(InputError, match="All 9 documents of the text are left out. .* a higher max_to"):
        write_corpus(tmp_path / "corpus", DOCUMENTS, VOCABULARY, settings=settings)
    assert not (tmp_path / "corpus").exists()
