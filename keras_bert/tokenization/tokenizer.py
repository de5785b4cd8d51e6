"""The interface that every kind of tokenizer has, in Python and in the graph."""

import abc
import dataclasses
from collections.abc import Mapping, Sequence

from keras_bert.program.errors import InputError


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """The names of the special tokens of a vocabulary, by role.

    BERT calls the token that begins a row [CLS], RoBERTa <s>. Code asks for `tokenizer.cls_id`, never for a name.
    """

    cls: str
    sep: str
    pad: str
    unk: str
    mask: str


BERT_SPECIAL_TOKENS = SpecialTokens(cls="[CLS]", sep="[SEP]", pad="[PAD]", unk="[UNK]", mask="[MASK]")
ROBERTA_SPECIAL_TOKENS = SpecialTokens(cls="<s>", sep="</s>", pad="<pad>", unk="<unk>", mask="<mask>")


class Tokenizer(abc.ABC):
    """Text <-> ids, in Python. `graph()` gives the same tokenizer as a part of a TensorFlow graph.

    Special tokens in a text are ordinary text, in every kind: a text cannot forge the borders of a row.

    Attributes:
        tokens: every token, in the order of the ids.
        ids: token -> id.
        special_tokens: `SpecialTokens`, each of which is among `tokens`.
    """

    tokens: Sequence[str]
    ids: Mapping[str, int]
    special_tokens: SpecialTokens

    @abc.abstractmethod
    def encode(self, text: str | bytes) -> list[int]:
        """Returns the ids of the tokens of `text`, without special tokens around them."""

    @abc.abstractmethod
    def tokenize_with_offsets(self, text: str | bytes) -> tuple[list[int], list[int], list[int]]:
        """Returns ids, starts and ends of equal length: token i came from the characters `text[starts[i]:ends[i]]`."""

    @abc.abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids, special tokens included."""

    @abc.abstractmethod
    def graph(self):
        """Returns the `GraphForm` of this tokenizer. Its ids are equal to those of `encode`."""

    @abc.abstractmethod
    def save(self, folder) -> None:
        """Writes the files of the tokenizer into an existing folder."""

    def tokenize(self, text: str | bytes) -> list[str]:
        """Returns the tokens of `text`."""
        return [self.tokens[number] for number in self.encode(text)]

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


def check_special_tokens(special_tokens: SpecialTokens, ids: Mapping[str, int], name: str) -> None:
    """Raises `InputError` if the vocabulary called `name` lacks a special token."""
    missing = [token for token in dataclasses.astuple(special_tokens) if token not in ids]
    if missing:
        raise InputError(
            f"{name}: {' '.join(missing)} missing. The vocabulary must have the special tokens "
            f"{' '.join(dataclasses.astuple(special_tokens))}. Name those of this vocabulary with "
            "SpecialTokens(...), or use the vocabulary that the model was trained with."
        )
