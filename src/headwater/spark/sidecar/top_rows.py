"""The first rows of an order (ORDER BY … LIMIT n): where they end at the latest, and what need not be read for them.

Slices that are only a base file with exact statistics prove that so many rows come at or before a value. Once these are
n, no row behind that value is among the first n: the value becomes a filter, which prunes like any other. Rows that
equal it stay, for other columns of the order decide among them. A slice with logs proves nothing, and is left out
where the statistics of all its files lie behind the value.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headwater.hudi.exact import Known, from_footer, from_metadata_table
from headwater.hudi.metadata_table.reader import COLUMN_STATS
from headwater.hudi.slice_reader import HudiSliceReader
from headwater.plan import PlanStep, ScanPlan, ScanTask
from headwater.spark.sidecar.tables import OpenTable
from headwater.spark.types import to_json
from headwater.spec.expressions import Column, Comparison, Expression, IsNull, Literal, TrueValue, disjunction, residual
from headwater.spec.model import FileSlice
from headwater.spec.statistics import ColumnStatistics
from headwater.table import Scan

STEP = "prune by the first rows"
_MOST_FOOTERS = 64


@dataclass(frozen=True, slots=True)
class SortKey:
    """The first column of an order; the others decide among rows that are equal in it."""

    column: str
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        order, nulls = "DESC" if self.descending else "ASC", "FIRST" if self.nulls_first else "LAST"
        return f"{self.column} {order} NULLS {nulls}"

    def ends(self, statistics: ColumnStatistics) -> tuple[Any, Any]:
        """The first and the last value in this order."""
        low, high = statistics.minimum, statistics.maximum
        return (high, low) if self.descending else (low, high)


@dataclass(frozen=True, slots=True)
class Bound:
    """The value at or before which the first rows lie; None is null, where nulls come first."""

    key: SortKey
    value: Any

    @property
    def expression(self) -> Expression:
        """What the first rows match.

        >>> print(Bound(SortKey("fare", descending=True, nulls_first=False), 12).expression)
        fare >= 12
        >>> print(Bound(SortKey("fare"), 12).expression)
        fare IS NULL OR fare <= 12
        """
        column = Column((self.key.column,))
        if self.value is None:
            return IsNull(column)
        within = Comparison(">=" if self.key.descending else "<=", column, Literal(self.value))
        return disjunction([IsNull(column), within]) if self.key.nulls_first else within

    def rules_out(self, known: ColumnStatistics) -> bool:
        """Whether every row of such a slice lies behind.

        >>> bound = Bound(SortKey("x"), 5)
        >>> [bound.rules_out(ColumnStatistics(low, 9, null_count=0, value_count=2, exact=True)) for low in (5, 6)]
        [False, True]
        """
        if known.null_count is None or (self.key.nulls_first and known.null_count):
            return False
        if known.all_null or self.value is None:
            return True
        first = self.key.ends(known)[0]
        if first is None:
            return False
        try:
            return bool(first < self.value if self.key.descending else first > self.value)
        except TypeError:
            return False

    def to_json(self) -> dict[str, Any]:
        """For the connector, which gives it to Spark's Parquet reader."""
        return {
            "column": self.key.column,
            "op": ">=" if self.key.descending else "<=",
            "value": to_json(self.value),
            "nulls": self.key.nulls_first,
        }


def bound_of(key: SortKey, limit: int, known: Iterable[ColumnStatistics]) -> Bound | None:
    """Where the first rows end at the latest, by what is known exactly of some rows; None where that is too little.

    >>> some = [ColumnStatistics(1, 5, null_count=0, value_count=3, exact=True)]
    >>> some += [ColumnStatistics(2, 9, null_count=0, value_count=3, exact=True)]
    >>> [found and found.value for limit in (1, 2, 4, 6, 7) if (found := bound_of(SortKey("x"), limit, some)) or True]
    [1, 2, 5, 9, None]
    """
    nulls, counts = 0, []
    for one in known:
        if one.null_count is None or one.value_count is None:
            continue
        nulls += one.null_count
        values = one.value_count - one.null_count
        first, last = key.ends(one)
        if values > 0 and one.exact and first is not None and last is not None:
            counts += [(first, 1), (last, values - 1)]
    if limit <= 0:
        return None
    total = nulls if key.nulls_first else 0
    if total >= limit:
        return Bound(key, None)
    try:
        ordered = sorted(counts, key=lambda pair: pair[0], reverse=key.descending)
    except TypeError:
        return None
    for value, count in ordered:
        total += count
        if total >= limit:
            return Bound(key, value)
    return None


@dataclass(frozen=True)
class FirstRows:
    """The order and the number of rows that a query wants, and what is known of where these lie."""

    orders: tuple[str, ...]
    limit: int
    bound: Bound | None
    known: Mapping[str, ColumnStatistics]
    """By the path of a base file that is a slice of its own."""

    @property
    def description(self) -> str:
        """A line for `explain`."""
        found = "no bound is known" if self.bound is None else f"they match {self.bound.expression}"
        return f"  first rows {self.limit} by {', '.join(self.orders)}: {found}"

    def narrow(self, scan: Scan, planned: ScanPlan, reader: HudiSliceReader) -> tuple[ScanPlan, HudiSliceReader]:
        """The plan of what may hold the first rows."""
        if self.bound is None:
            return planned, reader
        again, reader = scan.where(self.bound.expression).prepare()
        kept = tuple(task for task in again.tasks if not self._rules_out(task))
        step = PlanStep(STEP, len(again.tasks), len(kept), "slices", f"exact statistics of {self.bound.key.column}")
        steps = again.steps if len(kept) == len(again.tasks) else (*again.steps, step)
        return replace(again, tasks=kept, steps=steps), reader

    def _rules_out(self, task: ScanTask) -> bool:
        assert self.bound is not None
        base = task.slice.base_file if isinstance(task.slice, FileSlice) and not task.slice.delta_files else None
        known = None if base is None else self.known.get(base.path)
        return known is not None and self.bound.rules_out(known)


def first_rows(
    table: OpenTable, asked: Mapping[str, Any], planned: ScanPlan, reader: HudiSliceReader
) -> FirstRows | None:
    """What `top` of a request asks for; None where its first column is none of the table's."""
    orders = [_sort_key(one) for one in asked["orders"]]
    key, limit = (orders[0] if orders else None), int(asked["limit"])
    if key is None or key.column not in table.schema.names:
        return None
    shown = tuple(str(one) for one in orders if one is not None)
    known = _known(table, key, planned.tasks, reader) if len(planned.tasks) > 1 else {}
    return FirstRows(shown, limit, bound_of(key, limit, known.values()), known)


def _sort_key(order: Mapping[str, Any]) -> SortKey | None:
    path = order["column"]
    if not path or len(path) > 1:
        return None
    return SortKey(str(path[0]), bool(order["descending"]), bool(order["nulls_first"]))


def _known(
    table: OpenTable, key: SortKey, tasks: Sequence[ScanTask], reader: HudiSliceReader
) -> dict[str, ColumnStatistics]:
    """What is known exactly of the column in base files of which every row counts."""
    whole = [(task, task.slice) for task in tasks if isinstance(task.slice, FileSlice) and _is_whole(task, reader)]
    if all(key.column in task.partition.columns for task in tasks):
        if pa.types.is_floating(table.schema.field(key.column).type):
            return {}  # what a path says of such a number need not be all of it
        values = {slice_.group.partition: task.partition.as_mapping()[key.column] for task, slice_ in whole}
        rows = _statistics(table, key, [slice_ for _, slice_ in whole], reader, values)
        return {
            base.path: _constant(values[slice_.group.partition], rows[slice_].rows)
            for _, slice_ in whole
            if slice_ in rows and (base := slice_.base_file) is not None
        }
    if key.column in table.table.hudi.config.partition_fields:
        return {}  # told by some paths and not by others
    found = _statistics(table, key, [slice_ for _, slice_ in whole], reader)
    return {
        slice_.base_file.path: known.columns[key.column]
        for slice_, known in found.items()
        if slice_.base_file is not None and key.column in known.columns
    }


def _is_whole(task: ScanTask, reader: HudiSliceReader) -> bool:
    slice_ = task.slice
    if not isinstance(slice_, FileSlice) or slice_.base_file is None or slice_.delta_files:
        return False
    if slice_.instants is not None:
        return False
    return reader.filter is None or isinstance(residual(reader.filter, task.partition.as_mapping()), TrueValue)


def _constant(value: Any, rows: int) -> ColumnStatistics:
    return ColumnStatistics(value, value, null_count=rows if value is None else 0, value_count=rows, exact=True)


def _statistics(
    table: OpenTable,
    key: SortKey,
    slices: Sequence[FileSlice],
    reader: HudiSliceReader,
    values: Mapping[str, Any] | None = None,
) -> dict[FileSlice, Known]:
    """By the metadata table, and by footers of what it does not tell: those that look as if they came first."""
    columns = [key.column] if values is None else []
    found = from_metadata_table(table.table.hudi.metadata, reader.context, slices, columns, partly=True)
    found = {slice_: known for slice_, known in found.items() if all(name in known.columns for name in columns)}
    left = [slice_ for slice_ in slices if slice_ not in found]
    if len(left) > _MOST_FOOTERS:
        left = _likely(table, key, left, values)[:_MOST_FOOTERS]
    if left:
        with ThreadPoolExecutor(min(table.options.threads or os.cpu_count() or 1, 8, len(left))) as pool:
            read = pool.map(lambda slice_: from_footer(reader.context, slice_, columns), left)
            found |= {slice_: known for slice_, known in zip(left, read, strict=True) if known is not None}
    return found


def _likely(
    table: OpenTable, key: SortKey, slices: Sequence[FileSlice], values: Mapping[str, Any] | None
) -> list[FileSlice]:
    """Slices by their first value, as far as partitions or loose statistics tell it: a guess that costs no rows."""
    firsts: dict[FileSlice, Any] = {}
    metadata = table.table.hudi.metadata
    if values is not None:
        firsts = {slice_: values[slice_.group.partition] for slice_ in slices}
    elif metadata is not None and metadata.has(COLUMN_STATS):
        names = {
            (slice_.group.partition, slice_.base_file.name): slice_ for slice_ in slices if slice_.base_file is not None
        }
        stats = metadata.column_stats([key.column], names)
        firsts = {names[place[:2]]: one.max if key.descending else one.min for place, one in stats.items()}
    told = [slice_ for slice_ in slices if firsts.get(slice_) is not None]
    untold = [slice_ for slice_ in slices if firsts.get(slice_) is None]
    try:
        told.sort(key=lambda slice_: firsts[slice_], reverse=key.descending)
    except TypeError:
        return list(slices)
    return [*untold, *told] if key.nulls_first else [*told, *untold]
