"""BEIR folders: documents are title and text, and every id must have a text."""

import json

import pytest

from data_prep.finetuning.search_collections import read_beir_folder, read_search_pairs
from keras_bert.program.errors import InputError

CORPUS = [
    {"_id": "d1", "title": "A fox", "text": "It is quick.", "metadata": {"url": "x"}},
    {"_id": "d2", "title": "", "text": "A dog"},
    {"_id": 3, "text": "A bank"},
]
QUERIES = [{"_id": "q1", "text": "fox", "metadata": {}}, {"_id": "q2", "text": "dog"}]
QRELS = "query-id\tcorpus-id\tscore\n"


def write(folder, corpus=CORPUS, queries=QUERIES, qrels=QRELS + "q1\td1\t2\nq1\td2\t0\nq2\t3\t-1\n"):
    (folder / "qrels").mkdir()
    for name, lines in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "qrels" / "test.tsv").write_text(qrels)
    return folder


def test_a_document_is_its_title_and_text_and_relevant_from_a_score_of_1(tmp_path):
    found = read_beir_folder(write(tmp_path))
    assert found.corpus == {"d1": "A fox It is quick.", "d2": "A dog", "3": "A bank"}
    assert found.queries == {"q1": "fox", "q2": "dog"}
    assert found.relevant == {"q1": {"d1"}, "q2": set()}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"corpus": [{"id": "d1", "text": "a"}]}, "corpus.jsonl: line 1: there is no column '_id' for the id"),
        ({"qrels": QRELS + "q1\td1\t0.5\n"}, "line 2: the score must be a whole number. Received: '0.5'"),
        ({"qrels": "q1\td1\t1\n" * 2}, "line 1, the header: expected the columns query-id, corpus-id, score, named in"),
        ({"qrels": "q1 0 d1 1\nq1 0 d1\n"}, "line 2 must have the 4 columns of TREC's qrels. Received: 3"),
        ({"qrels": QRELS + "q1\td9\t1\n"}, "test.tsv has no document with a score of 1 or more"),
        ({"qrels": QRELS + "q1\td1\t0\n"}, "test.tsv has no document with a score of 1 or more"),
    ],
)
def test_what_a_folder_lacks_is_named_with_its_line(parts, message, tmp_path):
    with pytest.raises(InputError, match=message):
        read_beir_folder(write(tmp_path, **parts))


FAULTS = {
    "documents without a text": {"corpus": [{"_id": "d8", "title": " ", "text": ""}, *CORPUS, {"_id": "d9"}]},
    "documents before others with the same id": {"corpus": [{**CORPUS[0], "title": "An ox"}, *CORPUS]},
    "queries without a text": {"queries": [*QUERIES, {"_id": "q3", "text": ""}]},
    "queries before others with the same id": {"queries": [{"_id": "q1", "text": "ox"}, *QUERIES]},
    "judgements of documents without a text": {"qrels": QRELS + "q1\td1\t1\nq1\td9\t1\nq2\td9\t0\n"},
    "judgements of queries without a text": {"qrels": QRELS + "q1\td1\t1\nq9\td9\t1\n"},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_left_out_and_counted_in_one_line_or_refused(fault, tmp_path, caplog):
    folder = write(tmp_path, **FAULTS[fault])
    found = read_beir_folder(folder)
    assert found.corpus == {"d1": "A fox It is quick.", "d2": "A dog", "3": "A bank"}
    assert (found.queries, found.relevant["q1"]) == ({"q1": "fox", "q2": "dog"}, {"d1"})
    count = 2 if fault in ("documents without a text", "judgements of documents without a text") else 1
    assert len(caplog.records) == 1
    assert f"left out: {count} {fault} (the first: " in caplog.text
    with pytest.raises(InputError, match=f"has {count} {fault} .*: line .*. Mend them, or leave --strict"):
        read_beir_folder(folder, strict=True)


@pytest.mark.parametrize(
    ("qrels", "names"),
    [
        (QRELS + "q1\td1\t1.0\nq1\td2\t0.0\n", {"d1"}),
        ("q1 0 d1 1\nq1 0 d2 0\nq1 Q0 3 2\n", {"d1", "3"}),
        ("q1\t0\td1\t-1\n\nq1\t0\td2\t1", {"d2"}),
    ],
)
def test_judgements_may_be_those_of_trec_and_written_as_fractions(qrels, names, tmp_path):
    folder = write(tmp_path, qrels=qrels)
    assert read_beir_folder(folder, strict=True).relevant == {"q1": names}
    (folder / "qrels" / "test.tsv").rename(folder / "qrels" / "test.qrels.txt")
    assert read_beir_folder(folder, "test.qrels").relevant == {"q1": names}


def test_flagembedding_has_lists_of_documents_that_are_right_or_wrong(tmp_path):
    rows = [{"query": "fox", "pos": ["a fox", "an ox"], "neg": ["a dog", "a cat"]}]
    rows.append({"query": "bank", "pos": ["a bank"], "neg": ["a cow"]})
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_search_pairs(path)
    assert found.relevant == {"fox": {"a fox", "an ox"}, "bank": {"a bank"}}
    assert set(found.corpus) == {text for row in rows for text in (*row["pos"], *row["neg"])}
    assert set(read_search_pairs(path, ["query", "pos"]).corpus) == {"a fox", "an ox", "a bank"}
    path.write_text('{"query": "fox", "pos": [], "neg": []}')
    with pytest.raises(InputError, match="line 1: the document in column 'pos' is \\[\\]"):
        read_search_pairs(path)


def test_missing_files_are_named_together_with_the_splits_that_are_there(tmp_path):
    (write(tmp_path) / "corpus.jsonl").unlink()
    with pytest.raises(InputError, match=r"Missing: corpus.jsonl, qrels.dev.tsv. Splits that are there: test"):
        read_beir_folder(tmp_path, "dev")
    with pytest.raises(InputError, match="Splits that are there: none"):
        read_beir_folder(tmp_path / "none")
