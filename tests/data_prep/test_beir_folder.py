"""BEIR folders: documents are title and text, and every id must have a text."""

import json

import pytest

from data_prep.finetuning.beir_folder import read_beir_folder
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
        ({"corpus": [{"_id": "d1", "title": " ", "text": ""}]}, "corpus.jsonl: line 1: the document has no text"),
        ({"corpus": [{"_id": "d1", "text": None}]}, "corpus.jsonl: line 1: the document has no text"),
        ({"corpus": [{"id": "d1", "text": "a"}]}, "corpus.jsonl: line 1: there is no column '_id' for the id"),
        ({"corpus": [*CORPUS, CORPUS[0]]}, "corpus.jsonl: line 4: the id 'd1' occurs twice"),
        ({"queries": [{"_id": "q1", "text": ""}]}, "queries.jsonl: line 1: the query in column 'text' is empty"),
        ({"qrels": QRELS + "q1\td9\t1\n"}, r"test.tsv: line 2: .*corpus.jsonl has no document 'd9'"),
        ({"qrels": QRELS + "q9\td1\t1\n"}, r"test.tsv: line 2: .*queries.jsonl has no query 'q9'"),
        ({"qrels": QRELS + "q1\td1\t0.5\n"}, "line 2: the score must be a whole number. Received: '0.5'"),
        ({"qrels": "q1\t0\td1\t1\n" * 2}, "line 2: expected the columns query-id, corpus-id, score, named in a header"),
        ({"qrels": QRELS + "q1\td1\t0\n"}, "test.tsv has no document with a score of 1 or more"),
    ],
)
def test_what_a_folder_lacks_is_named_with_its_line(parts, message, tmp_path):
    with pytest.raises(InputError, match=message):
        read_beir_folder(write(tmp_path, **parts))


def test_missing_files_are_named_together_with_the_splits_that_are_there(tmp_path):
    (write(tmp_path) / "corpus.jsonl").unlink()
    with pytest.raises(InputError, match=r"Missing: corpus.jsonl, qrels.dev.tsv. Splits that are there: test"):
        read_beir_folder(tmp_path, "dev")
    with pytest.raises(InputError, match="Splits that are there: none"):
        read_beir_folder(tmp_path / "none")
