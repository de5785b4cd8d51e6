"""The vocabulary: one token per line; the line number is the id."""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Sequence
from typing import Any

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import read_small_file
from keras_bert.tokenization.added_tokens import AddedToken, check_added_tokens
from keras_bert.tokenization.tokenizer import BERT_SPECIAL_TOKENS, SpecialTokens, TokenTable, check_count, check_unicode
from keras_bert.tokenization.unicode_table import MAX_CHARACTERS_PER_WORD

VOCABULARY_FILE = "vocab.txt"
PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclasses.dataclass(frozen=True)
class Vocabulary(TokenTable):
    """The tokens of a WordPiece model, in the order of their ids, and how texts become words.

    Args:
        tokens: strings; `##` marks a token that continues a word. They must include the special tokens. A
            token may occur twice: the last one counts, as in Google's and Hugging Face's code. An empty token has an
            id, but matches no text.
        strip_accents: whether accents are removed; None to remove them if texts are lower-cased.
        tokenize_chinese_chars: whether every CJK ideograph is a word.
        added_tokens: tokens that are found in a text as a whole, before it is split into words.
        special_tokens: `SpecialTokens`: [PAD] [UNK] [CLS] [SEP] [MASK], unless a model has others.
        max_characters_per_word: a word with more characters becomes one [UNK].

    Raises:
        InputError: a special token is missing, a token has a line end, or an added token is not possible.

    Example:
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "quick", "##est"])
        >>> vocabulary.ids["##est"], vocabulary.tokens[5], vocabulary.mask_id
        (7, 'the', 4)

    Reference: google-research/bert `load_vocab`; transformers `BertTokenizer` for the settings.
    """

    tokens: Sequence[str]
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True
    added_tokens: Sequence[AddedToken] = ()
    special_tokens: SpecialTokens = BERT_SPECIAL_TOKENS
    max_characters_per_word: int = MAX_CHARACTERS_PER_WORD

    def __post_init__(self):
        object.__setattr__(self, "tokens", tuple(map(_without_white_space, self.tokens)))
        object.__setattr__(self, "added_tokens", tuple(self.added_tokens))
        _check_tokens(self.tokens, "The vocabulary", self.special_tokens)
        check_added_tokens(self.added_tokens, self.ids, self.special_tokens.names)

    @classmethod
    def from_file(cls, path: str | os.PathLike, special_tokens: SpecialTokens = BERT_SPECIAL_TOKENS) -> "Vocabulary":
        """Reads a `vocab.txt` with these special tokens.

        White space around a token is removed, as in Google's code. A token of white space only (the Chinese vocabulary
        has U+2028) is kept.

        Raises:
            InputError: the file is missing, empty, binary or not UTF-8; has CRLF line ends; or lacks a special token.
        """
        path = os.fspath(path)
        lines = _read_lines(path)
        _check_tokens(list(map(_without_white_space, lines)), path, special_tokens)
        return cls(lines, special_tokens=special_tokens)

    def save(self, path: str | os.PathLike) -> None:
        """Writes a `vocab.txt` that `from_file` and Google's code read. It has the tokens without the settings."""
        with atomic_file(path) as file:
            file.write("".join(f"{token}\n" for token in self.tokens).encode())

    def replace(self, **changes: Any) -> "Vocabulary":
        """Returns a copy with other tokens or settings."""
        return dataclasses.replace(self, **changes)

    def of_size(self, size: int) -> "Vocabulary":
        tokens = self.tokens
        while len(tokens) > size and not tokens[-1]:
            tokens = tokens[:-1]
        return self.replace(tokens=tokens) if len(tokens) == size < len(self.tokens) else self

    def with_spare_rows(self, size: int) -> "Vocabulary":
        return self.replace(tokens=(*self.tokens, *unused_rows(len(self), size)))

    def with_special_tokens(self, special_tokens: SpecialTokens) -> "Vocabulary":
        return self.replace(special_tokens=special_tokens)

    @property
    def has_settings(self) -> bool:
        """Whether there are settings or added tokens, which a `vocab.txt` cannot hold."""
        return bool(self.added_tokens or self._settings != (None, True))

    @functools.cached_property
    def ids(self) -> dict[str, int]:
        """Token -> id."""
        return {token: number for number, token in enumerate(self.tokens)}

    @functools.cached_property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of the file that `save` writes and of the settings that differ from the default.

        Equal vocabularies have equal hashes. Blank lines at the end do not count, because some tables have no row for
        them.
        """
        digest = self._sha256_of_settings()
        last = next(number for number in range(len(self.tokens), 0, -1) if self.tokens[number - 1])
        digest.update("".join(self._lines()[:last]).encode())
        return digest.hexdigest()

    def begins_with(self, sha256: str) -> bool:
        return sha256 == self.sha256 or sha256 in self._sha256_of_beginnings

    @functools.cached_property
    def _sha256_of_beginnings(self) -> frozenset[str]:
        digest, found = self._sha256_of_settings(), set()
        for line in self._lines():
            digest.update(line.encode())
            found.add(digest.hexdigest())
        return frozenset(found)

    def _sha256_of_settings(self):
        return hashlib.sha256(b"" if self._settings == (None, True) else f"{self._settings}\n\n".encode())

    @property
    def _settings(self) -> tuple:
        """The settings; those that BERT does not have are left out if they have BERT's values."""
        settings = (self.strip_accents, self.tokenize_chinese_chars)
        if (self.special_tokens, self.max_characters_per_word) == (BERT_SPECIAL_TOKENS, MAX_CHARACTERS_PER_WORD):
            return settings
        special = self.special_tokens
        form = (special.num_between, special.mask_takes_space, special.second_segment)
        return (*settings, *special.names, *form, self.max_characters_per_word)

    def _lines(self) -> list[str]:
        """Returns the lines of `vocab.txt`. Those of added tokens say how they are found."""
        added = {token.content: f"{token}" for token in self.added_tokens}
        return [f"{token}{added.get(token, '')}\n" for token in self.tokens]

    def text_ids(self) -> list[int]:
        """Returns the ids of all tokens except special ones and those in brackets.

        The tokenizer splits at brackets, so a text yields a bracketed token only if it is an added one.
        """
        special = {token.content: token.special for token in self.added_tokens}
        return [
            number
            for number, token in enumerate(self.tokens)
            if not special.get(token, len(token) > 2 and (token[0] + token[-1]) in ("[]", "<>"))
        ]

    def continues_word(self, token: str) -> bool:
        """Returns whether `token` begins with ##."""
        return token.startswith("##")

    def __repr__(self) -> str:
        return f"Vocabulary({len(self.tokens)} tokens, sha256 {self.sha256[:12]})"


def unused_rows(first: int, end: int) -> list[str]:
    """Returns names for the rows of a token table that have no token."""
    return [f"[unused_row_{number}]" for number in range(first, end)]


def _read_lines(path: str) -> list[str]:
    data = read_small_file(path)
    check_count(data.count(b"\n"), "lines", path)
    if not data.strip():
        raise InputError(f"The vocabulary {path} is empty. It must have one token per line.")
    if b"\0" in data:
        raise InputError(f"The vocabulary {path} is a binary file. It must be UTF-8 text with one token per line.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"The vocabulary {path} is not UTF-8 (line {line}). Save it as UTF-8 text.") from error
    if "\r\n" in text:
        line = text.count("\n", 0, text.index("\r\n")) + 1
        raise InputError(
            f"The vocabulary {path} has Windows line ends (CRLF, line {line}). "
            f"Convert it: tr -d '\\r' < {path} > converted-vocab.txt"
        )
    # A byte order mark would hide the first token. Only "\n" ends a line: U+2028 is a token of the Chinese vocabulary.
    return text.removeprefix("\ufeff").removesuffix("\n").split("\n")


def _without_white_space(line: str) -> str:
    token = line.strip()
    return line if token in ("", "##") else token


def _check_tokens(tokens: Sequence[str], name: str, special_tokens: SpecialTokens) -> None:
    check_unicode(tokens, name)
    for token in tokens:
        if "\n" in token:
            raise InputError(f"{name}: the token {token!r} contains a line end, so it cannot be a line of a file.")
    expected = SPECIAL_TOKENS if special_tokens == BERT_SPECIAL_TOKENS else special_tokens.names
    missing = sorted(set(expected).difference(tokens), key=expected.index)
    if missing:
        raise InputError(
            f"{name}: {' '.join(missing)} missing. A BERT vocabulary must have the tokens {' '.join(expected)}, "
            "one per line."
        )
