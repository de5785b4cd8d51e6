"""Models whose checkpoint lacks a part warn until the part is trained, and commands refuse to answer with them."""

import keras
import numpy as np
import pytest
import tiny_models
from tiny_checkpoints import FEATURES, random_checkpoint

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.formats import WRITERS, read_checkpoint
from keras_bert.checkpoints.pretrained import from_pretrained, model_of
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.models.distiller import Distiller
from keras_bert.program.command_line import run_command
from keras_bert.program.errors import UntrainedWarning
from keras_bert.serving.portable import portable_models
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.masked_lm.mask_filling import fill_masks, pseudo_perplexity
from keras_bert.tasks.masked_lm.model import MaskedLM
from keras_bert.tasks.masked_lm.task import MaskedLMTask
from keras_bert.tasks.masked_lm.text_generation import generate_text
from keras_bert.tasks.multiple_choice.model import MultipleChoice
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.tasks.question_answering.model import SpanClassifier
from keras_bert.tasks.tagging.model import TokenClassifier

LABELS = {"labels": ["no", "yes"]}
CHOICES = {name: np.stack([values, values], axis=1) for name, values in FEATURES.items()}


def new(model_class, *heads, with_pooler=True, **arguments):
    model = model_of(model_class, random_checkpoint(*heads, with_pooler=with_pooler), **arguments)
    model.run_eagerly = True
    return model


def classifier(with_pooler=True):
    return new(SequenceClassifier, form.MASKED_LM, with_pooler=with_pooler, **LABELS)


def train(model, rate=1e-3):
    model.compile(keras.optimizers.SGD(rate), run_eagerly=True)
    model.fit(FEATURES, np.array([0, 1]), verbose=0)


@pytest.mark.parametrize(
    ("model_class", "arguments", "features", "names"),
    [
        (MaskedLM, {}, FEATURES, "masked_lm_head"),
        (BertPretrainer, {}, FEATURES, "pooler and masked_lm_head and next_sentence_head"),
        (SequenceClassifier, LABELS, FEATURES, "classifier and pooler"),
        (TokenClassifier, LABELS, FEATURES, "token_classifier"),
        (SpanClassifier, {}, FEATURES, "span_classifier"),
        (MultipleChoice, {}, CHOICES, "choice_scorer and pooler"),
    ],
)
def test_an_untrained_model_warns_once_when_it_predicts(model_class, arguments, features, names):
    model = new(model_class, with_pooler=False, **arguments)
    with pytest.warns(UntrainedWarning, match="memory has no .* for it, so new weights were drawn at random") as found:
        model.predict(features, verbose=0)
    (warning,) = (one for one in found if one.category is UntrainedWarning)
    for name in names.split(" and "):
        assert name in str(warning.message)
    assert ("pooler" in str(warning.message)) == ("pooler" in names)
    model.predict(features, verbose=0)


def test_of_an_encoder_without_a_pooler_only_the_pooled_output_is_random():
    encoder = new(BertEncoder, with_pooler=False)
    with pytest.warns(UntrainedWarning, match=r"its pooled_output is random \(its sequence_output is not\)"):
        encoder.predict(FEATURES, verbose=0)


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: fill_masks(model, ["the [MASK]"]),
        lambda model: pseudo_perplexity(model, ["the fox"]),
        lambda model: generate_text(model, "the"),
        lambda model: MaskedLMTask(model).evaluate(["the fox"]),
        lambda model: model.evaluate(FEATURES, verbose=0),
        lambda model: model.export_for_serving("nowhere"),
        lambda model: portable_models.exported_task(classifier()),
        lambda model: classifier().predict(["the fox"]),
        lambda model: classifier().evaluate(["the fox"], ["yes"]),
    ],
    ids=["fill", "perplexity", "write", "texts", "features", "export", "exports", "labels", "scores"],
)
def test_whatever_answers_says_that_a_model_is_untrained(ask):
    with pytest.raises(UntrainedWarning, match="is not trained: memory has no"):  # in tests, warnings are errors
        ask(new(MaskedLM))


def test_only_the_parts_that_answers_depend_on_count():
    model = new(BertPretrainer, form.MASKED_LM, with_pooler=False)
    fill_masks(model, ["the [MASK]"])
    portable_models.exported_task(model)
    portable_models.exported_task(new(BertEncoder, with_pooler=False))
    with pytest.raises(UntrainedWarning, match="no next_sentence_head and pooler|no pooler and next_sentence_head"):
        model.predict(FEATURES)


def of_its_own(model):
    weight = model.classifier.kernel
    weight.assign_add(np.full(weight.shape, 0.1, np.float32))


def distilled(model):
    distiller = Distiller(model, terms=["soft_targets"])
    distiller.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    distiller.fit(FEATURES | {"teacher_logits": np.zeros((2, 2), np.float32)}, verbose=0)


@pytest.mark.parametrize("training", [train, of_its_own, distilled, lambda model: train(model, rate=0.0)])
def test_whatever_trains_a_model_ends_the_warning(training):
    model = classifier(with_pooler=False)
    training(model)
    model.predict(FEATURES, verbose=0)


@pytest.mark.parametrize("format", WRITERS)
def test_untrained_parts_are_not_stored_and_trained_ones_are(format, tmp_path, capsys):
    model = classifier(with_pooler=False)
    model.save_pretrained(tmp_path / "untrained", format=format)
    assert "left out, because it is not trained: classifier, pooler" in capsys.readouterr().out
    assert read_checkpoint(tmp_path / "untrained").heads == ()
    again = SequenceClassifier.from_pretrained(tmp_path / "untrained", **LABELS)
    with pytest.raises(UntrainedWarning):
        again.predict(FEATURES)
    train(model)
    model.save_pretrained(tmp_path / "trained", format=format)
    again = SequenceClassifier.from_pretrained(tmp_path / "trained", **LABELS)
    np.testing.assert_array_equal(again.classifier.kernel, model.classifier.kernel)
    np.testing.assert_array_equal(again.encoder.pooler.dense.kernel, model.encoder.pooler.dense.kernel)
    again.warn_if_untrained()


def test_a_frozen_new_pooler_is_kept_with_the_head_that_was_trained_on_it(tmp_path):
    model = classifier(with_pooler=False)
    model.encoder.trainable = False
    train(model)
    model.save_pretrained(tmp_path / "model")
    again = SequenceClassifier.from_pretrained(tmp_path / "model")
    np.testing.assert_array_equal(again.encoder.pooler.dense.kernel, model.encoder.pooler.dense.kernel)


def test_a_pooler_that_a_tagger_does_not_use_is_never_taken_for_a_trained_one(tmp_path, capsys):
    tagger = new(TokenClassifier, with_pooler=False, **LABELS)
    assert (
        "newly initialised are: token_classifier (to be trained before use); not needed for this model and not there: "
        "pooler\n"
    ) in capsys.readouterr().out
    tagger.new_parts.set_trained()
    tagger.save_pretrained(tmp_path / "tagger")
    again = from_pretrained(None, tmp_path / "tagger")
    assert capsys.readouterr().out == ""
    again.warn_if_untrained()
    np.testing.assert_array_equal(again.token_classifier.kernel, tagger.token_classifier.kernel)
    assert BertEncoder.from_pretrained(tmp_path / "tagger").new_parts.untrained() == ("encoder/pooler",)


def test_a_model_that_was_made_from_a_config_is_not_said_to_lack_anything():
    model, batch = tiny_models.model_and_batch("classes")
    model.run_eagerly = True
    model.predict(batch[0], verbose=0)


def test_commands_refuse_what_is_a_warning_in_python(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["fill"])

    def main():
        fill_masks(new(MaskedLM), ["the [MASK]"])

    with pytest.raises(SystemExit) as exit:
        run_command(main, lambda: None)
    assert exit.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: This MaskedLM is not trained: memory has no masked_lm_head for it, so new weights")
    assert "Train it first (fit, or a command with --do_train), or load a checkpoint that has masked_lm_head" in line
