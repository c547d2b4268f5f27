"""How each system answers a query: one function a system and kind, returning what is timed.

An answer is a table, an iterator of batches, or the number of planned files. Everything that a user pays for on each
call (opening the table, planning, reading) is inside.
"""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from benchmarks.queries import CHECKED, HEADWATER, HUDI_RS, PLAIN, SAME_FILES, Condition, Kind

THREADS = 2

Answer = pa.Table | Iterable[pa.RecordBatch] | int


@dataclass(frozen=True, slots=True)
class Job:
    """One system answering one query."""

    system: str
    kind: Kind
    path: str
    columns: tuple[str, ...]
    where: tuple[Condition, ...]
    checksum: str
    memory_mb: int | None


def answerer(job: Job) -> Callable[[], Answer]:
    """The call to time. Imports happen here, before the clock starts."""
    answerers = {PLAIN: _pyarrow, SAME_FILES: _pyarrow, CHECKED: _pyarrow, HEADWATER: _headwater, HUDI_RS: _hudi_rs}
    return answerers[job.system](job)


def pin_threads() -> None:
    """Two threads and two cores for everybody; to be called before a library starts its threads."""
    for variable in ("OMP_NUM_THREADS", "POLARS_MAX_THREADS", "TOKIO_WORKER_THREADS", "RAYON_NUM_THREADS"):
        os.environ[variable] = str(THREADS)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    pa.set_cpu_count(THREADS)


def _pyarrow(job: Job) -> Callable[[], Answer]:
    partitioning = ds.partitioning(pa.schema([("city", pa.string())]), flavor="hive")

    def dataset() -> ds.Dataset:
        if job.system == PLAIN:
            return ds.dataset(job.path, format="parquet", partitioning=partitioning)
        # The base files themselves: their partition column is inside, so the path is not parsed.
        options = ds.ParquetFragmentScanOptions(page_checksum_verification=job.system == CHECKED)
        return ds.dataset(
            base_files(Path(job.path)), format=ds.ParquetFileFormat(default_fragment_scan_options=options)
        )

    condition = _expression(job.where)

    def read() -> pa.Table:
        return dataset().to_table(columns=list(job.columns), filter=condition)

    def stream() -> Iterable[pa.RecordBatch]:
        return dataset().to_batches(columns=list(job.columns), filter=condition)

    def plan() -> int:
        by_part = ds.partitioning(pa.schema([("part", pa.string())]), flavor="hive")
        whole = ds.dataset(job.path, format="parquet", partitioning=by_part, exclude_invalid_files=False)
        return sum(1 for _ in whole.get_fragments(filter=condition))

    return {"read": read, "again": read, "lookup": read, "stream": stream, "plan": plan}[job.kind]


def _headwater(job: Job) -> Callable[[], Answer]:
    import headwater

    condition, columns = _sql(job.where), list(job.columns)

    # A repetition is as the first one: nothing of the one before is kept.
    fresh = functools.partial(headwater.open, job.path, cache=0)

    def read() -> pa.Table:
        return fresh().scan(filter=condition, columns=columns, threads=THREADS).to_arrow()

    def again() -> pa.Table:
        return headwater.open(job.path).scan(filter=condition, columns=columns, threads=THREADS).to_arrow()

    def stream() -> Iterable[pa.RecordBatch]:
        memory = {"memory": f"{job.memory_mb}MB"} if job.memory_mb else {}
        return fresh().scan(filter=condition, columns=columns, threads=THREADS, **memory).to_batches()

    def plan() -> int:
        return len(fresh().scan(filter=condition, columns=columns).plan().tasks)

    def lookup() -> pa.Table:
        ((_, _, keys),) = job.where
        found = fresh().lookup([keys] if isinstance(keys, str) else list(keys))
        return found if isinstance(found, pa.Table) else found.to_arrow()

    return {"read": read, "again": again, "lookup": lookup, "stream": stream, "plan": plan}[job.kind]


def _hudi_rs(job: Job) -> Callable[[], Answer]:
    from hudi import HudiReadOptions, HudiTable

    def options() -> Any:
        filters = [(column, op, str(value)) for column, op, value in _flat(job.where)]
        return HudiReadOptions(projection=list(job.columns), filters=filters or None)

    def read() -> pa.Table:
        return pa.Table.from_batches(HudiTable(job.path).read(options()))

    def again() -> pa.Table:
        return pa.Table.from_batches(_opened(HudiTable, job.path).read(options()))

    def stream() -> Iterable[pa.RecordBatch]:
        return HudiTable(job.path).read_stream(options())

    def plan() -> int:
        return len(HudiTable(job.path).get_file_slices(options()))

    return {"read": read, "again": again, "lookup": read, "stream": stream, "plan": plan}[job.kind]


@functools.cache
def _opened(opens: Callable[[str], Any], path: str) -> Any:
    """A table, opened once in this process."""
    return opens(path)


def base_files(table: Path) -> list[str]:
    """The base files of a table that has one commit: every Parquet file outside `.hoodie`."""
    found = [p for p in table.glob("*/*.parquet") if not p.parent.name.startswith(".")]
    return sorted(str(p) for p in found)


def _flat(where: tuple[Condition, ...]) -> list[tuple[str, str, Any]]:
    """hudi-rs takes the values of IN as one comma-separated string."""
    return [(c, op, ",".join(v) if isinstance(v, tuple) else v) for c, op, v in where]


def _expression(where: tuple[Condition, ...]) -> ds.Expression | None:
    operators: dict[str, Callable[[Any, Any], Any]] = {
        "=": operator.eq,
        "<": operator.lt,
        ">=": operator.ge,
        "in": lambda field, values: field.isin(list(values)),
    }
    parts = [operators[op](ds.field(column), value) for column, op, value in where]
    return functools.reduce(operator.and_, parts) if parts else None


def _sql(where: tuple[Condition, ...]) -> str | None:
    def literal(value: object) -> str:
        if isinstance(value, tuple):
            return f"({', '.join(literal(item) for item in value)})"
        return "'{}'".format(value.replace("'", "''")) if isinstance(value, str) else str(value)

    return " AND ".join(f"{column} {op.upper()} {literal(value)}" for column, op, value in where) or None
