"""The files of byte-level BPE: `vocab.json` with `merges.txt` (RoBERTa), or one `tokenizer.json` (ModernBERT).

Reference: huggingface/tokenizers, the JSON that `Tokenizer.save` writes.
"""

import dataclasses
import json
import os
import reprlib
from collections.abc import Mapping, Sequence

from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import read_small_file
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import checked, member, parse_small_json
from keras_bert.tokenization.added_tokens import AddedToken
from keras_bert.tokenization.tokenizer import MODERN_BERT_SPECIAL_TOKENS, ROBERTA_SPECIAL_TOKENS, SpecialTokens
from keras_bert.tokenization.tokenizer_files import check_count
from keras_bert.tokenization.tokenizer_json import (
    BYTE_PAIR_CLASSES,
    SETTINGS_FILE,
    TOKENIZER_FILE,
    added_token_entry,
    check_row_form,
    read_added_tokens,
    read_settings,
    read_tokenizer_json,
    special_tokens_of,
    without_roles,
)

VOCABULARY_FILE = "vocab.json"
MERGES_FILE = "merges.txt"

_MODEL_KEYS = KnownKeys(
    used=("type", "vocab", "merges"),
    harmless=("unk_token", "fuse_unk"),  # every byte is known
    fixed={
        "dropout": (0.0,),
        "continuing_subword_prefix": ("",),
        "end_of_word_suffix": ("",),
        "byte_fallback": (False,),
        "ignore_merges": (False,),
    },
)
_SPLITTER_KEYS = KnownKeys(used=("type", "add_prefix_space"), harmless=("trim_offsets",), fixed={"use_regex": (True,)})
# Form of a row in tokenizer.json: the texts by name, with the special tokens around them.
_TEXTS = ("A", "B")


def read_vocabulary(path: str | os.PathLike) -> dict[str, int]:
    """Returns token -> id of a `vocab.json`. Raises `InputError` if it is missing or damaged."""
    path = os.fspath(path)
    try:
        ids = parse_small_json(_read_text(path), path)
    except InputError as error:
        raise InputError(
            f"{error} The vocabulary of byte-level BPE is a vocab.json, {{token: id, ...}}; a vocab.txt belongs to "
            "WordPiece."
        ) from None
    is_table = isinstance(ids, dict) and all(type(number) is int for number in ids.values())
    if not is_table or not ids:
        raise InputError(f"{path} is not a vocabulary. Expected: {{token: id, ...}} with whole numbers.")
    check_count(len(ids), "tokens", path)
    return ids


def read_merges(path: str | os.PathLike) -> list[tuple[str, str]]:
    """Returns the pairs of a `merges.txt`. Raises `InputError` if it is missing or damaged."""
    path = os.fspath(path)
    merges, text = [], _read_text(path)
    check_count(text.count("\n"), "lines", path)
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        pair = tuple(line.split(" ", maxsplit=2))
        if len(pair) != 2 or not all(pair):
            raise InputError(
                f"{path}: line {number} is not a merge. Expected: two tokens with one space between them. "
                f"Received: {line!r:.100}"
            )
        merges.append(pair)
    return merges


def read_byte_pair(folder: str | os.PathLike) -> dict:
    """Returns the arguments of `BytePairTokenizer` that the files of a folder describe.

    These are `vocab.json` and `merges.txt`, or else `tokenizer.json`, and the files with settings and added tokens.

    Raises:
        InputError: a file is missing or damaged, or has a step that would change the tokens: another model, splitter or
            normaliser, or other special tokens around texts.
    """
    file, settings_file = (os.path.join(folder, name) for name in (TOKENIZER_FILE, SETTINGS_FILE))
    values, settings = read_tokenizer_json(folder), read_settings(folder, BYTE_PAIR_CLASSES)
    if os.path.isfile(os.path.join(folder, VOCABULARY_FILE)):
        ids = read_vocabulary(os.path.join(folder, VOCABULARY_FILE))
        merges = read_merges(os.path.join(folder, MERGES_FILE))
        prefix, normalizes = member(settings, "add_prefix_space", bool, settings_file, False), False
    elif values:
        ids, merges, prefix, normalizes = _model_of(values, file)
    else:
        raise InputError(f"{os.fspath(folder)} has neither {VOCABULARY_FILE} nor {TOKENIZER_FILE}.")
    added = read_added_tokens(folder, values, settings, ids)
    special_tokens = _special_tokens(folder, values, ids, added)
    check_row_form(values, special_tokens, ids, folder)
    return {
        "ids": ids,
        "merges": merges,
        "special_tokens": special_tokens,
        "add_prefix_space": prefix,
        "normalizes": normalizes,
        "added_tokens": tuple(without_roles(added, special_tokens)),
    }


def _model_of(values: Mapping, file: str) -> tuple[dict[str, int], list[tuple[str, str]], bool, bool]:
    """Returns ids, merges, whether a space is put before texts, and whether texts are normalised to NFC."""
    model, splitter = member(values, "model", dict, file, {}), member(values, "pre_tokenizer", dict, file, {})
    for name, part, expected in (("model", model, "BPE"), ("pre_tokenizer", splitter, "ByteLevel")):
        if part.get("type") != expected:
            raise InputError(
                f"{file}: the {name} is {reprlib.repr(part.get('type'))}. Only {expected} is supported, as in GPT-2 "
                "and RoBERTa."
            )
    normalizer = member(values, "normalizer", dict, file, {})
    if normalizer and normalizer != {"type": "NFC"}:
        raise InputError(
            f"{file}: normalizer would change the tokens: {reprlib.repr(normalizer)}. Only NFC is supported."
        )
    _MODEL_KEYS.check(model, f"{file}: model")
    _SPLITTER_KEYS.check(splitter, f"{file}: pre_tokenizer")
    ids = {
        token: checked(number, int, "the number of a token", file)
        for token, number in member(model, "vocab", dict, file, {}).items()
    }
    check_count(len(ids), "tokens", file)
    prefix = member(splitter, "add_prefix_space", bool, file, False)
    return ids, _merges(model, file), prefix, bool(normalizer)


def tokenizer_json(tokenizer) -> str:
    """Returns the content of the `tokenizer.json` of a `BytePairTokenizer`."""
    special, ids = tokenizer.special_tokens, tokenizer.ids
    roles = [
        AddedToken(name, lstrip=name == special.mask and special.mask_takes_space, normalized=False, special=True)
        for name in {*special.names}
    ]

    def row(num_texts: int) -> list[dict]:
        parts = [{"SpecialToken": {"id": special.cls, "type_id": 0}}]
        for name, number in zip(_TEXTS, special.separators(num_texts), strict=False):
            parts.append({"Sequence": {"id": name, "type_id": 0}})
            parts += [{"SpecialToken": {"id": special.sep, "type_id": 0}}] * number
        return parts

    tokens = sorted([*roles, *tokenizer.added_tokens], key=lambda token: ids[token.content])
    splitter = {"type": "ByteLevel", "add_prefix_space": tokenizer.add_prefix_space, "trim_offsets": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None}
    model |= {"end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    values = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": ids[token.content], **added_token_entry(token)} for token in tokens],
        "normalizer": {"type": "NFC"} if tokenizer.normalizes else None,
        "pre_tokenizer": splitter | {"use_regex": True},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": row(1),
            "pair": row(2),
            "special_tokens": {
                name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in (special.cls, special.sep)
            },
        },
        "decoder": splitter | {"use_regex": True},
        "model": model | {"vocab": dict(zip(tokenizer.tokens, range(len(ids)), strict=True))},
    }
    values["model"]["merges"] = [list(pair) for pair in tokenizer.merges]
    return json.dumps(values, ensure_ascii=False) + "\n"


def _special_tokens(
    folder: str | os.PathLike, values: Mapping, ids: Mapping[str, int], added: Sequence[AddedToken]
) -> SpecialTokens:
    """Returns the special tokens with their roles, and the form of a row."""
    file = os.path.join(folder, TOKENIZER_FILE)
    is_modern = all(name in ids for name in MODERN_BERT_SPECIAL_TOKENS.names)
    found = special_tokens_of(folder, MODERN_BERT_SPECIAL_TOKENS if is_modern else ROBERTA_SPECIAL_TOKENS)
    processor = member(values, "post_processor", dict, file, {})
    if processor.get("type") == "TemplateProcessing":
        pair = [checked(part, dict, "each part of a pair", file) for part in member(processor, "pair", list, file, [])]
        texts = [number for number, part in enumerate(pair) if "Sequence" in part]
        if len(texts) == 2 and texts[1] > texts[0] + 1:
            found = dataclasses.replace(found, num_between=texts[1] - texts[0] - 1)
    mask = next((token for token in added if token.content == found.mask), None)
    return found if mask is None else dataclasses.replace(found, mask_takes_space=mask.lstrip)


def _merges(model: Mapping, file: str) -> list[tuple[str, str]]:
    merges, stored = [], member(model, "merges", list, file, [])
    check_count(len(stored), "merges", file)
    for merge in stored:
        pair = merge.split(" ", maxsplit=2) if isinstance(merge, str) else merge
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(token, str) for token in pair):
            raise InputError(f"{file}: a merge must be two tokens. Received: {reprlib.repr(merge)}")
        merges.append(tuple(pair))
    return merges


def _read_text(path: str) -> str:
    try:
        return read_small_file(path).decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 ({error.reason} at byte {error.start}).") from None
