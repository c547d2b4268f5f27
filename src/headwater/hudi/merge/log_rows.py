"""The rows of a slice's log files, decoded column-wise, one after the other in the order they apply."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import CorruptFile
from headwater.hudi.evolution import Renames, conform
from headwater.hudi.keys import key_columns, record_keys
from headwater.hudi.log import BlockType, Deletes, LogBlock, data_schema, read_data_parts, read_delete_block
from headwater.hudi.merge.fold import Flags, Rows
from headwater.hudi.merge.ordering import ordering_types, ordering_values
from headwater.hudi.merge.rules import MergeRules
from headwater.hudi.properties import TableConfig

IS_DELETED, OPERATION = "_hoodie_is_deleted", "_hoodie_operation"
_DELETE_OPERATIONS = ("D", "-U")
_PART = 2 * 1024 * 1024


@dataclass(frozen=True)
class LogRows:
    """All versions that the log holds. Rows of delete blocks are null in every column."""

    table: pa.Table
    """The columns asked for, in the types of the reader's schema."""
    keys: pa.ChunkedArray | None
    """Record keys; None where positions stand for them."""
    positions: Rows | None
    """Rows of the base file; None where only keys are known."""
    ordering: tuple[pa.ChunkedArray, ...]
    deleted: Flags
    resets: Flags
    from_delete_block: Flags
    absent: dict[str, Flags]
    """Columns that some blocks do not carry (partial updates), and in which rows."""

    @property
    def num_rows(self) -> int:
        return len(self.deleted)

    def slice(self, first: int, end: int | None) -> LogRows:
        """The rows from one to before another; None for the last."""
        if first == 0 and end is None:
            return self
        chosen = np.zeros(self.num_rows, bool)
        chosen[first:end] = True
        return self.filter(chosen)

    def filter(self, mask: Flags) -> LogRows:
        """The rows that a mask keeps."""
        chosen = pa.array(mask)
        return LogRows(
            self.table.filter(chosen),
            None if self.keys is None else self.keys.filter(chosen),
            None if self.positions is None else self.positions[mask],
            tuple(column.filter(chosen) for column in self.ordering),
            self.deleted[mask],
            self.resets[mask],
            self.from_delete_block[mask],
            {name: flags[mask] for name, flags in self.absent.items()},
        )


@dataclass(frozen=True, slots=True)
class Share:
    """Some of the records. By default all of them.

    All versions of a record fall to the same share. Where records are known by position, a share is a range of these:
    each block holds it in one piece, and the rest need not be decoded. Elsewhere the keys' hashes decide.
    """

    number: int = 0
    of: int = 1

    def take(self, rows: LogRows) -> LogRows:
        """The rows of these records, by their keys."""
        if self.of == 1:
            return rows
        import polars as pl

        keys = pl.from_arrow(rows.keys)
        assert isinstance(keys, pl.Series)
        return rows.filter((keys.hash(seed=0) % self.of == self.number).to_numpy())

    def bounds(self, positions: Sequence[Rows]) -> tuple[int, int | None]:
        """From which position to before which one, given those of all blocks; None for the end.

        Shares have as many records each, wherever in the base file these lie.
        """
        every = np.sort(np.concatenate(positions), kind="stable")
        first = 0 if self.number == 0 else int(every[len(every) * self.number // self.of])
        return first, None if self.number + 1 == self.of else int(every[len(every) * (self.number + 1) // self.of])


@dataclass(frozen=True)
class LogReader:
    """How to turn blocks into rows: which columns, in which types, under which rules."""

    config: TableConfig
    rules: MergeRules
    schema: pa.Schema
    """The table's columns in the types that the reader gives."""
    renames: Callable[[str], Renames]
    """Instant → how the reader's columns were called then."""

    def read(
        self,
        blocks: Sequence[LogBlock],
        columns: Sequence[str],
        *,
        base_instant: str | None,
        share: Share = Share(),
    ) -> LogRows:
        """Decode the blocks. Positions are used when every block has them for this base file."""
        by_position = base_instant is not None and all(_has_positions(block, base_instant) for block in blocks)
        target = pa.schema([self.schema.field(name) for name in columns])
        known = [block.positions for block in blocks if block.positions is not None] if by_position else []
        bounds = share.bounds(known) if known and share.of > 1 else (0, None)
        parts: list[LogRows] = []
        for block in blocks:
            records = _records(block, bounds) if by_position else (0, None)
            if block.type is BlockType.DELETE:
                deletes = self._deletes(block, target, by_position=by_position).slice(*records)
                parts.append(deletes if by_position else share.take(deletes))
                continue
            most = _PART if share.of > 1 else block.content_length
            for part in self._data(block, target, most, records, by_position=by_position):
                parts.append(part if by_position else share.take(part))
        return _concatenate([part for part in parts if part.num_rows], target)

    def _data(
        self, block: LogBlock, target: pa.Schema, most: int, records: tuple[int, int | None], *, by_position: bool
    ) -> Iterator[LogRows]:
        renames = self.renames(block.instant_time or "")
        written = data_schema(block)
        needed = list(dict.fromkeys([*target.names, *self.rules.columns_needed()]))
        if not by_position:
            needed += [name for name in key_columns(self.config) if name not in needed]
        source = {name: renames.get((name,), name) for name in needed}
        present = [name for name in needed if source[name] in written.names]
        markers = [name for name in (IS_DELETED, OPERATION) if name in written.names]
        physical = list(dict.fromkeys([*(name for name in map(source.get, present) if name), *markers]))
        schema = self._schema_of(needed, written)
        start = records[0]
        # Where the block has none of the columns, another one tells how many rows there are.
        for raw in read_data_parts(block, physical or written.names[:1], most_bytes=most, records=records):
            rows = conform(raw, schema, renames)
            count = rows.num_rows
            deleted = marked_deleted(self.rules, rows, raw.select(markers))
            ordering = ordering_values(self.rules, [rows.column(name) for name in self.rules.ordering_fields])
            absent = {}
            if block.is_partial:
                # Of every column, also where the block has it: which base rows go must not depend on the projection.
                absent = {name: np.full(count, name not in present) for name in target.names}
            yield LogRows(
                rows.select(target.names),
                None if by_position else self._keys(rows),
                _positions(block, start, count) if by_position else None,
                ordering,
                deleted,
                deleted & lacks_ordering(ordering),
                np.zeros(count, bool),
                absent,
            )
            start += count

    def _schema_of(self, names: Sequence[str], written: pa.Schema) -> pa.Schema:
        """The reader's types; for columns that only merging needs and the reader lacks, the file's."""
        fields = []
        for name in names:
            index = self.schema.get_field_index(name)
            if index >= 0:
                fields.append(self.schema.field(index))
            elif name in written.names:
                fields.append(written.field(name))
            else:
                fields.append(pa.field(name, pa.null()))
        return pa.schema(fields)

    def _keys(self, rows: pa.Table) -> pa.ChunkedArray:
        if self.config.populate_meta_fields:
            return rows.column("_hoodie_record_key")
        return record_keys(self.config, rows)

    def _deletes(self, block: LogBlock, target: pa.Schema, *, by_position: bool) -> LogRows:
        deletes = read_delete_block(block)
        count = len(deletes)
        types = ordering_types(self.rules, [self._ordering_type(name) for name in self.rules.ordering_fields])
        ordering, default = _delete_ordering(deletes, types)
        resets = default if not self.rules.deletes_ignore_ordering else np.ones(count, bool)
        return LogRows(
            target.empty_table() if count == 0 else _null_rows(target, count),
            None if by_position else pa.chunked_array([deletes.key.cast(pa.string())]),
            _positions(block, 0, count) if by_position else None,
            ordering,
            np.ones(count, bool),
            resets,
            np.ones(count, bool),
            {},
        )

    def _ordering_type(self, name: str) -> pa.DataType:
        index = self.schema.get_field_index(name)
        return self.schema.field(index).type if index >= 0 else pa.null()


def _null_rows(target: pa.Schema, count: int) -> pa.Table:
    fields = [field.with_nullable(True) for field in target]
    return pa.Table.from_arrays([pa.nulls(count, field.type) for field in fields], schema=pa.schema(fields))


def _has_positions(block: LogBlock, base_instant: str) -> bool:
    positions = block.positions if block.base_instant_of_positions == base_instant else None
    return positions is not None and len(positions) > 0


def _records(block: LogBlock, bounds: tuple[int, int | None]) -> tuple[int, int | None]:
    """From which record of a block to before which one its positions are within the bounds; None for the end."""
    assert block.positions is not None
    first, end = (0 if bound is None else int(np.searchsorted(block.positions, bound)) for bound in bounds)
    return first, None if bounds[1] is None else end


def _positions(block: LogBlock, start: int, count: int) -> Rows:
    """The positions of some records of a block."""
    positions = block.positions
    if positions is None or len(positions) < start + count:
        raise CorruptFile(
            f"{block.describe()}: it has {0 if positions is None else len(positions)} record positions for at least "
            f"{start + count} records; restore the file, or roll its commit back with Hudi"
        )
    return positions[start : start + count]


def _flags(column: pa.ChunkedArray | pa.Array) -> Flags:
    found: Flags = np.asarray(column.to_numpy(zero_copy_only=False), dtype=bool)
    return found


def marked_deleted(rules: MergeRules, rows: pa.Table, markers: pa.Table) -> Flags:
    """Rows that say of themselves that they delete their record (facts 6.3); `markers` are columns as written."""
    deleted = np.zeros(rows.num_rows, bool)
    if IS_DELETED in markers.column_names and pa.types.is_boolean(markers.schema.field(IS_DELETED).type):
        deleted |= _flags(pc.fill_null(markers.column(IS_DELETED), False))
    if OPERATION in markers.column_names:
        deleted |= _flags(pc.is_in(markers.column(OPERATION), value_set=pa.array(_DELETE_OPERATIONS)))
    if rules.delete_field is not None:
        text = pc.cast(rows.column(rules.delete_field), pa.string())
        deleted |= _flags(pc.fill_null(pc.equal(text, rules.delete_marker), False))
    return deleted


def lacks_ordering(ordering: tuple[pa.ChunkedArray, ...]) -> Flags | np.bool_:
    """Hudi's "no ordering value" is the int 0, and null becomes it."""
    if not ordering:
        return np.bool_(True)
    if len(ordering) > 1:
        return np.bool_(False)
    column = ordering[0]
    missing = pc.is_null(column)
    if pa.types.is_int32(column.type):
        missing = pc.or_(missing, pc.fill_null(pc.equal(column, 0), False))
    return _flags(missing)


def _delete_ordering(deletes: Deletes, types: Sequence[pa.DataType]) -> tuple[tuple[pa.ChunkedArray, ...], Flags]:
    """The ordering values of deletes in the types of the ordering fields, and which deletes have none to compare.

    A value that is not of the ordering field's kind is as good as none: Hudi lets such a delete win, too.
    """
    count = len(deletes)
    default = _flags(deletes.is_default).copy()
    if not types:
        return (), np.ones(count, bool)
    columns = [pa.nulls(count, kind) for kind in types]
    for group in deletes.groups:
        several = pa.types.is_struct(group.values.type)
        values = (
            [group.values.field(index) for index in range(group.values.type.num_fields)] if several else [group.values]
        )
        try:
            typed = [_as_ordering(value, kind) for value, kind in zip(values, types, strict=True)]
        except (pa.ArrowException, ValueError):
            default[group.rows] = True
            continue
        places = np.full(count, -1, np.int64)
        places[group.rows] = np.arange(len(group.rows))
        taken = [value.take(pa.array(places, mask=places < 0)) for value in typed]
        columns = [pc.coalesce(new, old) for new, old in zip(taken, columns, strict=True)]
    return tuple(pa.chunked_array([column]) for column in columns), default


def _as_ordering(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind) and pa.types.is_integer(values.type):
        return values.cast(pa.int64()).view(kind)
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp(kind.unit), safe=False).cast(kind)
    if pa.types.is_integer(kind) and pa.types.is_timestamp(values.type):
        return values.cast(pa.int64()).cast(kind)
    if pa.types.is_string(kind) != pa.types.is_string(values.type):
        raise ValueError("text does not compare with other kinds")
    return values.cast(kind, safe=not pa.types.is_decimal(kind))


def _concatenate(parts: Sequence[LogRows], target: pa.Schema) -> LogRows:
    nullable = pa.schema([field.with_nullable(True) for field in target])
    if not parts:
        none = np.zeros(0, bool)
        empty = pa.chunked_array([], pa.string())
        return LogRows(nullable.empty_table(), empty, None, (), none, none, none, {})
    absent: dict[str, Flags] = {}
    for name in {name for part in parts for name in part.absent}:
        absent[name] = np.concatenate([part.absent.get(name, np.zeros(part.num_rows, bool)) for part in parts])
    tables = [part.table.cast(nullable) if part.table.schema != nullable else part.table for part in parts]
    return LogRows(
        pa.concat_tables(tables) if nullable.names else tables[0],
        None if parts[0].keys is None else _chain([part.keys for part in parts if part.keys is not None]),
        None
        if parts[0].positions is None
        else np.concatenate([part.positions for part in parts if part.positions is not None]),
        tuple(_chain([part.ordering[index] for part in parts]) for index in range(len(parts[0].ordering))),
        np.concatenate([part.deleted for part in parts]),
        np.concatenate([part.resets for part in parts]),
        np.concatenate([part.from_delete_block for part in parts]),
        absent,
    )


def _chain(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    kind = next((column.type for column in columns if not pa.types.is_null(column.type)), columns[0].type)
    chunks = [chunk.cast(kind) for column in columns for chunk in column.chunks]
    return pa.chunked_array(chunks, kind)
