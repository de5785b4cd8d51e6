"""Compares the graph's ids and byte offsets with those of the Python tokenizer."""

import itertools
import pickle
from collections.abc import Sequence

from tokenizers import Tokenizer

from keras_bert import load_vocabulary


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


def assert_ids_of(theirs, ours, texts: Sequence[str], *about) -> None:
    """Asserts that a tokenizer gives texts the ids of one of the package tokenizers."""
    for text, encoding in zip(texts, theirs.encode_batch(texts, add_special_tokens=False), strict=True):
        assert ours.encode(text) == encoding.ids, (text, encoding.tokens, *about)


def assert_is_the_tokenizer_of(theirs, ours, texts: Sequence[str], folder) -> None:
    """Asserts that a tokenizer has the ids of one of the package tokenizers: in Python and in the graph, with the same
    offsets; as a pickle; and from the files that it writes into a folder, which both packages read."""
    assert_ids_of(theirs, ours, texts)
    assert graph_differences(ours, texts) == []
    assert pickle.loads(pickle.dumps(ours)).sha256 == ours.sha256
    ours.save(folder)
    read = load_vocabulary(folder)
    assert (read.sha256, read.special_tokens) == (ours.sha256, ours.special_tokens)
    written = Tokenizer.from_file(str(folder / "tokenizer.json"))
    written.encode_special_tokens = True
    assert_ids_of(written, ours, texts)


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


def graph_differences(tokenizer, texts, core_operations=False, may_differ=lambda tokenizer, ids, others: False):
    """Returns the texts for which the graph of any tokenizer gives other ids or offsets than Python.

    For WordPiece they must be valid UTF-8: the others count an invalid byte as a character.
    """
    data = [text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape") for text in texts]
    graph = tokenizer.graph(core_operations=core_operations)
    only_ids = graph.tokenize(data).to_list()
    different = []
    rows = (part.to_list() for part in graph.tokenize_with_offsets(data))
    for text, alone, *row in zip(data, only_ids, *rows, strict=True):
        ids, starts, ends = tokenizer.tokenize_with_offsets(text)
        assert ids == tokenizer.encode(text)
        assert alone == row[0]
        lengths = [len(one.encode("utf-8", "surrogateescape")) for one in text.decode("utf-8", "surrogateescape")]
        sums = [0, *itertools.accumulate(lengths)]
        expected = [ids, [sums[place] for place in starts], [sums[place] for place in ends]]
        if row != expected and not may_differ(tokenizer, ids, row[0]):
            different.append(text.decode("utf-8", "surrogateescape"))
    return different
