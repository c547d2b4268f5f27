"""Spark data frames as the write pipeline wants them: their schema in Arrow, their size, their rows, what runs them.

PySpark 3.5 to 4.3, classic sessions and Spark Connect alike; what only a classic session can tell is left open there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headwater.hudi.schema import META_COLUMNS
from headwater.hudi.write.allocators import give_back
from headwater.spark.types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Batches = Iterator[pa.RecordBatch]
_ROWS_IN_A_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


def is_frame(data: Any) -> bool:
    """Whether something is a Spark data frame; PySpark is not imported to tell.

    >>> is_frame([1])
    False
    """
    kind = type(data)
    return any(base.__module__.startswith("pyspark.sql.") and base.__name__ == "DataFrame" for base in kind.__mro__)


def schema_of(frame: DataFrame) -> pa.Schema:
    """The columns in Arrow's types, as Spark sends them to Python."""
    return arrow_schema(json.loads(frame.schema.json()))


def without_meta(frame: DataFrame) -> DataFrame:
    """The frame without Hudi's own columns, which each write makes anew."""
    found = [name for name in frame.columns if name in META_COLUMNS]
    return frame.drop(*found) if found else frame


def collected(frame: DataFrame) -> pa.Table:
    """All rows, on the driver. Spark 3.5 has no `toArrow`."""
    schema = schema_of(frame)
    if hasattr(frame, "toArrow"):
        return frame.toArrow().cast(schema)
    batches: list[pa.RecordBatch] = frame._collect_as_arrow()  # type: ignore[operator]
    return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()


def estimated_bytes(frame: DataFrame) -> int | None:
    """What Spark's own statistics say about the size of a frame; an upper bound more often than not."""
    try:
        return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    except (AttributeError, TypeError):
        return None  # Spark Connect


def mapped(frame: DataFrame, task: Callable[[Batches], Batches], schema: str | StructType) -> DataFrame:
    """The rows that a task makes of each partition's batches. The task is sent to the executors by name and fields."""

    def run(batches: Batches) -> Batches:
        try:
            yield from task(batches)
        finally:
            give_back()  # the process stays for later tasks

    with our_python(frame.sparkSession):
        return frame.mapInArrow(run, schema)


@contextmanager
def our_python(session: SparkSession) -> Iterator[None]:
    """Tasks run in the interpreter that has Headwater: the one that `configure` was told, or this one where the
    executors are on this machine. Elsewhere PySpark's own (`PYSPARK_PYTHON`) is taken."""
    python = session.conf.get("spark.headwater.python", None)
    if python is None and is_local(session):
        python = sys.executable
    context = None if python is None else context_of(session)
    if context is None:
        yield
        return
    before = context.pythonExec
    context.pythonExec = python
    try:
        yield
    finally:
        context.pythonExec = before


def context_of(session: SparkSession) -> Any:
    """The Spark context; None with Spark Connect, which has none and says so by an error class of its own."""
    try:
        return session.sparkContext
    except Exception:
        return None


def cores_of(session: SparkSession) -> int:
    """How many tasks run at a time, as far as can be known."""
    context = context_of(session)
    if context is None:
        return max(int(session.conf.get("spark.sql.shuffle.partitions", "2") or 2), 1)
    return max(int(context.defaultParallelism), 1)


def is_local(session: SparkSession) -> bool:
    """Whether the executors are threads on the driver's machine."""
    context = context_of(session)
    return context is not None and str(context.master).startswith("local")


@contextmanager
def settings(session: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """The session with some of its settings changed, and then as it was."""
    before: dict[str, str | None] = {name: session.conf.get(name, None) for name in values}
    for name, value in values.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)


def write_settings(rows_in_a_batch: int = 32_768) -> dict[str, str]:
    """Batches large enough that what is done once for each does not show."""
    return {_ROWS_IN_A_BATCH: str(rows_in_a_batch)}
