"""The Spark session of the tests: one per process, configured as a user would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession

import headwater

HAS_FALLBACK = int(pyspark.__version__.split(".", 1)[0]) >= 4
"""Whether this Spark has Python data sources."""

PATHS = ("dsv2", "merge", "fallback") if HAS_FALLBACK else ("dsv2", "merge")
"""The ways to read: natively, merged in the sidecar, and without the connector's jar."""

_CONFS = {
    "dsv2": {},
    "merge": {"spark.headwater.read.reader": "merge"},
    "fallback": {"spark.headwater.read.use.dsv2": "false"},
}


@cache
def spark() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("headwater tests")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Spark leaves NaN out of the bounds of cached columns and then skips rows that match: no judge of filters.
        "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    }.items():
        builder = builder.config(key, value)
    session = headwater.configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def using(path: str) -> Iterator[SparkSession]:
    """A session that reads by one of the three paths; keep it until the rows are there, plans are lazy."""
    session = spark()
    for key, value in _CONFS[path].items():
        session.conf.set(key, value)
    try:
        yield session
    finally:
        for key in _CONFS[path]:
            session.conf.unset(key)


def load(session: SparkSession, table: str, **options: str) -> DataFrame:
    return session.read.format("headwater").options(**options).load(table)


def rows(frame: DataFrame) -> pa.Table:
    """The rows as Arrow; Spark 3.5 has no `toArrow`."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    batches: list[pa.RecordBatch] = frame._collect_as_arrow()
    if batches:
        return pa.Table.from_batches(batches)
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema).empty_table()


def executed_plan(frame: DataFrame) -> Any:
    """The physical plan, before it runs adaptively."""
    return frame._jdf.queryExecution().executedPlan()


def scan_metrics(frame: DataFrame) -> dict[str, int]:
    """The metrics of the scans of a query without a shuffle, which is run for them."""
    frame._jdf.collectToPython()
    found: dict[str, int] = {}
    leaves = executed_plan(frame).collectLeaves()
    for index in range(leaves.size()):
        metrics = leaves.apply(index).metrics().iterator()
        while metrics.hasNext():
            entry = metrics.next()
            found[str(entry._1())] = found.get(str(entry._1()), 0) + int(entry._2().value())
    return found
