"""The config and the vocabulary on Google's command lines must fit the checkpoint."""

import itertools
import json

import numpy as np
import pytest
from tiny_checkpoints import CONFIG, VOCABULARY, random_checkpoint

from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.checkpoints.model_weights import model_weights
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.multiple_choice.model import MultipleChoice
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.tasks.question_answering.model import SpanClassifier
from keras_bert.tasks.tagging.model import TokenClassifier
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.training.run_folder import RunFolder
from keras_bert.training.starting_point import StartingPoint, trained_model

# Large enough to show its casing.
WORDS = ["".join(letters) for letters in itertools.product("abcdefghij", repeat=3)]
CASED = Vocabulary([*VOCABULARY.tokens, *WORDS, *(word.capitalize() for word in WORDS)])


@pytest.fixture
def cased_folder(tmp_path):
    """A cased model as Google publishes it: bert_config.json does not state the casing."""
    checkpoint = random_checkpoint(config=CONFIG.replace(vocab_size=len(CASED)), vocabulary=CASED)
    write_checkpoint(checkpoint, tmp_path / "cased", "google")
    file = tmp_path / "cased" / "bert_config.json"
    values = json.loads(file.read_text())
    del values["do_lower_case"]
    file.write_text(json.dumps(values))
    return tmp_path / "cased"


def start(folder, **arguments):
    given = {
        "config": BertConfig.from_json_file(folder / "bert_config.json"),
        "vocabulary": Vocabulary.from_file(folder / "vocab.txt"),
        "init_checkpoint": folder / "bert_model.ckpt",
    }
    return StartingPoint(**{**given, **arguments}).make(SequenceClassifier, labels=["no", "yes"])


def test_the_casing_is_the_checkpoints_where_the_given_config_does_not_say_it(cased_folder):
    assert BertConfig.from_json_file(cased_folder / "bert_config.json").do_lower_case  # the default
    assert start(cased_folder).config.do_lower_case is False


@pytest.mark.parametrize("do_lower_case", [True, False])
@pytest.mark.parametrize("config", [None, CONFIG.replace(vocab_size=len(CASED), do_lower_case=False)])
def test_the_casing_is_that_of_the_flag_where_it_is_given(do_lower_case, config, cased_folder):
    model = start(cased_folder, config=config, do_lower_case=do_lower_case)
    assert model.config.do_lower_case is do_lower_case
    model = StartingPoint(CONFIG, VOCABULARY, do_lower_case=do_lower_case).make(
        SequenceClassifier, labels=["no", "yes"]
    )
    assert model.config.do_lower_case is do_lower_case  # from scratch too


def test_a_config_that_says_cased_and_an_uncased_checkpoint_disagree(tmp_path):
    write_checkpoint(random_checkpoint(), tmp_path / "uncased", "google")
    cased = CONFIG.replace(do_lower_case=False)
    with pytest.raises(InputError, match="disagree: do_lower_case is False and True. Leave the config out"):
        start(tmp_path / "uncased", config=cased)
    assert start(tmp_path / "uncased", config=cased, do_lower_case=True).config.do_lower_case is True


HEADS = {
    SequenceClassifier: ("classifier",),
    TokenClassifier: ("token_classifier",),
    SpanClassifier: ("span_classifier",),
    MultipleChoice: ("choice_scorer",),
}


@pytest.mark.parametrize("model_class", HEADS)
def test_a_trained_model_of_another_format_is_taken_and_one_without_its_head_is_refused(model_class, tmp_path):
    labels = ("no", "yes") if "classifier" in HEADS[model_class][0] and model_class is not SpanClassifier else None
    whole = random_checkpoint(*HEADS[model_class], labels=labels)
    write_checkpoint(whole, tmp_path / "whole", "huggingface")
    write_checkpoint(random_checkpoint("masked_lm_head"), tmp_path / "headless", "huggingface")
    folder = RunFolder(tmp_path / "run")
    model = trained_model(model_class, folder, StartingPoint(init_checkpoint=tmp_path / "whole"))
    for name, weight in model_weights(model).items():
        np.testing.assert_array_equal(weight, whole.tensors[name].read(), err_msg=name)
    message = rf"headless holds a Hugging Face BertFor\w+, but a {model_class.__name__} is needed here: it has no"
    with pytest.raises(InputError, match=f"{message} {HEADS[model_class][0]}. Train one from it first"):
        trained_model(model_class, folder, StartingPoint(init_checkpoint=tmp_path / "headless"))


def test_a_pretrainer_needs_both_heads(tmp_path):
    write_checkpoint(random_checkpoint("masked_lm_head", "next_sentence_head"), tmp_path / "both", "google")
    write_checkpoint(random_checkpoint("masked_lm_head"), tmp_path / "one", "google")
    folder = RunFolder(tmp_path / "run")
    model = trained_model(BertPretrainer, folder, StartingPoint(init_checkpoint=tmp_path / "both"))
    assert model.vocabulary.tokens == VOCABULARY.tokens
    with pytest.raises(InputError, match="one holds a .* it has no next_sentence_head. Train one"):
        trained_model(BertPretrainer, folder, StartingPoint(init_checkpoint=tmp_path / "one"))
    with pytest.raises(InputError, match="run has no trained model. Finish its training first"):
        trained_model(BertPretrainer, folder, StartingPoint())


@pytest.mark.parametrize("number", [None, 0, 2, "1"])
def test_a_run_of_another_format_is_not_continued(number, tmp_path):
    RunFolder(tmp_path / "run", {"seed": 1})
    stored = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps({**stored, "format": number}))
    with pytest.raises(InputError, match=f"a run of the format {number!r}, and this .* goes on with 1"):
        RunFolder(tmp_path / "run", {"seed": 1})
