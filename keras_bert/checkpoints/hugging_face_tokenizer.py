"""The tokenizer's files in a Hugging Face folder."""

import json
import os

from keras_bert.config import BertConfig
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import read_json_object
from keras_bert.tokenization import byte_pair_files, sentence_piece_files
from keras_bert.tokenization.byte_pair import BytePairTokenizer
from keras_bert.tokenization.kinds import read_folder
from keras_bert.tokenization.sentence_piece import SentencePieceTokenizer
from keras_bert.tokenization.tokenizer import SpecialTokens, TokenTable
from keras_bert.tokenization.tokenizer_json import SETTINGS_FILE as TOKENIZER_CONFIG_FILE
from keras_bert.tokenization.tokenizer_json import (
    SPECIAL_TOKENS_FILE,
    TOKENIZER_FILE,
    added_token_entry,
    json_text,
    role_names,
)
from keras_bert.tokenization.vocabulary import VOCABULARY_FILE, Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer
from keras_bert.tokenization.wordpiece_files import settings_of

_ROLES_IN_FILES = ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
# Tables have more rows than tokens: those of BERT and ModernBERT are padded to multiples of 8, 64 or 128 rows, those of
# multilingual models have 35 (e5), 46 (gte) or 899 more (mDeBERTa: 251,000 for 250,101 tokens). A larger gap means
# another vocabulary.
_MOST_SPARE_ROWS = 127
_TOKENS_PER_SPARE_ROW = 200


def read_tokenizer(
    path: str, vocab_size: int, makes_rows: bool = True, num_rows: int | None = None
) -> tuple[TokenTable | None, list[str]]:
    """Returns the tokenizer of a folder, as `read_folder`, and remarks for the user.

    The kind of the tokenizer is that of the files, whatever the family of the model is.

    Args:
        vocab_size: the rows of the model's token table, as its config states them.
        makes_rows: whether the special tokens around texts matter.
        num_rows: the rows that the table has, if that is known.

    Raises:
        InputError: a file is damaged, the kind of tokenizer is not known, or the vocabulary does not fit `vocab_size`.
    """
    tokenizer = read_folder(path, makes_rows)
    if tokenizer is None:
        return None, []
    tokenizer, remarks = tokenizer.of_size(vocab_size), []
    count = len(tokenizer)
    most = count + max(_MOST_SPARE_ROWS, count // _TOKENS_PER_SPARE_ROW)
    if count < vocab_size <= most and num_rows in (None, vocab_size):
        tokenizer = tokenizer.with_spare_rows(vocab_size)
        name = tokenizer.tokens[-1].replace(str(vocab_size - 1), "...")
        remarks.append(f"{vocab_size - count} rows of the token table have no token: named {name}")
    if len(tokenizer) != vocab_size:
        raise InputError(
            f"{path}: the vocabulary has {count} tokens, but the config has vocab_size={vocab_size}. The tokenizer's "
            "files belong to another model."
        )
    return tokenizer, remarks


def write_tokenizer(folder: str, tokenizer: TokenTable, config: BertConfig) -> None:
    """Writes the files of the tokenizer.

    For WordPiece these are `vocab.txt`, `tokenizer.json`, `tokenizer_config.json` and `special_tokens_map.json`. For
    the other kinds they are the files that the tokenizer's `save` writes. Pairs are cut as transformers cuts them.
    """
    tokenizer = tokenizer.with_pair_rule(longer_keeps_more=True)
    if isinstance(tokenizer, SentencePieceTokenizer):
        theirs = config.family.hugging_face
        # transformers puts the mask of some classes behind all pieces.
        tokenizer.without_spare_rows().save(folder, tokenizer_class=theirs and theirs.tokenizer_class)
        return
    if not isinstance(tokenizer, WordPieceTokenizer):
        tokenizer.save(folder)
        return
    vocabulary = tokenizer.vocabulary
    vocabulary.save(os.path.join(folder, VOCABULARY_FILE))
    roles = role_names(vocabulary.special_tokens)
    names = {role: roles[role] for role in _ROLES_IN_FILES}
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": tokenizer.do_lower_case,
        **settings_of(vocabulary),
        "model_max_length": config.max_position_embeddings,
        **names,
    }
    for name, text in (
        (TOKENIZER_FILE, _tokenizer_json(vocabulary, tokenizer.do_lower_case)),
        (TOKENIZER_CONFIG_FILE, json.dumps(settings, indent=2)),
        (SPECIAL_TOKENS_FILE, json.dumps(names, indent=2)),
    ):
        with atomic_file(os.path.join(folder, name)) as file:
            file.write((text + "\n").encode())


def tokenizer_json(tokenizer: TokenTable) -> str:
    """Returns the content of a tokenizer's `tokenizer.json`. Raises `InputError` if its kind has no such form."""
    if isinstance(tokenizer, WordPieceTokenizer):
        return _tokenizer_json(tokenizer.vocabulary, tokenizer.do_lower_case)
    if isinstance(tokenizer, SentencePieceTokenizer):
        return sentence_piece_files.tokenizer_json(tokenizer)
    if isinstance(tokenizer, BytePairTokenizer):
        return byte_pair_files.tokenizer_json(tokenizer)
    raise InputError(f"A {type(tokenizer).__name__} has no form as a {TOKENIZER_FILE}.")


def complete_tokenizer(folder: str, special_tokens: SpecialTokens, content: str, max_length: int) -> None:
    """Adds to the files of a tokenizer what programs need that know no class: `tokenizer.json` with a content,
    `special_tokens_map.json`, and the longest row as `model_max_length`."""
    names = role_names(special_tokens)
    if isinstance(names["mask_token"], dict):
        names["mask_token"] = {name: value for name, value in names["mask_token"].items() if name != "__type"}
    settings = read_json_object(os.path.join(folder, TOKENIZER_CONFIG_FILE)) | {"model_max_length": max_length}
    for name, text in (
        (TOKENIZER_FILE, content),
        (SPECIAL_TOKENS_FILE, json_text(names)),
        (TOKENIZER_CONFIG_FILE, json_text(settings)),
    ):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)


def _tokenizer_json(vocabulary: Vocabulary, lowercase: bool) -> str:
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    added = {token.content: token for token in vocabulary.added_tokens}
    # The added tokens at the end get their ids there by following the others.
    last = max(number for number, token in enumerate(vocabulary.tokens) if token not in added)
    pieces = {token: number for token, number in vocabulary.ids.items() if number <= last}
    special = vocabulary.special_tokens
    tokenizer = Tokenizer(
        models.WordPiece(pieces, unk_token=special.unk, max_input_chars_per_word=vocabulary.max_characters_per_word)
    )
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase,
        strip_accents=vocabulary.strip_accents,
        handle_chinese_chars=vocabulary.tokenize_chinese_chars,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    between, segment = " ".join([special.sep] * special.num_between), special.second_segment
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{special.cls} $A {special.sep}",
        pair=f"{special.cls} $A {between} $B:{segment} {special.sep}:{segment}",
        special_tokens=[(special.cls, vocabulary.cls_id), (special.sep, vocabulary.sep_id)],
    )
    tokenizer.decoder = decoders.WordPiece()
    for name in (special.pad, special.unk, special.cls, special.sep, special.mask):
        takes_space = name == special.mask and special.mask_takes_space
        tokenizer.add_special_tokens([AddedToken(name, lstrip=takes_space, normalized=False, special=True)])
    for content in filter(added.get, vocabulary.tokens):
        add = tokenizer.add_special_tokens if added[content].special else tokenizer.add_tokens
        add([AddedToken(**added_token_entry(added[content]))])
    return tokenizer.to_str(pretty=True)
