"""The tokenizer's files in a Hugging Face folder: vocabulary, casing and accents."""

import json
import os

from keras_bert.config import BertConfig
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.registry import BYTE_PAIR, SENTENCE_PIECE, WORD_PIECE
from keras_bert.tokenization.byte_pair import BytePairTokenizer
from keras_bert.tokenization.kinds import find_vocabulary
from keras_bert.tokenization.sentence_piece import SentencePieceTokenizer
from keras_bert.tokenization.sentence_piece_files import read_sentence_piece
from keras_bert.tokenization.tokenizer import TokenTable
from keras_bert.tokenization.tokenizer_json import SETTINGS_FILE as TOKENIZER_CONFIG_FILE
from keras_bert.tokenization.tokenizer_json import (
    SPECIAL_TOKENS_FILE,
    TOKENIZER_FILE,
    added_token_entry,
)
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

_SPECIAL_NAMES = {"unk_token": UNK, "sep_token": SEP, "pad_token": PAD, "cls_token": CLS, "mask_token": MASK}
# Tables are padded to multiples of 8, 64 or 128 rows for speed; a larger gap means another vocabulary.
_LARGEST_FILLING = 127


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


def _check_size(path: str, vocabulary: TokenTable, vocab_size: int) -> None:
    if len(vocabulary) != vocab_size:
        raise InputError(
            f"{path}: the vocabulary has {len(vocabulary)} tokens, but the config has vocab_size={vocab_size}. The "
            "tokenizer's files belong to another model."
        )


_OTHER_KINDS = {
    BYTE_PAIR: (BytePairTokenizer, _byte_pair_of_tokenizer_file, "byte-level BPE: vocab.json and merges.txt"),
    SENTENCE_PIECE: (SentencePieceTokenizer, read_sentence_piece, "SentencePiece: spiece.model"),
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
