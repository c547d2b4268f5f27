"""Batches of rows for the tests of writing: the same ones as Spark frames and as Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from tests.spark.session import spark

import headwater
from headwater.spark.write.deciding import DRIVER_LIMIT
from headwater.spark.write.frames import collected, schema_of

COLUMNS = ["id", "ts", "city", "v", "price"]


def batch(start: int, stop: int, step: int = 1, *, tag: str = "a", ts: int = 0, shift: int = 0) -> DataFrame:
    """Rows with the keys of a range; `shift` puts them into another partition."""
    return (
        spark()
        .range(start, stop, step, 2)
        .selectExpr(
            "format_string('k%06d', id) AS id",
            f"id + {ts} AS ts",
            f"concat('c', (id + {shift}) % 3) AS city",
            f"'{tag}' AS v",
            "CAST(id * 1.5 AS decimal(12,2)) AS price",
        )
    )


@contextmanager
def on_executors() -> Iterator[SparkSession]:
    """No frame is small enough for the driver."""
    session = spark()
    session.conf.set(DRIVER_LIMIT, "0")
    try:
        yield session
    finally:
        session.conf.unset(DRIVER_LIMIT)


def make(path: Path, frame: DataFrame, **options: Any) -> headwater.Table:
    given = {"key": "id", "ordering": "ts", "partition_by": "city", **options}
    return headwater.create(path, schema=schema_of(frame), **given)


def content(table: headwater.Table, columns: list[str] | None = None) -> pa.Table:
    found = table.refresh().scan(columns=columns or COLUMNS).to_arrow()
    return found.sort_by([(name, "ascending") for name in found.column_names])


def arrow(frame: DataFrame) -> pa.Table:
    return collected(frame)
