"""The trailer (the last 4096 bytes) and the file info block of an HFile (format facts 9.5 and 9.6)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.errors import UnsupportedTable
from headwater.hudi.hfile.block import corrupt
from headwater.hudi.hfile.protobuf import MessageError, read_fields, read_varint, write_field, write_varint

TRAILER_SIZE = 4096
_MAGIC = b'TRABLK"$'
_INFO_MAGIC = b"PBUF"
_COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"

LAST_KEY = b"hfile.LASTKEY"
AVG_KEY_LEN = b"hfile.AVG_KEY_LEN"
AVG_VALUE_LEN = b"hfile.AVG_VALUE_LEN"
CREATE_TIME = b"hfile.CREATE_TIME_TS"
MAX_TAGS_LEN = b"hfile.MAX_TAGS_LEN"
DATA_BLOCK_ENCODING = b"DATA_BLOCK_ENCODING"
KEY_VALUE_VERSION = b"KEY_VALUE_VERSION"
MAX_MEMSTORE_TS = b"MAX_MEMSTORE_TS_KEY"

# A tree deeper than this would index more blocks than any storage holds.
_DEEPEST_INDEX = 16


@dataclass(frozen=True, slots=True)
class Trailer:
    """What the trailer says of the file; offsets of the first and last data block are -1 in an empty file."""

    file_info_offset: int
    load_on_open_offset: int
    data_index_count: int
    meta_index_count: int
    entry_count: int
    index_levels: int
    first_data_block_offset: int
    last_data_block_offset: int
    codec: int
    uncompressed_data_size: int = 0


def read_trailer(data: bytes | memoryview, *, file_size: int, name: str) -> Trailer:
    """The trailer from the last 4096 bytes of a file, with its offsets checked against the file's size."""
    at = file_size - TRAILER_SIZE
    (version,) = struct.unpack_from(">I", data, TRAILER_SIZE - 4)
    if bytes(data[:8]) != _MAGIC:
        raise corrupt(name, at, "no HFile trailer is there")
    if version & 0xFFFFFF != 3:
        raise UnsupportedTable(
            f"{name}: HFile version {version & 0xFFFFFF}; this reader knows version 3, rewrite the file"
        )
    numbers: dict[int, int] = {}
    try:
        length, start = read_varint(data, 8)
        if start + length > TRAILER_SIZE - 4:
            raise MessageError(f"the trailer declares {length} bytes")
        for number, value in read_fields(memoryview(data)[start : start + length]):
            if number == 13 and value:
                raise UnsupportedTable(f"{name}: the HFile is encrypted; rewrite it without encryption")
            if isinstance(value, int):
                numbers[number] = value
    except MessageError as error:
        raise corrupt(name, at, f"the trailer does not decode: {error}") from error
    trailer = Trailer(
        file_info_offset=numbers.get(1, 0),
        load_on_open_offset=numbers.get(2, 0),
        data_index_count=numbers.get(5, 0),
        meta_index_count=numbers.get(6, 0),
        entry_count=numbers.get(7, 0),
        index_levels=numbers.get(8, 0),
        first_data_block_offset=_signed(numbers.get(9, 0)),
        last_data_block_offset=_signed(numbers.get(10, 0)),
        codec=numbers.get(12, 2),
        uncompressed_data_size=numbers.get(3, 0),
    )
    if not 0 <= trailer.load_on_open_offset <= trailer.file_info_offset < at:
        raise corrupt(
            name,
            at,
            f"the trailer points to {trailer.load_on_open_offset} and {trailer.file_info_offset} outside the file",
        )
    if max(trailer.data_index_count, trailer.meta_index_count) > file_size or trailer.index_levels > _DEEPEST_INDEX:
        raise corrupt(name, at, "the trailer declares more index entries than the file can hold")
    return trailer


def write_trailer(trailer: Trailer, *, minor_version: int = 0, total_size: int | None = None) -> bytes:
    """The 4096 bytes that end a file, in the fields and the order of Hudi's own writer.

    HBase's reader takes a file of a minor version below 1 for one without checksums, and of one below 2 for one whose
    trailer is no protobuf; it also wants the size of all blocks, decompressed.
    """
    fields = (
        (1, trailer.file_info_offset),
        (2, trailer.load_on_open_offset),
        (3, trailer.uncompressed_data_size),
        *(() if total_size is None else ((4, total_size),)),
        (5, trailer.data_index_count),
        (6, trailer.meta_index_count),
        (7, trailer.entry_count),
        (8, trailer.index_levels),
        (9, trailer.first_data_block_offset),
        (10, trailer.last_data_block_offset),
        (11, _COMPARATOR),
        (12, trailer.codec),
    )
    message = b"".join(write_field(number, value) for number, value in fields)
    head = _MAGIC + write_varint(len(message)) + message
    return head + bytes(TRAILER_SIZE - 4 - len(head)) + struct.pack(">I", minor_version << 24 | 3)


def read_file_info(payload: bytes | memoryview, *, name: str, offset: int) -> dict[bytes, bytes]:
    """The entries of a file info block.

    >>> read_file_info(write_file_info({b"schema": b"{}"}), name="example", offset=0)
    {b'schema': b'{}'}
    """
    if bytes(payload[:4]) != _INFO_MAGIC:
        raise corrupt(name, offset, "the file info is not written as protobuf")
    entries: dict[bytes, bytes] = {}
    try:
        length, start = read_varint(payload, 4)
        if start + length > len(payload):
            raise MessageError(f"{length} bytes are declared, {len(payload) - start} are there")
        for number, entry in read_fields(memoryview(payload)[start : start + length]):
            if number == 1 and isinstance(entry, bytes):
                pair = dict(read_fields(entry))
                key, value = pair.get(1, b""), pair.get(2, b"")
                if isinstance(key, bytes) and isinstance(value, bytes):
                    entries[key] = value
    except MessageError as error:
        raise corrupt(name, offset, f"the file info does not decode: {error}") from error
    return entries


def write_file_info(entries: Mapping[bytes, bytes]) -> bytes:
    """The payload of a file info block, entries sorted by key."""
    message = b"".join(
        write_field(1, write_field(1, key) + write_field(2, value)) for key, value in sorted(entries.items())
    )
    return _INFO_MAGIC + write_varint(len(message)) + message


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
