"""Files have the size that was asked for, however the rows are spread over partitions and tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from tests.spark.session import spark
from tests.spark.write.frames import make, on_executors

import headwater

TARGET = 3_000_000


def skewed(start: int, stop: int) -> DataFrame:
    """Nine rows in ten are of one partition."""
    return (
        spark()
        .range(start, stop, 1, 2)
        .selectExpr(
            "format_string('k%09d', id) AS id",
            "id AS ts",
            "IF(id % 10 = 0, 'cold', 'hot') AS city",
            "md5(CAST(id AS string)) AS v",
            "CAST(id * 1.5 AS decimal(12,2)) AS price",
        )
    )


def sizes(table: headwater.Table, partition: str) -> list[int]:
    tasks = table.refresh().scan().plan().tasks
    return sorted(
        task.slice.base_file.size or 0
        for task in tasks
        if task.partition.path == partition and task.slice.base_file is not None  # type: ignore[union-attr]
    )


@pytest.mark.parametrize("operation", ["insert", "upsert", "bulk_insert"])
def test_a_hot_partition_becomes_files_of_the_target_size(tmp_path: Path, operation: str) -> None:
    table = make(tmp_path / "t", skewed(0, 1))
    options = {"hoodie.parquet.max.file.size": str(TARGET), "hoodie.parquet.small.file.limit": "0"}
    with on_executors():
        getattr(table, operation)(skewed(0, 250_000), options=options)
    hot = sizes(table, "hot")
    assert len(hot) >= 4
    whole = hot[2:] if operation == "bulk_insert" else hot  # each task's last file holds what is left
    assert all(0.8 * TARGET <= size <= 1.2 * TARGET for size in whole)


def test_new_rows_fill_up_small_files_before_they_make_new_ones(tmp_path: Path) -> None:
    table = make(tmp_path / "t", skewed(0, 1))
    with on_executors():
        table.insert(skewed(0, 5_000))
        table.upsert(skewed(5_000, 10_000))
        table.insert(skewed(10_000, 15_000))
    assert len(sizes(table, "hot")) == len(sizes(table, "cold")) == 1
    assert table.refresh().scan().count() == 15_000
