"""Frozen parts stay bit-identical; LoRA trains only its matrices, and the result is an ordinary model."""

import re

import keras
import numpy as np
import pytest
from tiny_checkpoints import CONFIG, FEATURES, VOCABULARY

from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.models.trainable_parts import count_trained, enable_lora, freeze, lora_layers, what_is_trained
from keras_bert.optimization import AdamW
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.question_answering.model import SpanClassifier

INPUTS = {name: FEATURES[name] for name in ("input_ids", "input_mask", "segment_ids")}
LABELS = np.array([0, 1], "int32")


def new_model():
    keras.utils.set_random_seed(3)
    model = SequenceClassifier(CONFIG, labels=["no", "yes"])
    model.vocabulary = VOCABULARY
    return model


def train(model, steps=2, **optimizer):
    model.compile(optimizer=AdamW(0.05, **optimizer), run_eagerly=True)
    model.fit(INPUTS, LABELS, batch_size=2, epochs=steps, shuffle=False, verbose=0)
    return model


def arrays(model):
    return {re.sub(r"^sequence_classifier\w*/", "", weight.path): weight.value.numpy() for weight in model.weights}


def changed_parts(model, before):
    """Returns the layers, such as `embeddings` or `layer_0`, in which any number has changed."""
    after = arrays(model)
    names = {name for name, value in after.items() if name in before and not np.array_equal(value, before[name])}
    return sorted({name.removeprefix("encoder/").partition("/")[0] for name in names})


@pytest.mark.parametrize(
    ("frozen", "trained"),
    [
        ({"embeddings": True}, ["classifier", "layer_0", "layer_1", "pooler"]),
        ({"num_layers": 1}, ["classifier", "layer_1", "pooler"]),
        ({"whole_encoder": True}, ["classifier"]),
    ],
)
def test_frozen_parts_are_the_same_to_the_bit_after_training(frozen, trained):
    model = new_model()
    freeze(model, **frozen)
    before = arrays(model)
    train(model)
    assert changed_parts(model, before) == trained
    assert len(model.optimizer.slots()) == len(model.trainable_weights)


def test_the_update_of_what_is_trained_is_exactly_that_of_the_rate_multipliers():
    before = arrays(new_model())
    plain = arrays(train(new_model(), steps=1, weight_decay=0.3))
    decayed = arrays(train(new_model(), steps=1, weight_decay=0.3, layer_decay=0.5))
    shares = {"embeddings": 0.125, "layer_0": 0.25, "layer_1": 0.5, "pooler": 1.0, "classifier": 1.0}
    for name, start in before.items():
        share = shares[name.removeprefix("encoder/").partition("/")[0]]
        np.testing.assert_allclose(decayed[name] - start, share * (plain[name] - start), atol=2e-7, err_msg=name)
    assert not np.array_equal(
        plain["encoder/layer_0/attention/query/kernel"], before["encoder/layer_0/attention/query/kernel"]
    )


def test_lora_changes_nothing_before_training():
    plain, model = new_model(), new_model()
    enable_lora(model, rank=2, parts=("attention", "feed_forward"))
    np.testing.assert_array_equal(plain.predict(INPUTS, verbose=0), model.predict(INPUTS, verbose=0))
    assert len(lora_layers(model)) == 6 * CONFIG.num_hidden_layers


def test_lora_trains_its_matrices_pooler_and_head_alone():
    model = new_model()
    enable_lora(model, rank=2)
    before = arrays(model)
    train(model, steps=3)
    after = arrays(model)
    changed = {name for name, value in after.items() if not np.array_equal(value, before[name])}
    assert changed
    for name in changed:
        assert name.startswith(("encoder/pooler", "classifier")) or "/lora_kernel_" in name
    assert sum("/lora_kernel_a" in name for name in changed) == 4 * CONFIG.num_hidden_layers
    assert len(model.optimizer.slots()) == len(changed)


def test_lora_has_few_numbers_to_train():
    model = new_model()
    _, whole = count_trained(model)
    enable_lora(model, rank=1)
    matrices = 4 * CONFIG.num_hidden_layers * 2 * CONFIG.hidden_size
    head = (CONFIG.hidden_size + 1) * (CONFIG.hidden_size + 2)
    assert count_trained(model) == (matrices + head, whole + matrices)


@pytest.mark.parametrize(("format", "alpha"), [("keras_bert", None), ("huggingface", 8)])
def test_a_saved_lora_model_is_an_ordinary_one_with_the_same_answers(tmp_path, format, alpha):
    model = new_model()
    enable_lora(model, rank=2, alpha=alpha, parts=("attention", "feed_forward"))
    train(model, steps=10)
    model.save_pretrained(tmp_path / "model", format=format)
    loaded = SequenceClassifier.from_pretrained(tmp_path / "model")
    assert not lora_layers(loaded)
    assert set(arrays(loaded)) == set(arrays(new_model()))
    expected = model.predict(INPUTS, verbose=0)
    np.testing.assert_allclose(loaded.predict(INPUTS, verbose=0), expected, atol=1e-6)
    assert np.abs(expected - new_model().predict(INPUTS, verbose=0)).max() > 0.1


def test_an_encoder_of_ones_own_can_be_frozen_too():
    encoder = BertEncoder(CONFIG)
    freeze(encoder, num_layers=1)
    assert not any("layer_0" in weight.path or "embeddings" in weight.path for weight in encoder.trainable_weights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: freeze(model, num_layers=3), "Between 0 and 2 layers can be frozen, .* Received: 3"),
        (lambda model: enable_lora(model, 0), "rank must be a whole number of at least 1 and at most 8. Received"),
        (lambda model: enable_lora(model, 9), "rank must be .* at most 8"),
        (
            lambda model: enable_lora(model, 2, parts="pooler"),
            "must be one or more of attention, feed_forward. Received: pooler",
        ),
        (lambda model: [enable_lora(model, 2), enable_lora(model, 2)], "LoRA is already enabled"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        change(new_model())


def test_it_is_said_why_numbers_are_not_trained():
    model = new_model()
    assert what_is_trained(model) == ""
    freeze(model, whole_encoder=True)
    assert what_is_trained(model).startswith("18 of ")
    assert re.search(r"%\): [\d,]+ stay as they are, as the options say \(freezing or LoRA\)$", what_is_trained(model))
    spans = SpanClassifier(CONFIG)
    assert what_is_trained(spans).endswith("%): 72 are the pooler's, which a SpanClassifier does not use")
    freeze(spans, embeddings=True)
    assert "72 are the pooler's, which a SpanClassifier does not use; 208 stay as they are" in what_is_trained(spans)
