"""A session whose tasks may fail twice: writes frames whose first attempts die after files are made.

Run as `python -m tests.spark.write.attempts_job FOLDER`; prints what it saw as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import headwater
from headwater.spark.write.deciding import DRIVER_LIMIT
from headwater.spark.write.frames import schema_of


def dies_at_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows as they are; the first attempt at a task ends with an error, after its last row."""
    yield from batches
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        raise RuntimeError("this attempt dies")


def dying(frame: DataFrame) -> DataFrame:
    return frame.mapInArrow(dies_at_first, frame.schema)


def main(folder: Path) -> None:
    spark = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config(DRIVER_LIMIT, "0")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    frame = spark.range(0, 4000, 1, 2).selectExpr("concat('k', id) AS id", "id AS ts", "concat('c', id % 2) AS city")
    table = headwater.create(folder / "t", schema=schema_of(frame), key="id", ordering="ts", partition_by="city")
    files_target = {"hoodie.parquet.max.file.size": "20000"}
    loaded = table.bulk_insert(dying(frame), options=files_target)
    changed = table.upsert(dying(frame.where("ts % 5 = 0").selectExpr("id", "ts + 1 AS ts", "city")))
    on_disk = {str(path.relative_to(folder / "t")) for path in (folder / "t").rglob("*.parquet")}
    named = {file.path for result in (loaded, changed) for file in result.files}
    print(
        "SAW "
        + json.dumps(
            {
                "rows": table.refresh().scan().count(),
                "updated": changed.updated,
                "files": len(loaded.files),
                "unnamed": sorted(on_disk - named),
                "missing": sorted(named - on_disk),
                "attempts": sorted({file.name.split("_")[1] for file in loaded.files}),
            }
        )
    )
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
