"""Numbers as Google's file formats store them: varints, and masked checksums.

TFRecord files, TensorFlow's checkpoints and protobuf messages share them.
"""

from typing import Any

_CHECKED_AT_ONCE = 1 << 24  # bytes that are copied for the checksum
_MOST_BITS = 63


def masked_crc32c(data: bytes | memoryview) -> int:
    """Returns the masked CRC-32C of bytes, without a copy of all of them."""
    import google_crc32c

    if len(data) <= _CHECKED_AT_ONCE:
        return mask_checksum(google_crc32c.value(bytes(data)))
    checksum = 0
    for start in range(0, len(data), _CHECKED_AT_ONCE):
        checksum = google_crc32c.extend(checksum, bytes(data[start : start + _CHECKED_AT_ONCE]))
    return mask_checksum(checksum)


def mask_checksum(checksum: Any) -> Any:
    """Rotates a CRC-32C, int or uint32 array, and adds a constant: a CRC of data that holds CRCs is a weak one.

    Reference: tensorflow/core/lib/hash/crc32c.h, `Mask`.
    """
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def write_varint(number: int) -> bytes:
    """300 -> b"\\xac\\x02": seven bits a byte, the lowest first."""
    result = bytearray()
    while number >= 0x80:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*result, number])


def read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Returns the number at `offset` and the offset behind it.

    Raises:
        IndexError: the data end within the number.
        ValueError: the number has more than 63 bits.
    """
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
