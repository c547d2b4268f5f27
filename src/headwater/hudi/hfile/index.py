"""Block indexes of an HFile: the root's flat list and the leaf and intermediate blocks' arrays (format facts 9.3)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from headwater.hudi.hfile.block import corrupt

_ENTRY = struct.Struct(">qi")
_SHORT = struct.Struct(">H")


@dataclass(frozen=True, slots=True)
class IndexNode:
    """The children of one index block, by first key.

    A key is at or before the first key of its child and behind the last key of the child before it: writers shorten
    it where they can. `exact` says that the keys are the children's own first keys and that no key spans two children,
    as in files of Hudi's own writer.
    """

    keys: Sequence[bytes]
    offsets: Sequence[int]
    sizes: Sequence[int]
    exact: bool

    def __len__(self) -> int:
        return len(self.keys)


def row_of(key: bytes | memoryview) -> bytes | None:
    """The row (Hudi: the record key) of a serialized cell key, None when its length does not fit.

    >>> row_of(b"\\x00\\x02ab" + bytes(10))
    b'ab'
    """
    if len(key) < 2:
        return None
    (length,) = _SHORT.unpack_from(key)
    return bytes(key[2 : 2 + length]) if 2 + length <= len(key) else None


def read_root(payload: bytes | memoryview, count: int, *, name: str, offset: int, rows: bool) -> IndexNode:
    """The `count` entries of a root index block.

    `rows` says that the keys are cell keys (data index), not plain names (meta index). What follows the entries (the
    middle key of a deep index) is not read.
    """
    keys: list[bytes] = []
    offsets: list[int] = []
    sizes: list[int] = []
    at = 0
    for _ in range(count):
        if at + 13 > len(payload):
            raise corrupt(name, offset, f"an index of {count} entries ends after {len(keys)}")
        block_offset, size = _ENTRY.unpack_from(payload, at)
        length, at = _read_vint(payload, at + 12)
        if length < 0 or at + length > len(payload):
            raise corrupt(name, offset, f"index entry {len(keys)} has an impossible key length {length}")
        keys.append(bytes(payload[at : at + length]))
        offsets.append(block_offset)
        sizes.append(size)
        at += length
    return _node(keys, offsets, sizes, name=name, offset=offset, rows=rows)


def write_root(entries: Sequence[tuple[bytes, int, int]]) -> bytes:
    """The payload of a root index block from (key, block offset, block size).

    >>> node = read_root(write_root([(b"name", 5, 50)]), 1, name="example", offset=0, rows=False)
    >>> node.keys, node.offsets, node.sizes
    ([b'name'], [5], [50])
    """
    return b"".join(_ENTRY.pack(offset, size) + _write_vint(len(key)) + key for key, offset, size in entries)


def read_leaf(payload: bytes | memoryview, *, name: str, offset: int) -> IndexNode:
    """The entries of a leaf or intermediate index block: a count, positions of the entries, the entries."""
    if len(payload) < 8:
        raise corrupt(name, offset, "an index block without entries")
    (count,) = struct.unpack_from(">i", payload)
    start = 4 + 4 * (count + 1)
    if count <= 0 or start > len(payload):
        raise corrupt(name, offset, f"an index block of {len(payload)} bytes declares {count} entries")
    places = struct.unpack_from(f">{count + 1}i", payload, 4)
    keys: list[bytes] = []
    offsets: list[int] = []
    sizes: list[int] = []
    for begin, end in pairwise(places):
        if begin < 0 or end < begin + 12 or start + end > len(payload):
            raise corrupt(name, offset, f"index entry {len(keys)} lies outside its block")
        block_offset, size = _ENTRY.unpack_from(payload, start + begin)
        keys.append(bytes(payload[start + begin + 12 : start + end]))
        offsets.append(block_offset)
        sizes.append(size)
    return _node(keys, offsets, sizes, name=name, offset=offset, rows=True)


def write_leaf(entries: Sequence[tuple[bytes, int, int]]) -> bytes:
    """The payload of a leaf or intermediate index block from (cell key, block offset, block size).

    >>> node = read_leaf(write_leaf([(b"\\x00\\x01a", 5, 50)]), name="example", offset=0)
    >>> node.keys, node.offsets
    ([b'a'], [5])
    """
    bodies = [_ENTRY.pack(offset, size) + key for key, offset, size in entries]
    places = [0]
    for body in bodies:
        places.append(places[-1] + len(body))
    return struct.pack(f">{len(places) + 1}i", len(bodies), *places) + b"".join(bodies)


def _node(keys: list[bytes], offsets: list[int], sizes: list[int], *, name: str, offset: int, rows: bool) -> IndexNode:
    exact = True
    if rows:
        stripped: list[bytes] = []
        for key in keys:
            row = row_of(key)
            if row is None:
                raise corrupt(name, offset, f"index entry {len(stripped)} holds no cell key")
            exact = exact and len(key) == 2 + len(row)
            stripped.append(row)
        keys = stripped
        if any(left > right for left, right in pairwise(keys)):
            raise corrupt(name, offset, "the index's keys are out of order")
    return IndexNode(keys, offsets, sizes, exact)


def _read_vint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Hadoop's variable-length int; a length of -1 when it does not end."""
    first = data[at] if at < len(data) else 0x87
    if first <= 0x7F or first >= 0x90:
        return (first if first <= 0x7F else first - 256), at + 1
    negative = first < 0x88
    count = 0x88 - first if negative else 0x90 - first
    if at + 1 + count > len(data):
        return -1, len(data)
    value = int.from_bytes(data[at + 1 : at + 1 + count], "big")
    return (~value if negative else value), at + 1 + count


def _write_vint(value: int) -> bytes:
    if value <= 0x7F:
        return bytes([value])
    count = (value.bit_length() + 7) // 8
    return bytes([0x90 - count]) + value.to_bytes(count, "big")
