"""Numbers as in Google's file formats: varints and masked checksums.

TFRecord files, TensorFlow's checkpoints and protobuf messages use them.
"""

from typing import Any

_CHECKED_AT_ONCE = 1 << 24  # bytes; google_crc32c needs a copy of its input, so long data is copied in parts
_MOST_BITS = 63


def masked_crc32c(data: bytes | memoryview) -> int:
    """Returns the masked CRC-32C of the data, computed in parts of 16 MiB to save memory."""
    import google_crc32c

    if len(data) <= _CHECKED_AT_ONCE:
        return mask_checksum(google_crc32c.value(bytes(data)))
    checksum = 0
    for start in range(0, len(data), _CHECKED_AT_ONCE):
        checksum = google_crc32c.extend(checksum, bytes(data[start : start + _CHECKED_AT_ONCE]))
    return mask_checksum(checksum)


def mask_checksum(checksum: Any) -> Any:
    """Returns a CRC-32C, rotated and with a constant added. A plain CRC of data that holds CRCs detects fewer errors.

    Args:
        checksum: int or uint32 array.

    Reference: tensorflow/core/lib/hash/crc32c.h, `Mask`.
    """
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Returns the varint at `offset` and the offset after it: (b"\\xac\\x02", 0) -> (300, 2).

    Raises:
        IndexError: the data ends within the number.
        ValueError: the number has more than 10 bytes, the most that a 64-bit number needs.
    """
    number = data[offset]
    if number < 0x80:
        return number, offset + 1
    number = shift = 0
    while True:
        byte = data[offset]
        offset += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, offset
        if shift > _MOST_BITS:
            raise ValueError("a number is too long")
