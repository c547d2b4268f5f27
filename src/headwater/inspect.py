"""Looking into a table: its history, files, slices, partitions, properties and statistics as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headwater.errors import InvalidArgument
from headwater.hudi.base_file import BaseFile, open_base_file
from headwater.hudi.file_names import parse_base_file, parse_log_file
from headwater.hudi.table import HudiTable
from headwater.hudi.timeline.instants import WRITE_ACTIONS
from headwater.hudi.timeline.metadata import commit_metadata
from headwater.spec.model import FileRef, FileSlice, Instant, InstantState, PartitionSnapshot
from headwater.spec.statistics import ColumnStatistics

HISTORY = pa.schema(
    [
        pa.field("requested_at", pa.string(), nullable=False),
        ("completed_at", pa.string()),
        pa.field("action", pa.string(), nullable=False),
        pa.field("state", pa.string(), nullable=False),
        ("operation", pa.string()),
        ("partitions", pa.int64()),
        ("files", pa.int64()),
        ("rows_inserted", pa.int64()),
        ("rows_updated", pa.int64()),
        ("rows_deleted", pa.int64()),
        ("bytes", pa.int64()),
        pa.field("archived", pa.bool_(), nullable=False),
    ]
)
"""The columns of `Inspect.history`. What an action did not write down is null."""

FILES = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("file_id", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("instant", pa.string(), nullable=False),
        ("size", pa.int64()),
    ]
)
"""The columns of `Inspect.files`."""

SLICES = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("file_id", pa.string(), nullable=False),
        pa.field("base_instant", pa.string(), nullable=False),
        ("base_file", pa.string()),
        pa.field("logs", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
    ]
)
"""The columns of `Inspect.slices`."""

PARTITIONS = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("values", pa.string(), nullable=False),
        pa.field("slices", pa.int64(), nullable=False),
        pa.field("files", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
    ]
)
"""The columns of `Inspect.partitions`."""

PROPERTIES = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string(), nullable=False)])
"""The columns of `Inspect.properties`."""

STATISTICS = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("column", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        ("nulls", pa.int64()),
        ("min", pa.string()),
        ("max", pa.string()),
    ]
)
"""The columns of `Inspect.statistics`."""


@dataclass(frozen=True)
class Inspect:
    """What a table is made of. `headwater.open(path).inspect` gives one; it reads metadata and footers, never rows."""

    hudi: HudiTable

    def history(self, *, archived: bool = False) -> pa.Table:
        """Every action of the timeline, oldest first; with `archived`, those that left the active timeline too.

        `partitions`, `files`, `bytes` and the rows are what the action says it wrote; a clean or a rollback tells only
        how many partitions it touched, a pending action nothing.

        >>> import headwater
        >>> from headwater.demo import demo_table
        >>> history = headwater.open(demo_table("trips")).inspect.history()
        >>> columns = ["action", "state", "operation", "rows_updated", "rows_deleted"]
        >>> for row in history.select(columns).to_pylist()[-3:]:
        ...     print(*row.values())
        compaction requested None None None
        deltacommit completed UPSERT 2 0
        deltacommit completed DELETE 0 2
        """
        timeline = self.hudi.timeline
        rows = [self._active_row(instant) for instant in timeline.instants]
        if archived:
            active = {(i.requested_at, i.action) for i in timeline.completed()}
            old = [a for a in timeline.history if (a.requested_at, a.action) not in active]
            where = f"{self.hudi.storage.uri}: archived instant"
            rows += [_history_row(a.instant, a.metadata(), f"{where} {a.requested_at}", archived=True) for a in old]
            rows.sort(key=lambda row: (row["requested_at"], row["action"]))
        return pa.Table.from_pylist(rows, schema=HISTORY)

    def _active_row(self, instant: Instant) -> dict[str, Any]:
        where = f"{self.hudi.storage.uri}: instant {instant}"
        record = self.hudi.timeline.read(instant) if instant.is_completed else {}
        return _history_row(instant, record, where, archived=False)

    def files(self, partition: str | None = None) -> pa.Table:
        """The files of the current slices, base file before its logs; of one partition where it is given.

        >>> import headwater
        >>> from headwater.demo import demo_table
        >>> files = headwater.open(demo_table("trips")).inspect.files("city=sf")
        >>> files.select(["kind", "instant", "size"]).to_pylist()[:2]
        [{'kind': 'base', 'instant': '20261115073146372', 'size': 435484},
         {'kind': 'log', 'instant': '20261115073152107', 'size': 1067}]
        """
        found = self._snapshots()
        if partition is not None:
            known = self.hudi.listing.partitions()
            if partition not in known:
                some = ", ".join(map(repr, known[:8])) + (f", … ({len(known)} in all)" if len(known) > 8 else "")
                raise InvalidArgument(
                    f"{self.hudi.storage.uri}: no partition {partition!r}; there are: {some or 'none'}"
                )
            found = [part for part in found if part.partition.path == partition]
        rows = [_file_row(slice_, ref, kind) for part in found for slice_ in part.slices for ref, kind in _refs(slice_)]
        return pa.Table.from_pylist(rows, schema=FILES)

    def slices(self, as_of: object = None) -> pa.Table:
        """The file slices that a snapshot reads, now or at a point in time.

        >>> import headwater
        >>> from headwater.demo import demo_table
        >>> inspect = headwater.open(demo_table("trips")).inspect
        >>> inspect.slices().select(["partition", "logs"]).to_pylist()[0]
        {'partition': 'city=la', 'logs': 2}
        >>> inspect.slices(as_of="20261115073146372").column("logs").to_pylist()
        [0, 0, 0]
        """
        rows = [
            {
                "partition": part.partition.path,
                "file_id": slice_.group.file_id,
                "base_instant": slice_.base_instant,
                "base_file": None if slice_.base_file is None else slice_.base_file.name,
                "logs": len(slice_.delta_files),
                "bytes": slice_.size,
            }
            for part in self._snapshots(as_of)
            for slice_ in part.slices
        ]
        return pa.Table.from_pylist(rows, schema=SLICES)

    def partitions(self) -> pa.Table:
        """The partitions that hold current slices: path, values of the partition columns, and how much is in each.

        >>> import headwater
        >>> from headwater.demo import demo_table
        >>> for row in headwater.open(demo_table("trips")).inspect.partitions().to_pylist():
        ...     print(*row.values())
        city=la city=la 1 3 437747
        city=nyc city=nyc 2 4 873023
        city=sf city=sf 1 3 437531
        """
        rows = [
            {
                "path": part.partition.path,
                "values": ", ".join(f"{name}={value}" for name, value in part.partition.as_mapping().items()),
                "slices": len(part.slices),
                "files": sum(len(slice_.paths) for slice_ in part.slices),
                "bytes": sum(slice_.size for slice_ in part.slices),
            }
            for part in self._snapshots()
        ]
        return pa.Table.from_pylist(rows, schema=PARTITIONS)

    def properties(self) -> pa.Table:
        """The table's own configuration, as it stands in `hoodie.properties`.

        >>> import headwater
        >>> from headwater.demo import demo_table
        >>> properties = headwater.open(demo_table("trips")).inspect.properties().to_pylist()
        >>> [p["value"] for p in properties if p["key"] == "hoodie.table.type"]
        ['MERGE_ON_READ']
        """
        items = sorted(self.hudi.config.properties.items())
        return pa.Table.from_pylist([{"key": key, "value": value} for key, value in items], schema=PROPERTIES)

    def statistics(self) -> pa.Table:
        """What the footers of the current base files tell of each column: rows, nulls, least and greatest value.

        Bounds are texts, and null where the footer has none: nested columns, ORC, columns of nulls only. What log files
        change is not in them.

        >>> import headwater
        >>> from headwater.demo import demo_table
        >>> found = headwater.open(demo_table("trips")).inspect.statistics().to_pylist()
        >>> for row in found:
        ...     if row["column"] == "price":
        ...         print(row["partition"], row["rows"], row["nulls"], row["min"], row["max"])
        city=la 4 0 3.0 16.5
        city=nyc 1 0 49.5 49.5
        city=nyc 4 0 1.5 15.0
        city=sf 4 0 4.5 18.0
        """
        bases = [slice_ for part in self._snapshots() for slice_ in part.slices if slice_.base_file is not None]
        rows = [row for slice_ in bases for row in self._statistics_rows(slice_)]
        return pa.Table.from_pylist(rows, schema=STATISTICS)

    def _statistics_rows(self, slice_: FileSlice) -> Iterator[dict[str, Any]]:
        assert slice_.base_file is not None
        file = open_base_file(self.hudi.storage, slice_.base_file.path)
        known = footer_statistics(file)
        for name in file.schema.names:
            found = known.get(name, ColumnStatistics())
            yield {
                "partition": slice_.group.partition,
                "path": slice_.base_file.path,
                "column": name,
                "rows": file.num_rows,
                "nulls": found.null_count,
                "min": _text(found.minimum),
                "max": _text(found.maximum),
            }

    def _snapshots(self, as_of: object = None) -> list[PartitionSnapshot]:
        instant = None if as_of is None else self.hudi.instant_at(as_of)
        return self.hudi.file_index().list_files_at(instant)


def footer_statistics(file: BaseFile) -> dict[str, ColumnStatistics]:
    """The statistics of a whole base file, put together from its row groups; a column that one group lacks is out."""
    parts = [file.statistics(group) for group in file.row_groups if group.rows]
    if not parts:
        return {}
    found = dict(parts[0])
    for part in parts[1:]:
        found = {name: known.merge(part[name]) for name, known in found.items() if name in part}
    return found


def _history_row(instant: Instant, record: Mapping[str, Any], where: str, *, archived: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "requested_at": instant.requested_at,
        "completed_at": instant.completed_at,
        "action": instant.action,
        "state": instant.state.value,
        "archived": archived,
    }
    if instant.state is not InstantState.COMPLETED:
        return row
    if instant.action not in WRITE_ACTIONS:
        touched = record.get("partitionMetadata")
        return row if touched is None else {**row, "partitions": len(touched)}
    metadata = commit_metadata(record, where)
    stats = metadata.write_stats
    return {
        **row,
        "operation": None if metadata.operation == "UNKNOWN" else metadata.operation,
        "partitions": len({stat.partition for stat in stats} | set(metadata.replaced)),
        "files": len({stat.path for stat in stats if stat.path}),
        "rows_inserted": sum(stat.num_inserts for stat in stats),
        "rows_updated": sum(stat.num_updates for stat in stats),
        "rows_deleted": sum(stat.num_deletes for stat in stats),
        "bytes": sum(stat.size for stat in stats),
    }


def _refs(slice_: FileSlice) -> Iterable[tuple[FileRef, str]]:
    if slice_.base_file is not None:
        yield slice_.base_file, "base"
    for ref in slice_.delta_files:
        yield ref, "log"


def _file_row(slice_: FileSlice, ref: FileRef, kind: str) -> dict[str, Any]:
    name = parse_base_file(ref.name) or parse_log_file(ref.name)
    return {
        "partition": slice_.group.partition,
        "file_id": slice_.group.file_id,
        "path": ref.path,
        "kind": kind,
        "instant": slice_.base_instant if name is None else name.instant,
        "size": ref.size,
    }


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
