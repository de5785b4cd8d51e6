"""SentencePiece's files in the folders of Hugging Face: the model file, `tokenizer.json`, settings and added tokens.

Where SentencePiece and tokenizers of a `tokenizer.json` differ, as for decomposed letters, ours are SentencePiece's.
"""

import base64
import os
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert.program.errors import InputError, named
from keras_bert.program.foreign_files import read_small_file
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member
from keras_bert.tokenization.sentence_piece import SentencePieceTokenizer, beyond_model, parsed
from keras_bert.tokenization.sentence_piece_forms import DEBERTA, MODEL_FILES, SentencePieceForm, form_of
from keras_bert.tokenization.sentence_piece_model import (
    CONTROL,
    NORMAL,
    OWN_SPACES,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Piece,
    SentencePieceModel,
    composing_rules,
)
from keras_bert.tokenization.tokenizer import check_count
from keras_bert.tokenization.tokenizer_json import (
    SENTENCE_PIECE_CLASSES,
    SETTINGS_FILE,
    TOKENIZER_FILE,
    check_row_form,
    parts_of,
    read_added_tokens,
    read_settings,
    read_tokenizer_json,
    row_template,
    special_tokens_of,
    tokenizer_text,
)

_SPLITTER_KEYS = KnownKeys(
    used=("type",),
    fixed={"replacement": ("▁",), "prepend_scheme": ("always",), "add_prefix_space": (True,), "split": (True,)},
)
_NORMALIZER_KEYS = KnownKeys(
    used=("type", "precompiled_charsmap", "pattern", "content"), harmless=("strip_left", "strip_right")
)
_MODEL_KEYS = KnownKeys(used=("type", "vocab", "unk_id"), fixed={"byte_fallback": (False,)})
_LARGEST_SCORE = 3.4028234663852886e38  # of 32 bits, as a model file has it
_LOWER_CASE = "Lowercase"
# Steps of normalisers that change no token: SentencePiece itself joins spaces, and removes those at the ends.
_OF_SPACES = (
    ("Strip", None, None),
    ("Replace", {"Regex": " {2,}"}, " "),
    ("Replace", {"Regex": " {2,}"}, "▁"),
)
# The other steps of ALBERT's; XLNet's has the first two of the second row. `SentencePieceModel.prepared` implements
# them.
_QUOTES = (("Replace", {"String": "``"}, '"'), ("Replace", {"String": "''"}, '"'))
_PREPARING = ["NFKD", "StripAccents", _LOWER_CASE]
# Steps with which transformers 5 replaces the rules of a DeBERTa's model.
_COMPOSING = [("Replace", {"Regex": r"\s{2,}|[\n\r\t]"}, " "), ("NFC", None, None)]


def read_sentence_piece(folder: str | os.PathLike) -> SentencePieceTokenizer | None:
    """Returns the tokenizer of a folder's model file or, without one, of its `tokenizer.json`; None without both.

    Raises `InputError` if a file is damaged or not supported, or two files disagree.
    """
    files = (os.path.join(folder, name) for name in (*MODEL_FILES, TOKENIZER_FILE))
    file = next(filter(os.path.isfile, files), None)
    if file is None:
        return None
    settings = read_settings(folder, SENTENCE_PIECE_CLASSES)
    return (_of_tokenizer_file if file.endswith(TOKENIZER_FILE) else _of_model_file)(folder, file, settings)


def _of_model_file(folder: str | os.PathLike, file: str, settings: Mapping[str, Any]) -> SentencePieceTokenizer:
    data = read_small_file(file)
    with named(file):
        pieces = parsed(data).pieces
    its_class, path = settings.get("tokenizer_class"), os.path.join(folder, SETTINGS_FILE)
    tokens = [piece.text for piece in pieces]
    form = form_of(its_class, os.path.basename(file), tokens)
    values = {} if form.prepares else read_tokenizer_json(folder)
    stated = _vocabulary(values, os.path.join(folder, TOKENIZER_FILE)) if values else []
    if its_class is None and stated:
        form = form_of(its_class, os.path.basename(file), [text for text, _ in stated])
    # Another class with the same form, such as BigBird's with ALBERT's, changes nothing by default.
    lower_case = form.lower_case and (its_class is None or its_class.startswith(form.tokenizer_class))
    do_lower_case = member(settings, "do_lower_case", bool, path, lower_case) if form.lower_case is not None else False
    keep_accents = True
    if form.prepares:
        keep_accents = member(settings, "keep_accents", bool, path, not (do_lower_case or form.removes_accents))
        if keep_accents and do_lower_case:
            raise InputError(
                f"{path} has do_lower_case=True and keep_accents=True. Texts in lower case have no accents here: set "
                "one of the two to false."
            )
    special_tokens = special_tokens_of(folder, form.special_tokens)
    with named(file):
        in_order = form.in_order_of_ids(pieces, special_tokens.mask)
    tokens = [piece.text for piece in in_order]
    if [text for text, _ in stated] != tokens[: len(stated)]:
        raise InputError(
            f"{os.path.join(folder, TOKENIZER_FILE)} has other tokens than {file}. They belong to different models: "
            "remove one of the two from a copy of the folder."
        )
    ids = {token: number for number, token in enumerate(tokens)}
    added = beyond_model(read_added_tokens(folder, values, settings, ids), special_tokens, in_order)
    with named(file):
        return SentencePieceTokenizer(data, special_tokens, do_lower_case, keep_accents, added, form)


def _of_tokenizer_file(folder: str | os.PathLike, file: str, settings: Mapping[str, Any]) -> SentencePieceTokenizer:
    values = read_tokenizer_json(folder)
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
    vocab = _vocabulary(values, file)
    form = form_of(settings.get("tokenizer_class"), TOKENIZER_FILE, [text for text, _ in vocab])
    do_lower_case, keep_accents, rules, settings_of_rules = _normalizer(values, form, splitters, file)
    if form == DEBERTA:
        do_lower_case = member(settings, "do_lower_case", bool, file, do_lower_case)
    special = special_tokens_of(folder, form.special_tokens)
    ids = {text: number for number, (text, _) in enumerate(vocab)}
    if form.appends_mask:
        ids.setdefault(special.mask, len(ids))
    added = read_added_tokens(folder, values, settings, ids)
    has_segments = special.num_between == 1 and not form.cls_is_last
    check_row_form(values, special, ids, folder, has_segments=has_segments, last_is_cls=form.cls_is_last)
    types = {token.content: CONTROL if token.special else USER_DEFINED for token in added}
    pieces = [
        Piece(text, score, UNKNOWN if number == model.get("unk_id") else types.get(text, NORMAL))
        for number, (text, score) in enumerate(vocab)
    ]
    with named(file):
        pieces_of_file = form.in_order_of_file(pieces, special.mask)
        data = SentencePieceModel(pieces_of_file, rules, normalizer=settings_of_rules).to_bytes()
        further = beyond_model(added, special, pieces)
        return SentencePieceTokenizer(data, special, do_lower_case, keep_accents, further, form)


def tokenizer_json(tokenizer: SentencePieceTokenizer) -> str:
    """Returns the content of the `tokenizer.json` of a tokenizer. Raises `InputError` if it cannot hold the model.

    Programs that read it divide texts with decomposed letters otherwise.
    """
    tokenizer = tokenizer.without_spare_rows()
    model, special, ids = parsed(tokenizer.model), tokenizer.special_tokens, tokenizer.ids
    pieces = tokenizer.form.in_order_of_ids(model.pieces, special.mask)
    if not model.is_unigram or any(piece.type == UNUSED for piece in pieces):
        kind = "has unused pieces" if model.is_unigram else "merges pairs (BPE)"
        raise InputError(f"The SentencePiece model {kind}, which a {TOKENIZER_FILE} of Unigram cannot hold.")
    names = dict.fromkeys([*special.names, *(piece.text for piece in pieces if piece.type == CONTROL)])
    added = {name: special.as_added_token(name) for name in names}
    added |= {token.content: token for token in tokenizer.added_tokens}
    split = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    splitters = [split] if model.space_steps else [{"type": "WhitespaceSplit"}, split]
    vocab = [list(pair) for pair in zip(tokenizer.tokens, _scores(tokenizer, pieces), strict=False)]
    return tokenizer_text(
        added.values(),
        ids,
        normalizer={"type": "Sequence", "normalizers": _steps(tokenizer, model)},
        pre_tokenizer={"type": "Sequence", "pretokenizers": splitters},
        post_processor=row_template(special, ids, special.second_segment),
        decoder=split,
        model={"type": "Unigram", "unk_id": ids[special.unk], "vocab": vocab, "byte_fallback": False},
    )


def _scores(tokenizer: SentencePieceTokenizer, pieces: Sequence[Piece]) -> list[float]:
    """Returns the score of each piece with which Unigram divides texts as the tokenizer does.

    Pieces of a user are always found, the longest first, and those that the tokenizer divides, such as "21,", never.
    """
    worst = min(piece.score for piece in pieces) - 100
    scores = [100.0 * len(piece.text) ** 2 if piece.type == USER_DEFINED else piece.score for piece in pieces]
    return [worst if number in tokenizer.divided else score for number, score in enumerate(scores)]


def _steps(tokenizer: SentencePieceTokenizer, model: SentencePieceModel) -> list[dict[str, Any]]:
    """Returns the steps of a normaliser that prepare texts as the tokenizer does."""
    kinds = [*_PREPARING[: 0 if tokenizer.keep_accents else 2], *_PREPARING[2:][: tokenizer.do_lower_case]]
    steps = [*(_QUOTES if tokenizer.form.prepares else ()), *((kind, None, None) for kind in kinds)]
    if model.space_steps:
        last = [{"type": "Strip", "strip_left": False, "strip_right": True}]
        steps += _COMPOSING
    else:
        rules = base64.b64encode(model.rules).decode()
        last = [{"type": "Precompiled", "precompiled_charsmap": rules}] if rules else []
    entries = [{"type": kind, "pattern": pattern, "content": content} for kind, pattern, content in steps]
    return [*({name: value for name, value in entry.items() if value is not None} for entry in entries), *last]


def _vocabulary(values: Mapping[str, Any], file: str) -> list[tuple[str, float]]:
    """Returns the pieces and scores of a tokenizer.json."""
    vocab = member(member(values, "model", dict, file, {}), "vocab", list, file, [])
    check_count(len(vocab), "tokens", file)
    for entry in vocab:
        if not isinstance(entry, list) or [type(part) for part in entry] not in ([str, float], [str, int]):
            raise InputError(f"{file}: a piece must be a text and its score. Received: {reprlib.repr(entry)}")
        if not abs(entry[1]) <= _LARGEST_SCORE:
            raise InputError(f"{file}: a score must be a number of 32 bits. Received: {reprlib.repr(entry)}")
    return [(text, float(score)) for text, score in vocab]


def _normalizer(
    values: Mapping[str, Any], form: SentencePieceForm, splitters: list, file: str
) -> tuple[bool, bool, bytes, bytes]:
    """Returns whether texts are lower-cased, whether accents stay, and the rules of a SentencePiece model: compiled,
    and the settings of the model for them."""
    rules, steps = b"", []
    for part in parts_of(values, "normalizer", "normalizers", file):
        _NORMALIZER_KEYS.check(part, f"{file}: normalizer")
        step = (part.get("type"), part.get("pattern"), part.get("content"))
        if step[0] == "Precompiled":
            try:
                rules = base64.b64decode(member(part, "precompiled_charsmap", str, file, ""), validate=True)
            except ValueError:
                raise InputError(f"{file}: precompiled_charsmap is not base64.") from None
        elif step not in _OF_SPACES and not (form.prepares and step in _QUOTES):
            steps.append(step)
    lower_case = (_LOWER_CASE, None, None) in steps
    kinds = [kind for kind, _, _ in steps]
    if form.prepares and kinds in ([], _PREPARING[:2], _PREPARING):
        return lower_case, not steps, rules, b""
    further = steps[lower_case:]
    if form == DEBERTA and kinds[:lower_case] == [_LOWER_CASE] * lower_case and further in ([], _COMPOSING):
        if rules or not further:
            return lower_case, True, rules, b""
        keeps_spaces = splitters == ["Metaspace"]
        return lower_case, True, composing_rules(keeps_spaces), OWN_SPACES if keeps_spaces else b""
    if not form.prepares and not steps:
        return False, True, rules, b""
    supported = f"either all, the first two or none of {_PREPARING}" if form.prepares else "those of spaces"
    raise InputError(
        f"{file}: the normalizer has the steps {reprlib.repr(kinds)}. Supported in a {form.tokenizer_class} are "
        f"Precompiled, and {supported}."
    )
