"""The interfaces of all tokenizers: the token table, the tokenizer in Python, and the tokenizer in the graph.

A model stores its tokens as `model.vocabulary`. For WordPiece this is a `Vocabulary`, for the other kinds the tokenizer
itself. Both are a `TokenTable`.
"""

import abc
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert.program.errors import InputError


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """The names of the special tokens of a vocabulary, by role, and how rows use them.

    BERT's first token of a row is [CLS], RoBERTa's is <s>. So code uses `vocabulary.cls_id`, never the name.

    Attributes:
        num_between: the number of `sep` tokens between the two texts of a pair.
        mask_takes_space: whether ASCII white space before a mask in a text belongs to the mask.
    """

    cls: str
    sep: str
    pad: str
    unk: str
    mask: str
    num_between: int = 1
    mask_takes_space: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of the roles above."""
        return self.cls, self.sep, self.pad, self.unk, self.mask

    def separators(self, num_texts: int) -> tuple[int, ...]:
        """Returns the number of `sep` tokens after each text of a row.

        >>> BERT_SPECIAL_TOKENS.separators(1), ROBERTA_SPECIAL_TOKENS.separators(2)
        ((1,), (2, 1))
        """
        return (*[self.num_between] * (num_texts - 1), 1)

    def num_special(self, num_texts: int) -> int:
        """Returns the number of special tokens in a row of one or more texts."""
        return 1 + sum(self.separators(num_texts))


BERT_SPECIAL_TOKENS = SpecialTokens(cls="[CLS]", sep="[SEP]", pad="[PAD]", unk="[UNK]", mask="[MASK]")
ROBERTA_SPECIAL_TOKENS = SpecialTokens(
    cls="<s>", sep="</s>", pad="<pad>", unk="<unk>", mask="<mask>", num_between=2, mask_takes_space=True
)
MODERN_BERT_SPECIAL_TOKENS = dataclasses.replace(BERT_SPECIAL_TOKENS, mask_takes_space=True)


class TokenTable:
    """Tokens with their ids and roles, for rows, masks and checkpoints.

    Attributes:
        tokens: every token, in the order of the ids.
        ids: token -> id.
        special_tokens: `SpecialTokens`, all of which are in `tokens`.
        keeps_spaces: whether tokens contain the white space of a text, so that `decode` restores it.
    """

    tokens: Sequence[str]
    ids: Mapping[str, int]
    special_tokens: SpecialTokens
    keeps_spaces = False

    def __len__(self) -> int:
        return len(self.tokens)

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

    def text_ids(self) -> list[int]:
        """Returns the ids of the tokens that text can contain: all but [PAD], [CLS], [unused12] and the like."""
        raise NotImplementedError

    def continues_word(self, token: str) -> bool:
        """Returns whether `token` continues the word of the preceding token, such as ##ing."""
        raise NotImplementedError


class Tokenizer(TokenTable, abc.ABC):
    """Text <-> ids, in Python. `graph()` returns the same tokenizer for the TensorFlow graph.

    Special tokens in a text are ordinary text in every tokenizer, so a text cannot forge the structure of a row.
    """

    @property
    def vocabulary(self) -> TokenTable:
        """The tokens of the tokenizer, in the form that models store."""
        return self

    @abc.abstractmethod
    def encode(self, text: str | bytes) -> list[int]:
        """Returns the ids of the tokens of `text`, without special tokens around them."""

    def encode_word(self, word: str | bytes) -> list[int]:
        """Returns the ids of the tokens of a word as inside a text."""
        return self.encode(word)

    @abc.abstractmethod
    def tokenize_with_offsets(self, text: str | bytes) -> tuple[list[int], list[int], list[int]]:
        """Returns ids, starts and ends of equal length: token i came from `text[starts[i]:ends[i]]`."""

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

    Implementations are `tf.Module`s with operations that stock TensorFlow Serving includes.
    """

    @abc.abstractmethod
    def tokenize(self, texts: Any) -> Any:
        """Strings `(texts,)` -> ragged int32 ids `(texts, None)`."""

    @abc.abstractmethod
    def tokenize_with_offsets(self, texts: Any) -> Any:
        """Strings `(texts,)` -> ids, starts and ends, ragged int32 `(texts, None)`; offsets are in bytes."""

    def tokenize_words(self, words: Any) -> Any:
        """Strings `(words,)` -> ids of the words as inside a text, ragged int32 `(words, None)`."""
        return self.tokenize(words)


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
