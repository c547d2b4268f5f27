"""Bytes of many records at once: what each column adds to each record, put together without a step per record.

A record's bytes are a sequence of *cells* (at most eight bytes each, held in a 64-bit number) and *runs* (texts, and
whatever else is longer). Neighbouring cells are written into one slot per record, eight bytes at a time from left to
right, so that what a short cell leaves behind is written over by the next; runs are joined in between by Arrow.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words: TypeAlias = npt.NDArray[np.uint64]
Lengths: TypeAlias = "npt.NDArray[np.int64] | int"
Bytes: TypeAlias = npt.NDArray[np.uint8]

_NOTHING = pa.scalar(b"", pa.large_binary())


class RecordBytes:
    """The bytes of `count` records, made from left to right.

    >>> made = RecordBytes(2)
    >>> made.cell(np.array([0x4241, 0x43], np.uint64), np.array([2, 1]))
    >>> made.run(pa.array([b"xyz", b""], pa.large_binary()))
    >>> made.join().to_pylist()
    [b'ABxyz', b'C']
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._cells: list[tuple[Words, Lengths]] = []
        self._parts: list[Any] = []
        self._lengths: npt.NDArray[np.int64] = np.zeros(count, np.int64)

    def cell(self, values: Words, lengths: Lengths) -> None:
        """Add the lowest `lengths` bytes (up to 8) of each number, the lowest first."""
        if isinstance(lengths, int) and lengths == 0:
            return
        self._cells.append((values, lengths))

    def same(self, data: bytes) -> None:
        """Add the same bytes to each record."""
        if 0 < len(data) <= 8:
            self.cell(np.full(self.count, int.from_bytes(data, "little"), np.uint64), len(data))
        elif data:
            self._flush()
            self._parts.append(pa.scalar(data, pa.large_binary()))
            self._lengths += len(data)

    def run(self, values: pa.Array) -> None:
        """Add bytes of any length; the array has no nulls."""
        self._flush()
        self._parts.append(values)
        self._lengths += lengths_of(values)

    def join(self, *, length_prefixed: bool = False) -> pa.LargeBinaryArray:
        """The records; each behind its length as a big-endian int, where that is asked for."""
        self._flush()
        parts = self._parts
        if length_prefixed:
            prefix = self._lengths.astype(">i4")
            offsets = np.arange(0, 4 * self.count + 1, 4, dtype=np.int64)
            parts = [binary(prefix.view(np.uint8), offsets), *parts]
        if len(parts) == 1 and isinstance(parts[0], pa.Array):
            return parts[0]
        if not any(isinstance(part, pa.Array) for part in parts):
            parts = [*parts, binary(np.zeros(0, np.uint8), np.zeros(self.count + 1, np.int64))]
        return pc.binary_join_element_wise(*parts, _NOTHING)

    def _flush(self) -> None:
        """What the cells since the last run make, as one part."""
        cells, self._cells = self._cells, []
        if not cells or not self.count:
            return
        total = sum((lengths for _, lengths in cells), np.int64(0))
        if isinstance(total, np.ndarray):
            self._parts.append(_slots(cells, total, self.count))
        else:
            width = int(total)
            matrix = np.empty((self.count, width), np.uint8)
            at = 0
            for values, length in cells:
                assert isinstance(length, int)
                matrix[:, at : at + length] = _as_bytes(values)[:, :length]
                at += length
            offsets = np.arange(0, self.count * width + 1, width, dtype=np.int64)
            self._parts.append(binary(matrix.reshape(-1), offsets))
        self._lengths += total


def _as_bytes(values: Words) -> Bytes:
    return np.ascontiguousarray(values, "<u8").view(np.uint8).reshape(-1, 8)


def _slots(cells: list[tuple[Words, Lengths]], total: npt.NDArray[np.int64], count: int) -> pa.LargeBinaryArray:
    """Cells of differing lengths, a slot of equal size for each record; then what the slots hold."""
    # Whatever a cell has, it writes eight bytes; the last one may have none, and all of them fall behind the record.
    width = int(total.max()) + 8
    buffer = np.empty(count * width, np.uint8)
    anywhere: Words = np.ndarray((len(buffer) - 7,), "<u8", buffer.data, strides=(1,))
    starts = np.arange(0, count * width, width, dtype=np.int64)
    at = starts.copy()
    for values, lengths in cells:
        anywhere[at] = values
        at += lengths
    # Every other one of these is a record; those between are what is left of the slots.
    offsets = np.empty(2 * count + 1, np.int64)
    offsets[0:-1:2], offsets[1::2], offsets[-1] = starts, at, count * width
    return binary(buffer, offsets).take(pa.array(np.arange(0, 2 * count, 2)))


def binary(data: Bytes, offsets: npt.NDArray[np.int64]) -> pa.LargeBinaryArray:
    """An Arrow array over bytes and the places where its values begin and end."""
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def offsets_of(values: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    """Where the values begin and end in their data."""
    return np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]


def lengths_of(values: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    """How many bytes each value has."""
    return np.diff(offsets_of(values))


def data_of(values: pa.LargeBinaryArray) -> Bytes:
    """The bytes that `offsets_of` counts in."""
    buffer = values.buffers()[2]
    return np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def spread(values: pa.LargeBinaryArray, valid: npt.NDArray[np.bool_]) -> pa.LargeBinaryArray:
    """The values at the places that are valid, nothing at the others; no byte is copied.

    >>> spread(pa.array([b"a", b"b"], pa.large_binary()), np.array([True, False, True])).to_pylist()
    [b'a', b'', b'b']
    """
    lengths = np.zeros(len(valid) + 1, np.int64)
    lengths[1:][valid] = lengths_of(values)
    offsets = np.cumsum(lengths)
    return binary(data_of(values), offsets + (offsets_of(values)[0] if len(values) else 0))


# Avro's numbers

_FULL = np.uint64(0x8080808080808080)
_MORE = np.array([int(_FULL) & ((1 << (8 * max(size - 1, 0))) - 1) for size in range(9)] + [int(_FULL)] * 2, np.uint64)


def varints(values: npt.NDArray[np.int64]) -> list[tuple[Words, Lengths]]:
    """Signed numbers as Avro writes them: zigzag, seven bits a byte, as cells.

    >>> made = RecordBytes(3)
    >>> for cell in varints(np.array([0, -1, 64])):
    ...     made.cell(*cell)
    >>> [value.hex() for value in made.join().to_pylist()]
    ['00', '01', '8001']
    """
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    largest = int(zigzag.max(initial=0))
    if largest < 0x80:
        return [(zigzag, 1)]
    sizes = np.ones(len(values), np.int64)
    step = 7
    while largest >> step:
        sizes += zigzag >= np.uint64(1 << step)
        step += 7
        if step > 63:
            break
    # Each seven bits to a byte of their own, by halves.
    low = zigzag & np.uint64((1 << 56) - 1)
    for mask, shift in ((0x00FFFFFFF0000000, 4), (0x0FFFC0000FFFC000, 2), (0x3F803F803F803F80, 1)):
        high = low & np.uint64(mask)
        low ^= high
        low |= high << np.uint64(shift)
    low |= _MORE[sizes]
    if largest < 1 << 56:
        return [(low, sizes)]
    rest = zigzag >> np.uint64(56)
    tail = (rest & np.uint64(0x7F)) | ((rest >> np.uint64(7)) << np.uint64(8))
    tail |= np.where(sizes == 10, np.uint64(0x80), np.uint64(0))
    return [(low, np.minimum(sizes, 8)), (tail, np.maximum(sizes - 8, 0))]
