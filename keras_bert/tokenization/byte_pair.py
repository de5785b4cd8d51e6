"""Byte-level BPE of GPT-2 and RoBERTa in Python, with character offsets: the reference that the graph must equal.

What it does, in order (openai/gpt-2 `encoder.py`, on the frozen Unicode table):

1. Split the text into words: a contraction ('s 't 're 've 'm 'll 'd), or a run of letters, of numbers or of other
   characters, each with one preceding space if there is one; or a run of white space. In a run of white space before
      a word, the last character is not part of the run.
2. Write each word in UTF-8. Every byte is a token.
3. Find the pair of neighbouring tokens that comes first in the merges, and join it everywhere in the word from left
   until no pair is in the merges.

Every text can be encoded, so there is no unknown token. In `vocab.json` a byte is written as a printable character; a
space is Ġ.

Offsets: a token extends from the start of the character of its first byte to the end of the character of its last
byte, without the spaces (U+0020) at its ends. A token of spaces only has an empty span at its end.
"""

import functools
import hashlib
import heapq
import itertools
import json
import os
import re
from collections.abc import Mapping, Sequence

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import member
from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.tokenizer import (
    ROBERTA_SPECIAL_TOKENS,
    SpecialTokens,
    Tokenizer,
    check_special_tokens,
)
from keras_bert.tokenization.tokenizer_files import (
    SETTINGS_FILE,
    read_settings,
    read_tokenizer_file,
    settings_text,
    special_tokens_of,
)

VOCABULARY_FILE = "vocab.json"
MERGES_FILE = "merges.txt"

# White_Space of Unicode 14.0: `\s` in the pattern of GPT-2. Python's `\s` would add U+001C to U+001F.
WHITE_SPACE = frozenset(
    [*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
)

_CACHE_SIZE = 1 << 16
_LONGEST_CACHED = 40


class BytePairTokenizer(Tokenizer):
    """Text -> ids by byte-level BPE.

    A str may contain surrogates only as `bytes.decode("utf-8", "surrogateescape")` writes them for invalid bytes. Input
    of type bytes is decoded in this way: invalid UTF-8 is kept, and each invalid byte counts as one character in
    offsets.

    Args:
        ids: token -> id, for all ids from 0 on. The tokens must include all 256 bytes.
        merges: pairs of tokens, in the order in which they are joined.
        special_tokens: names of the special tokens, by role.
        add_prefix_space: whether to put a space before a text that does not begin with one, so that its first word gets
            the same ids as inside a text.

    Raises:
        InputError: the ids have gaps, a byte or a special token is missing, or a merge contains an unknown token.

    Example:
        >>> tokens = [*byte_alphabet(), "th", "the", "Ġthe", "<s>", "</s>", "<pad>", "<unk>", "<mask>"]
        >>> ids = {token: number for number, token in enumerate(tokens)}
        >>> tokenizer = BytePairTokenizer(ids, [("t", "h"), ("th", "e"), ("Ġ", "the")])
        >>> tokenizer.tokenize("the then")
        ['the', 'Ġthe', 'n']
        >>> tokenizer.tokenize_with_offsets("the then")[1:]
        ([0, 4, 7], [3, 7, 8])

    Reference: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2.
    """

    keeps_spaces = True

    def __init__(
        self,
        ids: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        special_tokens: SpecialTokens = ROBERTA_SPECIAL_TOKENS,
        add_prefix_space: bool = False,
    ):
        self.ids = dict(ids)
        self.merges = tuple(map(tuple, merges))
        self.special_tokens = special_tokens
        self.add_prefix_space = add_prefix_space
        self.tokens = _tokens_in_order(self.ids)
        check_special_tokens(special_tokens, self.ids, "The vocabulary")
        missing = [character for character in byte_alphabet() if character not in self.ids]
        if missing:
            raise InputError(
                f"The vocabulary has no token for {len(missing)} of the 256 bytes, such as {missing[0]!r}. Byte-level "
                "BPE needs them all. Is this the vocab.json of another kind of tokenizer?"
            )
        self.byte_ids = tuple(self.ids[character] for character in byte_alphabet())
        # Pair of ids -> its rank in the merges and the id of the joined token.
        self.pairs = _numbered_pairs(self.merges, self.ids)
        self._cached_join = functools.lru_cache(maxsize=_CACHE_SIZE)(self._join)

    def __reduce__(self):
        # Process pools send tokenizers by pickle; the cache is left out.
        return BytePairTokenizer, (self.ids, self.merges, self.special_tokens, self.add_prefix_space)

    @classmethod
    def from_files(
        cls,
        vocabulary_path: str | os.PathLike,
        merges_path: str | os.PathLike,
        special_tokens: SpecialTokens = ROBERTA_SPECIAL_TOKENS,
        add_prefix_space: bool = False,
    ) -> "BytePairTokenizer":
        """Reads a `vocab.json` and a `merges.txt`.

        Raises:
            InputError: a file is missing or invalid, or for the reasons given in the class.
        """
        ids, merges = _read_vocabulary(vocabulary_path), _read_merges(merges_path)
        try:
            return cls(ids, merges, special_tokens, add_prefix_space)
        except InputError as error:
            raise InputError(f"{os.fspath(vocabulary_path)}, {os.fspath(merges_path)}: {error}") from None

    @classmethod
    def from_folder(cls, folder: str | os.PathLike) -> "BytePairTokenizer":
        """Reads `vocab.json` and `merges.txt`, and the settings in `tokenizer_config.json` if it exists.

        The settings used are `add_prefix_space` and the names of the special tokens.

        Raises:
            InputError: as `from_files`, or the settings are damaged.
        """
        files = (os.path.join(folder, name) for name in (VOCABULARY_FILE, MERGES_FILE))
        prefix = member(read_settings(folder), "add_prefix_space", bool, os.path.join(folder, SETTINGS_FILE), False)
        return cls.from_files(*files, special_tokens_of(folder, ROBERTA_SPECIAL_TOKENS), prefix)

    def save(self, folder: str | os.PathLike) -> None:
        """Writes `vocab.json`, `merges.txt` and `tokenizer_config.json`, as Hugging Face reads them."""
        for name, text in self._files().items():
            with atomic_file(os.path.join(folder, name)) as file:
                file.write(text.encode())

    def _files(self) -> dict[str, str]:
        lines = ["#version: 0.2", *(" ".join(pair) for pair in self.merges)]
        return {
            VOCABULARY_FILE: json.dumps(dict(zip(self.tokens, itertools.count())), ensure_ascii=False),
            MERGES_FILE: "".join(f"{line}\n" for line in lines),
            SETTINGS_FILE: settings_text(
                self.special_tokens, "RobertaTokenizer", add_prefix_space=self.add_prefix_space
            ),
        }

    @functools.cached_property
    def sha256(self) -> str:
        return hashlib.sha256("".join(self._files().values()).encode()).hexdigest()

    def text_ids(self) -> list[int]:
        """Returns the ids of the bytes and of the tokens joined from them."""
        return sorted({*self.byte_ids, *(number for _, number in self.pairs.values())})

    def continues_word(self, token: str) -> bool:
        """Returns whether `token` begins without a space. The first token of a text may begin without one too."""
        return not token.startswith(byte_alphabet()[ord(" ")])

    def encode(self, text: str | bytes) -> list[int]:
        """Returns the ids of the tokens of `text`, without special tokens around them."""
        text = self._prefixed(_as_str(text))
        return [number for word in split_words(text) for number in self._ids_of(word)]

    def encode_word(self, word: str | bytes) -> list[int]:
        """Returns the ids of the tokens of a word as inside a text, with a preceding space."""
        word = _as_str(word)
        return self.encode(word if word.startswith(" ") or not word else f" {word}")

    def tokenize_with_offsets(self, text: str | bytes) -> tuple[list[int], list[int], list[int]]:
        """Returns ids, starts and ends of equal length: token i came from `text[starts[i]:ends[i]]`."""
        source = _as_str(text)
        text = self._prefixed(source)
        added = len(text) - len(source)
        ids = [number for word in split_words(text) for number in self._ids_of(word)]
        # The tokens of a text are its bytes in order, so their lengths give their positions.
        characters = [
            place
            for place, character in enumerate(text)
            for _ in range(len(character.encode("utf-8", "surrogateescape")))
        ]
        starts, ends = [], []
        last = 0
        for number in ids:
            first, last = last, last + len(self.token_bytes[number])
            start, end = characters[first], characters[last - 1] + 1
            while start < end and text[start] == " ":
                start += 1
            while start < end and text[end - 1] == " ":
                end -= 1
            starts.append(max(0, start - added))
            ends.append(end - added)
        return ids, starts, ends

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids. Invalid UTF-8, such as half a character, becomes U+FFFD."""
        return b"".join(self.token_bytes[number] for number in ids).decode("utf-8", "replace")

    def graph(self, core_operations: bool = False):
        """Returns the `GraphBytePair` of this tokenizer, which always uses core operations only."""
        from keras_bert.tokenization.graph_byte_pair import GraphBytePair

        return GraphBytePair(self)

    @functools.cached_property
    def token_bytes(self) -> tuple[bytes, ...]:
        """The bytes of each token, in the order of the ids. For tokens outside the byte alphabet: the name in UTF-8."""
        values = {character: value for value, character in enumerate(byte_alphabet())}
        return tuple(
            bytes(values[character] for character in token) if all(map(values.__contains__, token)) else token.encode()
            for token in self.tokens
        )

    def join(self, word: bytes) -> list[int]:
        """Returns the ids of one word.

        Takes O(n log n) time for n bytes.
        """
        ids: list[int | None] = [self.byte_ids[value] for value in word]
        count = len(ids)
        following, previous = list(range(1, count + 1)), list(range(-1, count - 1))
        waiting = [
            (*self.pairs[pair], place, *pair)
            for place, pair in enumerate(itertools.pairwise(ids))
            if pair in self.pairs
        ]
        heapq.heapify(waiting)
        while waiting:
            rank = waiting[0][0]
            joined = []
            # Join all occurrences of a pair, from left to right, before the pairs that arise from it.
            while waiting and waiting[0][0] == rank:
                _, number, place, left, right = heapq.heappop(waiting)
                behind = following[place]
                if ids[place] != left or behind >= count or ids[behind] != right:
                    continue
                ids[place], ids[behind] = number, None
                following[place] = following[behind]
                if following[place] < count:
                    previous[following[place]] = place
                joined.append(place)
            for place in joined:
                for first in {previous[place], place}:
                    if first < 0 or following[first] >= count:
                        continue
                    pair = ids[first], ids[following[first]]
                    if pair in self.pairs:
                        heapq.heappush(waiting, (*self.pairs[pair], first, *pair))
        return [number for number in ids if number is not None]

    def _prefixed(self, text: str) -> str:
        return f" {text}" if self.add_prefix_space and text and text[0] != " " else text

    def _ids_of(self, word: str) -> list[int]:
        return self._cached_join(word) if len(word) <= _LONGEST_CACHED else self._join(word)

    def _join(self, word: str) -> list[int]:
        return self.join(word.encode("utf-8", "surrogateescape"))


@functools.cache
def byte_alphabet() -> tuple[str, ...]:
    """Returns the character that stands for each byte in `vocab.json`.

    Printable Latin-1 characters stand for themselves; the other 68 bytes are written as U+0100 and the following
    characters.

    >>> byte_alphabet()[ord("a")], byte_alphabet()[ord(" ")]
    ('a', 'Ġ')
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = itertools.count(0x100)
    return tuple(chr(value) if value in printable else chr(next(others)) for value in range(256))


def split_words(text: str) -> list[str]:
    """Splits a text as GPT-2 does: "don't go" -> ["don", "'t", " go"]. A word includes the preceding space."""
    return _word_pattern().findall(text)


@functools.cache
def _word_pattern() -> re.Pattern:
    """Returns GPT-2's pattern, with the letters, numbers and white space of Unicode 14.0."""
    letters, numbers, space = map(_character_class, (unicode_table.letters(), unicode_table.numbers(), WHITE_SPACE))
    return re.compile(
        rf"'(?:[stmd]|re|ve|ll)| ?[{letters}]+| ?[{numbers}]+| ?[^{space}{letters}{numbers}]+"
        rf"|[{space}]+(?![^{space}])|[{space}]+"
    )


def _character_class(points: frozenset[int]) -> str:
    """{0x41, 0x42, 0x61} -> "A-Ba-a" """
    ordered = sorted(points)
    firsts = [point for point in ordered if point - 1 not in points]
    lasts = [point for point in ordered if point + 1 not in points]
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in zip(firsts, lasts, strict=True))


def _as_str(text: str | bytes) -> str:
    if isinstance(text, bytes):
        return text.decode("utf-8", "surrogateescape")
    if not isinstance(text, str):
        raise InputError(
            f"A text must be str or bytes. Received: {text!r:.100}. Tokenise several texts one by one: "
            "[tokenizer.encode(text) for text in texts]."
        )
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InputError(f"Texts must be valid Unicode strings. Received: {text!r:.100} ({error})") from None
    return text


def _tokens_in_order(ids: Mapping[str, int]) -> tuple[str, ...]:
    ordered = sorted(ids, key=ids.__getitem__)
    for number, token in enumerate(ordered):
        if ids[token] != number:
            raise InputError(
                f"The ids of the vocabulary must be 0 to {len(ids) - 1}, each once. Token {token!r} has id "
                f"{ids[token]}, but {number} was expected. A token is missing, or two tokens have the same id."
            )
    return tuple(ordered)


def _numbered_pairs(merges, ids: Mapping[str, int]) -> dict[tuple[int, int], tuple[int, int]]:
    """[("t", "h")] -> {(id of t, id of h): (0, id of th)}"""
    pairs: dict[tuple[int, int], tuple[int, int]] = {}
    for rank, (left, right) in enumerate(merges):
        for token in (left, right, left + right):
            if token not in ids:
                raise InputError(
                    f"Merge {rank + 1}, {left!r} {right!r}, contains or creates the token {token!r}, which is not in "
                    "the vocabulary. Vocabulary and merges must come from the same model."
                )
        pairs.setdefault((ids[left], ids[right]), (rank, ids[left + right]))
    return pairs


def _read_vocabulary(path: str | os.PathLike) -> dict[str, int]:
    path = os.fspath(path)
    try:
        ids = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is not JSON ({error}). The vocabulary of byte-level BPE is a vocab.json, {{token: id, ...}}; a "
            "vocab.txt belongs to WordPiece."
        ) from None
    is_table = isinstance(ids, dict) and all(type(number) is int for number in ids.values())
    if not is_table or not ids:
        raise InputError(f"{path} is not a vocabulary. Expected: {{token: id, ...}} with whole numbers.")
    return ids


def _read_merges(path: str | os.PathLike) -> list[tuple[str, str]]:
    path = os.fspath(path)
    merges = []
    for number, line in enumerate(_read_text(path).split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        pair = tuple(line.split(" "))
        if len(pair) != 2 or not all(pair):
            raise InputError(
                f"{path}: line {number} is not a merge. Expected: two tokens with one space between them. "
                f"Received: {line!r:.100}"
            )
        merges.append(pair)
    return merges


def _read_text(path: str) -> str:
    try:
        return read_tokenizer_file(path).decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 ({error.reason} at byte {error.start}).") from None
