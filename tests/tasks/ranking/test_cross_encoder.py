"""`CrossEncoder`: scores of queries and texts, losses, rankings, saved folders and exports."""

import json
import shutil
import types

import numpy as np
import pytest
from places import TESTS
from recorded_folders import recorded_folder
from tiny_checkpoints import CONFIG, random_checkpoint

from keras_bert import AdamW, CrossEncoder, InputError, SequenceClassifier
from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.tasks.embedding.examples import SentenceExamples
from keras_bert.tasks.ranking.task import RankingTask

pytestmark = pytest.mark.usefixtures("without_graphs")

QUERIES = ["quick", "brown", "fox", "the"]
TEXTS = ["the quick fox", "brown fox", "the fox", "the"]
OTHERS = ["brown the", "quick", "quickest brown", "fox fox"]
HEADS = json.loads((TESTS / "family_golden" / "heads.json").read_text())  # see parity/record_folders.py
PAIRS = tuple(map(list, zip(*HEADS["pairs"], strict=True)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cross_encoder") / "folder"
    config = CONFIG.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    checkpoint = random_checkpoint(form.CLASSIFIER, config=config, labels=("score",))
    write_checkpoint(checkpoint.replace(problem_type="regression"), path, "huggingface")
    return path


@pytest.fixture(scope="module")
def model(folder):
    """A model that no test trains."""
    return CrossEncoder.from_pretrained(folder)


def outputs_of(folder, *texts):
    """The outputs before the activation."""
    answers = SequenceClassifier.from_pretrained(folder).predict(texts, verbose=0)
    return np.array([answer.score for answer in answers])


def test_the_scores_are_the_sigmoid_of_the_classifier_with_one_output(eagerly, model, folder):
    expected = 1 / (1 + np.exp(-outputs_of(folder, QUERIES, TEXTS)))
    np.testing.assert_allclose(model.predict((QUERIES, TEXTS), verbose=0), expected, atol=1e-6)
    both = model.predict((QUERIES, TEXTS, OTHERS), verbose=0)
    np.testing.assert_allclose(both[:, 0], expected, atol=1e-6)
    np.testing.assert_allclose(both[:, 1], model.predict((QUERIES, OTHERS), verbose=0), atol=1e-6)


def test_a_ranking_is_sorted_and_keeps_the_numbers_of_the_texts(model):
    scores = model.predict((["quick"] * 4, TEXTS), verbose=0)
    ranked = model.rank("quick", TEXTS)
    assert [one.number for one in ranked] == np.argsort(-scores, kind="stable").tolist()
    assert [one.text for one in ranked] == [TEXTS[one.number] for one in ranked]
    np.testing.assert_allclose([one.score for one in ranked], np.sort(scores)[::-1], atol=1e-6)
    assert model.rank("quick", TEXTS, top_k=2) == ranked[:2]


def test_the_losses_are_binary_cross_entropy_and_softmax(eagerly, folder):
    model, relevances = CrossEncoder.from_pretrained(folder), np.array([1.0, 0.0, 0.25, 1.0])
    scores = outputs_of(folder, QUERIES, TEXTS)
    expected = np.mean(np.log1p(np.exp(scores)) - relevances * scores)
    rate = {"epochs": 1, "batch_size": 4, "verbose": 0}
    model.compile(AdamW(0.0), jit_compile=False)
    np.testing.assert_allclose(model.fit((QUERIES, TEXTS), relevances, **rate).history["loss"][0], expected, rtol=1e-5)
    both = np.stack([scores, outputs_of(folder, QUERIES, OTHERS)], axis=1)
    expected = np.mean(np.log(np.exp(both).sum(axis=1)) - both[:, 0])
    history = model.fit((QUERIES, TEXTS, OTHERS), **rate).history
    np.testing.assert_allclose(history["loss"][0], expected, rtol=1e-5)
    np.testing.assert_allclose(history["accuracy"][0], np.mean(both[:, 0] > both[:, 1]))


@pytest.mark.parametrize("name", ["ce1", "ce1s"])
def test_scores_are_those_that_sentence_transformers_gave(name):
    """For a classifier that transformers wrote, and for the folder that sentence-transformers made of it."""
    scores = CrossEncoder.from_pretrained(recorded_folder("heads", name)).predict(PAIRS, verbose=0)
    np.testing.assert_allclose(scores, HEADS[name], atol=1e-6)


def test_a_cross_encoder_with_three_labels_is_a_classifier():
    model = from_pretrained(None, recorded_folder("heads", "ce3s"))
    answers = model.predict(PAIRS, verbose=0)
    found = [[answer.probabilities[f"LABEL_{number}"] for number in range(3)] for answer in answers]
    exponentials = np.exp(HEADS["ce3s"])
    np.testing.assert_allclose(found, exponentials / exponentials.sum(axis=1, keepdims=True), atol=1e-6)
    with pytest.raises(InputError, match="A CrossEncoder has one output, .*Load a classifier as SequenceClassifier"):
        CrossEncoder.from_pretrained(recorded_folder("heads", "ce3s"))


PROMPTS = {"query": "the ", "none": ""}
SETTINGS = {"activation": "tanh", "prompts": PROMPTS, "default_prompt": "query", "max_seq_length": 6}


@pytest.mark.parametrize("format", ["keras_bert", "huggingface"])
def test_activation_prompts_and_length_are_kept(format, folder, tmp_path):
    model = CrossEncoder.from_pretrained(folder, **SETTINGS)
    model.save_pretrained(tmp_path / "saved", format=format)
    loaded = from_pretrained(None, tmp_path / "saved")
    assert {name: loaded.get_config()[name] for name in SETTINGS} == SETTINGS
    with_prompt = [f"the {query}" for query in QUERIES]
    plain = CrossEncoder.from_pretrained(folder, activation="linear")
    expected = np.tanh(plain.predict((with_prompt, TEXTS), max_seq_length=6, verbose=0))
    np.testing.assert_allclose(loaded.predict((QUERIES, TEXTS), verbose=0), expected, atol=1e-6)
    expected = np.tanh(outputs_of(folder, ["quick"], ["fox"]))
    np.testing.assert_allclose(loaded.rank("quick", ["fox"], prompt="none")[0].score, expected[0], atol=1e-6)


IDENTITY, SIGMOID = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Sigmoid"


@pytest.mark.parametrize(
    ("config", "settings", "activation"),
    [
        ({}, None, "sigmoid"),
        ({"sbert_ce_default_activation_function": IDENTITY}, None, "linear"),
        ({"sentence_transformers": {"activation_fn": IDENTITY, "version": "4.1"}}, None, "linear"),
        ({"sentence_transformers": {"activation_fn": SIGMOID}}, {"activation_fn": IDENTITY}, "linear"),
        ({"sentence_transformers": {"activation_fn": IDENTITY}}, {"activation_fn": None}, "linear"),
    ],
)
def test_the_activation_is_read_from_all_versions_of_their_files(config, settings, activation, folder, tmp_path):
    found = CrossEncoder.from_pretrained(folder_with(folder, tmp_path, config, settings))
    assert found.activation == activation


def folder_with(folder, tmp_path, config, settings):
    """Returns a copy of a folder with keys of sentence-transformers."""
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "config.json").write_text(json.dumps(json.loads((copy / "config.json").read_text()) | config))
    if settings is not None:
        module = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}
        (copy / "modules.json").write_text(json.dumps([module]))
        settings = {"model_type": "CrossEncoder", **settings}
        (copy / "config_sentence_transformers.json").write_text(json.dumps(settings))
    return copy


@pytest.mark.parametrize(
    ("config", "settings", "message"),
    [
        ({"sbert_ce_default_activation_function": "os.system"}, None, "the activation 'os.system' is unknown"),
        ({"sentence_transformers": {"activation_fn": IDENTITY, "scale": 2}}, None, "'scale'=2"),
        ({}, {"scale": 2}, "'scale'=2"),
        ({}, {"default_prompt_name": "title"}, "'title', which is none of its prompts"),
    ],
)
def test_what_their_files_say_otherwise_is_refused(config, settings, message, folder, tmp_path):
    with pytest.raises(InputError, match=message):
        CrossEncoder.from_pretrained(folder_with(folder, tmp_path, config, settings))


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda model: model.fit((QUERIES, TEXTS)), "there is nothing to rank. Give relevances"),
        (lambda model: model.fit((QUERIES, TEXTS), [0, 1, 2, 0]), "between 0 and 1. Received: 2"),
        (lambda model: model.fit(QUERIES, [0, 1, 1, 0]), "Give two columns or more"),
        (lambda model: model.evaluate((QUERIES, TEXTS)), "a single text per query has no rank"),
        (lambda model: model.rank("", TEXTS), "example 1 must not be empty. Received: ''"),
        (lambda model: model.rank("fox", ["the", " "]), "example 2 must not be empty. Received: ' '"),
        (lambda model: model.rank("fox", TEXTS, top_k=0), "top_k must be a whole number of at least 1. Received: 0"),
        (lambda model: model.rank(["fox"], TEXTS), "The query must be a string"),
        (lambda model: model.rank("fox", TEXTS, prompt="title"), "The model has no prompt 'title'"),
        (lambda model: CrossEncoder(CONFIG, labels=["a", "b"]), "one output.*Received: 2 labels"),
        (lambda model: CrossEncoder(CONFIG, activation="softmax"), "activation must be one of sigmoid, .* 'softmax'"),
    ],
)
def test_what_does_not_fit_is_refused(use, message, model):
    with pytest.raises(InputError, match=message):
        use(model)


def test_predictions_name_the_best_text_of_each_query(tmp_path):
    examples = SentenceExamples([["q", "r"], ["a", "b"], ["c", "d"], ["e", "f"]])
    answered = types.SimpleNamespace(examples=examples, answers=np.float32([[0.1, 0.3, 0.2], [0.1, 0.0, 0.5]]))
    RankingTask.write_predictions(None, tmp_path, answered, "test")
    lines = (tmp_path / "test_predictions.tsv").read_text().splitlines()
    assert [line.split("\t")[:2] for line in lines] == [["query", "text"], ["q", "c"], ["r", "f"]]
    assert [float(line.split("\t")[2]) for line in lines[1:]] == pytest.approx([0.3, 0.5])


def test_the_best_model_of_pairs_with_relevances_is_chosen_by_their_order(model):
    task = RankingTask(model)
    for scores, columns, main_score in (([1.0], 2, "spearman"), (None, 3, "mrr@10")):
        task.before_training(SentenceExamples([["a"]] * columns, scores))
        assert task.main_score == main_score
