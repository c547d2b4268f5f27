"""Where an HFile's bytes come from: memory (a log block's content) or a range-readable file of a storage."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from headwater.errors import CorruptFile, StorageError
from headwater.storage.files import Storage

_TAIL = 64 * 1024


class ByteSource(Protocol):
    """Random access to the bytes of one file."""

    def size(self) -> int:
        """The number of bytes."""

    def read_at(self, offset: int, length: int) -> bytes | memoryview:
        """Exactly `length` bytes from `offset`."""


class BytesSource:
    """Bytes in memory, never copied.

    >>> bytes(BytesSource(b"headwater").read_at(4, 5))
    b'water'
    """

    def __init__(self, data: bytes | bytearray | memoryview | pa.Buffer) -> None:
        self._view = memoryview(data).cast("B")

    def size(self) -> int:
        return len(self._view)

    def read_at(self, offset: int, length: int) -> memoryview:
        if offset < 0 or length < 0 or offset + length > len(self._view):
            raise CorruptFile(
                f"bytes {offset} to {offset + length} are wanted of only {len(self._view)}; the content is cut short"
            )
        return self._view[offset : offset + length]


class StorageSource:
    """A file of a storage, opened at the first read and kept open; only the ranges asked for are read.

    The end of the file (trailer, root index, file info) comes with one request: opening an HFile on an object store
    costs one round trip. With `part`, an HFile that lies within another file: its first byte and its length.

    >>> import tempfile
    >>> storage = Storage.at(tempfile.mkdtemp())
    >>> storage.create("f", b"headwater")
    >>> part = StorageSource(storage, "f", part=(4, 5))
    >>> part.size(), bytes(part.read_at(1, 3))
    (5, b'ate')
    """

    def __init__(self, storage: Storage, path: str, *, part: tuple[int, int] | None = None) -> None:
        self._storage = storage
        self._path = path
        self._file: pa.NativeFile | None = None
        self._part = part
        self._size = -1
        self._tail = b""

    def size(self) -> int:
        self._opened()
        return self._size

    def read_at(self, offset: int, length: int) -> bytes | memoryview:
        file = self._opened()
        if offset < 0 or length < 0 or offset + length > self._size:
            raise CorruptFile(
                f"{self._storage.describe(self._path)}: bytes {offset} to {offset + length} are wanted of only"
                f" {self._size}; the file is cut short, restore it"
            )
        tail_from = max(self._size - _TAIL, 0)
        if offset < tail_from:
            return self._read(file, offset, length)
        if not self._tail:
            self._tail = self._read(file, tail_from, self._size - tail_from)
        return memoryview(self._tail)[offset - tail_from : offset - tail_from + length]

    def close(self) -> None:
        """Close the file; a later read opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> pa.NativeFile:
        if self._file is None:
            self._file = self._storage.open(self._path)
            self._size = self._file.size() if self._part is None else self._part[1]
        return self._file

    def _read(self, file: pa.NativeFile, offset: int, length: int) -> bytes:
        try:
            data: bytes = file.read_at(length, offset if self._part is None else self._part[0] + offset)
        except OSError as error:
            raise StorageError(f"{self._storage.describe(self._path)}: cannot be read: {error}") from error
        if len(data) != length:
            raise StorageError(
                f"{self._storage.describe(self._path)}: {len(data)} of {length} bytes came back from offset {offset};"
                " the file changed while it was read, try again"
            )
        return data
