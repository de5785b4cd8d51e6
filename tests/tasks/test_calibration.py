"""Calibration: the temperature against scipy's search, the error against a plain formula, and where it is kept."""

import importlib
import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from signature_questions import as_tensors
from slow_parameters import slow_except
from tiny_models import CHOICES, CONFIG, SECOND_TEXTS, TEXTS, VOCABULARY, made_signatures

from keras_bert.program.errors import InputError
from keras_bert.tasks import calibration
from keras_bert.tasks.calibration import (
    confidences,
    draw_reliability,
    expected_calibration_error,
    fit_temperature,
)
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.multiple_choice.model import MultipleChoice
from keras_bert.tasks.question_answering.model import SpanClassifier
from keras_bert.tasks.question_answering.scores import normalized_answer
from keras_bert.tasks.tagging.model import TokenClassifier

GENERATOR = np.random.default_rng(0)
LOGITS = GENERATOR.normal(size=(4000, 3)) * 4
# The right labels are drawn from a softmax at the temperature 2.5, so the logits are too sure.
NOISE = GENERATOR.gumbel(size=LOGITS.shape)
GOLD = (LOGITS / 2.5 + NOISE).argmax(axis=1)


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def loss(temperature):
    return -np.log(softmax(LOGITS / temperature)[np.arange(len(GOLD)), GOLD]).mean()


def test_the_temperature_minimises_the_loss():
    found = fit_temperature(LOGITS, GOLD)
    assert found == pytest.approx(minimize_scalar(loss, bounds=(0.1, 20), method="bounded").x, rel=1e-4)
    assert found == pytest.approx(2.5, rel=0.04)


def test_independent_labels_have_a_temperature_too():
    gold = (GENERATOR.random(LOGITS.shape) < 1 / (1 + np.exp(-LOGITS / 3))).astype(np.int32)

    def binary_loss(temperature):
        return np.logaddexp(0, np.where(gold == 1, -1, 1) * LOGITS / temperature).mean()

    best = minimize_scalar(binary_loss, bounds=(0.1, 20), method="bounded").x
    assert fit_temperature(LOGITS, gold) == pytest.approx(best, rel=1e-4)


def test_the_calibration_error_equals_a_plain_formula():
    probabilities = softmax(LOGITS)
    confidence, is_right = confidences(probabilities, GOLD)
    expected = 0.0
    for low in np.arange(15) / 15:
        inside = [n for n in range(len(GOLD)) if low < probabilities[n].max() <= low + 1 / 15]
        if inside:
            accuracy = np.mean([probabilities[n].argmax() == GOLD[n] for n in inside])
            expected += abs(accuracy - np.mean([probabilities[n].max() for n in inside])) * len(inside) / len(GOLD)
    assert expected_calibration_error(confidence, is_right) == pytest.approx(expected, abs=1e-12)
    assert expected > 0.1


def test_examples_that_determine_no_temperature_are_refused():
    with pytest.raises(InputError, match="2 examples determine no temperature: the answers to them are all right"):
        fit_temperature([[1.0, 0.0], [0.0, 3.0]], [0, 1])
    with pytest.raises(InputError, match="or the model is no better than chance"):
        fit_temperature([[1.0, 0.0], [0.0, 3.0]], [1, 0])


@pytest.fixture(scope="module")
def calibrated():
    keras.utils.set_random_seed(1)
    model = SequenceClassifier(CONFIG, labels=["a", "b"])
    model.vocabulary = VOCABULARY
    texts = TEXTS[:7]
    logits = np.log([[*answer.probabilities.values()] for answer in model.predict(texts)])
    labels = [model.labels[number] for number in logits.argmax(axis=1)]
    labels[0] = {"a": "b", "b": "a"}[labels[0]]
    before = [answer.label for answer in model.predict(texts)]
    found = model.calibrate(texts, labels)
    expected = softmax(logits / found.temperature)
    assert [answer.label for answer in model.predict(texts)] == before
    return model, texts, labels, found, expected


def probabilities_of(answers):
    return np.array([[*answer.probabilities.values()] for answer in answers])


def test_predictions_and_every_kind_of_file_are_calibrated(calibrated, tmp_path):
    model, texts, _, found, expected = calibrated
    assert model.temperature == pytest.approx(found.temperature)
    assert abs(np.log(found.temperature)) > 0.05
    np.testing.assert_allclose(probabilities_of(model.predict(texts)), expected, atol=1e-5)
    model.save_pretrained(tmp_path / "folder")
    model.save(tmp_path / "model.keras")
    model.save_pretrained(tmp_path / "huggingface", format="huggingface")
    folder = SequenceClassifier.from_pretrained(tmp_path / "folder")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    for other in (folder, restored, SequenceClassifier.from_pretrained(tmp_path / "huggingface")):
        np.testing.assert_allclose(probabilities_of(other.predict(texts)), expected, atol=1e-5)
    assert folder.temperature == restored.temperature == model.temperature
    card = (tmp_path / "folder" / "README.md").read_text("utf-8")
    assert f"by the temperature {model.temperature:.4g}, on held-out texts" in card


# Other tasks are exported as ONNX below.
@pytest.mark.parametrize("format", slow_except(["saved_model"], ["saved_model", "onnx", "litert"]))
def test_exports_are_calibrated(calibrated, tmp_path, format):
    from keras_bert.serving import load

    model, texts, labels, found, expected = calibrated
    loaded = load(model.export_for_serving(tmp_path / format, format=format))
    np.testing.assert_allclose(probabilities_of(loaded.predict(texts)), expected, atol=1e-5)
    assert loaded.evaluate(texts, labels)["accuracy"] == model.evaluate(texts, labels, verbose=0)["accuracy"]


WORDS = [["the", "fox", "walked"], ["a", "тест", "of", "Größe"], ["zoo", "."], ["one", "two", "three", "of", "x"]]
# Model class, its arguments, what it is asked, and the unnormalised scores in each answer.
OTHER_TASKS = {
    "tags": (
        TokenClassifier,
        {"labels": ["O", "B-PER", "B-LOC"]},
        WORDS * 4,
        lambda answers: [scores for answer in answers for scores in answer.log_probabilities],
    ),
    "answers": (
        SpanClassifier,
        {"null_threshold": -3.0, "doc_stride": 8},
        ([*SECOND_TEXTS[:4], "who?"] * 3, [text for text in (TEXTS[0], TEXTS[1], TEXTS[4]) for _ in range(5)]),
        lambda answers: [np.array([one.start_logit + one.end_logit for one in answer.nbest]) for answer in answers],
    ),
    "choices": (
        MultipleChoice,
        {},
        (TEXTS[:7], (CHOICES * 3)[:7]),
        lambda answers: [np.log(answer.probabilities) for answer in answers],
    ),
}


def model_of(name):
    keras.utils.set_random_seed(2)
    model_class, arguments, x, scores_of = OTHER_TASKS[name]
    model = model_class(CONFIG.replace(num_hidden_layers=1), **arguments)
    model.vocabulary = VOCABULARY
    bias = getattr(model, model.logits_layer).weights[-1]
    bias.assign(keras.random.normal(bias.shape))  # a bias of 0, as in a new model, hides that it is not divided
    return model, x, scores_of


def drawn_gold(name, x, answers, scores):
    """Draws right answers from the softmax of the scores at half the temperature; returns labels and their numbers."""
    draw = np.random.default_rng({"choices": 8}.get(name, 5))  # with gains on so few examples
    gold = [int((row / 2 + draw.gumbel(size=len(row))).argmax()) for row in scores]
    if name == "choices":
        return gold, gold
    if name == "tags":
        names = iter(OTHER_TASKS[name][1]["labels"][number] for number in gold)
        return [[next(names) for _ in words] for words in x], gold
    labels = [answer.nbest[number] for answer, number in zip(answers, gold, strict=True)]
    texts = [[normalized_answer(one.text) for one in answer.nbest] for answer in answers]
    gold = [text.index(normalized_answer(label.text)) for text, label in zip(texts, labels, strict=True)]
    return [{"text": one.text, "answer_start": one.start} if one.text else None for one in labels], gold


@pytest.fixture(scope="module", params=OTHER_TASKS)
def calibrated_task(request):
    """Name, calibrated model, its inputs, its answers before, and the unnormalised scores that they should have now."""
    model, x, scores_of = model_of(request.param)
    before = model.predict(x)
    scores = scores_of(before)
    labels, gold = drawn_gold(request.param, x, before, scores)

    def loss(temperature):
        return -sum(log_softmax(row / temperature)[number] for row, number in zip(scores, gold, strict=True))

    found = model.calibrate(x, labels)
    best = minimize_scalar(loss, bounds=(0.02, 50), method="bounded", options={"xatol": 1e-6}).x
    assert model.temperature == found.temperature == pytest.approx(best, rel=1e-3)
    assert abs(np.log(best)) > 0.1
    return request.param, model, x, before, [log_softmax(row / found.temperature) for row in scores]


def test_tags_answers_and_choices_are_calibrated(calibrated_task, tmp_path):
    name, model, x, before, expected = calibrated_task
    model.save_pretrained(tmp_path / "folder")
    folder = type(model).from_pretrained(tmp_path / "folder")
    assert folder.temperature == model.temperature
    for answers in (model.predict(x), folder.predict(x)):
        for one, other in zip(OTHER_TASKS[name][3](answers), expected, strict=True):
            np.testing.assert_allclose(np.exp(log_softmax(one)), np.exp(other), atol=1e-5)
        assert shown(answers) == shown(before)
    if name == "answers":
        assert {answer.text == "" for answer in before} == {True, False}
        assert model.null_threshold == pytest.approx(-3.0 / model.temperature)


def shown(answers):
    return [[getattr(answer, name, None) for name in ("tags", "text", "choice")] for answer in answers]


# The probabilities in each answer, by the names of the outputs of a signature; and the signature with its inputs.
PROBABILITIES = {
    "tags": {
        "probabilities": lambda answer: answer.probabilities,
        "entity_probabilities": lambda answer: [entity.probability for entity in answer.entities],
    },
    "answers": {
        "probabilities": lambda answer: [one.probability for one in answer.nbest],
        "probability": lambda answer: answer.probability,
    },
    "choices": {"probabilities": lambda answer: answer.probabilities},
}
ASKED = {
    "tags": lambda x: (
        "words",
        {"words": [words + [""] * (5 - len(words)) for words in x], "num_words": [len(words) for words in x]},
    ),
    "answers": lambda x: ("serving_default", {"question": x[0], "context": x[1]}),
    "choices": lambda x: ("serving_default", {"prompt": x[0], "choices": x[1]}),
}


def assert_served_probabilities(signatures, name, x, answers):
    """Compares the probabilities of a signature, which computes its answers in the graph, with those of answers."""
    signature, inputs = ASKED[name](x)
    found = signatures[signature](**as_tensors(inputs))
    for output, probabilities_in in PROBABILITIES[name].items():
        for row, answer in zip(found[output].numpy(), answers, strict=True):
            expected = np.atleast_1d(probabilities_in(answer))
            filled = np.pad(expected, (0, np.size(row) - len(expected)))
            np.testing.assert_allclose(np.atleast_1d(row), filled, atol=1e-5, err_msg=output)
        assert found[output].numpy().any()


def test_signatures_have_the_calibrated_probabilities(calibrated_task, without_graphs):
    name, model, x, _, _ = calibrated_task
    assert_served_probabilities(made_signatures(model, {}), name, x, model.predict(x))


@pytest.mark.parametrize("format", slow_except(["onnx"], ["onnx", "saved_model"]))
def test_exports_of_tags_answers_and_choices_have_the_calibrated_probabilities(calibrated_task, format, tmp_path):
    from keras_bert.serving import load

    name, model, x, before, _ = calibrated_task
    folder = model.export_for_serving(tmp_path / format, format=format)
    expected, exported = model.predict(x), load(folder).predict(x)
    for probabilities_in in PROBABILITIES[name].values():
        for one, other in zip(exported, expected, strict=True):
            np.testing.assert_allclose(probabilities_in(one), probabilities_in(other), atol=1e-5)
    assert shown(exported) == shown(before)
    if format == "saved_model":
        loaded = tf.saved_model.load(folder)
        assert_served_probabilities(loaded.signatures, name, x, expected)


def test_questions_without_a_right_answer_among_the_best_determine_nothing():
    scores, gold = np.array([[2.0, 1.0], [1.0, 0.0], [4.0, 0.0], [3.0, 0.0]]), np.array([0, 1, 0, -1])
    assert fit_temperature(scores, gold) == fit_temperature(scores[:3], gold[:3])
    with pytest.raises(InputError, match="0 examples determine no temperature"):
        fit_temperature(scores, [-1] * 4)


def test_calibrating_twice_changes_nothing_more_and_training_ends_it(calibrated, tmp_path, eagerly):
    model, texts, labels, found, _ = calibrated
    copy = SequenceClassifier.from_pretrained(_saved(model, tmp_path))
    again = copy.calibrate(texts, labels)
    assert again.temperature == pytest.approx(1, abs=1e-3)
    assert copy.temperature == pytest.approx(found.temperature, rel=1e-3)
    assert again.error_before == pytest.approx(found.error_after, abs=1e-4)
    copy.fit(texts, labels, epochs=1, verbose=0)
    assert copy.temperature == 1.0
    others = SequenceClassifier.from_pretrained(tmp_path / "saved", labels=["x", "y"])
    assert others.temperature == 1.0


def _saved(model, tmp_path):
    model.save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def test_a_temperature_that_makes_the_calibration_worse_is_not_taken(calibrated, monkeypatch, capsys):
    model, texts, labels, _, _ = calibrated
    weights, temperature = [weight.numpy() for weight in model.weights], model.temperature
    errors = iter([0.25, 0.5])
    monkeypatch.setattr(calibration, "expected_calibration_error", lambda *sure: next(errors))
    found = model.calibrate(texts, labels[::-1])
    assert (found.temperature, found.error_before, found.error_after) == (1.0, 0.25, 0.25)
    assert model.temperature == temperature
    for weight, before in zip(model.weights, weights, strict=True):
        np.testing.assert_array_equal(weight.numpy(), before)
    assert f"The model keeps its temperature of {temperature:.4g}: divided by" in capsys.readouterr().out


def test_a_score_cannot_be_calibrated():
    model = SequenceClassifier(CONFIG, ["score"], problem_type="regression")
    model.vocabulary = VOCABULARY
    with pytest.raises(InputError, match="This SequenceClassifier gives no probabilities"):
        model.calibrate(["the fox"], [0.5])


def test_the_reliability_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    assert draw_reliability(tmp_path / "reliability.png", *confidences(softmax(LOGITS), GOLD))
    assert (tmp_path / "reliability.png").read_bytes().startswith(b"\x89PNG")


def reported_error(folder):
    text, _, table = (folder / "reliability.txt").read_text("utf-8").partition("\n\n")
    name, _, count = text.removeprefix("expected calibration error ").partition(" on ")
    assert sum(int(line.split()[0]) for line in table.splitlines()[1:]) == int(count.split()[0])
    return float(name)


def as_file(name, x, labels):
    """Returns labelled examples as JSON Lines that the command of a task reads."""
    if name == "tags":
        rows = [{"tokens": words, "tags": tags} for words, tags in zip(x, labels, strict=True)]
    elif name == "choices":
        rows = [{"text": prompt, "choices": of, "label": gold} for prompt, of, gold in zip(*x, labels, strict=True)]
    else:
        lists = [{key: [value] for key, value in (label or {}).items()} for label in labels]
        rows = [
            {"id": str(number), "question": question, "context": context, "answers": {"text": [], **answers}}
            for number, (question, context, answers) in enumerate(zip(*x, lists, strict=True))
        ]
    return "\n".join(map(json.dumps, rows))


COMMANDS = {
    "tags": ("run_ner", ["--do_eval", "--dev_file=dev.jsonl"]),
    "answers": ("run_squad", ["--do_predict", "--predict_file=dev.jsonl"]),
    "choices": ("run_multiple_choice", ["--do_eval", "--dev_file=dev.jsonl", "--choice_columns=choices"]),
}


@pytest.mark.parametrize("name", slow_except(["answers"], OTHER_TASKS))
def test_the_command_calibrates_the_model_of_a_run(name, tmp_path, run_here, monkeypatch):
    model, x, scores_of = model_of(name)
    monkeypatch.chdir(tmp_path)
    model.save_pretrained("start")
    before = model.predict(x)
    labels, _ = drawn_gold(name, x, before, scores_of(before))
    pathlib.Path("dev.jsonl").write_text(as_file(name, x, labels), "utf-8")
    command, flags = COMMANDS[name]
    module = importlib.import_module(f"run_scripts.{command}")
    code, output = run_here(module, *flags, "--init_checkpoint=start", "--output_dir=run", "--calibrate")
    assert code == 0, output.err
    saved = type(model).from_pretrained("run/model")
    expected = model.calibrate(x, labels)
    assert saved.temperature == pytest.approx(expected.temperature, rel=1e-4)
    after = float(output.out.split(" before and ")[1].split()[0])
    assert after == pytest.approx(expected.error_after, abs=1e-3)
    assert reported_error(tmp_path / "run" / ("" if name == "answers" else "eval_report")) == pytest.approx(
        after, abs=2e-4
    )
    if name == "answers":  # they have the probabilities of the calibrated model
        written = json.loads(pathlib.Path("run/nbest_predictions.json").read_text("utf-8"))
        for entries, answer in zip(written.values(), model.predict(x), strict=True):
            expected = [one.probability for one in answer.nbest]
            np.testing.assert_allclose([entry["probability"] for entry in entries], expected, atol=1e-4)


def test_the_command_calibrates_the_model_of_a_run_and_explains_it(tmp_path, run_here, calibrated):
    from run_scripts import run_classifier

    model, texts, labels, _, _ = calibrated
    model.save_pretrained(tmp_path / "start")
    texts = [text.replace("\t", " ").replace("\0", "") for text in texts]
    lines = [f"{text}\t{label}" for text, label in zip(texts, labels, strict=True)]
    (tmp_path / "dev.tsv").write_text("\n".join(["text\tlabel", *lines, f"{texts[1]}\t{labels[0]}"]), "utf-8")
    code, output = run_here(
        run_classifier,
        *(f"--init_checkpoint={tmp_path}/start", f"--output_dir={tmp_path}/run", "--do_eval", "--do_predict"),
        *(f"--dev_file={tmp_path}/dev.tsv", f"--test_file={tmp_path}/dev.tsv"),
        *("--calibrate", f"--explain={tmp_path}/why.html"),
    )
    assert code == 0, output.err
    assert "Calibrated on 8 examples: temperature" in output.out
    after = float(output.out.split(" before and ")[1].split()[0])
    assert reported_error(tmp_path / "run" / "eval_report") == pytest.approx(after, abs=2e-4)
    saved = SequenceClassifier.from_pretrained(tmp_path / "run" / "model")
    assert saved.temperature not in (1.0, model.temperature)
    assert (tmp_path / "why.html").read_text("utf-8").count("<section>") == 8
