"""Writing what was assigned to a file group: a new base file, the next version of one, or a log file.

Files are named and marked before the first byte of them is written. A crash leaves files that no commit names; their
markers tell the next writer which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.hudi.avro_schema import to_avro
from headwater.hudi.base_file import open_base_file
from headwater.hudi.file_names import parse_base_file, parse_log_file
from headwater.hudi.merge.fold import Flags, Rows
from headwater.hudi.merge.log_rows import LogRows
from headwater.hudi.merge.ordering import ordering_values, ranks
from headwater.hudi.merge.rules import MergeRules
from headwater.hudi.table import HudiTable
from headwater.hudi.write.assignment import GroupWork, How
from headwater.hudi.write.base_merge import BaseMerge
from headwater.hudi.write.base_writer import BaseFileWriter
from headwater.hudi.write.batch import Batch
from headwater.hudi.write.change_log import change_log_name, write_change_log
from headwater.hudi.write.log_writer import LogFormat, default_format, takes_partial_logs, write_log_file
from headwater.hudi.write.meta_columns import (
    with_empty_meta_columns,
    with_file_name,
    with_meta_columns,
    with_meta_schema,
)
from headwater.hudi.write.model import RECORD_MOVES, WrittenFile
from headwater.hudi.write.options import WriteOptions
from headwater.hudi.write.pending import groups_in_pending_compaction
from headwater.hudi.write.placement import stored_rows, with_stored_values
from headwater.hudi.write.tagging import UNKNOWN, Tags
from headwater.spec.model import FileGroupId

_PART = 128 * 1024
# A batch of a file that is rewritten is there several times over while new rows are put into it.
_BATCH_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Target:
    """What is the same for every file of a write."""

    table: HudiTable
    instant: str
    schema: pa.Schema
    """The user's columns as they will be written."""
    options: WriteOptions
    rules: MergeRules
    absent: frozenset[str] = frozenset()
    """Columns that the incoming rows do not have and that keep their stored values (a partial update)."""
    indexes_records: bool = False
    """Whether the metadata table wants to know where each record is."""
    places_known: bool = False
    """Whether stored records were found by that index, so that it knows them already."""
    attempt: str = "0-0"
    """The end of the write token in names of files: two attempts at the same work make files of different names."""

    @cached_property
    def file_schema(self) -> pa.Schema:
        return with_meta_schema(self.schema)

    @cached_property
    def merged_schema(self) -> pa.Schema:
        """The same while versions are merged, some of which are deletes and have no values."""
        return pa.schema([f.with_nullable(True) for f in self.file_schema])

    @cached_property
    def avro(self) -> str:
        """The schema of a base file."""
        return to_avro(self.file_schema, self.table.config.name)

    @cached_property
    def log_avro(self) -> str:
        """The schema of a log block: of a partial update, the columns that it has."""
        fields = [f for f in self.file_schema if f.name not in self.absent]
        return to_avro(pa.schema(fields), self.table.config.name) if self.absent else self.avro

    @cached_property
    def log_format(self) -> LogFormat:
        """What was asked for, else what the readers of the table's version read right."""
        if self.options.log_format is not None:
            return "avro" if self.options.log_format == "avro" else "parquet"
        ordering = [self.schema.field(name).type for name in self.rules.ordering_fields if name in self.schema.names]
        return default_format(self.table.config.version, ordering)

    @cached_property
    def compacting(self) -> dict[FileGroupId, str]:
        return groups_in_pending_compaction(self.table.timeline)

    def base_name(self, file_id: str, task: int) -> str:
        return f"{file_id}_{task}-{self.attempt}_{self.instant}.parquet"

    def open_base(self, partition: str, name: str) -> BaseFileWriter:
        populated = self.table.config.populate_meta_fields
        path = f"{partition}/{name}" if partition else name
        return BaseFileWriter(
            self.table.storage,
            path,
            self.file_schema,
            avro_schema=self.avro,
            codec=self.options.codec,
            bloom=populated,
        )

    def stamped(
        self, rows: pa.Table, keys: pa.Array, partition: str, file_name: str, task: int, first: int
    ) -> pa.Table:
        """New rows behind their meta columns."""
        if not self.table.config.populate_meta_fields:
            return with_empty_meta_columns(rows)
        return with_meta_columns(
            rows,
            keys,
            instant=self.instant,
            partition=partition,
            file_name=file_name,
            task=task,
            first_row=first,
        )


@dataclass(frozen=True)
class Written:
    """A file that was written, and the records that came to its group or left the table."""

    file: WrittenFile
    moves: pa.Table = field(default_factory=RECORD_MOVES.empty_table)


@dataclass(frozen=True)
class GroupWriter:
    """Writes the files of one group. `task` numbers the works of a write."""

    target: Target
    work: GroupWork
    task: int
    part: int = 0
    """Which of several log files of the group this is, where its rows are too many for one."""
    first: int = 0
    """How many rows are in the parts before."""

    @cached_property
    def name(self) -> str:
        """The name of the file that will be written."""
        file_id = self.work.group.file_id
        if self.work.how is not How.APPEND:
            return self.target.base_name(file_id, self.task)
        token = f"{self.task}-{self.target.attempt}"
        if self.target.table.config.version >= 8:
            return f".{file_id}_{self.target.instant}.log.{1 + self.part}_{token}"
        return f".{file_id}_{self._base_instant}.log.{self._next_version + self.part}_{token}"

    @property
    def _path(self) -> str:
        return f"{self.work.group.partition}/{self.name}" if self.work.group.partition else self.name

    @cached_property
    def _base_instant(self) -> str:
        """The slice that a log of version 6 belongs to: a planned compaction begins a new one."""
        planned = self.target.compacting.get(self.work.group)
        if planned is not None:
            return planned
        return self.work.slice.base_instant if self.work.slice is not None else self.target.instant

    @cached_property
    def _next_version(self) -> int:
        # Logs of failed writes count as well: their names are taken.
        versions = [0]
        for file in self.target.table.listing.files(self.work.group.partition):
            log = parse_log_file(file.name)
            if log is not None and log.file_id == self.work.group.file_id and log.instant == self._base_instant:
                versions.append(log.version)
        return max(versions) + 1

    def write(self, batch: Batch) -> Written | None:
        """Write the group's share of a batch; None where nothing of it is left to write."""
        match self.work.how:
            case How.CREATE:
                return self._create(batch)
            case How.MERGE:
                return self._merge(batch)
            case How.APPEND:
                return self._append(batch) if not self._needs_whole_rows else self._append_whole(batch)

    # -------------------------------------------------------------------------------------------- a new base file

    def _create(self, batch: Batch) -> Written | None:
        rows = self.work.inserts[~batch.deleted[self.work.inserts]]
        if not len(rows):
            return None
        with self.target.open_base(self.work.group.partition, self.name) as writer:
            for part in self._inserts(batch, rows, 0):
                writer.write(part)
            file = writer.finish(inserted=len(rows))
        return Written(file, self._arrived(batch, rows))

    def _inserts(self, batch: Batch, rows: Rows, first: int) -> Iterator[pa.Table]:
        for start in range(0, len(rows), _PART):
            new, keys = batch.rows_and_keys(rows[start : start + _PART])
            yield self.target.stamped(new, keys, self.work.group.partition, self.name, self.task, first + start)

    # ---------------------------------------------------------------------------- the next version of a base file

    def _merge(self, batch: Batch) -> Written | None:
        target, slice_ = self.target, self.work.slice
        assert slice_ is not None
        assert slice_.base_file is not None
        base = open_base_file(target.table.storage, slice_.base_file.path, batch_bytes=_BATCH_BYTES)
        incoming = self._incoming(batch)
        parsed = parse_base_file(slice_.base_file.name)
        written_at = parsed.instant if parsed is not None else slice_.base_instant
        renames = target.table.history.renames(target.table.schema.internal, written_at)
        merge = BaseMerge(
            base,
            target.merged_schema,
            renames,
            target.table.config,
            target.rules,
            target.table.schema.defaults,
            incoming,
            self.work.positions if bool((self.work.positions >= 0).all()) else None,
            keeps_changes=self.change_log is not None,
            absent=target.absent,
        )
        populated = target.table.config.populate_meta_fields
        added: list[pa.Table] = []
        with target.open_base(self.work.group.partition, self.name) as writer:
            for part in merge.tables():
                writer.write(with_file_name(part, self.name) if populated else part)
            unmatched = self.work.rows[merge.unmatched]
            leaving = self._leaving[merge.unmatched]
            new = np.concatenate([unmatched[~leaving & ~batch.deleted[unmatched]], self._new_rows(batch)])
            for part in self._inserts(batch, new, len(self.work.rows)):
                writer.write(part)
                if merge.keeps_changes:
                    added.append(part)
            if not (len(new) or merge.updated or merge.deleted):
                return None  # all versions were late: the file as it is stands for them
            file = writer.finish(
                inserted=len(new),
                updated=merge.updated,
                deleted=merge.deleted,
                previous_instant=slice_.base_instant,
                base_file=slice_.base_file.name,
            )
        if self.change_log is not None:
            file = replace(file, change_files=(self._log_changes(self.change_log, merge, added),))
        return Written(file, self._moves(batch, new, merge.gone))

    @cached_property
    def change_log(self) -> str | None:
        """The name of the change log that goes with a new version of a base file, where the table has any."""
        config = self.target.table.config
        if self.work.how is not How.MERGE or not config.cdc_enabled:
            return None
        return change_log_name(self.work.group.file_id, self.target.instant, f"{self.task}-{self.target.attempt}")

    def _log_changes(self, name: str, merge: BaseMerge, added: Sequence[pa.Table]) -> tuple[str, int]:
        path = f"{self.work.group.partition}/{name}" if self.work.group.partition else name
        size = write_change_log(
            self.target.table.storage,
            path,
            self.target.instant,
            table_name=self.target.table.config.name,
            schema=self.target.schema,
            mode=self.target.table.config.cdc_logging,
            changes=merge.changes,
            inserted=added,
        )
        return path, size

    @property
    def _leaving(self) -> Flags:
        return self.work.leaving if len(self.work.leaving) else np.zeros(len(self.work.rows), bool)

    def _new_rows(self, batch: Batch) -> Rows:
        return self.work.inserts[~batch.deleted[self.work.inserts]]

    def _incoming(self, batch: Batch) -> LogRows:
        """The batch's versions of stored records, as the merge wants them: behind meta columns in plain types."""
        rows, leaving = self.work.rows, self._leaving
        chosen = pa.array(rows)
        keys = batch.keys.take(chosen)
        table = self.target.stamped(
            batch.rows.take(chosen), keys, self.work.group.partition, self.name, self.task, 0
        ).cast(self.target.merged_schema)
        return LogRows(
            table,
            pa.chunked_array([keys]),
            None,
            tuple(column.take(chosen) for column in batch.ordering),
            batch.deleted[rows] | leaving,
            batch.resets[rows] | leaving,
            leaving | batch.resets[rows],
            {},
        )

    # -------------------------------------------------------------------------------------------------- a log file

    @property
    def _needs_whole_rows(self) -> bool:
        return bool(self.target.absent) and not takes_partial_logs(self.target.table.config)

    def _append_whole(self, batch: Batch) -> Written | None:
        """A partial update with the stored values of the columns that it leaves out."""
        rows, slice_ = self.work.rows, self.work.slice
        if slice_ is not None and len(rows):
            tags = Tags(rows, np.zeros(len(rows), np.int64), self.work.positions, (slice_,))
            batch = with_stored_values(self.target.table, batch, tags, sorted(self.target.absent))
        return replace(self, target=replace(self.target, absent=frozenset()))._append(batch)

    def _append(self, batch: Batch) -> Written | None:
        work, target = self.work, self.target
        rows = np.concatenate([work.rows, work.inserts])
        positions = np.concatenate([work.positions, np.full(len(work.inserts), UNKNOWN)])
        leaving = np.concatenate([self._leaving, np.zeros(len(work.inserts), bool)])
        deleted = batch.deleted[rows] | leaving
        # A delete of a record that is not there has nothing to delete.
        counts = ~(deleted & (np.arange(len(rows)) >= len(work.rows)))
        rows, positions, leaving, deleted = rows[counts], positions[counts], leaving[counts], deleted[counts]
        if not len(rows):
            return None
        slice_ = work.slice
        base = slice_.base_file if slice_ is not None else None
        parsed = parse_base_file(base.name) if base is not None else None
        known = (
            parsed is not None
            and target.table.config.version >= 8
            and target.options.record_positions
            and bool((positions >= 0).all())
        )
        if known:
            order = np.argsort(positions, kind="stable")
            rows, positions, leaving, deleted = rows[order], positions[order], leaving[order], deleted[order]
        stored, gone = rows[~deleted], rows[deleted]
        table = target.stamped(
            batch.rows.take(pa.array(stored)).select([f.name for f in target.schema if f.name not in target.absent]),
            batch.keys.take(pa.array(stored)),
            work.group.partition,
            work.group.file_id,
            self.task,
            self.first,
        )
        new = int(np.isin(stored, work.inserts).sum()) if len(work.inserts) else 0
        file = write_log_file(
            target.table.storage,
            self._path,
            target.instant,
            table if len(stored) else None,
            self._deletes(batch, gone, leaving[deleted]) if len(gone) else None,
            format=target.log_format,
            codec=target.options.codec,
            avro_schema=target.log_avro,
            positions=positions[~deleted] if known else None,
            delete_positions=positions[deleted] if known else None,
            base_instant=parsed.instant if known and parsed is not None else None,
            partial=bool(target.absent),
            inserted=new,
            updated=len(stored) - new,
            previous_instant=None if slice_ is None else self._base_instant,
            base_file=base.name if base is not None else None,
            earlier_logs=tuple(ref.name for ref in slice_.delta_files) if slice_ is not None else (),
        )
        arrived = work.inserts[~batch.deleted[work.inserts]] if target.places_known else stored
        return Written(file, self._moves(batch, arrived, [self._deleted_keys(batch, gone, leaving[deleted])]))

    def _deleted_keys(self, batch: Batch, rows: Rows, leaving: Flags) -> pa.Array:
        """Keys of the records that deletes in a log end; by event time a late delete ends none."""
        keys = batch.keys.take(pa.array(rows))
        rules, slice_ = self.target.rules, self.work.slice
        compared = np.flatnonzero(~(batch.resets[rows] | leaving))
        if not self.target.indexes_records or not rules.by_event_time or slice_ is None or not len(compared):
            return keys
        stored = stored_rows(self.target.table, slice_, keys.take(pa.array(compared)), rules.ordering_fields)
        at = pc.fill_null(pc.index_in(keys.take(pa.array(compared)), value_set=_flat(stored.column("key"))), -1)
        found = np.flatnonzero(np.asarray(at) >= 0)
        places = pa.array(np.asarray(at)[found])
        older = ordering_values(rules, [stored.column(name).take(places) for name in rules.ordering_fields])
        newer = [column.take(pa.array(rows[compared[found]])) for column in batch.ordering]
        new_rank, old_rank = ranks([newer, older])
        ends = np.ones(len(rows), bool)
        ends[compared[found[new_rank < old_rank]]] = False
        return keys.filter(pa.array(ends))

    def _deletes(self, batch: Batch, rows: Rows, leaving: Flags) -> pa.Table:
        chosen = pa.array(rows)
        count = len(rows)
        columns: dict[str, pa.Array | pa.ChunkedArray] = {
            "key": batch.keys.take(chosen),
            "partition": pa.repeat(self.work.group.partition, count),
        }
        resets = pa.array(batch.resets[rows] | leaving)
        ordering = [pc.if_else(resets, pa.scalar(None, c.type), c.take(chosen)) for c in batch.ordering]
        if len(ordering) == 1:
            columns["ordering"] = ordering[0]
        elif ordering:
            arrays = [_flat(column) for column in ordering]
            names = [f"f{number}" for number in range(len(arrays))]
            columns["ordering"] = pa.StructArray.from_arrays(arrays, names, mask=resets)
        else:
            columns["ordering"] = pa.nulls(count, pa.int32())
        return pa.table(columns)

    # ------------------------------------------------------------------------------------------------ record index

    def _arrived(self, batch: Batch, rows: Rows) -> pa.Table:
        return self._moves(batch, rows, [])

    def _moves(self, batch: Batch, rows: Rows, gone: Sequence[pa.Array]) -> pa.Table:
        if not self.target.indexes_records:
            return RECORD_MOVES.empty_table()
        leaving = batch.keys.take(pa.array(self.work.rows[self._leaving]))
        parts = [self._placed(batch.keys.take(pa.array(rows)), deleted=False)]
        for keys in gone:
            left = keys.filter(pc.invert(pc.is_in(keys, value_set=leaving))) if len(leaving) else keys
            parts.append(self._placed(left, deleted=True))
        return pa.concat_tables(parts)

    def _placed(self, keys: pa.Array, *, deleted: bool) -> pa.Table:
        count = len(keys)
        constants = (self.work.group.partition, self.work.group.file_id, self.target.instant)
        columns = [keys.cast(pa.string()), *(pa.repeat(text, count) for text in constants), pa.repeat(deleted, count)]
        return pa.Table.from_arrays(columns, schema=RECORD_MOVES)


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
