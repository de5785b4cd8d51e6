"""`MaskedLM` on texts: new masks in every epoch, metrics, and filled masks."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_checkpoints import CONFIG, VOCABULARY, random_checkpoint

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.pretrained import model_of
from keras_bert.program.errors import InputError
from keras_bert.tasks.fitting import text_task
from keras_bert.tasks.masked_lm.mask_filling import fill_masks
from keras_bert.tasks.masked_lm.model import MaskedLM

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


def test_a_share_of_the_tokens_is_masked_and_most_become_the_mask(task):
    texts = ["the quick brown fox the quick brown fox the fox"] * 400
    found = batches(task, texts, {"masked_lm_prob": 0.25})
    hidden = np.concatenate([batch["masked_lm_weights"].sum(axis=1) for batch in found])
    assert set(hidden) == {3.0}  # a quarter of 12
    shown = np.concatenate(
        [np.take_along_axis(batch["input_ids"], batch["masked_lm_positions"], axis=1).ravel() for batch in found]
    )
    labels = np.concatenate([batch["masked_lm_ids"].ravel() for batch in found])
    assert np.mean(shown == VOCABULARY.mask_id) == pytest.approx(0.8, abs=0.04)
    # A tenth is unchanged on purpose, and one in five of the random tenth equals the original by chance.
    assert np.mean(shown == labels) == pytest.approx(0.12, abs=0.04)
    assert not set(labels) & {VOCABULARY.cls_id, VOCABULARY.sep_id, VOCABULARY.pad_id}


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


@pytest.mark.slow
def test_fit_on_texts_learns_them():
    texts = tf.data.Dataset.from_tensor_slices(TEXTS).batch(3)
    model = new_model()
    before = model.evaluate(texts, batch_size=8)
    assert before == model.evaluate(TEXTS, batch_size=8) == model.evaluate(np.array(TEXTS), batch_size=8)
    assert sorted(before) == ["loss", "masked_lm_accuracy", "perplexity"]
    assert before["perplexity"] == pytest.approx(np.exp(before["loss"]))
    model.compile(optimizer=keras.optimizers.Adam(3e-2))
    history = model.fit(texts, batch_size=8, epochs=15, validation_data=texts, verbose=0).history
    assert {"loss", "perplexity", "val_loss", "val_perplexity"} <= set(history)
    after = model.evaluate(texts, batch_size=8)
    assert after["loss"] < 0.8 * before["loss"]
    # With the same masks, Keras computes the same numbers from batches.
    assert history["val_loss"][-1] == pytest.approx(after["loss"], rel=1e-4)
    assert history["val_masked_lm_accuracy"][-1] == pytest.approx(after["masked_lm_accuracy"], abs=1e-6)


def test_a_model_that_was_not_compiled_gets_the_recipe_of_the_paper():
    model = new_model()
    model.fit(TEXTS, batch_size=8, epochs=2, masking={"do_whole_word_mask": True}, verbose=0)
    schedule = model.optimizer._learning_rate
    assert [float(schedule(step)) for step in (0, 4)] == pytest.approx([5e-5, 0.0])
    assert int(model.optimizer.iterations) == 4


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
        (lambda model: model.fit(["the", 3]), "Text 2 must be a string. Received: 3"),
        (lambda model: model.fit(["the"], masking={"masked_lm_prob": 2.0}), "masked_lm_prob must be a number above 0"),
        (
            lambda model: model.fit(["the"], masking={"prob": 0.2}),
            "must have keys among masked_lm_prob, .*. Received: prob",
        ),
        (lambda model: model.evaluate(["the"], max_seq_length=99), "more than this model's 12 positions"),
        (lambda model: model.predict(["the"]), r"Text 1 has no \[MASK\]"),
    ],
)
def test_what_cannot_be_used_is_said(use, message):
    with pytest.raises(InputError, match=message):
        use(new_model())


def test_a_model_without_a_vocabulary_takes_no_texts():
    with pytest.raises(InputError, match="Texts need the vocabulary of the model"):
        MaskedLM(CONFIG).fit(["the"])
