"""`MaskedLM` on texts, with new masks in every epoch, and on features: its metrics, files and filled masks."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from numpy_bert import scatter_weights
from tiny_checkpoints import CONFIG, FEATURES, VOCABULARY, random_checkpoint

from keras_bert import BertPretrainer, InputError, MaskedLM, fill_masks
from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.formats import WRITERS, write_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained, model_of
from keras_bert.tasks.base import text_task

pytestmark = pytest.mark.usefixtures("without_graphs")

TEXTS = ["the quick brown fox", "the quickest fox", "brown fox the quick", "fox the quickest brown the"] * 4
SMALL = CONFIG.replace(num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def new_model(config=SMALL):
    keras.utils.set_random_seed(1)
    return model_of(MaskedLM, random_checkpoint(form.MASKED_LM, config=config))


@pytest.fixture(scope="module")
def task():
    return text_task(new_model())


def batches(task, texts=TEXTS, masking=None, seed=0, **order):
    return list(task.batches(task.rows(texts).rows, 4, masking, seed, **order))


def original(batch):
    """The rows of a batch with the masked tokens put back."""
    ids = batch["input_ids"].copy()
    for row, places, labels, weights in zip(
        ids, batch["masked_lm_positions"], batch["masked_lm_ids"], batch["masked_lm_weights"], strict=True
    ):
        row[places[weights > 0]] = labels[weights > 0]
    return [row[mask > 0].tolist() for row, mask in zip(ids, batch["input_mask"], strict=True)]


def test_a_text_is_a_row_and_its_masks_hide_what_was_there(task):
    rows = [row for batch in batches(task) for row in original(batch)]
    expected = {"the quick brown fox": [2, 5, 6, 7, 8, 3], "the quickest fox": [2, 5, 6, 9, 8, 3]}
    for ids in expected.values():
        assert rows.count(ids) == 4
    assert len(rows) == 16


def test_whole_words_are_masked_together_when_asked(task):
    found = batches(task, ["quickest fox quickest the"] * 40, {"do_whole_word_mask": True, "masked_lm_prob": 0.3})
    seen = set()
    for batch in found:
        for places, weights in zip(batch["masked_lm_positions"], batch["masked_lm_weights"], strict=True):
            masked = set(places[weights > 0].tolist())
            assert len({1, 2} & masked) != 1
            assert len({4, 5} & masked) != 1
            seen |= masked
    assert seen == {1, 2, 3, 4, 5, 6}


def test_every_epoch_has_other_masks_and_a_seed_has_its_own(task):
    def first(number, **arguments):
        return [batch["masked_lm_positions"].tolist() for batch in batches(task, **arguments)][:number]

    assert first(4) == first(4)
    assert first(4) != first(4, seed=1)
    rows = task.rows(TEXTS).rows
    endless = task.batches(rows, 16, None, 0, shuffle=True, repeat=True)
    epochs = [next(endless) for _ in range(2)]
    assert sorted(original(epochs[0])) == sorted(original(epochs[1]))
    assert not np.array_equal(epochs[0]["input_ids"], epochs[1]["input_ids"])


def test_long_texts_make_several_rows_and_empty_ones_none_and_both_are_said(task):
    example_rows = task.rows(["the quick brown fox the quick", "", "fox"], max_seq_length=6)
    rows = np.split(example_rows.rows.tokens["input_ids"], example_rows.rows.splits[1:-1])
    assert [row.tolist() for row in rows] == [[2, 5, 6, 7, 8, 3], [2, 5, 6, 3], [2, 8, 3]]
    assert example_rows.notes == [
        "1 of 3 texts are longer than 6 tokens and were split into several rows",
        "1 of 3 texts are empty and are left out",
    ]


def test_validation_in_fit_has_the_masks_and_scores_of_evaluate(eagerly):
    texts, model = tf.data.Dataset.from_tensor_slices(TEXTS).batch(3), new_model()
    model.compile("sgd")
    history = model.fit(texts, batch_size=8, validation_data=texts, verbose=0).history
    scores = model.evaluate(texts, batch_size=8)
    assert scores == model.evaluate(np.array(TEXTS), batch_size=8)
    assert scores["perplexity"] == pytest.approx(np.exp(scores["loss"]))
    expected = {name: pytest.approx(history[f"val_{name}"][0], rel=1e-4) for name in scores}
    assert scores == expected


def test_a_model_that_was_not_compiled_gets_the_recipe_of_the_paper():
    model = new_model()
    model.fit(TEXTS, batch_size=8, epochs=2, masking={"do_whole_word_mask": True}, verbose=0)
    schedule = model.optimizer._learning_rate
    assert [float(schedule(step)) for step in (0, 4)] == pytest.approx([5e-5, 0.0])
    assert int(model.optimizer.iterations) == 4


def test_a_callback_may_set_the_rate_of_a_model_that_was_not_compiled():
    model = new_model()
    plateau = keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.5, patience=1, min_delta=100.0)
    model.fit(TEXTS, batch_size=8, epochs=3, callbacks=[plateau], verbose=0)
    assert float(model.optimizer.learning_rate) == pytest.approx(5e-5 / 4)


def test_predict_fills_what_texts_mask():
    model = new_model()
    texts = ["the [MASK] fox", "[MASK] brown [MASK]"]
    assert model.predict(texts, top_k=3) == fill_masks(model, texts, top_k=3)
    assert model.predict(tf.data.Dataset.from_tensor_slices(texts)) == model.predict(np.array(texts))
    assert model.predict("the [MASK]", targets=["fox"])[0].filled_text == "the fox"


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda model: model.fit(["the fox"], ["label"]), "trained on texts alone: give neither labels nor weights"),
        (lambda model: model.fit(["", " "]), "must have a token to mask. Received: 2 texts"),
        (lambda model: model.fit([]), "must have a token to mask. Received: 0 texts"),
        (lambda model: model.fit(["the"], masking={"masked_lm_prob": 2.0}), "masked_lm_prob must be a number above 0"),
        (lambda model: model.fit(["the"], masking={"prob": 0.2}), "keys among masked_lm_prob, .* Received: prob"),
        (lambda model: MaskedLM(CONFIG).fit(["the"]), "Texts need the vocabulary of the model"),
        (lambda model: model.evaluate(["the"], max_seq_length=99), "more than this model's 12 positions"),
        (lambda model: model.predict(["the"]), r"Text 1 has no \[MASK\]"),
        (lambda model: model.compile("sgd", loss="mse"), r"computes its own loss \(masked_lm_loss\)"),
        (lambda model: model.compile("sgd", metrics=["a"]), "reports loss, masked_lm_accuracy and perplexity"),
        (lambda model: model.fit(FEATURES, verbose=0), "MaskedLM takes .* Missing: masked_lm_ids, masked_lm_weights"),
    ],
)
def test_what_cannot_be_used_is_said(use, message):
    with pytest.raises(InputError, match=message):
        use(new_model())


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


def test_fit_lets_the_pooler_be(eagerly):
    model = compiled(keras.optimizers.Adam(1e-2), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    pooler = model.encoder.pooler.get_weights()
    history = model.fit(RECORDS, epochs=2, verbose=0).history
    assert sorted(history) == ["loss", "masked_lm_accuracy", "perplexity"]
    assert history["loss"][1] < history["loss"][0]
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
