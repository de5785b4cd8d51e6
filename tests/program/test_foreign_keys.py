import pytest

from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys

KEYS = KnownKeys(used=("size",), harmless=("version",), fixed={"rotary": (False,), "norm": ("layer", "batch")})


def test_known_keys_pass_and_a_null_counts_as_missing():
    KEYS.check({"size": 3, "version": "any", "rotary": False, "norm": "batch", "surprise": None}, "config.json")


def test_an_unknown_key_is_refused_by_name():
    with pytest.raises(InputError, match=r"config\.json has settings .* results: 'surprise'=\[1\]\. If they do not"):
        KEYS.check({"size": 3, "surprise": [1]}, "config.json")


def test_another_value_of_a_fixed_key_is_refused_by_name():
    with pytest.raises(InputError, match=r"norm is 'power', .* Only 'layer' or 'batch' is supported"):
        KEYS.check({"norm": "power"}, "config.json")


def test_a_refused_key_says_why_and_an_empty_value_passes():
    keys = KnownKeys(refused={"adapter": "merge it first."})
    keys.check({"adapter": {}}, "config.json")
    with pytest.raises(InputError, match=r"config\.json: adapter is {'r': 8}: merge it first\."):
        keys.check({"adapter": {"r": 8}}, "config.json")


def test_unknown_keys_of_a_file_that_changes_no_results_are_noted():
    assert KEYS.notes({"size": 3}, "the file") == []
    assert KEYS.notes({"surprise": 1}, "the file") == ["the file has settings that are not used: 'surprise'=1"]
    with pytest.raises(InputError, match="rotary is True"):
        KEYS.notes({"rotary": True}, "the file")


def test_few_of_many_unknown_keys_are_named():
    with pytest.raises(InputError, match=r"'k4'=4, \.\.\.\. If"):
        KEYS.check({f"k{number}": number for number in range(100)}, "config.json")
    assert KEYS.unknown({"size": 1, "a": 0, "b": None}) == ["a"]
