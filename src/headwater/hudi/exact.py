"""What is known exactly of a base file without reading its rows: counts, and bounds that are values of it.

Pruning can do with loose bounds, aggregates cannot. Two sources:

- The file's own footer: counts of rows and nulls, and bounds of types whose order is the same everywhere. No bounds of
  floating numbers (NaN, and the two zeros), of INT96, of text from writers that may shorten it.
- Column statistics of the metadata table, which Hudi copies from the footers, but of types of a fixed width alone:
  where a footer has no statistics, because the values are long, Hudi notes as many nulls as values.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.hudi.metadata_table.reader import COLUMN_STATS, MetadataTable
from headwater.hudi.metadata_table.records import ColumnStats
from headwater.hudi.parquet_footer import check_column_chunks, read_footer
from headwater.hudi.schema import COMMIT_TIME
from headwater.hudi.slice_reader import SliceContext
from headwater.spec.model import FileSlice
from headwater.spec.statistics import ColumnStatistics

# Writers that keep bounds of text whole, or leave them out.
_WHOLE_TEXT = ("parquet-mr", "parquet-cpp-arrow")
_WRITERS_OF_PAGES = b"original.created.by"
_UNREADABLE = (OSError, ValueError, OverflowError, LookupError, NotImplementedError, RuntimeError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class Known:
    """The number of rows, and statistics of columns: `exact` bounds are values of the column, counts always exact."""

    rows: int
    columns: Mapping[str, ColumnStatistics]


def from_footer(context: SliceContext, slice_: FileSlice, columns: Sequence[str]) -> Known | None:
    """What the footer of a slice's base file tells; None where it is no Parquet file, or cannot be read.

    Columns that the file calls otherwise, or keeps in another type, are left out: reading them tells.
    """
    base = slice_.base_file
    if base is None or not base.path.endswith(".parquet"):
        return None
    try:
        with context.storage.open(base.path) as source:
            metadata = read_footer(source)
        check_column_chunks(metadata)
        stored = metadata.schema.to_arrow_schema()
        leaves = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
        found = {}
        for name in columns:
            if name in leaves and context.schema.internal is None and name in context.schema.arrow.names:
                read = context.schema.arrow.field(name).type
                found[name] = _of_column(metadata, leaves[name], stored.field(name).type, read)
    except _UNREADABLE:
        return None  # whoever reads the rows will say what is wrong
    rows = int(metadata.num_rows)
    return Known(rows, {name: one for name, one in found.items() if one is not None and one.value_count == rows})


def _of_column(
    metadata: pq.FileMetaData, index: int, stored: pa.DataType, read: pa.DataType
) -> ColumnStatistics | None:
    physical = metadata.schema.column(index).physical_type
    if stored != read and not (pa.types.is_integer(stored) and pa.types.is_integer(read)):
        return None
    bounded = _has_one_order(read, physical, _writers(metadata))
    total = ColumnStatistics(null_count=0, value_count=0, exact=True)
    for number in range(metadata.num_row_groups):
        chunk, rows = metadata.row_group(number).column(index), metadata.row_group(number).num_rows
        if chunk.physical_type != physical or not chunk.is_stats_set:
            return None
        statistics = chunk.statistics
        if not statistics.has_null_count or not 0 <= statistics.null_count <= rows:
            return None
        low, high = (statistics.min, statistics.max) if bounded and statistics.has_min_max else (None, None)
        part = ColumnStatistics(
            low, high, null_count=statistics.null_count, value_count=rows, exact=low is not None and high is not None
        )
        total = total.merge(part)
    return total


def _writers(metadata: pq.FileMetaData) -> list[str]:
    """Who made the statistics: where a file is put together from the pages of others, those who wrote them too."""
    pages = (metadata.metadata or {}).get(_WRITERS_OF_PAGES, b"")
    return [str(metadata.created_by or ""), *pages.decode("utf-8", "replace").splitlines()]


def _has_one_order(kind: pa.DataType, physical: str, writers: Sequence[str]) -> bool:
    if physical == "INT96":
        return False
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return all(writer.startswith(_WHOLE_TEXT) for writer in writers)
    if pa.types.is_timestamp(kind):
        return kind.unit in ("ms", "us")
    tests = (pa.types.is_signed_integer, pa.types.is_boolean, pa.types.is_date32, pa.types.is_decimal128)
    return any(test(kind) for test in tests)


def from_metadata_table(
    metadata: MetadataTable | None,
    context: SliceContext,
    slices: Iterable[FileSlice],
    columns: Sequence[str],
    *,
    partly: bool = False,
) -> dict[FileSlice, Known]:
    """What the metadata table tells of the base files of slices, for those of which it tells all; or what it can."""
    if metadata is None or not metadata.has(COLUMN_STATS) or context.schema.internal is not None:
        return {}
    schema = context.schema.arrow
    kinds = {n: schema.field(n).type for n in columns if n in schema.names and _is_fixed(schema.field(n).type)}
    if len(kinds) < len(columns) and not partly:
        return {}
    files = {
        (slice_.group.partition, slice_.base_file.name): slice_
        for slice_ in slices
        if slice_.base_file is not None and slice_.base_file.path.endswith(".parquet")
    }
    stats = metadata.column_stats([COMMIT_TIME, *kinds], files)
    found = {}
    for (partition, name), slice_ in files.items():
        counted = stats.get((partition, name, COMMIT_TIME))
        if counted is None or not counted.value_count or counted.null_count != 0:
            continue
        converted = {
            column: _converted(stats.get((partition, name, column)), kind, counted.value_count)
            for column, kind in kinds.items()
        }
        if partly or all(one is not None for one in converted.values()):
            known = {column: one for column, one in converted.items() if one is not None}
            found[slice_] = Known(counted.value_count, known)
    return found


def _is_fixed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind))


def _converted(stat: ColumnStats | None, kind: pa.DataType, rows: int) -> ColumnStatistics | None:
    if stat is None or stat.value_count != rows or stat.null_count is None or not 0 <= stat.null_count <= rows:
        return None
    if stat.null_count == rows:
        return ColumnStatistics(null_count=rows, value_count=rows, exact=True)
    if not _is_value(stat.min, kind) or not _is_value(stat.max, kind):
        return None
    return ColumnStatistics(stat.min, stat.max, null_count=stat.null_count, value_count=rows, exact=True)


def _is_value(value: Any, kind: pa.DataType) -> bool:
    if pa.types.is_boolean(kind):
        return isinstance(value, bool)
    if pa.types.is_date32(kind):
        # The ends of the calendar stand for all that lies beyond.
        ends = (datetime.date.min, datetime.date.max)
        return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime) and value not in ends
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return bool(-(2 ** (kind.bit_width - 1)) <= value < 2 ** (kind.bit_width - 1))
