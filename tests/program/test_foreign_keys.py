import pytest

from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys

KEYS = KnownKeys(
    used=("size",),
    harmless=("version",),
    fixed={"rotary": (False,), "norm": ("layer", "batch")},
    refused={"adapter": "merge it first."},
)


def test_known_keys_pass_and_a_null_or_an_empty_value_counts_as_missing():
    given = {"size": 3, "version": "any", "rotary": False, "norm": "batch", "surprise": None, "adapter": {}}
    KEYS.check(given, "config.json")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 3, "surprise": [1]}, r"has settings .*: 'surprise'=\[1\]\."),
        ({f"k{number}": number for number in range(100)}, r"'k4'=4, \.\.\."),
        ({"norm": "power"}, "norm is 'power', .* Only 'layer' or 'batch' is supported"),
        ({"adapter": {"r": 8}}, r"adapter is {'r': 8}: merge it first\."),
    ],
)
def test_other_keys_and_values_are_refused_by_name(given, message):
    with pytest.raises(InputError, match=rf"^config\.json.*{message}"):
        KEYS.check(given, "config.json")


def test_unknown_keys_of_a_file_that_changes_no_results_are_noted():
    assert KEYS.notes({"size": 3}, "the file") == []
    assert KEYS.notes({"surprise": 1}, "the file") == ["the file has settings that are not used: 'surprise'=1"]
    assert KEYS.unknown({"size": 1, "a": 0, "b": None}) == ["a"]
    with pytest.raises(InputError, match="rotary is True"):
        KEYS.notes({"rotary": True}, "the file")
