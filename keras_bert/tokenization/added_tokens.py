"""Cuts added tokens, such as entity markers or runs of spaces, out of texts: in Python, for every kind of tokenizer.

Added tokens are found before a text is split into words: first those that match the text as it is, then, in what lies
between them, those that match the normalised text. Each time the leftmost match counts, and there the longest.

Reference: huggingface/tokenizers, `AddedVocabulary`.
"""

import bisect
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from keras_bert.program.errors import InputError
from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.unicode_table import WHITE_SPACE

_MOST_CHARACTERS = 1 << 20  # of all added tokens together


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """A token that is found in a text as a whole.

    Attributes:
        content: the text of the token.
        single_word: whether it must not touch another word character.
        lstrip, rstrip: whether it takes the white space before it, behind it.
        normalized: whether it is found in the normalised text, so that an uncased tokenizer finds "Zed" in "ZED".
        special: whether it structures texts, as an entity marker does. Masking never inserts such a token.
    """

    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = True
    special: bool = False


class Part(NamedTuple):
    """A part of a text.

    Attributes:
        text: the part, normalised if there are tokens that match the normalised text.
        number: the id of the added token; None for the text between added tokens.
        starts, ends: for each character of `text` the span of its source.
    """

    text: str
    number: int | None
    starts: Sequence[int]
    ends: Sequence[int]

    def source(self, start: int, end: int) -> tuple[int, int]:
        """Returns the source of the span `start:end` of the part. An empty span lies at the end of its source."""
        last = self.ends[end - 1] if end else self.starts[0]
        return (self.starts[start] if start < end else last), last

    @property
    def visible(self) -> tuple[int, int]:
        """The source of the part without the spaces at its ends."""
        first = len(self.text) - len(self.text.lstrip(" "))
        return self.source(first, max(first, len(self.text.rstrip(" "))))

    def cut(self, start: int, end: int, number: int | None = None) -> "Part":
        """Returns a part of the part."""
        return Part(self.text[start:end], number, self.starts[start:end], self.ends[start:end])


class AddedTokenCutter:
    """Cuts texts at added tokens.

    Args:
        tokens, ids: the added tokens, and token -> id.
        normalize: text -> the normalised text, and for each of its characters the start and end of its source. None for
            tokenizers that do not normalise.
        normalize_text: text -> the normalised text alone, if that is faster.

    Example:
        >>> cutter = AddedTokenCutter([AddedToken("[E1]")], {"[E1]": 7})
        >>> [(part.text, part.number) for part in cutter.parts("a[E1] b")]
        [('a', None), ('[E1]', 7), (' b', None)]
    """

    def __init__(
        self,
        tokens: Sequence[AddedToken],
        ids: Mapping[str, int],
        normalize: Callable[[str], tuple[str, list[int], list[int]]] | None = None,
        normalize_text: Callable[[str], str] | None = None,
    ):
        literal, normalized = by_stage(tokens)
        self._ids = ids
        self._literal = _Finder({token.content: token for token in literal})
        self._normalize = normalize if normalized else None
        self._normalized = _Finder(in_normal_form(normalized, normalize))
        self._normalize_text = normalize_text or (lambda text: normalize(text)[0])

    @property
    def normalizes(self) -> bool:
        """Whether the text between added tokens comes out normalised."""
        return self._normalize is not None

    def parts(self, text: str, with_sources: bool = True) -> Iterator[Part]:
        """Yields the parts of a text in order, none of them empty; without sources, if these are not asked for."""
        places = (range(len(text)), range(1, len(text) + 1)) if with_sources else ((), ())
        whole = Part(text, None, *places)
        for part in self._cut(whole, self._literal):
            if part.number is not None or not self._normalized:
                yield part
                continue
            if self.normalizes and not with_sources:
                part = Part(self._normalize_text(part.text), None, (), ())
            elif self.normalizes:
                normalized, starts, ends = self._normalize(part.text)
                sources = [part.starts[start] for start in starts], [part.ends[end - 1] for end in ends]
                part = Part(normalized, None, *sources)
            yield from self._cut(part, self._normalized)

    def _cut(self, part: Part, finder: "_Finder") -> Iterator[Part]:
        place = 0
        for (start, end), (first, last), token in finder.find(part.text) if finder else ():
            if place < first:
                yield part.cut(place, first)
            yield part.cut(start, end, self._ids[token.content])
            place = last
        if place < len(part.text):
            yield part.cut(place, len(part.text))


def by_stage(tokens: Sequence[AddedToken]) -> tuple[list[AddedToken], list[AddedToken]]:
    """Returns the tokens that match the text as it is, and those that match the normalised text."""
    return [token for token in tokens if not token.normalized], [token for token in tokens if token.normalized]


def in_normal_form(tokens: Sequence[AddedToken], normalize: Callable | None) -> dict[str, AddedToken]:
    """Returns normalised content -> token. Of two tokens with the same normalised content the first one counts."""
    found: dict[str, AddedToken] = {}
    for token in tokens:
        content = normalize(token.content)[0] if normalize else token.content
        if not content:
            raise InputError(f"Nothing is left of the added token {token.content!r} when it is normalised. Remove it.")
        found.setdefault(content, token)
    return found


def check_added_tokens(tokens: Sequence[AddedToken], ids: Mapping[str, int], special: Sequence[str]) -> None:
    """Raises `InputError` unless texts can contain these added tokens. None may be one of the `special` tokens."""
    if (total := sum(len(token.content) for token in tokens)) > _MOST_CHARACTERS:
        raise InputError(
            f"The {len(tokens):,} added tokens have {total:,} characters together. At most {_MOST_CHARACTERS:,} are "
            "supported. Put ordinary words into the vocabulary."
        )
    for token in tokens:
        if token.content not in ids or token.content in special:
            raise InputError(
                f"The added token {token.content!r} must be in the vocabulary, and must not be one of the special "
                f"tokens {' '.join(special)}."
            )
        if not token.content or "\0" in token.content or "\1" in token.content:
            raise InputError(f"An added token must not be empty or have U+0000 or U+0001. Received: {token.content!r}")
        if (token.lstrip or token.rstrip) and token.content != token.content.strip():
            raise InputError(
                f"The added token {token.content!r} takes the white space around it and has white space itself. Choose "
                "one of the two."
            )


class _Finder:
    """Finds tokens, content -> token, by their order: neither time nor memory grows fast with their number."""

    def __init__(self, tokens: Mapping[str, AddedToken]):
        self._tokens = tokens
        self._contents = sorted(tokens)
        # For each content the longest other one that it begins with. What stands between the two begins with it too.
        self._beginnings: dict[str, str] = {}
        open_contents: list[str] = []
        for content in self._contents:
            while open_contents and not content.startswith(open_contents[-1]):
                open_contents.pop()
            if open_contents:
                self._beginnings[content] = open_contents[-1]
            open_contents.append(content)
        self._longest_content = max(map(len, tokens), default=0)
        # Where a token may begin: its first two characters, so that single spaces are passed over for runs of spaces.
        following: dict[str, set[str]] = {}
        for content in self._contents:
            following.setdefault(content[0], set()).add(content[1:2])
        beginnings = (re.escape(first) + _any_next(seconds) for first, seconds in following.items())
        self._candidates = re.compile("|".join(beginnings)) if following else None

    def __bool__(self) -> bool:
        return self._candidates is not None

    def find(self, text: str) -> Iterator[tuple[tuple[int, int], tuple[int, int], AddedToken]]:
        """Yields for each match in order its span, its span with the white space that it takes, and the token."""
        place = searched = 0
        for match in self._candidates.finditer(text):
            start = match.start()
            end, token = self._longest(text, start) if start >= searched else (start, None)
            if token is None:
                continue
            searched = end
            if token.single_word and (_is_word(text[start - 1 : start]) or _is_word(text[end : end + 1])):
                continue
            first, last = start, end
            while token.lstrip and first > place and ord(text[first - 1]) in WHITE_SPACE:
                first -= 1
            while token.rstrip and last < len(text) and ord(text[last]) in WHITE_SPACE:
                last += 1
            yield (start, end), (first, last), token
            place = searched = last

    def _longest(self, text: str, start: int) -> tuple[int, AddedToken | None]:
        behind = bisect.bisect_right(self._contents, text[start : start + self._longest_content])
        content = self._contents[behind - 1] if behind else None
        while content is not None and not text.startswith(content, start):
            content = self._beginnings.get(content)
        return (start, None) if content is None else (start + len(content), self._tokens[content])


def _any_next(seconds: Set[str]) -> str:
    """Returns a pattern for what follows the first character of a token; empty if that is a token itself."""
    return "" if "" in seconds else f"(?=[{''.join(map(re.escape, sorted(seconds)))}])"


def _is_word(character: str) -> bool:
    return bool(character) and ord(character) in unicode_table.word_characters()
