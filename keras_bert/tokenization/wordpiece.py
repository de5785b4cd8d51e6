"""Google's BERT tokenizer in Python, with character offsets: the reference for the graph version.

What it does, in order (google-research/bert `tokenization.py`, rewritten on the frozen Unicode table):

1. Split at white space; drop control and format characters; make every CJK ideograph a token.
2. Lower-case; decompose canonically and drop the non-spacing marks. Both are settings, as is the rule for ideographs.
3. Make every punctuation character a word.
4. Cut each word into the longest pieces of the vocabulary, from left to right. A word of more than 200 characters
   (MPNet: 100), or with a part that is not in the vocabulary, becomes one [UNK].

Offsets: a piece extends from the start of the source character of its first letter to the end of the source character
of its last letter. Dropped characters (accents, control characters) belong to the preceding character of the same
stretch without white space; at the start of a stretch they belong to no piece. [UNK] covers its word.
"""

import functools
import itertools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.added_tokens import AddedTokenCutter
from keras_bert.tokenization.tokenizer import SpecialTokens, Tokenizer, text_bytes
from keras_bert.tokenization.unicode_table import TextRules
from keras_bert.tokenization.vocabulary import Vocabulary

# Words of a text repeat, so results are cached: at most so many stretches, each with at most so many characters.
_CACHE_SIZE = 1 << 16
_LONGEST_CACHED = 40

# Words as (text, starts, ends): the source span of each character of the text.
_Word = tuple[str, list[int], list[int]]


class WordPieceTokenizer(Tokenizer):
    """Text -> ids of the vocabulary. By default exactly as google-research/bert `FullTokenizer`.

    Special tokens in the text are ordinary text: `[MASK]` becomes `[`, `mask`, `]`. The added tokens of the vocabulary
    are found in a text as a whole.

    Args:
        vocabulary: `Vocabulary`.
        do_lower_case: whether to lower-case, for uncased vocabularies.
        strip_accents: whether to remove accents. By default as in the vocabulary, whose default is `do_lower_case`.
        tokenize_chinese_chars: whether every CJK ideograph is a word. By default as in the vocabulary.

    Example:
        >>> vocabulary = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "quick", "##est"])
        >>> tokenizer = WordPieceTokenizer(vocabulary)
        >>> tokenizer.tokenize("The quickest fox")
        ['the', 'quick', '##est', '[UNK]']
        >>> tokenizer.tokenize_with_offsets("The quickest fox")
        ([5, 6, 7, 1], [0, 4, 9, 13], [3, 9, 12, 16])
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        do_lower_case: bool = True,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool | None = None,
    ):
        settings = {"strip_accents": strip_accents, "tokenize_chinese_chars": tokenize_chinese_chars}
        settings = {name: value for name, value in settings.items() if value is not None}
        if settings:
            vocabulary = vocabulary.replace(**settings)
        self._vocabulary = vocabulary
        self.tokens, self.ids, self.special_tokens = vocabulary.tokens, vocabulary.ids, vocabulary.special_tokens
        self.added_tokens = vocabulary.added_tokens
        self.do_lower_case = do_lower_case
        strips = do_lower_case if vocabulary.strip_accents is None else vocabulary.strip_accents
        self.rules = TextRules(
            do_lower_case, strips, vocabulary.tokenize_chinese_chars, vocabulary.max_characters_per_word
        )
        self._cached_pieces = functools.lru_cache(maxsize=_CACHE_SIZE)(self._pieces)
        if self.added_tokens:
            self._cutter = AddedTokenCutter(self.added_tokens, self.ids, self.normalize)

    def __reduce__(self):
        # Process pools send tokenizers by pickle; the cache is left out.
        return WordPieceTokenizer, (self._vocabulary, self.do_lower_case)

    # These are made for the first text: most models of a run tokenize none.

    @functools.cached_property
    def piece_ids(self) -> dict[str, int]:
        """The tokens that words are cut into, token -> id: an added token matches as a whole only."""
        added = {token.content for token in self.added_tokens}
        return {token: number for token, number in self.ids.items() if token not in added}

    @functools.cached_property
    def _longest_token(self) -> int:
        return max(map(len, self.tokens))

    @functools.cached_property
    def _stretches(self) -> Callable[[str], Iterable[re.Match]]:
        return _stretch_pattern().finditer

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    @property
    def sha256(self) -> str:
        return self._vocabulary.sha256

    def begins_with(self, sha256: str) -> bool:
        return self._vocabulary.begins_with(sha256)

    def replace(self, **changes: Any) -> "WordPieceTokenizer":
        """Returns a tokenizer of the same casing with other tokens or settings of the vocabulary."""
        return self._with(self._vocabulary.replace(**changes))

    def of_size(self, size: int) -> "WordPieceTokenizer":
        return self._with(self._vocabulary.of_size(size))

    def with_spare_rows(self, size: int) -> "WordPieceTokenizer":
        return self._with(self._vocabulary.with_spare_rows(size))

    def with_special_tokens(self, special_tokens: SpecialTokens) -> "WordPieceTokenizer":
        return self._with(self._vocabulary.with_special_tokens(special_tokens))

    def _with(self, vocabulary: Vocabulary) -> "WordPieceTokenizer":
        return self if vocabulary is self._vocabulary else WordPieceTokenizer(vocabulary, self.do_lower_case)

    def text_ids(self) -> list[int]:
        return self._vocabulary.text_ids()

    def continues_word(self, token: str) -> bool:
        return self._vocabulary.continues_word(token)

    def graph(self, core_operations: bool = False) -> Any:
        """Returns the `GraphTokenizer` of this tokenizer, or with `core_operations` its `CoreWordPiece`."""
        if core_operations:
            from keras_bert.tokenization.core_wordpiece import CoreWordPiece

            return CoreWordPiece(self)
        from keras_bert.tokenization.graph_wordpiece import GraphTokenizer

        return GraphTokenizer(self._vocabulary, self.do_lower_case)

    def save(self, folder: str | os.PathLike) -> None:
        """Writes `vocab.txt`, and the settings of the vocabulary. The casing is part of a model's config."""
        from keras_bert.tokenization.wordpiece_files import write_word_piece

        write_word_piece(self._vocabulary, folder)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of `ids`. Tokens do not store white space, so words are separated by one space."""
        return " ".join(self.tokens[number] for number in ids).replace(" ##", "")

    def words(self, text: str) -> list[str]:
        """Returns the normalised words of plain text, before they are cut into pieces."""
        return [word for match in self._stretches(text) for word, *_ in _words(match.group(), self.rules)]

    def normalize(self, text: str) -> tuple[str, list[int], list[int]]:
        """Returns the normalised text, and for each of its characters the start and end of its source in `text`.

        "Épée, 字" -> "epee,  字 ". As in Google's code, there is a space on both sides of an ideograph.
        """
        characters: list[tuple[str, int, int]] = []
        place = 0
        for match in [*self._stretches(text), None]:
            first, last = match.span() if match else (len(text), len(text))
            characters += [(" ", space, space + 1) for space in range(place, first)]
            place = last
            for word, starts, ends in _words(match.group(), self.rules) if match else ():
                spans = [(first + start, first + end) for start, end in zip(starts, ends, strict=True)]
                letters = [(letter, *span) for letter, span in zip(word, spans, strict=True)]
                if self.rules.chinese_chars and unicode_table.is_cjk(ord(word[0])):
                    letters = [(" ", *spans[0]), *letters, (" ", *spans[0])]
                characters += letters
        normalized = "".join(character for character, _, _ in characters)
        return normalized, [start for _, start, _ in characters], [end for _, _, end in characters]

    def _as_str(self, text: str | bytes) -> str:
        return text if isinstance(text, str) else text_bytes(text).decode("utf-8", "ignore")

    def _plain_ids(self, text: str | bytes) -> list[int]:
        ids: list[int] = []
        for match in self._stretches(self._as_str(text)):
            ids += self._pieces_of(match.group())[0]
        return ids

    def _plain_ids_with_offsets(self, text: str | bytes) -> tuple[list[int], list[int], list[int]]:
        ids: list[int] = []
        starts: list[int] = []
        ends: list[int] = []
        for match in self._stretches(self._as_str(text)):
            base = match.start()
            piece_ids, piece_starts, piece_ends = self._pieces_of(match.group())
            ids += piece_ids
            starts += [base + start for start in piece_starts]
            ends += [base + end for end in piece_ends]
        return ids, starts, ends

    def _pieces_of(self, stretch: str) -> tuple[list[int], list[int], list[int]]:
        return self._cached_pieces(stretch) if len(stretch) <= _LONGEST_CACHED else self._pieces(stretch)

    def _pieces(self, stretch: str) -> tuple[list[int], list[int], list[int]]:
        """Returns ids, starts and ends of the pieces of a stretch of text without white space."""
        ids: list[int] = []
        starts: list[int] = []
        ends: list[int] = []
        for text, character_starts, character_ends in _words(stretch, self.rules):
            first = 0
            for number, last in self._match(text):
                ids.append(number)
                starts.append(character_starts[first])
                ends.append(character_ends[last - 1])
                first = last
        return ids, starts, ends

    def _match(self, word: str) -> list[tuple[int, int]]:
        """Returns ids and ends of the longest pieces: "quickest" -> [(id of quick, 5), (id of ##est, 8)]."""
        unknown = [(self.vocabulary.unk_id, len(word))]
        if len(word) > self.rules.max_characters:
            return unknown
        pieces = []
        first = 0
        while first < len(word):
            prefix = "##" if first else ""
            for last in range(min(len(word), first + self._longest_token), first, -1):
                number = self.piece_ids.get(prefix + word[first:last])
                if number is not None:
                    break
            else:
                return unknown
            pieces.append((number, last))
            first = last
        return pieces


def split_at_white_space(text: str) -> list[str]:
    """Returns the stretches of `text` between white space, as the tokenizer splits them.

    >>> split_at_white_space("The fox\u2028ran,")
    ['The', 'fox', 'ran,']
    """
    return _stretch_pattern().findall(text)


def words_of_stretch(stretch: str, do_lower_case: bool) -> list[str]:
    """Returns the normalised words of a stretch without white space, before they are cut into pieces.

    >>> words_of_stretch("Épée,", do_lower_case=True)
    ['epee', ',']
    """
    return [text for text, _, _ in _words(stretch, TextRules(do_lower_case, strip_accents=do_lower_case))]


def word_spans(text: str) -> list[tuple[int, int]]:
    """Returns the start and end of each word of a text, in characters, before words are normalised or cut into pieces.

    >>> word_spans("The fox, 字字")
    [(0, 3), (4, 7), (7, 8), (9, 10), (10, 11)]
    """
    return [
        (match.start() + starts[0], match.start() + ends[-1])
        for match in _stretch_pattern().finditer(text)
        for _, starts, ends in _words(match.group(), TextRules(lower_case=False, strip_accents=False))
    ]


@functools.cache
def _stretch_pattern() -> re.Pattern:
    separators = "".join(re.escape(chr(point)) for point in sorted(unicode_table.whitespace()))
    return re.compile(f"[^{separators}]+")


def _words(stretch: str, rules: TextRules) -> Iterable[_Word]:
    """Returns the words of a stretch without white space, with the source span of every character.

    "Épée,字" -> ("epee", [0, 1, 2, 3], [1, 2, 3, 4]), (",", [4], [5]), ("字", [5], [6])
    """
    is_ascii = stretch.isascii()  # no ideographs and no marks: folding is lower-casing
    if is_ascii and rules.lower_case:
        stretch = stretch.lower()
    removed = unicode_table.removed()
    kept = [(ord(character), start) for start, character in enumerate(stretch) if ord(character) not in removed]
    words: list[list[tuple[int, int]]] = []
    for token in _split_at(kept, unicode_table.is_cjk) if rules.chinese_chars and not is_ascii else [kept]:
        letters = _fold(token, rules) if (rules.lower_case or rules.strip_accents) and not is_ascii else token
        words += _split_at(letters, unicode_table.punctuation().__contains__)
    ends = iter(_ends([start for word in words for _, start in word], len(stretch)))
    for word in words:
        starts = [start for _, start in word]
        yield "".join(chr(point) for point, _ in word), starts, list(itertools.islice(ends, len(word)))


def _split_at(letters: list[tuple[int, int]], is_separate) -> list[list[tuple[int, int]]]:
    """Splits so that each separate character is a part of its own: "a,b" -> "a" "," "b". No part is empty."""
    parts: list[list[tuple[int, int]]] = []
    joins = False
    for letter in letters:
        separate = is_separate(letter[0])
        if separate or not joins:
            parts.append([])
        parts[-1].append(letter)
        joins = not separate
    return parts


def _fold(token: list[tuple[int, int]], rules: TextRules) -> list[tuple[int, int]]:
    """Lower-cases; decomposes canonically and drops non-spacing marks."""
    changed = rules.changed_points()
    letters: list[tuple[int, int]] = []
    for position, (point, start) in enumerate(token):
        if rules.lower_case and point == unicode_table.CAPITAL_SIGMA and _is_final_sigma(token, position):
            letters.append((unicode_table.FINAL_SIGMA, start))
        else:
            letters += [(part, start) for part in changed.get(point, (point,))]
    if not rules.strip_accents:
        return letters
    classes, marks = unicode_table.combining_classes(), rules.dropped_marks()
    if any(point in classes for point, _ in letters):
        letters = _in_canonical_order(letters)
    letters = [letter for letter in letters if letter[0] not in marks]
    # Marks may have been reordered, but source positions stay ascending.
    starts = sorted(start for _, start in letters)
    return [(point, start) for (point, _), start in zip(letters, starts, strict=True)]


def _is_final_sigma(token: list[tuple[int, int]], position: int) -> bool:
    """Returns whether a capital sigma ends a word: after a cased letter and before none (Unicode 14.0, table 3-17)."""
    before = (token[index][0] for index in range(position - 1, -1, -1))
    after = (token[index][0] for index in range(position + 1, len(token)))
    return _first_is_cased(before) and not _first_is_cased(after)


def _first_is_cased(points: Iterable[int]) -> bool:
    ignorable = unicode_table.case_ignorable()
    return next((point for point in points if point not in ignorable), None) in unicode_table.cased_letters()


def _in_canonical_order(letters: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorts each run of marks stably by combining class (Unicode 14.0, section 3.11)."""
    classes = unicode_table.combining_classes()
    ordered: list[tuple[int, int]] = []
    run: list[tuple[int, int]] = []
    for letter in letters:
        if letter[0] in classes:
            run.append(letter)
        else:
            ordered += [*sorted(run, key=lambda mark: classes[mark[0]]), letter]
            run = []
    return ordered + sorted(run, key=lambda mark: classes[mark[0]])


def _ends(starts: list[int], length: int) -> list[int]:
    """Returns the next source position that differs, for each position: [0, 0, 3], 5 -> [3, 3, 5]."""
    ends, end, following = [], length, length
    for start in reversed(starts):
        if start < following:
            end, following = following, start
        ends.append(end)
    return ends[::-1]
