"""Structs in Thrift's compact protocol, which Parquet writes its footers and page headers in.

Only as much is decoded as is asked for: a struct is its fields, each the bytes that it takes.

>>> data = write_struct({1: Field(INT, number(7)), 20: Field(STRUCT, write_struct({}))})
>>> found, end = read_struct(data, 0)
>>> int_of(found[1]), len(found[20].raw), end == len(data)
(7, 1, True)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

INT, LONG, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
_BOOLS, _BYTE, _INTEGERS, _DOUBLE, _LISTS, _MAP = (1, 2), 3, (4, 5, 6), 7, (9, 10), 11
_DEEPEST = 16


class Field(NamedTuple):
    """A field's type and the bytes of its value."""

    kind: int
    raw: bytes


def read_struct(data: bytes, at: int) -> tuple[dict[int, Field], int]:
    """The fields of the struct at a place, and where it ends. Bytes that are none raise ValueError or IndexError."""
    found: dict[int, Field] = {}
    name = 0
    while (head := data[at]) != 0:
        at += 1
        kind = head & 15
        if head >> 4:
            name += head >> 4
        else:
            zigzag, at = _varint(data, at)
            name = (zigzag >> 1) ^ -(zigzag & 1)
        end = _skip(data, at, kind, 0)
        if end > len(data):
            raise IndexError("a struct ends within a field")
        found[name] = Field(kind, data[at:end])
        at = end
    return found, at + 1


def write_struct(fields: Mapping[int, Field]) -> bytes:
    out = bytearray()
    before = 0
    for name in sorted(fields):
        kind, raw = fields[name]
        out += bytes([((name - before) << 4) | kind]) if 0 < name - before < 16 else bytes([kind]) + number(name)
        out += raw
        before = name
    return bytes(out) + b"\0"


def read_list(field: Field) -> list[bytes]:
    """The items of a list, each as its bytes."""
    data = field.raw
    kind, count, at = _list_head(data, 0)
    items = []
    for _ in range(count):
        end = _skip(data, at, kind, 0) if kind not in _BOOLS else at + 1
        items.append(data[at:end])
        at = end
    return items


def write_list(kind: int, items: Sequence[bytes]) -> Field:
    size = len(items)
    head = bytes([size << 4 | kind]) if size < 15 else bytes([0xF0 | kind]) + _unsigned(size)
    return Field(LIST, head + b"".join(items))


def number(value: int) -> bytes:
    """An int or a long."""
    return _unsigned((value << 1) ^ (value >> 63))


def int_of(field: Field) -> int:
    if field.kind not in _INTEGERS:
        raise ValueError(f"a field of type {field.kind} where a number should be")
    zigzag, _ = _varint(field.raw, 0)
    return (zigzag >> 1) ^ -(zigzag & 1)


def text_of(field: Field) -> bytes:
    """The bytes of a text."""
    length, at = _varint(field.raw, 0)
    return field.raw[at : at + length]


def _unsigned(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    head = data[at]
    count, at = (head >> 4, at + 1) if head >> 4 < 15 else _varint(data, at + 1)
    _check_count(data, at, count)
    return head & 15, count, at


def _check_count(data: bytes, at: int, count: int) -> None:
    """An item takes a byte at least: a damaged count must not be counted to."""
    if count > len(data) - at:
        raise IndexError("more items than bytes")


def _skip(data: bytes, at: int, kind: int, depth: int) -> int:
    """Where the value of some type ends that begins at a place."""
    if depth > _DEEPEST:
        raise ValueError("a struct nests deeper than any does")
    if kind in _BOOLS:
        return at  # the value is in the field's type
    if kind == _BYTE:
        return at + 1
    if kind in _INTEGERS:
        return _varint(data, at)[1]
    if kind == _DOUBLE:
        return at + 8
    if kind == BINARY:
        length, at = _varint(data, at)
        return at + length
    if kind in _LISTS:
        item, count, at = _list_head(data, at)
        for _ in range(count):
            at = _skip(data, at, item, depth + 1) if item not in _BOOLS else at + 1
        return at
    if kind == STRUCT:
        while (head := data[at]) != 0:
            at = _skip(data, at + 1 if head >> 4 else _varint(data, at + 1)[1], head & 15, depth + 1)
        return at + 1
    if kind == _MAP:
        count, at = _varint(data, at)
        if count:
            _check_count(data, at, count)
            kinds, at = data[at], at + 1
            for _ in range(count):
                at = _skip(data, _skip(data, at, kinds >> 4, depth + 1), kinds & 15, depth + 1)
        return at
    raise ValueError(f"a field of type {kind}, which there is not")
