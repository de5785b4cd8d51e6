"""The tokenizer's files in a Hugging Face folder: vocabulary, casing and accents."""

import base64
import json
import os
import reprlib
from collections.abc import Mapping

from keras_bert.config import BertConfig
from keras_bert.families import BYTE_PAIR, SENTENCE_PIECE, WORD_PIECE
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import checked, member, read_json_object
from keras_bert.tokenization.byte_pair import BytePairTokenizer
from keras_bert.tokenization.kinds import find_vocabulary
from keras_bert.tokenization.sentence_piece import (
    ALBERT_SPECIAL_TOKENS,
    XLNET_SPECIAL_TOKENS,
    SentencePieceTokenizer,
)
from keras_bert.tokenization.sentence_piece_model import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    Piece,
    SentencePieceModel,
)
from keras_bert.tokenization.tokenizer import TokenTable
from keras_bert.tokenization.tokenizer_files import added_tokens_of, check_count, special_tokens_of
from keras_bert.tokenization.vocabulary import CLS, MASK, PAD, SEP, SPECIAL_TOKENS, UNK, Vocabulary

VOCABULARY_FILE = "vocab.txt"
TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
SPECIAL_TOKENS_FILE = "special_tokens_map.json"

_SPECIAL_NAMES = {"unk_token": UNK, "sep_token": SEP, "pad_token": PAD, "cls_token": CLS, "mask_token": MASK}
# Tables are padded to multiples of 8, 64 or 128 rows for speed; a larger gap means another vocabulary.
_LARGEST_FILLING = 127
# Steps of ALBERT's normaliser in tokenizer.json; XLNet's has the first two. `SentencePieceModel.without_accents`
# implements these three; SentencePiece itself joins spaces.
_LOWER_CASE = ["NFKD", "StripAccents", "Lowercase"]
_REPLACED = (
    ("Replace", {"String": "``"}, '"'),
    ("Replace", {"String": "''"}, '"'),
    ("Replace", {"Regex": " {2,}"}, " "),
)


def read_tokenizer(path: str, vocab_size: int) -> tuple[Vocabulary | None, dict, list[str]]:
    """Returns the vocabulary of a folder, the `BertConfig` values that its files state, and remarks for the user.

    Raises:
        InputError: a file is damaged, the tokenizer is not WordPiece, or the vocabulary does not fit `vocab_size`.
    """
    tokenizer_file, settings_file = (os.path.join(path, name) for name in (TOKENIZER_FILE, TOKENIZER_CONFIG_FILE))
    tokenizer, settings = _read_json(tokenizer_file), _read_json(settings_file)
    tokens = _tokens(path, tokenizer)
    if tokens is None:
        return None, {}, []
    remarks = []
    if len(tokens) < vocab_size <= len(tokens) + _LARGEST_FILLING and vocab_size % 8 == 0:
        remarks.append(f"{vocab_size - len(tokens)} rows of the token table have no token: named [unused_row_...]")
        tokens += [f"[unused_row_{number}]" for number in range(len(tokens), vocab_size)]
    vocabulary = Vocabulary(tokens)
    _check_size(path, vocabulary, vocab_size)
    normalizer = member(tokenizer, "normalizer", dict, tokenizer_file, {})

    def setting(of_normalizer: str, of_settings: str) -> bool | None:
        if of_normalizer in normalizer:
            return member(normalizer, of_normalizer, bool, tokenizer_file)
        return member(settings, of_settings, bool, settings_file)

    lower_case, strip_accents = setting("lowercase", "do_lower_case"), setting("strip_accents", "strip_accents")
    casing = {} if lower_case is None else {"do_lower_case": lower_case}
    if strip_accents is not None and lower_case is not None and strip_accents != lower_case:
        remarks.append(
            f"its tokenizer has strip_accents={strip_accents} with do_lower_case={lower_case}, but ours strips accents "
            "if and only if it lower-cases: words with accents are split differently"
        )
    return vocabulary, casing, remarks


def read_other_tokenizer(path: str, kind: str, vocab_size: int) -> tuple[TokenTable | None, dict, list[str]]:
    """As `read_tokenizer`, for byte-level BPE and SentencePiece.

    Args:
        kind: `BYTE_PAIR` or `SENTENCE_PIECE`.

    Raises:
        InputError: a file is damaged or of another kind, or the vocabulary does not fit `vocab_size`.
    """
    tokenizer_class, read_tokenizer_file, files = _OTHER_KINDS[kind]
    vocabulary = find_vocabulary(path, reads_tokenizer_json=False) or read_tokenizer_file(path)
    if vocabulary is None:
        return None, {}, []
    if not isinstance(vocabulary, tokenizer_class):
        raise InputError(
            f"{path} has the files of a {_kind_of(vocabulary)} tokenizer, but its model needs {files}. Copy these from "
            "the original folder of the model."
        )
    remarks = []
    num_missing = vocab_size - len(vocabulary)
    if kind == BYTE_PAIR and 0 < num_missing <= _LARGEST_FILLING and vocab_size % 8 == 0:
        remarks.append(f"{num_missing} rows of the token table have no token: named <unused_row_...>")
        names = {f"<unused_row_{number}>": number for number in range(len(vocabulary), vocab_size)}
        vocabulary = vocabulary.with_tokens(names)
    _check_size(path, vocabulary, vocab_size)
    casing = {"do_lower_case": vocabulary.do_lower_case} if kind == SENTENCE_PIECE else {}
    return vocabulary, casing, remarks


def _kind_of(vocabulary: TokenTable) -> str:
    kinds = (kind for kind, (tokenizer_class, *_) in _OTHER_KINDS.items() if isinstance(vocabulary, tokenizer_class))
    return next(kinds, WORD_PIECE)


def _byte_pair_of_tokenizer_file(path: str) -> BytePairTokenizer | None:
    """Returns the tokenizer of a `tokenizer.json`, the only file that transformers 5 writes; None without one."""
    return BytePairTokenizer.from_folder(path) if os.path.isfile(os.path.join(path, TOKENIZER_FILE)) else None


def _sentence_piece_of_tokenizer_file(path: str) -> SentencePieceTokenizer | None:
    """Returns the tokenizer of a `tokenizer.json`, the only file that transformers 5 writes; None without one."""
    file = os.path.join(path, TOKENIZER_FILE)
    if not os.path.isfile(file):
        return None
    values = read_json_object(file)
    model = member(values, "model", dict, file, {})
    if model.get("type") != "Unigram" or model.get("byte_fallback"):
        raise InputError(
            f"{file}: the model is {reprlib.repr(model.get('type'))}. Only Unigram without byte_fallback is supported."
        )
    splitters = [part.get("type") for part in _parts(values, "pre_tokenizer", "pretokenizers", file)]
    if splitters not in (["Metaspace"], ["WhitespaceSplit", "Metaspace"]):
        raise InputError(f"{file}: the pre_tokenizer is {splitters}. Only Metaspace is supported, as in ALBERT.")
    do_lower_case, keep_accents, rules = _normalizer(values, file)
    types = {
        entry["content"]: CONTROL if entry.get("special") else USER_DEFINED for entry in added_tokens_of(values, file)
    }
    pieces, vocabulary = [], member(model, "vocab", list, file, [])
    check_count(len(vocabulary), "tokens", file)
    for number, entry in enumerate(vocabulary):
        if not isinstance(entry, list) or [type(part) for part in entry] not in ([str, float], [str, int]):
            raise InputError(f"{file}: a piece must be a text and its score. Received: {reprlib.repr(entry)}")
        kind = UNKNOWN if number == model.get("unk_id") else types.get(entry[0], NORMAL)
        pieces.append(Piece(entry[0], float(entry[1]), kind))
    try:
        data = SentencePieceModel(tuple(pieces), rules).to_bytes()
        names = {piece.text for piece in pieces}
        default = XLNET_SPECIAL_TOKENS if {*XLNET_SPECIAL_TOKENS.names} <= names else ALBERT_SPECIAL_TOKENS
        return SentencePieceTokenizer(data, special_tokens_of(path, default), do_lower_case, keep_accents)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _normalizer(values: Mapping, file: str) -> tuple[bool, bool, bytes]:
    """Returns whether texts are lower-cased, whether accents stay, and the compiled rules of a SentencePiece model."""
    rules, steps = b"", []
    for part in _parts(values, "normalizer", "normalizers", file):
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


def _parts(values: Mapping, name: str, names: str, file: str) -> list[dict]:
    """Returns the parts of a sequence in a tokenizer.json; any other value is returned as the only part."""
    part = member(values, name, dict, file, {})
    parts = member(part, names, list, file, []) if part.get("type") == "Sequence" else [part] if part else []
    return [checked(part, dict, f"each part of {name}", file) for part in parts]


def _check_size(path: str, vocabulary: TokenTable, vocab_size: int) -> None:
    if len(vocabulary) != vocab_size:
        raise InputError(
            f"{path}: the vocabulary has {len(vocabulary)} tokens, but the config has vocab_size={vocab_size}. The "
            "tokenizer's files belong to another model."
        )


_OTHER_KINDS = {
    BYTE_PAIR: (BytePairTokenizer, _byte_pair_of_tokenizer_file, "byte-level BPE: vocab.json and merges.txt"),
    SENTENCE_PIECE: (SentencePieceTokenizer, _sentence_piece_of_tokenizer_file, "SentencePiece: spiece.model"),
}


def write_tokenizer(folder: str, vocabulary: TokenTable, config: BertConfig) -> None:
    """Writes the files of the tokenizer.

    For WordPiece these are `vocab.txt`, `tokenizer.json`, `tokenizer_config.json` and `special_tokens_map.json`. For
    the other kinds they are the files that the tokenizer's `save` writes.
    """
    if config.model_type == "big_bird" and isinstance(vocabulary, SentencePieceTokenizer):
        vocabulary.save(folder, tokenizer_class="BigBirdTokenizer")
        return
    if not isinstance(vocabulary, Vocabulary):
        vocabulary.save(folder)
        return
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    vocabulary.save(os.path.join(folder, VOCABULARY_FILE))
    tokenizer = Tokenizer(models.WordPiece(vocabulary.ids, unk_token=UNK, max_input_chars_per_word=200))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=config.do_lower_case)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
        special_tokens=[(CLS, vocabulary.cls_id), (SEP, vocabulary.sep_id)],
    )
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": config.do_lower_case,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        "model_max_length": config.max_position_embeddings,
        **_SPECIAL_NAMES,
    }
    for name, text in (
        (TOKENIZER_FILE, tokenizer.to_str(pretty=True)),
        (TOKENIZER_CONFIG_FILE, json.dumps(settings, indent=2)),
        (SPECIAL_TOKENS_FILE, json.dumps(_SPECIAL_NAMES, indent=2)),
    ):
        with atomic_file(os.path.join(folder, name)) as file:
            file.write((text + "\n").encode())


def _tokens(path: str, tokenizer: Mapping) -> list[str] | None:
    """Returns the tokens in the order of their ids, from vocab.txt or else tokenizer.json, with added tokens."""
    file, tokenizer_file = os.path.join(path, VOCABULARY_FILE), os.path.join(path, TOKENIZER_FILE)
    model = member(tokenizer, "model", dict, tokenizer_file, {})
    if os.path.isfile(file):
        ids = Vocabulary.from_file(file).ids.copy()
    elif not model:
        return None
    elif model.get("type") != "WordPiece" or model.get("continuing_subword_prefix", "##") != "##":
        raise InputError(f"{tokenizer_file}: {reprlib.repr(model.get('type'))} is not BERT's WordPiece.")
    else:
        vocabulary = member(model, "vocab", dict, tokenizer_file, {})
        ids = {
            token: checked(number, int, "the number of a token", tokenizer_file) for token, number in vocabulary.items()
        }
    ids |= {entry["content"]: entry["id"] for entry in added_tokens_of(tokenizer, tokenizer_file)}
    check_count(len(ids), "tokens", tokenizer_file)
    by_id = {number: token for token, number in ids.items()}
    if sorted(by_id) != list(range(len(ids))):
        raise InputError(f"{path}: the tokens of its vocabulary are not numbered 0 to {len(ids) - 1}, once each.")
    return [by_id[number] for number in range(len(ids))]


def _read_json(path: str) -> dict:
    return read_json_object(path) if os.path.isfile(path) else {}
