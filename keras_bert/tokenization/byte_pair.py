"""Byte-level BPE of GPT-2, RoBERTa and ModernBERT in Python, with character offsets, by the package tokenizers.

What it does, in order (openai/gpt-2 `encoder.py`):

1. Split the text into words: a contraction ('s 't 're 've 'm 'll 'd), or a run of letters, of numbers or of other
   characters, each with one preceding space if there is one; or a run of white space. In a run of white space before
   a word, the last character is not part of the run.
2. Write each word in UTF-8. Every byte is a token.
3. Join the pair of neighbouring tokens that comes first in the merges, the leftmost one if there are several. Repeat
   this until no pair is in the merges.

ModernBERT does two steps before: it normalises the text (NFC), and cuts out added tokens, such as runs of spaces. The
texts between them are tokenised one by one. Llama 3 (EuroBERT) has other rules for words, and a word that is a token
stays whole whatever the merges say.

The library does the steps 1 to 3. It is built from the vocabulary and the merges, after these were checked; it never
sees a file. The steps before are those of added_tokens.py and nfc.py, because the graph has the same. The library's
letters and numbers are those of a Unicode that is newer than the 14.0 of the graph, so the two differ on characters
that Unicode 14.0 does not assign.

Every text can be encoded, so there is no unknown token. In `vocab.json` a byte is written as a printable character; a
space is Ġ.

Offsets: a token extends from the start of the character of its first byte to the end of the character of its last
byte, without the spaces (U+0020) at its ends. A token of spaces only has an empty span at its end.
"""

import functools
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError, named
from keras_bert.tokenization.added_tokens import AddedToken, AddedTokenCutter, check_added_tokens
from keras_bert.tokenization.byte_pair_files import (
    LLAMA_3_PATTERN,
    MERGES_FILE,
    VOCABULARY_FILE,
    read_byte_pair,
    read_merges,
    read_vocabulary,
    tokenizer_json,
)
from keras_bert.tokenization.nfc import nfc, nfc_with_sources
from keras_bert.tokenization.tokenizer import (
    ROBERTA_SPECIAL_TOKENS,
    SpecialTokens,
    Tokenizer,
    check_special_tokens,
    check_unicode,
    text_bytes,
)
from keras_bert.tokenization.tokenizer_json import (
    SECOND_SEGMENT,
    SETTINGS_FILE,
    TOKENIZER_FILE,
    pair_rule,
    settings_text,
)

# Pair of ids -> its rank in the merges and the id of the joined token.
Pairs = dict[tuple[int, int], tuple[int, int]]
# Surrogates of str that stand for bytes that are not UTF-8.
INVALID_BYTE = re.compile("[\udc80-\udcff]")
_CACHE_SIZE = 1 << 16
_LONG_TEXT = 1 << 12  # characters
_LONE_SPACE = re.compile(r"(?<=\S) (?=\S)")
# The library's regular expressions give up after 10 million steps back, which Llama 3's needs in such a run.
_MOST_WHITE_SPACE = 1 << 22
_TOO_MUCH_WHITE_SPACE = re.compile(rf"\s{{{_MOST_WHITE_SPACE + 1}}}")


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
        normalizes: whether texts are normalised to NFC.
        added_tokens: tokens that are found in a text before it is split into words: the leftmost one, and there the
            longest. A str matches the normalised text letter by letter.
        splits_as_llama_3: whether words are those of Llama 3 instead of GPT-2.
        ignores_merges: whether a word that is a token stays whole, also if no merges lead to it.

    Raises:
        InputError: the ids have gaps, a byte or a special token is missing, a merge contains an unknown token, or an
            added token is not possible.

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
    kind = "Byte-level BPE"
    falls_back = False  # whether only unknown characters are bytes
    _argument_names: tuple[str, ...] = (
        *("ids", "merges", "special_tokens", "add_prefix_space", "normalizes", "added_tokens"),
        *("splits_as_llama_3", "ignores_merges"),
    )

    def __init__(
        self,
        ids: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        special_tokens: SpecialTokens = ROBERTA_SPECIAL_TOKENS,
        add_prefix_space: bool = False,
        normalizes: bool = False,
        added_tokens: Sequence[AddedToken | str] = (),
        splits_as_llama_3: bool = False,
        ignores_merges: bool = False,
    ):
        self.ids = dict(ids)
        self.merges = tuple(map(tuple, merges))
        self.special_tokens = special_tokens
        self.add_prefix_space = add_prefix_space
        self.normalizes = normalizes
        self.splits_as_llama_3 = splits_as_llama_3
        self.ignores_merges = ignores_merges
        self.added_tokens = tuple(AddedToken(token) if isinstance(token, str) else token for token in added_tokens)
        self.tokens = _in_order(self.ids)
        check_unicode(self.tokens, "The vocabulary")
        check_special_tokens(special_tokens, self.ids, "The vocabulary")
        check_added_tokens(self.added_tokens, self.ids, special_tokens.names)
        if self.added_tokens:
            normalize = nfc_with_sources if normalizes else None
            self._cutter = AddedTokenCutter(self.added_tokens, self.ids, normalize, nfc)
        self._normalizes_plain_text = normalizes and not (self._cutter and self._cutter.normalizes)
        missing = [name for name in self._byte_names() if name not in self.ids]
        if missing:
            raise InputError(
                f"The vocabulary has no token for {len(missing)} of the 256 bytes, such as {missing[0]!r}. "
                f"{self.kind} needs them all. Are these the files of another kind of tokenizer?"
            )
        self.byte_ids = tuple(self.ids[name] for name in self._byte_names())
        self.pairs = _numbered_pairs(self.merges, self.ids)

    def __reduce__(self):
        # Process pools send tokenizers by pickle; that of the library, which is large, is made again.
        return functools.partial(type(self), **self._arguments()), ()

    def with_tokens(self, ids: Mapping[str, int]) -> "BytePairTokenizer":
        """Returns this tokenizer with more tokens, which no text contains."""
        return type(self)(**self._arguments() | {"ids": {**self.ids, **ids}})

    def with_special_tokens(self, special_tokens: SpecialTokens) -> "BytePairTokenizer":
        return type(self)(**self._arguments() | {"special_tokens": special_tokens})

    def with_spare_rows(self, size: int) -> "BytePairTokenizer":
        return self.with_tokens({f"<unused_row_{number}>": number for number in range(len(self), size)})

    def _arguments(self) -> dict:
        return {name: getattr(self, name) for name in self._argument_names}

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
        ids, merges = read_vocabulary(vocabulary_path), read_merges(merges_path)
        with named(f"{os.fspath(vocabulary_path)}, {os.fspath(merges_path)}"):
            return cls(ids, merges, special_tokens, add_prefix_space)

    @classmethod
    def from_folder(cls, folder: str | os.PathLike) -> "BytePairTokenizer":
        """Reads `vocab.json` and `merges.txt`, or else `tokenizer.json`, and the files with settings and added tokens.

        Returns:
            a `ByteFallbackTokenizer` if `tokenizer.json` has such a model.

        Raises:
            InputError: as `byte_pair_files.read_byte_pair`, or for the reasons given in the class.
        """
        from keras_bert.tokenization.byte_fallback import ByteFallbackTokenizer

        arguments, falls_back = read_byte_pair(folder)
        with named(folder):
            return ByteFallbackTokenizer(**arguments) if falls_back else cls(**arguments)

    def save(self, folder: str | os.PathLike) -> None:
        """Writes `tokenizer_config.json`, and `vocab.json` and `merges.txt` or `tokenizer.json`, as Hugging Face does.

        `tokenizer.json` is written for what the other two cannot hold: normalised texts, added tokens, Llama 3's words.
        """
        for name, text in self._files(**pair_rule(self.special_tokens.longer_keeps_more)).items():
            with atomic_file(os.path.join(folder, name)) as file:
                file.write(text.encode())

    @property
    def fits_two_files(self) -> bool:
        """Whether `vocab.json` and `merges.txt` hold all of the tokenizer."""
        return not (self.normalizes or self.added_tokens or self.splits_as_llama_3 or self.ignores_merges)

    def _files(self, **settings: Any) -> dict[str, str]:
        if self.special_tokens.second_segment != 1:
            settings[SECOND_SEGMENT] = self.special_tokens.second_segment
        if not self.fits_two_files:
            text = settings_text(self.special_tokens, "PreTrainedTokenizerFast", **settings)
            return {TOKENIZER_FILE: tokenizer_json(self), SETTINGS_FILE: text}
        lines = ["#version: 0.2", *(" ".join(pair) for pair in self.merges)]
        return {
            VOCABULARY_FILE: json.dumps(dict(zip(self.tokens, itertools.count())), ensure_ascii=False),
            MERGES_FILE: "".join(f"{line}\n" for line in lines),
            SETTINGS_FILE: settings_text(
                self.special_tokens, "RobertaTokenizer", add_prefix_space=self.add_prefix_space, **settings
            ),
        }

    @functools.cached_property
    def sha256(self) -> str:
        return hashlib.sha256("".join(self._files().values()).encode()).hexdigest()

    def text_ids(self) -> list[int]:
        """Returns the ids of the bytes, of the tokens joined from them, and of the added tokens."""
        added = (self.ids[token.content] for token in self.added_tokens if not token.special)
        return sorted({*self.byte_ids, *self.joined_ids, *added})

    @functools.cached_property
    def joined_ids(self) -> frozenset[int]:
        """The ids of the tokens that merges create, and of those that words are whole if merges are ignored."""
        joined = {number for _, number in self.pairs.values()}
        if self.ignores_merges:
            plain, alphabet = self._unsplit_names(), {*byte_alphabet()}
            names = (token for token in self.tokens if token not in plain and alphabet.issuperset(token))
            joined |= {self.ids[token] for token in names if self._is_word(self.token_bytes[self.ids[token]])}
        return frozenset(joined)

    def continues_word(self, token: str) -> bool:
        """Returns whether `token` begins without a space. The first token of a text may begin without one too."""
        return not token.startswith((byte_alphabet()[ord(" ")], " "))

    def _as_str(self, text: str | bytes) -> str:
        data = text_bytes(text)
        return text if isinstance(text, str) else data.decode("utf-8", "surrogateescape")

    def _plain_ids(self, text: str | bytes) -> list[int]:
        text = self._prefixed(self._as_str(text))
        return self._encoded(nfc(text) if self._normalizes_plain_text else text)[0]

    def _plain_ids_of_word(self, word: str | bytes) -> list[int]:
        # As inside a text, a word has a preceding space.
        word = self._as_str(word)
        return self._plain_ids(word if word.startswith(" ") or not word else f" {word}")

    def _plain_ids_with_offsets(self, text: str | bytes) -> tuple[list[int], list[int], list[int]]:
        source = self._as_str(text)
        text = self._prefixed(source)
        added = len(text) - len(source)
        if self.normalizes:
            text, source_starts, source_ends = nfc_with_sources(text)
        ids, spans = self._encoded(text)
        starts, ends = [], []
        for start, end in spans:
            while start < end and text[start] == " ":
                start += 1
            while start < end and text[end - 1] == " ":
                end -= 1
            if self.normalizes:
                is_empty, end = start == end, source_ends[end - 1]
                start = end if is_empty else source_starts[start]
            starts.append(max(0, start - added))
            ends.append(end - added)
        return ids, starts, ends

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids. Invalid UTF-8, such as half a character, becomes U+FFFD."""
        return b"".join(self.token_bytes[number] for number in ids).decode("utf-8", "replace")

    def graph(self, core_operations: bool = False) -> Any:
        """Returns the `GraphBytePair` of this tokenizer, which always uses core operations only."""
        from keras_bert.tokenization.graph_byte_pair import GraphBytePair

        return GraphBytePair(self)

    @functools.cached_property
    def token_bytes(self) -> tuple[bytes, ...]:
        """The bytes of each token, in the order of the ids. Added and special tokens are their names in UTF-8."""
        values = {character: value for value, character in enumerate(byte_alphabet())}
        plain = self._unsplit_names()
        return tuple(
            bytes(values[character] for character in token)
            if token not in plain and all(map(values.__contains__, token))
            else token.encode()
            for token in self.tokens
        )

    @functools.cached_property
    def possible_words(self) -> dict[bytes, int]:
        """The words that may be one token, in UTF-8 -> the token. They are, if merges are ignored or lead to it."""
        return {self.token_bytes[number]: number for number in (*self.byte_ids, *sorted(self.joined_ids))}

    def _prefixed(self, text: str) -> str:
        return f" {text}" if self.add_prefix_space and text and text[0] != " " else text

    @functools.cached_property
    def _library(self) -> Any:
        """The `tokenizers.Tokenizer` that finds the tokens of plain text without invalid bytes."""
        import tokenizers

        # Only tokens that a text can have, so that no text forges another one if merges are ignored.
        numbers = {*self.byte_ids, *self.possible_words.values(), *itertools.chain.from_iterable(self.pairs)}
        library = tokenizers.Tokenizer(
            tokenizers.models.BPE(
                {self.tokens[number]: number for number in numbers},
                [(self.tokens[left], self.tokens[right]) for left, right in self.pairs],  # of equal ones the first
                cache_capacity=_CACHE_SIZE,
                ignore_merges=self.ignores_merges,
                byte_fallback=self.falls_back,
            )
        )
        if not self.falls_back:
            library.pre_tokenizer = _splitter(self.splits_as_llama_3)
        return library

    def _encoded(self, text: str) -> tuple[list[int], Sequence[tuple[int, int]]]:
        """Returns the ids of a text, and for each of them the start and the end of its characters."""
        # A long text is cut between words: the library would need a hundred bytes for each of its characters.
        if len(text) <= _LONG_TEXT:
            return self._encoded_part(text)
        parts, first = [], 0
        while first < len(text):
            cut = self._cut.search(text, first + _LONG_TEXT)
            last = cut.start() if cut else len(text)
            parts.append((last - first, *self._encoded_part(text[first:last])))
            first = last
        return joined_parts(parts)

    @property
    def _cut(self) -> re.Pattern:
        """Finds the places in front of which every token ends."""
        return _LONE_SPACE

    def _encoded_part(self, text: str) -> tuple[list[int], Sequence[tuple[int, int]]]:
        if self.splits_as_llama_3 and len(text) > _MOST_WHITE_SPACE and _TOO_MUCH_WHITE_SPACE.search(text):
            raise InputError(
                f"A text has more than {_MOST_WHITE_SPACE:,} white-space characters in a row, which is not supported "
                "with Llama 3's words. Shorten the run."
            )
        if INVALID_BYTE.search(text):
            return self._encoded_invalid(text)
        encoding = self._library.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets

    def _encoded_invalid(self, text: str) -> tuple[list[int], Sequence[tuple[int, int]]]:
        """As `_encoded_part`, for a text with surrogates, which the library does not take."""
        ids, spans = [], []
        for first, last in word_spans(text, self.splits_as_llama_3):
            units = [(place, byte) for place in range(first, last) for byte in text_bytes(text[place])]
            word = "".join(byte_alphabet()[byte] for _, byte in units)
            end = 0
            for token in self._library.model.tokenize(word):
                start, end = end, end + len(self.token_bytes[token.id])
                ids.append(token.id)
                spans.append((units[start][0], units[end - 1][0] + 1))
        return ids, spans

    def _is_word(self, token: bytes) -> bool:
        return len(word_spans(token.decode("utf-8", "surrogateescape"), self.splits_as_llama_3)) == 1

    def _unsplit_names(self) -> set[str]:
        return {*(token.content for token in self.added_tokens), *self.special_tokens.names}

    def _byte_names(self) -> tuple[str, ...]:
        return byte_alphabet()


@functools.cache
def _splitter(as_llama_3: bool) -> Any:
    """Returns the first step of the library: it splits a text into words, and writes their bytes as in `vocab.json`."""
    from tokenizers import Regex, pre_tokenizers

    if not as_llama_3:
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    words = pre_tokenizers.Split(Regex(LLAMA_3_PATTERN), "isolated")
    return pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def joined_parts(parts: Iterable[tuple[int, Sequence[int], Sequence[tuple[int, int]]]]) -> tuple[list, list]:
    """Returns the ids and spans of a text from the lengths, ids and spans of its parts."""
    ids, spans, place = [], [], 0
    for length, found, places in parts:
        ids += found
        spans += [(place + start, place + end) for start, end in places]
        place += length
    return ids, spans


def word_spans(text: str, as_llama_3: bool = False) -> list[tuple[int, int]]:
    """Returns the start and the end of the words of a text: "don't go" -> [(0, 3), (3, 5), (5, 8)].

    A word of GPT-2 includes the preceding space. An invalid byte is neither a letter nor a number nor white space, as
    U+FFFD.
    """
    words = _splitter(as_llama_3).pre_tokenize_str(INVALID_BYTE.sub("\ufffd", text))
    return [span for _, span in words]


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


def _in_order(ids: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the tokens in the order of their ids. Raises `InputError` unless these are 0, 1, 2 and so on."""
    ordered = sorted(ids, key=ids.__getitem__)
    for number, token in enumerate(ordered):
        if ids[token] != number:
            raise InputError(
                f"The ids of the vocabulary must be 0 to {len(ids) - 1}, each once. Token {token!r} has id "
                f"{ids[token]}, but {number} was expected. A token is missing, or two tokens have the same id."
            )
    return tuple(ordered)


def _numbered_pairs(merges: Sequence[tuple[str, ...]], ids: Mapping[str, int]) -> Pairs:
    """[("t", "h")] -> {(id of t, id of h): (0, id of th)}"""
    pairs: Pairs = {}
    for rank, (left, right) in enumerate(merges):
        try:
            pairs.setdefault((ids[left], ids[right]), (rank, ids[left + right]))
        except KeyError as error:
            raise InputError(
                f"Merge {rank + 1}, {left!r} {right!r}, contains or creates the token {error}, which is not in the "
                "vocabulary. Vocabulary and merges must come from the same model."
            ) from None
    return pairs
