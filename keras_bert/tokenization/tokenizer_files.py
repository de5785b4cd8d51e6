"""How many tokens the files of a tokenizer may have, and the settings in `tokenizer_config.json`."""

import dataclasses
import json
import os
import reprlib
from collections.abc import Mapping

from keras_bert.program.errors import InputError
from keras_bert.program.json_files import checked, member, read_json_object
from keras_bert.tokenization.tokenizer import SpecialTokens

SETTINGS_FILE = "tokenizer_config.json"
# Roles of special tokens -> their keys in the settings, as in Hugging Face.
_SETTINGS_OF_ROLES = {role: f"{role}_token" for role in ("cls", "sep", "pad", "unk", "mask")}
# Tokens of a vocabulary, and merges: XLM-V has 902,000 tokens, Gemma 515,000 merges.
MOST_TOKENS = 1 << 20
# Texts are searched for these: Gemma has 6,406 of up to 31 characters.
_MOST_ADDED_TOKENS, _LONGEST_ADDED_TOKEN = 100_000, 1000


def check_count(count: int, what: str, where: str, most: int = MOST_TOKENS) -> None:
    """Raises `InputError` if the file `where` has more than `most` of `what`, such as "tokens"."""
    if count > most:
        raise InputError(f"{where} has {count:,} {what}. At most {most:,} are supported. Give the right file.")


def added_tokens_of(values: Mapping, file: str) -> list[dict]:
    """Returns the entries `added_tokens` of a `tokenizer.json`, each with a text `content` and a number `id`.

    Raises:
        InputError: an entry has another form, there are more than 100,000, or one has more than 1,000 characters.
    """
    entries = member(values, "added_tokens", list, file, [])
    check_count(len(entries), "added tokens", file, _MOST_ADDED_TOKENS)
    for entry in entries:
        checked(entry, dict, "each of added_tokens", file)
        _check_length(checked(entry.get("content"), str, "content of added_tokens", file), file)
        checked(entry.get("id"), int, "id of added_tokens", file)
    return entries


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
        raise InputError(f"{path}: a special token must be a text. Received: {reprlib.repr(value)}")
    _check_length(text, path)
    return text


def _check_length(token: str, file: str) -> None:
    if len(token) > _LONGEST_ADDED_TOKEN:
        raise InputError(
            f"{file}: the added token {token[:20]!r}... has {len(token):,} characters. At most "
            f"{_LONGEST_ADDED_TOKEN:,} are supported."
        )
