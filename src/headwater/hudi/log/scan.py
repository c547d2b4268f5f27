"""Walking the blocks of a log file (format facts 5.5).

A block counts as whole when the size at its start, the size at its end and the magic behind it agree. What does not
is a CORRUPT block that reaches to the next magic: a writer that died half-way leaves such things, and readers pass over
them. Every byte is looked at a bounded number of times.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import pyarrow as pa

from headwater.errors import CorruptFile, StorageError
from headwater.hudi.log.format import MAGIC, SMALLEST_BLOCK, BlockType, LogBlock, block_size, read_block
from headwater.storage.files import Storage

_LONG = struct.Struct(">q")
_MAGIC_PATTERN = re.compile(re.escape(MAGIC))
# The least that is read at once; most headers hold a schema of some kilobytes.
_WINDOW = 1 << 16


class _Source(Protocol):
    """The bytes of a file, in memory or not."""

    size: int

    def read(self, offset: int, length: int) -> memoryview:
        """These bytes, fewer only at the end of the file."""

    def peek(self, offset: int) -> memoryview:
        """What is at hand from an offset on: enough to tell a block's size at least, unless the file ends."""

    def load(self, offset: int, length: int) -> memoryview:
        """The same as `read`, also after the scan."""

    def find_magic(self, offset: int) -> int:
        """Where the next magic begins, at `offset` or later; the file's size where there is none."""


def scan_buffer(data: bytes | memoryview | pa.Buffer, file: str) -> Iterator[LogBlock]:
    """The blocks of a log file in memory, in file order.

    >>> from headwater.hudi.log.format import write_block
    >>> data = write_block(BlockType.COMMAND, {}) + b"junk"
    >>> [(block.type.name, block.length) for block in scan_buffer(data + data, "f")]
    [('CORRUPT', 50), ('COMMAND', 46)]
    """
    return _scan(_InMemory(data), file)


def scan_blocks(storage: Storage, path: str, *, lazy: bool = False) -> Iterator[LogBlock]:
    """The blocks of a log file, in file order.

    Parameters
    ----------
    lazy
        Read the headers only; the content of a block is read when it is asked for. Worth it where files are remote
        and large and few of their blocks are needed. Otherwise the whole file is read at once.
    """
    name = storage.describe(path)
    if not lazy:
        yield from _scan(_InMemory(storage.read_buffer(path)), name)
        return
    with storage.open(path) as file:
        yield from _scan(_OnStorage(storage, path, file), name)


def _scan(source: _Source, file: str) -> Iterator[LogBlock]:
    at = 0
    while at < source.size:
        head = source.peek(at)
        length = _whole_block(source, at, head)
        if length is not None:
            yield _read(source, at, length, file, head)
            at += length
            # Hudi takes fewer bytes than a magic for the end of the file.
            if source.size - at < len(MAGIC):
                return
            continue
        end = source.find_magic(at + len(MAGIC) if head[: len(MAGIC)] == MAGIC else at)
        yield LogBlock(BlockType.CORRUPT, file, at, end - at, at, end - at, {}, load=source.load)
        at = end


def _whole_block(source: _Source, at: int, head: memoryview) -> int | None:
    """The length of the block at an offset, None where there is no whole one."""
    if len(head) < len(MAGIC) + _LONG.size or head[: len(MAGIC)] != MAGIC:
        return None
    length = block_size(head)
    if length < SMALLEST_BLOCK or at + length > source.size:
        return None
    tail = source.read(at + length - _LONG.size, _LONG.size + len(MAGIC))
    if _LONG.unpack_from(tail)[0] != length - _LONG.size:
        return None
    behind = tail[_LONG.size :]
    return length if len(behind) < len(MAGIC) or behind == MAGIC else None


def _read(source: _Source, at: int, length: int, file: str, head: memoryview) -> LogBlock:
    while len(head) < length:
        try:
            return read_block(head, at, length, file, source.load, base=at)
        except CorruptFile:
            # Most likely the header is longer than what was read: record positions can be.
            head = source.read(at, min(len(head) * 16, length))
    return read_block(head, at, length, file, source.load, base=at)


class _InMemory:
    def __init__(self, data: bytes | memoryview | pa.Buffer) -> None:
        self._data = memoryview(data).cast("B")
        self.size = len(self._data)

    def read(self, offset: int, length: int) -> memoryview:
        return self._data[offset : offset + length]

    load = read

    def peek(self, offset: int) -> memoryview:
        return self._data[offset:]

    def find_magic(self, offset: int) -> int:
        # A memoryview has no find, but a pattern searches one where it lies.
        found = _MAGIC_PATTERN.search(self._data, offset)
        return found.start() if found else self.size


class _OnStorage:
    """A file of which parts are read; the last part stays, because the next read is most often within it."""

    def __init__(self, storage: Storage, path: str, file: pa.NativeFile) -> None:
        self._storage, self._path, self._file = storage, path, file
        self._part, self._part_at = memoryview(b""), 0
        with self._as_storage_error():
            self.size = int(file.size())

    def read(self, offset: int, length: int) -> memoryview:
        inside = offset - self._part_at
        if inside < 0 or min(offset + length, self.size) > self._part_at + len(self._part):
            with self._as_storage_error():
                self._file.seek(offset)
                self._part, self._part_at, inside = memoryview(self._file.read(max(length, _WINDOW))), offset, 0
        return self._part[inside : inside + length]

    def peek(self, offset: int) -> memoryview:
        self.read(offset, len(MAGIC) + _LONG.size)
        return self._part[offset - self._part_at :]

    def load(self, offset: int, length: int) -> memoryview:
        return memoryview(self._storage.read_buffer_range(self._path, offset, length)).cast("B")

    def find_magic(self, offset: int) -> int:
        while offset < self.size:
            part = self.peek(offset)
            found = _MAGIC_PATTERN.search(part)
            if found:
                return offset + found.start()
            offset += max(len(part) - len(MAGIC) + 1, 1)
        return self.size

    @contextmanager
    def _as_storage_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"{self._storage.describe(self._path)}: cannot be read: {error}") from error
