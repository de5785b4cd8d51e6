"""Random texts for finding errors: all kinds of characters in combinations that tokenizers do not expect."""

import random
import unicodedata
from collections.abc import Callable, Iterator, Sequence

SIGMA = "\N{GREEK CAPITAL LETTER SIGMA}"


def generated_texts(seed: int, tokens: Sequence[str] = ("the", "##est")) -> Iterator[tuple[str, bytes]]:
    """Yields (kind, text) endlessly, all kinds in turn. One kind cuts and joins `tokens`."""
    rng = random.Random(seed)
    kinds = _kinds(tokens)
    while True:
        for name, make in kinds.items():
            text = make(rng)
            yield name, text if isinstance(text, bytes) else text.encode("utf-8", "ignore")


def every_code_point(first: int = 0, last: int = 0x10FFFF) -> Iterator[bytes]:
    """Yields two texts for each code point: alone, in a word, before a mark, between symbols; and after a sigma."""
    for point in range(first, last + 1):
        if not 0xD800 <= point <= 0xDFFF:
            character = chr(point)
            yield f"x {character} a{character}b 1{character}\u0301, .{character}.".encode()
            yield f"A{SIGMA}{character}".encode()


def _characters(condition: Callable[[str], bool]) -> list[str]:
    return [chr(point) for point in range(0x110000) if not 0xD800 <= point <= 0xDFFF and condition(chr(point))]


def _kinds(tokens: Sequence[str]) -> dict[str, Callable[[random.Random], str | bytes]]:
    by_category: dict[str, list[str]] = {}
    for character in _characters(lambda character: True):
        by_category.setdefault(unicodedata.category(character), []).append(character)
    marks = by_category["Mn"] + by_category["Mc"] + by_category["Me"]
    moving = [character for character in marks if unicodedata.combining(character)]
    hidden = by_category["Cc"] + by_category["Cf"] + ["\ufffd", "\0"]
    compatible = _characters(lambda character: unicodedata.decomposition(character) != "")
    separators = [*" \t\n\r\u00a0\u2028\u2029\u3000\u1680", *by_category["Zs"]]
    letters = [character for category in ("Lu", "Ll", "Lt", "Lm") for character in by_category[category]]
    # Blocks of 128 code points are mostly one script, so that words look like words.
    scripts = [
        block
        for start in range(0, 0x20000, 128)
        if len(block := [chr(p) for p in range(start, start + 128) if unicodedata.category(chr(p))[0] in "LM"]) > 20
    ]
    pieces = [token.removeprefix("##") for token in tokens]

    def script_words(rng: random.Random) -> str:
        script = rng.choice(scripts)
        return " ".join(_join(rng, [script], 8) for _ in range(rng.randint(1, 4)))

    def invalid(rng: random.Random) -> bytes:
        data = bytearray(_join(rng, [letters, marks, hidden, separators, "ab.," + SIGMA], 10).encode())
        for _ in range(rng.randint(1, 4)):
            byte = rng.choice([0x00, 0x41, 0x80, 0xBF, 0xC0, 0xC3, 0xE0, 0xE2, 0xED, 0xF0, 0xF4, 0xF5, 0xFF])
            position = rng.randint(0, len(data))
            data[position : position + rng.randint(0, 1)] = bytes([byte])
        return bytes(data)

    return {
        "every category": lambda rng: _join(rng, list(by_category.values())),
        "control and format": lambda rng: _join(rng, [hidden, separators, "abcdefgh", [SIGMA]]),
        "CJK": lambda rng: _join(rng, [_CJK, ["a", " ", "\u3002"], compatible[-600:], marks]),
        "combining marks": lambda rng: _join(rng, ["aeiou", marks, moving, moving, " "]),
        "decomposable": lambda rng: _join(rng, [compatible, compatible, marks, "ab .,"]),
        "full-width and ligatures": lambda rng: _join(rng, [_WIDE, _LIGATURES, "ab "]),
        "emoji": lambda rng: _join(rng, [_EMOJI, _EMOJI_PARTS, _EMOJI_PARTS, " a"]),
        "letters of one script": script_words,
        "letters of all scripts": lambda rng: _join(rng, [letters]),
        "sigmas": _sigmas,
        "long words": lambda rng: _long_word(rng, pieces),
        "invalid UTF-8": invalid,
        "random bytes": lambda rng: rng.randbytes(rng.randint(0, 12)),
        "tokens of the vocabulary": lambda rng: _glued_tokens(rng, pieces),
        "symbols": lambda rng: _join(rng, ["#" * 3, by_category["Po"], by_category["Sm"], "[MASK]", "a ", hidden]),
    }


def _join(rng: random.Random, pools: Sequence[Sequence[str]], longest: int = 20) -> str:
    return "".join(rng.choice(rng.choice(pools)) for _ in range(rng.randint(0, longest)))


def _sigmas(rng: random.Random) -> str:
    return _join(rng, [[SIGMA, SIGMA, "\u03c3", "\u03c2"], ["A", "\u03b1", " ", "1", "\u4e00"], ["'", ".", "\u0345"]])


def _long_word(rng: random.Random, pieces: Sequence[str]) -> str:
    length = rng.choice([99, 100, 101, 128, 199, 200, 201, 202, 250])
    letters = rng.choice(["a", "ab", "\u044f\u0416", "e\u0301", "\u00e9", "\uac01", "\U0001f600", "\u0a15\u0a3e"])
    word = (letters * length)[: length * (2 if letters == "e\u0301" else 1)]
    return _join(rng, [pieces, " "], 3) + word + rng.choice(["", ".", " ok", "\u0301", "\u4e00", "\u200b"])


def _glued_tokens(rng: random.Random, pieces: Sequence[str]) -> str:
    parts = [piece.upper() if rng.random() < 0.2 else piece for piece in rng.choices(pieces, k=rng.randint(1, 8))]
    return "".join(part + rng.choice(["", "", "", " ", "\u0301", ",", "\u00ad", "#", "##"]) for part in parts)


_CJK = [chr(point) for start in (0x3400, 0x4E00, 0xF900, 0x20000, 0x2F800) for point in range(start, start + 200)]
_WIDE = [chr(point) for point in range(0xFF00, 0xFFF0)]
_LIGATURES = [*map(chr, range(0xFB00, 0xFB07)), *map(chr, range(0xFB13, 0xFB18)), *"\u00df\u1e9e\u0132\u0153\u00c6"]
_EMOJI = [*map(chr, range(0x1F300, 0x1F6F0)), *map(chr, range(0x1F900, 0x1FB00)), *"\u2764\u00a9\u203c\u231a"]
_EMOJI_PARTS = ["\u200d", "\ufe0f", "\ufe0e", "\u20e3", "1", "#", *map(chr, range(0x1F1E6, 0x1F200)), "\U0001f3fd"]
