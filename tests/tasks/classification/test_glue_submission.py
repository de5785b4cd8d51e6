"""The files of the GLUE leaderboard: a header, an index from 0, the labels that it takes."""

import pytest

from data_prep.finetuning.glue import GLUE_TASKS
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.glue_submission import SUBMISSIONS, submission_name, write_submission


def test_labels_and_their_numbers(tmp_path):
    path = write_submission(tmp_path, "MNLI-mm", ["neutral", "entailment"])
    assert path.endswith("MNLI-mm.tsv")
    assert (tmp_path / "MNLI-mm.tsv").read_text() == "index\tprediction\n0\tneutral\n1\tentailment\n"


def test_similarities_are_cut_to_their_range(tmp_path):
    write_submission(tmp_path, "STS-B", [5.2, -0.1, 2.34567])
    assert (tmp_path / "STS-B.tsv").read_text() == "index\tprediction\n0\t5.000\n1\t0.000\n2\t2.346\n"


def test_every_task_has_its_submissions_with_its_labels():
    names = {submission_name(task, part): task for task in GLUE_TASKS for part in ("predict", "predict_mismatched")}
    assert set(names) == set(SUBMISSIONS)
    for name, task in names.items():
        assert set(SUBMISSIONS[name]) == set(GLUE_TASKS[task].labels)


@pytest.mark.parametrize(
    ("name", "predictions", "message"),
    [
        ("MNLI", ["neutral"], "no submission 'MNLI'"),
        (
            "RTE",
            ["entailment", "1"],
            "takes the labels entailment, not_entailment. Received from the model: 1",
        ),
    ],
)
def test_others_are_refused(tmp_path, name, predictions, message):
    with pytest.raises(InputError, match=message):
        write_submission(tmp_path, name, predictions)
