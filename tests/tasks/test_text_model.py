"""`TextModel`: its options are declared once, few classes are above a model, and `predict` can be followed."""

import ast
import inspect
import pathlib
import sys
import textwrap
import typing

import pytest
from tasks.test_text_fitting import TEXTS, new_model

from keras_bert import CrossEncoder, MaskedLM, SequenceClassifier, SpanClassifier, TextToText, registry
from keras_bert.models.encoder_base import Encoder
from keras_bert.tasks.text_model import EvaluateOptions, FitOptions, PredictOptions, TextModel

LIBRARY = str(pathlib.Path(inspect.getfile(registry)).parent)
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


def called(code, line: int | None = None) -> set[str]:
    """The names that a function calls, in the statement at a line: `rows = task.rows(x)` -> {"rows"}; None for all."""
    lines, first = inspect.getsourcelines(code)
    calls = [node for node in ast.walk(ast.parse(textwrap.dedent("".join(lines)))) if isinstance(node, ast.Call)]
    if line is not None:
        calls = [node for node in calls if node.lineno <= line - first + 1 <= node.end_lineno]
    return {getattr(node.func, "attr", getattr(node.func, "id", "")) for node in calls}


def test_predict_can_be_followed_to_the_encoder(monkeypatch):
    """Each function calls the next one by its name. The jumps are those of TensorFlow and Keras, and one iterator."""
    model, stack, vectors_at = new_model(), [], Encoder.vectors_at

    def noted(self, *args, **options):
        frame = None if stack else sys._getframe(1)
        while frame is not None:
            stack.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        return vectors_at(self, *args, **options)

    monkeypatch.setattr(Encoder, "vectors_at", noted)
    model.predict(TEXTS[:2], verbose=0)
    names = [code.co_name for code, _ in stack]
    steps = stack[: names.index("test_predict_can_be_followed_to_the_encoder")][::-1]
    is_ours = [code.co_filename.startswith(LIBRARY) and code.co_name != "<lambda>" for code, _ in steps]
    ours = [step for step, own in zip(steps, is_ours, strict=True) if own]
    assert len(ours) <= 12
    assert (ours[0][0].co_name, ours[-1][0].co_name) == ("predict", "call")
    assert "vectors_at" in called(*ours[-1])
    for number in range(1, len(steps)):
        name = steps[number][0].co_name
        if is_ours[number] and is_ours[number - 1] and name not in called(*steps[number - 1]):
            assert steps[number][0].co_flags & inspect.CO_GENERATOR, name
            assert any(name in called(code) for code, _ in steps[:number] if code.co_filename.startswith(LIBRARY))
