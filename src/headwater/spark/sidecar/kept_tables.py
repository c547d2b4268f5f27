"""Tables that stay open from one query to the next, each for as long as its storage shows that it has not changed.

What an open table has found out (its listing, its slices, its partitions, what commits wrote down) is most of the work
of a plan. It is used again only after a look at the storage that would show any change: a table is never older than
that look.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.hudi.metadata_table.reader import FOLDER as METADATA_FOLDER
from headwater.hudi.properties import META_FOLDER, PROPERTIES_FILE
from headwater.spark.options import parse_read_options
from headwater.spark.sidecar.tables import OpenTable, location
from headwater.storage import FileEntry, Storage
from headwater.table import Table, open_table

_MOST_TABLES = 16
_MOST_READS = 32
_TIMELINES = (META_FOLDER, f"{META_FOLDER}/timeline")
_FOLDERS = (
    *_TIMELINES,
    f"{META_FOLDER}/.schema",
    f"{META_FOLDER}/.index_defs",
    *(f"{METADATA_FOLDER}/{folder}" for folder in _TIMELINES),
)


@dataclass(frozen=True, slots=True)
class Marks:
    """What a table's storage shows of its state: two states of a table never show the same.

    A commit, a rollback or any other action adds and removes files of the timeline, of the table's own or of that of
    its metadata table; none of them is written twice. Properties are, so their bytes count. A table that was dropped
    and made again may have the names of the old one; its files have other times.
    """

    properties: tuple[bytes, ...]
    files: tuple[FileEntry, ...]


def marks(storage: Storage) -> Marks | None:
    """What the storage shows now; None where it does not show enough: without times a table is not kept.

    >>> from headwater.demo import demo_table
    >>> storage = Storage.at(demo_table("trips"))
    >>> marks(storage) == marks(storage), marks(storage.child("no such folder"))
    (True, None)
    """
    listed = _each(storage, storage.list, _FOLDERS)
    files = tuple(entry for entries in listed for entry in entries if not entry.is_directory)
    names = (PROPERTIES_FILE, f"{METADATA_FOLDER}/{PROPERTIES_FILE}")
    found = [name for name in names if any(entry.path == name for entry in files)]
    if PROPERTIES_FILE not in found or not all(entry.modified_at for entry in files):
        return None
    return Marks(tuple(_each(storage, storage.read_bytes, found)), files)


def _each(storage: Storage, action: Callable[[str], Any], paths: tuple[str, ...] | list[str]) -> list[Any]:
    """One after the other on a local disk; all at once where each is a request."""
    if storage.is_local:
        return [action(path) for path in paths]
    with ThreadPoolExecutor(len(paths)) as pool:
        return list(pool.map(action, paths))


@dataclass(frozen=True)
class _Kept:
    marks: Marks
    table: Table
    reads: OrderedDict[object, OpenTable] = field(default_factory=OrderedDict)
    """The table with the options of each read of it."""


class KeptTables:
    """Opens tables, and gives out one that is open already where nothing has happened to it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, bool], _Kept] = OrderedDict()

    def open(self, path: str, options: Mapping[str, str], session: Mapping[str, Any]) -> OpenTable:
        """The table at a path as it is now."""
        conf = dict(session.get("conf") or {})
        # What may change the way to the table's properties cannot come from them.
        first = parse_read_options(options, conf)
        storage = Storage.at(location(path))
        key = (storage.uri, first.metadata)
        # The marks come before the table: a change in between is seen by the next look.
        now, kept = marks(storage), self._kept.pop(key, None)
        if kept is None or now is None or kept.marks != now:
            table = open_table(location(path), metadata=first.metadata)
            if now is None or table.hudi.config.timeline_folder not in _TIMELINES:
                return _reading(table, options, conf)
            kept = _Kept(now, table)
        elif kept.table.hudi.__dict__.get("metadata") is None:
            # Files in folders have no marks: they are listed anew.
            kept = _Kept(now, Table(replace(kept.table.hudi)))
        self._kept[key] = kept
        while len(self._kept) > _MOST_TABLES:
            self._kept.popitem(last=False)
        return self._read(kept, options, conf)

    def _read(self, kept: _Kept, options: Mapping[str, str], conf: dict[str, Any]) -> OpenTable:
        key = (frozenset(options.items()), frozenset((name, str(value)) for name, value in conf.items()))
        found = kept.reads.pop(key, None) or _reading(kept.table, options, conf)
        kept.reads[key] = found
        while len(kept.reads) > _MOST_READS:
            kept.reads.popitem(last=False)
        return found


def _reading(table: Table, options: Mapping[str, str], conf: dict[str, Any]) -> OpenTable:
    chosen = parse_read_options(options, conf, table.hudi.config.properties)
    return OpenTable(table, chosen, dict(options), conf)
