"""The public API says what it takes: verbs show their arguments, defaults are accepted, and a name means one thing."""

import ast
import inspect
import pathlib
import re
import typing
from collections import defaultdict

import keras
import pytest

import keras_bert
from keras_bert import BertConfig, Vocabulary, registry
from keras_bert.config.signature_options import ExportOptions, SignatureOptions
from keras_bert.models.task_model import TaskModel
from keras_bert.serving.export import export_for_serving
from keras_bert.serving.portable.loaded_models import loaded_class
from keras_bert.tasks.text_model import TextModel
from keras_bert.tasks.text_to_text.search_options import SearchOptions

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIG = BertConfig(vocab_size=8, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]
# What the constructors of public classes require.
REQUIRED = {
    "config": CONFIG,
    "labels": ["no", "yes"],
    "tokens": TOKENS,
    "vocabulary": Vocabulary(TOKENS),
    "vectors": [[1.0, 0.0], [0.0, 1.0]],
    "model": "folder",
    "learning_rate": 0.1,
    "peak": 0.1,
    "vocab_size": 8,
    "num_train_steps": 10,
    "num_warmup_steps": 1,
    "num_decay_steps": 1,
}
MADE_OTHERWISE = {"BgeM3", "InputError", "Encoder", "BytePairTokenizer", "SentencePieceTokenizer", "VectorIndex"}
SPECIAL = {"TransformerXL": {"config": BertConfig.from_size("transformer-xl-enwik8", num_hidden_layers=1)}}
PUBLIC = {name: getattr(keras_bert, name) for name in keras_bert.__all__ if name != "__version__"}
CLASSES = {name: item for name, item in PUBLIC.items() if inspect.isclass(item)}
MODELS = [item for item in CLASSES.values() if issubclass(item, keras.Model)]
VERBS = ("compile", "fit", "evaluate", "predict", "explain", "calibrate", "rank", "fit_few_shot")
VERBS += ("from_pretrained", "save_pretrained", "export_for_serving")
# Options of `predict` of models that loaded exports do not have.
ABSENT = {"TextToText": set(SearchOptions.__dataclass_fields__), "CrossEncoder": {"top_k", "threshold"}}
# The last argument takes what a signature cannot know.
OPEN = {"unknown", "of_keras"}


def verbs_of(classes):
    for item in classes:
        for name in VERBS:
            verb = getattr(item, name, None)
            if verb is not None and getattr(verb, "__module__", "").startswith("keras_bert"):
                yield pytest.param(item, name, id=f"{item.__name__}.{name}")


def names_of(function) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def defaults_of(function) -> dict:
    return {name: one.default for name, one in inspect.signature(function).parameters.items()}


@pytest.mark.parametrize("name", sorted(set(CLASSES) - MADE_OTHERWISE))
def test_a_constructor_accepts_its_own_defaults(name):
    parameters = inspect.signature(CLASSES[name].__init__).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    needed = [one.name for one in parameters if one.default is one.empty and one.kind in kinds]
    given = {**REQUIRED, **SPECIAL.get(name, {})}
    CLASSES[name](**{name: given[name] for name in needed if name != "self"})


def test_a_classifier_without_labels_has_two_and_a_regression_one():
    assert keras_bert.SequenceClassifier(CONFIG).labels == ("LABEL_0", "LABEL_1")
    assert keras_bert.SentenceClassifier(CONFIG, problem_type="regression").labels == ("score",)


@pytest.mark.parametrize(("model", "name"), list(verbs_of(MODELS)))
def test_a_verb_shows_its_arguments_and_says_what_they_are(model, name):
    verb = getattr(model, name)
    for one in inspect.signature(verb).parameters.values():
        assert one.kind is not one.VAR_POSITIONAL, one
        assert one.kind is not one.VAR_KEYWORD or one.name in OPEN, one
    texts = [inspect.getdoc(verb)]
    if name == "from_pretrained":  # the page of the class explains the constructor's arguments
        texts += [inspect.getdoc(item) or "" for item in (*model.__mro__, keras.layers.Layer)]
    if re.search(r"those\s+of\s+`T(ask|ext)Model\.", texts[0]) or "As `keras.Model." in texts[0]:
        texts += [inspect.getdoc(getattr(TextModel, name)), inspect.getdoc(getattr(keras.Model, name))]
    missing = [one for one in names_of(verb) if not re.search(rf"\b{one}\b", "\n".join(texts))]
    assert missing == []


@pytest.mark.parametrize("model", MODELS)
def test_from_pretrained_shows_the_arguments_of_the_constructor_with_their_defaults(model):
    shown = inspect.signature(model.from_pretrained).parameters
    own = list(inspect.signature(model.__init__).parameters.values())[2:]
    own = {one.name: one.default for one in own if one.kind is not one.VAR_KEYWORD}
    assert {name: shown[name].default for name in own} == {
        name: None if default is inspect.Parameter.empty else default for name, default in own.items()
    }
    assert {"new_tokens", "name", "dtype"} < set(shown)
    assert "arguments" not in shown


def test_from_pretrained_shows_arguments_of_a_base_class_and_of_a_subclass_outside_of_the_library():
    assert inspect.signature(keras_bert.SequenceClassifier.from_pretrained).parameters["temperature"].default == 1.0

    class Wider(keras_bert.MaskedLM):
        def __init__(self, config, width=3, **kwargs):
            super().__init__(config, **kwargs)

    assert inspect.signature(Wider.from_pretrained).parameters["width"].default == 3

    class Reader(keras_bert.MaskedLM):
        @classmethod
        def from_pretrained(cls, path):
            return path

    class Closed(Reader):
        def __init__(self, config):
            super().__init__(config)

    assert names_of(Closed.from_pretrained) == ["path"]
    assert Closed.from_pretrained("a") == "a"


def test_from_pretrained_refuses_an_unknown_argument_by_name(tmp_path):
    keras_bert.SequenceClassifier(CONFIG, ["no", "yes"]).save_pretrained(tmp_path / "model")
    for model in (keras_bert.SequenceClassifier, keras_bert.Encoder):
        with pytest.raises(keras_bert.InputError, match="from_pretrained has no option label. It has: .*do_lower_case"):
            model.from_pretrained(tmp_path / "model", label=["no", "yes"])
    assert keras_bert.SequenceClassifier.from_pretrained(tmp_path / "model", labels=None).labels == ("no", "yes")


def test_export_for_serving_shows_the_options_of_signatures_with_their_types_and_defaults():
    fields = inspect.signature(SignatureOptions).parameters
    types = {name: one.annotation for name, one in fields.items()}
    assert typing.get_type_hints(ExportOptions) == types
    assert not ExportOptions.__required_keys__
    for verb in (keras_bert.Encoder.export_for_serving, export_for_serving):
        shown = inspect.signature(verb).parameters
        assert {name: (shown[name].annotation, shown[name].default) for name in fields} == {
            name: (one.annotation, one.default) for name, one in fields.items()
        }
        assert list(shown)[-len(fields) :] == list(fields)
        assert shown["format"].default == "saved_model"


@pytest.mark.parametrize("kind", [kind for kind in registry.TASKS if registry.task(kind).export])
def test_a_loaded_export_has_the_options_of_its_model(kind):
    stored = registry.task(kind).export.stored_as or kind
    loaded, model = loaded_class(stored), CLASSES[stored]
    for name in ("predict", "evaluate", "encode", "rank"):
        if not hasattr(loaded, name):
            continue
        shown = set(names_of(getattr(loaded, name)))
        assert not {"args", "options"} & shown
        of_model = defaults_of(getattr(model, name))
        assert shown - set(of_model) == set()
        # Steps are for features, searches are fixed when a model is exported, and a score has no labels.
        assert set(of_model) - shown - {"self", "unknown", "steps"} == (
            ABSENT.get(stored, set()) if name == "predict" else set()
        )
        for one in inspect.signature(getattr(loaded, name)).parameters.values():
            assert one.name == "self" or one.annotation is not one.empty, one
            assert one.name in ("self", "x", "top_k", "return_dict") or one.default == of_model[one.name], one


def test_a_loaded_export_shows_the_options_of_its_task_and_refuses_others():
    classifier, answers, masked = map(loaded_class, ("SequenceClassifier", "SpanClassifier", "MaskedLM"))
    assert {"top_k": None, "threshold": None}.items() <= defaults_of(classifier.predict).items()
    assert {"n_best_size": 20, "null_threshold": None}.items() <= defaults_of(answers.predict).items()
    assert {"targets": None, "joint": False}.items() <= defaults_of(masked.predict).items()
    assert {"masking": None, "seed": 12345}.items() <= defaults_of(masked.evaluate).items()
    for loaded, verb in ((classifier, "predict"), (answers, "predict"), (masked, "evaluate")):
        with pytest.raises(keras_bert.InputError, match=f"{verb} of this export has no option steps. It has: .*batch"):
            getattr(object.__new__(loaded), verb)(["a"], steps=1)


@pytest.mark.parametrize("name", ["compile", "fit", "evaluate", "predict"])
@pytest.mark.parametrize("model", [item for item in MODELS if issubclass(item, TaskModel)])
def test_arguments_of_keras_have_the_order_of_keras(model, name):
    theirs = [one for one in names_of(getattr(keras.Model, name)) if one != "kwargs"]
    assert names_of(getattr(model, name))[: len(theirs)] == theirs


@pytest.mark.parametrize(
    ("option", "call"),
    [
        ("n_best_size", lambda features: keras_bert.SpanClassifier(CONFIG).predict(features, n_best_size=3)),
        ("max_seq_length", lambda features: keras_bert.MultipleChoice(CONFIG).evaluate(features, max_seq_length=3)),
        ("masking", lambda features: keras_bert.MaskedLM(CONFIG).fit(features, masking={})),
        ("epoch", lambda features: keras_bert.MultipleChoice(CONFIG).fit(features, epoch=3)),
    ],
)
def test_options_of_texts_are_refused_on_features(option, call):
    with pytest.raises(keras_bert.InputError, match=f"on features has no option {option}. It has: .*batch_size"):
        call({"input_ids": [[1]]})


def test_options_of_a_teacher_need_one():
    model = keras_bert.SequenceClassifier(CONFIG, ["no", "yes"])
    with pytest.raises(keras_bert.InputError, match="fit without a teacher has no option layer_map"):
        model.fit(["a"], ["no"], layer_map=[0])


def test_no_two_public_classes_share_a_name():
    places = defaultdict(list)
    for path in sorted((ROOT / "keras_bert").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert shared == {}
