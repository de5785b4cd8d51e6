"""Calibration: the temperature against scipy's search, the error against a plain formula, and where it is kept."""

import importlib
import json
import pathlib
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tiny
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from slow_parameters import slow_except
from tiny_models import CHOICES, CONFIG, SECOND_TEXTS, TEXTS, VOCABULARY

from keras_bert import InputError, MultipleChoice, SequenceClassifier, SpanClassifier, TokenClassifier
from keras_bert.tasks import calibration
from keras_bert.tasks.calibration import confidences, expected_calibration_error, fit_temperature
from keras_bert.tasks.question_answering.scores import normalized_answer

GENERATOR = np.random.default_rng(0)
LOGITS = GENERATOR.normal(size=(4000, 3)) * 4
# The right labels are drawn from a softmax at the temperature 2.5, so the logits are too sure.
NOISE = GENERATOR.gumbel(size=LOGITS.shape)
GOLD = (LOGITS / 2.5 + NOISE).argmax(axis=1)


def loss(temperature):
    return -np.log(softmax(LOGITS / temperature, axis=1)[np.arange(len(GOLD)), GOLD]).mean()


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
    probabilities = softmax(LOGITS, axis=1)
    confidence, is_right = confidences(probabilities, GOLD)
    expected = 0.0
    for low in np.arange(15) / 15:
        inside = [n for n in range(len(GOLD)) if low < probabilities[n].max() <= low + 1 / 15]
        if inside:
            accuracy = np.mean([probabilities[n].argmax() == GOLD[n] for n in inside])
            expected += abs(accuracy - np.mean([probabilities[n].max() for n in inside])) * len(inside) / len(GOLD)
    assert expected_calibration_error(confidence, is_right) == pytest.approx(expected, abs=1e-12)
    assert expected > 0.1


@pytest.mark.parametrize(
    ("scores", "gold", "message"),
    [
        ([[1.0, 0.0], [0.0, 3.0]], [0, 1], "2 examples determine no temperature: .* all right"),
        ([[1.0, 0.0], [0.0, 3.0]], [1, 0], "no better than chance"),
        ([[2.0, 1.0]], [-1], "0 examples determine no temperature"),
    ],
)
def test_examples_that_determine_no_temperature_are_refused(scores, gold, message):
    with pytest.raises(InputError, match=message):
        fit_temperature(np.array(scores), np.array(gold))


WORDS = [["the", "fox", "walked"], ["a", "тест", "of", "Größe"], ["zoo", "."], ["one", "two", "three", "of", "x"]]
# Model class, its arguments, what it is asked, and the unnormalised scores in each answer.
TASKS = {
    "labels": (
        SequenceClassifier,
        {"labels": ["a", "b"]},
        [f"{one} {other}" for one in ("the", "fox", "a zoo") for other in ("of", "is", "Größe", "walked", "one two")],
        lambda answers: [np.log([*answer.probabilities.values()]) for answer in answers],
    ),
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
    model_class, arguments, x, scores_of = TASKS[name]
    model = tiny.made(model_class, CONFIG.replace(num_hidden_layers=1), VOCABULARY, seed=2, **arguments)
    bias = getattr(model, model.logits_layer).weights[-1]
    bias.assign(keras.random.normal(bias.shape))  # a bias of 0, as in a new model, hides that it is not divided
    return model, x, scores_of


def drawn_gold(name, x, answers, scores):
    """Draws right answers from the softmax of the scores at half the temperature; returns labels and their numbers."""
    draw = np.random.default_rng({"choices": 8}.get(name, 5))  # with gains on so few examples
    gold = [int((row / 2 + draw.gumbel(size=len(row))).argmax()) for row in scores]
    if name == "choices":
        return gold, gold
    if name == "answers":
        labels = [answer.nbest[number] for answer, number in zip(answers, gold, strict=True)]
        texts = [[normalized_answer(one.text) for one in answer.nbest] for answer in answers]
        gold = [text.index(normalized_answer(label.text)) for text, label in zip(texts, labels, strict=True)]
        return [{"text": one.text, "answer_start": one.start} if one.text else None for one in labels], gold
    names = [TASKS[name][1]["labels"][number] for number in gold]
    if name == "labels":
        return names, gold
    ends = np.cumsum([len(words) for words in x])
    return [names[end - len(words) : end] for words, end in zip(x, ends, strict=True)], gold


@pytest.fixture(scope="module", params=TASKS)
def calibrated(request):
    """A calibrated model, its inputs and labels, its answers before, and the scores that they should have now."""
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
    expected = [log_softmax(row / found.temperature) for row in scores]
    task = {"name": request.param, "scores_of": scores_of, "model": model, "x": x, "labels": labels}
    return SimpleNamespace(**task, before=before, found=found, expected=expected)


of_labels = pytest.mark.parametrize("calibrated", ["labels"], indirect=True)


def assert_calibrated(model, of):
    assert model.temperature == of.model.temperature
    answers = model.predict(of.x)
    for one, other in zip(of.scores_of(answers), of.expected, strict=True):
        np.testing.assert_allclose(np.exp(log_softmax(one)), np.exp(other), atol=1e-5)
    assert shown(answers) == shown(of.before)


def test_predictions_and_folders_are_calibrated(calibrated, tmp_path):
    model = calibrated.model
    assert_calibrated(model, calibrated)
    model.save_pretrained(tmp_path / "folder")
    assert_calibrated(type(model).from_pretrained(tmp_path / "folder"), calibrated)
    card = (tmp_path / "folder" / "README.md").read_text("utf-8")
    assert f"by the temperature {model.temperature:.4g}, on held-out texts" in card
    if calibrated.name == "answers":
        assert {answer.text == "" for answer in calibrated.before} == {True, False}
        assert model.null_threshold == pytest.approx(-3.0 / model.temperature)


@of_labels
def test_files_of_keras_and_transformers_are_calibrated(calibrated, tmp_path):
    calibrated.model.save(tmp_path / "model.keras")
    assert_calibrated(keras.saving.load_model(tmp_path / "model.keras"), calibrated)
    calibrated.model.save_pretrained(tmp_path / "folder", format="huggingface")
    found = SequenceClassifier.from_pretrained(tmp_path / "folder").predict(calibrated.x)
    np.testing.assert_allclose(calibrated.scores_of(found), calibrated.expected, atol=1e-4)


def shown(answers):
    return [[getattr(answer, name, None) for name in ("label", "tags", "text", "choice")] for answer in answers]


# The probabilities in each answer.
PROBABILITIES = {
    "labels": [lambda answer: [*answer.probabilities.values()]],
    "tags": [lambda answer: answer.probabilities, lambda answer: [entity.probability for entity in answer.entities]],
    "answers": [lambda answer: [one.probability for one in answer.nbest], lambda answer: answer.probability],
    "choices": [lambda answer: answer.probabilities],
}


def test_exports_have_the_calibrated_probabilities(calibrated, tmp_path):
    from keras_bert.serving import load

    expected = calibrated.model.predict(calibrated.x)
    exported = load(calibrated.model.export_for_serving(tmp_path / "onnx", format="onnx")).predict(calibrated.x)
    for probabilities_in in PROBABILITIES[calibrated.name]:
        for one, other in zip(exported, expected, strict=True):
            np.testing.assert_allclose(probabilities_in(one), probabilities_in(other), atol=1e-5)
    assert shown(exported) == shown(calibrated.before)


@of_labels
def test_calibrating_twice_changes_nothing_more_and_training_ends_it(calibrated, tmp_path, eagerly):
    model, texts, labels = calibrated.model, calibrated.x, calibrated.labels
    model.save_pretrained(tmp_path / "saved")
    copy = SequenceClassifier.from_pretrained(tmp_path / "saved")
    again = copy.calibrate(texts, labels)
    assert again.temperature == pytest.approx(1, abs=1e-3)
    assert copy.temperature == pytest.approx(model.temperature, rel=1e-3)
    assert again.error_before == pytest.approx(calibrated.found.error_after, abs=1e-4)
    copy.fit(texts, labels, epochs=1, verbose=0)
    assert copy.temperature == 1.0
    others = SequenceClassifier.from_pretrained(tmp_path / "saved", labels=["x", "y"])
    assert others.temperature == 1.0


@of_labels
def test_a_temperature_that_makes_the_calibration_worse_is_not_taken(calibrated, monkeypatch, capsys):
    model = calibrated.model
    weights, temperature = [weight.numpy() for weight in model.weights], model.temperature
    errors = iter([0.25, 0.5])
    monkeypatch.setattr(calibration, "expected_calibration_error", lambda *sure: next(errors))
    found = model.calibrate(calibrated.x, calibrated.labels)
    assert (found.temperature, found.error_before, found.error_after) == (1.0, 0.25, 0.25)
    assert model.temperature == temperature
    for weight, before in zip(model.weights, weights, strict=True):
        np.testing.assert_array_equal(weight.numpy(), before)
    assert f"The model keeps its temperature of {temperature:.4g}: divided by" in capsys.readouterr().out


def test_questions_without_a_right_answer_among_the_best_determine_nothing():
    scores, gold = np.array([[2.0, 1.0], [1.0, 0.0], [4.0, 0.0], [3.0, 0.0]]), np.array([0, 1, 0, -1])
    assert fit_temperature(scores, gold) == fit_temperature(scores[:3], gold[:3])


def test_a_score_cannot_be_calibrated():
    model = tiny.made(SequenceClassifier, CONFIG, VOCABULARY, ["score"], problem_type="regression")
    with pytest.raises(InputError, match="This SequenceClassifier gives no probabilities"):
        model.calibrate(["the fox"], [0.5])


def reported_error(folder):
    text, _, table = (folder / "reliability.txt").read_text("utf-8").partition("\n\n")
    name, _, count = text.removeprefix("expected calibration error ").partition(" on ")
    assert sum(int(line.split()[0]) for line in table.splitlines()[1:]) == int(count.split()[0])
    return float(name)


def as_file(name, x, labels):
    """Returns labelled examples as JSON Lines that the command of a task reads."""
    if name == "tags":
        rows = [{"tokens": words, "tags": tags} for words, tags in zip(x, labels, strict=True)]
    elif name == "labels":
        rows = [{"text": text, "label": label} for text, label in zip(x, labels, strict=True)]
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
    "labels": (
        "run_classifier",
        ["--do_eval", "--do_predict", "--dev_file=dev.jsonl", "--test_file=dev.jsonl", "--explain=why.html"],
    ),
    "tags": ("run_ner", ["--do_eval", "--dev_file=dev.jsonl"]),
    "answers": ("run_squad", ["--do_predict", "--predict_file=dev.jsonl"]),
    "choices": ("run_multiple_choice", ["--do_eval", "--dev_file=dev.jsonl", "--choice_columns=choices"]),
}


@pytest.mark.parametrize("name", slow_except(["answers", "labels"], TASKS))
def test_the_command_calibrates_the_model_of_a_run(name, tmp_path, done_here, monkeypatch):
    model, x, scores_of = model_of(name)
    monkeypatch.chdir(tmp_path)
    model.save_pretrained("start")
    before = model.predict(x)
    labels, _ = drawn_gold(name, x, before, scores_of(before))
    pathlib.Path("dev.jsonl").write_text(as_file(name, x, labels), "utf-8")
    command, flags = COMMANDS[name]
    module = importlib.import_module(f"run_scripts.{command}")
    output = done_here(module, *flags, "--init_checkpoint=start", "--output_dir=run", "--calibrate")
    saved = type(model).from_pretrained("run/model")
    expected = model.calibrate(x, labels)
    assert saved.temperature == pytest.approx(expected.temperature, rel=1e-4)
    assert name == "tags" or f"Calibrated on {len(labels)} examples: temperature" in output.out
    after = float(output.out.split(" before and ")[1].split()[0])
    assert after == pytest.approx(expected.error_after, abs=1e-3)
    report = tmp_path / "run" / ("" if name == "answers" else "eval_report")
    assert reported_error(report) == pytest.approx(after, abs=2e-4)
    if name == "labels":
        assert pathlib.Path("why.html").read_text("utf-8").count("<section>") == len(labels)
    if name == "answers":  # they have the probabilities of the calibrated model
        written = json.loads(pathlib.Path("run/nbest_predictions.json").read_text("utf-8"))
        for entries, answer in zip(written.values(), model.predict(x), strict=True):
            expected = [one.probability for one in answer.nbest]
            np.testing.assert_allclose([entry["probability"] for entry in entries], expected, atol=1e-4)
