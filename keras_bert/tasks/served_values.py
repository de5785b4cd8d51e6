"""Values in the outputs of served models: texts as `str`, and places in texts as characters.

Servers give strings as bytes or `str`, and count bytes. Texts need not be UTF-8: then U+FFFD stands for wrong bytes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np


def rows_of(outputs: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """Returns the outputs of each row, by name.

    >>> rows_of({"a": [1, 2], "b": [["x"], ["y"]]})
    [{'a': 1, 'b': ['x']}, {'a': 2, 'b': ['y']}]
    """
    return [dict(zip(outputs, values, strict=True)) for values in zip(*outputs.values(), strict=True)]


def text_of(value: str | bytes) -> str:
    """Returns a string as `str` that is valid Unicode.

    >>> text_of(b"caf\\xc3\\xa9"), text_of(b"\\xff")
    ('café', '\ufffd')
    """
    return _bytes_of(value).decode("utf-8", "replace")


def characters_of(text: str | bytes, starts: Iterable[int], ends: Iterable[int]) -> list[tuple[int, int]]:
    """Returns the characters `start:end` for each pair of byte offsets.

    >>> characters_of("Zoë is", [0, 5], [4, 7])
    [(0, 3), (4, 6)]
    """
    data = _bytes_of(text)

    def character(offset) -> int:
        return len(data[: int(offset)].decode("utf-8", "replace"))

    return [(character(start), character(end)) for start, end in zip(starts, ends, strict=True)]


def byte_places(text: str) -> np.ndarray:
    """Returns the byte where each character begins, and the number of bytes: "Zoë" -> [0, 1, 2, 4]."""
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    return np.concatenate([[0], np.cumsum(1 + (points > 0x7F) + (points > 0x7FF) + (points > 0xFFFF))])


def padded(rows: Sequence[Sequence[tuple]], specs: Mapping[str, tuple]) -> dict[str, list]:
    """Returns the output for each place of the tuples, rows of equal length; see `AnswerSignature` for `specs`.

    >>> padded([[("a", 3)], []], {"names": ("", None), "starts": (-1, None)})
    {'names': [['a'], ['']], 'starts': [[3], [-1]]}
    """
    longest = max(map(len, rows))
    unused = tuple(values[0] if len(values) < 3 else [values[0]] * values[2] for values in specs.values())
    filled = [[*row, *[unused] * (longest - len(row))] for row in rows]
    return {name: [[values[place] for values in row] for row in filled] for place, name in enumerate(specs)}


def _bytes_of(value: str | bytes) -> bytes:
    # Python decodes invalid UTF-8 of command lines as surrogates.
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
