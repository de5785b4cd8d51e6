"""The interfaces that every kind of tokenizer has: its tokens, the tokenizer in Python, and the one in the graph.

A model keeps the tokens that its ids stand for as `model.vocabulary`: a `Vocabulary` of WordPiece, or the tokenizer
itself of the other kinds, which need no more. Both are a `TokenTable`.
"""

import abc
import dataclasses
from collections.abc import Mapping, Sequence

from keras_bert.program.errors import InputError


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """The names of the special tokens of a vocabulary, by role, and how rows use them.

    BERT calls the token that begins a row [CLS], RoBERTa <s>. Code asks for `vocabulary.cls_id`, never for a name.

    Attributes:
        num_between: how many `sep` tokens stand between the two texts of a pair.
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
        """Returns the number of `sep` tokens behind each text of a row.

        >>> BERT_SPECIAL_TOKENS.separators(1), ROBERTA_SPECIAL_TOKENS.separators(2)
        ((1,), (2, 1))
        """
        return (*[self.num_between] * (num_texts - 1), 1)

    def num_special(self, num_texts: int) -> int:
        """Returns the number of special tokens in a row of one text or more."""
        return 1 + sum(self.separators(num_texts))


BERT_SPECIAL_TOKENS = SpecialTokens(cls="[CLS]", sep="[SEP]", pad="[PAD]", unk="[UNK]", mask="[MASK]")
ROBERTA_SPECIAL_TOKENS = SpecialTokens(
    cls="<s>", sep="</s>", pad="<pad>", unk="<unk>", mask="<mask>", num_between=2, mask_takes_space=True
)


class TokenTable:
    """Tokens with their ids and roles: what rows, masks and checkpoints need to know of a vocabulary.

    Attributes:
        tokens: every token, in the order of the ids.
        ids: token -> id.
        special_tokens: `SpecialTokens`, each of which is among `tokens`.
        keeps_spaces: whether tokens hold the white space of a text, so that `decode` gives it back.
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
        """Hexadecimal SHA-256 of the tokenizer's files: equal vocabularies have equal ones."""
        raise NotImplementedError

    def begins_with(self, sha256: str) -> bool:
        """Returns whether `sha256` is that of this vocabulary, or of this one before tokens were added to its end."""
        return sha256 == self.sha256

    def text_ids(self) -> list[int]:
        """Returns the ids of the tokens that text can contain: all but [PAD], [CLS], [unused12] and the like."""
        raise NotImplementedError

    def continues_word(self, token: str) -> bool:
        """Returns whether `token` continues the word of the token before it, such as ##ing."""
        raise NotImplementedError


class Tokenizer(TokenTable, abc.ABC):
    """Text <-> ids, in Python. `graph()` gives the same tokenizer as a part of a TensorFlow graph.

    Special tokens in a text are ordinary text, in every kind: a text cannot forge the borders of a row.
    """

    @property
    def vocabulary(self) -> TokenTable:
        """The tokens of the tokenizer, as a model keeps them."""
        return self

    @abc.abstractmethod
    def encode(self, text: str | bytes) -> list[int]:
        """Returns the ids of the tokens of `text`, without special tokens around them."""

    @abc.abstractmethod
    def tokenize_with_offsets(self, text: str | bytes) -> tuple[list[int], list[int], list[int]]:
        """Returns ids, starts and ends of equal length: token i came from the characters `text[starts[i]:ends[i]]`."""

    @abc.abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of `ids`, special tokens included."""

    @abc.abstractmethod
    def graph(self):
        """Returns the `GraphForm` of this tokenizer. Its ids are equal to those of `encode`."""

    @abc.abstractmethod
    def save(self, folder) -> None:
        """Writes the files of the tokenizer into an existing folder."""

    def tokenize(self, text: str | bytes) -> list[str]:
        """Returns the tokens of `text`."""
        return [self.tokens[number] for number in self.encode(text)]


class GraphForm(abc.ABC):
    """Text -> ids inside the graph: eagerly, in tf.data, in tf.function and in a SavedModel.

    Implementations are `tf.Module`s and use operations that a stock TensorFlow Serving links.
    """

    @abc.abstractmethod
    def tokenize(self, texts):
        """Strings `(texts,)` -> ragged int32 ids `(texts, None)`."""

    @abc.abstractmethod
    def tokenize_with_offsets(self, texts):
        """Strings `(texts,)` -> ids, starts and ends, ragged int32 `(texts, None)`; offsets are in bytes."""

    def tokenize_words(self, words):
        """Words of texts, strings `(words,)` -> their ids as inside of a text, ragged int32 `(words, None)`."""
        return self.tokenize(words)


def check_special_tokens(special_tokens: SpecialTokens, ids: Mapping[str, int], name: str) -> None:
    """Raises `InputError` if the vocabulary called `name` lacks a special token."""
    missing = [token for token in special_tokens.names if token not in ids]
    if missing:
        raise InputError(
            f"{name}: {' '.join(missing)} missing. The vocabulary must have the special tokens "
            f"{' '.join(special_tokens.names)}. Name those of this vocabulary with "
            "SpecialTokens(...), or use the vocabulary that the model was trained with."
        )
