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


def test_few_of_many_unknown_keys_are_named():
    with pytest.raises(InputError, match=r"'k4'=4\. If"):
        KEYS.check({f"k{number}": number for number in range(100)}, "config.json")
    assert KEYS.unknown({"size": 1, "a": 0, "b": None}) == ["a"]
