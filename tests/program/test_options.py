"""Options check their values: each bound is allowed, the next value beyond it is refused, with one message."""

import dataclasses
import importlib
import math
import pathlib
import re
import textwrap

import numpy as np
import pytest

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.options import Allowed, Options, allowed_values, option

PLACE = pathlib.Path(__file__).parents[2]
PACKAGES = ("keras_bert", "data_prep", "run_scripts")
# The values of fields without a default, and of those that others need.
NEEDED = {
    "AdaptationOptions": {"text": ["a.txt"], "init_checkpoint": "bert", "output_dir": "adapted"},
    "DataSet": {"text_columns": ["a", "b"]},
    "Distillation": {"teacher": "bert"},
    "PretrainingEvaluation": {"eval_files": "a"},
    "PretrainingPhase": {"train_files": "a", "num_train_steps": 10},
    "VocabularyOptions": {"input_file": ["a.txt"], "output_file": "vocab.txt"},
}
SIZES = {
    "BertConfig": "tiny",
    "DebertaConfig": "deberta-v3-base",
    "LongConfig": "longformer-base",
    "MobileBertConfig": "mobilebert",
    "ModernBertConfig": "modernbert-base",
    "RotaryConfig": "nomic-embed-text-v1.5",
    "TransformerXLConfig": "transformer-xl-enwik8",
    "XLNetConfig": "xlnet-base",
}


def option_classes() -> list[type]:
    """Returns all classes of options of the library, by name."""
    parents, found = {}, {"Options"}
    for path in (path for package in PACKAGES for path in (PLACE / package).rglob("*.py")):
        module = ".".join(path.relative_to(PLACE).with_suffix("").parts)
        text = path.read_text().partition("\nimport")[2]  # without the docstring
        parents |= {name: (module, parent) for name, parent in re.findall(r"^class (\w+)\((\w+)\):", text, re.M)}
    while new := {name for name, (_, parent) in parents.items() if parent in found} - found:
        found |= new
    return [getattr(importlib.import_module(parents[name][0]), name) for name in sorted(found - {"Options"})]


def written(allowed: Allowed) -> str:
    signs = {">=": allowed.at_least, ">": allowed.above, "<=": allowed.at_most, "<": allowed.below}
    names = {2**31 - 1: "int32", 2**32 - 1: "uint32"}
    return " ".join(f"{sign}{names.get(bound, bound)}" for sign, bound in signs.items() if bound is not None)


def written_bounds(options_class: type) -> str:
    own = options_class.__dict__.get("__annotations__", {})
    bounds = {name: written(allowed) for name, allowed in allowed_values(options_class).items() if name in own}
    return ", ".join(f"{name} {bound}" for name, bound in bounds.items() if bound)


def example(options_class: type) -> Options:
    name = options_class.__name__
    if name in SIZES:
        return BertConfig.from_size(SIZES[name], vocab_size=100_000)
    return options_class(**NEEDED.get(name, {}))


def edges(allowed: Allowed):
    """Returns the first and last allowed values, and the values just beyond them."""
    step = (lambda value, to: value + (1 if to > value else -1)) if allowed.kind is int else math.nextafter
    good = [bound for bound in (allowed.at_least, allowed.at_most) if bound is not None]
    bad = []
    for bound, outwards in ((allowed.at_least, -math.inf), (allowed.at_most, math.inf)):
        bad += [] if bound is None else [step(bound, outwards)]
    for bound, inwards in ((allowed.above, math.inf), (allowed.below, -math.inf)):
        good += [] if bound is None else [step(bound, inwards)]
        bad += [] if bound is None else [bound]
    return good, bad


def wrong_values(allowed: Allowed) -> list:
    """Returns values that no option of this kind has."""
    if allowed.choices:
        return ["no such choice", 1]
    return {int: [True, "1", 1.5, math.nan], float: [True, "1", math.nan, math.inf], bool: [1, "true"], str: [1]}[
        allowed.kind
    ]


def refusal(options: Options, name: str, value) -> str:
    """Returns the error of options with another value, or nothing if there is none."""
    try:
        dataclasses.replace(options, **{name: value})
    except InputError as error:
        return str(error)
    return ""


def test_the_bounds_of_all_options_are_these():
    found = {one.__name__: bounds for one in option_classes() if (bounds := written_bounds(one))}
    lines = [textwrap.fill(f"{name}: {bounds}", 118, subsequent_indent="    ") for name, bounds in found.items()]
    assert "\n".join(lines) + "\n" == pathlib.Path(__file__).with_name("option_bounds.txt").read_text("utf-8")


def test_every_class_allows_its_bounds_and_refuses_what_is_beyond():
    for options_class in option_classes():
        if options_class.__name__.startswith(("Mixed", "Matryoshka")):  # made of other losses
            continue
        options = example(options_class)
        fixed = {field.name for field in dataclasses.fields(options) if not field.init} | {"model_type"}
        for name, allowed in allowed_values(type(options)).items():
            if name in fixed:
                continue
            as_given = (lambda value: [value]) if allowed.is_list else (lambda value: value)
            good, bad = edges(allowed)
            message = f"{name} must be {allowed}. Received: "
            for value in map(as_given, [*bad, *wrong_values(allowed)]):
                assert refusal(options, name, value).startswith(message), (options_class, value)
            for value in map(as_given, good):  # other options may contradict it
                assert not refusal(options, name, value).startswith(message), (options_class, value)


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        (Allowed(int), "a whole number"),
        (Allowed(int, at_least=1, at_most=65535), "a whole number of at least 1 and at most 65,535"),
        (Allowed(float, above=0, below=0.5), "a number above 0 and below 0.5"),
        (Allowed(int, at_least=1, is_list=True), "a list of whole numbers of at least 1"),
        (Allowed(str, choices=("rye", "wheat")), "one of rye, wheat"),
        (Allowed(str), "a text"),
        (Allowed(bool), "true or false"),
    ],
)
def test_a_message_says_what_is_allowed(allowed, words):
    with pytest.raises(InputError) as error:
        allowed.checked("slices", math.nan)
    assert str(error.value) == f"slices must be {words}. Received: nan"


@dataclasses.dataclass(frozen=True)
class Bread(Options):
    slices: int = option(2, at_least=1)
    weight: float | None = option(None, above=0)


def test_numbers_of_numpy_become_those_of_python():
    bread = Bread(np.int64(3), np.float32(0.5))
    assert (type(bread.slices), type(bread.weight)) == (int, float)
    assert bread == Bread(3, 0.5)


def test_a_hostile_value_is_shortened():
    with pytest.raises(InputError) as error:
        Bread(-(10**4000))
    assert len(str(error.value)) < 200


def test_none_is_allowed_where_the_type_has_it():
    assert Bread().weight is None
    with pytest.raises(InputError, match="slices must be a whole number of at least 1. Received: None"):
        Bread(None)
