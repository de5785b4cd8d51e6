"""SentencePiece in Python, with character offsets.

The library `sentencepiece` finds the tokens. Around it:

1. Texts are prepared as ALBERT and XLNet prepare them, unless accents are kept (`SentencePieceModel.prepared`).
2. In ALBERT and XLNet, a token that ends with a digit and a comma is divided: "▁2010," -> "▁2010", ",". The rule is
   that of google-research/albert and zihangdai/xlnet, `encode_pieces`. Hugging Face's fast tokenizers do not have it.
3. Special tokens never match text, even if the model file would match them.

Offsets: a token covers its source characters, without the white space at its ends. Both parts of a token that step 2
divides cover the whole token if normalisation changed its characters, as in "１，".
"""

import contextlib
import dataclasses
import functools
import hashlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError, named
from keras_bert.program.foreign_files import read_small_file
from keras_bert.tokenization.added_tokens import AddedToken, AddedTokenCutter, check_added_tokens
from keras_bert.tokenization.sentence_piece_forms import (
    ALBERT,
    ALBERT_SPECIAL_TOKENS,
    MODEL_FILES,
    XLNET,
    XLNET_SPECIAL_TOKENS,
    SentencePieceForm,
    form_of,
)
from keras_bert.tokenization.sentence_piece_model import CONTROL, NORMAL, USER_DEFINED, Piece, SentencePieceModel
from keras_bert.tokenization.tokenizer import SpecialTokens, Tokenizer, check_special_tokens, text_bytes
from keras_bert.tokenization.tokenizer_json import (
    SETTINGS_FILE,
    added_tokens_decoder,
    pair_rule,
    settings_text,
    without_roles,
)
from keras_bert.tokenization.unicode_table import WHITE_SPACE

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
        form: the order of the ids, and what else differs between the classes of Hugging Face. Of ALBERT's and XLNet's,
            the special tokens decide.

    Raises:
        InputError: the model is damaged, of another kind or of another form, or lacks a special token; or an added
            token is to be found in the normalised text.

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
        form: SentencePieceForm | None = None,
    ):
        self.model = model
        self.special_tokens = special_tokens
        if form is None or form.prepares:
            form = XLNET if special_tokens == XLNET_SPECIAL_TOKENS else ALBERT
        self.form = form
        self.do_lower_case = do_lower_case
        self.keep_accents = not (do_lower_case and form.prepares) if keep_accents is None else keep_accents
        if do_lower_case and form.lower_case is None:
            raise InputError(f"A {form.tokenizer_class} keeps capitals. Set do_lower_case to False.")
        if form.prepares and do_lower_case and self.keep_accents:
            raise InputError("SentencePiece in lower case has no accents. Set do_lower_case or keep_accents to False.")
        if not (form.prepares or self.keep_accents):
            raise InputError(f"A {form.tokenizer_class} keeps accents. Set keep_accents to True.")
        self._pieces, self.effective_model = _read_model(model, special_tokens, do_lower_case, self.keep_accents, form)
        self.added_tokens = tuple(added_tokens)
        pieces = [piece.text for piece in self._pieces]
        self.tokens = (*pieces, *(token.content for token in added_tokens if token.content not in set(pieces)))
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        if added_tokens:
            check_added_tokens(self.added_tokens, self.ids, special_tokens.names)
            if normalized := [token.content for token in added_tokens if token.normalized]:
                raise InputError(
                    f"The added token {normalized[0]!r:.100} is to be found in the normalised text (normalized is "
                    "true). With SentencePiece only added tokens that match the text as it is are supported "
                    "(normalized: false)."
                )
            self._cutter = AddedTokenCutter(self.added_tokens, self.ids)
        self._processor = _processor(self.effective_model)
        self.space_steps = parsed(model).space_steps
        self.divided = _divided_tokens(self.tokens, self.ids, self._processor) if form.prepares else {}

    def __reduce__(self):
        return SentencePieceTokenizer, (self.model, self.special_tokens, *self._settings)

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike,
        special_tokens: SpecialTokens | None = None,
        do_lower_case: bool | None = None,
        keep_accents: bool | None = None,
        added_tokens: Sequence[AddedToken] = (),
    ) -> "SentencePieceTokenizer":
        """Reads a model file.

        By default, a `sentencepiece.bpe.model` is that of an XLM-RoBERTa, an `spm.model` that of a DeBERTa, another
        model with the token <cls> that of an XLNet, and others are ALBERT's.

        Raises:
            InputError: the file is missing, or for the reasons given in the class.
        """
        data = read_small_file(path)
        with named(path):
            form = form_of(None, os.path.basename(path), [piece.text for piece in parsed(data).pieces])
            do_lower_case = bool(form.lower_case) if do_lower_case is None else do_lower_case
            keep_accents = False if form.removes_accents and keep_accents is None else keep_accents
            return cls(data, special_tokens or form.special_tokens, do_lower_case, keep_accents, added_tokens, form)

    @classmethod
    def from_folder(cls, folder: str | os.PathLike) -> "SentencePieceTokenizer":
        """Reads the model file or `tokenizer.json` of a folder, with the settings and added tokens beside it.

        The settings used are `tokenizer_class`, `do_lower_case`, `keep_accents` and the names of the special tokens. By
        default, the tokenizer of an ALBERT lower-cases and removes accents, that of an XLNet removes accents, others do
        neither.

        Raises:
            InputError: as `from_file`, or the settings are damaged or not supported.
        """
        from keras_bert.tokenization.sentence_piece_files import read_sentence_piece

        found = read_sentence_piece(folder)
        if found is None:
            raise InputError(f"{os.fspath(folder)} has no {', '.join(MODEL_FILES)} or tokenizer.json. Copy one there.")
        return found

    def save(self, folder: str | os.PathLike, tokenizer_class: str | None = None) -> None:
        """Writes the model file and `tokenizer_config.json` into an existing folder, as this form's class reads them.

        Another `tokenizer_class` of Hugging Face is possible for ALBERT's and XLNet's form.
        """
        for name, content in self._files(tokenizer_class, **pair_rule(self.special_tokens.longer_keeps_more)).items():
            with atomic_file(os.path.join(folder, name)) as file:
                file.write(content)

    def _files(self, tokenizer_class: str | None = None, **settings: Any) -> dict[str, bytes]:
        form = self.form
        if form.lower_case is not None:
            settings["do_lower_case"] = self.do_lower_case
        if form.prepares:
            settings |= {"keep_accents": self.keep_accents, "remove_space": True}
        added = self.added_tokens
        if added and form.appends_mask:
            # Without its id, transformers would give it to the first added token.
            added = (self.special_tokens.as_added_token(self.special_tokens.mask), *added)
        if added:
            settings["added_tokens_decoder"] = added_tokens_decoder(added, self.ids)
        name = tokenizer_class if tokenizer_class and form.prepares else form.tokenizer_class
        text = settings_text(self.special_tokens, name, **settings)
        return {form.model_file: self.model, SETTINGS_FILE: text.encode()}

    @functools.cached_property
    def sha256(self) -> str:
        return hashlib.sha256(b"".join(self._files().values())).hexdigest()

    def with_special_tokens(self, special_tokens: SpecialTokens) -> "SentencePieceTokenizer":
        return SentencePieceTokenizer(self.model, special_tokens, *self._settings)

    def with_spare_rows(self, size: int) -> "SentencePieceTokenizer":
        """Returns this tokenizer with pieces for the rows of a table that have none.

        Added tokens keep their ids: they become pieces in front, which the model finds in no text.
        """
        pieces = parsed(self.model).pieces
        mask = self.special_tokens.mask
        if self.form.appends_mask and mask not in {piece.text for piece in pieces}:
            pieces = (*pieces, Piece(mask, 0.0, CONTROL))
        names = (*self.tokens[len(self._pieces) :], *map(_spare_name, range(len(self.tokens), size)))
        return self._with_pieces((*pieces, *(Piece(name, 0.0, CONTROL) for name in names)))

    def without_spare_rows(self) -> "SentencePieceTokenizer":
        """Returns this tokenizer without the tokens that `with_spare_rows` added."""
        count, pieces = len(self.tokens), parsed(self.model).pieces
        while self.tokens[count - 1] == _spare_name(count - 1):
            count, pieces = count - 1, pieces[:-1]
        if count == len(self.tokens):
            return self
        added = {Piece(token.content, 0.0, CONTROL) for token in self.added_tokens}
        while pieces[-1] in added:
            pieces = pieces[:-1]
        has_mask = self.form.appends_mask and pieces[-1] == Piece(self.special_tokens.mask, 0.0, CONTROL)
        return self._with_pieces(pieces[:-1] if has_mask else pieces)

    def _with_pieces(self, pieces: tuple[Piece, ...]) -> "SentencePieceTokenizer":
        data = dataclasses.replace(parsed(self.model), pieces=pieces).to_bytes()
        return SentencePieceTokenizer(data, self.special_tokens, *self._settings)

    @property
    def _settings(self) -> tuple:
        return self.do_lower_case, self.keep_accents, self.added_tokens, self.form

    def text_ids(self) -> list[int]:
        """Returns the ids of the tokens that match text, without special ones."""
        added = {self.ids[token.content]: token.special for token in self.added_tokens}
        found = {number for number, piece in enumerate(self._pieces) if piece.type in (NORMAL, USER_DEFINED)}
        return [number for number in sorted({*found, *added}) if not added.get(number, False)]

    def continues_word(self, token: str) -> bool:
        """Returns whether `token` begins without a space."""
        return not token.startswith(SPACE_MARK)

    def _as_str(self, text: str | bytes) -> str:
        return text_bytes(text).decode("utf-8", "surrogateescape")

    def _prepared(self, text: str | bytes) -> bytes:
        """Returns the text that the model sees; its bytes have the same places."""
        if self.space_steps:
            text = self._as_str(text)
            for pattern, replacement in self.space_steps:
                text = re.sub(pattern, replacement, text)
        return text_bytes(text)

    def _plain_ids(self, text: str | bytes) -> list[int]:
        ids = self._processor.encode(self._prepared(text))
        return [part for number in ids for part in self.divided.get(number, (number,))]

    def _plain_ids_with_offsets(self, text: str | bytes) -> tuple[list[int], list[int], list[int]]:
        data = text_bytes(text)
        text = data.decode("utf-8", "surrogateescape")
        found = self._processor.encode(self._prepared(data), return_type="offset_mapping")
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
        if core_operations:
            raise InputError(
                "SentencePiece has no form by core TensorFlow operations: in the graph it needs the operation "
                "SentencepieceTokenizeWithOffsetsOp of tensorflow-text. Leave out core_operations."
            )
        from keras_bert.tokenization.graph_sentence_piece import GraphSentencePiece

        return GraphSentencePiece(self)


parsed = functools.lru_cache(maxsize=2)(SentencePieceModel.from_bytes)


@functools.lru_cache(maxsize=4)
def _read_model(
    data: bytes, special_tokens: SpecialTokens, do_lower_case: bool, keep_accents: bool, form: SentencePieceForm
):
    """Returns the pieces in the order of their ids, and the model that the library and the graph run."""
    model = parsed(data)
    if not (form.prepares or model.is_unigram):
        raise InputError(
            f"The SentencePiece model is BPE, but a {form.tokenizer_class} has a unigram model. Give the file of the "
            "original model."
        )
    model = dataclasses.replace(model, pieces=form.in_order_of_ids(model.pieces, special_tokens.mask))
    check_special_tokens(
        special_tokens, {piece.text: number for number, piece in enumerate(model.pieces)}, "The SentencePiece model"
    )
    never_text = set(special_tokens.names) - {special_tokens.unk}
    pieces = tuple(piece._replace(type=CONTROL) if piece.text in never_text else piece for piece in model.pieces)
    model = dataclasses.replace(model, pieces=pieces)
    with _explain_refusal():
        changes = do_lower_case or not keep_accents
        return pieces, (model.prepared(do_lower_case, keep_accents) if changes else model).to_bytes()


def beyond_model(
    tokens: Sequence[AddedToken], special_tokens: SpecialTokens, pieces: Collection[Piece]
) -> list[AddedToken]:
    """Returns the added tokens that the model does not find itself: special ones, and those that are not its pieces."""
    found, texts = without_roles(tokens, special_tokens), {piece.text for piece in pieces if piece.type != CONTROL}
    return [token for token in found if token.special or token.content not in texts]


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


def _spare_name(number: int) -> str:
    return f"<unused_row_{number}>"


def _characters(text: str) -> list[int]:
    """Returns the character index of each byte of a text, followed by the number of characters."""
    numbers = []
    for number, character in enumerate(text):
        numbers += [number] * len(character.encode("utf-8", "surrogateescape"))
    return [*numbers, len(text)]
