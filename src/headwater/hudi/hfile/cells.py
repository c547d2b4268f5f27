"""The payload of a data block: a sequence of cells, each a key and a value (format facts 9.2)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.hudi.hfile.block import corrupt

_Positions: TypeAlias = npt.NDArray[np.int64]
_LENGTHS = struct.Struct(">II")
# family length 0, timestamp Long.MAX_VALUE, type Put
_KEY_TAIL = b"\x00" + (0x7FFFFFFFFFFFFFFF).to_bytes(8, "big") + b"\x04"
LONGEST_KEY = 0x7FFF


@dataclass(frozen=True, slots=True)
class CellFormat:
    """What follows a value, by the file info: an MVCC number, and the tags that plain HBase may write before it."""

    mvcc: bool = True
    tags: bool = False


@dataclass(frozen=True, slots=True)
class Cells:
    """A decoded data block: where each cell's key and value lie in the payload."""

    payload: bytes
    key_from: _Positions
    key_to: _Positions
    value_from: _Positions
    value_to: _Positions

    def __len__(self) -> int:
        return len(self.key_from)

    def key(self, index: int) -> bytes:
        return self.payload[self.key_from[index] : self.key_to[index]]

    def value(self, index: int) -> bytes:
        return self.payload[self.value_from[index] : self.value_to[index]]

    def pairs(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[bytes, bytes]]:
        """The cells from `start` to `stop` as (key, value)."""
        cut = slice(start, stop)
        places = (self.key_from, self.key_to, self.value_from, self.value_to)
        payload = self.payload
        for key_from, key_to, value_from, value_to in zip(*(place[cut].tolist() for place in places), strict=True):
            yield payload[key_from:key_to], payload[value_from:value_to]

    def bisect(self, key: bytes, low: int = 0) -> int:
        """The first cell at or behind `low` whose key is not before `key`."""
        high = len(self)
        while low < high:
            middle = (low + high) // 2
            if self.key(middle) < key:
                low = middle + 1
            else:
                high = middle
        return low

    def columns(self) -> tuple[pa.Array, pa.Array]:
        """Keys and values as Arrow binary arrays.

        The payload is seen as one binary array whose elements alternate between key, value and what lies between, so
        that Arrow gathers both columns without a step per cell.
        """
        count = len(self)
        offsets = np.empty(4 * count + 1, np.int32)
        offsets[0:-1:4] = self.key_from
        offsets[1::4] = self.key_to
        offsets[2::4] = self.value_from
        offsets[3::4] = self.value_to
        offsets[-1] = len(self.payload)
        pieces = pa.Array.from_buffers(
            pa.binary(), 4 * count, [None, pa.py_buffer(offsets), pa.py_buffer(self.payload)]
        )
        at = np.arange(0, 4 * count, 4, dtype=np.int32)
        return pieces.take(pa.array(at)), pieces.take(pa.array(at + 2))


def read_cells(payload: bytes | memoryview, form: CellFormat, *, name: str, offset: int) -> Cells:
    """The cells of a data block.

    >>> cells = read_cells(write_cells([(b"a", b"1"), (b"b", b"2")]), CellFormat(), name="example", offset=0)
    >>> list(cells.pairs())
    [(b'a', b'1'), (b'b', b'2')]
    """
    data = bytes(payload)
    starts = _walk(data) if form == CellFormat() else None
    raw = np.frombuffer(data, np.uint8)
    if starts is None or _has_long_mvcc(raw, starts):
        starts = _walk_with_extras(data, form)
        if starts is None:
            raise corrupt(name, offset, "the cells of the data block do not fill it")
    begin = np.array(starts, np.int64)
    count = len(begin)
    key_length, value_length = _lengths(raw, begin)
    if count and key_length.min() < 12:
        raise corrupt(name, offset, "a cell key is shorter than the 12 bytes around its row")
    row_length = (raw[begin + 8].astype(np.int64) << 8) | raw[begin + 9]
    if bool((row_length + 12 > key_length).any()):
        raise corrupt(name, offset, "a row is longer than the cell key that holds it")
    key_from = begin + 10
    value_from = begin + 8 + key_length
    return Cells(data, key_from, key_from + row_length, value_from, value_from + value_length)


def write_cells(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The payload of a data block with these cells."""
    parts: list[bytes] = []
    for key, value in entries:
        parts += (
            _LENGTHS.pack(len(key) + 12, len(value)),
            len(key).to_bytes(2, "big"),
            key,
            _KEY_TAIL,
            value,
            b"\x00",
        )
    return b"".join(parts)


def join_cells(keys: pa.Array, values: pa.Array) -> pa.Array:
    """The cells of these keys and values, one binary each and without a step per cell: `write_cells` is their sum.

    >>> cells = join_cells(pa.array([b"a"], pa.binary()), pa.array([b"1"], pa.binary()))
    >>> cells[0].as_py() == write_cells([(b"a", b"1")])
    True
    """
    kind = pa.large_binary()
    key_length = pc.binary_length(keys).to_numpy(zero_copy_only=False).astype(np.int64)
    value_length = pc.binary_length(values).to_numpy(zero_copy_only=False).astype(np.int64)
    head = np.empty((len(keys), 10), np.uint8)
    head[:, 0:4] = (key_length + 12).astype(">u4").view(np.uint8).reshape(-1, 4)
    head[:, 4:8] = value_length.astype(">u4").view(np.uint8).reshape(-1, 4)
    head[:, 8:10] = key_length.astype(">u2").view(np.uint8).reshape(-1, 2)
    heads = pa.Array.from_buffers(pa.binary(10), len(keys), [None, pa.py_buffer(head)]).cast(kind)
    tail, end = pa.scalar(_KEY_TAIL, kind), pa.scalar(b"\x00", kind)
    return pc.binary_join_element_wise(heads, keys.cast(kind), tail, values.cast(kind), end, pa.scalar(b"", kind))


def serialized_key(key: bytes) -> bytes:
    """A key as Hudi's own writer puts it into the index and into `hfile.LASTKEY`."""
    return len(key).to_bytes(2, "big") + key


def whole_key(key: bytes) -> bytes:
    """A key as HBase's writer puts it there: all of the cell's key, without which HBase's reader does not find it."""
    return serialized_key(key) + _KEY_TAIL


def _walk(data: bytes) -> list[int] | None:
    """Where the cells start when each ends with one MVCC byte; None when they do not end with the block.

    Each cell's place depends on the lengths of the one before: this is the one loop over cells, 0.2 s per million.
    """
    starts: list[int] = []
    unpack, last = _LENGTHS.unpack_from, len(data) - 8
    at = 0
    while at <= last:
        starts.append(at)
        key_length, value_length = unpack(data, at)
        at += 9 + key_length + value_length
    return starts if at == len(data) else None


def _walk_with_extras(data: bytes, form: CellFormat) -> list[int] | None:
    """As `_walk`, for the cells that plain HBase may write: with tags, with MVCC numbers of any length or without."""
    starts: list[int] = []
    end = len(data)
    at = 0
    while at + 8 <= end:
        starts.append(at)
        key_length, value_length = _LENGTHS.unpack_from(data, at)
        at += 8 + key_length + value_length
        if form.tags:
            at += 2 + int.from_bytes(data[at : at + 2], "big")
        if form.mvcc:
            first = data[at] if at < end else 0
            at += 1 if first <= 0x7F or first >= 0x90 else 1 + (0x88 - first if first < 0x88 else 0x90 - first)
    return starts if at == end else None


def _lengths(raw: npt.NDArray[np.uint8], begin: _Positions) -> tuple[_Positions, _Positions]:
    both = raw[begin[:, np.newaxis] + np.arange(8)].view(">u4").astype(np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _has_long_mvcc(raw: npt.NDArray[np.uint8], starts: list[int]) -> bool:
    ends = raw[np.array([*starts[1:], len(raw)], np.int64) - 1] if starts else raw[:0]
    return bool(((ends >= 0x80) & (ends < 0x90)).any())
