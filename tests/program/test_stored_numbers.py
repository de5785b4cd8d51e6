"""Varints and masked checksums match examples from the documentation of the formats."""

import numpy as np
import pytest

from keras_bert.program import stored_numbers
from keras_bert.program.stored_numbers import mask_checksum, masked_crc32c, read_varint

LARGEST = [(2**63 - 1, b"\xff" * 8 + b"\x7f"), (2**64 - 1, b"\xff" * 9 + b"\x01")]  # the last is -1 in protobuf


@pytest.mark.parametrize(
    ("number", "data"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), *LARGEST]
)
def test_varints_match_the_documentation_of_protobuf(number, data):
    assert read_varint(b"?" + data + b"rest", 1) == (number, 1 + len(data))


def test_varints_that_are_cut_off_or_too_long_are_errors():
    with pytest.raises(IndexError):
        read_varint(b"\x80\x80", 0)
    with pytest.raises(ValueError, match="too long"):
        read_varint(b"\x80" * 11, 0)


def test_checksums_are_masked_as_tensorflow_masks_them():
    # 0xE3069283 is the CRC-32C of "123456789" (RFC 3720 and others): rotated right by 15 bits, plus 0xA282EAD8.
    rotated = int(f"{0xE3069283:032b}"[-15:] + f"{0xE3069283:032b}"[:-15], 2)
    expected = (rotated + 0xA282EAD8) % 2**32
    assert masked_crc32c(b"123456789") == expected
    assert mask_checksum(np.array([0xE3069283], np.uint32)).tolist() == [expected]


def test_long_data_are_checked_in_pieces(monkeypatch):
    data = bytes(range(256)) * 10
    whole = masked_crc32c(data)
    monkeypatch.setattr(stored_numbers, "_CHECKED_AT_ONCE", 100)
    assert masked_crc32c(memoryview(data)) == whole
