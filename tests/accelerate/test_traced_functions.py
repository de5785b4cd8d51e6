"""A model keeps its traced functions until a part of it is another, whoever uses them."""

import keras
import numpy as np
import pytest
from tiny_checkpoints import CONFIG, FEATURES, VOCABULARY

from keras_bert.embeddings.text_vectors import sentence_embeddings
from keras_bert.models.trainable_parts import enable_lora, lora_layers
from keras_bert.optimization import AdamW
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.embedding.losses import CoSENT
from keras_bert.tasks.embedding.model import SentenceEncoder
from keras_bert.tasks.masked_lm.mask_filling import pseudo_perplexity
from keras_bert.tasks.masked_lm.model import MaskedLM
from keras_bert.tasks.text_to_text.model import TextToText
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

INPUTS = {name: FEATURES[name] for name in ("input_ids", "input_mask", "segment_ids")}
TEXTS, LABELS = ["the quick fox", "the Brown fox"], ["no", "yes"]


def classifier():
    return SequenceClassifier(CONFIG, labels=LABELS)


def compiled():
    model = classifier()
    model.compile(AdamW(1e-3))
    return model


# Who calls -> a new model, and numbers that it computes.
CALLERS = {
    "predict": (classifier, lambda model: [one.probability for one in model.predict(TEXTS)]),
    "evaluate": (classifier, lambda model: model.evaluate(TEXTS, LABELS)["loss"]),
    "features": (classifier, lambda model: model.predict(INPUTS, verbose=0)),
    "features and labels": (compiled, lambda model: model.evaluate(INPUTS, np.array([0, 1]), verbose=0)),
    "explain": (classifier, lambda model: [token.score for token in model.explain(TEXTS[0], "no", steps=2)[0].tokens]),
    "vectors": (classifier, lambda model: sentence_embeddings(model, TEXTS)),
    "encode": (lambda: SentenceEncoder(CONFIG), lambda model: model.encode(TEXTS)),
    "write": (lambda: TextToText(CONFIG), lambda model: [one.score for one in model.predict(TEXTS, max_new_tokens=2)]),
    "score targets": (lambda: TextToText(CONFIG), lambda model: model.evaluate(TEXTS, TEXTS)["loss"]),
    "score masks": (lambda: MaskedLM(CONFIG), lambda model: pseudo_perplexity(model, TEXTS).perplexity),
}


def new_model(make):
    keras.utils.set_random_seed(3)
    model = make()
    model.vocabulary = VOCABULARY
    return model


def add_lora(model):
    enable_lora(model, rank=2)
    for layer in lora_layers(model):
        layer.lora_kernel_b.assign(np.random.default_rng(0).normal(size=layer.lora_kernel_b.shape))


def raise_alpha(model):
    for layer in lora_layers(model):
        layer.lora_alpha = 20.0


def replace_table(model):
    embeddings = model.encoder.embeddings
    embeddings._tracker.unlock()  # as Keras does when it quantises a layer
    embeddings.token_embeddings = keras.Variable(np.random.default_rng(1).normal(size=(10, 8)).astype("float32"))


def change_vocabulary(model):
    model.vocabulary = Vocabulary([*VOCABULARY.tokens[:5], *reversed(VOCABULARY.tokens[5:])])


def change_casing(model):
    model.tokenizer = WordPieceTokenizer(VOCABULARY, False)


def set_dtype(model):
    for layer in model.encoder._flatten_layers():
        layer.dtype_policy = "bfloat16"


def forget_everything(model):
    for part in (model, model.encoder):
        part.__dict__.pop("_traced", None)
        part.train_function = part.test_function = part.predict_function = None


def check_that_a_change_is_seen(caller, *changes):
    make, compute = CALLERS[caller]
    model = new_model(make)
    seen = [compute(model)]
    for change in changes:
        change(model)
        seen.append(compute(model))
        assert np.abs(np.subtract(*seen[-2:])).max() > 1e-7
    forget_everything(model)
    np.testing.assert_allclose(compute(model), seen[-1], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "caller", [name if name == "features" else pytest.param(name, marks=pytest.mark.slow) for name in CALLERS]
)
def test_lora_after_a_first_look_is_seen(caller):
    check_that_a_change_is_seen(caller, add_lora)


@pytest.mark.parametrize("caller", ["vectors", pytest.param("predict", marks=pytest.mark.slow)])
def test_parts_that_were_replaced_after_a_first_look_are_seen(caller):
    changes = add_lora, raise_alpha, replace_table, set_dtype, change_vocabulary, change_casing
    check_that_a_change_is_seen(caller, *changes)


def test_fine_tuning_with_lora_after_an_evaluation_is_evaluated():
    model = new_model(classifier)
    before = model.evaluate(TEXTS, LABELS)
    enable_lora(model, rank=2)
    model.fit(TEXTS, LABELS, epochs=3, verbose=0)
    after = model.evaluate(TEXTS, LABELS)
    assert after["loss"] != before["loss"]
    forget_everything(model)
    assert model.evaluate(TEXTS, LABELS)["loss"] == pytest.approx(after["loss"], rel=1e-5)


def test_an_option_of_the_encoder_that_was_set_after_a_first_look_is_seen():
    encoder = new_model(classifier).encoder
    assert "attentions" not in encoder.predict(INPUTS, verbose=0)
    encoder.output_attentions = True
    assert "attentions" in encoder.predict(INPUTS, verbose=0)


def test_calls_fits_and_compiles_keep_the_traces():
    model = new_model(classifier)
    calls, call = [], model.call
    model.call = lambda inputs, training=False: calls.append(training) or call(inputs, training=training)
    model.predict(TEXTS)
    model.fit(TEXTS, LABELS, verbose=0)
    model.evaluate(TEXTS, LABELS)
    model.compile(AdamW(1e-3))
    model.predict(TEXTS)
    assert calls.count(False) == 1
    model.encoder.unpadded = True
    model.predict(TEXTS)
    assert calls.count(False) == 2


def test_another_loss_after_a_first_fit_is_trained():
    model = new_model(lambda: SentenceEncoder(CONFIG))
    model.compile(AdamW(0.0))
    pairs, scores = (TEXTS, ["the", "fox"]), [0.0, 1.0]
    first, second = (
        model.fit(pairs, scores, loss=loss, verbose=0).history["loss"] for loss in (CoSENT(1.0), CoSENT(20.0))
    )
    assert first != second


def test_weights_that_the_optimizer_does_not_know_are_refused_with_what_to_do():
    model = new_model(compiled)
    model.fit(INPUTS, np.array([0, 1]), verbose=0)
    enable_lora(model, rank=2)
    with pytest.raises(InputError, match=r"compiled before .*Call compile\(optimizer=...\) again"):
        model.fit(INPUTS, np.array([0, 1]), verbose=0)
