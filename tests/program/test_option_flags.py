"""An option is declared once: a field of a dataclass makes its flag."""

import dataclasses
import functools
import inspect
import re
from collections.abc import Sequence

import pytest
from absl import flags

from data_prep.build_vocabulary import VocabularyOptions, build_vocabulary
from data_prep.pretraining.pretraining_records import PretrainingOptions
from keras_bert.program import option_flags
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import (
    define_option_flags,
    flag_values,
    given_values,
    options_of_flags,
    refuse_unneeded_flags,
)
from keras_bert.program.options import Options, documented, option, same_option
from keras_bert.records.masked_positions import MaskingOptions
from keras_bert.tasks.masked_lm.text_generation import GenerationOptions
from keras_bert.training.fine_tuning_options import FineTuningOptions, class_weights


@dataclasses.dataclass(frozen=True)
class Butter(Options):
    salted: bool = option(False, "Whether it is salted.")


@documented
@dataclasses.dataclass(frozen=True)
class Bread(Options):
    """A slice."""

    thickness: int = option(2, "In centimetres.", at_least=1, at_most=9)
    kind: str = option("rye", "Its flour.", choices=("rye", "wheat"))
    holes: Sequence[int] | None = option(None, "Where they are.", flag="hole_places", needs="salted", at_least=0)
    butter: Butter = Butter()
    eaten_by: str = "nobody"


@pytest.fixture
def values(monkeypatch):
    """Fresh flags, as in a process of their own."""
    values = flags.FlagValues()
    for name in ("DEFINE", "DEFINE_boolean", "DEFINE_string", "DEFINE_list"):
        monkeypatch.setattr(flags, name, functools.partial(getattr(flags, name), flag_values=values))
    monkeypatch.setattr(option_flags, "FLAGS", values)
    monkeypatch.setattr(flags, "FLAGS", values)
    return values


def test_the_fields_make_the_flags_and_the_flags_the_fields(values):
    define_option_flags(Bread)
    assert sorted(values) == ["hole_places", "kind", "salted", "thickness"]
    values(["command", "--salted", "--hole_places=1,3", "--thickness=4"])
    assert options_of_flags(Bread, eaten_by="me") == Bread(4, "rye", (1, 3), Butter(True), "me")


def test_without_flags_the_options_have_their_defaults(values):
    define_option_flags(Bread)
    values(["command"])
    assert options_of_flags(Bread) == Bread()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("--thickness=0", "thickness must be a whole number of at least 1 and at most 9. Received: 0"),
        ("--thickness=10", "thickness must be a whole number of at least 1 and at most 9. Received: 10"),
        ("--thickness=thin", "thickness must be a whole number of at least 1 and at most 9. Received: 'thin'"),
        ("--kind=oat", "kind must be one of rye, wheat. Received: 'oat'"),
        ("--hole_places=left", "hole_places must be a list of whole numbers of at least 0. Received: ['left']"),
    ],
)
def test_flags_give_the_messages_of_the_dataclass(values, wrong, message):
    define_option_flags(Bread)
    with pytest.raises(flags.Error, match=re.escape(message)):
        values(["command", wrong])


def test_a_flag_may_have_a_value_that_stands_for_none(values):
    define_option_flags(GenerationOptions)
    values(["command", "--top_k=0"])
    assert options_of_flags(GenerationOptions).top_k is None
    with pytest.raises(flags.Error, match="top_k must be a whole number of at least 1. Received: -1"):
        values(["command", "--top_k=-1"])


def test_flags_without_defaults_leave_what_is_not_given_to_the_dataclass(values):
    left_out = ("holes", "butter")
    define_option_flags(Bread, suffix="_of_guests", purpose="Guests: ", but=left_out, has_defaults=False)
    values(["command", "--thickness_of_guests=3"])
    assert values["kind_of_guests"].help.endswith("Guests: Its flour. Default: rye.")
    found = flag_values(Bread, suffix="_of_guests", but=("holes", "butter"))
    assert {name: value for name, value in found.items() if value is not None} == {"thickness": 3}


def test_a_flag_is_refused_without_the_flag_that_it_needs(values):
    define_option_flags(Bread)
    values(["command", "--hole_places=1"])
    with pytest.raises(InputError, match="--hole_places has no effect without --salted. Leave it out."):
        refuse_unneeded_flags(Bread)
    values(["command", "--hole_places=1", "--salted"])
    refuse_unneeded_flags(Bread)


def test_what_is_given_is_told_from_defaults(values):
    define_option_flags(Bread, has_defaults=False)
    values(["command", "--kind=wheat"])
    assert given_values(Bread, but=("butter",)) == {"kind": "wheat"}


def test_the_help_texts_are_in_the_docstring():
    assert Bread.__doc__.startswith("A slice.\n")
    assert "    thickness: In centimetres." in Bread.__doc__
    assert "train_batch_size: Examples per update." in FineTuningOptions.__doc__


def test_an_option_of_two_dataclasses_is_declared_once():
    shared = same_option(MaskingOptions, "masked_lm_prob")
    assert shared.default == PretrainingOptions().masked_lm_prob
    assert shared.metadata == PretrainingOptions.__dataclass_fields__["masked_lm_prob"].metadata


@pytest.mark.parametrize("given", [["good"], ["=1"], ["good=much"]])
def test_class_weights_that_cannot_be_read(given):
    with pytest.raises(InputError, match="--class_weights must be balanced or label=weight"):
        class_weights(given)


def test_a_function_with_keyword_arguments_has_the_options_of_its_command():
    arguments = inspect.signature(build_vocabulary).parameters
    of_command = {field.name: field.default for field in dataclasses.fields(VocabularyOptions)}
    assert set(of_command) == set(arguments) - {"show_progress"}
    with_default = {name for name, default in of_command.items() if default is not dataclasses.MISSING}
    with_default.discard("num_processes")  # one in a function, and one per core in a command
    assert {name: arguments[name].default for name in with_default} == {name: of_command[name] for name in with_default}
