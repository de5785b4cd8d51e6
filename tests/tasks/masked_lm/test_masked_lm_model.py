"""`MaskedLM`: computation, metrics, saving and export."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from numpy_bert import scatter_weights
from tiny_checkpoints import CONFIG, FEATURES, VOCABULARY, random_checkpoint

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.formats import WRITERS, write_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained
from keras_bert.program.errors import InputError
from keras_bert.tasks.masked_lm.model import MaskedLM
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer

pytestmark = pytest.mark.usefixtures("without_graphs")

RECORDS = {
    **FEATURES,
    "masked_lm_positions": np.array([[1, 2], [2, 3]], "int32"),
    "masked_lm_ids": np.array([[5, 6], [7, 8]], "int32"),
    "masked_lm_weights": np.array([[1.0, 1.0], [1.0, 0.0]], "float32"),
}


def compiled(optimizer="sgd", **changes):
    model = MaskedLM(CONFIG.replace(**changes))
    scatter_weights(model)
    model.compile(optimizer=optimizer)
    return model


def test_logits_and_loss_are_those_of_the_pretrainer_with_the_same_weights(eagerly, tmp_path, capsys):
    pretrainer = BertPretrainer(CONFIG)
    scatter_weights(pretrainer)
    pretrainer.compile(optimizer="sgd")
    pretrainer.save_pretrained(tmp_path / "pretrainer", VOCABULARY)
    model = MaskedLM.from_pretrained(tmp_path / "pretrainer")
    assert model.vocabulary == VOCABULARY
    np.testing.assert_array_equal(model(RECORDS)["masked_lm_logits"], pretrainer(RECORDS)["masked_lm_logits"])
    model.compile(optimizer="sgd")
    results = model.evaluate(RECORDS, verbose=0, return_dict=True)
    labels = {"next_sentence_labels": np.array([[0], [1]], "int32")}
    expected = pretrainer.evaluate(RECORDS | labels, verbose=0, return_dict=True)
    assert sorted(results) == ["loss", "masked_lm_accuracy", "perplexity"]
    assert results["loss"] == pytest.approx(expected["masked_lm_loss"], rel=1e-6)
    assert results["masked_lm_accuracy"] == expected["masked_lm_accuracy"]
    assert results["perplexity"] == pytest.approx(np.exp(results["loss"]), rel=1e-6)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_loss_and_perplexity_are_of_all_masked_tokens_however_they_are_batched(batch_size):
    model = compiled()
    logits = np.asarray(model(RECORDS)["masked_lm_logits"], "float64")
    likelihoods = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    chosen = np.array([likelihoods[0, 0, 5], likelihoods[0, 1, 6], likelihoods[1, 0, 7]])
    results = model.evaluate(RECORDS, batch_size=batch_size, verbose=0, return_dict=True)
    assert results["loss"] == pytest.approx(-np.log(chosen).mean(), rel=1e-5)
    assert results["perplexity"] == pytest.approx(np.prod(1 / chosen) ** (1 / 3), rel=1e-5)


def test_where_nothing_is_masked_there_is_no_perplexity():
    unmasked = RECORDS | {"masked_lm_weights": np.zeros((2, 2), "float32")}
    results = compiled().evaluate(unmasked, verbose=0, return_dict=True)
    assert results["loss"] == 0.0
    assert np.isnan(results["perplexity"])
    assert np.isnan(results["masked_lm_accuracy"])


def test_fit_learns_records_by_heart_and_lets_the_pooler_be():
    tf.config.run_functions_eagerly(False)  # many steps are faster in a graph
    model = compiled(keras.optimizers.Adam(1e-2), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    pooler = model.encoder.pooler.get_weights()
    history = model.fit(tf.data.Dataset.from_tensors(RECORDS).repeat(60), verbose=0).history
    assert sorted(history) == ["loss", "masked_lm_accuracy", "perplexity"]
    results = model.evaluate(RECORDS, verbose=0, return_dict=True)
    assert results["masked_lm_accuracy"] == 1.0
    assert results["perplexity"] < 1.2
    for before, after in zip(pooler, model.encoder.pooler.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("format", [name for name in WRITERS if name != "keras_hub"])  # has no such head
def test_checkpoints_with_the_next_sentence_head_too_stay_pretrainers_unless_asked(format, tmp_path, capsys):
    write_checkpoint(random_checkpoint(form.MASKED_LM, form.NEXT_SENTENCE), tmp_path / "folder", format)
    pretrainer = from_pretrained(None, tmp_path / "folder")
    assert type(pretrainer) is BertPretrainer
    model = MaskedLM.from_pretrained(tmp_path / "folder")
    assert "ignored are: next_sentence_head\n" in capsys.readouterr().out or format == "keras_bert"
    np.testing.assert_array_equal(model(RECORDS)["masked_lm_logits"], pretrainer(RECORDS)["masked_lm_logits"])


def test_a_table_of_its_own_is_learnt():
    model = MaskedLM(CONFIG.replace(tie_word_embeddings=False))
    assert any(weight.path.endswith("output_embeddings") for weight in model.trainable_weights)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loss": "mse"}, r"computes its own loss \(masked_lm_loss\)"),
        ({"metrics": ["accuracy"]}, "reports loss, masked_lm_accuracy and perplexity"),
    ],
)
def test_what_cannot_be_honoured_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        MaskedLM(CONFIG).compile(**{"optimizer": "sgd", **arguments})


def test_records_without_masks_are_refused_by_name():
    records = {name: value for name, value in RECORDS.items() if name != "masked_lm_weights"}
    with pytest.raises(InputError, match="MaskedLM takes .* Missing: masked_lm_weights"):
        compiled().fit(records, verbose=0)
