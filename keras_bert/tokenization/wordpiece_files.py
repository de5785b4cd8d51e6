"""The files of a WordPiece tokenizer in a folder: `vocab.txt` or `tokenizer.json`, and those that say how it tokenizes.

A `vocab.txt` has the tokens only. The files of Hugging Face (tokenizer_json.py) say whether accents and Chinese
characters are treated in another way than in Google's code, and which tokens are found in a text as a whole. This
package writes a `tokenizer_config.json` too if there are such settings.
"""

import os
import reprlib
from collections.abc import Mapping
from typing import Any

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError, named
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member
from keras_bert.tokenization.tokenizer import BERT_SPECIAL_TOKENS, MPNET_SPECIAL_TOKENS, SpecialTokens
from keras_bert.tokenization.tokenizer_json import (
    GENERIC_CLASSES,
    SETTINGS_FILE,
    TOKENIZER_FILE,
    WORD_PIECE_CLASSES,
    added_tokens_decoder,
    check_row_form,
    has_own_steps,
    json_text,
    num_between,
    pair_rule,
    read_added_tokens,
    read_settings,
    read_tokenizer_json,
    role_names,
    special_tokens_of,
    token_numbers,
    without_roles,
)
from keras_bert.tokenization.unicode_table import MAX_CHARACTERS_PER_WORD
from keras_bert.tokenization.vocabulary import VOCABULARY_FILE, Vocabulary, unused_rows
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

# The name of the setting in tokenizer.json, and in our tokenizer_config.json.
MAX_CHARACTERS = "max_input_chars_per_word"
MPNET_CLASS = "MPNetTokenizer"
_MPNET_MAX_CHARACTERS = 100
# Google's code has 200 and Hugging Face's 100. A BERT always has 200 here: see docs/tokenizer.md.
_BERT_MAX_CHARACTERS = (100, 200)
# Settings of WordPiece, with the defaults of the classes of transformers.
_DEFAULTS = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}
# The settings -> their names in the normaliser of a tokenizer.json.
_OF_NORMALIZER = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
_MODEL_KEYS = KnownKeys(
    used=("type", "vocab", "unk_token", MAX_CHARACTERS), fixed={"continuing_subword_prefix": ("##",)}
)
_SPLITTER_KEYS = KnownKeys(used=("type",))
_NORMALIZER_KEYS = KnownKeys(used=("type", *_OF_NORMALIZER.values()), fixed={"clean_text": (True,)})


def read_word_piece(folder: str | os.PathLike, makes_rows: bool = True) -> Vocabulary | WordPieceTokenizer | None:
    """Reads the files of a folder. `makes_rows` says whether the special tokens around texts matter.

    Returns the tokenizer; the vocabulary with its settings if no file says whether texts are lower-cased; or None if
    there are neither a `vocab.txt` nor a `tokenizer.json`. Raises `InputError` if a file is damaged, has a setting that
    would change the tokens, or contradicts another.
    """
    values, settings = read_tokenizer_json(folder), read_settings(folder, WORD_PIECE_CLASSES)
    model = member(values, "model", dict, os.path.join(folder, TOKENIZER_FILE), {})
    special, max_characters = _form(folder, values, settings, model)
    tokens = _tokens(folder, model, special)
    if tokens is None:
        return None
    ids = {token: number for number, token in enumerate(tokens)}
    added = read_added_tokens(folder, values, settings, ids)
    if makes_rows:
        check_row_form(values, special, ids, folder, has_segments=special.second_segment == 1)
    rules = _rules(folder, values, settings, of_class=makes_rows and has_own_steps(settings))
    lower_case, chinese_chars = rules.get("do_lower_case"), rules.get("tokenize_chinese_chars")
    with named(folder):
        vocabulary = Vocabulary(
            _with_added(tokens, ids),
            rules.get("strip_accents"),
            True if chinese_chars is None else chinese_chars,
            without_roles(added, special),
            special,
            max_characters,
        )
    return vocabulary if lower_case is None else WordPieceTokenizer(vocabulary, lower_case)


def write_word_piece(vocabulary: Vocabulary, folder: str | os.PathLike) -> None:
    """Writes `vocab.txt`, and `tokenizer_config.json` if the vocabulary has settings or the pairs of Hugging Face."""
    vocabulary.save(os.path.join(folder, VOCABULARY_FILE))
    if vocabulary.has_settings or vocabulary.special_tokens.longer_keeps_more:
        with atomic_file(os.path.join(folder, SETTINGS_FILE)) as file:
            file.write(json_text(settings_of(vocabulary)).encode())


def settings_of(vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the settings of a vocabulary as `tokenizer_config.json` has them."""
    special, is_mpnet = vocabulary.special_tokens, vocabulary.special_tokens.num_between == 2
    values: dict[str, Any] = {
        "tokenizer_class": MPNET_CLASS if is_mpnet else "BertTokenizer",
        "strip_accents": vocabulary.strip_accents,
        "tokenize_chinese_chars": vocabulary.tokenize_chinese_chars,
        **pair_rule(special.longer_keeps_more),
    }
    if special != BERT_SPECIAL_TOKENS:
        values |= role_names(special)
    if vocabulary.max_characters_per_word != (_MPNET_MAX_CHARACTERS if is_mpnet else MAX_CHARACTERS_PER_WORD):
        values[MAX_CHARACTERS] = vocabulary.max_characters_per_word
    if vocabulary.added_tokens:
        values["added_tokens_decoder"] = added_tokens_decoder(vocabulary.added_tokens, vocabulary.ids)
    return values


def _form(
    folder: str | os.PathLike, values: Mapping[str, Any], settings: Mapping[str, Any], model: Mapping[str, Any]
) -> tuple[SpecialTokens, int]:
    """Returns the special tokens and the largest number of characters in a word: of BERT's form or of MPNet's.

    A class of MPNet has its form. Of classes without steps of their own, the rows in tokenizer.json tell.
    """
    file, settings_file = os.path.join(folder, TOKENIZER_FILE), os.path.join(folder, SETTINGS_FILE)
    its_class = settings.get("tokenizer_class") or ""
    is_mpnet = its_class.removesuffix("Fast") == MPNET_CLASS
    if its_class in GENERIC_CLASSES:
        is_mpnet = num_between(values, file) == 2
    special = special_tokens_of(folder, MPNET_SPECIAL_TOKENS if is_mpnet else BERT_SPECIAL_TOKENS)
    unknown = member(model, "unk_token", str, file, special.unk)
    if unknown != special.unk:
        raise InputError(
            f"{file}: model: unk_token is {unknown!r:.100}, but the other files have {special.unk!r:.100}. "
            "They belong to different models."
        )
    of_model = member(model, MAX_CHARACTERS, int, file)
    if not is_mpnet and of_model not in (None, *_BERT_MAX_CHARACTERS):
        raise InputError(
            f"{file}: model: {MAX_CHARACTERS} is {of_model}, which would change the results. Only "
            f"{' and '.join(map(str, _BERT_MAX_CHARACTERS))} are supported."
        )
    default = of_model or _MPNET_MAX_CHARACTERS if is_mpnet else MAX_CHARACTERS_PER_WORD
    return special, member(settings, MAX_CHARACTERS, int, settings_file, default)


def _tokens(folder: str | os.PathLike, model: Mapping[str, Any], special: SpecialTokens) -> list[str] | None:
    """Returns the tokens of the model in the order of their ids, without added ones."""
    file, tokenizer_file = os.path.join(folder, VOCABULARY_FILE), os.path.join(folder, TOKENIZER_FILE)
    tokens = list(Vocabulary.from_file(file, special).tokens) if os.path.isfile(file) else None
    if not model:
        return tokens
    if model.get("type", "WordPiece") != "WordPiece":
        raise InputError(f"{tokenizer_file}: {reprlib.repr(model.get('type'))} is not BERT's WordPiece.")
    _MODEL_KEYS.check(model, f"{tokenizer_file}: model")
    ids = token_numbers(model, tokenizer_file)
    of_numbers = {number: token for token, number in ids.items()}
    if tokens is not None:
        known = {token: number for number, token in enumerate(tokens)}
        other = next((token for token, number in ids.items() if known.get(token.strip() or token) != number), None)
        if other is not None:
            raise InputError(
                f"{tokenizer_file} and {VOCABULARY_FILE} differ: {other!r:.100} is token {ids[other]} of the first and "
                f"token {known.get(other, 'nowhere')} of the second. Remove the file that does not belong to the model."
            )
        return tokens
    # A token that occurred twice in a vocab.txt has left a gap: a row without a token.
    count = max(of_numbers, default=-1) + 1
    if min(of_numbers, default=0) < 0 or len(of_numbers) < len(ids) or count > 2 * len(ids) + 1:
        raise InputError(f"{os.fspath(folder)}: the tokens of its vocabulary are not numbered from 0 on, once each.")
    return [of_numbers.get(number, *unused_rows(number, number + 1)) for number in range(count)]


def _with_added(tokens: list[str], ids: Mapping[str, int]) -> list[str]:
    """Returns the tokens with the added ones at their ids."""
    of_numbers = {number: token for token, number in ids.items() if number >= len(tokens)}
    count = max(of_numbers, default=len(tokens) - 1) + 1
    if count > 2 * len(ids) + 1:
        raise InputError(f"An added token has the id {count - 1}, but the vocabulary has only {len(tokens)} tokens.")
    return tokens + [of_numbers.get(number, *unused_rows(number, number + 1)) for number in range(len(tokens), count)]


def _rules(
    folder: str | os.PathLike, values: Mapping[str, Any], settings: Mapping[str, Any], of_class: bool
) -> dict[str, bool | None]:
    """Returns the three settings of WordPiece as the files state them.

    With `of_class`, those of a class such as BertTokenizer, and its defaults, come first, as in transformers.
    """
    file, settings_file = os.path.join(folder, TOKENIZER_FILE), os.path.join(folder, SETTINGS_FILE)
    normalizer, splitter = (member(values, name, dict, file, {}) for name in ("normalizer", "pre_tokenizer"))
    for name, part, expected in (
        ("normalizer", normalizer, "BertNormalizer"),
        ("pre_tokenizer", splitter, "BertPreTokenizer"),
    ):
        if values and part.get("type") != expected:
            raise InputError(
                f"{file}: the {name} is {reprlib.repr(part or None)}. Only {expected} is supported for WordPiece, "
                "because another one gives other tokens."
            )
    _NORMALIZER_KEYS.check(normalizer, f"{file}: normalizer")
    _SPLITTER_KEYS.check(splitter, f"{file}: pre_tokenizer")
    stated: dict[str, bool | None] = {}
    for name, theirs in _OF_NORMALIZER.items():
        of_file = member(normalizer, theirs, bool, file)
        of_settings = member(settings, name, bool, settings_file)
        if values and not of_class:
            stated[name] = of_file
        else:
            is_stated = of_settings is not None or not values
            stated[name] = of_settings if is_stated else _DEFAULTS[name]
    return stated
