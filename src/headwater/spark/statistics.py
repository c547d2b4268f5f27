"""What a scan will give, estimated for Spark's optimizer: bytes, rows and what is known of columns.

Nothing but metadata and a few footers is looked at.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.hudi.exact import Known, from_metadata_table
from headwater.hudi.metadata_table.reader import MetadataTable
from headwater.hudi.parquet_footer import check_column_chunks, read_footer
from headwater.hudi.slice_reader import SliceContext
from headwater.spark.row_counts import RowCounts
from headwater.spark.types import to_json
from headwater.spec.model import FileSlice
from headwater.spec.statistics import ColumnStatistics

_MOST_LOOKUPS = 1000
_MOST_FOOTERS = 256
# So many footers are opened for their number of rows; the size of small files says little.
_FEW = 16
_SMALLEST = 1
# To Spark a row is this at least, however well its column is compressed: a side of a join is sent to all tasks by it.
_ROW = 8


@dataclass(frozen=True)
class _Footer:
    """How the bytes of a base file are shared out among its columns."""

    rows: int
    bytes: int
    columns: dict[str, int]

    @property
    def content(self) -> int:
        """Bytes of all columns."""
        return sum(self.columns.values())

    def share(self, names: Sequence[str]) -> float:
        return sum(self.columns.get(name, 0) for name in names) / self.content if self.content else 1.0


@dataclass(frozen=True)
class _Sizes:
    """What the size of a base file says of it, judged by the smallest and the largest one.

    A size alone says little: the bloom filter in the footer can be most of a small file.

    >>> sizes = _Sizes(_Footer(10, 1_100, {"a": 100}), _Footer(1_010, 11_100, {"a": 10_100}))
    >>> sizes.rows([1_100]), sizes.content([1_100]), sizes.rows([6_100, 1_100])
    (10.0, 100.0, 520.0)
    """

    smallest: _Footer
    largest: _Footer

    def rows(self, sizes: Sequence[int]) -> float:
        """How many rows files of these sizes have together."""
        return self._between(sizes, self.smallest.rows, self.largest.rows)

    def content(self, sizes: Sequence[int]) -> float:
        """Bytes of the columns of files of these sizes."""
        return self._between(sizes, self.smallest.content, self.largest.content)

    def _between(self, sizes: Sequence[int], least: int, most: int) -> float:
        low, high = self.smallest.bytes, self.largest.bytes
        if high <= low:
            return most * sum(sizes) / high if high else 0.0
        parts = np.clip((np.array(sizes, np.float64) - low) / (high - low), 0.0, 1.0)
        return float(least * len(sizes) + parts.sum() * (most - least))


_FOOTERS: OrderedDict[str, _Footer | None] = OrderedDict()


def estimate(
    context: SliceContext,
    metadata: MetadataTable | None,
    slices: Sequence[FileSlice],
    columns: Sequence[str],
    counts: RowCounts,
    partitions: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """The `statistics` of a plan: of the slices that are left, in the columns that are read.

    Rows that logs insert and delete are counted as far as the commits that wrote them are at hand.
    """
    if not slices:
        return {"bytes": _SMALLEST, "rows": 0, "columns": {}}
    sizes = _sizes(context, slices)
    known = _from_metadata(context, metadata, slices, columns)
    rows = _rows(context, slices, known, sizes, counts)
    bases = [_base_bytes(slice_) for slice_ in slices]
    logs = sum(ref.size or 0 for slice_ in slices if slice_.delta_files for ref in slice_.delta_files)
    size = sum(bases) + logs
    if sizes is not None:
        size = int((sizes.content(bases) + logs) * sizes.largest.share(columns))
    least = (rows or 0) * _ROW
    size = max(size, least) if columns else least or size
    found = _columns(slices, known, columns) | _of_partitions(slices, partitions or {}, columns)
    return {"bytes": max(size, _SMALLEST), "rows": rows, "columns": found}


def _base_bytes(slice_: FileSlice) -> int:
    return (slice_.base_file.size or 0) if slice_.base_file is not None else 0


def _sizes(context: SliceContext, slices: Sequence[FileSlice]) -> _Sizes | None:
    bases = [slice_ for slice_ in slices if _base_bytes(slice_)]
    if not bases:
        return None
    bytes_ = [_base_bytes(slice_) for slice_ in bases]
    largest = _footer(context, bases[bytes_.index(max(bytes_))])
    smallest = _footer(context, bases[bytes_.index(min(bytes_))])
    return None if largest is None else _Sizes(smallest or largest, largest)


def _rows(
    context: SliceContext,
    slices: Sequence[FileSlice],
    known: dict[FileSlice, Known],
    sizes: _Sizes | None,
    counts: RowCounts,
) -> int | None:
    if any(slice_.delta_files or (slice_ not in known and counts.of(slice_) is None) for slice_ in slices):
        counts.learn()
    total, unknown = 0.0, []
    for slice_ in slices:
        if known and slice_ in known:
            total += max(known[slice_].rows + counts.change(slice_), 0)
        elif (found := counts.estimate(slice_)) is not None:
            total += found
        else:
            unknown.append(slice_)
    unseen = []
    for slice_ in unknown:
        footer = _footer(context, slice_) if len(unknown) <= _FEW else None
        if footer is not None:
            total += max(footer.rows + counts.change(slice_), 0)
        else:
            unseen.append(_base_bytes(slice_) or slice_.size)
    if unseen and sizes is None:
        return None
    return round(total + (sizes.rows(unseen) if sizes is not None else 0))


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
            found[name] = {"nulls": merged.null_count} | _distinct(merged)
            if merged.minimum is not None and merged.maximum is not None:
                found[name] |= {"min": to_json(merged.minimum), "max": to_json(merged.maximum)}
    return found


def _distinct(statistics: ColumnStatistics) -> dict[str, int]:
    """How many values there are, where bounds that are values tell it.

    >>> one = ColumnStatistics(7, 7, null_count=0, value_count=3, exact=True)
    >>> _distinct(one), _distinct(ColumnStatistics(null_count=3, value_count=3)), _distinct(ColumnStatistics(1, 9))
    ({'distinct': 1}, {'distinct': 0}, {})
    """
    if statistics.all_null:
        return {"distinct": 0}
    low, high = statistics.minimum, statistics.maximum
    if not statistics.exact or low is None or high is None:
        return {}
    if low == high:
        return {"distinct": 1}
    return {"distinct": 2} if isinstance(low, bool) else {}


def _of_partitions(
    slices: Sequence[FileSlice], partitions: Mapping[str, Mapping[str, Any]], columns: Sequence[str]
) -> dict[str, Any]:
    """Columns that the partitions' paths tell: all their values are known, whatever logs hold."""
    chosen = [partitions.get(path, {}) for path in dict.fromkeys(slice_.group.partition for slice_ in slices)]
    found: dict[str, Any] = {}
    for name in columns:
        if not all(name in values for values in chosen):
            continue
        values = {each[name] for each in chosen}
        present = values - {None}
        found[name] = {"distinct": len(present)} | ({} if None in values else {"nulls": 0})
        try:
            if present:
                found[name] |= {"min": to_json(min(present)), "max": to_json(max(present))}
        except TypeError:
            pass  # values without an order have no bounds
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
            metadata = read_footer(source)
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
