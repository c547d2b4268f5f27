"""A scan plan as the JVM gets it: tasks, partitions, constants, statistics, and the scan for the executors."""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headwater.errors import UnknownMerger
from headwater.hudi.base_file import open_base_file
from headwater.hudi.bootstrap import is_skeleton
from headwater.hudi.file_names import parse_base_file
from headwater.hudi.slice_reader import HudiSliceReader
from headwater.plan import PlanStep, ScanTask
from headwater.spark.options import ReadOptions
from headwater.spark.row_counts import RowCounts
from headwater.spark.sidecar.key_pruning import few_keys, without_keys
from headwater.spark.sidecar.merging import SliceScan
from headwater.spark.sidecar.predicates import FULL, Pushed, classify
from headwater.spark.sidecar.stored_types import StoredTypes
from headwater.spark.sidecar.tables import OpenTable
from headwater.spark.sidecar.task_columns import TaskColumns, Way, slice_text
from headwater.spark.sidecar.top_rows import STEP, first_rows
from headwater.spark.statistics import estimate
from headwater.spark.types import arrow_schema, arrow_type, in_milliseconds, pruned, spark_type, to_json
from headwater.spec.expressions import conjunction
from headwater.spec.model import FileSlice
from headwater.storage import Storage

MEMORY = "HEADWATER_MEMORY"
_DEFAULT_MEMORY = 512 * 10**6
_MOST_FOOTERS = 16
_LARGE = 8 * 1024 * 1024


def push(table: OpenTable, predicates: Sequence[Any]) -> list[Pushed]:
    """Each predicate with its class."""
    return [classify(one, table.schema, table.partition_values) for one in predicates]


def plan(table: OpenTable, request: Mapping[str, Any], version: str) -> dict[str, Any]:
    """The answer to `plan`."""
    pushed = push(table, request.get("predicates") or ())
    expressions = [one.expression for one in pushed if one.expression is not None]
    scan = table.scan_of(request.get("partitions"))
    if expressions:
        scan = scan.where(conjunction(expressions))
    planned, reader = scan.prepare()
    decided = all(one.kind == FULL for one in pushed)
    top = first_rows(table, request["top"], planned, reader) if request.get("top") and decided else None
    if top is not None:
        planned, reader = top.narrow(scan, planned, reader)
    read_schema = request["read_schema"]
    reader = reader.project(_own_columns(table, reader, read_schema)).within(_memory(table.options))
    merging = (request.get("reader") or table.options.reader) == "merge"
    slices = SliceScan(
        reader,
        arrow_schema(read_schema),
        tuple(request.get("metadata_columns") or ()),
        _partition_type(table),
        table.options.merge_cache,
    )
    partitions, values, told = _partitions(planned.tasks)
    # A table may be partitioned by a field of a struct, which no vector of its own stands for.
    constants = [name for name in told if name in table.schema.names]
    limit = request.get("limit") if decided else None
    places = {one["path"]: index for index, one in enumerate(partitions)}
    planned = without_keys(planned, reader)
    left = [task.slice for task in planned.tasks if isinstance(task.slice, FileSlice)]
    stored = StoredTypes(table.table.hudi.timeline, () if merging else {slice_.base_instant for slice_ in left})
    tasks = _Tasks(reader, merging, stored, read_schema, constants).make(left, places)
    if limit is not None:
        tasks = _enough(tasks, reader.context.storage, int(limit))
    return {
        "scan": base64.b64encode(slices.to_bytes(version)).decode("ascii"),
        "scan_id": uuid.uuid4().hex,
        "tasks": tasks,
        "partitions": partitions,
        "constants": constants,
        "milliseconds": [field.name for field in table.schema if in_milliseconds(field.type)],
        "statistics": estimate(
            reader.context,
            table.table.hudi.metadata,
            left,
            reader.schema.names,
            RowCounts(table.table.hudi.timeline),
            values,
        ),
        "split_size": table.options.split_size,
        "open_cost": table.options.open_cost,
        "metrics": _metrics(planned.steps, len(tasks)),
        "bound": None if top is None or top.bound is None else top.bound.to_json(),
        "description": [
            *str(replace(planned, schema=reader.schema)).splitlines(),
            *([] if top is None else [top.description]),
            *_ways(tasks),
        ],
    }


def _own_columns(table: OpenTable, reader: HudiSliceReader, read_schema: Mapping[str, Any]) -> pa.Schema:
    """The table's own columns to read; structs have the asked-for fields alone, but where a user's merger sees them."""
    found = pruned(table.schema, read_schema)
    try:
        merges = reader.context.rules().merger is not None
    except UnknownMerger:
        merges = False  # told where a slice has logs
    return pa.schema([table.schema.field(name) for name in found.names]) if merges else found


def _ways(tasks: TaskColumns) -> list[str]:
    """For `explain`: how the slices are read, and why where that is not Spark's own reader."""
    counts = tasks.counts()
    told = [f"{count} {how}{f' ({why})' if why else ''}" for (how, why), count in counts.most_common()]
    return [f"  tasks      {', '.join(told)}"] if told else []


def _memory(options: ReadOptions) -> int:
    """Bytes that merging one slice may hold."""
    if options.memory is not None:
        return options.memory
    text = os.environ.get(MEMORY, "")
    return int(text) if text.isdigit() and int(text) else _DEFAULT_MEMORY


def _partition_type(table: OpenTable) -> pa.DataType | None:
    names = table.partition_columns
    if not names:
        return None
    types = {name: arrow_type(spark_type(table.schema.field(name).type)) for name in names}
    return pa.struct([pa.field(name, type_) for name, type_ in types.items()])


def _partitions(
    tasks: Sequence[ScanTask],
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]], list[str]]:
    """The partitions of a plan, their values by path, and the columns whose values each of their paths tells."""
    values: dict[str, dict[str, Any]] = {}
    known: list[str] | None = None
    last = None
    for task in tasks:
        partition = task.partition
        if partition is last or partition.path in values:
            continue
        last = partition
        values[partition.path] = partition.as_mapping()
        known = list(partition.columns) if known is None else [name for name in known if name in partition.columns]
    return [described(path, each) for path, each in values.items()], values, known or []


def described(path: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A partition as the JVM is told of it, with the values that its path tells."""
    return {"path": path, "values": {name: to_json(value) for name, value in values.items()}}


class _Tasks:
    """Makes tasks of slices. Most slices of a large table are alike: what they share is found out once."""

    def __init__(
        self,
        reader: HudiSliceReader,
        merging: bool,
        stored: StoredTypes,
        wanted: Mapping[str, Any],
        constants: Sequence[str],
    ) -> None:
        self._reader = reader
        self._looks_up = few_keys(reader) is not None
        self._merging = merging
        self._stored = stored
        self._wanted = wanted
        self._constants = constants
        self._renames: dict[str, tuple[tuple[tuple[str, ...], str | None], ...]] = {}
        self._verdicts: dict[str, str] = {}

    def make(self, slices: Sequence[FileSlice], folders: Mapping[str, int]) -> TaskColumns:
        """A task for each slice; `folders` are the partitions by their number in the plan."""
        found = TaskColumns(folders=list(folders))
        numbers: dict[Way, int] = {}
        native: dict[str, int | None] = {}
        for slice_ in slices:
            base, partition, instant = slice_.base_file, slice_.group.partition, slice_.base_instant
            number = None
            alone = base is not None and not slice_.delta_files and slice_.instants is None and slice_.as_of is None
            if alone and base is not None and base.path.endswith(".parquet") and 0 < (base.size or 0) < _LARGE:
                # Nothing but its commit makes a difference to how such a file is read.
                if instant not in native:
                    way = self._way(slice_)
                    native[instant] = numbers.setdefault(way, len(numbers)) if way.how == "parquet" else None
                number = native[instant]
            if number is None:
                number = numbers.setdefault(self._way(slice_), len(numbers))
                alone = False
            path = slice_.paths[0] if base is None else base.path
            found.way.append(number)
            found.partition.append(folders[partition])
            found.name.append(path[len(partition) + 1 :] if partition else path)
            found.size.append(0 if base is None else base.size or self._size(base.path, base.size))
            found.delta_bytes.append(0 if alone else sum(ref.size or 0 for ref in slice_.delta_files))
            found.payload.append(None if alone else slice_text(slice_))
        found.ways.extend(numbers)
        return found

    def _way(self, slice_: FileSlice) -> Way:
        how, why = self._how(slice_)
        base, instant = slice_.base_file, slice_.base_instant
        if base is not None and not why and parse_base_file(base.name) is not None:
            why = self._verdict(instant)
        return Way(how, why, instant, self._renames_at(instant))

    def _how(self, slice_: FileSlice) -> tuple[str, str]:
        base = slice_.base_file
        if self._merging:
            return "stream", "reader=merge"
        if base is None:
            return "stream", "no base file"
        extension = base.name.rsplit(".", 1)[-1].lower()
        if extension != "parquet":
            return "stream", f"the base file is {extension}"
        if is_skeleton(base.name):
            return "stream", "the base file is a bootstrap's skeleton"
        if slice_.instants is not None:
            return "stream", "a range of commits"
        if self._looks_up and (base.size or 0) >= _LARGE:
            # Spark's reader decodes all columns of all rows that statistics leave; this one the key's column first.
            return "stream", "few record keys: their column is read first"
        return ("positional", "") if slice_.delta_files else ("parquet", "")

    def _verdict(self, instant: str) -> str:
        """What the footer of a native file will say to executors, as far as its commit tells."""
        found = self._verdicts.get(instant)
        if found is None:
            renames = dict(self._renames_at(instant))
            reason = self._stored.why_not(instant, self._wanted, renames, self._constants)
            found = self._verdicts[instant] = f"left to the sidecar: {reason}" if reason else ""
        return found

    def _size(self, path: str, size: int | None) -> int:
        if size is not None:
            return size
        found = self._reader.context.storage.find(path)
        return 0 if found is None else found.size

    def _renames_at(self, instant: str) -> tuple[tuple[tuple[str, ...], str | None], ...]:
        """What files of an instant call the columns, where they call them otherwise."""
        found = self._renames.get(instant)
        if found is None:
            context = self._reader.context
            pairs = context.history.renames(context.schema.internal, instant)
            names = set(self._reader.schema.names)
            found = tuple((path, name) for path, name in pairs.items() if path[0] in names)
            self._renames[instant] = found
        return found


def _enough(tasks: TaskColumns, storage: Storage, limit: int) -> TaskColumns:
    """As many tasks as surely have so many rows, by the footers of a few base files.

    What commits say of row counts is not used: a count that is too high would cut rows off.
    """
    total = 0
    kept: list[int] = []
    native = [index for index, way in enumerate(tasks.way) if tasks.ways[way].how == "parquet"]
    for index in native[:_MOST_FOOTERS]:
        total += open_base_file(storage, tasks[index]["path"]).num_rows
        kept.append(index)
        if total >= limit:
            return tasks.take(kept)
    return tasks


def _metrics(steps: Sequence[PlanStep], kept: int) -> dict[str, int]:
    found = {"slices_total": 0, "slices_read": kept}
    found |= {"skipped_by_partition": 0, "skipped_by_statistics": 0, "skipped_by_index": 0}
    for step in steps:
        if step.name == "list slices":
            found["slices_total"] = step.total
        elif step.name in ("prune partitions", "prune by partition statistics"):
            found["skipped_by_partition"] += step.skipped
        elif step.name in ("prune by column statistics", STEP):
            found["skipped_by_statistics"] += step.skipped
        elif step.unit == "slices":
            found["skipped_by_index"] += step.skipped
    return found
