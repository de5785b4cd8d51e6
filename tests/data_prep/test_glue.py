import json

import pytest

from data_prep.create_finetuning_data import make_task
from data_prep.finetuning.classification_records import usual_label_column, usual_text_columns
from data_prep.finetuning.finetuning_task import FinetuningOptions
from data_prep.finetuning.glue import GLUE_TASKS, find_task
from data_prep.finetuning.labelled_text import read_labelled_text, read_scored_text
from keras_bert.program.errors import InputError

# The first line of each official file: the header, or a row if there is no header.
STS_B = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
MNLI = "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
MNLI += "sentence2_parse\tsentence1\tsentence2"
PAIRS = "index\tsentence1\tsentence2"
HEADERS = {
    "SST-2": ("sentence\tlabel", "index\tsentence"),
    "MRPC": ("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", "index\t#1 ID\t#2 ID\t#1 String\t#2 String"),
    "QQP": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "id\tquestion1\tquestion2"),
    "STS-B": (f"{STS_B}\tscore", STS_B),
    "MNLI": (f"{MNLI}\tlabel1\tgold_label", MNLI),
    "QNLI": ("index\tquestion\tsentence\tlabel", "index\tquestion\tsentence"),
    "RTE": (f"{PAIRS}\tlabel", PAIRS),
    "WNLI": (f"{PAIRS}\tlabel", PAIRS),
    "AX": (None, PAIRS),
}
FIRST = {"sentence", "#1 String", "question1", "sentence1"}


@pytest.mark.parametrize("name", HEADERS)
def test_columns_are_found_in_the_official_headers(name, tmp_path):
    task = GLUE_TASKS[name]
    read = read_labelled_text if task.labels else read_scored_text
    for part, header in zip(("train", "predict"), HEADERS[name], strict=True):
        if header is None:
            continue
        names = header.removeprefix("\ufeff").split("\t")
        row = [f"<{column}>" for column in names]
        label = {"label", "Quality", "is_duplicate", "score", "gold_label"} & set(names)
        if label:
            row[names.index(label.pop())] = "1.5" if not task.labels else "1"
        path = tmp_path / f"{part}.tsv"
        path.write_text(header + "\n" + "\t".join(row) + "\n", "utf-8")
        found = read(path, **task.columns(part))
        expected_second = {"QNLI": "<sentence>", "MRPC": "<#2 String>", "QQP": "<question2>"}.get(name, "<sentence2>")
        expected_first = "<question>" if name == "QNLI" else f"<{(FIRST & set(names)).pop()}>"
        assert found.texts == [expected_first]
        assert found.second_texts == (None if name == "SST-2" else [expected_second])
        assert found.labels == (None if part == "predict" else [1.5] if name == "STS-B" else ["1"])


def test_only_the_test_file_of_cola_has_a_header(tmp_path):
    (tmp_path / "train.tsv").write_text("gj04\t1\t\tA sentence.\n")
    (tmp_path / "test.tsv").write_text("index\tsentence\n0\tAnother.\n")
    task = GLUE_TASKS["CoLA"]
    files = task.find_files(tmp_path)
    assert list(files) == ["train", "predict"]
    train = read_labelled_text(files["train"], **task.columns("train"))
    assert (train.texts, train.labels) == (["A sentence."], ["1"])
    assert read_labelled_text(files["predict"], **task.columns("predict")).texts == ["Another."]


def test_the_tasks_in_the_folder_of_real_data_are_whole(shared_data):
    for name, size in {"CoLA": (8551, 1043), "SST-2": (67349, 872), "MRPC": (3668, 408)}.items():
        task = GLUE_TASKS[name]
        files = task.find_files(shared_data("glue", name))
        for part, rows in zip(("train", "eval"), size, strict=True):
            found = read_labelled_text(files[part], **task.columns(part))
            assert len(found.texts) == rows
            assert set(found.labels) == set(task.labels)


def test_mnli_has_two_files_to_evaluate_on(tmp_path):
    for name in ("train", "dev_matched", "dev_mismatched", "test_mismatched"):
        (tmp_path / f"{name}.tsv").touch()
    assert list(GLUE_TASKS["MNLI"].find_files(tmp_path)) == ["train", "eval", "eval_mismatched", "predict_mismatched"]


def test_the_original_files_of_mrpc_are_known(tmp_path):
    for name in ("train", "test"):
        (tmp_path / f"msr_paraphrase_{name}.txt").touch()
    assert list(GLUE_TASKS["MRPC"].find_files(tmp_path)) == ["train", "eval"]


def test_names_are_found_however_they_are_written():
    assert [find_task(name)[0] for name in ("cola", "sst2", "STS_B", "mnli")] == ["CoLA", "SST-2", "STS-B", "MNLI"]
    with pytest.raises(InputError, match="task_name must be a task of GLUE: CoLA, .* Received: 'squad'"):
        find_task("squad")


def test_a_folder_without_the_files_is_refused(tmp_path):
    with pytest.raises(InputError, match="has none of the task's files: train.tsv, dev.tsv, test.tsv"):
        GLUE_TASKS["RTE"].find_files(tmp_path)


def test_labels_of_hugging_face_become_the_official_ones():
    labels = ["entailment", "neutral", "contradiction", "neutral"]
    assert GLUE_TASKS["MNLI"].official_labels(["0", "1", "2", "neutral"]) == labels
    assert GLUE_TASKS["WNLI"].official_labels(["entailment", "0"]) == ["1", "0"]
    assert GLUE_TASKS["CoLA"].official_labels(["unacceptable", "1", "odd"]) == ["0", "1", "odd"]


def test_every_task_with_labels_knows_those_of_hugging_face():
    for name, task in GLUE_TASKS.items():
        if name != "AX":
            assert sorted(task.hub_labels.values()) == sorted(task.labels), name


def test_json_lines_of_a_task_are_read_by_their_usual_columns(tmp_path):
    rows = [
        {"idx": 0, "premise": "It rains.", "hypothesis": "It snows.", "label": 2},
        {"idx": 1, "premise": "It rains.", "hypothesis": "It is wet.", "label": 0},
    ]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    maker = make_task("classification", FinetuningOptions(), GLUE_TASKS["MNLI"])
    maker.read("train", str(tmp_path / "train.jsonl"))
    maker.settle()
    found = maker.examples["train"]
    assert found.second_texts == ["It snows.", "It is wet."]
    assert found.labels == ["contradiction", "entailment"]
    assert maker.labels == ["contradiction", "entailment", "neutral"]


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["label", "text"], ("text", None)),
        (["idx", "sentence", "label"], ("sentence", None)),
        (["label", "sentence2", "sentence1", "text"], ("sentence1", "sentence2")),
        (["hypothesis", "premise"], ("premise", "hypothesis")),
        (["question", "sentence"], ("question", "sentence")),
        (["question", "label"], ("text", None)),
        ([0, "0", 1, "1"], ("text", None)),
    ],
)
def test_columns_of_texts_have_their_usual_names(names, columns):
    assert usual_text_columns(names) == columns


@pytest.mark.parametrize(
    ("names", "column"), [(["text", "label"], "label"), (["score", "text"], "score"), ([], "label")]
)
def test_columns_of_labels_have_their_usual_names(names, column):
    assert usual_label_column(names) == column
