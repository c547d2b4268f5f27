"""The little of protobuf's wire format that the trailer and the file info use: varints and byte fields."""

from __future__ import annotations

from collections.abc import Iterator


class MessageError(Exception):
    """The bytes are no protobuf message; the caller adds where."""


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """An unsigned varint (64 bits, as protobuf cuts it) and the position behind it.

    >>> read_varint(b"\\xac\\x02", 0)
    (300, 2)
    """
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise MessageError("a varint does not end")


def write_varint(value: int) -> bytes:
    """An unsigned varint; negative values as 64-bit two's complement.

    >>> write_varint(300).hex(), len(write_varint(-1))
    ('ac02', 10)
    """
    value &= 0xFFFFFFFFFFFFFFFF
    result = bytearray()
    while value > 0x7F:
        result.append((value & 0x7F) | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def read_fields(data: bytes | memoryview) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in order: (number, varint value or bytes); fixed-width fields as bytes.

    >>> list(read_fields(write_field(1, 300) + write_field(2, b"ab")))
    [(1, 300), (2, b'ab')]
    """
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = read_varint(data, at)
            yield number, value
            continue
        if kind == 2:
            length, at = read_varint(data, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise MessageError(f"there is no wire type {kind}")
        if at + length > len(data):
            raise MessageError(f"field {number} has {length} bytes where {len(data) - at} are left")
        yield number, bytes(data[at : at + length])
        at += length


def write_field(number: int, value: int | bytes) -> bytes:
    """One field: ints as varints, bytes with their length."""
    if isinstance(value, int):
        return write_varint(number << 3) + write_varint(value)
    return write_varint(number << 3 | 2) + write_varint(len(value)) + value
