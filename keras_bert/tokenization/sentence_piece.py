"""SentencePiece in Python, with character offsets, as ALBERT and XLNet use it.

The library `sentencepiece` finds the tokens. Around it:

1. Texts are prepared as ALBERT and XLNet prepare them, unless accents are kept (`SentencePieceModel.without_accents`).
2. A token that ends with a digit and a comma is divided: "▁2010," -> "▁2010", ",". The rule is that of
   google-research/albert and zihangdai/xlnet, `encode_pieces`. Hugging Face's fast tokenizers do not have it.
3. Special tokens never match text, even if the model file would match them.

Offsets: a token covers its source characters, without the white space at its ends. Both parts of a token that step 2
divides cover the whole token if normalisation changed its characters, as in "１，".
"""

import contextlib
import dataclasses
import functools
import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import read_small_file
from keras_bert.program.json_files import member
from keras_bert.tokenization.added_tokens import AddedToken, AddedTokenCutter, check_added_tokens
from keras_bert.tokenization.byte_pair_words import WHITE_SPACE
from keras_bert.tokenization.sentence_piece_model import CONTROL, NORMAL, USER_DEFINED, Piece, SentencePieceModel
from keras_bert.tokenization.tokenizer import SpecialTokens, Tokenizer, check_special_tokens
from keras_bert.tokenization.tokenizer_json import (
    SENTENCE_PIECE_CLASSES,
    SETTINGS_FILE,
    added_tokens_decoder,
    read_added_tokens,
    read_settings,
    settings_text,
    special_tokens_of,
    without_roles,
)

MODEL_FILE = "spiece.model"
# The start of the names of ALBERT's tokenizers in Hugging Face.
ALBERT_CLASS = "AlbertTokenizer"
XLNET_CLASS = "XLNetTokenizer"
ALBERT_SPECIAL_TOKENS = SpecialTokens(
    cls="[CLS]", sep="[SEP]", pad="<pad>", unk="<unk>", mask="[MASK]", mask_takes_space=True
)
XLNET_SPECIAL_TOKENS = SpecialTokens(
    cls="<cls>", sep="<sep>", pad="<pad>", unk="<unk>", mask="<mask>", mask_takes_space=True
)
SPACE_MARK = "▁"
# The white space of str.isspace. No token's offsets begin or end with it.
STRIPPED = frozenset(map(chr, WHITE_SPACE | {0x1C, 0x1D, 0x1E, 0x1F}))


class SentencePieceTokenizer(Tokenizer):
    """Text -> ids by a SentencePiece model.

    A str may contain surrogates only as `bytes.decode("utf-8", "surrogateescape")` writes them for invalid bytes. Each
    invalid byte becomes U+FFFD and counts as one character in offsets.

    Args:
        model: content of a model file, unigram or BPE.
        special_tokens: names of the special tokens, by role.
        do_lower_case: whether texts are lower-cased.
        keep_accents: whether accents stay. By default those of lower-cased texts are removed, as in ALBERT; XLNet has
            capitals and no accents.
        added_tokens: tokens that are found in a text, as it is, before the model sees it. Those that the model does not
            have follow its pieces.

    Raises:
        InputError: the model is damaged or of another kind, or lacks a special token; or an added token is to be found
            in the normalised text.

    Reference: Kudo and Richardson 2018, "SentencePiece: A simple and language independent subword tokenizer".
    """

    keeps_spaces = True

    def __init__(
        self,
        model: bytes,
        special_tokens: SpecialTokens = ALBERT_SPECIAL_TOKENS,
        do_lower_case: bool = True,
        keep_accents: bool | None = None,
        added_tokens: Sequence[AddedToken] = (),
    ):
        self.model = model
        self.special_tokens = special_tokens
        self.do_lower_case = do_lower_case
        self.keep_accents = not do_lower_case if keep_accents is None else keep_accents
        if do_lower_case and self.keep_accents:
            raise InputError("SentencePiece in lower case has no accents. Set do_lower_case or keep_accents to False.")
        self._pieces, self.effective_model = _read_model(model, special_tokens, do_lower_case, self.keep_accents)
        self.added_tokens = tuple(added_tokens)
        pieces = [piece.text for piece in self._pieces]
        self.tokens = (*pieces, *(token.content for token in added_tokens if token.content not in set(pieces)))
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        if added_tokens:
            _check_added_tokens(self.added_tokens, self.ids, special_tokens)
            self._cutter = AddedTokenCutter(self.added_tokens, self.ids)
        self._processor = _processor(self.effective_model)
        self.divided = _divided_tokens(self.tokens, self.ids, self._processor)

    def __reduce__(self):
        settings = (self.do_lower_case, self.keep_accents, self.added_tokens)
        return SentencePieceTokenizer, (self.model, self.special_tokens, *settings)

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike,
        special_tokens: SpecialTokens | None = None,
        do_lower_case: bool | None = None,
        keep_accents: bool | None = None,
        added_tokens: Sequence[AddedToken] = (),
    ) -> "SentencePieceTokenizer":
        """Reads a model file. By default, a model with the token <cls> is that of an XLNet, others are ALBERT's.

        Raises:
            InputError: the file is missing, or for the reasons given in the class.
        """
        data = read_small_file(path)
        with _named(path):
            is_xlnet = _are_of_xlnet([piece.text for piece in _parsed(data).pieces])
            special_tokens = special_tokens or (XLNET_SPECIAL_TOKENS if is_xlnet else ALBERT_SPECIAL_TOKENS)
            do_lower_case = not is_xlnet if do_lower_case is None else do_lower_case
            keep_accents = False if is_xlnet and keep_accents is None else keep_accents
            return cls(data, special_tokens, do_lower_case, keep_accents, added_tokens)

    @classmethod
    def from_folder(cls, folder: str | os.PathLike) -> "SentencePieceTokenizer":
        """Reads `spiece.model`, and the settings and added tokens in the files beside it.

        The settings used are `do_lower_case`, `keep_accents` and the names of the special tokens. By default, the
        tokenizer of an ALBERT lower-cases and removes accents, that of an XLNet removes accents, others do neither.

        Raises:
            InputError: as `from_file`, or the settings are damaged or not supported.
        """
        settings, path = read_settings(folder, SENTENCE_PIECE_CLASSES), os.path.join(folder, SETTINGS_FILE)
        file = os.path.join(folder, MODEL_FILE)
        data = read_small_file(file)
        with _named(file):
            tokens = [piece.text for piece in _parsed(data).pieces]
        default = XLNET_CLASS if _are_of_xlnet(tokens) else ALBERT_CLASS
        its_class = member(settings, "tokenizer_class", str, path, default)
        is_xlnet = its_class.startswith(XLNET_CLASS)
        do_lower_case = member(settings, "do_lower_case", bool, path, its_class.startswith(ALBERT_CLASS))
        keep_accents = member(settings, "keep_accents", bool, path, not (do_lower_case or is_xlnet))
        if keep_accents and do_lower_case:
            raise InputError(
                f"{path} has do_lower_case=True and keep_accents=True. Texts in lower case have no accents here: set "
                "one of the two to false."
            )
        special_tokens = special_tokens_of(folder, XLNET_SPECIAL_TOKENS if is_xlnet else ALBERT_SPECIAL_TOKENS)
        ids = {token: number for number, token in enumerate(tokens)}
        added = beyond_model(read_added_tokens(folder, {}, settings, ids), special_tokens, set(tokens))
        with _named(file):
            return cls(data, special_tokens, do_lower_case, keep_accents, added)

    def save(self, folder: str | os.PathLike, tokenizer_class: str | None = None) -> None:
        """Writes `spiece.model` and `tokenizer_config.json`, as this class of Hugging Face reads them; by default that
        of XLNet if [CLS] is called <cls>, else that of ALBERT."""
        for name, content in self._files(tokenizer_class).items():
            with atomic_file(os.path.join(folder, name)) as file:
                file.write(content)

    def _files(self, tokenizer_class: str | None = None) -> dict[str, bytes]:
        added = added_tokens_decoder(self.added_tokens, self.ids)
        settings = settings_text(
            self.special_tokens,
            tokenizer_class or (XLNET_CLASS if self.special_tokens == XLNET_SPECIAL_TOKENS else ALBERT_CLASS),
            do_lower_case=self.do_lower_case,
            keep_accents=self.keep_accents,
            remove_space=True,
            **({"added_tokens_decoder": added} if added else {}),
        )
        return {MODEL_FILE: self.model, SETTINGS_FILE: settings.encode()}

    @functools.cached_property
    def sha256(self) -> str:
        return hashlib.sha256(b"".join(self._files().values())).hexdigest()

    def with_spare_rows(self, size: int) -> "SentencePieceTokenizer":
        """Returns this tokenizer with pieces for the rows of a table that have none.

        Raises:
            InputError: the tokenizer has added tokens behind the pieces of its model.
        """
        if len(self.tokens) > len(self._pieces):
            raise InputError(
                f"The table has {size} rows for {len(self.tokens)} tokens. Rows without a token are supported only if "
                "all tokens are pieces of the SentencePiece model."
            )
        model = _parsed(self.model)
        spare = (Piece(f"<unused_row_{number}>", 0.0, CONTROL) for number in range(len(self.tokens), size))
        data = dataclasses.replace(model, pieces=(*model.pieces, *spare)).to_bytes()
        arguments = (self.special_tokens, self.do_lower_case, self.keep_accents, self.added_tokens)
        return SentencePieceTokenizer(data, *arguments)

    def text_ids(self) -> list[int]:
        """Returns the ids of the tokens that match text, without special ones."""
        added = {self.ids[token.content]: token.special for token in self.added_tokens}
        found = [number for number, piece in enumerate(self._pieces) if piece.type in (NORMAL, USER_DEFINED)]
        found += [number for number in added if number >= len(self._pieces)]
        return [number for number in found if not added.get(number, False)]

    def continues_word(self, token: str) -> bool:
        """Returns whether `token` begins without a space."""
        return not token.startswith(SPACE_MARK)

    def _as_str(self, text: str | bytes) -> str:
        return _as_bytes(text).decode("utf-8", "surrogateescape")

    def _plain_ids(self, text: str | bytes) -> list[int]:
        ids = self._processor.encode(_as_bytes(text))
        return [part for number in ids for part in self.divided.get(number, (number,))]

    def _plain_ids_with_offsets(self, text: str | bytes) -> tuple[list[int], list[int], list[int]]:
        data = _as_bytes(text)
        text = data.decode("utf-8", "surrogateescape")
        found = self._processor.encode(data, return_type="offset_mapping")
        characters = range(len(data) + 1) if data.isascii() else _characters(text)
        ids, starts, ends = [], [], []
        for number, (start, end) in zip(found["ids"], found["offsets"], strict=True):
            start, end = characters[start], characters[end]
            while start < end and text[start] in STRIPPED:
                start += 1
            while start < end and text[end - 1] in STRIPPED:
                end -= 1
            parts = self.divided.get(number, (number,))
            texts = [self.tokens[part].removeprefix(SPACE_MARK) for part in parts]
            lengths = list(map(len, texts))
            # The number of bytes tells "2," from "２，", which has as many characters.
            is_exact = len(parts) > 1 and sum(lengths) == end - start
            is_exact = is_exact and len("".join(texts).encode()) == len(text[start:end].encode("utf-8", "replace"))
            for part, length in zip(parts, lengths, strict=True):
                ids.append(part)
                starts.append(start)
                ends.append(start + length if is_exact else end)
                start = ends[-1] if is_exact else start
        return ids, starts, ends

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids. Each word is preceded by a space, including the first."""
        return "".join(self.tokens[number] for number in ids).replace(SPACE_MARK, " ")

    def graph(self, core_operations: bool = False) -> Any:
        """Returns the `GraphSentencePiece` of this tokenizer."""
        if core_operations:
            raise InputError(
                "SentencePiece has no form by core TensorFlow operations: in the graph it needs the operation "
                "SentencepieceTokenizeWithOffsetsOp of tensorflow-text. Leave out core_operations."
            )
        from keras_bert.tokenization.graph_sentence_piece import GraphSentencePiece

        return GraphSentencePiece(self)


_parsed = functools.lru_cache(maxsize=2)(SentencePieceModel.from_bytes)


@functools.lru_cache(maxsize=4)
def _read_model(data: bytes, special_tokens: SpecialTokens, do_lower_case: bool, keep_accents: bool):
    """Returns the pieces, and the model that the library and the graph run."""
    model = _parsed(data)
    check_special_tokens(
        special_tokens, {piece.text: number for number, piece in enumerate(model.pieces)}, "The SentencePiece model"
    )
    never_text = set(special_tokens.names) - {special_tokens.unk}
    pieces = tuple(piece._replace(type=CONTROL) if piece.text in never_text else piece for piece in model.pieces)
    model = dataclasses.replace(model, pieces=pieces)
    with _explain_refusal():
        return pieces, (model if keep_accents else model.without_accents(do_lower_case)).to_bytes()


def beyond_model(
    tokens: Sequence[AddedToken], special_tokens: SpecialTokens, pieces: Collection[str]
) -> list[AddedToken]:
    """Returns the added tokens that the model does not find itself: special ones, and those that are not its pieces."""
    found = without_roles(tokens, special_tokens)
    return [token for token in found if token.special or token.content not in pieces]


def _check_added_tokens(tokens: Sequence[AddedToken], ids: Mapping[str, int], special_tokens: SpecialTokens) -> None:
    check_added_tokens(tokens, ids, special_tokens.names)
    normalized = [token.content for token in tokens if token.normalized]
    if normalized:
        raise InputError(
            f"The added token {normalized[0]!r:.100} is to be found in the normalised text (normalized is true). With "
            "SentencePiece only added tokens that match the text as it is are supported (normalized: false)."
        )


def _are_of_xlnet(tokens: Collection[str]) -> bool:
    """Returns whether the tokens have the name of [CLS] in XLNet's, and not that in ALBERT's."""
    return XLNET_SPECIAL_TOKENS.cls in tokens and ALBERT_SPECIAL_TOKENS.cls not in tokens


@contextlib.contextmanager
def _named(path: str | os.PathLike):
    """Puts the name of the file in front of errors in this block."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{os.fspath(path)}: {error}") from None


def _processor(model: bytes):
    from sentencepiece import SentencePieceProcessor

    with _explain_refusal():
        return SentencePieceProcessor(model_proto=model)


@contextlib.contextmanager
def _explain_refusal():
    """Turns the library's errors in this block into an `InputError`."""
    try:
        yield
    except (RuntimeError, ValueError, OSError) as error:
        raise InputError(f"The library sentencepiece refuses the model: {error}") from None


def _divided_tokens(tokens: Sequence[str], ids: Mapping[str, int], processor) -> dict[int, tuple[int, ...]]:
    """Returns id -> ids of its parts, for each token that ends with a digit and a comma: {"▁9,": ("▁9", ",")}."""
    divided = {}
    for number, token in enumerate(tokens):
        if len(token) < 2 or token[-1] != "," or not token[-2].isdigit() or "," not in ids:
            continue
        parts = processor.encode(token[:-1].replace(SPACE_MARK, ""))
        if not token.startswith(SPACE_MARK) and parts and tokens[parts[0]].startswith(SPACE_MARK):
            # The space was added by the model.
            first = tokens[parts[0]][1:]
            parts = ([ids.get(first, processor.unk_id())] if first else []) + parts[1:]
        divided[number] = (*parts, ids[","])
    return divided


def _as_bytes(text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise InputError(
            f"A text must be str or bytes. Received: {text!r:.100}. Tokenise several texts one by one: "
            "[tokenizer.encode(text) for text in texts]."
        )
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InputError(f"Texts must be valid Unicode strings. Received: {text!r:.100} ({error})") from None


def _characters(text: str) -> list[int]:
    """Returns the character index of each byte of a text, followed by the number of characters."""
    numbers = []
    for number, character in enumerate(text):
        numbers += [number] * len(character.encode("utf-8", "surrogateescape"))
    return [*numbers, len(text)]
