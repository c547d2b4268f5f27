"""Rows of a table that a statement concerns, with their places: what a filter finds, or what a join does."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.hudi.keys import key_columns, record_keys
from headwater.hudi.merge.fold import Rows
from headwater.hudi.schema import RECORD_KEY
from headwater.hudi.table import HudiTable
from headwater.hudi.write.tagging import UNKNOWN, Tags
from headwater.spec.expressions import Expression
from headwater.spec.model import FileSlice

_POSITION = "\0position"


@dataclass(frozen=True)
class FoundRows:
    """Stored rows, each with the slice it is in and its row in the base file, where it is there."""

    rows: pa.Table
    keys: pa.Array
    slice: Rows
    position: Rows
    slices: tuple[FileSlice, ...]

    def __len__(self) -> int:
        return len(self.slice)

    @property
    def partitions(self) -> pa.Array:
        paths = pa.array([slice_.group.partition for slice_ in self.slices], pa.string())
        return paths.take(pa.array(self.slice))

    def take(self, rows: Rows) -> FoundRows:
        return FoundRows(
            self.rows.take(pa.array(rows)),
            self.keys.take(pa.array(rows)),
            self.slice[rows],
            self.position[rows],
            self.slices,
        )

    def tags(self) -> Tags:
        """The places of rows 0, 1, … of a batch that is made of these rows."""
        return Tags(np.arange(len(self)), self.slice, self.position, self.slices)


def find_rows(
    table: HudiTable,
    slices: Sequence[FileSlice],
    *,
    columns: Sequence[str],
    filter: Expression | None = None,
    narrow: Callable[[pa.Table], pa.Array] | None = None,
) -> FoundRows:
    """The rows of some slices that match a filter, and of those the ones that `narrow` picks out of each batch."""
    names = list(dict.fromkeys([*key_columns(table.config), *columns]))
    schema = pa.schema([table.schema.arrow.field(name).with_nullable(True) for name in names])
    reader = table.reader(table.schema).project(schema).with_positions(_POSITION)
    if filter is not None:
        reader = reader.push_down_filters(filter)
    output = schema.append(pa.field(_POSITION, pa.int64()))

    def read(number: int) -> list[pa.Table]:
        parts = []
        for batch in reader.open(slices[number]):
            rows = pa.Table.from_batches([batch]).cast(output)
            if narrow is not None:
                rows = rows.take(narrow(rows))
            if rows.num_rows:
                parts.append(rows)
        return parts

    with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
        by_slice = list(pool.map(read, range(len(slices))))
    found = pa.concat_tables([output.empty_table(), *(part for parts in by_slice for part in parts)])
    counts = [sum(part.num_rows for part in parts) for parts in by_slice]
    positions = np.asarray(pc.fill_null(found.column(_POSITION), UNKNOWN)).astype(np.int64)
    keys = found.column(RECORD_KEY) if table.config.populate_meta_fields else record_keys(table.config, found)
    numbers = np.repeat(np.arange(len(slices)), counts)
    return FoundRows(found.select(list(columns)), _one(keys), numbers, positions, tuple(slices))


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
