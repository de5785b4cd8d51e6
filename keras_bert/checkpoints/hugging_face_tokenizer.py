"""The tokenizer's files in a Hugging Face folder: vocabulary, casing and accents."""

import base64
import json
import os
import reprlib
from collections.abc import Mapping

from keras_bert.config import BertConfig
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member
from keras_bert.registry import BYTE_PAIR, SENTENCE_PIECE, WORD_PIECE
from keras_bert.tokenization.byte_pair import BytePairTokenizer
from keras_bert.tokenization.kinds import find_vocabulary
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
from keras_bert.tokenization.tokenizer import TokenTable
from keras_bert.tokenization.tokenizer_files import check_count
from keras_bert.tokenization.tokenizer_json import (
    SENTENCE_PIECE_CLASSES,
    SPECIAL_TOKENS_FILE,
    TOKENIZER_FILE,
    added_token_entry,
    check_row_form,
    parts_of,
    read_added_tokens,
    read_settings,
    read_tokenizer_json,
    special_tokens_of,
)
from keras_bert.tokenization.tokenizer_json import SETTINGS_FILE as TOKENIZER_CONFIG_FILE
from keras_bert.tokenization.vocabulary import (
    CLS,
    MASK,
    PAD,
    SEP,
    SPECIAL_TOKENS,
    UNK,
    VOCABULARY_FILE,
    Vocabulary,
)
from keras_bert.tokenization.wordpiece_files import read_word_piece, settings_of, unused_rows

_SPLITTER_KEYS = KnownKeys(
    used=("type",),
    fixed={"replacement": ("▁",), "prepend_scheme": ("always",), "add_prefix_space": (True,), "split": (True,)},
)
_NORMALIZER_KEYS = KnownKeys(used=("type", "precompiled_charsmap", "pattern", "content"))
_MODEL_KEYS = KnownKeys(used=("type", "vocab", "unk_id"), fixed={"byte_fallback": (False,)})
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


def read_tokenizer(path: str, vocab_size: int, makes_rows: bool = True) -> tuple[Vocabulary | None, dict, list[str]]:
    """Returns the vocabulary of a folder, the `BertConfig` values that its files state, and remarks for the user.

    Args:
        path: the folder.
        vocab_size: the rows of the model's token table.
        makes_rows: whether the special tokens around texts matter.

    Raises:
        InputError: a file is damaged, the tokenizer is not WordPiece, or the vocabulary does not fit `vocab_size`.
    """
    found = read_word_piece(path, makes_rows)
    if found is None:
        return None, {}, []
    vocabulary, lower_case = found
    vocabulary, remarks = vocabulary.of_size(vocab_size), []
    count = len(vocabulary)
    if count < vocab_size <= count + _LARGEST_FILLING and vocab_size % 8 == 0:
        remarks.append(f"{vocab_size - count} rows of the token table have no token: named [unused_row_...]")
        vocabulary = vocabulary.replace(tokens=(*vocabulary.tokens, *unused_rows(count, vocab_size)))
    _check_size(path, vocabulary, vocab_size)
    return vocabulary, {} if lower_case is None else {"do_lower_case": lower_case}, remarks


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
    theirs = config.family.hugging_face
    if theirs and theirs.tokenizer_class and isinstance(vocabulary, SentencePieceTokenizer):
        vocabulary.save(folder, tokenizer_class=theirs.tokenizer_class)
        return
    if not isinstance(vocabulary, Vocabulary):
        vocabulary.save(folder)
        return
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    vocabulary.save(os.path.join(folder, VOCABULARY_FILE))
    added = {token.content: token for token in vocabulary.added_tokens}
    # The added tokens at the end get their ids there by following the others.
    last = max(number for number, token in enumerate(vocabulary.tokens) if token not in added)
    pieces = {token: number for token, number in vocabulary.ids.items() if number <= last}
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token=UNK, max_input_chars_per_word=200))
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=config.do_lower_case,
        strip_accents=vocabulary.strip_accents,
        handle_chinese_chars=vocabulary.tokenize_chinese_chars,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
        special_tokens=[(CLS, vocabulary.cls_id), (SEP, vocabulary.sep_id)],
    )
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    for content in filter(added.get, vocabulary.tokens):
        add = tokenizer.add_special_tokens if added[content].special else tokenizer.add_tokens
        add([AddedToken(**added_token_entry(added[content]))])
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": config.do_lower_case,
        **settings_of(vocabulary),
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
