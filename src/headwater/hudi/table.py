"""A Hudi table, opened: configuration, timeline and schema, and the readers that they make."""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import InstantNotFound
from headwater.hudi.file_index import HudiFileIndex, KnownSlices
from headwater.hudi.keys import PathValues, key_columns, record_keys
from headwater.hudi.listing import FolderListing, Listing
from headwater.hudi.merge.memo import MergeMemo
from headwater.hudi.metadata_table.reader import MetadataTable
from headwater.hudi.properties import TableConfig, load_config
from headwater.hudi.record_index import HudiRecordIndex
from headwater.hudi.schema import (
    META_SCHEMA,
    RECORD_KEY,
    SchemaHistory,
    TableSchema,
    load_schema_history,
    resolve_schema,
)
from headwater.hudi.slice_reader import HudiSliceReader, SliceContext
from headwater.hudi.timeline import HudiTimeline, as_instant_text, load_timeline
from headwater.spec.expressions import col
from headwater.spec.model import FileSlice, Instant, ReadingMode
from headwater.storage import Storage

_LOG = logging.getLogger("headwater")
_OWN = ("metadata", "listing", "memo", "_known_slices")


@dataclass(frozen=True)
class HudiTable:
    """One state of a table: what its timeline said when it was opened. Open it again to see later commits."""

    storage: Storage
    config: TableConfig
    timeline: HudiTimeline
    use_metadata: bool = True
    memo: MergeMemo | None = field(default=None, repr=False, compare=False)
    """What scans of this table found out by merging; a later state of the table goes on using it."""
    warnings: list[str] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def open(cls, storage: Storage, *, metadata: bool = True, memo: MergeMemo | None = None) -> HudiTable:
        config = load_config(storage)
        return cls(storage, config, load_timeline(storage, config), metadata, memo)

    def reopened(self) -> HudiTable:
        """The same table as it is now."""
        return HudiTable.open(self.storage, metadata=self.use_metadata, memo=self.memo)

    def __getstate__(self) -> dict[str, object]:
        """What another process gets: all but open files, which it opens anew, and what is remembered here."""
        return {name: value for name, value in self.__dict__.items() if name not in _OWN}

    def warn(self, message: str) -> None:
        """Note what a read passed over; told once, to the log and to `warnings`."""
        if message not in self.warnings:
            self.warnings.append(message)
            _LOG.warning(message)

    @cached_property
    def schema(self) -> TableSchema:
        """The newest schema."""
        return self._schema_at(None)

    def schema_at(self, instant: Instant | None) -> TableSchema:
        return self.schema if instant is None else self._schema_at(instant.requested_at)

    def _schema_at(self, as_of: str | None) -> TableSchema:
        found = resolve_schema(self.timeline, as_of) or self._schema_of_files()
        if self.config.drop_partition_columns:
            missing = [name for name in self.config.partition_fields if name not in found.arrow.names]
            fields = [*found.arrow, *(pa.field(name, pa.string()) for name in missing)]
            found = TableSchema(pa.schema(fields), found.avro, found.internal)
        return found

    def _schema_of_files(self) -> TableSchema:
        """No commit wrote a schema down: the newest base file tells it."""
        from headwater.hudi.base_file import open_base_file

        for instant in reversed(self.timeline.commits):
            for stat in self.timeline.metadata(instant).write_stats:
                if stat.path and stat.path.rsplit(".", 1)[-1] in ("parquet", "orc", "lance"):
                    schema = open_base_file(self.storage, stat.path).schema
                    user = [f for f in schema if f.name not in META_SCHEMA.names]
                    return TableSchema(pa.schema([*META_SCHEMA, *user]))
        return TableSchema(META_SCHEMA)

    @cached_property
    def history(self) -> SchemaHistory:
        return load_schema_history(self.timeline) if self.schema.internal is not None else SchemaHistory()

    @cached_property
    def metadata(self) -> MetadataTable | None:
        """The metadata table, where there is one that can be used and the caller wants it."""
        if not self.use_metadata:
            return None
        found = MetadataTable.open(self.timeline)
        if found is not None and not found.is_current:
            self.warn(f"{found.storage.uri}: does not know the newest commit; folders are listed instead")
            return None
        return found

    @cached_property
    def listing(self) -> Listing:
        return self.metadata or FolderListing(self.storage, self.config)

    @cached_property
    def _known_slices(self) -> KnownSlices:
        return KnownSlices()

    def file_index(
        self,
        schema: TableSchema | None = None,
        *,
        base_files_only: bool = False,
        despite_cleaning: bool = False,
        only: frozenset[str] | None = None,
    ) -> HudiFileIndex:
        schema = schema or self.schema
        return HudiFileIndex(
            self.timeline,
            self.listing,
            schema,
            self.metadata,
            base_files_only,
            despite_cleaning,
            only,
            known=self._known_slices,
        )

    def instant_at(self, when: object) -> Instant:
        """The newest completed write at a point in time: an instant, a timestamp or a date."""
        text = as_instant_text(when, in_utc=self.config.timeline_in_utc)
        found = self.timeline.find_latest_completed_action_at(text)
        if found is not None:
            return Instant(text, found.action, completed_at=found.completed_at)
        if self.timeline.start is not None and any(a.requested_at <= text for a in self.timeline.history):
            return Instant(text, "commit", completed_at=text)
        first = self.timeline.commits[0].requested_at if self.timeline.commits else None
        raise InstantNotFound(
            f"{self.storage.uri}: nothing was committed by {text}; "
            + (f"the history begins at {first}" if first else "the table has no commits")
        )

    def bound_of_range(self, when: object) -> Instant:
        """An end of a range: a commit by its instant, or any point in time.

        A text that is a commit's instant stands for that commit; any other is a time on the clock that orders this
        table's commits: completion from version 8 on, request before.
        """
        text = as_instant_text(when, in_utc=self.config.timeline_in_utc)
        for instant in self.timeline.commits:
            if instant.requested_at == text:
                return instant
        if self.timeline.start is not None and text < self.timeline.start and not text.startswith("0"):
            for archived in self.timeline.history:
                if archived.requested_at == text:
                    return archived.instant
        return Instant(text, "", completed_at=text)

    def reader(
        self,
        schema: TableSchema,
        *,
        mode: ReadingMode = ReadingMode.SNAPSHOT,
        as_of: str | None = None,
        budget: int | None = None,
    ) -> HudiSliceReader:
        context = SliceContext(
            self.storage,
            self.config,
            self.timeline,
            schema,
            self.history,
            # Where the path tells a column's value, the files need not be read for it.
            PathValues(self.config, schema.arrow),
            self.timeline.is_committed,
            as_of,
            budget,
            self.warn,
        )
        return HudiSliceReader(context, schema.arrow, None, mode)

    def rows_by_key(self, keys: pa.Array, output: pa.Schema) -> pa.Table:
        """The rows of the newest state that have these record keys."""
        index = HudiRecordIndex(self)
        texts = keys.cast(pa.string())
        output = pa.schema([f.with_nullable(True) for f in output])
        needed = [*output.names, *(n for n in key_columns(self.config) if n not in output.names)]
        reader = self.reader(self.schema).project(pa.schema([self.schema.arrow.field(name) for name in needed]))
        if self.config.populate_meta_fields:
            reader = reader.push_down_filters(col(RECORD_KEY).is_in(texts.to_pylist()))

        def read(slice_: FileSlice) -> list[pa.Table]:
            found = []
            for batch in reader.open(slice_):
                rows = pa.Table.from_batches([batch])
                if not self.config.populate_meta_fields:
                    rows = rows.filter(pc.is_in(record_keys(self.config, rows), value_set=texts))
                found.append(rows.select(output.names).cast(output))
            return found

        with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
            parts = list(pool.map(read, index.slices(texts) if len(texts) else []))
        return pa.concat_tables([output.empty_table(), *(table for part in parts for table in part)])
