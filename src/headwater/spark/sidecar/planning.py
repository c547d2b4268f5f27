"""A scan plan as the JVM gets it: tasks, partitions, constants, statistics, and the scan for the executors."""

from __future__ import annotations

import base64
import os
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headwater.errors import UnknownMerger
from headwater.hudi.base_file import open_base_file
from headwater.hudi.bootstrap import is_skeleton
from headwater.hudi.file_names import BaseFileName, parse_base_file
from headwater.hudi.slice_reader import HudiSliceReader
from headwater.plan import PlanStep, ScanTask
from headwater.spark.options import ReadOptions
from headwater.spark.row_counts import RowCounts
from headwater.spark.sidecar.key_pruning import few_keys, without_keys
from headwater.spark.sidecar.merging import SliceScan, encode_slice
from headwater.spark.sidecar.predicates import FULL, Pushed, classify
from headwater.spark.sidecar.stored_types import StoredTypes
from headwater.spark.sidecar.tables import OpenTable
from headwater.spark.sidecar.top_rows import STEP, first_rows
from headwater.spark.statistics import estimate
from headwater.spark.types import arrow_schema, arrow_type, pruned, spark_type, to_json
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
    scan = table.scan.where(conjunction(expressions)) if expressions else table.scan
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
    partitions, constants = _partitions(planned.tasks)
    limit = request.get("limit") if decided else None
    counts = RowCounts(table.table.hudi.timeline)
    places = {one["path"]: index for index, one in enumerate(partitions)}
    planned = without_keys(planned, reader)
    left = [task.slice for task in planned.tasks if isinstance(task.slice, FileSlice)]
    stored = StoredTypes(table.table.hudi.timeline, () if merging else {slice_.base_instant for slice_ in left})
    tasks = _Tasks(reader, places, counts, merging, stored, read_schema, constants).make(left)
    if limit is not None:
        tasks = _enough(tasks, reader.context.storage, int(limit))
    return {
        "scan": base64.b64encode(slices.to_bytes(version)).decode("ascii"),
        "scan_id": uuid.uuid4().hex,
        "tasks": tasks,
        "partitions": partitions,
        "constants": constants,
        "statistics": estimate(
            reader.context,
            table.table.hudi.metadata,
            left,
            reader.schema.names,
            counts,
            {task.partition.path: task.partition.as_mapping() for task in planned.tasks},
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


def _ways(tasks: Sequence[Mapping[str, Any]]) -> list[str]:
    """For `explain`: how the slices are read, and why where that is not Spark's own reader."""
    counts = Counter((str(task["how"]), str(task["why"])) for task in tasks)
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


def _partitions(tasks: Sequence[ScanTask]) -> tuple[list[dict[str, Any]], list[str]]:
    """The partitions of a plan, and the columns whose values each of their paths tells."""
    found: dict[str, dict[str, Any]] = {}
    known: list[str] | None = None
    for task in tasks:
        partition = task.partition
        if partition.path in found:
            continue
        found[partition.path] = {
            "path": partition.path,
            "values": {name: to_json(value) for name, value in partition.as_mapping().items()},
        }
        known = list(partition.columns) if known is None else [name for name in known if name in partition.columns]
    return list(found.values()), known or []


def _base_name(slice_: FileSlice) -> BaseFileName | None:
    return None if slice_.base_file is None else parse_base_file(slice_.base_file.name)


class _Tasks:
    """Makes tasks of slices."""

    def __init__(
        self,
        reader: HudiSliceReader,
        partitions: Mapping[str, int],
        counts: RowCounts,
        merging: bool,
        stored: StoredTypes,
        wanted: Mapping[str, Any],
        constants: Sequence[str],
    ) -> None:
        self._reader = reader
        self._looks_up = few_keys(reader) is not None
        self._partitions = partitions
        self._counts = counts
        self._merging = merging
        self._stored = stored
        self._wanted = wanted
        self._constants = constants
        self._renames: dict[str, list[dict[str, Any]]] = {}
        self._verdicts: dict[str, str] = {}

    def make(self, slices: Sequence[FileSlice]) -> list[dict[str, Any]]:
        return [self._task(number, slice_) for number, slice_ in enumerate(slices)]

    def _task(self, number: int, slice_: FileSlice) -> dict[str, Any]:
        how, why = self._how(slice_)
        base = slice_.base_file
        name = _base_name(slice_)
        instant = slice_.base_instant if name is None else name.instant
        if not why and name is not None:
            why = self._verdict(instant)
        return {
            "id": number,
            "how": how,
            "why": why,
            "path": slice_.paths[0] if base is None else base.path,
            "size": 0 if base is None else self._size(base.path, base.size),
            "modified": 0,
            "delta_bytes": sum(ref.size or 0 for ref in slice_.delta_files),
            "schema_key": instant,
            "renames": self._renames_at(instant),
            "partition": self._partitions[slice_.group.partition],
            "payload": base64.b64encode(encode_slice(slice_)).decode("ascii"),
            "rows": self._counts.of(slice_),
        }

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
            renames = {tuple(one["column"]): one["file"] for one in self._renames_at(instant)}
            reason = self._stored.why_not(instant, self._wanted, renames, self._constants)
            found = self._verdicts[instant] = f"left to the sidecar: {reason}" if reason else ""
        return found

    def _size(self, path: str, size: int | None) -> int:
        if size is not None:
            return size
        found = self._reader.context.storage.find(path)
        return 0 if found is None else found.size

    def _renames_at(self, instant: str) -> list[dict[str, Any]]:
        """What files of an instant call the columns, where they call them otherwise."""
        found = self._renames.get(instant)
        if found is None:
            context = self._reader.context
            pairs = context.history.renames(context.schema.internal, instant)
            names = set(self._reader.schema.names)
            found = [{"column": list(path), "file": name} for path, name in pairs.items() if path[0] in names]
            self._renames[instant] = found
        return found


def _enough(tasks: list[dict[str, Any]], storage: Storage, limit: int) -> list[dict[str, Any]]:
    """As many tasks as surely have so many rows, by the footers of a few base files.

    What commits say of row counts is not used: a count that is too high would cut rows off.
    """
    total, kept = 0, []
    for task in [task for task in tasks if task["how"] == "parquet"][:_MOST_FOOTERS]:
        rows = open_base_file(storage, task["path"]).num_rows
        kept.append({**task, "rows": rows})
        total += rows
        if total >= limit:
            return kept
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
