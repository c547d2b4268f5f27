"""Rows of a base file at positions: those at some, and those at all but some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from headwater.hudi.base_file import BaseFile, RowGroup
from headwater.hudi.merge.fold import Rows
from headwater.hudi.parquet_rows import Run

# Rows this close to each other are read with those between them: most likely they share a page.
_CLOSE = 8192


def runs_of(rows: Rows) -> list[Run]:
    """Rising row numbers as runs from the first to before the last, those close to each other in one.

    >>> runs_of(np.array([5, 7, 20_000]))
    [(5, 8), (20000, 20001)]
    """
    if not len(rows):
        return []
    ends = np.flatnonzero(np.diff(rows) > _CLOSE)
    return list(zip(rows[np.r_[0, ends + 1]].tolist(), (rows[np.r_[ends, -1]] + 1).tolist(), strict=True))


def rows_at(base: BaseFile, columns: Sequence[str], positions: Rows) -> pa.Table:
    """The rows at some positions, which rise."""
    if not columns:
        return pa.table({"": pa.nulls(len(positions))}).select([])
    groups = []
    for group in base.row_groups:
        low, high = np.searchsorted(positions, [group.start, group.start + group.rows])
        runs = runs_of(positions[low:high] - group.start)
        if runs:
            groups.append(replace(group, only=tuple(runs)) if not are_most(runs, group) else group)
    parts = []
    for start, table in base.batches(columns, groups):
        low, high = np.searchsorted(positions, [start, start + table.num_rows])
        parts.append(table.take(pa.array(positions[low:high] - start)))
    return pa.concat_tables(parts) if parts else base.schema.empty_table().select(list(columns))


def are_most(runs: Sequence[Run], group: RowGroup) -> bool:
    """Whether the runs are so many of a group's rows that it is read whole."""
    return 2 * sum(end - first for first, end in runs) > group.rows


def batches_with(
    kept: Mapping[str, pa.ChunkedArray], base: BaseFile, columns: Sequence[str], groups: Iterable[RowGroup]
) -> Iterator[tuple[int, pa.Table]]:
    """The batches of a base file; columns that are at hand already are not read again."""
    missing = [name for name in columns if name not in kept]
    if not missing:
        yield from base.batches(columns, groups)
        return
    for start, table in base.batches(missing, groups):
        for name in columns:
            if name in kept:
                table = table.append_column(name, kept[name].slice(start, table.num_rows))
        yield start, table


def without(table: pa.Table, start: int, dropped: Rows) -> pa.Table:
    """The rows of a batch that begins at a position, less the dropped ones, which rise."""
    low, high = np.searchsorted(dropped, [start, start + table.num_rows])
    if low == high:
        return table
    keep = np.ones(table.num_rows, bool)
    keep[dropped[low:high] - start] = False
    bits = pa.py_buffer(np.packbits(keep, bitorder="little"))
    mask = pa.Array.from_buffers(pa.bool_(), len(keep), [None, bits])
    # Arrow gathers a lone column of eight-byte values faster by their places; of several it makes places of the mask.
    if table.num_columns == 1 and _is_eight_bytes(table.column(0).type):
        return table.take(pa.array(np.flatnonzero(keep)))
    return table.filter(mask)


def _is_eight_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind)) and kind.bit_width == 64
