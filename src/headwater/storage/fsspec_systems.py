"""Filesystems of fsspec as a table needs them: each listing asked of the store, and the twins of pyarrow's own stores.

fsspec keeps listings for as long as the process lives. A table's state is what its folders list: from a kept listing, a
reader would see no commit of others, and a writer would build on a state that is gone.
"""

from __future__ import annotations

import datetime
import errno
import io
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from headwater.errors import MissingDependency, StorageError

_NO_CACHE: Mapping[str, Any] = {"use_listings_cache": False}
# What a twin cannot be told, by the names of pyarrow's options.
_BEYOND_TWINS = ("role_arn", "external_id", "tls_ca_file_path", "target_service_account", "access_token")

# What stores call the time at which a file was last written.
_WRITTEN_AT = ("mtime", "LastModified", "updated", "last_modified", "created")


def as_pyarrow(filesystem: Any) -> pafs.PyFileSystem:
    """A filesystem of fsspec behind the face of pyarrow's, without its cache of listings."""
    return pafs.PyFileSystem(Handler(without_cache(filesystem)))


def as_os_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, whose failures are OSErrors: those of the network come in classes of each store's library."""

    @wraps(function)
    def calling(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except (OSError, ValueError, MemoryError):
            raise  # `Storage` knows what to make of the first two
        except Exception as error:
            raise OSError(errno.EIO, f"{type(error).__name__}: {error}") from error

    return calling


class Handler(pafs.FSSpecHandler):  # type: ignore[misc]
    """pyarrow's handler of fsspec, with one kind of error, the times of files, and one request for opening a file."""

    @staticmethod
    def _create_file_info(path: str, info: Mapping[str, Any]) -> pafs.FileInfo:
        return pafs.FSSpecHandler._create_file_info(path, {**info, "mtime": _written_at(info)})

    def open_input_file(self, path: str) -> pa.NativeFile:
        opened = as_os_errors(self.fs.open)(path, mode="rb")
        if isinstance(opened, io.BytesIO):
            # fsspec's files in memory are one object for all who open them, with one position.
            return pa.BufferReader(opened.getvalue())
        return pa.PythonFile(_File(opened), mode="r")

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        return pa.PythonFile(_File(as_os_errors(self.fs.open)(path, mode="wb")), mode="w")


for _name in ("get_file_info", "get_file_info_selector", "create_dir", "delete_dir", "delete_file", "move"):
    setattr(Handler, _name, as_os_errors(getattr(pafs.FSSpecHandler, _name)))


class _File:
    """A file whose failures are OSErrors."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._file, name)
        return as_os_errors(found) if callable(found) else found


def _written_at(info: Mapping[str, Any]) -> datetime.datetime | float | None:
    found = next((info[name] for name in _WRITTEN_AT if info.get(name) is not None), None)
    if isinstance(found, str):
        return datetime.datetime.fromisoformat(found.replace("Z", "+00:00"))
    return found


def by_uri(uri: str) -> tuple[pafs.PyFileSystem, str]:
    """The filesystem of a URI and the path in it."""
    import fsspec

    found, path = fsspec.core.url_to_fs(uri)
    return as_pyarrow(found), path


def without_cache(filesystem: Any) -> Any:
    """The same filesystem, which keeps no listing: another object where it can be made, else this one, changed."""
    inner, cache = getattr(filesystem, "fs", None), getattr(filesystem, "dircache", None)
    if inner is not None:
        # One around another: its arguments hold the other as it was given.
        _cleared(inner)
    elif getattr(cache, "use_listings_cache", False):
        try:
            return type(filesystem)(*filesystem.storage_args, **{**filesystem.storage_options, **_NO_CACHE})
        except (AttributeError, TypeError):
            pass
    _cleared(filesystem)
    return filesystem


def _cleared(filesystem: Any) -> None:
    cache: Any = getattr(filesystem, "dircache", None)
    if getattr(cache, "use_listings_cache", False):
        cache.use_listings_cache = False
        cache.clear()


def s3_twin(filesystem: pafs.S3FileSystem) -> Any:
    """The same store as pyarrow's, by s3fs: the same endpoint and the same credentials."""
    options = _options_of(filesystem)
    given: dict[str, Any] = dict(_endpoint(options))
    if options.get("anonymous"):
        given["anon"] = True
    elif options.get("access_key"):
        given |= {"key": options["access_key"], "secret": options["secret_key"]}
        given |= {"token": options["session_token"]} if options.get("session_token") else {}
    return _twin("s3", "s3fs", filesystem.region, tuple(sorted(given.items())))


def gcs_twin(filesystem: pafs.GcsFileSystem) -> Any:
    """The same store as pyarrow's, by gcsfs."""
    options = _options_of(filesystem)
    given: dict[str, Any] = {"token": "anon"} if options.get("anonymous") else {}
    given |= _endpoint(options)
    if options.get("project_id"):
        given["project"] = options["project_id"]
    return _twin("gs", "gcsfs", None, tuple(sorted(given.items())))


def _endpoint(options: Mapping[str, Any]) -> dict[str, str]:
    # From the environment it comes with its scheme, from a call without.
    place = options.get("endpoint_override")
    if not place:
        return {}
    return {"endpoint_url": place if "://" in place else f"{options.get('scheme') or 'https'}://{place}"}


def _options_of(filesystem: pafs.FileSystem) -> dict[str, Any]:
    """What the filesystem was made with; pickling is the one way in which pyarrow tells."""
    _, (options,) = filesystem.__reduce__()
    beyond = [name for name in _BEYOND_TWINS if options.get(name)]
    if beyond:
        raise StorageError(
            f"{filesystem.type_name}: writing needs a conditional put, which fsspec has and pyarrow has not, and "
            f"fsspec cannot be given {', '.join(beyond)}; give filesystem= one of fsspec with these credentials"
        )
    return dict(options)


@lru_cache(maxsize=8)
def _twin(protocol: str, package: str, region: str | None, given: tuple[tuple[str, Any], ...]) -> Any:
    import fsspec

    options = {**dict(given), **_NO_CACHE}
    if region:
        options["client_kwargs"] = {"region_name": region}
    try:
        return fsspec.filesystem(protocol, **options)
    except ImportError as error:
        raise MissingDependency(
            f"{protocol}://: writing needs a conditional put, which {package} has: pip install {package}, or give "
            "filesystem= one of fsspec"
        ) from error
