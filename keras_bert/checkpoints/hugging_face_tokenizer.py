"""The tokenizer's files in a Hugging Face folder: vocabulary, casing and accents."""

import json
import os
from collections.abc import Mapping

from keras_bert.atomic_output import atomic_file
from keras_bert.config import BertConfig
from keras_bert.errors import InputError
from keras_bert.tokenization.vocabulary import CLS, MASK, PAD, SEP, SPECIAL_TOKENS, UNK, Vocabulary

VOCABULARY_FILE = "vocab.txt"
TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
SPECIAL_TOKENS_FILE = "special_tokens_map.json"

_SPECIAL_NAMES = {"unk_token": UNK, "sep_token": SEP, "pad_token": PAD, "cls_token": CLS, "mask_token": MASK}
# Tables are filled up to multiples of 8, 64 or 128 rows for speed; a larger gap is another vocabulary.
_LARGEST_FILLING = 127


def read_tokenizer(path: str, vocab_size: int) -> tuple[Vocabulary | None, dict, list[str]]:
    """Returns the vocabulary of a folder, what of a `BertConfig` it says, and remarks.

    Raises:
        InputError: a file is damaged, the tokenizer is no WordPiece, or the vocabulary does not fit `vocab_size`.
    """
    tokenizer = _read_json(os.path.join(path, TOKENIZER_FILE))
    settings = _read_json(os.path.join(path, TOKENIZER_CONFIG_FILE))
    tokens = _tokens(path, tokenizer)
    if tokens is None:
        return None, {}, []
    remarks = []
    if len(tokens) < vocab_size <= len(tokens) + _LARGEST_FILLING and vocab_size % 8 == 0:
        remarks.append(f"{vocab_size - len(tokens)} rows of the token table have no token: named [unused_row_...]")
        tokens += [f"[unused_row_{number}]" for number in range(len(tokens), vocab_size)]
    vocabulary = Vocabulary(tokens)
    if len(vocabulary) != vocab_size:
        raise InputError(
            f"{path}: the vocabulary has {len(vocabulary)} tokens and the config says vocab_size={vocab_size}. The "
            "tokenizer's files belong to another model."
        )
    normalizer = (tokenizer or {}).get("normalizer") or {}
    lower_case = normalizer.get("lowercase", (settings or {}).get("do_lower_case"))
    strip_accents = normalizer.get("strip_accents", (settings or {}).get("strip_accents"))
    casing = {} if lower_case is None else {"do_lower_case": bool(lower_case)}
    if strip_accents is not None and lower_case is not None and bool(strip_accents) != bool(lower_case):
        remarks.append(
            f"its tokenizer has strip_accents={strip_accents} with do_lower_case={lower_case}, and ours strips accents "
            "exactly when it lower-cases: words with accents are cut differently"
        )
    return vocabulary, casing, remarks


def write_tokenizer(folder: str, vocabulary: Vocabulary, config: BertConfig) -> None:
    """Writes `vocab.txt`, `tokenizer.json`, `tokenizer_config.json` and `special_tokens_map.json`."""
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


def _tokens(path: str, tokenizer: Mapping | None) -> list[str] | None:
    """Returns the tokens by their ids: of vocab.txt, else of tokenizer.json, with those added later."""
    file = os.path.join(path, VOCABULARY_FILE)
    model = (tokenizer or {}).get("model") or {}
    if os.path.isfile(file):
        ids = Vocabulary.from_file(file).ids.copy()
    elif not model:
        return None
    elif model.get("type") != "WordPiece" or model.get("continuing_subword_prefix", "##") != "##":
        raise InputError(f"{os.path.join(path, TOKENIZER_FILE)}: {model.get('type')!r} is not BERT's WordPiece.")
    else:
        ids = dict(model.get("vocab") or {})
    ids |= {entry["content"]: entry["id"] for entry in (tokenizer or {}).get("added_tokens") or []}
    by_id = {number: token for token, number in ids.items()}
    if sorted(by_id) != list(range(len(ids))):
        raise InputError(f"{path}: the tokens of its vocabulary are not numbered 0 to {len(ids) - 1}, once each.")
    return [by_id[number] for number in range(len(ids))]


def _read_json(path: str) -> dict | None:
    if not os.path.isfile(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path} must hold one JSON object. Received: {type(values).__name__}")
    return values
