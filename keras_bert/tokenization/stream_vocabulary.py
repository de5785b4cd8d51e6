"""`StreamVocabulary`: the words or the characters of running text, for language models."""

import collections
import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import Self

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import read_small_file
from keras_bert.program.json_files import member, read_json_object, strings
from keras_bert.tokenization.tokenizer import SpecialTokens, TokenTable, check_count, check_unicode
from keras_bert.tokenization.vocabulary import VOCABULARY_FILE

VOCABULARY_JSON = "stream_vocab.json"
WORDS, CHARACTERS = "words", "characters"
KINDS = (WORDS, CHARACTERS)
UNKNOWN, LINE_END = "<unk>", "<eos>"
_MOST_WORDS = 2_000_000


class StreamVocabulary(TokenTable):
    """Tokens of running text, the most frequent ones first, as the clusters of an adaptive softmax need it.

    Args:
        tokens: the tokens in the order of their ids. They include `<unk>`, and for words `<eos>`, which ends each line.
        kind: "words", what white space separates, or "characters", line ends included.

    Raises:
        InputError: the kind is unknown, a token is missing, is given twice or is not of this kind.

    Example:
        >>> vocabulary = StreamVocabulary(["<unk>", "a", "b"], "characters")
        >>> vocabulary.encode("abc"), vocabulary.decode([2, 1])
        ([1, 2, 0], 'ba')

    Reference: kimiyoung/transformer-xl `tf/vocabulary.py`.
    """

    keeps_spaces = True

    def __init__(self, tokens: Sequence[str], kind: str):
        self.tokens, self.kind = tuple(tokens), kind
        if kind not in KINDS:
            raise InputError(f"A vocabulary has one of the kinds {', '.join(KINDS)}. Received: {kind!r}")
        self.special_tokens = SpecialTokens(UNKNOWN, LINE_END if kind == WORDS else UNKNOWN, *[UNKNOWN] * 3)
        check_unicode(self.tokens, f"The vocabulary of {kind}")
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        missing = [token for token in sorted(set(self.special_tokens.names)) if token not in self.ids]
        if missing or len(self.ids) < len(self.tokens):
            wrong = f"lacks {' and '.join(missing)}" if missing else "has a token twice"
            raise InputError(f"The vocabulary of {kind} {wrong}. Make it again from the text.")
        if kind == CHARACTERS and any(len(token) != 1 for token in self.tokens if token != UNKNOWN):
            raise InputError("A vocabulary of characters must have one character in each token but <unk>.")

    @classmethod
    def of_lines(cls, lines: Iterable[str], kind: str, most_tokens: int = 0, least_count: int = 1) -> Self:
        """Returns the vocabulary of a text.

        Args:
            lines: the lines, with their ends.
            kind: "words" or "characters".
            most_tokens: the number of tokens to keep, the most frequent ones; 0: all.
            least_count: rarer tokens are left out.
        """
        counts: collections.Counter = collections.Counter()
        for line in lines:
            counts.update(_pieces(line, kind))
        counts.pop(UNKNOWN, None)
        kept = [token for token, count in counts.items() if count >= least_count]
        kept.sort(key=lambda token: (-counts[token], token))
        if most_tokens:
            kept = kept[: most_tokens - 1]
        needed = [token for token in ((LINE_END,) if kind == WORDS else ()) if token not in kept]
        return cls([UNKNOWN, *needed, *kept], kind)

    @classmethod
    def find(cls, folder: str | os.PathLike) -> Self | None:
        """Reads `stream_vocab.json`, or a `vocab.txt` with a word per line; None if there is neither."""
        file, words = (os.path.join(folder, name) for name in (VOCABULARY_JSON, VOCABULARY_FILE))
        if os.path.isfile(file):
            values = read_json_object(file)
            return cls(strings(values, "tokens", file) or [], member(values, "kind", str, file, ""))
        if os.path.isfile(words):
            text = read_small_file(words)
            check_count(text.count(b"\n"), "lines", words, _MOST_WORDS)
            # The official code's files may have a count after each word.
            found = [line.split(maxsplit=1) for line in text.decode("utf-8", "replace").split("\n")]
            return cls([line[0] for line in found if line], WORDS)
        return None

    def save(self, folder: str | os.PathLike) -> None:
        """Writes `stream_vocab.json` into an existing folder."""
        with atomic_file(os.path.join(folder, VOCABULARY_JSON)) as file:
            file.write(self._text())

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text. The end of each line is a token."""
        unknown = self.ids[UNKNOWN]
        lines = re.findall(r"[^\n]*\n|[^\n]+", text)
        return [self.ids.get(piece, unknown) for line in lines for piece in _pieces(line, self.kind)]

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids."""
        if self.kind == CHARACTERS:
            return "".join(self.tokens[number] for number in ids)
        return " ".join("\n" if self.tokens[number] == LINE_END else self.tokens[number] for number in ids)

    @functools.cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self._text()).hexdigest()

    def text_ids(self) -> list[int]:
        return [number for number, token in enumerate(self.tokens) if token != UNKNOWN]

    def continues_word(self, token: str) -> bool:
        return False

    def _text(self) -> bytes:
        return json.dumps({"kind": self.kind, "tokens": self.tokens}, ensure_ascii=False).encode("utf-8")


def _pieces(line: str, kind: str) -> list[str]:
    return list(line) if kind == CHARACTERS else [*line.split(), LINE_END]
