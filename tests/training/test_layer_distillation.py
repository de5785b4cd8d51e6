"""The terms of distillation that compare layers: formulas, training, runs that resume, bad input."""

import json
import os

import distributed_runs
import keras
import numpy as np
import pytest
from numpy_bert import scatter_weights
from pretraining_runs import RUN, pretrain
from tiny_families import LABELS, TEXTS, VOCABULARIES
from tiny_families import config as config_of_family
from tiny_pretraining import CONFIG, VOCABULARY

from keras_bert import BertPretrainer, InputError, MaskedLM, SequenceClassifier
from keras_bert.models.distiller import TERMS, Distiller, checked_layer_map
from keras_bert.models.encoder_base import make_encoder
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.training.distillation import Distillation
from keras_bert.training.run_folder import read_arrays
from run_scripts import run_pretraining

ALL_TERMS = {name: 1.0 + number for number, name in enumerate(TERMS)}


def without_dropout(config=CONFIG, **changes):
    return config.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **changes)


def pair_of(student, teacher, dtype="float32", student_class=BertPretrainer):
    """Returns a student and a teacher, whose weights are not small."""
    models = student_class(without_dropout(student), dtype=dtype), MaskedLM(without_dropout(teacher), dtype=dtype)
    for model in models:
        scatter_weights(model)
    return models


def batch_of(rows=4, length=10):
    draw = np.random.default_rng(0)
    mask = (np.arange(length) < np.array([length, 7, 4, 9])[:rows, None]).astype("int32")
    return {
        "input_ids": draw.integers(5, 13, (rows, length)).astype("int32") * mask,
        "input_mask": mask,
        "segment_ids": draw.integers(0, 2, (rows, length)).astype("int32"),
        "masked_lm_positions": draw.integers(0, 4, (rows, 3)).astype("int32"),
        "masked_lm_ids": draw.integers(5, 13, (rows, 3)).astype("int32"),
        "masked_lm_weights": draw.integers(0, 2, (rows, 3)).astype("float32"),
        "next_sentence_labels": draw.integers(0, 2, (rows, 1)).astype("int32"),
        "example_weights": np.array([1.0, 0.5, 2.0, 0.0], "float32")[:rows],
    }


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def layers_of(model, batch):
    """Returns the vectors of all layers, as the encoder returns them, and the scores that NumPy computes of them."""
    encoder = model.encoder
    encoder.output_hidden_states = True
    states = [np.asarray(state) for state in encoder(batch)["hidden_states"]]
    encoder.output_hidden_states = False
    scores = []
    for hidden, block in zip(states, encoder.blocks_in_order(), strict=False):
        attention = block.attention
        query, key = (
            (hidden @ np.asarray(dense.kernel) + np.asarray(dense.bias))
            .reshape(*hidden.shape[:2], attention.num_heads, attention.head_size)
            .transpose(0, 2, 1, 3)
            for dense in (attention.query, attention.key)
        )
        scores.append(query @ key.transpose(0, 1, 3, 2) / np.sqrt(attention.head_size))
    return states, scores


def test_every_term_is_the_formula_of_its_paper():
    config = CONFIG.replace(hidden_size=16, num_hidden_layers=2)
    student, teacher = pair_of(config, CONFIG.replace(hidden_size=24, num_hidden_layers=5), dtype="float64")
    model = Distiller(student, teacher, ALL_TERMS, layer_map=[3, 1], temperature=1.5, dtype="float64")
    batch = batch_of()
    found = {term.name: float(term.value) for term in model.loss_terms(batch, None, model(batch), None)}
    own = {term.name: float(term.value) for term in student.loss_terms(batch, None, student(batch), None)}

    (ours, our_scores), (theirs, their_scores) = (layers_of(one, batch) for one in (student, teacher))
    kernel, bias = (np.asarray(weight, "float64") for weight in model.projection.weights)
    ours = [state @ kernel + bias for state in ours]
    real = batch["input_mask"] > 0
    weights = real * batch["example_weights"][:, None]

    def mean(values):  # of real tokens
        return (values * weights).sum() / weights.sum()

    expected = {name: value * ALL_TERMS["labels"] for name, value in own.items()}
    for name, (i, j) in {"embeddings": (0, 0), "cosine": (-1, -1)}.items():
        one, other = ours[i], theirs[j]
        distance = 1 - (one * other).sum(-1) / np.linalg.norm(one, axis=-1) / np.linalg.norm(other, axis=-1)
        error = distance if name == "cosine" else ((one - other) ** 2).mean(-1)
        expected[f"{name}_loss"] = ALL_TERMS[name] * mean(error)
    errors = sum(((ours[i] - theirs[j]) ** 2).mean(-1) for i, j in ((1, 4), (2, 2)))
    expected["hidden_states_loss"] = ALL_TERMS["hidden_states"] * mean(errors)
    pairs = weights[:, :, None] * real[:, None, :]
    errors = sum(((our_scores[i] - their_scores[j]) ** 2).mean(1) for i, j in ((0, 3), (1, 1)))
    expected["attention_scores_loss"] = ALL_TERMS["attention_scores"] * (errors * pairs).sum() / pairs.sum()
    one, other = (np.asarray(part(batch)["masked_lm_logits"], "float64") / 1.5 for part in (student, teacher))
    masked = batch["masked_lm_weights"] * batch["example_weights"][:, None]
    for name, factor in (("predictions", 1.0), ("soft_targets", 1.5**2)):
        losses = -np.exp(log_softmax(other)) * (log_softmax(one) - (name == "soft_targets") * log_softmax(other))
        expected[f"{name}_loss"] = ALL_TERMS[name] * factor * (losses.sum(-1) * masked).sum() / masked.sum()
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert sorted(found) == sorted(model.loss_names)
    assert len(model.weights) == len(student.weights) + 2  # the projection, not the teacher
    assert min(expected.values()) > 1e-3


def test_the_default_layer_map_is_uniform():
    assert checked_layer_map(None, 6, 12) == (1, 3, 5, 7, 9, 11)
    assert checked_layer_map(None, 3, 4) == (0, 1, 3)


@pytest.mark.parametrize(
    "family",
    [
        *("albert", "modernbert", "longformer"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("distilbert", "mobilebert", "big_bird")),
    ],
)
def test_every_family_can_be_student_and_teacher(family):
    config = without_dropout(config_of_family(family)).replace(vocab_size=CONFIG.vocab_size)
    terms = [name for name in TERMS if name != "attention_scores" or family not in ("longformer", "big_bird")]
    student, teacher = pair_of(config, config)
    model = Distiller(student, teacher, terms)
    assert model.projection is None
    batch = batch_of()
    for term in model.loss_terms(batch, None, model(batch), None):
        is_taught = term.name not in (*student.loss_names, "predictions_loss")
        assert not is_taught or abs(float(term.value)) < 1e-5, term.name  # both have the same weights
        assert is_taught or float(term.value) > 1e-3


@pytest.mark.slow
def test_two_devices_that_divide_their_rows_into_parts_compute_what_one_computes(on_four_devices):
    layouts = ("one", "mirrored2_parts2")
    one, two = (on_four_devices(distributed_runs.train, "distilled", layout) for layout in layouts)
    assert max(np.abs(a - b).max() for a, b in zip(one["before"], one["after"], strict=True)) > 1e-3
    assert max(np.abs(a - b).max() for a, b in zip(one["after"], two["after"], strict=True)) <= 2e-6


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """The folder of a model whose answers are not all alike."""
    path = tmp_path_factory.mktemp("teacher")
    model = BertPretrainer(CONFIG.replace(hidden_size=24, num_hidden_layers=2))
    scatter_weights(model)
    model.save_pretrained(path, VOCABULARY)
    return path


def test_a_run_does_not_store_its_teacher(records, teacher, tmp_path, eagerly):
    run = {**RUN, "num_train_steps": 2, "num_warmup_steps": 1, "distillation": Distillation(teacher, ALL_TERMS)}
    pretrain(tmp_path / "run", records, **run)
    [checkpoint] = os.listdir(tmp_path / "run" / "checkpoints")
    stored = read_arrays(tmp_path / "run" / "checkpoints" / checkpoint / "state.npz").values()
    assert any(array.shape == (16, 24) for array in stored)  # the projection
    assert not any(array.shape == (24, 24) for array in stored)  # a weight of the teacher
    with pytest.raises(InputError, match="distillation"):
        pretrain(tmp_path / "run", records, **{**run, "distillation": Distillation(teacher, ["cosine"])})


def test_a_classifier_learns_from_the_layers_of_its_teacher(tmp_path, eagerly):
    keras.utils.set_random_seed(2)
    big = SequenceClassifier(config_of_family("distilbert"), labels=["fox", "dog"])
    small = SequenceClassifier(config_of_family("distilbert").replace(num_hidden_layers=1), labels=["dog", "fox"])
    big.vocabulary = small.vocabulary = VOCABULARIES["distilbert"]
    big.fit(TEXTS, LABELS, epochs=1, verbose=0)
    big.save_pretrained(tmp_path / "big")
    terms = ["soft_targets", "hidden_states", "attention_scores", "embeddings"]
    options = {"teacher": tmp_path / "big", "terms": terms, "learning_rate": 1e-2, "verbose": 0}
    losses = small.fit(TEXTS, epochs=6, **options).history["loss"]
    assert losses[-1] < losses[0]
    with pytest.raises(InputError, match="A fit with a teacher has no class_weight, validation_split. Leave it out"):
        small.fit(TEXTS, LABELS, class_weight="balanced", validation_split=0.5, **options)


TWO_LAYERS = CONFIG.replace(num_hidden_layers=2)
OTHER_VOCABULARY = Vocabulary([*VOCABULARY.tokens[:-1], "z"])
LONGFORMER = config_of_family("longformer")


@pytest.mark.parametrize(
    ("student", "teacher", "arguments", "message"),
    [
        (CONFIG, TWO_LAYERS, {"layer_map": [1, 0]}, r"layer_map must have 1 numbers from 0 to 1.*: \[1, 0\]"),
        (CONFIG, TWO_LAYERS, {"layer_map": [2]}, r"layer_map must have 1 numbers from 0 to 1.*: \[2\]"),
        (TWO_LAYERS, CONFIG, {}, "The student has 2 layers and the teacher 1. Give layer_map"),
        (CONFIG, CONFIG.replace(vocab_size=14), {}, r"another vocabulary than the student \(14 and 13 tokens\)"),
        (CONFIG, CONFIG, {"terms": ["soft_targets"]}, "The teacher has another vocabulary than the student"),
        (CONFIG, CONFIG.replace(num_attention_heads=4), {}, "needs as many attention heads .* Received: 2 and 4"),
        (LONGFORMER, LONGFORMER, {}, "The student is a LongEncoder, which has no score for each pair of tokens"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused(student, teacher, arguments, message):
    models = pair_of(student, teacher)
    if "terms" in arguments:
        models[0].vocabulary, models[1].vocabulary = VOCABULARY, OTHER_VOCABULARY
    with pytest.raises(InputError, match=message):
        Distiller(*models, **{"terms": ["attention_scores"], **arguments})


def test_an_encoder_cannot_teach_logits(records, tmp_path):
    make_encoder(CONFIG).save_pretrained(tmp_path / "encoder", VOCABULARY)
    with pytest.raises(InputError, match="has no masked_lm_head, so the terms soft_targets and predictions cannot"):
        pretrain(tmp_path / "run", records, **RUN, distillation=Distillation(tmp_path / "encoder"))


def test_the_command_starts_a_student_from_layers_of_its_teacher(
    records, teacher, tmp_path, run_here, done_here, eagerly
):
    flags = [f"--input_file={records}", f"--output_dir={tmp_path / 'run'}", "--do_train", "--num_train_steps=1"]
    flags += ["--num_warmup_steps=0", "--learning_rate=1e-9", f"--init_checkpoint={teacher}", "--keep_layers=1"]
    distilling = [f"--teacher={teacher}", "--distill_terms=soft_targets:5,labels:2,cosine"]
    printed = done_here(run_pretraining, *flags, *distilling)
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["distillation"]
    assert settings["terms"] == {"soft_targets": 5.0, "labels": 2.0, "cosine": 1.0}
    whole, part = (BertPretrainer.from_pretrained(path) for path in (teacher, tmp_path / "run" / "model"))
    [kept] = part.encoder.blocks
    for one, other in zip(kept.weights, whole.encoder.blocks[1].weights, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), atol=1e-7)
    _, printed = run_here(run_pretraining, *flags, "--distill_layers=0")
    assert "--distill_layers has no effect without --teacher." in printed.err
    _, printed = run_here(run_pretraining, *flags, f"--teacher={teacher}", "--distill_layers=last")
    assert "distill_layers must be a list of whole numbers of at least 0. Received: ['last']" in printed.err
