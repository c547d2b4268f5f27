"""Rows of a file slice: the base file's, less what the log replaced, plus what it wrote. A `spec.FileSliceReader`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import ColumnNotFound
from headwater.hudi.base_file import BATCH_BYTES, BaseFile, RowGroup, open_base_file
from headwater.hudi.base_rows import are_most, batches_with, rows_at, runs_of, without
from headwater.hudi.evolution import Renames, conform, is_mislabelled
from headwater.hudi.file_names import parse_base_file
from headwater.hudi.footer_index import by_footer
from headwater.hudi.key_filter import wanted_keys
from headwater.hudi.keys import describe_partition, key_columns, record_keys
from headwater.hudi.log import BlockType, LogBlock, scan_blocks, select_blocks
from headwater.hudi.merge.fold import Rows
from headwater.hudi.merge.log_rows import LogReader, Share
from headwater.hudi.merge.memo import MergeMemo, key_of_files
from headwater.hudi.merge.rules import MergeRules, merge_rules
from headwater.hudi.merge.slice_merge import BaseRows, Merged, merge_slice
from headwater.hudi.parquet_rows import Run
from headwater.hudi.properties import TableConfig
from headwater.hudi.schema import COMMIT_TIME, SchemaHistory, TableSchema
from headwater.hudi.timeline import HudiTimeline
from headwater.spec.expressions import (
    Expression,
    Match,
    TrueValue,
    bind,
    conjunction,
    evaluate_statistics,
    filter_batch,
    residual,
)
from headwater.spec.expressions import columns as columns_of
from headwater.spec.model import ChangeSlice, FileSlice, ReadingMode
from headwater.spec.slice_reader import MergePart
from headwater.storage import Storage

# What decoding and merging a log takes, in multiples of its size.
_DECODED = 6
_MOST_PASSES = 256
# Batches that are on their way at once: read, merged, waiting for the consumer.
_BATCHES_HELD = 8
_SMALLEST_BATCH = 8 * 1024 * 1024
_REPEATED = 1 << 14
# Of a log this large, only what is needed is read where that costs no request.
_LARGE_LOG = 10**6
# How much of the budget a column of the base file may take that merging decoded and the reader is asked for, too.
_KEPT = 1 / 16
_ROW = "\0row"

# Parts of a context that do not go to another process.
_OF_PROCESS = ("report", "memo", "keeps_primarily")

_LOG = logging.getLogger("headwater")


@dataclass(frozen=True)
class SliceContext:
    """What reading a slice must know of its table. Goes to other processes by pickle."""

    storage: Storage
    config: TableConfig
    timeline: HudiTimeline
    schema: TableSchema
    history: SchemaHistory
    constants: Callable[[str], Mapping[str, Any]]
    """Partition path → columns whose values come from it."""
    is_valid_instant: Callable[[str], bool]
    as_of: str | None = None
    budget: int | None = None
    """Bytes that merging one slice may hold; None for as many as it takes."""
    report: Callable[[str], None] = field(default=_LOG.warning)
    """Told what a read passes over; in another process the log is."""
    memo: MergeMemo | None = None
    """Where outcomes of merging are kept for later reads; another process has its own."""
    keeps_primarily: bool = True
    """Whether no other process is the one to keep the outcomes of this read."""

    def rules(self) -> MergeRules:
        """How versions of a record merge; an error where that is not known, which concerns slices with logs alone."""
        return merge_rules(self.config)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _OF_PROCESS}


@dataclass(frozen=True)
class HudiSliceReader:
    """Immutable: each method returns a changed copy."""

    context: SliceContext
    schema: pa.Schema
    filter: Expression | None = None
    mode: ReadingMode = ReadingMode.SNAPSHOT
    position_column: str | None = None
    """A last column for each row's position in the base file, null for rows that merging added."""

    def project(self, schema: pa.Schema) -> HudiSliceReader:
        return replace(self, schema=schema)

    def push_down_filters(self, *filters: Expression) -> HudiSliceReader:
        added = [bind(one, self.context.schema.arrow) for one in filters]
        known = [] if self.filter is None else [self.filter]
        return replace(self, filter=conjunction([*known, *added]))

    def reading_mode(self, mode: ReadingMode) -> HudiSliceReader:
        return replace(self, mode=mode)

    def within(self, budget: int) -> HudiSliceReader:
        """Hold no more than so many bytes of logs at a time."""
        return replace(self, context=replace(self.context, budget=budget))

    def remembering(self, memo: MergeMemo, *, primary: bool = True) -> HudiSliceReader:
        """Keep what merging finds out, and use what it found out before."""
        return replace(self, context=replace(self.context, memo=memo, keeps_primarily=primary))

    def with_positions(self, name: str) -> HudiSliceReader:
        return replace(self, schema=self.schema.append(pa.field(name, pa.int64())), position_column=name)

    def open(self, slice_: FileSlice | ChangeSlice) -> Iterator[pa.RecordBatch]:
        """The rows of a slice, a batch at a time."""
        if isinstance(slice_, ChangeSlice):
            from headwater.hudi.changes import read_changes

            yield from read_changes(self, slice_)
            return
        for table in self._tables(slice_):
            yield from table.to_batches()

    def merge_over_base(self, slice_: FileSlice) -> Iterator[MergePart]:
        """Which rows of the base file go, and which rows come; filters concern only those that come."""
        read = _SliceRead(self, slice_)
        for merged, is_last in read.merges(read.open_base()):
            yield MergePart(merged.dropped, self._matching(read, read.finish(merged.added)), is_last)

    def base_rows(self, slice_: FileSlice, dropped: Rows) -> Iterator[pa.Table]:
        """The rows of the base file, less those that merging said go; filters are not looked at."""
        read = _SliceRead(replace(self, filter=None), slice_)
        base = read.open_base()
        if base is not None:
            yield from read._base_tables(base, dropped)

    def keys_of(self, slice_: FileSlice) -> Iterator[tuple[pa.Array, pa.Array]]:
        """The record keys of a slice, each with its row in the base file; null for rows that only the log has."""
        schema = pa.schema([self.context.schema.arrow.field(name) for name in key_columns(self.context.config)])
        yield from _SliceRead(replace(self, schema=schema, filter=None), slice_).keys()

    def _tables(self, slice_: FileSlice) -> Iterator[pa.Table]:
        read = _SliceRead(self, slice_)
        for table in read.tables():
            table = self._matching(read, table)
            if table.num_rows:
                yield table

    def _matching(self, read: _SliceRead, table: pa.Table) -> pa.Table:
        return (table if read.filter is None else filter_batch(read.filter, table)).select(self.schema.names)


class _SliceRead:
    """One reading of one slice."""

    def __init__(self, reader: HudiSliceReader, slice_: FileSlice) -> None:
        self.context = reader.context
        self.slice = slice_
        self.filter = self._residual(reader.filter)
        self.with_logs = reader.mode is not ReadingMode.SNAPSHOT_READ_OPTIMIZED
        self.constants = dict(self.context.constants(slice_.group.partition))
        self.position_column = reader.position_column
        if self.position_column is not None:
            self.constants[self.position_column] = None
        self.target = self._target(reader)
        self._repeated: dict[str, pa.Array] = {}
        self._kept: dict[str, pa.ChunkedArray] = {}

    def _residual(self, bound: Expression | None) -> Expression | None:
        """What is left to check on rows when the partition's values are known."""
        if bound is None:
            return None
        partition = describe_partition(self.context.config, self.slice.group.partition, self.context.schema.arrow)
        left = residual(bound, partition.as_mapping())
        return None if isinstance(left, TrueValue) else left

    def _target(self, reader: HudiSliceReader) -> pa.Schema:
        """The reader's columns, then those that only its filter or a merger looks at."""
        fields = {f.name: f for f in reader.schema}
        extra = set() if self.filter is None else set(columns_of(self.filter))
        if self.slice.instants is not None or (self.slice.delta_files and not fields.keys() - self.constants.keys()):
            # Merging hands rows on as columns: without any, their number is lost.
            extra.add(COMMIT_TIME)
        if self.with_logs and self.slice.delta_files and self.context.rules().merger is not None:
            extra.update(self.context.schema.arrow.names)  # a user's merger sees whole records
        for name in sorted(extra - fields.keys()):
            index = self.context.schema.arrow.get_field_index(name)
            if index < 0:
                raise ColumnNotFound(f"no column {name!r}; the table has: {', '.join(self.context.schema.arrow.names)}")
            fields[name] = self.context.schema.arrow.field(index)
        return pa.schema([f.with_nullable(True) for f in fields.values()])

    def open_base(self) -> BaseFile | None:
        ref = self.slice.base_file
        if ref is None:
            return None
        budget = self.context.budget
        size = BATCH_BYTES if budget is None else max(min(BATCH_BYTES, budget // _BATCHES_HELD), _SMALLEST_BATCH)
        return open_base_file(self.context.storage, ref.path, batch_bytes=size)

    def tables(self) -> Iterator[pa.Table]:
        base = self.open_base()
        dropped = np.zeros(0, np.int64)
        for merged, _ in self.merges(base):
            dropped = np.sort(np.concatenate([dropped, merged.dropped])) if len(dropped) else merged.dropped
            if merged.added.num_rows:
                yield self.finish(merged.added)
            del merged
        if base is not None:
            yield from self._base_tables(base, dropped)

    def merges(self, base: BaseFile | None) -> Iterator[tuple[Merged, bool]]:
        """The log's shares merged one after the other, the last one marked; nothing where no block counts."""
        if not self.with_logs or not self.slice.delta_files:
            return
        passes = self._passes()
        for number in range(passes):
            merged = self._merge(base, Share(number, passes))
            if merged is None:
                return
            yield merged, number + 1 == passes
            del merged

    def _passes(self) -> int:
        """How often the log is gone through so that each time its share of the records fits the budget."""
        if self.context.budget is None:
            return 1
        size = sum(ref.size or 0 for ref in self.slice.delta_files)
        return max(1, min(-(-size * _DECODED // self.context.budget), _MOST_PASSES))

    def keys(self) -> Iterator[tuple[pa.Array, pa.Array]]:
        base = self.open_base()
        merged = self._merge(base, Share()) if self.with_logs and self.slice.delta_files else None
        if base is not None:
            columns = self._physical(base.schema, self.target.names, renames := self._renames(self._base_instant()))
            for start, table in base.batches(columns, base.row_groups):
                kept = np.arange(start, start + table.num_rows)
                if merged is not None:
                    kept = np.setdiff1d(kept, merged.dropped, assume_unique=True)
                keys = self._key_texts(conform(table, self.target, renames))
                yield keys.take(pa.array(kept - start)), pa.array(kept)
        if merged is not None and merged.added.num_rows:
            keys = self._key_texts(merged.added)
            yield keys, pa.nulls(len(keys), pa.int64())

    def _key_texts(self, table: pa.Table) -> pa.Array:
        config = self.context.config
        column = table.column(0) if config.populate_meta_fields else record_keys(config, table)
        found = column.combine_chunks()
        return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found

    def _base_tables(self, base: BaseFile, dropped: Rows) -> Iterator[pa.Table]:
        instant = self._base_instant()
        renames = self._renames(instant)
        groups = self._groups(base, renames)
        if groups and not self._may_hold_keys(base):
            return
        columns = self._physical(base.schema, self.target.names, renames)
        merged = pa.schema([self.target.field(name) for name in self._merged_columns()])
        matching = self._matching_groups(base, groups, columns, renames)
        for start, table in batches_with(self._kept, base, columns, matching):
            positions = None
            if self.position_column is not None:
                table = table.append_column(self.position_column, pa.array(np.arange(start, start + table.num_rows)))
            if len(dropped):
                table = without(table, start, dropped)
            if self.position_column is not None:
                positions = table.column(self.position_column)
            if table.num_rows:
                yield self.finish(conform(table, merged, renames), positions)

    def _matching_groups(
        self, base: BaseFile, groups: Sequence[RowGroup], columns: Sequence[str], renames: Renames
    ) -> Iterator[RowGroup]:
        """Row groups in which a row matches: the filter's own columns are read first, the others where some do."""
        if self.filter is None:
            yield from groups
            return
        names = sorted(set(columns_of(self.filter)) - self.constants.keys())
        needed = self._physical(base.schema, names, renames)
        if not needed or len(needed) == len(columns):
            yield from groups
            return
        target = pa.schema([self.target.field(name) for name in self.target.names if name in columns_of(self.filter)])
        for group in groups:
            runs: list[Run] = []
            for start, table in base.batches(needed, [group]):
                runs += self._matching_runs(conform(table, target, renames), start - group.start)
                seen = start + table.num_rows - group.start
                if 2 * seen >= group.rows and are_most(runs, group):
                    # The group is read whole, and how it goes on does not matter.
                    yield group
                    break
            else:
                if runs:
                    yield replace(group, only=tuple(runs))

    def _matching_runs(self, table: pa.Table, start: int) -> list[Run]:
        """The rows that match, those close to each other as one run; the table begins at a row of its group."""
        assert self.filter is not None
        rows = pa.array(np.arange(start, start + table.num_rows))
        matching = filter_batch(self.filter, self._with_constants(table).append_column(_ROW, rows)).column(_ROW)
        return runs_of(matching.to_numpy())

    def finish(self, table: pa.Table, positions: pa.ChunkedArray | None = None) -> pa.Table:
        """Partition values from the path, and the rows of the asked-for instants alone."""
        columns = [
            positions
            if positions is not None and field.name == self.position_column
            else self._constant(field.name, field.type, self.constants[field.name], table.num_rows)
            if field.name in self.constants
            else table.column(field.name)
            for field in self.target
        ]
        if columns:
            table = pa.Table.from_arrays(columns, schema=self.target)
        if self.slice.instants is not None:
            wanted = pa.array(sorted(self.slice.instants), pa.string())
            table = table.filter(pc.is_in(table.column(COMMIT_TIME), value_set=wanted))
        return table

    def _with_constants(self, table: pa.Table) -> pa.Table:
        for name, value in self.constants.items():
            index = table.schema.get_field_index(name)
            if index >= 0:
                column = self._constant(name, table.schema.field(index).type, value, table.num_rows)
                table = table.set_column(index, table.schema.field(index), column)
        return table

    def _constant(self, name: str, kind: pa.DataType, value: Any, rows: int) -> pa.Array:
        """The same value so many times; batches share it."""
        if (known := self._repeated.get(name)) is None or len(known) < rows:
            # With room, the first one's serves the others. Arrow makes values one by one, and copies arrays at once.
            some = pa.repeat(pa.scalar(value, kind), min(1 << rows.bit_length(), _REPEATED))
            known = self._repeated[name] = pa.concat_arrays([some] * max(-(-rows // len(some)), 1))
        return known.slice(0, rows)

    def _base_instant(self) -> str:
        name = parse_base_file(self.slice.base_file.name) if self.slice.base_file is not None else None
        return name.instant if name is not None else self.slice.base_instant

    def _renames(self, instant: str) -> Renames:
        return self.context.history.renames(self.context.schema.internal, instant)

    def _physical(self, schema: pa.Schema, names: Sequence[str], renames: Renames) -> list[str]:
        """What the asked-for columns are called in a file, where it has them."""
        sources = [renames.get((name,), name) for name in names if name not in self.constants]
        return list(dict.fromkeys(source for source in sources if source is not None and source in schema.names))

    def _is_bounded_by(self, base: BaseFile, source: str, name: str) -> bool:
        """Whether a file's bounds hold for its values as they are read: 0.1f is read as 0.1, 10 perhaps as '10'."""
        stored, read = base.schema.field(source).type, self.context.schema.arrow.field(name).type
        kinds = (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_decimal)
        is_alike = bool(stored.equals(read)) or any(kind(stored) and kind(read) for kind in kinds)
        return is_alike and not is_mislabelled(stored, read)

    def _groups(self, base: BaseFile, renames: Renames) -> Sequence[RowGroup]:
        """Row groups that may hold a matching row. Rows that the log replaced do not matter: they go anyway."""
        if self.filter is None:
            return base.row_groups
        names = {
            source: name
            for name in columns_of(self.filter)
            if (source := renames.get((name,), name)) in base.schema.names
            and self._is_bounded_by(base, str(source), name)
        }
        kept = []
        for group in base.row_groups:
            known = {
                names[source]: statistics
                for source, statistics in base.statistics(group).items()
                if source in names and names[source] not in self.constants
            }
            if evaluate_statistics(self.filter, known) is not Match.NO:
                kept.append(group)
        return kept

    def _may_hold_keys(self, base: BaseFile) -> bool:
        """Whether the bloom filter in the base file's footer lets it hold one of the keys that the filter asks for."""
        keys = None if self.filter is None else wanted_keys(self.filter, self.context.config)
        return keys is None or len(by_footer(base, pa.array(keys, pa.string()))) > 0

    def _blocks(self, *, lazy: bool) -> list[LogBlock]:
        found: list[LogBlock] = []
        for ref in self.slice.delta_files:
            large = self.context.storage.is_local and (ref.size or 0) >= _LARGE_LOG
            for block in scan_blocks(self.context.storage, ref.path, lazy=lazy or large):
                if block.type is BlockType.CORRUPT:
                    self.context.report(f"{block.describe()}: {block.length} bytes skipped")
                found.append(block)
        return select_blocks(
            found,
            is_valid_instant=self.context.is_valid_instant,
            latest=self.slice.as_of or self.context.as_of,
            instants=self.slice.instants,
        )

    def _merge(self, base: BaseFile | None, share: Share) -> Merged | None:
        blocks = self._blocks(lazy=share.of > 1)
        if not blocks:
            return None
        rules = self.context.rules()
        types = pa.schema([*self.target, *(f for f in self.context.schema.arrow if f.name not in self.target.names)])
        columns = self._merged_columns()
        memo = self.context.memo if share.of == 1 and self.slice.instants is None and rules.merger is None else None
        key = None if memo is None else self._merge_key(blocks, rules)
        if memo is not None and (known := memo.find(key, [self.target.field(name) for name in columns])) is not None:
            return known
        log = LogReader(self.context.config, rules, types, self._renames).read(
            blocks, columns, base_instant=self._base_instant() if base is not None else None, share=share
        )
        rows = None if base is None else self._base_rows(base, types)
        merged = merge_slice(log, rows, rules, self.context.schema.defaults)
        if memo is not None:
            memo.keep(key, merged, primary=self.context.keeps_primarily)
        return merged

    def _merge_key(self, blocks: Sequence[LogBlock], rules: MergeRules) -> Hashable:
        """All that the outcome of merging depends on, but for the columns: the base file, the blocks and the rules."""
        schema = self.context.schema
        # Of columns that were dropped and added again only the ids tell that they are others.
        columns = (str(schema.arrow), repr(schema.internal), repr(schema.defaults) if rules.partial else "")
        table = (self.context.config.name, *columns, repr(rules))
        return (*table, *key_of_files(self.context.storage, self.slice, blocks))

    def _keep(self, base: BaseFile, columns: Sequence[str], rows: int) -> pa.Table | None:
        """A column of which merging needs many rows and the reader all: it is decoded once, if it is not too large."""
        if len(columns) != 1 or self.context.budget is None:
            return None
        (name,) = columns
        if name not in self._kept:
            kind = base.schema.field(name).type
            asked_for = self._physical(base.schema, self.target.names, self._renames(self._base_instant()))
            if name not in asked_for or not pa.types.is_primitive(kind) or self.filter is not None:
                return None
            if rows * 64 < base.num_rows or base.num_rows * kind.bit_width > 8 * _KEPT * self.context.budget:
                return None
            self._kept[name] = base.read([name], base.row_groups).column(0)
        return pa.table({name: self._kept[name]})

    def _merged_columns(self) -> list[str]:
        """Columns that are merged: the path gives the others."""
        return [name for name in self.target.names if name not in self.constants]

    def _base_rows(self, base: BaseFile, types: pa.Schema) -> BaseRows:
        renames = self._renames(self._base_instant())

        def typed(names: Sequence[str]) -> pa.Schema:
            return pa.schema([types.field(name).with_nullable(True) for name in names])

        def physical(names: Sequence[str]) -> list[str]:
            sources = [renames.get((name,), name) for name in names]
            return list(dict.fromkeys(one for one in sources if one is not None and one in base.schema.names))

        def at(names: Sequence[str], positions: Rows) -> pa.Table:
            return conform(rows_at(base, physical(names), positions), typed(names), renames)

        def keys() -> pa.ChunkedArray:
            names = key_columns(self.context.config)
            table = conform(base.read(physical(names), base.row_groups), typed(names), renames)
            if self.context.config.populate_meta_fields:
                return table.column(0)
            return record_keys(self.context.config, table)

        def column(name: str, positions: Rows) -> pa.ChunkedArray:
            kept = self._keep(base, physical([name]), len(positions))
            if kept is None:
                return at([name], positions).column(0)
            return conform(kept.take(pa.array(positions)), typed([name]), renames).column(0)

        def rows(positions: Rows) -> pa.Table:
            return at(self._merged_columns(), positions)

        def highest(name: str) -> Any:
            source = renames.get((name,), name)
            if source is None or source not in base.schema.names:
                return None
            if not base.schema.field(source).type.equals(types.field(name).type):
                return None
            found = [base.statistics(group).get(source) for group in base.row_groups]
            if not found or any(one is None or one.maximum is None or one.null_count != 0 for one in found):
                return None
            return max(one.maximum for one in found if one is not None)

        return BaseRows(base.num_rows, keys, column, rows, highest, self.slice.instants)
