"""The files of byte-level BPE: `vocab.json` with `merges.txt` (RoBERTa), or one `tokenizer.json` (ModernBERT).

Reference: huggingface/tokenizers, the JSON that `Tokenizer.save` writes.
"""

import dataclasses
import json
import os
import reprlib
from collections.abc import Iterable, Mapping, Sequence

from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import read_small_file
from keras_bert.program.json_files import checked, member, parse_small_json, read_json_object
from keras_bert.tokenization.nfc import nfc
from keras_bert.tokenization.tokenizer import MODERN_BERT_SPECIAL_TOKENS, ROBERTA_SPECIAL_TOKENS, SpecialTokens
from keras_bert.tokenization.tokenizer_files import added_tokens_of, check_count, special_tokens_of

VOCABULARY_FILE = "vocab.json"
MERGES_FILE = "merges.txt"
TOKENIZER_FILE = "tokenizer.json"

# Settings of an added token that would change which texts match it.
_MATCHING = ("single_word", "lstrip", "rstrip")
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


def read_tokenizer_json(folder: str | os.PathLike) -> dict:
    """Returns the arguments of `BytePairTokenizer` that a folder's `tokenizer.json` describes.

    Raises:
        InputError: the file is missing or damaged, or has a step that would change the tokens: another model, splitter
            or normaliser, or added tokens that match in another way than letter by letter.
    """
    file = os.path.join(folder, TOKENIZER_FILE)
    values = read_json_object(file)
    model, splitter = member(values, "model", dict, file, {}), member(values, "pre_tokenizer", dict, file, {})
    for name, part, expected in (("model", model, "BPE"), ("pre_tokenizer", splitter, "ByteLevel")):
        if part.get("type") != expected:
            raise InputError(
                f"{file}: the {name} is {reprlib.repr(part.get('type'))}. Only {expected} is supported, as in GPT-2 "
                "and RoBERTa."
            )
    normalizer = member(values, "normalizer", dict, file, {})
    changes = {"normalizer": normalizer and normalizer != {"type": "NFC"}, "the model's dropout": model.get("dropout")}
    changes |= {"use_regex": splitter.get("use_regex", True) is not True}
    changes |= {name: model.get(name) for name in ("continuing_subword_prefix", "end_of_word_suffix")}
    changed = [name for name, value in changes.items() if value]
    if changed:
        raise InputError(f"{file}: {', '.join(changed)} would change the tokens and is not supported.")
    ids = {
        token: checked(number, int, "the number of a token", file)
        for token, number in member(model, "vocab", dict, file, {}).items()
    }
    entries = {entry["content"]: entry for entry in added_tokens_of(values, file)}
    ids |= {token: entry["id"] for token, entry in entries.items()}
    check_count(len(ids), "tokens", file)
    special_tokens = _special_tokens(folder, file, values, ids, entries)
    ordinary = [token for token, entry in entries.items() if entry.get("special") is False]
    added = [token for token in ordinary if token not in special_tokens.names]
    for token in added:
        _check_added_token(token, entries[token], bool(normalizer), file)
    further = {token for token, entry in entries.items() if entry.get("special") is True} - {*special_tokens.names}
    return {
        "ids": ids,
        "merges": _merges(model, file),
        "special_tokens": special_tokens,
        "add_prefix_space": member(splitter, "add_prefix_space", bool, file, False),
        "normalizes": bool(normalizer),
        "added_tokens": tuple(sorted(added, key=ids.__getitem__)),
        "further_special_tokens": tuple(sorted(further, key=ids.__getitem__)),
    }


def tokenizer_json(tokenizer) -> str:
    """Returns the content of the `tokenizer.json` of a `BytePairTokenizer`."""
    special, ids = tokenizer.special_tokens, tokenizer.ids

    def added(token: str) -> dict:
        is_special = token not in tokenizer.added_tokens
        entry = {"id": ids[token], "content": token, "single_word": False, "lstrip": False, "rstrip": False}
        entry["lstrip"] = token == special.mask and special.mask_takes_space
        return entry | {"normalized": not is_special, "special": is_special}

    def row(num_texts: int) -> list[dict]:
        parts = [{"SpecialToken": {"id": special.cls, "type_id": 0}}]
        for name, number in zip(_TEXTS, special.separators(num_texts), strict=False):
            parts.append({"Sequence": {"id": name, "type_id": 0}})
            parts += [{"SpecialToken": {"id": special.sep, "type_id": 0}}] * number
        return parts

    tokens = {*special.names, *tokenizer.added_tokens, *tokenizer.further_special_tokens}
    splitter = {"type": "ByteLevel", "add_prefix_space": tokenizer.add_prefix_space, "trim_offsets": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None}
    model |= {"end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    values = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added(token) for token in sorted(tokens, key=ids.__getitem__)],
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


def check_added_tokens(tokens: Sequence[str], ids: Mapping[str, int], special: Iterable[str], prefix: bool) -> None:
    """Raises `InputError` unless texts can contain these added tokens.

    Args:
        tokens: the added tokens.
        ids: the vocabulary.
        special: the special tokens.
        prefix: whether a space is put before texts.
    """
    special = frozenset(special)
    for token in tokens:
        if token not in ids or token in special:
            raise InputError(f"The added token {token!r} must be in the vocabulary, and must not be a special token.")
        if not token or any(ord(character) < 32 for character in token):
            raise InputError(f"An added token must not be empty or have control characters. Received: {token!r}")
    if tokens and prefix:
        raise InputError("add_prefix_space is not supported with added tokens such as " + repr(tokens[0]) + ".")


def _check_added_token(token: str, entry: Mapping, normalizes: bool, file: str) -> None:
    wrong = [name for name in _MATCHING if entry.get(name)]
    if normalizes and entry.get("normalized") is not True:
        wrong.append("normalized: false")
    if normalizes and nfc(token) != token:
        wrong.append("a text that NFC changes")
    if wrong:
        raise InputError(
            f"{file}: the added token {token!r:.100} has {', '.join(wrong)}, which would change where it is found in "
            "a text and is not supported."
        )


def _special_tokens(folder, file: str, values: Mapping, ids: Mapping, entries: Mapping) -> SpecialTokens:
    """Returns the special tokens with their roles, and the form of a row."""
    is_modern = all(name in ids for name in MODERN_BERT_SPECIAL_TOKENS.names)
    found = special_tokens_of(folder, MODERN_BERT_SPECIAL_TOKENS if is_modern else ROBERTA_SPECIAL_TOKENS)
    processor = member(values, "post_processor", dict, file, {})
    if processor.get("type") == "TemplateProcessing":
        pair = [checked(part, dict, "each part of a pair", file) for part in member(processor, "pair", list, file, [])]
        texts = [number for number, part in enumerate(pair) if "Sequence" in part]
        if len(texts) == 2 and texts[1] > texts[0] + 1:
            found = dataclasses.replace(found, num_between=texts[1] - texts[0] - 1)
    takes_space = entries.get(found.mask, {}).get("lstrip")
    if isinstance(takes_space, bool):
        found = dataclasses.replace(found, mask_takes_space=takes_space)
    return found


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
