"""Keeping the metadata table in step with the data table: one commit here for each one there, before it completes.

What a crash leaves behind: a commit of the metadata table that is pending or completed, whose data instant is pending.
Readers pass over it; `rollback_metadata`, called by the rollback of the data instant, takes it back, and so does the
next `update_metadata` with what was pending here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa

from headwater.hudi.metadata_table.changes import Changes
from headwater.hudi.metadata_table.commits import MetadataWriter, pending_commits, undo
from headwater.hudi.metadata_table.creating import default_columns
from headwater.hudi.metadata_table.dropping import drop_metadata, update_definitions
from headwater.hudi.metadata_table.layout import Entries, by_group, refuse_other_indexes
from headwater.hudi.metadata_table.moves import entries_by_group
from headwater.hudi.metadata_table.reader import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    MetadataTable,
)
from headwater.hudi.metadata_table.services import maintain
from headwater.hudi.table import HudiTable
from headwater.hudi.write.model import WrittenFile

_NONE: Mapping[str, Sequence[str]] = MappingProxyType({})


def update_metadata(
    table: HudiTable,
    instant: str,
    *,
    action: str = "commit",
    written: Sequence[WrittenFile] = (),
    replaced: Mapping[str, Sequence[str]] = _NONE,
    deleted_files: Mapping[str, Sequence[str]] = _NONE,
    moves: Iterable[pa.RecordBatch] = (),
    schema: pa.Schema | None = None,
) -> None:
    """Write what an action of the data table changes, under the action's instant; the table's lock is held.

    Nothing happens where the table has no metadata table. Called again for the same instant, it takes back what it
    wrote before.

    Parameters
    ----------
    action
        The data table's action; a clean and a rollback write no rows.
    written
        The files that came.
    replaced
        Partition → file ids whose rows the action replaced.
    deleted_files
        Partition → names of files that went.
    moves
        Where records went, as `RECORD_MOVES`: one row for each key that is new, moved or gone.
    schema
        The table's columns with the action's changes; those of the table as it was opened where not given.
    """
    if FILES not in table.config.metadata_partitions:
        return
    writer = MetadataWriter.open(table.storage, table.config)
    refuse_other_indexes(writer.metadata)
    if _recover(writer, instant):
        writer = MetadataWriter.open(table.storage, table.config)
    if maintain(writer, instant):
        writer = MetadataWriter.open(table.storage, table.config)
    changes = Changes(instant, written, replaced, deleted_files, schema or table.schema.arrow)
    added = _added_columns(table, writer.metadata, changes.schema)
    if added:
        _index_columns(table, writer.metadata, added)
        writer = MetadataWriter.open(table.storage, table.config)
    writer.begin(instant)
    files = [
        writer.write_log(writer.slices(partition)[index], instant, part)
        for partition, index, part in _parts(writer, changes, moves, added)
    ]
    writer.complete(instant, files, operation="UPSERT_PREPPED")


def rollback_metadata(
    table: HudiTable, instant: str, *, rollback_instant: str, written: Sequence[WrittenFile] = ()
) -> bool:
    """Take back what an instant of the data table wrote here, completed or not; the table's lock is held.

    Called in the rollback of the data instant, before that completes; calling it again does no harm. `written` are the
    files that the rollback itself made: before version 8 it adds log files. Where a compaction has taken the instant's
    records up, they cannot be told from the others: then the metadata table is dropped, and False returned.
    """
    if FILES not in table.config.metadata_partitions:
        return True
    writer = MetadataWriter.open(table.storage, table.config)
    if not undo(writer, instant):
        drop_metadata(table)
        return False
    if written:
        update_metadata(table, rollback_instant, action="rollback", written=written)
    return True


def indexed_columns(metadata: MetadataTable) -> list[str] | None:
    """The columns that have statistics; None before version 8, where all columns have."""
    definition = metadata.definitions.get(COLUMN_STATS)
    return None if definition is None else [str(name) for name in definition.get("sourceFields") or ()]


def _added_columns(table: HudiTable, metadata: MetadataTable, schema: pa.Schema) -> list[str]:
    """Columns that an action adds to the table and that get statistics from now on, as with Hudi: where the index has
    the columns that it has by itself, and not some that were chosen.

    Only in the action that adds it may a column come to the index: files without statistics of it are taken for nulls.
    """
    known = indexed_columns(metadata) or ()
    if not known or not set(default_columns(table.schema.arrow)) <= set(known):
        return []
    new = set(schema.names) - set(table.schema.arrow.names)
    return [name for name in default_columns(schema) if name in new and name not in known]


def _index_columns(table: HudiTable, metadata: MetadataTable, added: Sequence[str]) -> None:
    """Name further columns in the index's definition. A crash leaves the name of a column that the table may not have,
    and that gets statistics once it does."""
    definition = metadata.definitions[COLUMN_STATS]
    fields = [*(definition.get("sourceFields") or ()), *added]
    update_definitions(table.storage, table.config, {COLUMN_STATS: {**definition, "sourceFields": fields}})


def _recover(writer: MetadataWriter, instant: str) -> bool:
    """Undo what crashed writers left, and an earlier try of this instant; whether there was any."""
    left = {
        *pending_commits(writer),
        *(i.requested_at for i in writer.timeline.completed() if i.requested_at == instant),
    }
    for time in sorted(left):
        undo(writer, time)
    return bool(left)


def _parts(
    writer: MetadataWriter, changes: Changes, moves: Iterable[pa.RecordBatch], added: Sequence[str]
) -> Iterator[tuple[str, int, Entries]]:
    """Records by partition of the metadata table and file group, those that the table has."""
    metadata, version = writer.metadata, writer.version
    columns = indexed_columns(metadata)
    small: dict[str, Callable[[], Entries]] = {
        FILES: lambda: changes.listing(version),
        COLUMN_STATS: lambda: changes.statistics(version, columns),
        PARTITION_STATS: lambda: changes.partition_statistics(metadata, columns, added),
        BLOOM_FILTERS: lambda: changes.blooms(version),
    }
    for partition, records in small.items():
        if metadata.has(partition):
            for index, part in by_group(records(), len(writer.slices(partition))):
                yield partition, index, part
    if metadata.has(RECORD_INDEX):
        count = len(writer.slices(RECORD_INDEX))
        for index, part in entries_by_group(moves, count, version, in_utc=writer.in_utc):
            yield RECORD_INDEX, index, part
