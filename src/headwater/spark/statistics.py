"""What a scan will give, estimated for Spark's optimizer: bytes, rows and what is known of columns.

Nothing but metadata and a few footers is looked at.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.hudi.exact import Known, from_metadata_table
from headwater.hudi.metadata_table.reader import MetadataTable
from headwater.hudi.parquet_footer import check_column_chunks
from headwater.hudi.slice_reader import SliceContext
from headwater.spark.types import to_json
from headwater.spec.model import FileSlice
from headwater.spec.statistics import ColumnStatistics

_MOST_LOOKUPS = 1000
_MOST_FOOTERS = 256
# So many footers are opened for their number of rows; the size of small files says little.
_FEW = 16
_SMALLEST = 1
_ROW_WITHOUT_COLUMNS = 8


@dataclass(frozen=True)
class _Footer:
    """How the bytes of a base file are shared out among its columns."""

    rows: int
    bytes: int
    columns: dict[str, int]

    def share(self, names: Sequence[str]) -> float:
        total = sum(self.columns.values())
        return sum(self.columns.get(name, 0) for name in names) / total if total else 1.0


_FOOTERS: OrderedDict[str, _Footer | None] = OrderedDict()


def estimate(
    context: SliceContext,
    metadata: MetadataTable | None,
    slices: Sequence[FileSlice],
    columns: Sequence[str],
    rows_of: Callable[[FileSlice], int | None] = lambda slice_: None,
) -> dict[str, Any]:
    """The `statistics` of a plan: of the slices that are left, in the columns that are read.

    Rows that logs add or take away are not counted: they are few, or the table wants compaction.
    """
    if not slices:
        return {"bytes": _SMALLEST, "rows": 0, "columns": {}}
    sample = _footer(context, max((s for s in slices if s.base_file is not None), key=_base_bytes, default=None))
    known = _from_metadata(context, metadata, slices, columns)
    rows = _rows(context, slices, known, sample, rows_of)
    size = sum(slice_.size for slice_ in slices)
    if sample is not None:
        size = int(size * sample.share(columns))
    if not columns:
        size = min(size, (rows or 0) * _ROW_WITHOUT_COLUMNS) or size
    return {"bytes": max(size, _SMALLEST), "rows": rows, "columns": _columns(slices, known, columns)}


def _base_bytes(slice_: FileSlice) -> int:
    return (slice_.base_file.size or 0) if slice_.base_file is not None else 0


def _rows(
    context: SliceContext,
    slices: Sequence[FileSlice],
    known: dict[FileSlice, Known],
    sample: _Footer | None,
    rows_of: Callable[[FileSlice], int | None],
) -> int | None:
    per_byte = sample.rows / sample.bytes if sample is not None and sample.bytes else None
    total, unknown = 0.0, []
    for slice_ in slices:
        found = known[slice_].rows if slice_ in known else rows_of(slice_)
        if found is None:
            unknown.append(slice_)
        else:
            total += found
    for slice_ in unknown:
        footer = _footer(context, slice_) if len(unknown) <= _FEW else None
        if footer is not None:
            total += footer.rows
        elif per_byte is not None:
            total += per_byte * (_base_bytes(slice_) or slice_.size)
        else:
            return None
    return round(total)


def _from_metadata(
    context: SliceContext, metadata: MetadataTable | None, slices: Sequence[FileSlice], columns: Sequence[str]
) -> dict[FileSlice, Known]:
    if metadata is None or len(slices) > _MOST_LOOKUPS:
        return {}
    chosen = columns if len(slices) * (len(columns) + 1) <= _MOST_LOOKUPS else ()
    return from_metadata_table(metadata, context, slices, chosen, partly=True)


def _columns(slices: Sequence[FileSlice], known: dict[FileSlice, Known], columns: Sequence[str]) -> dict[str, Any]:
    """Columns of which every slice without logs is known; rows of logs would make bounds wider than told."""
    if len(known) < len(slices) or any(slice_.delta_files for slice_ in slices):
        return {}
    found: dict[str, Any] = {}
    for name in columns:
        parts = [known[slice_].columns.get(name) for slice_ in slices]
        merged: ColumnStatistics | None = None
        for part in parts:
            if part is None:
                merged = None
                break
            merged = part if merged is None else merged.merge(part)
        if merged is not None:
            found[name] = {"nulls": merged.null_count}
            if merged.minimum is not None and merged.maximum is not None:
                found[name] |= {"min": to_json(merged.minimum), "max": to_json(merged.maximum)}
    return found


def _footer(context: SliceContext, slice_: FileSlice | None) -> _Footer | None:
    """The footer of a base file, which never changes once it is written."""
    base = None if slice_ is None else slice_.base_file
    if base is None or not base.path.endswith(".parquet"):
        return None
    place = context.storage.describe(base.path)
    if place in _FOOTERS:
        _FOOTERS.move_to_end(place)
        return _FOOTERS[place]
    try:
        with context.storage.open(base.path) as source:
            metadata = pq.read_metadata(source)
            size = base.size or source.size()
        check_column_chunks(metadata)
        sizes: dict[str, int] = {}
        for group in range(metadata.num_row_groups):
            for index in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(index)
                name = chunk.path_in_schema.split(".", 1)[0]
                sizes[name] = sizes.get(name, 0) + chunk.total_compressed_size
        found: _Footer | None = _Footer(int(metadata.num_rows), int(size), sizes)
    except (OSError, ValueError, RuntimeError, LookupError, pa.ArrowException):
        found = None  # whoever reads the rows will say what is wrong
    _FOOTERS[place] = found
    while len(_FOOTERS) > _MOST_FOOTERS:
        _FOOTERS.popitem(last=False)
    return found
