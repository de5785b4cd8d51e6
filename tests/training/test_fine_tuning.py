"""The fine-tuning run on tiny texts: it learns, continues after a kill, and writes Google's files."""

import json

import classifier_runs
import numpy as np
import pytest
import tiny
from classifier_runs import evaluate_classifier, predict_classifier

from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.examples import TextExamples, labels_of
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.training.callbacks import read_history
from keras_bert.training.fine_tuning import FineTuningOptions
from keras_bert.training.optimizer_choice import OptimizerChoice
from keras_bert.training.starting_point import StartingPoint

WORDS = ["good", "great", "fine", "nice", "bad", "awful", "poor", "sad", "the", "film", "was", "a", "very", "so"]
VOCABULARY = tiny.vocabulary(*WORDS)
CONFIG = tiny.config(VOCABULARY, max_position_embeddings=32)
RUN = {
    "config": CONFIG,
    "vocabulary": VOCABULARY,
    "max_seq_length": 16,
    "train_batch_size": 8,
    "learning_rate": 3e-3,
    "num_train_epochs": 2.0,
    "save_checkpoints_steps": 3,
    "seed": 7,
}


def train_classifier(path, train, config=None, vocabulary=None, init_checkpoint=None, **options):
    start = StartingPoint(config, vocabulary, init_checkpoint)
    return classifier_runs.train_classifier(path, train, start, FineTuningOptions(**options))


def reviews(number=48, seed=0):
    """`The film was very good` is positive, `so bad the film` is negative; one word in each decides."""
    draw = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(number):
        positive = bool(draw.integers(2))
        deciding = draw.choice(WORDS[:4] if positive else WORDS[4:8])
        words = [*draw.choice(WORDS[8:], size=draw.integers(2, 6)), deciding]
        texts.append(" ".join(draw.permutation(words)))
        labels.append("positive" if positive else "negative")
    return TextExamples(texts, labels=labels, source="reviews.tsv")


TRAIN = reviews()


def weights_of(path):
    return [weight.value.numpy() for weight in SequenceClassifier.from_pretrained(path).weights]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a finished run."""
    path = tmp_path_factory.mktemp("run") / "out"
    train_classifier(path, TRAIN, **{**RUN, "num_train_epochs": 25.0})
    return path


def test_training_learns_the_deciding_words(trained, capsys):
    history = read_history(trained / "history.jsonl")
    assert history[-1]["step"] == 150
    assert history[-1]["loss"] < 0.2 < 0.5 < history[0]["loss"]
    results = evaluate_classifier(trained, reviews(seed=1), max_seq_length=16)
    assert results["eval_accuracy"] > 0.9
    out = capsys.readouterr().out
    assert "on 48 examples; always answering 'negative' would have 0.5625" in out
    assert list(weights_of(trained / "model")[0].shape) == [len(VOCABULARY), 16]


def test_evaluation_writes_googles_file(trained):
    results = evaluate_classifier(trained, TRAIN, max_seq_length=16)
    lines = dict(line.split(" = ") for line in (trained / "eval_results.txt").read_text().splitlines())
    scores = ["accuracy", "accuracy_and_f1", "f1", "loss", "majority_rate", "matthews"]
    assert list(lines) == [*(f"eval_{name}" for name in scores), "global_step", "loss"]
    assert {name: float(value) for name, value in lines.items()} == results
    assert lines["global_step"] == "150"


def test_predictions_are_probabilities_in_the_order_of_the_labels(trained, capsys):
    test = TextExamples(["the film was good", "so bad", "a very sad film"])
    probabilities = predict_classifier(trained, test, max_seq_length=16, batch_size=2)
    rows = [line.split("\t") for line in (trained / "test_results.tsv").read_text().splitlines()]
    np.testing.assert_allclose(np.array(rows, "float64"), probabilities, rtol=1e-8)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-6)
    assert probabilities.argmax(axis=1).tolist() == [1, 0, 0]
    assert "the columns are negative, positive" in capsys.readouterr().out


def test_a_pretrained_encoder_is_the_start(eagerly, tmp_path, capsys):
    BertPretrainer(CONFIG).save_pretrained(tmp_path / "start", VOCABULARY)
    start = BertPretrainer.from_pretrained(tmp_path / "start")
    run = {**RUN, "config": None, "vocabulary": None, "learning_rate": 0.0, "num_train_epochs": 0.2}
    model = train_classifier(tmp_path / "run", TRAIN, init_checkpoint=tmp_path / "start", **run)
    assert "newly initialised are: classifier" in capsys.readouterr().out
    for one, other in zip(start.encoder.weights, model.encoder.weights, strict=True):
        np.testing.assert_array_equal(one.value.numpy(), other.value.numpy())


@pytest.mark.parametrize(
    ("labels", "expected"),
    [(["b", "a", "b"], ["a", "b"]), (["10", "9", "9"], ["9", "10"]), (["10", "9", "x"], ["10", "9", "x"])],
)
def test_labels_are_in_an_order_that_is_always_the_same(labels, expected):
    assert labels_of(TextExamples(["t"] * 3, labels=labels)) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": []}, "there is no text"),
        ({"texts": ["a", " "]}, "the text of example 2 is empty"),
        ({"texts": ["a", "b"], "second_texts": ["", "b"]}, "the second text of example 1 is empty"),
        ({"texts": ["a", "b"], "labels": ["x", ""]}, "the label of example 2 is empty"),
        ({"texts": ["a", "b"], "labels": ["x"]}, "2 texts but 1 labels"),
    ],
)
def test_examples_that_cannot_be_used_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        TextExamples(**arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": None}, "Give a config"),
        ({"vocabulary": None}, "Texts need the vocabulary of the model"),
        ({"vocabulary": Vocabulary(VOCABULARY.tokens[:-1])}, "The vocabulary has 18 tokens but"),
        ({"max_seq_length": 33}, "A sequence length of 33 is more than this model's 32 positions"),
        (
            {"train": TextExamples(["good", "fine"], labels=["yes", "yes"])},
            "two labels or more. Received: .'yes'.. Was",
        ),
        ({"train": TextExamples(["good", "fine"])}, "two labels or more. Received: no labels"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path, changes, message):
    arguments = {"train": TRAIN, **RUN, **changes}
    with pytest.raises(InputError, match=message):
        train_classifier(tmp_path / "run", **arguments)
    assert not (tmp_path / "run").exists()


def test_a_start_or_examples_that_do_not_fit_are_refused(trained, tmp_path):
    BertPretrainer(CONFIG).save_pretrained(tmp_path / "start", VOCABULARY)
    other = Vocabulary([*VOCABULARY.tokens[:-1], "other"])
    with pytest.raises(InputError, match="is not that of .*start. Leave it out"):
        train_classifier(tmp_path / "run", TRAIN, **{**RUN, "vocabulary": other}, init_checkpoint=tmp_path / "start")
    with pytest.raises(InputError, match="holds a BertPretrainer, but a SequenceClassifier is needed here"):
        evaluate_classifier(tmp_path / "run", TRAIN, init_checkpoint=tmp_path / "start", max_seq_length=16)
    with pytest.raises(InputError, match="holds a run with other settings: train_examples was"):
        train_classifier(trained, reviews(seed=5), **{**RUN, "num_train_epochs": 25.0})


def test_a_classifier_in_another_format_is_asked_as_well_as_trained_on(trained, tmp_path, eagerly):
    model = SequenceClassifier.from_pretrained(trained / "model")
    model.save_pretrained(tmp_path / "theirs", format="huggingface")
    (tmp_path / "theirs" / "vocab.txt").unlink()
    (tmp_path / "theirs" / "tokenizer.json").unlink(missing_ok=True)
    asked = {"init_checkpoint": tmp_path / "theirs", "vocabulary": VOCABULARY, "max_seq_length": 16}
    expected = predict_classifier(trained, TRAIN, max_seq_length=16)
    np.testing.assert_allclose(predict_classifier(tmp_path / "out", TRAIN, **asked), expected, atol=1e-6)
    results = evaluate_classifier(tmp_path / "out", TRAIN, **asked)
    answers = [model.labels[row.argmax()] for row in expected]
    assert results["eval_accuracy"] == np.mean(np.array(answers) == np.array(TRAIN.labels))
    run = {**RUN, "config": None, "num_train_epochs": 0.2}
    train_classifier(tmp_path / "run", TRAIN, **run, init_checkpoint=tmp_path / "theirs")


def test_rows_are_as_long_as_usual_or_as_the_model_has_positions(eagerly, trained, tmp_path, capsys):
    said = "max_seq_length is 32, all positions of the model, instead of the usual 128"
    assert evaluate_classifier(trained, TRAIN) == evaluate_classifier(trained, TRAIN, max_seq_length=32)
    assert capsys.readouterr().out.splitlines().count(said) == 1
    train_classifier(tmp_path / "run", TRAIN, **{**RUN, "max_seq_length": None, "num_train_epochs": 0.2})
    assert capsys.readouterr().out.splitlines().count(said) == 1
    assert json.loads((tmp_path / "run" / "run.json").read_text())["max_seq_length"] == 32
    with pytest.raises(InputError, match="A sequence length of 33 is more than this model's 32 positions"):
        evaluate_classifier(trained, TRAIN, max_seq_length=33)


@pytest.mark.parametrize(
    ("epochs", "warmup_proportion", "num_train_steps", "num_warmup_steps"),
    [(2.0, 0.1, 12, 1), (0.6, 0.9, 4, 3), (0.55, 1.0, 3, 3), (0.01, 0.9, 1, 0)],
)
def test_epochs_are_rounded_to_updates_and_warm_up_is_rounded_down(
    epochs, warmup_proportion, num_train_steps, num_warmup_steps, tmp_path, monkeypatch
):
    def see(self, *numbers):
        raise LookupError(numbers)

    monkeypatch.setattr(OptimizerChoice, "schedule", see)
    run = {**RUN, "num_train_epochs": epochs, "warmup_proportion": warmup_proportion}
    with pytest.raises(LookupError) as caught:
        train_classifier(tmp_path / "run", TRAIN, **run)  # six batches
    assert caught.value.args[0] == (3e-3, num_train_steps, num_warmup_steps)
