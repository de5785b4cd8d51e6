"""The interfaces of all tokenizers: the token table, the tokenizer in Python, and the tokenizer in the graph.

A model has a `tokenizer`, and its tokens are `model.vocabulary`: for WordPiece a `Vocabulary`, for the other kinds the
tokenizer itself. All are a `TokenTable`.
"""

import abc
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.tokenization.added_tokens import AddedToken, AddedTokenCutter

# The most tokens of a vocabulary, or merges: XLM-V has 902,000 tokens, Gemma 515,000 merges.
MOST_TOKENS = 1 << 20


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """The names of the special tokens of a vocabulary, by role, and how rows use them.

    BERT's first token of a row is [CLS], RoBERTa's is <s>. So code uses `vocabulary.cls_id`, never the name.

    Attributes:
        num_between: the number of `sep` tokens between the two texts of a pair.
        mask_takes_space: whether ASCII white space before a mask in a text belongs to the mask.
        second_segment: the segment of the second text of a pair and of what follows it: 1, or 0 if only `sep` tokens
            divide the texts. Rows for a RoBERTa have 1, which models of one segment ignore.
        longer_keeps_more: which text of a pair keeps one token more if both are cut and the room is odd: the longer
            one, or of equal ones the second, as in Hugging Face's library; or always the first, as in Google's code.
            It does not count in comparisons: the vocabulary is the same.
    """

    cls: str
    sep: str
    pad: str
    unk: str
    mask: str
    num_between: int = 1
    mask_takes_space: bool = False
    second_segment: int = 1
    longer_keeps_more: bool = dataclasses.field(default=False, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of the roles above."""
        return self.cls, self.sep, self.pad, self.unk, self.mask

    def as_added_token(self, name: str) -> AddedToken:
        """Returns the token of this name, which structures texts, as the files of Hugging Face have it."""
        takes_space = self.mask_takes_space and name == self.mask
        return AddedToken(name, lstrip=takes_space, normalized=False, special=True)

    def separators(self, num_texts: int) -> tuple[int, ...]:
        """Returns the number of `sep` tokens after each text of a row.

        >>> BERT_SPECIAL_TOKENS.separators(1), ROBERTA_SPECIAL_TOKENS.separators(2)
        ((1,), (2, 1))
        """
        return (*[self.num_between] * (num_texts - 1), 1)

    def num_special(self, num_texts: int) -> int:
        """Returns the number of special tokens in a row of one or more texts."""
        return 1 + sum(self.separators(num_texts))

    def check_pairs(self) -> None:
        """Raises `InputError` if nothing divides the two texts of a pair."""
        if self.num_between < 1:
            raise InputError(
                "The tokenizer puts no separator between two texts, so the model cannot take pairs of texts. Give "
                "single texts, or use a tokenizer whose rows are [CLS] a [SEP] b [SEP]."
            )


BERT_SPECIAL_TOKENS = SpecialTokens(cls="[CLS]", sep="[SEP]", pad="[PAD]", unk="[UNK]", mask="[MASK]")
ROBERTA_SPECIAL_TOKENS = SpecialTokens(
    cls="<s>", sep="</s>", pad="<pad>", unk="<unk>", mask="<mask>", num_between=2, mask_takes_space=True
)
XLM_ROBERTA_SPECIAL_TOKENS = dataclasses.replace(ROBERTA_SPECIAL_TOKENS, second_segment=0)
MPNET_SPECIAL_TOKENS = dataclasses.replace(XLM_ROBERTA_SPECIAL_TOKENS, unk="[UNK]")
GEMMA_SPECIAL_TOKENS = SpecialTokens(cls="<bos>", sep="<eos>", pad="<pad>", unk="<unk>", mask="<mask>")
MODERN_BERT_SPECIAL_TOKENS = dataclasses.replace(BERT_SPECIAL_TOKENS, mask_takes_space=True)


class TokenTable:
    """Tokens with their ids and roles, for rows, masks and checkpoints.

    Attributes:
        tokens: every token, in the order of the ids.
        ids: token -> id.
        special_tokens: `SpecialTokens`, all of which are in `tokens`.
        keeps_spaces: whether tokens contain the white space of a text, so that `decode` restores it.
        added_tokens: the tokens that are found in a text as a whole.
        do_lower_case: whether texts are lower-cased; None for tokens without a tokenizer.
    """

    tokens: Sequence[str]
    ids: Mapping[str, int]
    special_tokens: SpecialTokens
    added_tokens: Sequence[AddedToken] = ()
    keeps_spaces = False
    do_lower_case: bool | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def vocabulary(self) -> "TokenTable":
        """The tokens: a `Vocabulary` for WordPiece, else the table itself."""
        return self

    @property
    def cls_id(self) -> int:
        return self.ids[self.special_tokens.cls]

    @property
    def sep_id(self) -> int:
        return self.ids[self.special_tokens.sep]

    @property
    def pad_id(self) -> int:
        return self.ids[self.special_tokens.pad]

    @property
    def unk_id(self) -> int:
        return self.ids[self.special_tokens.unk]

    @property
    def mask_id(self) -> int:
        return self.ids[self.special_tokens.mask]

    @property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of the tokenizer's files. Equal vocabularies have equal hashes."""
        raise NotImplementedError

    def begins_with(self, sha256: str) -> bool:
        """Returns whether `sha256` is the hash of this vocabulary, or of a version of it without its last tokens."""
        return sha256 == self.sha256

    def of_size(self, size: int) -> "TokenTable":
        """Returns the vocabulary for a table of `size` rows: without blank lines at its end that have no row."""
        return self

    def with_spare_rows(self, size: int) -> "TokenTable":
        """Returns the vocabulary for a table of `size` rows. The tokens of its last rows are in no text."""
        raise NotImplementedError

    def with_special_tokens(self, special_tokens: SpecialTokens) -> "TokenTable":
        """Returns the vocabulary with another form of rows."""
        raise NotImplementedError

    def with_pair_rule(self, longer_keeps_more: bool) -> "TokenTable":
        """Returns the vocabulary with a rule for pairs that are cut, see `SpecialTokens`."""
        special = dataclasses.replace(self.special_tokens, longer_keeps_more=longer_keeps_more)
        is_same = self.special_tokens.longer_keeps_more == longer_keeps_more
        return self if is_same else self.with_special_tokens(special)

    def text_ids(self) -> list[int]:
        """Returns the ids of the tokens that text can contain: all but [PAD], [CLS], [unused12] and the like."""
        raise NotImplementedError

    def continues_word(self, token: str) -> bool:
        """Returns whether `token` continues the word of the preceding token, such as ##ing."""
        raise NotImplementedError


class Tokenizer(TokenTable, abc.ABC):
    """Text <-> ids, in Python. `graph()` returns the same tokenizer for the TensorFlow graph.

    Special tokens with a role, such as [CLS], are ordinary text in every text, so a text cannot forge the structure of
    a row. Added tokens are found before a text is split into words; a subclass tokenizes plain text, which has none.
    """

    _cutter: AddedTokenCutter | None = None  # of a tokenizer with added tokens
    do_lower_case = False

    def encode(self, text: str | bytes) -> list[int]:
        """Returns the ids of the tokens of `text`, without special tokens around them."""
        return self._ids_of_parts(text, self._plain_ids)

    def encode_word(self, word: str | bytes) -> list[int]:
        """Returns the ids of the tokens of a word as inside a text."""
        return self._ids_of_parts(word, self._plain_ids_of_word)

    def tokenize_with_offsets(self, text: str | bytes) -> tuple[list[int], list[int], list[int]]:
        """Returns ids, starts and ends of equal length: token i came from `text[starts[i]:ends[i]]`.

        Offsets count characters of the `str`, or of the decoded text if bytes are given.
        """
        if self._cutter is None:
            return self._plain_ids_with_offsets(text)
        spans: list[tuple[int, int, int]] = []
        for part in self._cutter.parts(self._as_str(text)):
            if part.number is not None:
                spans.append((part.number, *part.visible))
            else:
                plain = zip(*self._plain_ids_with_offsets(part.text), strict=True)
                spans += [(number, *part.source(start, end)) for number, start, end in plain]
        ids, starts, ends = ([span[place] for span in spans] for place in range(3))
        return ids, starts, ends

    def _ids_of_parts(self, text: str | bytes, encode: Callable[[str | bytes], list[int]]) -> list[int]:
        if self._cutter is None:
            return encode(text)
        ids: list[int] = []
        for part in self._cutter.parts(self._as_str(text), with_sources=False):
            ids += encode(part.text) if part.number is None else [part.number]
        return ids

    @abc.abstractmethod
    def _as_str(self, text: str | bytes) -> str:
        """Returns a text as the characters that offsets count."""

    @abc.abstractmethod
    def _plain_ids(self, text: str | bytes) -> list[int]:
        """As `encode`, for plain text."""

    def _plain_ids_of_word(self, word: str | bytes) -> list[int]:
        """As `encode_word`, for plain text."""
        return self._plain_ids(word)

    @abc.abstractmethod
    def _plain_ids_with_offsets(self, text: str | bytes) -> tuple[list[int], list[int], list[int]]:
        """As `tokenize_with_offsets`, for plain text."""

    @abc.abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of `ids`, special tokens included."""

    @abc.abstractmethod
    def graph(self, core_operations: bool = False) -> Any:
        """Returns the `GraphForm` of this tokenizer. It returns the same ids as `encode`.

        Args:
            core_operations: whether it must use core TensorFlow operations only, and nothing of tensorflow-text.

        Raises:
            InputError: there is no form by core operations.
        """

    @abc.abstractmethod
    def save(self, folder: str | os.PathLike) -> None:
        """Writes the files of the tokenizer into an existing folder."""

    def tokenize(self, text: str | bytes) -> list[str]:
        """Returns the tokens of `text`."""
        return [self.tokens[number] for number in self.encode(text)]


class GraphForm(abc.ABC):
    """Text -> ids inside the graph: eagerly, in tf.data, in tf.function and in a SavedModel.

    Implementations are `tf.Module`s with operations that stock TensorFlow Serving includes. They tokenize plain text,
    which has no added tokens.
    """

    _added: Any = None  # the `GraphAddedTokens` of a tokenizer with added tokens

    def tokenize(self, texts: Any) -> Any:
        """Returns the ids of each text, ragged int32 `(texts, None)`, without special tokens around them.

        Args:
            texts: UTF-8 strings of shape `(texts,)`. A single string counts as a list of one.

        Raises:
            InputError: a text is not a valid Unicode string.
        """
        return self._with_added(texts, lambda texts: (self._plain_ids(texts),))[0]

    def tokenize_with_offsets(self, texts: Any) -> Any:
        """Returns ids, starts and ends, ragged int32 `(texts, None)`: token i came from bytes `starts[i]:ends[i]`."""
        return self._with_added(texts, self._plain_ids_with_offsets)

    def tokenize_words(self, words: Any) -> Any:
        """Returns the ids of words as inside a text: strings `(words,)` -> ragged int32 `(words, None)`."""
        return self._with_added(words, lambda words: (self._plain_ids_of_words(words),))[0]

    def _with_added(self, texts: Any, tokenize: Callable) -> Any:
        return self._added(texts, tokenize) if self._added else tokenize(texts)

    @abc.abstractmethod
    def _plain_ids(self, texts: Any) -> Any:
        """As `tokenize`, for plain text."""

    @abc.abstractmethod
    def _plain_ids_with_offsets(self, texts: Any) -> Any:
        """As `tokenize_with_offsets`, for plain text."""

    def _plain_ids_of_words(self, words: Any) -> Any:
        """As `tokenize_words`, for plain text."""
        return self._plain_ids(words)


def text_bytes(text: str | bytes) -> bytes:
    """Returns a text in UTF-8. Surrogates must be those that stand for invalid bytes.

    Raises:
        InputError: it is of another type, or has other surrogates.
    """
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


def check_unicode(tokens: Sequence[str], name: str) -> None:
    """Raises `InputError` if a token of the vocabulary called `name` has half of a surrogate pair.

    JSON can hold it, but no text and no other file.
    """
    try:
        "".join(tokens).encode("utf-8")
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        wrong = next(number for number, token in enumerate(tokens) if half in token)
        raise InputError(
            f"{name}: the token {wrong}, {tokens[wrong]!r}, has half of a surrogate pair, so no text can have it. "
            "Remove or replace it."
        ) from None


def check_special_tokens(special_tokens: SpecialTokens, ids: Mapping[str, int], name: str) -> None:
    """Raises `InputError` if the vocabulary called `name` lacks a special token."""
    missing = [token for token in special_tokens.names if token not in ids]
    if missing:
        raise InputError(
            f"{name}: {' '.join(missing)} missing. The vocabulary must have the special tokens "
            f"{' '.join(special_tokens.names)}. Name those of this vocabulary with "
            "SpecialTokens(...), or use the vocabulary that the model was trained with."
        )


def check_count(count: int, what: str, where: str, most: int = MOST_TOKENS) -> None:
    """Raises `InputError` if the file `where` has more than `most` of `what`, such as "tokens"."""
    if count > most:
        raise InputError(f"{where} has {count:,} {what}. At most {most:,} are supported. Give the right file.")
