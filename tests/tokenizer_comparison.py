"""Compares the graph's ids and byte offsets with those of the Python tokenizer."""

from collections.abc import Sequence


def differences(graph, python, texts: Sequence[bytes]) -> list[str]:
    """Returns one line for each text on which `GraphTokenizer` and `WordPieceTokenizer` differ."""
    lines = []
    ids_alone = graph.tokenize(texts).to_list()
    rows = zip(texts, ids_alone, *(ragged.to_list() for ragged in graph.tokenize_with_offsets(texts)), strict=True)
    for text, alone, *found in rows:
        expected = expected_in_bytes(python, text)
        if alone != expected[0] or found != expected:
            lines.append(f"{text!r}: expected {expected}, found {found}, without offsets {alone}")
    return lines


def expected_in_bytes(python, text: bytes) -> list[list[int]]:
    """Ids, starts and ends by the Python tokenizer, offsets in bytes of `text`."""
    ids, starts, ends = python.tokenize_with_offsets(text)
    places = _byte_places(text)
    return [ids, [places[start] for start in starts], [places[end] for end in ends]]


def _byte_places(text: bytes) -> list[int]:
    """Returns the first byte and the length of each character of `text`. Invalid UTF-8 does not count as characters."""
    places = []
    position = 0
    # Each invalid byte is one lone surrogate here.
    for character in text.decode("utf-8", errors="surrogateescape"):
        is_invalid = 0xDC80 <= ord(character) <= 0xDCFF
        if not is_invalid:
            places.append(position)
        position += 1 if is_invalid else len(character.encode())
    return [*places, len(text)]
