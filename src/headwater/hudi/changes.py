"""Reading changes: the operation, and the row before and after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import CorruptFile, InstantNotFound
from headwater.hudi.evolution import convert
from headwater.hudi.log import BlockType, read_data_block, scan_blocks
from headwater.hudi.schema import COMMIT_TIME, META_COLUMNS, RECORD_KEY
from headwater.spec.expressions import filter_batch
from headwater.spec.model import ChangeKind, ChangeSlice, FileSlice, ReadingMode

if TYPE_CHECKING:
    from headwater.hudi.slice_reader import HudiSliceReader

INSERT, UPDATE, DELETE = "i", "u", "d"


def change_schema(table: pa.Schema) -> pa.Schema:
    """What a change row looks like: operation, instant, and the user's columns before and after."""
    image = pa.struct([field.with_nullable(True) for field in table if field.name not in META_COLUMNS])
    return pa.schema([("op", pa.string()), ("ts_ms", pa.string()), ("before", image), ("after", image)])


def read_changes(reader: HudiSliceReader, change: ChangeSlice) -> Iterator[pa.RecordBatch]:
    """The change rows of one file group in one commit."""
    table = _ChangeRead(reader, change).table()
    if reader.filter is not None and table.num_rows:
        table = _matching(reader, table)
    if table.num_rows:
        yield from table.to_batches()


def _matching(reader: HudiSliceReader, table: pa.Table) -> pa.Table:
    """A change counts when the row matched before it or matches after it."""
    assert reader.filter is not None
    numbered = pa.array(range(table.num_rows), pa.int64())
    kept: list[pa.ChunkedArray] = []
    for image in ("before", "after"):
        rows = pa.Table.from_struct_array(table.column(image)).append_column("__row", numbered)
        present = rows.filter(pc.is_valid(table.column(image)))
        kept.append(filter_batch(reader.filter, present).column("__row"))
    rows = pc.unique(pa.chunked_array([chunk for column in kept for chunk in column.chunks], pa.int64()))
    return table.take(rows.take(pc.sort_indices(rows)))


class _ChangeRead:
    def __init__(self, reader: HudiSliceReader, change: ChangeSlice) -> None:
        self.reader = reader
        self.change = change
        self.context = reader.context
        self.schema = change_schema(self.context.schema.arrow)
        self.image = self.schema.field("before").type

    def table(self) -> pa.Table:
        match self.change.kind:
            case ChangeKind.INSERTED:
                return self._rows(INSERT, None, self._read(self.change.after, before=False))
            case ChangeKind.DELETED:
                return self._rows(DELETE, self._read(self.change.before, before=True), None)
            case ChangeKind.LOGGED:
                return self._logged()
            case ChangeKind.MERGED:
                return self._compared()

    def _read(self, slice_: FileSlice | None, *, before: bool) -> pa.Table:
        """Every row of a slice as it was before or after the commit."""
        schema = self.context.schema.arrow
        if slice_ is None:
            return schema.empty_table()
        as_of = self.change.instant.requested_at
        if before:
            earlier = [i.requested_at for i in self.context.timeline.commits if i.requested_at < as_of]
            as_of = earlier[-1] if earlier else ""
        if self.context.config.version >= 8:
            as_of = ""
        context = replace(self.context, as_of=as_of or None)
        reader = replace(self.reader, context=context, schema=schema, filter=None, mode=ReadingMode.SNAPSHOT)
        return pa.Table.from_batches(list(reader.open(slice_)), schema=schema)

    def _rows(self, op: str, before: pa.Table | None, after: pa.Table | None) -> pa.Table:
        sides = [self._image(side) if side is not None else None for side in (before, after)]
        count = next(len(side) for side in sides if side is not None)
        filled = [pa.nulls(count, self.image) if side is None else side for side in sides]
        columns = [
            pa.repeat(op, count),
            pa.repeat(self.change.instant.requested_at, count),
            *filled,
        ]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _image(self, rows: pa.Table) -> pa.Array:
        fields = list(self.image)
        arrays = [_one_array(rows.column(field.name), field.type) for field in fields]
        if not arrays:
            return pa.nulls(rows.num_rows, self.image)
        return pa.StructArray.from_arrays(arrays, fields=fields)

    def _compared(self) -> pa.Table:
        """Nothing was logged: what the commit wrote is what carries its instant, and what is missing was deleted."""
        before = self._read(self.change.before, before=True)
        after = self._read(self.change.after, before=False)
        written = after.filter(pc.equal(after.column(COMMIT_TIME), self.change.instant.requested_at))
        place = pc.index_in(written.column(RECORD_KEY), value_set=_one_array(before.column(RECORD_KEY), pa.string()))
        updated, inserted = written.filter(pc.is_valid(place)), written.filter(pc.is_null(place))
        former = before.take(pc.drop_null(place))
        survives = pc.is_in(before.column(RECORD_KEY), value_set=_one_array(after.column(RECORD_KEY), pa.string()))
        deleted = before.filter(pc.invert(survives))
        return pa.concat_tables(
            [
                self._rows(INSERT, None, inserted),
                self._rows(UPDATE, former, updated),
                self._rows(DELETE, deleted, None),
            ]
        )

    def _logged(self) -> pa.Table:
        found = [self._from_block(block) for block in self._blocks()]
        return pa.concat_tables(found) if found else self.schema.empty_table()

    def _blocks(self) -> Iterator[pa.Table]:
        for ref in self.change.change_files:
            for block in scan_blocks(self.context.storage, ref.path):
                if block.type is BlockType.CORRUPT:
                    # Unlike a slice's log, this file was finished before its commit was: what is gone was a change.
                    instant = self.change.instant.requested_at
                    raise CorruptFile(
                        f"{block.file}: the {block.length} bytes at byte {block.offset} are no log block, and changes "
                        f"of instant {instant} are lost; restore the file, or start at that instant"
                    )
                if block.type is BlockType.CDC_DATA:
                    yield read_data_block(block)

    def _from_block(self, rows: pa.Table) -> pa.Table:
        """Images that were not logged come from the slices before and after the commit, by key."""
        op = rows.column("op")
        images = []
        for name, missing_for, slice_ in (
            ("before", INSERT, self.change.before),
            ("after", DELETE, self.change.after),
        ):
            if name in rows.column_names:
                images.append(_one_array(convert(rows.column(name), self.image, (name,)), self.image))
                continue
            table = self._read(slice_, before=name == "before")
            keys = _one_array(table.column(RECORD_KEY), pa.string())
            place = pc.index_in(rows.column("record_key"), value_set=keys)
            needed = pc.not_equal(op, missing_for)
            if pc.any(pc.and_(needed, pc.is_null(place))).as_py():
                group, instant = self.change.group, self.change.instant.requested_at
                raise InstantNotFound(
                    f"{self.context.storage.uri}: changes of instant {instant} cannot be told: the rows {name} it, of "
                    f"{group.partition}/{group.file_id}, were cleaned; start at that instant or later"
                )
            place = pc.if_else(needed, place, None)
            images.append(_one_array(pa.chunked_array([self._image(table)]).take(place), self.image))
        columns = [op.cast(pa.string()), pa.repeat(self.change.instant.requested_at, rows.num_rows), *images]
        return pa.Table.from_arrays(columns, schema=self.schema)


def _one_array(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    chunks = column.chunks
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else pa.array([], kind)
