"""Reads files of all kinds of tokenizers, limited in size, and the settings in `tokenizer_config.json`."""

import dataclasses
import json
import os

from keras_bert.program.errors import InputError
from keras_bert.program.json_files import read_json_object
from keras_bert.tokenization.tokenizer import SpecialTokens

SETTINGS_FILE = "tokenizer_config.json"
# Roles of special tokens -> their keys in the settings, as in Hugging Face.
_SETTINGS_OF_ROLES = {role: f"{role}_token" for role in ("cls", "sep", "pad", "unk", "mask")}
# A million tokens of 64 bytes.
_MOST_BYTES = 1 << 26


def read_tokenizer_file(path: str | os.PathLike) -> bytes:
    """Returns the content of one file of a tokenizer.

    Raises:
        InputError: the file cannot be read, or is larger than 64 MiB.
    """
    path = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from error
    if len(data) > _MOST_BYTES:
        raise InputError(
            f"{path} has more than {_MOST_BYTES:,} bytes, too many for a file of a tokenizer. Give another file."
        )
    return data


def read_settings(folder: str | os.PathLike) -> dict:
    """Returns the settings in a folder's `tokenizer_config.json`, or an empty dict without the file.

    Raises:
        InputError: the file is damaged.
    """
    path = os.path.join(folder, SETTINGS_FILE)
    return read_json_object(path) if os.path.isfile(path) else {}


def special_tokens_of(folder: str | os.PathLike, default: SpecialTokens) -> SpecialTokens:
    """Returns the special tokens that a folder's settings name; `default` supplies the others.

    Raises:
        InputError: the settings are damaged.
    """
    path = os.path.join(folder, SETTINGS_FILE)
    settings = read_settings(folder)
    names = {role: _named_token(settings[key], path) for role, key in _SETTINGS_OF_ROLES.items() if settings.get(key)}
    return dataclasses.replace(default, **names)


def settings_text(special_tokens: SpecialTokens, tokenizer_class: str, **settings) -> str:
    """Returns the content of `tokenizer_config.json`, as Hugging Face reads it."""
    names = {key: getattr(special_tokens, role) for role, key in _SETTINGS_OF_ROLES.items()}
    if special_tokens.mask_takes_space:
        # The form in which transformers writes a token with its own settings.
        names["mask_token"] = {
            "__type": "AddedToken",
            "content": special_tokens.mask,
            "lstrip": True,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
        }
    return json.dumps({"tokenizer_class": tokenizer_class, **settings, **names}, indent=2) + "\n"


def _named_token(value, path: str) -> str:
    """Returns the text of a special token, which is stored as text or as an object with the text as `content`."""
    text = value.get("content") if isinstance(value, dict) else value
    if not isinstance(text, str) or not text:
        raise InputError(f"{path}: a special token must be a text. Received: {value!r:.100}")
    return text
