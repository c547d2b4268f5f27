"""The codec of one log block: `read_block` and `write_block` (format facts 5.1 to 5.3).

    #HUDI#  size: long  format version: int  type: int  header map  content length: long  content  footer map
    total size: long

All numbers are big-endian; `size` counts what follows it, `total size` all that stands before it.
"""

from __future__ import annotations

import base64
import binascii
import enum
import io
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyroaring

from headwater.errors import CorruptFile, UnsupportedTable

MAGIC = b"#HUDI#"
FORMAT_VERSION = 1
# Before the header map: magic, size, format version, type, count of header entries.
_START = struct.Struct(">6sqiii")
_ENTRY = struct.Struct(">ii")
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
# The smallest block: no header, no content, no footer.
SMALLEST_BLOCK = _START.size + _LONG.size + _INT.size + _LONG.size


class BlockType(enum.IntEnum):
    """What a block holds; the number is the one in the file."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6

    @property
    def is_data(self) -> bool:
        return self >= BlockType.AVRO_DATA


class Header(enum.IntEnum):
    """The keys of a block's header; files may hold others."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_INSTANT_OF_POSITIONS = 8


ROLLBACK_COMMAND = "0"


def damaged(where: str, what: str) -> CorruptFile:
    """The error for bytes within a block that no writer writes."""
    return CorruptFile(f"{where}: {what}; restore the file, or roll its commit back with Hudi")


class _Content(io.RawIOBase):
    """A block's content as a file."""

    def __init__(self, block: LogBlock) -> None:
        self._block, self._at = block, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._block.content_length}[whence]
        self._at = max(start + offset, 0)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(self._block.content_length - self._at, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        found = bytes(self._block.load(self._block.content_offset + self._at, wanted)) if wanted else b""
        self._at += len(found)
        return found


@dataclass(frozen=True)
class LogBlock:
    """One block of a log file, its content not read before `content()` is called.

    A block of type CORRUPT stands for a region of the file that holds no whole block; its content is that region.
    """

    type: BlockType
    file: str
    offset: int
    length: int
    content_offset: int
    content_length: int
    headers: Mapping[int, str] = field(repr=False)
    format_version: int = FORMAT_VERSION
    load: Callable[[int, int], memoryview] = field(default=lambda offset, length: memoryview(b""), repr=False)

    def content(self) -> memoryview:
        """The bytes of the content, read from the file if they are not in memory."""
        return self.load(self.content_offset, self.content_length)

    def open(self) -> pa.NativeFile:
        """The content as a file of which parts can be read: the rest of it stays where it is."""
        return pa.PythonFile(_Content(self), mode="r")

    @property
    def instant_time(self) -> str | None:
        """The instant that wrote the block; None in archive files."""
        return self.headers.get(Header.INSTANT_TIME)

    @property
    def target_instant(self) -> str | None:
        """The instant that a rollback command undoes."""
        return self.headers.get(Header.TARGET_INSTANT_TIME)

    @property
    def schema(self) -> str | None:
        """The Avro schema of the records, as JSON text."""
        return self.headers.get(Header.SCHEMA)

    @property
    def is_rollback(self) -> bool:
        return self.type == BlockType.COMMAND and self.headers.get(Header.COMMAND_BLOCK_TYPE) == ROLLBACK_COMMAND

    @property
    def compacted_times(self) -> tuple[str, ...]:
        """The instants whose blocks log compaction put together in this one; empty for other blocks."""
        text = self.headers.get(Header.COMPACTED_BLOCK_TIMES, "")
        return tuple(time.strip() for time in text.split(",") if time.strip())

    @property
    def block_identifier(self) -> str | None:
        return self.headers.get(Header.BLOCK_IDENTIFIER)

    @property
    def is_partial(self) -> bool:
        """Whether the records hold the changed columns only."""
        return self.headers.get(Header.IS_PARTIAL, "").lower() == "true"

    @property
    def base_instant_of_positions(self) -> str | None:
        """The instant of the base file that `positions` counts rows of."""
        return self.headers.get(Header.BASE_INSTANT_OF_POSITIONS)

    @cached_property
    def positions(self) -> np.ndarray[Any, np.dtype[np.int64]] | None:
        """Each record's row in the base file, rising, the i-th for the i-th record; None where there are none."""
        text = self.headers.get(Header.RECORD_POSITIONS)
        if text is None:
            return None
        try:
            bitmap = pyroaring.BitMap64.deserialize(base64.b64decode(text, validate=True))
            return np.array(bitmap.to_array(), dtype=np.int64)
        except (binascii.Error, ValueError, OverflowError, MemoryError) as error:
            raise damaged(self.describe(), f"its record positions cannot be read: {error}") from error

    def describe(self) -> str:
        """The block in a message."""
        return f"{self.file}: {self.type.name} block at byte {self.offset}"


def write_block(type_: BlockType, headers: Mapping[int, str], content: bytes = b"") -> bytes:
    """The bytes of a block.

    >>> block = write_block(BlockType.COMMAND, {Header.INSTANT_TIME: "002", Header.TARGET_INSTANT_TIME: "001"})
    >>> len(block), read_block(block, 0, len(block), "f").target_instant
    (68, '001')
    """
    before, after = block_frame(type_, headers, len(content))
    return b"".join([before, content, after])


def block_frame(type_: BlockType, headers: Mapping[int, str], content_length: int) -> tuple[bytes, bytes]:
    """What stands before and after the content of a block: for contents that are not to be copied.

    >>> [len(part) for part in block_frame(BlockType.DELETE, {Header.INSTANT_TIME: "001"}, 9)]
    [45, 12]
    """
    body = _write_map(headers) + _LONG.pack(content_length)
    footer = _write_map({})
    size = 2 * _INT.size + len(body) + content_length + len(footer) + _LONG.size
    start = _START.pack(MAGIC, size, FORMAT_VERSION, int(type_), 0)[: -_INT.size]
    return start + body, footer + _LONG.pack(size + len(MAGIC))


def _write_map(entries: Mapping[int, str]) -> bytes:
    encoded = [(int(key), value.encode()) for key, value in entries.items()]
    return _INT.pack(len(encoded)) + b"".join(_ENTRY.pack(key, len(value)) + value for key, value in encoded)


def write_positions(positions: Iterable[int]) -> str:
    """Record positions as the text of their header.

    >>> write_positions([1])
    'AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAAAEAAAAAEA'
    """
    return base64.b64encode(pyroaring.BitMap64(positions).serialize()).decode()


def block_size(start: Any) -> int:
    """The whole length of the block whose first 14 bytes these are, as they claim."""
    return int(_LONG.unpack_from(start, len(MAGIC))[0]) + len(MAGIC) + _LONG.size


def read_block(
    data: Any,
    offset: int,
    length: int,
    file: str,
    load: Callable[[int, int], memoryview] | None = None,
    *,
    base: int = 0,
) -> LogBlock:
    """The block of `length` bytes at `offset` of a file, whose sizes were found to agree (see `scan`).

    `data` begins at byte `base` of the file and must reach to the block's content length at least.
    """
    where = f"{file}: block at byte {offset}"
    at, end = offset - base, offset - base + length
    try:
        _, _, version, type_, count = _START.unpack_from(data, at)
        if version != FORMAT_VERSION:
            raise UnsupportedTable(
                f"{where} has log format {version}; this reader knows format {FORMAT_VERSION}: upgrade headwater or "
                "compact the table with Hudi"
            )
        headers, at = _read_map(data, at + _START.size, count, end)
        (content_length,) = _LONG.unpack_from(data, at)
    except (struct.error, ValueError) as error:
        raise damaged(where, f"its header cannot be read: {error}") from error
    at += _LONG.size
    if not 0 <= content_length <= end - at - _INT.size - _LONG.size:
        raise damaged(where, f"it says that its content is {content_length} bytes long, the block is {length}")
    if type_ not in BlockType.__members__.values():
        raise UnsupportedTable(
            f"{where} is of the unknown type {type_}; upgrade headwater or compact the table with Hudi"
        )
    found = load if load is not None else lambda start, size: memoryview(data)[start - base : start - base + size]
    return LogBlock(BlockType(type_), file, offset, length, at + base, content_length, headers, version, found)


def _read_map(data: Any, at: int, count: int, end: int) -> tuple[dict[int, str], int]:
    if not 0 <= count <= (end - at) // _ENTRY.size:
        raise ValueError(f"{count} entries")
    entries: dict[int, str] = {}
    for _ in range(count):
        key, length = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        if not 0 <= length <= end - at or len(data) < at + length:
            raise ValueError(f"entry {key} of {length} bytes")
        entries[key] = bytes(data[at : at + length]).decode()
        at += length
    return entries, at
