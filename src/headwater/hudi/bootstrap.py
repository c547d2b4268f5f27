"""Base files of bootstrapped tables: a skeleton in the table, and beside it the file that has the rows' own columns.

A bootstrap that takes over metadata only writes base files with nothing but the five meta columns, under an instant of
its own. Which file each belongs to stands in HFiles under `.hoodie/.aux/.bootstrap`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import fastavro
import pyarrow as pa

from headwater.errors import CorruptFile
from headwater.hudi.base_file import BaseFile, RowGroup, open_base_file
from headwater.hudi.file_names import parse_base_file
from headwater.hudi.hfile import HFileReader, StorageSource
from headwater.hudi.properties import META_FOLDER, load_config
from headwater.spec.statistics import ColumnStatistics
from headwater.storage import Storage

INSTANT = "00000000000001"
"""The instant of every bootstrap that took over metadata only; rows that a bootstrap copied have another."""
_INDEX = f"{META_FOLDER}/.aux/.bootstrap/.fileids"
_BASE_PATH = "hoodie.bootstrap.base.path"
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):/+")


def is_skeleton(path: str) -> bool:
    """Whether a base file holds meta columns alone.

    >>> is_skeleton("city=sf/8ff7ac68-c030_1-89-110_00000000000001.parquet"), is_skeleton("f-0_0-1-2_20260101.parquet")
    (True, False)
    """
    name = parse_base_file(path.rsplit("/", 1)[-1])
    return name is not None and name.instant == INSTANT


def open_bootstrapped(storage: Storage, path: str, skeleton: BaseFile) -> BaseFile:
    """A skeleton with the file that it belongs to."""
    uri = _source_of(storage, path)
    folder, _, name = uri.rpartition("/")
    source = open_base_file(_storage_of(storage, folder), name)
    if source.num_rows != skeleton.num_rows:
        raise CorruptFile(
            f"{storage.describe(path)}: has {skeleton.num_rows} rows, and {uri}, which it was bootstrapped from, has "
            f"{source.num_rows}; restore that file"
        )
    return BootstrappedFile(skeleton, source)


@dataclass
class BootstrappedFile:
    """Two files side by side. Row groups are those of the one with the rows' own columns."""

    skeleton: BaseFile
    source: BaseFile

    @cached_property
    def schema(self) -> pa.Schema:
        own = [field for field in self.source.schema if field.name not in self.skeleton.schema.names]
        return pa.schema([*self.skeleton.schema, *own])

    @property
    def row_groups(self) -> Sequence[RowGroup]:
        return self.source.row_groups

    @property
    def num_rows(self) -> int:
        return self.source.num_rows

    @property
    def footer(self) -> Mapping[bytes, bytes]:
        return self.skeleton.footer

    def statistics(self, group: RowGroup) -> dict[str, ColumnStatistics]:
        known = self.source.statistics(group)
        return {name: found for name, found in known.items() if name not in self.skeleton.schema.names}

    def read(self, columns: Sequence[str], groups: Sequence[RowGroup]) -> pa.Table:
        found = [table for _, table in self.batches(columns, groups)]
        return pa.concat_tables(found) if found else self.schema.empty_table().select(list(columns))

    def batches(self, columns: Sequence[str], groups: Iterable[RowGroup]) -> Iterator[tuple[int, pa.Table]]:
        meta = [name for name in columns if name in self.skeleton.schema.names]
        own = [name for name in columns if name not in meta]
        beside = _Forward(self.skeleton, meta)
        for start, table in self.source.batches(own, groups):
            if meta:
                rows = beside.rows(start, start + table.num_rows)
                for name in own:
                    rows = rows.append_column(name, table.column(name))
                table = rows.select(list(columns))
            yield start, table


class _Forward:
    """Rows of a file by their positions, which only go up: no more of it is held than the batch that has them."""

    def __init__(self, file: BaseFile, columns: Sequence[str]) -> None:
        self._batches = file.batches(columns, file.row_groups) if columns else iter(())
        self._start, self._table = 0, file.schema.empty_table().select(list(columns))

    def rows(self, first: int, end: int) -> pa.Table:
        parts = []
        while first < end:
            while first >= self._start + self._table.num_rows:
                self._start, self._table = next(self._batches)
            part = self._table.slice(first - self._start, end - first)
            parts.append(part)
            first += part.num_rows
        return pa.concat_tables(parts) if parts else self._table.slice(0, 0)


def _source_of(storage: Storage, path: str) -> str:
    """Where the rows' own columns are, as a path or URI."""
    partition, _, name = path.rpartition("/")
    parsed = parse_base_file(name)
    assert parsed is not None
    key = f"part={partition};fileid={parsed.file_id}"
    for entry in sorted(storage.list(_INDEX), key=lambda entry: entry.name, reverse=True):
        if entry.name.endswith(".hfile"):
            where = storage.describe(entry.path)
            reader = HFileReader(StorageSource(storage, entry.path), where)
            for _, value in reader.get_many([key.encode()]):
                status = _record(bytes(value), where).get("bootstrapFileStatus") or {}
                uri = (status.get("path") or {}).get("uri")
                if not isinstance(uri, str):
                    raise CorruptFile(f"{where}: the record {key!r} names no file; restore the file from a backup")
                info = reader.file_info.get(b"INDEX_INFO")
                was_below = "" if info is None else str(_record(info, where).get("bootstrapBasePath") or "")
                return _moved(uri, was_below, load_config(storage).properties.get(_BASE_PATH) or "")
    raise CorruptFile(
        f"{storage.describe(path)}: is a bootstrap's skeleton, and {storage.describe(_INDEX)} does not say which "
        "file it belongs to; restore that folder from a backup"
    )


def _record(content: bytes, where: str) -> Mapping[str, Any]:
    try:
        found: Any = next(iter(fastavro.reader(io.BytesIO(content))))
    except Exception as error:  # fastavro raises whatever the bytes lead it to
        raise CorruptFile(
            f"{where}: a record of the bootstrap index does not decode ({error!r}); restore it"
        ) from error
    if not isinstance(found, Mapping):
        raise CorruptFile(f"{where}: the bootstrap index holds a {type(found).__name__}; restore it from a backup")
    return found


def _moved(uri: str, was_below: str, is_below: str) -> str:
    """The file below the folder that the table's properties name now, for tables that were moved with their source.

    >>> _moved("file:/old/src/p=1/a.parquet", "file:///old/src", "/new/src")
    '/new/src/p=1/a.parquet'
    """
    path, old = _SCHEME.sub("/", uri), _SCHEME.sub("/", was_below).rstrip("/")
    if is_below and old and path.startswith(f"{old}/"):
        return is_below.rstrip("/") + path[len(old) :]
    return uri


def _storage_of(table: Storage, folder: str) -> Storage:
    """The folder on the table's own filesystem, unless its URI names another."""
    scheme, own = (_SCHEME.match(text) for text in (folder, table.uri))
    names = [("file" if match is None else match[1].lower()) for match in (scheme, own)]
    if names[0] != names[1]:
        return Storage.at(folder)
    if names[0] == "file":
        return Storage(table.filesystem, _SCHEME.sub("/", folder), _SCHEME.sub("/", folder))
    return Storage(table.filesystem, folder[len(scheme[0]) :] if scheme is not None else folder, folder)
