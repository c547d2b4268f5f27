"""Column ranges of a base file, from its footer: what the metadata table's column statistics are made of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.hudi.write.model import ColumnRange


class FileRanges:
    """Collects what a footer does not tell (NaN), and reads the rest from it.

    A column with a NaN has NaN as its maximum, as Java and Spark order floats: Parquet's statistics leave NaN out, and
    a filter `> x` would lose the rows.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._names = [name for field in schema for name in _flat_leaves(field.type, field.name)]
        self._floats = [path for field in schema for path in _float_paths(field, ())]
        self._with_nan: set[str] = set()

    def look_at(self, rows: pa.Table) -> None:
        """Note which float columns hold a NaN."""
        for path in self._floats:
            name = ".".join(path)
            if name in self._with_nan:
                continue
            column = rows.column(path[0])
            if len(path) > 1:
                column = pc.struct_field(column, list(path[1:]))
            if pc.any(pc.is_nan(column)).as_py():
                self._with_nan.add(name)

    def of_footer(self, footer: pq.FileMetaData) -> tuple[ColumnRange, ...]:
        """The range of each leaf that is not within a list or a map; names of nested ones are dotted."""
        leaves = [index for index in range(footer.num_columns) if not footer.schema.column(index).max_repetition_level]
        return tuple(self._range(footer, index, footer.schema.column(index).path) for index in leaves)

    def of_written(self, footer: pq.FileMetaData) -> tuple[ColumnRange, ...]:
        """The same of a file that was written with this schema.

        A footer that is asked for its schema keeps a reference to itself, and so stays with its bloom filter, some
        megabytes, until Python looks for such circles. This one is not asked.
        """
        places: dict[str, int] = {}
        if footer.num_row_groups:
            group = footer.row_group(0)
            places = {group.column(index).path_in_schema: index for index in range(footer.num_columns)}
        return tuple(self._range(footer, places.get(name, 0), name) for name in self._names)

    def _range(self, footer: pq.FileMetaData, index: int, name: str) -> ColumnRange:
        low: Any = None
        high: Any = None
        whole, nulls, values, size, uncompressed = True, 0, 0, 0, 0
        for chunk in (footer.row_group(group).column(index) for group in range(footer.num_row_groups)):
            values += chunk.num_values
            size += chunk.total_compressed_size
            uncompressed += chunk.total_uncompressed_size
            statistics = chunk.statistics
            count = statistics.null_count if statistics is not None and statistics.has_null_count else None
            if count is None or statistics is None:
                whole = False
                continue
            nulls += count
            if count == chunk.num_values:
                continue
            bounds = _bounds(statistics)
            if bounds is None:
                # A chunk whose values are all NaN has none; those come in below.
                whole = whole and name in self._with_nan
                continue
            low = bounds[0] if low is None else min(low, bounds[0])
            high = bounds[1] if high is None else max(high, bounds[1])
        if not whole:
            low = high = None
        elif name in self._with_nan:
            low, high = math.nan if low is None else low, math.nan
        return ColumnRange(name, low, high, nulls, values, size, uncompressed)


def _bounds(statistics: pq.Statistics) -> tuple[Any, Any] | None:
    if not statistics.has_min_max:
        return None
    try:
        return statistics.min, statistics.max
    except (OverflowError, ValueError):
        # A time that Python's datetime cannot tell: a column without bounds is not used to leave files out.
        return None


def _flat_leaves(kind: pa.DataType, path: str) -> Iterator[str]:
    """The paths of a column's leaves that are not within a list or a map."""
    if pa.types.is_struct(kind):
        for child in kind:
            yield from _flat_leaves(child.type, f"{path}.{child.name}")
    elif not pa.types.is_nested(kind):
        yield path


def _float_paths(field: pa.Field, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    here = (*path, field.name)
    if pa.types.is_floating(field.type):
        yield here
    elif pa.types.is_struct(field.type):
        for child in field.type:
            yield from _float_paths(child, here)


def ranges_of_rows(rows: pa.Table) -> tuple[ColumnRange, ...]:
    """The ranges of rows that are in no Parquet file, or in one within a log block.

    >>> ranges_of_rows(pa.table({"id": [2, None, 1]}))
    (ColumnRange(column='id', minimum=1, maximum=2, null_count=1, value_count=3, size=0, uncompressed_size=0),)
    """
    return tuple(_range_of(name, column) for name, column in _flat_columns(rows))


def _range_of(name: str, column: pa.ChunkedArray) -> ColumnRange:
    nulls, count = column.null_count, len(column)
    if nulls == count:
        return ColumnRange(name, None, None, nulls, count)
    if pa.types.is_dictionary(column.type):
        # The values that the rows have, and not all that the dictionary has.
        column = column.unique().cast(column.type.value_type)
    low = high = None
    try:
        bounds = pc.min_max(column)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
    except (pa.ArrowNotImplementedError, OverflowError, ValueError):
        pass
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        low, high = math.nan if low is None else low, math.nan
    return ColumnRange(name, low, high, nulls, count)


def _flat_columns(rows: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        yield from _flat(name, column)


def _flat(name: str, column: pa.ChunkedArray) -> Iterator[tuple[str, pa.ChunkedArray]]:
    kind = column.type
    if pa.types.is_struct(kind):
        for field, child in zip(kind, column.flatten(), strict=True):
            yield from _flat(f"{name}.{field.name}", child)
    elif not pa.types.is_nested(kind):
        yield name, column


def merge_ranges(first: tuple[ColumnRange, ...], second: tuple[ColumnRange, ...]) -> tuple[ColumnRange, ...]:
    """The ranges of two sets of rows with the same columns.

    >>> merge_ranges(ranges_of_rows(pa.table({"a": [1]})), ranges_of_rows(pa.table({"a": [5]})))[0].maximum
    5
    """
    if not first or not second:
        return first or second
    return tuple(_merged(one, other) for one, other in zip(first, second, strict=True))


def _merged(one: ColumnRange, other: ColumnRange) -> ColumnRange:
    nulls, values = one.null_count + other.null_count, one.value_count + other.value_count
    bounded = [r for r in (one, other) if r.null_count < r.value_count]
    low = high = None
    if bounded and all(r.minimum is not None for r in bounded):
        lows, highs = [r.minimum for r in bounded], [r.maximum for r in bounded]
        # NaN is above everything, whichever side it is on.
        low = min((v for v in lows if v == v), default=math.nan)
        high = math.nan if any(v != v for v in highs) else max(highs)
    return ColumnRange(
        one.column, low, high, nulls, values, one.size + other.size, one.uncompressed_size + other.uncompressed_size
    )
