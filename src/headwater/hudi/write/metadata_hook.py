"""Where a commit and a rollback tell the metadata table: before they show in the timeline, so it is never behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from headwater.hudi.table import HudiTable
from headwater.hudi.write.model import WrittenFile
from headwater.hudi.write.options import IndexKind, WriteOptions

_RECORD_INDEX = "record_index"


class MetadataHook(Protocol):
    """Keeps a metadata table in step. A crash leaves it with or without an instant's changes: they count only once the
    instant is complete, and its rollback takes them back."""

    def prepare(self, table: HudiTable) -> HudiTable:
        """Before a write, with the lock held: what the table's properties promise is there. The table as it is then."""

    def commit(
        self,
        table: HudiTable,
        instant: str,
        action: str,
        written: Sequence[WrittenFile],
        replaced: Mapping[str, Sequence[str]],
        moves: Iterable[pa.RecordBatch],
        schema: pa.Schema,
    ) -> None:
        """What a commit is about to change; `schema` has the table's columns after it, meta columns among them."""

    def rollback(self, table: HudiTable, instant: str, undone: str, written: Sequence[WrittenFile]) -> None:
        """A rollback at `instant` undoes what was written at `undone`; `written` are log files that it made or left."""


class MetadataTableHook:
    """The metadata table below the table itself; tables without one are left alone."""

    def prepare(self, table: HudiTable) -> HudiTable:
        """A table that is to find its records by their index has one before its first row, although creating the table
        died before it was made."""
        wanted = WriteOptions.of(table.config).index is IndexKind.RECORD_INDEX
        if not wanted or table.timeline.commits or _RECORD_INDEX in table.config.metadata_partitions:
            return table
        from headwater.hudi.metadata_table.creating import create_metadata

        create_metadata(table, ("files", _RECORD_INDEX))
        return table.reopened()

    def commit(
        self,
        table: HudiTable,
        instant: str,
        action: str,
        written: Sequence[WrittenFile],
        replaced: Mapping[str, Sequence[str]],
        moves: Iterable[pa.RecordBatch],
        schema: pa.Schema,
    ) -> None:
        if table.config.metadata_partitions:
            from headwater.hudi.metadata_table.writing import update_metadata

            update_metadata(
                table, instant, action=action, written=written, replaced=replaced, moves=moves, schema=schema
            )

    def rollback(self, table: HudiTable, instant: str, undone: str, written: Sequence[WrittenFile]) -> None:
        if table.config.metadata_partitions:
            from headwater.hudi.metadata_table.writing import rollback_metadata

            rollback_metadata(table, undone, rollback_instant=instant, written=written)


METADATA_TABLE = MetadataTableHook()
