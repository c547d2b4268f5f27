"""How a newer metadata record meets an older one with the same key (format facts 8.4).

The functions follow Hudi's payload: tombstones stay in the result, so that records of log files can be merged among
themselves first and with the base file's after. `live` drops them at the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headwater.errors import CorruptFile
from headwater.hudi.metadata_table.records import (
    BloomEntry,
    ColumnStats,
    FileListing,
    ListedFile,
    Payload,
    RecordLocation,
    SecondaryEntry,
    Tombstone,
)
from headwater.hudi.metadata_table.values import StatValue


def merge(older: Payload | None, newer: Payload) -> Payload:
    """The record after `newer` came; `older` is None when there was none.

    >>> merge(RecordLocation("p", "f1", 1), RecordLocation("p", "f2", 2)).file_id
    'f2'
    >>> merge(RecordLocation("p", "f1", 1), Tombstone())
    Tombstone()
    """
    if older is None or live(older) is None or live(newer) is None:
        return newer
    if isinstance(older, FileListing) and isinstance(newer, FileListing):
        return merge_listings(older, newer)
    if isinstance(older, ColumnStats) and isinstance(newer, ColumnStats):
        return merge_column_stats(older, newer)
    if type(older) is not type(newer):
        raise CorruptFile(
            f"metadata table: a {type(older).__name__} and a {type(newer).__name__} share a key; rebuild the table"
        )
    return newer


def live(payload: Payload) -> Payload | None:
    """The payload, or None when it says that the record was deleted."""
    if isinstance(payload, Tombstone):
        return None
    deleted = isinstance(payload, (ColumnStats, BloomEntry, SecondaryEntry)) and payload.is_deleted
    return None if deleted else payload


def merge_listings(older: FileListing, newer: FileListing) -> FileListing:
    """Files that came are added, files that went are removed.

    A file in both has the larger size: commits may be merged out of order, and files only grow. The removal of a file
    that the older listing does not know is kept, because a still older one may have it.

    >>> old = FileListing({"a": ListedFile(1), "b": ListedFile(5)})
    >>> new = FileListing({"a": ListedFile(0, True), "b": ListedFile(3), "c": ListedFile(0, True)})
    >>> merge_listings(old, new).files
    {'b': ListedFile(size=5, deleted=False), 'c': ListedFile(size=0, deleted=True)}
    """
    files = dict(older.files)
    for name, file in newer.files.items():
        known = files.get(name)
        if known is None or (known.deleted and file.deleted):
            files[name] = file
        elif file.deleted:
            del files[name]
        else:
            files[name] = ListedFile(max(known.size, file.size))
    return FileListing(files)


def merge_column_stats(older: ColumnStats, newer: ColumnStats) -> ColumnStats:
    """Newer statistics replace older ones when either is a tombstone or the newer are tight; else the ranges unite.

    >>> def stats(low, high, **more): return ColumnStats("f", "c", low, high, 1, 0, 8, 8, **more)
    >>> merge_column_stats(stats(3, 5), stats(None, 9)).min
    3
    >>> merge_column_stats(stats(3, 5), stats(4, 9, is_tight=True)).min
    4
    """
    if newer.is_deleted or older.is_deleted or newer.is_tight:
        return newer
    if older.value_count is None or newer.value_count is None:
        return _unknown(newer)
    try:
        low = _bound(older.min, newer.min, upper=False)
        high = _bound(older.max, newer.max, upper=True)
    except TypeError:
        # The column changed its type between the two, and the types have no common order.
        return _unknown(newer)
    return replace(
        newer,
        min=low,
        max=high,
        value_count=older.value_count + newer.value_count,
        null_count=_sum(older.null_count, newer.null_count),
        total_size=_sum(older.total_size, newer.total_size),
        total_uncompressed_size=_sum(older.total_uncompressed_size, newer.total_uncompressed_size),
    )


def merge_blooms(older: BloomEntry, newer: BloomEntry) -> BloomEntry:
    """The newer filter: a base file never changes."""
    return newer


def merge_locations(older: RecordLocation, newer: RecordLocation) -> RecordLocation:
    """The newer location."""
    return newer


def merge_secondary(older: SecondaryEntry, newer: SecondaryEntry) -> SecondaryEntry:
    """The newer entry; `live` drops it when it is a deletion."""
    return newer


def _bound(older: Any, newer: Any, *, upper: bool) -> StatValue:
    """The wider bound; nulls do not count, and NaN is above all numbers, as in Java's order."""
    if older is None or newer is None:
        return newer if older is None else older  # type: ignore[no-any-return]
    if older != older or newer != newer:
        number = newer if older != older else older
        return float("nan") if upper else number
    wider = older >= newer if upper else older <= newer
    return older if wider else newer  # type: ignore[no-any-return]


def _unknown(stats: ColumnStats) -> ColumnStats:
    """Statistics that say nothing and stay so in further merges."""
    return replace(stats, min=None, max=None, value_count=None, null_count=None)


def _sum(older: int | None, newer: int | None) -> int | None:
    return None if older is None or newer is None else older + newer
