"""The files of BPE: `vocab.json` with `merges.txt` (RoBERTa), or one `tokenizer.json` (ModernBERT, EuroBERT, Gemma).

Reference: huggingface/tokenizers, the JSON that `Tokenizer.save` writes.
"""

import dataclasses
import os
import reprlib
from collections.abc import Mapping, Sequence

from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import read_small_file
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import checked, member, parse_small_json
from keras_bert.tokenization.added_tokens import AddedToken
from keras_bert.tokenization.tokenizer import (
    GEMMA_SPECIAL_TOKENS,
    MODERN_BERT_SPECIAL_TOKENS,
    ROBERTA_SPECIAL_TOKENS,
    SpecialTokens,
    check_count,
)
from keras_bert.tokenization.tokenizer_json import (
    BYTE_FALLBACK_CLASSES,
    BYTE_PAIR_CLASSES,
    SETTINGS_FILE,
    TOKENIZER_FILE,
    check_row_form,
    has_own_steps,
    parts_of,
    read_added_tokens,
    read_settings,
    read_tokenizer_json,
    row_template,
    special_tokens_of,
    token_numbers,
    tokenizer_text,
    without_roles,
)

VOCABULARY_FILE = "vocab.json"
MERGES_FILE = "merges.txt"
# As tokenizer.json of Llama 3 has it.
LLAMA_3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)

_MODEL_KEYS = KnownKeys(
    used=("type", "vocab", "merges", "byte_fallback", "ignore_merges"),
    harmless=("unk_token", "fuse_unk"),  # every byte is known
    fixed={"dropout": (0.0,), "continuing_subword_prefix": ("",), "end_of_word_suffix": ("",)},
)
_BYTE_LEVEL = KnownKeys(used=("type", "add_prefix_space", "use_regex"), harmless=("trim_offsets",))
# What stands before byte-level BPE in Llama 3's file, and before byte-fallback BPE in Gemma's, where all spaces are ▁
# before they could be split.
_LLAMA_3_SPLIT = {"type": "Split", "pattern": {"Regex": LLAMA_3_PATTERN}, "behavior": "Isolated", "invert": False}
_SPLIT_AT_SPACES = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
_SPACES_TO_MARKS = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}


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


def read_byte_pair(folder: str | os.PathLike) -> tuple[dict, bool]:
    """Reads the files of a folder: `vocab.json` and `merges.txt`, or else `tokenizer.json`, and those with settings.

    Returns the arguments of `BytePairTokenizer`, and False; or those of `ByteFallbackTokenizer`, and True. Raises
    `InputError` if a file is missing or damaged, or has a step that would change the tokens: another model, splitter or
    normaliser, or other special tokens around texts.
    """
    file, settings_file = (os.path.join(folder, name) for name in (TOKENIZER_FILE, SETTINGS_FILE))
    values, falls_back = read_tokenizer_json(folder), False
    if os.path.isfile(os.path.join(folder, VOCABULARY_FILE)):
        settings = read_settings(folder, BYTE_PAIR_CLASSES)
        form = {"add_prefix_space": member(settings, "add_prefix_space", bool, settings_file, False)}
        ids = read_vocabulary(os.path.join(folder, VOCABULARY_FILE))
        merges = read_merges(os.path.join(folder, MERGES_FILE))
    elif values:
        form, falls_back = _form_of(values, file)
        settings = read_settings(folder, BYTE_FALLBACK_CLASSES if falls_back else BYTE_PAIR_CLASSES)
        if not falls_back and has_own_steps(settings):
            # The class of a RoBERTa has a default of its own.
            form["add_prefix_space"] = member(settings, "add_prefix_space", bool, settings_file, False)
        ids, merges = _model_of(values, file)
    else:
        raise InputError(f"{os.fspath(folder)} has neither {VOCABULARY_FILE} nor {TOKENIZER_FILE}.")
    added = read_added_tokens(folder, values, settings, ids)
    special_tokens = _special_tokens(folder, values, settings, ids, added)
    check_row_form(values, special_tokens, ids, folder)
    form |= {"special_tokens": special_tokens, "added_tokens": tuple(without_roles(added, special_tokens))}
    return {"ids": ids, "merges": merges, **form}, falls_back


def _form_of(values: Mapping, file: str) -> tuple[dict[str, bool], bool]:
    """Returns the arguments that say how texts become words, as in GPT-2, ModernBERT, Llama 3 or Gemma, and whether
    unknown characters are bytes."""
    model = member(values, "model", dict, file, {})
    if model.get("type") != "BPE":
        raise InputError(
            f"{file}: the model is {reprlib.repr(model.get('type'))}. Only BPE is supported, as in GPT-2 and Gemma."
        )
    _MODEL_KEYS.check(model, f"{file}: model")
    falls_back = member(model, "byte_fallback", bool, file, False)
    ignores_merges = member(model, "ignore_merges", bool, file, False)
    normalizers = parts_of(values, "normalizer", "normalizers", file)
    splitters = parts_of(values, "pre_tokenizer", "pretokenizers", file)
    if falls_back:
        if ignores_merges or normalizers != [_SPACES_TO_MARKS] or splitters not in ([], [_SPLIT_AT_SPACES]):
            raise InputError(
                f"{file}: byte_fallback is supported with Gemma's steps only: the normalizer writes a space as ▁, the "
                "pre_tokenizer is none or splits at spaces, and ignore_merges is false. Received: the normalizers "
                f"{reprlib.repr(normalizers)}, the pre_tokenizers {reprlib.repr(splitters)}, ignore_merges "
                f"{ignores_merges}."
            )
        return {}, True
    if normalizers not in ([], [{"type": "NFC"}]):
        raise InputError(
            f"{file}: normalizer would change the tokens: {reprlib.repr(normalizers)}. Only NFC is supported."
        )
    last = splitters[-1] if splitters else {}
    if last.get("type") != "ByteLevel":
        raise InputError(
            f"{file}: the pre_tokenizer is {reprlib.repr(last.get('type'))}. Only ByteLevel is supported, alone as in "
            "GPT-2 or behind Llama 3's Split."
        )
    _BYTE_LEVEL.check(last, f"{file}: pre_tokenizer")
    has_own_words = member(last, "use_regex", bool, file, True)
    if splitters[:-1] != ([] if has_own_words else [_LLAMA_3_SPLIT]):
        raise InputError(
            f"{file}: the pre_tokenizer splits texts by {reprlib.repr(splitters[:-1])} before ByteLevel with use_regex "
            f"{has_own_words}. Supported are GPT-2's words (ByteLevel alone, use_regex true), and Llama 3's (its own "
            "pattern, Isolated, then ByteLevel with use_regex false)."
        )
    prefix = member(last, "add_prefix_space", bool, file, False)
    if prefix and not has_own_words:
        raise InputError(f"{file}: add_prefix_space is true, which is not supported with Llama 3's words.")
    form = {"add_prefix_space": prefix, "normalizes": bool(normalizers)}
    return form | {"splits_as_llama_3": not has_own_words, "ignores_merges": ignores_merges}, False


def _model_of(values: Mapping, file: str) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Returns token -> id, and the merges."""
    model = member(values, "model", dict, file, {})
    ids = token_numbers(model, file)
    check_count(len(ids), "tokens", file)
    merges, stored = [], member(model, "merges", list, file, [])
    check_count(len(stored), "merges", file)
    for merge in stored:
        pair = merge.split(" ", maxsplit=2) if isinstance(merge, str) else merge
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(token, str) and token for token in pair):
            raise InputError(f"{file}: a merge must be two tokens. Received: {reprlib.repr(merge)}")
        merges.append(tuple(pair))
    return ids, merges


def tokenizer_json(tokenizer) -> str:
    """Returns the content of the `tokenizer.json` of a `BytePairTokenizer` or a `ByteFallbackTokenizer`."""
    special, ids = tokenizer.special_tokens, tokenizer.ids
    roles, falls_back = map(special.as_added_token, {*special.names}), tokenizer.falls_back
    normalizer, splitter, decoder = _steps(tokenizer)
    model = {"type": "BPE", "dropout": None, "continuing_subword_prefix": None, "end_of_word_suffix": None}
    # Every byte is known, so only byte fallback has an unknown token.
    model |= {"unk_token": special.unk if falls_back else None, "fuse_unk": falls_back, "byte_fallback": falls_back}
    model["ignore_merges"] = tokenizer.ignores_merges
    model["vocab"] = dict(zip(tokenizer.tokens, range(len(ids)), strict=True))
    model["merges"] = [list(pair) for pair in tokenizer.merges]
    return tokenizer_text(
        [*roles, *tokenizer.added_tokens],
        ids,
        normalizer=normalizer,
        pre_tokenizer=splitter,
        post_processor=row_template(special, ids),
        decoder=decoder,
        model=model,
    )


def _steps(tokenizer) -> tuple[dict | None, dict, dict]:
    """Returns the normalizer, the pre_tokenizer and the decoder."""
    if tokenizer.falls_back:
        decoders = [_SPACES_TO_MARKS | {"pattern": {"String": "▁"}, "content": " "}]
        decoders += [{"type": "ByteFallback"}, {"type": "Fuse"}]
        return _SPACES_TO_MARKS, _SPLIT_AT_SPACES, {"type": "Sequence", "decoders": decoders}
    splitter = {"type": "ByteLevel", "add_prefix_space": tokenizer.add_prefix_space, "trim_offsets": True}
    decoder = splitter | {"use_regex": True}
    splitter |= {"use_regex": not tokenizer.splits_as_llama_3}
    if tokenizer.splits_as_llama_3:
        splitter = {"type": "Sequence", "pretokenizers": [_LLAMA_3_SPLIT, splitter]}
    return {"type": "NFC"} if tokenizer.normalizes else None, splitter, decoder


def _special_tokens(
    folder: str | os.PathLike, values: Mapping, settings: Mapping, ids: Mapping[str, int], added: Sequence[AddedToken]
) -> SpecialTokens:
    """Returns the special tokens with their roles, and the form of a row."""
    file = os.path.join(folder, TOKENIZER_FILE)
    default = next(
        (known for known in (MODERN_BERT_SPECIAL_TOKENS, GEMMA_SPECIAL_TOKENS) if ids.keys() >= {*known.names}),
        ROBERTA_SPECIAL_TOKENS,
    )
    found = special_tokens_of(folder, _with_text_bounds(default, settings, ids))
    if found.unk not in ids:  # every text has tokens, so a file needs no unknown one
        found = dataclasses.replace(found, unk=found.pad)
    for processor in parts_of(values, "post_processor", "processors", file):
        if processor.get("type") != "TemplateProcessing":
            continue
        pair = [checked(part, dict, "each part of a pair", file) for part in member(processor, "pair", list, file, [])]
        texts = [number for number, part in enumerate(pair) if "Sequence" in part]
        if len(texts) == 2 and texts[1] > texts[0] + 1:
            found = dataclasses.replace(found, num_between=texts[1] - texts[0] - 1)
    mask = next((token for token in added if token.content == found.mask), None)
    return found if mask is None else dataclasses.replace(found, mask_takes_space=mask.lstrip)


def _with_text_bounds(default: SpecialTokens, settings: Mapping, ids: Mapping[str, int]) -> SpecialTokens:
    """Returns `default` with the tokens for the beginning and the end of a text, if it names unknown tokens there."""
    names = {}
    for role, setting in (("cls", "bos_token"), ("sep", "eos_token")):
        value = settings.get(setting)
        name = value.get("content") if isinstance(value, dict) else value
        if isinstance(name, str) and name in ids and getattr(default, role) not in ids:
            names[role] = name
    return dataclasses.replace(default, **names)


def _read_text(path: str) -> str:
    try:
        return read_small_file(path).decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 ({error.reason} at byte {error.start}).") from None
