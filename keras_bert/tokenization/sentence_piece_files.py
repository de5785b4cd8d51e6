"""SentencePiece's files in the folders of Hugging Face."""

import base64
import os
import reprlib
from collections.abc import Mapping

from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member
from keras_bert.tokenization.sentence_piece import (
    ALBERT_SPECIAL_TOKENS,
    XLNET_SPECIAL_TOKENS,
    SentencePieceTokenizer,
    beyond_model,
)
from keras_bert.tokenization.sentence_piece_model import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    Piece,
    SentencePieceModel,
)
from keras_bert.tokenization.tokenizer_files import check_count
from keras_bert.tokenization.tokenizer_json import (
    SENTENCE_PIECE_CLASSES,
    TOKENIZER_FILE,
    check_row_form,
    parts_of,
    read_added_tokens,
    read_settings,
    read_tokenizer_json,
    special_tokens_of,
)

_SPLITTER_KEYS = KnownKeys(
    used=("type",),
    fixed={"replacement": ("▁",), "prepend_scheme": ("always",), "add_prefix_space": (True,), "split": (True,)},
)
_NORMALIZER_KEYS = KnownKeys(used=("type", "precompiled_charsmap", "pattern", "content"))
_MODEL_KEYS = KnownKeys(used=("type", "vocab", "unk_id"), fixed={"byte_fallback": (False,)})
# Steps of ALBERT's normaliser in tokenizer.json; XLNet's has the first two. `SentencePieceModel.without_accents`
# implements these three; SentencePiece itself joins spaces.
_LOWER_CASE = ["NFKD", "StripAccents", "Lowercase"]
_REPLACED = (
    ("Replace", {"String": "``"}, '"'),
    ("Replace", {"String": "''"}, '"'),
    ("Replace", {"Regex": " {2,}"}, " "),
)


def read_sentence_piece(path: str) -> SentencePieceTokenizer | None:
    """Returns the tokenizer of a `tokenizer.json`, the only file that transformers 5 writes; None without one."""
    file = os.path.join(path, TOKENIZER_FILE)
    if not os.path.isfile(file):
        return None
    values, settings = read_tokenizer_json(path), read_settings(path, SENTENCE_PIECE_CLASSES)
    model = member(values, "model", dict, file, {})
    if model.get("type") != "Unigram":
        raise InputError(f"{file}: the model is {reprlib.repr(model.get('type'))}. Only Unigram is supported.")
    _MODEL_KEYS.check(model, f"{file}: model")
    parts = parts_of(values, "pre_tokenizer", "pretokenizers", file)
    splitters = [part.get("type") for part in parts]
    if splitters not in (["Metaspace"], ["WhitespaceSplit", "Metaspace"]):
        raise InputError(f"{file}: the pre_tokenizer is {splitters}. Only Metaspace is supported, as in ALBERT.")
    for part in parts:
        _SPLITTER_KEYS.check(part, f"{file}: pre_tokenizer")
    do_lower_case, keep_accents, rules = _normalizer(values, file)
    vocab = member(model, "vocab", list, file, [])
    check_count(len(vocab), "tokens", file)
    ids = {entry[0]: number for number, entry in enumerate(vocab) if isinstance(entry, list) and entry}
    added = read_added_tokens(path, values, settings, ids)
    is_xlnet = {*XLNET_SPECIAL_TOKENS.names} <= ids.keys()
    special = special_tokens_of(path, XLNET_SPECIAL_TOKENS if is_xlnet else ALBERT_SPECIAL_TOKENS)
    check_row_form(values, special, ids, path, has_segments=not is_xlnet, last_is_cls=is_xlnet)
    types = {token.content: CONTROL if token.special else USER_DEFINED for token in added}
    pieces = []
    for number, entry in enumerate(vocab):
        if not isinstance(entry, list) or [type(part) for part in entry] not in ([str, float], [str, int]):
            raise InputError(f"{file}: a piece must be a text and its score. Received: {reprlib.repr(entry)}")
        kind = UNKNOWN if number == model.get("unk_id") else types.get(entry[0], NORMAL)
        pieces.append(Piece(entry[0], float(entry[1]), kind))
    try:
        data = SentencePieceModel(tuple(pieces), rules).to_bytes()
        further = beyond_model(added, special, {entry[0] for entry in vocab})
        return SentencePieceTokenizer(data, special, do_lower_case, keep_accents, further)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _normalizer(values: Mapping, file: str) -> tuple[bool, bool, bytes]:
    """Returns whether texts are lower-cased, whether accents stay, and the compiled rules of a SentencePiece model."""
    rules, steps = b"", []
    for part in parts_of(values, "normalizer", "normalizers", file):
        _NORMALIZER_KEYS.check(part, f"{file}: normalizer")
        if part.get("type") == "Precompiled":
            try:
                rules = base64.b64decode(member(part, "precompiled_charsmap", str, file, ""), validate=True)
            except ValueError:
                raise InputError(f"{file}: precompiled_charsmap is not base64.") from None
        elif (part.get("type"), part.get("pattern"), part.get("content")) not in _REPLACED:
            steps.append(part.get("type"))
    if steps not in ([], _LOWER_CASE[:2], _LOWER_CASE):
        raise InputError(
            f"{file}: the normalizer has the steps {reprlib.repr(steps)}. Supported are Precompiled, and either all, "
            f"the first two or none of {_LOWER_CASE}."
        )
    return steps == _LOWER_CASE, not steps, rules
