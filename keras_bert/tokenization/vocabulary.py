"""The vocabulary: one token per line; the line number is the id."""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Sequence

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import read_small_file
from keras_bert.tokenization.tokenizer import BERT_SPECIAL_TOKENS, TokenTable
from keras_bert.tokenization.tokenizer_files import check_count

VOCABULARY_FILE = "vocab.txt"
PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclasses.dataclass(frozen=True)
class Vocabulary(TokenTable):
    """The tokens of a WordPiece model, in the order of their ids.

    Args:
        tokens: strings; `##` marks a token that continues a word. They must include [PAD] [UNK] [CLS] [SEP] [MASK].

    Raises:
        InputError: a special token is missing, a token occurs twice, or the last one is empty. One empty token before
            the last is allowed: SciBERT's vocabularies have a blank line, which has an id but matches no text.

    Example:
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "quick", "##est"])
        >>> vocabulary.ids["##est"], vocabulary.tokens[5], vocabulary.mask_id
        (7, 'the', 4)

    Reference: google-research/bert `load_vocab`.
    """

    tokens: tuple[str, ...]
    special_tokens = BERT_SPECIAL_TOKENS

    def __init__(self, tokens: Sequence[str]):
        object.__setattr__(self, "tokens", tuple(map(_without_white_space, tokens)))
        _check_tokens(self.tokens, "The vocabulary")

    @classmethod
    def from_file(cls, path: str | os.PathLike) -> "Vocabulary":
        """Reads a `vocab.txt`.

        White space around a token is removed, as in Google's code. A token of white space only (the Chinese vocabulary
        has U+2028) is kept.

        Raises:
            InputError: the file is missing, empty, binary or not UTF-8; has CRLF line ends, two blank lines or a blank
                last line; lacks a special token or has a token twice.
        """
        path = os.fspath(path)
        lines = _read_lines(path)
        _check_tokens(list(map(_without_white_space, lines)), path)
        return cls(lines)

    def save(self, path: str | os.PathLike) -> None:
        """Writes a `vocab.txt` that `from_file` and Google's code read."""
        with atomic_file(path) as file:
            file.write(self._text())

    @functools.cached_property
    def ids(self) -> dict[str, int]:
        """Token -> id."""
        return {token: number for number, token in enumerate(self.tokens)}

    @functools.cached_property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of the file that `save` writes. Equal vocabularies have equal hashes."""
        return hashlib.sha256(self._text()).hexdigest()

    def begins_with(self, sha256: str) -> bool:
        """Returns whether `sha256` is the hash of this vocabulary, or of a version of it without its last tokens."""
        return sha256 == self.sha256 or sha256 in self._sha256_of_beginnings

    @functools.cached_property
    def _sha256_of_beginnings(self) -> frozenset[str]:
        digest, found = hashlib.sha256(), set()
        for token in self.tokens:
            digest.update(f"{token}\n".encode())
            found.add(digest.hexdigest())
        return frozenset(found)

    def text_ids(self) -> list[int]:
        """Returns the ids of all tokens except those in brackets.

        The tokenizer splits at brackets, so no text yields a bracketed token.
        """
        return [
            number
            for number, token in enumerate(self.tokens)
            if len(token) <= 2 or (token[0] + token[-1]) not in ("[]", "<>")
        ]

    def continues_word(self, token: str) -> bool:
        """Returns whether `token` begins with ##."""
        return token.startswith("##")

    def __repr__(self) -> str:
        return f"Vocabulary({len(self.tokens)} tokens, sha256 {self.sha256[:12]})"

    def _text(self) -> bytes:
        return "".join(f"{token}\n" for token in self.tokens).encode()


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


def _check_tokens(tokens: Sequence[str], name: str) -> None:
    first_lines: dict[str, int] = {}
    for number, token in enumerate(tokens, start=1):
        if "\n" in token:
            raise InputError(f"{name}: the token {token!r} contains a line end, so it cannot be a line of a file.")
        if not token and number == len(tokens):
            raise InputError(f"{name}: line {number} is blank. Every line must have one token: remove it.")
        if token in first_lines and not token:
            raise InputError(
                f"{name}: lines {first_lines[token]} and {number} are blank. At most one line may be blank, as in "
                "SciBERT's vocabularies, where it is a token that matches no text. Remove the others."
            )
        if token in first_lines:
            raise InputError(
                f"{name}: the token {token!r} occurs twice, in lines {first_lines[token]} and {number}. "
                "Every token needs one id: remove one of them."
            )
        first_lines[token] = number
    missing = [token for token in SPECIAL_TOKENS if token not in first_lines]
    if missing:
        raise InputError(
            f"{name}: {' '.join(missing)} missing. A BERT vocabulary must have the tokens {' '.join(SPECIAL_TOKENS)}, "
            "one per line."
        )
