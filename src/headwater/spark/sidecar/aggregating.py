"""Aggregates of a scan: answered by the driver where metadata suffices, by slice on the executors where not.

A slice that has only a base file is answered from the metadata table or from the file's footer, as far as these are
exact. Of a slice with logs, rows are counted by position: those of the base file, less the dropped, plus the added.
Its bounds are the base file's, unless a row that goes had them: its rows are read only where they can still change the
result. Whatever else is asked for is computed from the columns that it needs.
"""

from __future__ import annotations

import base64
import json
import os
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import zip_longest
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import HeadwaterError
from headwater.hudi.exact import Known, from_footer, from_metadata_table
from headwater.hudi.log_counts import only_updates
from headwater.hudi.slice_reader import HudiSliceReader
from headwater.spark.aggregates import Aggregate, AggregateSpec, NotSupported, Tally
from headwater.spark.sidecar.merging import SliceScan, decode_slice, encode_slice
from headwater.spark.sidecar.planning import push
from headwater.spark.sidecar.predicates import FULL
from headwater.spark.sidecar.tables import OpenTable
from headwater.spark.sidecar.task_columns import TaskColumns, Way
from headwater.spec.expressions import FalseValue, TrueValue, conjunction, residual
from headwater.spec.model import FileSlice, PartitionDescriptor, ReadingMode
from headwater.spec.statistics import ColumnStatistics

MOST_FOOTERS = 64
"""Footers that the driver reads itself; more of them are the executors' work."""
_MEMORY = 512 * 10**6
_DRIVER_BYTES = 2 << 20
_DRIVER_SLICES = 8
_HELD = 64 << 20
_TASK_BYTES = 32 << 20
_LARGEST_TASK = 256 << 20
_OPEN_COST = 1 << 20
_FOOTER_COST = 1 << 18


def plan_aggregate(table: OpenTable, request: Mapping[str, Any], version: str) -> dict[str, Any]:
    """The answer to `aggregate_plan`."""
    try:
        spec, scan = _asked(table, request)
    except NotSupported as why:
        return {"supported": False, "complete": False, "why": str(why)}
    planned, reader = scan.prepare()
    reader = reader.within(table.options.memory or _MEMORY)
    tasks = [(task.partition, task.slice) for task in planned.tasks if isinstance(task.slice, FileSlice)]
    if any(name not in partition.columns for partition, _ in tasks for name in spec.group_by):
        return {"supported": False, "complete": False, "why": "partition paths do not tell the values to group by"}
    tally = Tally(spec)
    slices = [_Slice(spec, reader, partition, slice_) for partition, slice_ in tasks]
    left = _by_metadata(table, tally, [one for one in slices if one.has_rows])
    by_metadata = len(slices) - len(left)
    left = _by_footers(tally, left, table.options.threads)
    by_footers = len(slices) - by_metadata - len(left)
    if left and len(left) <= _DRIVER_SLICES and sum(one.slice.size for one in left) <= _DRIVER_BYTES:
        _finish(tally, [found for one in left if (found := one.read_into(tally)) is not None])
        left = []
    answer: dict[str, Any] = {
        "supported": True,
        "complete": not left,
        "schema": spec.spark_schema,
        "metrics": {"slices_total": len(slices), "by_metadata": by_metadata, "by_footers": by_footers},
        "description": [*str(planned).splitlines(), _described(slices, by_metadata, by_footers, left)],
    }
    if not left:
        try:
            return {**answer, "rows": tally.to_rows()}
        except UnicodeDecodeError:
            answer["complete"] = False  # text that is none goes as Arrow
    scan_blob = SliceScan(reader.project(pa.schema([])), pa.schema([]), remembers=table.options.merge_cache).to_bytes(
        version
    )
    return {
        **answer,
        "scan": base64.b64encode(scan_blob).decode("ascii"),
        "scan_id": uuid.uuid4().hex,
        "tasks": _tasks(spec, left, tally, int(request.get("parallelism") or 1)),
        "partitions": [{"path": "", "values": {}}],
        "constants": [],
        "statistics": {"bytes": sum(one.slice.size for one in left), "rows": None, "columns": {}},
        "split_size": None,
        "open_cost": None,
    }


def run_aggregate(
    scan: SliceScan, payloads: Sequence[bytes], check: Callable[[], None] = lambda: None
) -> tuple[pa.Schema, pa.RecordBatch]:
    """The partial results of tasks, one row for each group; `check` is called often, and raises to end it."""
    tally: Tally | None = None
    left: list[_OverBase] = []
    for payload in payloads:
        found = json.loads(zlib.decompress(payload))
        spec = AggregateSpec.from_json(found["spec"])
        if tally is None:
            tally = Tally(spec)
        if found["known"] is not None:
            tally.add(pa.ipc.open_stream(base64.b64decode(found["known"])).read_next_batch())
        for partition, text in found["slices"]:
            check()
            slice_ = decode_slice(text.encode("utf-8"))
            known = scan.reader.context.constants(partition)
            described = PartitionDescriptor(partition, tuple(known), tuple(known.values()))
            one = _Slice(spec, scan.reader, described, slice_)
            if one.has_rows and not one.footer_into(tally) and (found_left := one.read_into(tally, check)) is not None:
                left.append(found_left)
            if sum(each.dropped.nbytes for each in left) > _HELD:
                _finish(tally, left, check)
                left = []
    if tally is None:
        raise ValueError("an aggregate request without payloads")
    _finish(tally, left, check)
    return tally.spec.schema, tally.to_batch()


def _asked(table: OpenTable, request: Mapping[str, Any]) -> tuple[AggregateSpec, Any]:
    if not table.options.push_down_aggregates:
        raise NotSupported("push-down-aggregates is false")
    asked = [Aggregate(str(one["function"]), tuple(one.get("column") or ())) for one in request["aggregates"]]
    spec = AggregateSpec.of(table.schema, asked, [_name(one) for one in request.get("group_by") or ()])
    if not spec.aggregates and not spec.group_by:
        raise NotSupported("nothing to compute")
    pushed = push(table, request.get("predicates") or ())
    if any(one.kind != FULL or one.expression is None for one in pushed):
        raise NotSupported("a filter is left to Spark")
    scan = table.scan_of(request.get("partitions"))
    if pushed:
        scan = scan.where(conjunction([one.expression for one in pushed if one.expression is not None]))
    return spec, scan


def _name(column: Any) -> str:
    if isinstance(column, str):
        return column
    if len(column) != 1:
        raise NotSupported(f"groups by {'.'.join(column)} are left to Spark")
    return str(column[0])


@dataclass(frozen=True)
class _Slice:
    """One slice and how its part of the result is had."""

    spec: AggregateSpec
    reader: HudiSliceReader
    partition: PartitionDescriptor
    slice: FileSlice

    @property
    def constants(self) -> dict[str, Any]:
        return self.partition.as_mapping()

    @property
    def key(self) -> tuple[Any, ...]:
        return self.spec.key(self.constants)

    @property
    def needed(self) -> list[str]:
        """Columns that the partition does not tell."""
        return [name for name in self.spec.columns if name not in self.partition.columns]

    @property
    def _left(self) -> Any:
        return TrueValue() if self.reader.filter is None else residual(self.reader.filter, self.constants)

    @property
    def has_rows(self) -> bool:
        return not isinstance(self._left, FalseValue)

    @property
    def is_whole(self) -> bool:
        """Whether every row of its files counts."""
        return isinstance(self._left, TrueValue) and self.slice.instants is None

    @property
    def is_base_alone(self) -> bool:
        merged = self.slice.delta_files and self.reader.mode is not ReadingMode.SNAPSHOT_READ_OPTIMIZED
        return self.slice.base_file is not None and not merged and self.is_whole

    @property
    def is_counted(self) -> bool:
        """Whether it has logs, and nothing but the number of its rows is asked for."""
        return self.is_whole and not self.needed and self.slice.base_file is not None

    @property
    def cost(self) -> int:
        """About the bytes that are read of it: logs whole, of the base file some columns."""
        if self.is_base_alone and not self.needed:
            return _FOOTER_COST
        logs = sum(ref.size or 0 for ref in self.slice.delta_files)
        share = len(self.needed) / max(len(self.reader.context.schema.arrow), 1)
        return _OPEN_COST + logs + int((self.slice.size - logs) * share)

    def from_metadata(self) -> Known | None:
        """What the footer tells, where logs do not change it."""
        found = from_footer(self.reader.context, self.slice, self.needed)
        if found is None or self.is_base_alone:
            return found
        try:
            return found if only_updates(self.reader.context, self.slice, found.rows) else None
        except HeadwaterError:
            return None  # whoever merges will say what is wrong

    def footer_into(self, tally: Tally, known: Known | None = None) -> bool:
        """Add what the footer tells; False, and nothing added, where that is not all."""
        if not self.is_base_alone:
            return False
        found = known or from_footer(self.reader.context, self.slice, self.needed)
        return found is not None and tally.add_known(self.key, found.rows, found.columns, self.constants)

    def read_into(self, tally: Tally, check: Callable[[], None] = lambda: None) -> _OverBase | None:
        """Add what the rows tell; of those of the base file perhaps later, if they can change the result at all."""
        if self.is_whole and self.slice.delta_files and (known := self._exactly_known()) is not None:
            return self._by_position(tally, known, check)
        for batch in self.reader.project(self._fields).open(self.slice):
            check()
            tally.add_batch(self.key, batch, self.constants)
        return None

    @property
    def _fields(self) -> pa.Schema:
        return pa.schema([self.reader.context.schema.arrow.field(name) for name in self.needed])

    def _exactly_known(self) -> Known | None:
        """What is known of all rows of the base file, if with the number of those that go it tells enough."""
        if any(len(one.column) > 1 for one in self.spec.aggregates):
            return None
        needed = self.needed
        known = Known(0, {}) if self.slice.base_file is None else from_footer(self.reader.context, self.slice, needed)
        if known is None or (known.rows and known.columns.keys() != set(needed)):
            return None
        for one in self.spec.aggregates if known.rows else ():
            statistics = known.columns.get(one.column[0]) if one.column else None
            if statistics is not None and (statistics.null_count if one.function == "count" else not statistics.exact):
                return None
        return known

    def _by_position(self, tally: Tally, known: Known, check: Callable[[], None]) -> _OverBase | None:
        """Add the rows that merging adds; and of the base file, what is sure when some of its rows are gone."""
        if not self.needed and only_updates(self.reader.context, self.slice, known.rows):
            tally.add_known(self.key, known.rows, {}, self.constants)
            return None
        dropped = np.zeros(0, np.int64)
        for part in replace(self.reader, schema=self._fields, filter=None).merge_over_base(self.slice):
            check()
            dropped = np.concatenate([dropped, part.dropped]) if len(dropped) else part.dropped
            tally.add_batch(self.key, part.added, self.constants)
        rows = known.rows - len(dropped)
        if not rows:
            return None
        if not len(dropped) and tally.add_known(self.key, rows, known.columns, self.constants):
            return None
        left = _OverBase(self, known, dropped)
        if any(one.function in ("min", "max") and one.column[0] in self.needed for one in self.spec.aggregates):
            return left
        tally.add_counts(self.key, rows, self.constants)
        return None


@dataclass(frozen=True, eq=False)
class _OverBase:
    """The base file of a slice, less the rows that logs replace: its bounds are known as far as those rows allow."""

    slice: _Slice
    known: Known
    dropped: npt.NDArray[np.int64]

    def into(self, tally: Tally, check: Callable[[], None] = lambda: None) -> None:
        """Read it only as long as what the tally has so far is not beyond its bounds already."""
        one = self.slice
        left = self.known.rows - len(self.dropped)
        if tally.grows_by(one.key, self.known.columns):
            dropped = _rising(self.dropped, self.known.rows)
            for table in one.reader.project(one._fields).base_rows(one.slice, dropped):
                check()
                tally.add_batch(one.key, table, one.constants)
                left -= table.num_rows
                if not tally.grows_by(one.key, self.known.columns):
                    break
            else:
                return
        tally.add_counts(one.key, left, one.constants)


def _rising(positions: npt.NDArray[np.int64], rows: int) -> npt.NDArray[np.int64]:
    """Positions of a file's rows in their order, which marks in a row of flags give faster than sorting.

    >>> _rising(np.array([7, 2, 5]), 10).tolist()
    [2, 5, 7]
    """
    if not len(positions) or int(positions.max()) >= rows:
        return np.sort(positions)
    flags = np.zeros(rows, bool)
    flags[positions] = True
    return np.flatnonzero(flags)


def _finish(tally: Tally, left: Sequence[_OverBase], check: Callable[[], None] = lambda: None) -> None:
    """Base files with logs over them, those first that may hold the least or the greatest value."""
    orders = []
    for asked in tally.spec.aggregates:
        if asked.function in ("min", "max"):
            ends = [(_end(one.known.columns.get(asked.column[0]), asked.function), one) for one in left]
            filled = [pair for pair in ends if pair[0] is not None]
            filled.sort(key=itemgetter(0), reverse=asked.function == "max")
            orders.append([one for _, one in filled])
    first = [one for turn in zip_longest(*orders) for one in turn if one is not None]
    for one in {id(one): one for one in [*first, *left]}.values():
        one.into(tally, check)


def _end(statistics: ColumnStatistics | None, function: str) -> Any:
    if statistics is None or not statistics.exact:
        return None
    return statistics.minimum if function == "min" else statistics.maximum


def _by_metadata(table: OpenTable, tally: Tally, slices: Sequence[_Slice]) -> list[_Slice]:
    """The slices of which the metadata table does not tell enough."""
    alone = [one for one in slices if one.is_base_alone]
    if len(alone) <= 1:
        return list(slices)  # its footer is as near
    reader, needed = alone[0].reader, alone[0].needed
    known = from_metadata_table(table.table.hudi.metadata, reader.context, [one.slice for one in alone], needed)
    left = []
    for one in slices:
        found = known.get(one.slice) if one.is_base_alone else None
        if found is None or not one.footer_into(tally, found):
            left.append(one)
    return left


def _by_footers(tally: Tally, slices: Sequence[_Slice], threads: int | None) -> list[_Slice]:
    """The slices of which footers do not tell enough, or that are too many for the driver."""
    near = [one for one in slices if one.is_base_alone or one.is_counted]
    if not near or len(near) > MOST_FOOTERS:
        return list(slices)
    with ThreadPoolExecutor(min(threads or os.cpu_count() or 1, 8, len(near))) as pool:
        found = list(pool.map(_Slice.from_metadata, near))
    known = {one.slice: each for one, each in zip(near, found, strict=True) if each is not None}
    left = []
    for one in slices:
        each = known.get(one.slice)
        if each is None or not tally.add_known(one.key, each.rows, each.columns, one.constants):
            left.append(one)
    return left


def _tasks(spec: AggregateSpec, slices: Sequence[_Slice], tally: Tally, parallelism: int) -> TaskColumns:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, spec.schema) as writer:
        writer.write_batch(tally.to_batch())
    known: str | None = base64.b64encode(sink.getvalue()).decode("ascii")
    tasks = TaskColumns([Way("aggregate")])
    for group in _groups(slices, parallelism) if slices else [[]]:
        content = {
            "spec": spec.to_json(),
            "known": known,
            "slices": [[one.partition.path, encode_slice(one.slice).decode("utf-8")] for one in group],
        }
        known = None
        payload = zlib.compress(json.dumps(content, separators=(",", ":")).encode("utf-8"), 1)
        tasks.way.append(0)
        tasks.partition.append(0)
        tasks.name.append(group[0].slice.paths[0] if group else "")
        tasks.size.append(sum(one.slice.size for one in group))
        tasks.delta_bytes.append(sum(ref.size or 0 for one in group for ref in one.slice.delta_files))
        tasks.payload.append(base64.b64encode(payload).decode("ascii"))
    return tasks


def _groups(slices: Sequence[_Slice], parallelism: int) -> Iterator[list[_Slice]]:
    """Slices whose work together is worth a task: what one of them tells may spare reading another."""
    costs = [one.cost for one in slices]
    most = min(max(sum(costs) // max(parallelism, 1) + 1, _TASK_BYTES), _LARGEST_TASK)
    group: list[_Slice] = []
    size = 0
    for one, cost in zip(slices, costs, strict=True):
        # A slice goes to where most of it fits: groups of almost equal slices are then as many as run at once.
        if group and size + cost // 2 > most:
            yield group
            group, size = [], 0
        group.append(one)
        size += cost
    if group:
        yield group


def _described(slices: Sequence[_Slice], by_metadata: int, by_footers: int, left: Sequence[_Slice]) -> str:
    read = len(slices) - by_metadata - by_footers - len(left)
    parts = [(by_metadata, "from metadata"), (by_footers, "from footers"), (read, "read here"), (len(left), "by tasks")]
    return "  aggregate  " + (", ".join(f"{count} slices {how}" for count, how in parts if count) or "of no slices")
