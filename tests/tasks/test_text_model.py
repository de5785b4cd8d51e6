"""`TextModel`: its options are declared once, and few classes are above a model.

test_road_of_a_text.py follows `predict`.
"""

import inspect
import typing

import pytest

from keras_bert import CrossEncoder, MaskedLM, SequenceClassifier, SpanClassifier, TextToText, registry
from keras_bert.tasks.text_model import EvaluateOptions, FitOptions, PredictOptions, TextModel

MODELS = [registry.imported(path) for path in registry.model_paths()]
FIRST = ("self", "x", "y", "batch_size")


@pytest.mark.parametrize(
    ("name", "options"), [("fit", FitOptions), ("evaluate", EvaluateOptions), ("predict", PredictOptions)]
)
def test_the_options_that_tasks_pass_on_are_those_of_the_method(name, options):
    parameters = inspect.signature(getattr(TextModel, name)).parameters.values()
    shown = {one.name: one.annotation for one in parameters if one.name not in (*FIRST, "unknown")}
    assert typing.get_type_hints(options) == shown
    assert not options.__required_keys__


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        (SequenceClassifier.fit, {"teacher": None, "layer_map": None, "epochs": 1, "max_seq_length": None}),
        (SequenceClassifier.predict, {"top_k": None, "threshold": None, "verbose": "auto", "max_seq_length": None}),
        (CrossEncoder.fit, {"teacher": None, "loss": None, "epochs": 1, "seed": 12345}),
        (MaskedLM.fit, {"masking": None, "skip_missing": False}),
        (MaskedLM.evaluate, {"masking": None, "seed": 12345, "return_dict": None}),
        (SpanClassifier.predict, {"n_best_size": 20, "steps": None}),
        (TextToText.predict, {"num_beams": 4, "callbacks": None}),
    ],
)
def test_a_verb_shows_its_own_options_and_those_that_it_passes_on(verb, options):
    parameters = inspect.signature(verb).parameters
    assert "options" not in parameters
    assert {name: parameters[name].default for name in options} == options
    assert all(one.annotation is not one.empty for one in parameters.values() if one.name != "self")
    assert [name for name in parameters if name in FIRST][-1] == "batch_size"


@pytest.mark.parametrize("model", MODELS)
def test_few_classes_are_above_a_model_and_few_define_a_verb(model):
    own = [base for base in model.__mro__ if base.__module__.startswith("keras_bert.")]
    assert len(own) - 1 <= 4, own
    for verb in ("compile", "fit", "evaluate", "predict", "make_train_function"):
        assert len([base for base in own if verb in vars(base)]) <= 2, verb
