"""How each kind of filesystem makes a file whole and only once.

A local disk links a finished file to its name, HDFS renames one, object stores put on the condition that the name is
free.
"""

from __future__ import annotations

import errno
import inspect
import os
import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from headwater.errors import StorageError
from headwater.storage.fsspec_systems import as_os_errors, gcs_twin, s3_twin

# Filesystems of fsspec that put an object on the condition that there is none, in one request.
_CONDITIONAL = frozenset({"s3", "s3a", "gs", "gcs", "memory"})
# What a crash leaves beside a file that was about to get its name. Nothing in it looks like a name of the table's: Hudi
# takes every name that begins like a log file's for one, whatever its end.
LEFT_BEHIND = re.compile(r"^\.headwater-[0-9a-f]{32}\.tmp$")
OUTPUT_BUFFER_BYTES = 256 << 10
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


def create(filesystem: pafs.FileSystem, path: str, data: bytes) -> None:
    """Raises `FileExistsError` where the name is taken. A crash leaves no file or a whole one."""
    local = _local_path(filesystem, path)
    if local is not None:
        _create_local(local, data)
        return
    if isinstance(filesystem, pafs.HadoopFileSystem):
        _create_by_rename(filesystem, path, data)
        return
    store = _conditional(filesystem)
    put = as_os_errors(store.pipe_file)
    _check_conditions(store, put, path)
    put(path, data, mode="create")


def replace(filesystem: pafs.FileSystem, path: str, data: bytes) -> None:
    """A crash leaves the old content or the new; on HDFS, which renames over nothing, perhaps neither."""
    local = _local_path(filesystem, path)
    if local is not None:
        temporary = _write_beside(local, data)
        try:
            os.replace(temporary, local)
        except BaseException:
            _drop(temporary)
            raise
        return
    if isinstance(filesystem, pafs.HadoopFileSystem):
        with suppress(FileNotFoundError):
            filesystem.delete_file(path)
        _create_by_rename(filesystem, path, data)
        return
    with filesystem.open_output_stream(path) as file:
        file.write(data)


def open_unbuffered(filesystem: pafs.FileSystem, path: str) -> pa.NativeFile:
    """A stream to a new file, its folders made where the filesystem has folders: each write is a call to storage."""
    local = _local_path(filesystem, path)
    if local is not None:
        os.makedirs(os.path.dirname(local), exist_ok=True)
    elif isinstance(filesystem, pafs.HadoopFileSystem):
        filesystem.create_dir(path.rsplit("/", 1)[0], recursive=True)
    return filesystem.open_output_stream(path)


def buffered(stream: pa.NativeFile) -> pa.NativeFile:
    """The same stream, with small writes gathered: a Parquet file of ten columns is else sixty calls to storage."""
    return pa.BufferedOutputStream(stream, OUTPUT_BUFFER_BYTES)


def _local_path(filesystem: pafs.FileSystem, path: str) -> str | None:
    if isinstance(filesystem, pafs.LocalFileSystem):
        return path
    if isinstance(filesystem, pafs.PyFileSystem) and isinstance(filesystem.handler, pafs.FSSpecHandler):
        inner = filesystem.handler.fs
        if "file" in _protocols(inner):
            return str(inner._strip_protocol(path))
    return None


def _create_local(path: str, data: bytes) -> None:
    temporary = _write_beside(path, data)
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise StorageError(
                f"{path}: this filesystem has no hard links ({error}), without which a file cannot be made both whole "
                "and only once; put the table on another filesystem"
            ) from error
        raise
    finally:
        _drop(temporary)


def temporary_path(path: str) -> str:
    """A name beside a file's own, that nobody looks for.

    >>> bool(LEFT_BEHIND.match(temporary_path("folder/name").removeprefix("folder/")))
    True
    """
    return f"{path.rpartition('/')[0]}/.headwater-{uuid.uuid4().hex}.tmp"


def _write_beside(path: str, data: bytes) -> str:
    """A finished file beside `path`, on disk before it gets a name that anybody looks for."""
    temporary = temporary_path(path)
    folder = os.path.dirname(path)
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileNotFoundError:
        os.makedirs(folder, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            # Else a power cut may leave the name without its content: an empty commit file is a commit without files.
            os.fsync(file.fileno())
    except BaseException:
        _drop(temporary)
        raise
    return temporary


def _drop(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _create_by_rename(filesystem: pafs.FileSystem, path: str, data: bytes) -> None:
    """HDFS refuses to rename to a name that is taken."""
    filesystem.create_dir(path.rpartition("/")[0], recursive=True)
    temporary = temporary_path(path)
    with filesystem.open_output_stream(temporary) as file:
        file.write(data)
    try:
        filesystem.move(temporary, path)
    except OSError:
        taken = filesystem.get_file_info(path).type != pafs.FileType.NotFound
        with suppress(OSError):
            filesystem.delete_file(temporary)
        if taken:
            raise FileExistsError(path) from None
        raise


_checked: set[tuple[Any, str]] = set()


def _check_conditions(store: Any, put: Callable[..., Any], path: str) -> None:
    """Once for a bucket: does the store refuse to put over what is there?

    Where it does not, two writers both have the lock and both commit. Releases of s3fs and gcsfs from before the end of
    2024 leave the condition out without a word, and so do some servers that speak S3.
    """
    bucket = path.split("/", 1)[0]
    if (store, bucket) in _checked:
        return
    method = getattr(type(store), "_pipe_file", None) or type(store).pipe_file
    if "mode" not in inspect.signature(method).parameters:
        package = type(store).__module__.split(".")[0]
        raise StorageError(
            f"{path}: this release of {package} has no conditional put, which a commit needs; upgrade it: "
            f"pip install --upgrade {package} fsspec"
        )
    probe = temporary_path(path)
    put(probe, b"", mode="create")
    try:
        put(probe, b"", mode="create")
    except FileExistsError:
        _checked.add((store, bucket))
        return
    finally:
        with suppress(OSError):
            as_os_errors(store.rm_file)(probe)
    raise StorageError(
        f"{path}: this store puts an object over another one although the request says not to, so that two writers "
        "could not tell who came first; write to S3, Google Cloud Storage or a server that knows If-None-Match"
    )


def _protocols(filesystem: Any) -> frozenset[str]:
    protocol = getattr(filesystem, "protocol", ())
    return frozenset((protocol,) if isinstance(protocol, str) else protocol)


def _conditional(filesystem: pafs.FileSystem) -> Any:
    """The fsspec filesystem that can create on condition: the given one, or the twin of a filesystem of pyarrow."""
    if isinstance(filesystem, pafs.PyFileSystem) and isinstance(filesystem.handler, pafs.FSSpecHandler):
        inner = filesystem.handler.fs
        if _protocols(inner) & _CONDITIONAL:
            return inner
        shown = ", ".join(sorted(_protocols(inner))) or type(inner).__name__
    elif isinstance(filesystem, pafs.S3FileSystem):
        return s3_twin(filesystem)
    elif isinstance(filesystem, pafs.GcsFileSystem):
        return gcs_twin(filesystem)
    else:
        shown = filesystem.type_name
    raise StorageError(
        f"{shown}: this filesystem cannot create a file on the condition that there is none, which a commit needs; "
        "writing works on local disks, HDFS, S3 (fsspec's s3fs) and Google Cloud Storage (gcsfs)"
    )
