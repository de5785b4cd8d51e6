"""What all kinds of tokenizers share in the files of Hugging Face: settings, added tokens and the form of a row.

The files are `tokenizer.json`, `tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json`. Each of
their keys is used, harmless or refused by name.
"""

import dataclasses
import json
import os
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import checked, member, read_json_object
from keras_bert.registry import families
from keras_bert.tokenization.added_tokens import AddedToken
from keras_bert.tokenization.tokenizer import SpecialTokens, check_count

TOKENIZER_FILE = "tokenizer.json"
SETTINGS_FILE = "tokenizer_config.json"
SPECIAL_TOKENS_FILE = "special_tokens_map.json"
_CONFIG_FILE = "config.json"
ADDED_TOKENS_FILE = "added_tokens.json"

# Classes that take their steps from tokenizer.json.
GENERIC_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
# Classes of tokenizers of one kind, without "Tokenizer" and "TokenizerFast".
WORD_PIECE_CLASSES = (
    *("Bert", "DistilBert", "Electra", "MobileBert", "ConvBert", "SqueezeBert", "Lxmert", "RetriBert", "LayoutLM"),
    *("DPRContextEncoder", "DPRQuestionEncoder", "MPNet"),
)
BYTE_PAIR_CLASSES = ("Roberta", "GPT2", "Longformer", "Bart")
# Settings of ours.
SECOND_SEGMENT, LONGER_KEEPS_MORE = "second_segment", "longer_keeps_more"
SENTENCE_PIECE_CLASSES = ("Albert", "XLNet", "BigBird", "XLMRoberta", "Camembert", "DebertaV2")
BYTE_FALLBACK_CLASSES = ("Gemma",)
_ROLES = tuple(f"{role}_token" for role in ("cls", "sep", "pad", "unk", "mask"))
_FURTHER_SPECIAL = ("bos_token", "eos_token")
_LISTS_OF_SPECIAL = ("additional_special_tokens", "extra_special_tokens")
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")

# Texts are searched for these: Gemma has 6,406 of up to 31 characters.
_MOST_ADDED_TOKENS, _LONGEST_ADDED_TOKEN = 100_000, 1000

_HARMLESS_SETTINGS = (
    # names and places of files, and programs that read them
    *("name_or_path", "special_tokens_map_file", "tokenizer_file", "full_tokenizer_file", "vocab_file", "merges_file"),
    *("auto_map", "processor_class", "backend", "use_fast", "from_slow", "legacy", "is_local", "local_files_only"),
    *("revision", "cache_dir", "use_auth_token", "token", "trust_remote_code", "transformers_version", "device_map"),
    *("model_type", "tokenizer_type", "language", "verbose", "init_inputs", "chat_template"),
    # how rows are padded and cut, which this package decides itself
    *("padding_side", "padding", "padding_strategy", "pad_to_multiple_of", "pad_token_type_id", "model_input_names"),
    *("truncation", "truncation_strategy", "stride", "max_length", "max_len", "max_seq_length"),
    *("return_token_type_ids", "pad_token_id", "unk_id", "additional_special_tokens_ids"),
    # offsets, and ids -> text
    *("trim_offsets", "clean_up_tokenization_spaces", "errors"),
)
_SETTING_KEYS = KnownKeys(
    used=(
        *("tokenizer_class", "model_max_length", "added_tokens_decoder"),
        *(*_ROLES, *_FURTHER_SPECIAL, *_LISTS_OF_SPECIAL),
        *("do_lower_case", "strip_accents", "tokenize_chinese_chars", "add_prefix_space", "keep_accents"),
        "max_input_chars_per_word",
    ),
    harmless=_HARMLESS_SETTINGS,
    fixed={
        "do_basic_tokenize": (True,),
        "never_split": ([],),
        "wordpieces_prefix": ("##",),
        "truncation_side": ("right",),
        "split_special_tokens": (False,),
        "remove_space": (True,),
        "sp_model_kwargs": ({},),
        SECOND_SEGMENT: (0, 1),
        LONGER_KEEPS_MORE: (False,),
        "split_by_punct": (False,),
        "vocab_type": ("spm",),
    },
)
_MAP_KEYS = KnownKeys(used=(*_ROLES, *_FURTHER_SPECIAL, *_LISTS_OF_SPECIAL))
_ENTRY_KEYS = KnownKeys(used=("id", "content", *_FLAGS), harmless=("__type",))
# Kinds of post-processors. Those of whole rows may also say how offsets are counted.
_OF_OFFSETS = ("trim_offsets", "add_prefix_space", "use_regex")
_ROW_KEYS = {
    "ByteLevel": KnownKeys(used=("type",), harmless=_OF_OFFSETS),
    "BertProcessing": KnownKeys(used=("type", "sep", "cls")),
    "RobertaProcessing": KnownKeys(used=("type", "sep", "cls"), harmless=_OF_OFFSETS),
    "TemplateProcessing": KnownKeys(used=("type", "single", "pair", "special_tokens")),
}
# The texts of a row.
_TEXTS = ("A", "B")
_FILE_KEYS = KnownKeys(
    used=("added_tokens", "normalizer", "pre_tokenizer", "post_processor", "model"),
    harmless=("version", "decoder", "truncation", "padding"),
)


def read_settings(folder: str | os.PathLike, classes: Sequence[str]) -> dict[str, Any]:
    """Returns the settings in a folder's `tokenizer_config.json`, or an empty dict without the file.

    As in transformers, `tokenizer_class` is that of `config.json`, or that of its model, if the file states none. If it
    is not one of `classes`, which tokenise as the caller does, or a setting is not known, this raises `InputError`.
    """
    path = os.path.join(folder, SETTINGS_FILE)
    settings = _object(path)
    its_class = member(settings, "tokenizer_class", str, path)
    known = [*GENERIC_CLASSES, *(f"{name}Tokenizer" for name in classes)]
    if its_class is not None and its_class not in (*known, *(f"{name}Fast" for name in known)):
        raise InputError(
            f"{path}: tokenizer_class is {its_class!r:.100}, which tokenises differently from what the other files of "
            f"the folder are for. Supported with these are: {', '.join(known)}."
        )
    _SETTING_KEYS.check(settings, path)
    found = None if its_class else _class_of_model(os.path.join(folder, _CONFIG_FILE))
    return settings | {"tokenizer_class": found} if found and found.removesuffix("Fast") in known else settings


def _object(file: str) -> dict[str, Any]:
    return read_json_object(file) if os.path.isfile(file) else {}


def _class_of_model(file: str) -> str | None:
    """Returns the class of the tokenizer that a `config.json` states, by its name or by the family of the model."""
    values = _object(file)
    stated = member(values, "tokenizer_class", str, file)
    theirs = families(has=lambda entry: entry.hugging_face).get(member(values, "model_type", str, file, ""))
    return stated or (f"{theirs.hugging_face.classes}Tokenizer" if theirs else None)


def has_own_steps(settings: Mapping[str, Any]) -> bool:
    """Returns whether the steps of a tokenizer are those of its class, with the defaults of the class for what the
    settings leave out. Classes without steps have those of `tokenizer.json`."""
    return settings.get("tokenizer_class") not in (None, *GENERIC_CLASSES)


def read_tokenizer_json(folder: str | os.PathLike) -> dict[str, Any]:
    """Returns the content of a folder's `tokenizer.json`, or an empty dict without the file.

    Raises `InputError` if it is damaged, or has a key that is not known here.
    """
    path = os.path.join(folder, TOKENIZER_FILE)
    values = _object(path)
    _FILE_KEYS.check(values, path)
    return values


def read_added_tokens(
    folder: str | os.PathLike, values: Mapping[str, Any], settings: Mapping[str, Any], ids: dict[str, int]
) -> list[AddedToken]:
    """Returns the added tokens of a folder in the order of their ids, special ones included.

    Its `tokenizer.json` has these values, and its `tokenizer_config.json` these settings; the other files are read.
    Tokens that are not in `ids` get an id there. Two files that give a token different ids raise `InputError`.
    """
    found: dict[str, AddedToken] = {}
    following = max(ids.values(), default=-1) + 1  # the next id
    file, settings_file, map_file, added_file = (
        os.path.join(folder, name) for name in (TOKENIZER_FILE, SETTINGS_FILE, SPECIAL_TOKENS_FILE, ADDED_TOKENS_FILE)
    )

    def add(token: AddedToken, number: int | None, where: str) -> None:
        nonlocal following
        check_count(len(found) + 1, "added tokens", where, _MOST_ADDED_TOKENS)
        number = ids.get(token.content, following) if number is None else number
        following = max(following, number + 1)
        if ids.setdefault(token.content, number) != number:
            raise InputError(
                f"{where}: the added token {token.content!r:.100} has the id {number}, but it is token "
                f"{ids[token.content]} of the vocabulary. The files belong to different models."
            )
        found[token.content] = token

    for entry in member(values, "added_tokens", list, file, []):
        token = _added_token(entry, file)
        add(token, checked(entry.get("id"), int, "id of added_tokens", file), file)
    for number, entry in member(settings, "added_tokens_decoder", dict, settings_file, {}).items():
        if not number.isdecimal() or len(number) > 9:
            raise InputError(f"{settings_file}: a key of added_tokens_decoder must be an id. Received: {number!r:.100}")
        add(_added_token(entry, settings_file), int(number), settings_file)
    for content, number in _object(added_file).items():
        if content not in found:
            number = checked(number, int, f"the id of {content!r:.100}", added_file)
            add(AddedToken(_short(content, added_file)), number, added_file)
    special = _object(map_file)
    _MAP_KEYS.check(special, map_file)
    for names, where in ((settings, settings_file), (special, map_file)):
        for token in _further_special(names, where):
            if token.content not in found:
                add(token, None, where)
    return sorted(found.values(), key=lambda token: ids[token.content])


def without_roles(tokens: Sequence[AddedToken], special_tokens: SpecialTokens) -> list[AddedToken]:
    """Returns the added tokens that texts can contain: those without a role in a row."""
    return [token for token in tokens if token.content not in special_tokens.names]


def special_tokens_of(folder: str | os.PathLike, default: SpecialTokens) -> SpecialTokens:
    """Returns the special tokens that a folder's files name; `default` supplies the others.

    Pairs are cut as Hugging Face's library cuts them, if the folder has one of its files that does not say otherwise.
    """
    theirs = (TOKENIZER_FILE, SPECIAL_TOKENS_FILE, SETTINGS_FILE, _CONFIG_FILE)
    names: dict[str, Any] = {LONGER_KEEPS_MORE: any(os.path.isfile(os.path.join(folder, file)) for file in theirs)}
    for file in (SPECIAL_TOKENS_FILE, SETTINGS_FILE):
        path = os.path.join(folder, file)
        values = _object(path)
        names |= {role.removesuffix("_token"): _text_of(values[role], path) for role in _ROLES if values.get(role)}
        # Of ours only: Hugging Face's library knows the segment by the class.
        second = member(values, SECOND_SEGMENT, int, path)
        names |= {} if second is None else {SECOND_SEGMENT: second}
        names |= pair_rule(member(values, LONGER_KEEPS_MORE, bool, path, True))
    return dataclasses.replace(default, **names)


def pair_rule(longer_keeps_more: bool) -> dict[str, bool]:
    """Returns the setting of a folder whose pairs are cut otherwise than Hugging Face's library cuts them."""
    return {} if longer_keeps_more else {LONGER_KEEPS_MORE: False}


def settings_text(special_tokens: SpecialTokens, tokenizer_class: str, **settings: Any) -> str:
    """Returns the content of `tokenizer_config.json`, as Hugging Face reads it."""
    return json_text({"tokenizer_class": tokenizer_class, **settings, **role_names(special_tokens)})


def role_names(special_tokens: SpecialTokens) -> dict[str, Any]:
    """Returns the special tokens as settings have them: role -> name, or a name with settings of its own."""
    names: dict[str, Any] = {role: getattr(special_tokens, role.removesuffix("_token")) for role in _ROLES}
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
    return names


def json_text(values: Mapping[str, Any]) -> str:
    """Returns the content of a file of settings."""
    return json.dumps(values, indent=2) + "\n"


def _text_of(value: Any, where: str) -> str:
    """Returns the text of a special token, which is stored as text or as an object with the text as `content`."""
    text = value.get("content") if isinstance(value, dict) else value
    if not isinstance(text, str) or not text:
        raise InputError(f"{where}: a special token must be a text. Received: {reprlib.repr(value)}")
    return _short(text, where)


def _short(token: str, where: str) -> str:
    """Returns `token`. Raises `InputError` if it is longer than any token that texts are searched for."""
    if len(token) > _LONGEST_ADDED_TOKEN:
        raise InputError(
            f"{where}: the added token {token[:20]!r}... has {len(token):,} characters. At most "
            f"{_LONGEST_ADDED_TOKEN:,} are supported."
        )
    return token


def added_token_entry(token: AddedToken) -> dict[str, Any]:
    """Returns an added token as Hugging Face writes it, without its id."""
    return {"content": token.content, **{name: getattr(token, name) for name in _FLAGS}}


def tokenizer_text(tokens: Iterable[AddedToken], ids: Mapping[str, int], **parts: Any) -> str:
    """Returns the content of a `tokenizer.json` with these added tokens, and its other parts in this order."""
    in_order = sorted(tokens, key=lambda token: ids[token.content])
    entries = [{"id": ids[token.content], **added_token_entry(token)} for token in in_order]
    values = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": entries, **parts}
    return json.dumps(values, ensure_ascii=False) + "\n"


def added_tokens_decoder(tokens: Sequence[AddedToken], ids: Mapping[str, int]) -> dict[str, dict]:
    """Returns added tokens as `tokenizer_config.json` has them: id -> token."""
    return {str(ids[token.content]): added_token_entry(token) for token in tokens}


def _further_special(values: Mapping[str, Any], where: str) -> list[AddedToken]:
    """Returns the special tokens of settings that have no role in BERT's rows."""
    entries = [values[name] for name in _FURTHER_SPECIAL if values.get(name)]
    for name in _LISTS_OF_SPECIAL:
        several = values.get(name) or []
        entries += several.values() if isinstance(several, dict) else checked(several, list, name, where)
    return [
        _added_token({"special": True, **entry}, where)
        if isinstance(entry, dict)
        else AddedToken(_text_of(entry, where), normalized=False, special=True)
        for entry in entries
    ]


def _added_token(entry: Any, where: str) -> AddedToken:
    checked(entry, dict, "each of added_tokens", where)
    _ENTRY_KEYS.check(entry, f"{where}: an entry of added_tokens")
    content = _short(checked(entry.get("content"), str, "content of added_tokens", where), where)
    flags = {name: member(entry, name, bool, where) for name in _FLAGS}
    flags = {name: value for name, value in flags.items() if value is not None}
    return AddedToken(content, **{"normalized": not flags.get("special"), **flags})


def check_row_form(
    values: Mapping[str, Any],
    special: SpecialTokens,
    ids: Mapping[str, int],
    folder: str | os.PathLike,
    has_segments: bool = False,
    last_is_cls: bool = False,
) -> None:
    """Checks that the `post_processor` of a `tokenizer.json` makes the rows that this package makes.

    With `has_segments`, the second text and what follows it must be segment 1; with `last_is_cls`, [CLS] is at the end.
    """
    file = os.path.join(folder, TOKENIZER_FILE)
    rows = _rows(values, file)
    expected = [["A", special.sep], ["A", *[special.sep] * special.num_between, "B", special.sep]]
    expected = [[*row, special.cls] if last_is_cls else [special.cls, *row] for row in expected]
    names = [[step.name for step in row] for row in rows]
    if rows and names != expected:
        received, supported = (" and ".join(map(" ".join, texts)) for texts in (names, expected))
        raise InputError(
            f"{file}: the post_processor makes the rows {received!r:.200}. Supported are those of this kind of model: "
            f"{supported}."
        )
    wrong = [step.name for row in rows for step in row if step.number is not None and ids.get(step.name) != step.number]
    if wrong:
        raise InputError(f"{file}: the post_processor gives {wrong[0]!r:.100} another id than the vocabulary.")
    segments = [[step.segment for step in row] for row in rows]
    if has_segments and rows and segments != [[0] * 3, [0] * (2 + special.num_between) + [1] * 2]:
        raise InputError(
            f"{file}: the post_processor gives the tokens of a row the segments {segments}. Supported are 0 for the "
            "first text and 1 for the second."
        )


def row_template(special: SpecialTokens, ids: Mapping[str, int], second_segment: int = 0) -> dict[str, Any]:
    """Returns the post-processor that makes the rows of this package; the second text has the segment."""

    def row(num_texts: int) -> list[dict]:
        parts = [{"SpecialToken": {"id": special.cls, "type_id": 0}}]
        for place, number in enumerate(special.separators(num_texts)):
            segment = place and second_segment
            parts.append({"Sequence": {"id": _TEXTS[place], "type_id": segment}})
            parts += [{"SpecialToken": {"id": special.sep, "type_id": segment}}] * number
        return parts

    names = (special.cls, special.sep)
    special_tokens = {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in names}
    return {"type": "TemplateProcessing", "single": row(1), "pair": row(2), "special_tokens": special_tokens}


def num_between(values: Mapping[str, Any], file: str) -> int | None:
    """Returns the number of tokens between two texts in the rows of a `tokenizer.json`, or None without rows."""
    rows = _rows(values, file)
    names = [step.name for step in rows[-1]] if rows else []
    return names.index("B") - names.index("A") - 1 if {"A", "B"} <= {*names} else None


def token_numbers(model: Mapping[str, Any], file: str) -> dict[str, int]:
    """Returns token -> id of the model in a `tokenizer.json`."""
    vocab = member(model, "vocab", dict, file, {})
    return {token: checked(number, int, "the number of a token", file) for token, number in vocab.items()}


def parts_of(values: Mapping[str, Any], name: str, names: str, file: str) -> list[dict]:
    """Returns the parts of a sequence in a tokenizer.json; any other value is returned as the only part."""
    part = member(values, name, dict, file, {})
    parts = member(part, names, list, file, []) if part.get("type") == "Sequence" else [part] if part else []
    return [checked(part, dict, f"each part of {name}", file) for part in parts]


class _Step(NamedTuple):
    """A part of a row: "A" or "B" for a text, or the name of a special token with its id; and its segment."""

    name: str
    number: int | None = None
    segment: int = 0


def _rows(values: Mapping[str, Any], file: str) -> list[list[_Step]]:
    """Returns the rows of one text and of two that the post-processor of a `tokenizer.json` makes."""
    parts = parts_of(values, "post_processor", "processors", file)
    return [row for part in parts for row in _rows_of_part(part, file)]


def _rows_of_part(part: Mapping[str, Any], file: str) -> list[list[_Step]]:
    kind = part.get("type")
    if kind in _ROW_KEYS:
        _ROW_KEYS[kind].check(part, f"{file}: post_processor")
    if kind == "ByteLevel":
        return []  # moves offsets only
    if kind in ("BertProcessing", "RobertaProcessing"):
        sep, cls = (_Step(*checked(part.get(name), list, name, file)[:2]) for name in ("sep", "cls"))
        segment, between = (1, [sep]) if kind == "BertProcessing" else (0, [sep, sep])
        last = [_Step("B", None, segment), sep._replace(segment=segment)]
        return [[cls, _Step("A"), sep], [cls, _Step("A"), *between, *last]]
    if kind != "TemplateProcessing":
        raise InputError(f"{file}: the post_processor {reprlib.repr(kind)} is not supported.")
    numbers = member(part, "special_tokens", dict, file, {})
    return [[_step(step, numbers, file) for step in member(part, name, list, file, [])] for name in ("single", "pair")]


def _step(step: Any, numbers: Mapping[str, Any], file: str) -> _Step:
    (kind, value), *more = checked(step, dict, "each part of a row", file).items() or [("", None)]
    if kind not in ("Sequence", "SpecialToken") or more:
        raise InputError(f"{file}: a part of a row must be a text or a special token. Received: {reprlib.repr(step)}")
    value = checked(value, dict, kind, file)
    name, segment = checked(value.get("id"), str, "id", file), member(value, "type_id", int, file, 0)
    if kind == "Sequence":
        return _Step(name, None, segment)
    ids = member(member(numbers, name, dict, file, {}), "ids", list, file, [])
    return _Step(name, ids[0] if len(ids) == 1 else -1, segment)
