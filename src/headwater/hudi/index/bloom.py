"""Bloom filters of base files, as Hudi keeps them in Parquet footers, HFiles and the metadata table (facts 10)."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import CorruptFile, InvalidArgument, UnsupportedTable
from headwater.hudi.index.hashing import rows_by_length

_Bytes: TypeAlias = npt.NDArray[np.uint8]
_Words: TypeAlias = npt.NDArray[np.uint32]
_Positions: TypeAlias = npt.NDArray[np.int64]

SIMPLE, DYNAMIC = "SIMPLE", "DYNAMIC_V0"

_HEADER = struct.Struct(">iiBi")
_DYNAMIC_HEADER = struct.Struct(">iii")
_VERSION = -1
_MURMUR = 1
_M = np.uint32(0x5BD1E995)


@dataclass(frozen=True, slots=True, eq=False)
class BloomFilter:
    """A filter with one row of bits (SIMPLE) or several (DYNAMIC_V0, which adds rows as keys come).

    `rows` are the rows' bits, eight to a byte, the lowest first.

    >>> filter_ = BloomFilter.sized(100, 1e-9).add(pa.array(["k1", "k2"]))
    >>> filter_.might_contain(pa.array(["k1", "k2", "k3", None])).to_pylist()
    [True, True, False, None]
    """

    kind: str
    hashes: int
    bits: int
    rows: tuple[bytes, ...]
    keys_per_row: int = 0
    keys_in_last_row: int = 0

    @classmethod
    def sized(cls, keys: int, false_positives: float = 1e-9, *, kind: str = SIMPLE) -> BloomFilter:
        """An empty filter for so many keys, of the size that Hudi gives it.

        >>> BloomFilter.sized(60000).bits, BloomFilter.sized(60000).hashes
        (2587966, 30)
        """
        if keys <= 0 or not 0 < false_positives < 1:
            raise InvalidArgument("a bloom filter needs a positive number of keys and a rate between 0 and 1")
        bits = math.ceil(keys * (-math.log(false_positives) / math.log(2) ** 2))
        hashes = math.ceil(bits / keys * math.log(2))
        return cls(kind, hashes, bits, (bytes(-(-bits // 8)),), keys if kind == DYNAMIC else 0)

    @classmethod
    def parse(cls, text: str | bytes, kind: str | None = None, *, name: str = "bloom filter") -> BloomFilter:
        """A filter from its Base64 text; `kind` is the type code stored beside it, absent for SIMPLE.

        >>> BloomFilter.parse(BloomFilter.sized(10).serialize(), "SIMPLE").bits
        432
        """
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise CorruptFile(f"{name}: the bloom filter is not Base64 ({error}); rewrite the file") from error
        if kind in (None, "", SIMPLE):
            hashes, bits, row, _ = _read_row(data, 0, name)
            return cls(SIMPLE, hashes, bits, (row,))
        if kind != DYNAMIC:
            raise UnsupportedTable(f"{name}: bloom filters of type {kind!r} are not known; known: {SIMPLE}, {DYNAMIC}")
        hashes, bits = _read_header(data, 0, name)
        if len(data) < _HEADER.size + _DYNAMIC_HEADER.size:
            raise _cut_short(name)
        per_row, in_last, count = _DYNAMIC_HEADER.unpack_from(data, _HEADER.size)
        if count <= 0:
            raise CorruptFile(f"{name}: a dynamic bloom filter of {count} rows cannot be; rewrite the file")
        rows: list[bytes] = []
        at = _HEADER.size + _DYNAMIC_HEADER.size
        while len(rows) < count:
            *shape, row, at = _read_row(data, at, name)
            if shape != [hashes, bits]:
                raise CorruptFile(f"{name}: the bloom filter's rows differ in size; rewrite the file")
            rows.append(row)
        return cls(DYNAMIC, hashes, bits, tuple(rows), per_row, in_last)

    def serialize(self) -> str:
        """The Base64 text as Hudi stores it."""
        header = _HEADER.pack(_VERSION, self.hashes, _MURMUR, self.bits)
        rows = b"".join(header + row for row in self.rows)
        if self.kind == DYNAMIC:
            rows = header + _DYNAMIC_HEADER.pack(self.keys_per_row, self.keys_in_last_row, len(self.rows)) + rows
        return base64.b64encode(rows).decode()

    def might_contain(self, keys: pa.Array | pa.ChunkedArray) -> pa.BooleanArray:
        """Per key: False when it is certainly not there; null for null."""
        result = np.zeros(len(keys), bool)
        rows = [np.frombuffer(row, np.uint8) for row in self.rows]
        for index, matrix in rows_by_length(keys):
            for row in rows:
                result[index] |= self._in_row(row, matrix)
        nulls = keys.is_null().to_numpy(zero_copy_only=False) if keys.null_count else None
        return pa.array(result, pa.bool_(), mask=nulls)

    def add(self, keys: pa.Array | pa.ChunkedArray) -> BloomFilter:
        """A filter that contains these keys too; a dynamic one grows by rows of `keys_per_row` keys."""
        if self.kind == DYNAMIC and self.keys_per_row <= 0:
            raise InvalidArgument("a dynamic bloom filter without a row capacity cannot take keys")
        rows = [bytearray(row) for row in self.rows] or [bytearray(-(-self.bits // 8))]
        in_last = self.keys_in_last_row if self.rows else 0
        start = 0
        while start < len(keys):
            if self.kind == DYNAMIC and in_last >= self.keys_per_row:
                rows.append(bytearray(-(-self.bits // 8)))
                in_last = 0
            room = self.keys_per_row - in_last if self.kind == DYNAMIC else len(keys)
            part = keys.slice(start, room)
            self._set(np.frombuffer(rows[-1], np.uint8), part.drop_null())
            in_last, start = in_last + len(part), start + len(part)
        kept = in_last if self.kind == DYNAMIC else 0
        return replace(self, rows=tuple(bytes(row) for row in rows), keys_in_last_row=kept)

    def _in_row(self, row: _Bytes, matrix: _Bytes) -> npt.NDArray[np.bool_]:
        """Which of the keys have all of their bits; a key that misses one is not hashed on."""
        found = np.zeros(len(matrix), bool)
        alive = np.arange(len(matrix))
        hasher = _Murmur(matrix)
        value = np.zeros(len(matrix), np.uint32)
        for _ in range(self.hashes):
            value = hasher.hash(value)
            at = self._position(value)
            hit = (row[at >> 3] >> (at & 7)) & 1 == 1
            if not hit.all():
                alive, value, hasher = alive[hit], value[hit], hasher.only(hit)
                if not len(alive):
                    return found
        found[alive] = True
        return found

    def _set(self, row: _Bytes, keys: pa.Array | pa.ChunkedArray) -> None:
        # A byte for each bit while bits are set: many times faster than setting bits that share a byte.
        flags = np.zeros(len(row) * 8, np.uint8)
        for _, matrix in rows_by_length(keys):
            hasher = _Murmur(matrix)
            value = np.zeros(len(matrix), np.uint32)
            for _ in range(self.hashes):
                value = hasher.hash(value)
                flags[self._position(value)] = 1
        row |= np.packbits(flags, bitorder="little")

    def _position(self, value: _Words) -> _Positions:
        # Java's remainder has the sign of the dividend, then abs. numpy divides by one number much faster than it takes
        # the remainder; unsigned, the magnitude of Java's smallest int has a place.
        magnitude = np.abs(value.view(np.int32)).view(np.uint32)
        magnitude -= magnitude // np.uint32(self.bits) * np.uint32(self.bits)
        return magnitude.astype(np.int64)


class BloomBuilder:
    """The filter of a file's keys, as they come; its size follows their number.

    Hudi gives every file room for 60,000 keys at a rate of 1e-9 (430 KB, 30 hashes), and takes no more than 100,000
    before it fills rows that are full already. Readers take whatever size a footer holds: here small files have small
    filters, large ones have filters that still tell something, and eight hashes do for a rate below 1e-6. At most
    `MOST_KEYS` keys are held.

    >>> builder = BloomBuilder()
    >>> builder.add(pa.array(["a", "b"]))
    >>> builder.finish().might_contain(pa.array(["a", "c"])).to_pylist()
    [True, False]
    """

    MOST_KEYS = 1 << 20

    def __init__(self) -> None:
        self._held: list[pa.Array] = []
        self._count = 0
        self._filter: BloomFilter | None = None

    def add(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Take keys into the filter; nulls are passed over."""
        for chunk in keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]:
            chunk = chunk.drop_null()
            while len(chunk):
                part = chunk.slice(0, self.MOST_KEYS - self._count)
                self._held.append(part)
                self._count += len(part)
                chunk = chunk.slice(len(part))
                if self._count == self.MOST_KEYS:
                    self._empty()

    def finish(self) -> BloomFilter:
        """The filter of all keys."""
        if self._held or self._filter is None:
            self._empty()
        assert self._filter is not None
        return self._filter

    def _empty(self) -> None:
        if self._filter is None:
            bits, hashes = _shape(max(self._count, 1))
            self._filter = BloomFilter(DYNAMIC, hashes, bits, (), max(self._count, 1))
        self._filter = self._filter.add(pa.chunked_array(self._held, pa.string()))
        self._held, self._count = [], 0


_SMALL = 100_000
_BITS_OF_SMALL, _BITS_OF_LARGE = 43.1328, 12
_FEWEST_HASHES, _MOST_HASHES = 4, 8


def _shape(keys: int) -> tuple[int, int]:
    """Bits and hashes for so many keys: 43 bits a key as in Hudi, less for those beyond the number that Hudi takes."""
    bits = math.ceil(max(min(keys, _SMALL) * _BITS_OF_SMALL, keys * _BITS_OF_LARGE))
    # The best number is 0.69 for each bit that a key has; with 0.42 a third more keys are mistaken, at half the work.
    hashes = round(bits / keys * 0.42)
    return bits, min(max(hashes, _FEWEST_HASHES), _MOST_HASHES)


class _Murmur:
    """Hadoop's MurmurHash 2 of equally long keys, for many seeds: what does not depend on the seed is done once."""

    __slots__ = ("_length", "_tail", "_words")

    def __init__(self, matrix: _Bytes) -> None:
        count, length = matrix.shape
        whole = length - length % 4
        words = np.ascontiguousarray(matrix[:, :whole]).view("<u4").astype(np.uint32).reshape(count, length // 4)
        words = words * _M
        words ^= words >> np.uint32(24)
        self._words: _Words = np.ascontiguousarray((words * _M).T)
        self._length = np.uint32(length)
        self._tail: _Words | None = None
        if length % 4:
            # Hadoop takes the bytes as signed: a byte above 127 flips all bits to its left.
            signed = np.ascontiguousarray(matrix[:, whole:]).view(np.int8).astype(np.int32)
            tail = np.zeros(count, np.int32)
            for back in range(1, length % 4 + 1):
                tail ^= signed[:, -back] << (8 * (back - 1))
            self._tail = tail.view(np.uint32)

    def hash(self, seed: _Words) -> _Words:
        """The keys' hashes, each with its own seed."""
        value: _Words = seed ^ self._length
        for word in self._words:
            value *= _M
            value ^= word
        if self._tail is not None:
            value ^= self._tail
            value *= _M
        shifted = value >> np.uint32(13)
        value ^= shifted
        value *= _M
        np.right_shift(value, np.uint32(15), out=shifted)
        value ^= shifted
        return value

    def only(self, keep: npt.NDArray[np.bool_]) -> _Murmur:
        """The hashes of some of the keys."""
        other = _Murmur.__new__(_Murmur)
        other._words = self._words[:, keep]
        other._tail = None if self._tail is None else self._tail[keep]
        other._length = self._length
        return other


def _read_header(data: bytes, at: int, name: str) -> tuple[int, int]:
    if at + _HEADER.size > len(data):
        raise _cut_short(name)
    version, hashes, kind, bits = _HEADER.unpack_from(data, at)
    if version != _VERSION or kind != _MURMUR:
        raise UnsupportedTable(
            f"{name}: bloom filter version {version} with hash {kind}; this reader knows -1 with 1, rewrite the file"
        )
    if bits <= 0 or not 0 < hashes <= 1000:
        raise CorruptFile(f"{name}: a bloom filter of {bits} bits and {hashes} hashes cannot be; rewrite the file")
    return hashes, bits


def _read_row(data: bytes, at: int, name: str) -> tuple[int, int, bytes, int]:
    hashes, bits = _read_header(data, at, name)
    start = at + _HEADER.size
    end = start + -(-bits // 8)
    if end > len(data):
        raise _cut_short(name)
    return hashes, bits, data[start:end], end


def _cut_short(name: str) -> CorruptFile:
    return CorruptFile(f"{name}: the bloom filter is cut short; rewrite the file")
