"""A table's files: one object per table root, every path relative to it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from headwater import arguments
from headwater.errors import AlreadyThere, InvalidArgument, MissingDependency, MissingFile, StorageError, WrongType
from headwater.storage import fsspec_systems, writing

_READS = ("listed", "looked up", "opened", "read")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file or folder of a listing.

    `path` is relative to the table's root, `modified_at` is in milliseconds since the epoch.
    """

    path: str
    size: int
    modified_at: int
    is_directory: bool = False

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class Storage:
    """A table's root folder on some filesystem.

    >>> import tempfile, pathlib
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (root / "a.txt").write_text("hello")
    >>> Storage.at(str(root)).read_bytes("a.txt")
    b'hello'
    """

    filesystem: pafs.FileSystem
    root: str
    uri: str

    @classmethod
    def at(cls, location: str | os.PathLike[str], *, filesystem: Any = None) -> Storage:
        """The storage behind a path or URI; `filesystem` may be a pyarrow or an fsspec filesystem.

        One of fsspec is used without its cache of listings, in which nobody else's commits are seen.
        """
        text = arguments.location(location)
        if not text:
            raise InvalidArgument("an empty path names no table; give a folder or a URI such as s3://bucket/table")
        if filesystem is not None:
            if isinstance(filesystem, pafs.PyFileSystem) and isinstance(filesystem.handler, pafs.FSSpecHandler):
                filesystem = filesystem.handler.fs
            if not isinstance(filesystem, pafs.FileSystem):
                filesystem = _by_handler(filesystem)
            return cls(filesystem, _SCHEME.sub("", text).rstrip("/"), text.rstrip("/"))
        if not _SCHEME.match(text):
            path = os.path.abspath(os.path.expanduser(text))
            return cls(pafs.LocalFileSystem(), path, path)
        try:
            found, path = pafs.FileSystem.from_uri(text)
            return cls(found, path.rstrip("/"), text.rstrip("/"))
        except (pa.ArrowInvalid, NotImplementedError, ValueError):
            return cls._by_fsspec(text)

    @classmethod
    def _by_fsspec(cls, uri: str) -> Storage:
        try:
            found, path = fsspec_systems.by_uri(uri)
        except ImportError as error:
            raise MissingDependency(f"{uri}: {error}; install the fsspec package for this scheme") from error
        except ValueError as error:
            raise InvalidArgument(f"{uri}: no filesystem for this scheme ({error})") from error
        return cls(found, path.rstrip("/"), uri.rstrip("/"))

    def absolute(self, path: str) -> str:
        """The path as the filesystem wants it."""
        return f"{self.root}/{path}" if path else self.root

    def child(self, path: str) -> Storage:
        """The same filesystem, rooted at a folder below this one."""
        return replace(self, root=self.absolute(path), uri=f"{self.uri}/{path}")

    def _failed(self, path: str, what: str, error: Exception) -> StorageError:
        # A ValueError is a path that cannot be: with a zero byte, or with text that no encoding has.
        return StorageError(
            f"{self.describe(path)}: cannot be {what}: {error}; check that the storage can be reached and that you may "
            f"{'read' if what in _READS else 'write'} there, then try again"
        )

    def describe(self, path: str) -> str:
        """The path as a person wants to see it in a message."""
        return f"{self.uri}/{path}" if path else self.uri

    def list(self, folder: str, *, recursive: bool = False) -> list[FileEntry]:
        """What lies in a folder, sorted by path; empty where there is no such folder."""
        try:
            selector = pafs.FileSelector(self.absolute(folder), recursive=recursive, allow_not_found=True)
            found = self.filesystem.get_file_info(selector)
        except (OSError, ValueError) as error:
            raise self._failed(folder, "listed", error) from error
        cut = len(self.root) + 1
        entries = [
            FileEntry(
                info.path[cut:],
                info.size or 0,
                (info.mtime_ns or 0) // 1_000_000,
                info.type == pafs.FileType.Directory,
            )
            for info in found
        ]
        return sorted(entries, key=lambda entry: entry.path)

    @property
    def is_local(self) -> bool:
        """Whether reading a part of a file costs no request."""
        return isinstance(self.filesystem, pafs.LocalFileSystem)

    def find(self, path: str) -> FileEntry | None:
        """One file or folder, or None."""
        try:
            info = self.filesystem.get_file_info(self.absolute(path))
        except (OSError, ValueError) as error:
            raise self._failed(path, "looked up", error) from error
        if info.type == pafs.FileType.NotFound:
            return None
        return FileEntry(path, info.size or 0, (info.mtime_ns or 0) // 1_000_000, info.type == pafs.FileType.Directory)

    def open(self, path: str) -> pa.NativeFile:
        """A random-access file."""
        try:
            return self.filesystem.open_input_file(self.absolute(path))
        except FileNotFoundError as error:
            raise MissingFile(
                f"{self.describe(path)}: the file is not there; it may have been cleaned since the table was opened: "
                "refresh the table and read again"
            ) from error
        except (OSError, ValueError) as error:
            raise self._failed(path, "opened", error) from error

    def read_bytes(self, path: str) -> bytes:
        """A whole file."""
        return bytes(self.read_buffer(path))

    def read_buffer(self, path: str) -> pa.Buffer:
        """A whole file, without a copy where the filesystem allows it."""
        with self.open(path) as file:
            try:
                return file.read_buffer()
            except OSError as error:
                raise self._failed(path, "read", error) from error

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Some bytes of a file."""
        return bytes(self.read_buffer_range(path, offset, length))

    def read_buffer_range(self, path: str, offset: int, length: int) -> pa.Buffer:
        """Some bytes of a file, without a copy; Arrow's memory is used again, which Python's is not for large parts."""
        with self.open(path) as file:
            try:
                file.seek(offset)
                return file.read_buffer(length)
            except OSError as error:
                raise self._failed(path, "read", error) from error

    def create(self, path: str, data: bytes) -> None:
        """Make a file that must not be there yet: all of it or nothing, and only one of many callers makes it.

        A crash leaves no file or a whole one, and on a local disk perhaps a `.tmp` file beside it that nobody reads.
        Raises `AlreadyThere` where the file is. Any other `StorageError` leaves open whether the file was made: read
        it back to find out.

        >>> import tempfile
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> storage.create("a/b.txt", b"mine")
        >>> storage.read_bytes("a/b.txt")
        b'mine'
        """
        try:
            writing.create(self.filesystem, self.absolute(path), data)
        except FileExistsError as error:
            raise AlreadyThere(f"{self.describe(path)}: is there already; another writer made it") from error
        except (OSError, ValueError) as error:
            if isinstance(error, StorageError):
                raise
            raise self._failed(path, "created", error) from error

    def replace(self, path: str, data: bytes) -> None:
        """Make a file or put new content in its place; a reader sees the old content or the new.

        A crash leaves one of the two, and on a local disk perhaps a `.tmp` file beside it that nobody reads.

        >>> import tempfile
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> storage.replace("a.txt", b"one"), storage.replace("a.txt", b"two"), storage.read_bytes("a.txt")
        (None, None, b'two')
        """
        try:
            writing.replace(self.filesystem, self.absolute(path), data)
        except (OSError, ValueError) as error:
            if isinstance(error, StorageError):
                raise
            raise self._failed(path, "written", error) from error

    def open_output(self, path: str) -> pa.NativeFile:
        """A file to write from its beginning, its folders made; an old one of that name is overwritten.

        A crash leaves a part of the file on a local disk and on HDFS, and nothing on an object store. Small writes are
        gathered, so one that cannot be carried out may be told of by a later one, or by `close`.

        >>> import tempfile
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> with storage.open_output("a/b.bin") as file:
        ...     _ = file.write(b"12345")
        >>> storage.find("a/b.bin").size
        5
        """
        return writing.buffered(self._open_unbuffered(path))

    def _open_unbuffered(self, path: str) -> pa.NativeFile:
        try:
            return writing.open_unbuffered(self.filesystem, self.absolute(path))
        except (OSError, ValueError) as error:
            raise self._failed(path, "written", error) from error

    def delete(self, path: str) -> None:
        """Remove a file; one that is gone already is as good. A crash leaves it or not.

        >>> import tempfile
        >>> Storage.at(tempfile.mkdtemp()).delete("nothing")
        """
        try:
            self.filesystem.delete_file(self.absolute(path))
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise self._failed(path, "deleted", error) from error

    def delete_folder(self, path: str) -> None:
        """Remove a folder and all in it; one that is gone already is as good. A crash leaves some of its files.

        >>> import tempfile
        >>> Storage.at(tempfile.mkdtemp()).delete_folder("nothing")
        """
        try:
            self.filesystem.delete_dir(self.absolute(path))
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            if self.find(path) is not None:
                raise self._failed(path, "deleted", error) from error

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it. A crash leaves some of them, empty.

        >>> import tempfile
        >>> storage = Storage.at(tempfile.mkdtemp())
        >>> storage.make_folder("a/b"), storage.find("a/b").is_directory
        (None, True)
        """
        try:
            self.filesystem.create_dir(self.absolute(path), recursive=True)
        except (OSError, ValueError) as error:
            raise self._failed(path, "made", error) from error


def _by_handler(filesystem: Any) -> pafs.FileSystem:
    """A filesystem of fsspec as one of pyarrow's."""
    if not callable(getattr(filesystem, "open", None)) or not callable(getattr(filesystem, "info", None)):
        kind = type(filesystem).__name__
        raise WrongType(f"filesystem={filesystem!r} is a {kind}; give a filesystem of pyarrow or of fsspec, or none")
    return fsspec_systems.as_pyarrow(filesystem)
