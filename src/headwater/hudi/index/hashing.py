"""Hudi's hashes: record key to file group of the metadata table, and the keys of its index records (facts 8.2).

Java's string hash and XXHash32 have versions for whole Arrow arrays; XXHash64 and MD5 are only taken of column,
partition and file names.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import CorruptFile, InvalidArgument

_Ints: TypeAlias = npt.NDArray[np.int32]
_Words: TypeAlias = npt.NDArray[np.uint32]
_Bytes: TypeAlias = npt.NDArray[np.uint8]

NON_PARTITIONED = "."
EXPRESSION_PARTITION_STATS = "__partition_stat__"

_MASK_32 = 0xFFFFFFFF
_MASK_64 = 0xFFFFFFFFFFFFFFFF
# Hudi's seed, the int 0xDABADABA, widened to a long.
_SEED_64 = 0xFFFFFFFFDABADABA
_ROWS_AT_ONCE = 1 << 16


# Java's String.hashCode


def java_hash(text: str) -> int:
    """`String.hashCode()`: signed 32 bits over the UTF-16 code units.

    >>> java_hash("hello"), java_hash("headwater")
    (99162322, -197156041)
    """
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & _MASK_32
    return value - (1 << 32) if value >= 1 << 31 else value


def java_hashes(texts: pa.Array | pa.ChunkedArray) -> _Ints:
    """`java_hash` of every string of an Arrow array, 0 for null.

    >>> java_hashes(pa.array(["hello", None, "ü"])).tolist()
    [99162322, 0, 252]
    """
    parts = [_java_hashes(offsets, data) for offsets, data in _slices(texts)]
    return np.concatenate(parts) if parts else np.empty(0, np.int32)


def _java_hashes(offsets: npt.NDArray[np.int64], data: _Bytes) -> _Ints:
    units: npt.NDArray[np.uint16] | _Bytes = data
    if len(data) and data.max() >= 0x80:
        # One unit for each byte that starts a character, one more where it starts a character beyond 16 bits.
        per_byte = ((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0)
        offsets = np.concatenate(([0], np.cumsum(per_byte)))[offsets]
        units = np.frombuffer(data.tobytes().decode("utf-8").encode("utf-16-le"), np.uint16)
    # hash = sum of unit[i] * 31^(end-1-i). 31 has an inverse modulo 2^32, so one running sum of unit[i] * 31^-i serves
    # all strings: the difference at a string's ends, times 31^(end-1).
    inverse, powers = _powers_of_31(len(units))
    running = np.zeros(len(units) + 1, np.uint32)
    np.cumsum(units * inverse, out=running[1:], dtype=np.uint32)
    sums: _Words = running[offsets[1:]] - running[offsets[:-1]]
    return (sums * powers[np.maximum(offsets[1:] - 1, 0)]).view(np.int32)


def _powers_of_31(count: int) -> tuple[_Words, _Words]:
    """31 to the minus i and to the plus i, modulo 2^32, for at least `count` numbers."""
    inverse, powers = _power_tables(1 << max(count, 1).bit_length())
    return inverse[:count], powers


@lru_cache(maxsize=2)
def _power_tables(count: int) -> tuple[_Words, _Words]:
    def table(base: int) -> _Words:
        factors = np.full(count, base, np.uint32)
        factors[0] = 1
        return np.cumprod(factors, dtype=np.uint32)

    return table(pow(31, -1, 1 << 32)), table(31)


# File groups of the metadata table


def file_group_index(key: str, count: int) -> int:
    """Which of a metadata partition's `count` file groups (sorted by name) holds a key.

    >>> file_group_index("__all_partitions__", 1), file_group_index("test_key", 10)
    (0, 8)
    """
    return abs(java_hash(key)) % count


def file_group_indexes(keys: pa.Array | pa.ChunkedArray, count: int) -> _Ints:
    """`file_group_index` of every key.

    >>> file_group_indexes(pa.array(["test_key", "other"]), 10).tolist()
    [8, 6]
    """
    return (np.abs(java_hashes(keys).astype(np.int64)) % count).astype(np.int32)


def secondary_file_group_index(key: str, count: int, *, version: int = 2) -> int:
    """Which file group of a secondary index holds a key `<secondary>$<record>`.

    Version 2 (table version 9) puts all records of a secondary key into one group, version 1 spreads whole keys.

    >>> secondary_file_group_index("sf$1", 10) == secondary_file_group_index("sf$2", 10)
    True
    """
    return file_group_index(secondary_prefix_of(key) if version >= 2 else key, count)


def secondary_file_group_indexes(keys: pa.Array | pa.ChunkedArray, count: int, *, version: int = 2) -> _Ints:
    """`secondary_file_group_index` of every key."""
    if version >= 2:
        keys = pc.struct_field(pc.extract_regex(keys.cast(pa.string()), _PREFIX.pattern), 0)
    return file_group_indexes(keys, count)


# Keys of index records


def column_stats_key(column: str, partition: str, file: str) -> str:
    """The key of a file's statistics of a column; `file` is the file's name without its folder.

    >>> column_stats_key("currency", "region=us", "a.parquet")[:24]
    '/m6lxu4Dh5w=431THTTwO5Q='
    """
    return column_stats_prefix(column, partition) + _file_id(file)


def column_stats_prefix(column: str, partition: str | None = None) -> str:
    """The start of the keys of all statistics of a column, in one partition or in all.

    >>> column_stats_prefix("currency"), column_stats_prefix("currency", "")
    ('/m6lxu4Dh5w=', '/m6lxu4Dh5w=FXThHwelITM=')
    """
    return _name_id(column) + ("" if partition is None else _partition_id(partition))


def partition_stats_key(column: str, partition: str, *, of_expression_index: bool = False) -> str:
    """The key of a partition's statistics of a column; an expression index keeps its own among its file statistics.

    >>> partition_stats_key("currency", "region=us")
    '/m6lxu4Dh5w=431THTTwO5Q='
    """
    prefix = _name_id(EXPRESSION_PARTITION_STATS) if of_expression_index else ""
    return _name_id(column) + prefix + _partition_id(partition)


def bloom_filter_key(partition: str, file: str) -> str:
    """The key of a base file's bloom filter.

    >>> len(bloom_filter_key("region=us", "a.parquet"))
    36
    """
    return _partition_id(partition) + _file_id(file)


def _partition_id(partition: str) -> str:
    return _name_id(partition or NON_PARTITIONED)


@lru_cache(maxsize=4096)
def _name_id(name: str) -> str:
    return base64.b64encode(xxhash64(name.encode(), _SEED_64).to_bytes(8, "big")).decode()


def _file_id(file: str) -> str:
    return base64.b64encode(hashlib.md5(file.encode(), usedforsecurity=False).digest()).decode()


# Keys of a secondary index

_PREFIX = re.compile(r"(?s)^(?P<prefix>(?:[^\\$]|\\.)*\$)")
_SPECIAL = re.compile(r"([\\$\0])")
_ESCAPED = re.compile(r"(?s)\\(.)")


def escape_secondary(value: str | None) -> str:
    r"""A value as it stands in a secondary key: null is the character 0, special characters get a backslash.

    >>> escape_secondary("a$b"), escape_secondary(None)
    ('a\\$b', '\x00')
    """
    return "\0" if value is None else _SPECIAL.sub(r"\\\1", value)


def unescape_secondary(text: str) -> str | None:
    r"""The value of an escaped part.

    >>> unescape_secondary("a\\$b"), unescape_secondary("\0")
    ('a$b', None)
    """
    return None if text == "\0" else _ESCAPED.sub(r"\1", text)


def secondary_key(value: str | None, record_key: str) -> str:
    """The key of a secondary index record.

    >>> secondary_key("sf", "k1")
    'sf$k1'
    """
    return f"{escape_secondary(value)}${escape_secondary(record_key)}"


def secondary_prefix(value: str | None) -> str:
    """The start of the keys of all records with a value.

    >>> secondary_prefix("sf")
    'sf$'
    """
    return escape_secondary(value) + "$"


def secondary_prefix_of(key: str) -> str:
    """The escaped value of a key, with the separator.

    >>> secondary_prefix_of("sf$k1")
    'sf$'
    """
    found = _PREFIX.match(key)
    if found is None:
        raise CorruptFile(f"secondary index: the key {key!r} has no separator; rebuild the index")
    return found["prefix"]


def split_secondary_key(key: str) -> tuple[str | None, str]:
    """Value and record key of a secondary index record.

    >>> split_secondary_key("sf$k1")
    ('sf', 'k1')
    """
    prefix = secondary_prefix_of(key)
    return unescape_secondary(prefix[:-1]), unescape_secondary(key[len(prefix) :]) or ""


# XXHash

_P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_P32 = tuple(np.uint32(prime) for prime in (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1))


def xxhash64(data: bytes, seed: int = 0) -> int:
    """XXHash64, unsigned.

    >>> hex(xxhash64(b"")), hex(xxhash64(b"abc"))
    ('0xef46db3751d8e999', '0x44bc2cf5ad770999')
    """
    p1, p2, p3, p4, p5 = _P64
    length, at = len(data), 0

    def word(position: int, size: int = 8) -> int:
        return int.from_bytes(data[position : position + size], "little")

    def mixed(lane: int, value: int) -> int:
        return _rotate((lane + value * p2) & _MASK_64, 31) * p1 & _MASK_64

    if length >= 32:
        lanes = [(seed + p1 + p2) & _MASK_64, (seed + p2) & _MASK_64, seed, (seed - p1) & _MASK_64]
        while at <= length - 32:
            lanes = [mixed(lane, word(at + 8 * index)) for index, lane in enumerate(lanes)]
            at += 32
        value = sum(_rotate(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK_64
        for lane in lanes:
            value = ((value ^ mixed(0, lane)) * p1 + p4) & _MASK_64
    else:
        value = (seed + p5) & _MASK_64
    value = (value + length) & _MASK_64
    while at <= length - 8:
        value = (_rotate(value ^ mixed(0, word(at)), 27) * p1 + p4) & _MASK_64
        at += 8
    if at <= length - 4:
        value = (_rotate(value ^ (word(at, 4) * p1 & _MASK_64), 23) * p2 + p3) & _MASK_64
        at += 4
    for byte in data[at:]:
        value = _rotate(value ^ (byte * p5 & _MASK_64), 11) * p1 & _MASK_64
    value = (value ^ value >> 33) * p2 & _MASK_64
    value = (value ^ value >> 29) * p3 & _MASK_64
    return value ^ value >> 32


def _rotate(value: int, turn: int) -> int:
    return (value << turn | value >> (64 - turn)) & _MASK_64


def xxhash32s(texts: pa.Array | pa.ChunkedArray, seed: int = 0) -> _Words:
    """XXHash32 of every string or binary of an Arrow array; null counts as empty.

    >>> [hex(value) for value in xxhash32s(pa.array(["", "abc"])).tolist()]
    ['0x2cc5d05', '0x32d153ff']
    """
    result = np.empty(len(texts), np.uint32)
    for rows, matrix in rows_by_length(texts):
        result[rows] = _xxhash32(matrix, np.uint32(seed))
    return result


def _xxhash32(rows: _Bytes, seed: np.uint32) -> _Words:
    p1, p2, p3, p4, p5 = _P32
    count, length = rows.shape
    words = np.ascontiguousarray(rows[:, : length - length % 4]).view("<u4").astype(np.uint32)
    words = words.reshape(count, length // 4)
    at = 0
    with np.errstate(over="ignore"):
        if length >= 16:
            starts = (seed + p1 + p2, seed + p2, seed, seed - p1)
            lanes = [np.full(count, start, np.uint32) for start in starts]
            for at in range(0, length // 16 * 4, 4):
                lanes = [_turn(lane + words[:, at + index] * p2, 13) * p1 for index, lane in enumerate(lanes)]
            at = length // 16 * 4
            value = sum((_turn(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True)), np.uint32(0))
        else:
            value = np.full(count, seed + p5, np.uint32)
        value = value + np.uint32(length)
        for index in range(at, length // 4):
            value = _turn(value + words[:, index] * p3, 17) * p4
        for index in range(length - length % 4, length):
            value = _turn(value + rows[:, index] * p5, 11) * p1
        value = (value ^ (value >> np.uint32(15))) * p2
        value = (value ^ (value >> np.uint32(13))) * p3
        result: _Words = value ^ (value >> np.uint32(16))
    return result


def _turn(value: _Words, turn: int) -> _Words:
    result: _Words = (value << np.uint32(turn)) | (value >> np.uint32(32 - turn))
    return result


# Strings as numpy arrays


def _slices(texts: pa.Array | pa.ChunkedArray) -> Iterator[tuple[npt.NDArray[np.int64], _Bytes]]:
    """The strings in pieces of bounded size, each as offsets (from 0) and bytes; nulls are empty."""
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    for chunk in chunks:
        if pa.types.is_dictionary(chunk.type):
            chunk = chunk.dictionary_decode()
        if not (pa.types.is_null(chunk.type) or _is_text(chunk.type)):
            raise InvalidArgument(f"only strings can be hashed as Java strings, not {chunk.type}; cast the column")
        chunk = chunk.cast(pa.large_binary())
        if chunk.null_count:
            chunk = pc.fill_null(chunk, b"")
        for start in range(0, len(chunk), _ROWS_AT_ONCE):
            piece = chunk.slice(start, _ROWS_AT_ONCE)
            _validity, places, data = piece.buffers()
            offsets = np.frombuffer(places, np.int64, len(piece) + 1, 8 * piece.offset)
            size = int(offsets[-1] - offsets[0])
            content = np.frombuffer(data, np.uint8, size, int(offsets[0])) if size else np.empty(0, np.uint8)
            yield offsets - offsets[0], content


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in tests) or pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)


def rows_by_length(texts: pa.Array | pa.ChunkedArray) -> Iterator[tuple[npt.NDArray[np.int64], _Bytes]]:
    """The strings grouped by their length in bytes: positions in the array, and a matrix with one string a row."""
    done = 0
    for offsets, data in _slices(texts):
        lengths = np.diff(offsets)
        if len(lengths) and len(data) == len(lengths) * lengths[0] and (lengths == lengths[0]).all():
            yield np.arange(done, done + len(lengths)), data.reshape(len(lengths), int(lengths[0]))
            done += len(lengths)
            continue
        for length in np.unique(lengths).tolist():
            rows = np.nonzero(lengths == length)[0]
            places = offsets[rows][:, np.newaxis] + np.arange(length)
            yield rows + done, data[places].reshape(len(rows), length)
        done += len(lengths)
