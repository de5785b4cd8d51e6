"""`SequenceClassifier.zero_shot`: labels without training, by a model for entailment."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tiny
from places import TESTS
from recorded_folders import recorded_folder
from tiny_models import made_signatures

from keras_bert import InputError, SequenceClassifier, serving
from keras_bert.tasks.classification.answers import LabelAnswer, LabelsAnswer, label_answers
from keras_bert.tasks.classification.zero_shot import ZeroShotTask
from run_scripts import run_classifier

pytestmark = pytest.mark.usefixtures("without_graphs")

# What transformers' pipeline gives: see parity/record_folders.py.
RECORDED = json.loads((TESTS / "family_golden" / "heads.json").read_text())
TEXTS, LABELS = RECORDED["texts"], RECORDED["labels"]
VOCABULARY = tiny.vocabulary("good bad film the this example is .")


def model_of(labels=("contradiction", "ENTAILMENT"), **arguments):
    return tiny.made(SequenceClassifier, tiny.config(VOCABULARY, hidden_size=8), VOCABULARY, labels, **arguments)


@pytest.mark.parametrize("name", ["nli_entail_first", "nli_entail_last"])
def test_scores_are_those_that_transformers_gave(name):
    model = SequenceClassifier.from_pretrained(recorded_folder("heads", name))
    for key, multi_label in (("one label", False), ("several labels", True)):
        expected = np.array(RECORDED[name][key])
        answers = model.zero_shot(TEXTS, LABELS, multi_label=multi_label)
        found = [[answer.probabilities[label] for label in LABELS] for answer in answers]
        np.testing.assert_allclose(found, expected, atol=1e-6, rtol=0)
        order = [[LABELS[number] for number in numbers] for numbers in np.argsort(-expected, axis=1)]
        assert [list(answer.probabilities) for answer in answers] == order
        assert {type(answer) for answer in answers} == {LabelsAnswer if multi_label else LabelAnswer}
        if not multi_label:
            assert [answer.label for answer in answers] == [labels[0] for labels in order]
    (alone,) = model.zero_shot(TEXTS[0], ["food"])
    assert alone.probabilities["food"] == pytest.approx(RECORDED[name]["several labels"][0][2], abs=1e-6)


@pytest.mark.parametrize("name", ["nli_entail_first", "nli_entail_last"])
def test_the_signature_gives_these_scores(name):
    model = SequenceClassifier.from_pretrained(recorded_folder("heads", name))
    ask = made_signatures(model, {"zero_shot": "This example is {}."})["zero_shot"]
    found = ask(text=tf.constant(TEXTS), labels=tf.constant([LABELS] * 3))
    np.testing.assert_allclose(found["probabilities"], RECORDED[name]["one label"], atol=1e-6, rtol=0)
    np.testing.assert_allclose(found["independent_probabilities"], RECORDED[name]["several labels"], atol=1e-6, rtol=0)
    expected = [answer.label for answer in model.zero_shot(TEXTS, LABELS)]
    assert [answer.label for answer in label_answers({key: one.numpy() for key, one in found.items()}, {})] == expected
    padded = ask(text=tf.constant(TEXTS[:2]), labels=tf.constant([[*LABELS, LABELS[0]], ["travel", "", "", ""]]))
    np.testing.assert_allclose(padded["probabilities"][0, :3], RECORDED[name]["one label"][0], atol=1e-6, rtol=0)
    assert padded["labels"][0].numpy().tolist() == [*(label.encode() for label in LABELS), b""]
    np.testing.assert_allclose(
        padded["probabilities"][1], [RECORDED[name]["several labels"][1][0], 0, 0, 0], atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("length", [12, 16])
def test_the_signature_cuts_the_text_and_leaves_the_label_whole(length):
    model = model_of(("contradiction", "neutral", "entailment"))
    model.new_parts.set_trained()
    texts, labels = ["the film is bad " * 9, "good"], ["good", "the film"]
    ask = made_signatures(model, {"zero_shot": "this example is {}.", "max_seq_length": length})["zero_shot"]
    found = ask(text=tf.constant(texts), labels=tf.constant([labels] * 2))["probabilities"]
    answers = model.zero_shot(texts, labels, "this example is {}.", max_seq_length=length)
    expected = [[answer.probabilities[label] for label in labels] for answer in answers]
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("options", [{"format": "onnx"}, pytest.param({"text_pairs": True}, marks=pytest.mark.slow)])
def test_a_loaded_export_answers_as_the_model(options, tmp_path):
    model = model_of(("contradiction", "neutral", "entailment"))
    model.new_parts.set_trained()
    loaded = serving.load(model.export_for_serving(tmp_path / "export", max_seq_length=16, **options))
    for multi_label in (False, True):
        arguments = {"hypothesis_template": "the film is {}", "multi_label": multi_label, "max_seq_length": 12}
        expected = model.zero_shot(["the film", "good " * 40], ["good", "the film"], **arguments)
        found = loaded.zero_shot(["the film", "good " * 40], ["good", "the film"], **arguments)
        assert [list(answer.probabilities) for answer in found] == [list(answer.probabilities) for answer in expected]
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.probabilities == pytest.approx(
                theirs.probabilities, abs=1e-6 if "text_pairs" in options else 1e-5
            )
    with pytest.raises(InputError, match="leaves no room for a text in rows of 16 tokens"):
        loaded.zero_shot(["good"], ["good " * 20])


def test_only_the_text_is_cut_and_the_cut_is_counted():
    task = ZeroShotTask(model_of(), ["good", "the film"])
    example_rows = task.rows(task.examples(["bad " * 20, "good"]), 12)
    texts = VOCABULARY.tokens
    rows = [" ".join(texts[number] for number in task.row_ids(example_rows, row)) for row in range(4)]
    assert rows == [
        "[CLS] bad bad bad bad [SEP] this example is good . [SEP]",
        "[CLS] bad bad bad [SEP] this example is the film . [SEP]",
        "[CLS] good [SEP] this example is good . [SEP]",
        "[CLS] good [SEP] this example is the film . [SEP]",
    ]
    assert list(example_rows.notes) == ["the examples: 1 of 2 texts were cut to 12 tokens"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": []}, "labels must be one or more different names"),
        ({"labels": ["good", "good"]}, "labels must be one or more different names"),
        ({"labels": ["good", " "]}, "labels must not be empty"),
        ({"labels": "good,bad"}, "labels must be a list. Received: 'good,bad'"),
        ({"hypothesis_template": "This is it."}, "with {} in the place of the label, such as 'This example is {}.'"),
        ({"max_seq_length": 8}, "'This example is good.' leaves no room for a text in rows of 8 tokens"),
        ({"texts": (["good"], ["bad"])}, "labels without training are for single texts"),
    ],
)
def test_what_cannot_be_asked_is_refused(arguments, message):
    with pytest.raises(InputError) as error:
        model_of().zero_shot(**{"texts": ["good"], "labels": ["good", "bad"]} | arguments)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "arguments", [{"labels": ["yes", "no"]}, {"labels": ["entail", "other"], "problem_type": "multi_label"}]
)
def test_a_model_without_entailment_is_refused_and_its_labels_are_named(arguments):
    with pytest.raises(InputError, match=f"begins with 'entail'.*with the labels {', '.join(arguments['labels'])}"):
        model_of(**arguments).zero_shot(["good"], ["good", "bad"])
    with pytest.raises(InputError, match="begins with 'entail'"):
        made_signatures(model_of(**arguments), {"zero_shot": "the {}"})


def test_the_command_writes_the_answers_of_the_model(tmp_path, done_here, refused_here):
    model = model_of()
    model.save_pretrained(tmp_path / "nli")
    (tmp_path / "test.tsv").write_text("text\nthe good film\nbad\n")
    asked = [f"--init_checkpoint={tmp_path}/nli", f"--test_file={tmp_path}/test.tsv", "--zero_shot=good,the film"]
    asked += ["--do_predict", "--hypothesis_template=the film is {}"]
    for kind, header in (("classification", "label\tprobability"), ("multi_label", "labels")):
        printed = done_here(run_classifier, *asked, f"--problem_type={kind}", f"--output_dir={tmp_path}/{kind}")
        answers = model.zero_shot(
            ["the good film", "bad"], ["good", "the film"], "the film is {}", multi_label=kind == "multi_label"
        )
        expected = [[answer.probabilities[label] for label in ("good", "the film")] for answer in answers]
        np.testing.assert_allclose(np.loadtxt(tmp_path / kind / "test_results.tsv"), expected, atol=1e-6)
        lines = (tmp_path / kind / "test_predictions.tsv").read_text().splitlines()
        assert lines[0].startswith(f"text\t{header}")
    for wrong in (["--do_eval", f"--dev_file={tmp_path}/test.tsv"], ["--problem_type=regression"]):
        printed = refused_here(run_classifier, *asked, *wrong, f"--output_dir={tmp_path}/wrong")
        assert "error: --zero_shot" in printed.err
