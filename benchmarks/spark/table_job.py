"""Write the tables of the Spark part with Apache Hudi and with Spark's Parquet writer. Needs pyspark only.

Usage: python -m benchmarks.spark.table_job '{"steps": [...], "jar": ..., "cores": 2, "memory": "5g", ...}'. A step is
a table and its writes in order; a line of JSON says when a write, and when the table is done. A step that fails ends
the run; the next one goes on behind the last write that was done.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.tables.spark_job import PARQUET_LOGS, session, write

UNPARTITIONED = {"hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator"}


def read(spark: SparkSession, given: dict[str, Any]) -> DataFrame:
    """Plain Parquet of a directory, or of the named files below it, with the expressions that the write asks for."""
    paths = [f"{given['source']}/{name}" for name in given["files"]] if given.get("files") else [given["source"]]
    return spark.read.option("basePath", given["source"]).parquet(*paths).selectExpr(*given["select"])


def write_hudi(spark: SparkSession, step: dict[str, Any]) -> None:
    """All writes of a Hudi table, from nothing or on a copy of another table."""
    if not step["done"]:
        shutil.rmtree(step["path"], ignore_errors=True)
        if step.get("base"):
            shutil.copytree(step["base"], step["path"])
    for number, given in enumerate(step["writes"]):
        if number < step["done"]:
            continue
        options = dict(PARQUET_LOGS) if step.get("logs") == "parquet" else {}
        if not step["partition"]:
            options |= UNPARTITIONED
        mode = "append" if number or step.get("base") else "overwrite"
        write(read(spark, given), step["path"], step["kind"], given["operation"], mode, step["partition"], **options)
        print(json.dumps({"path": step["path"], "writes": number + 1}), flush=True)


def write_plain(spark: SparkSession, step: dict[str, Any]) -> None:
    """One file for each file of the source, by Spark's own writer: what a user of plain Parquet has.

    Timestamps are stored as microseconds, the kind that is faster to read, not as Spark's default of old.
    """
    (given,) = step["writes"]
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    writer = read(spark, given).write.mode("overwrite").option("compression", "snappy")
    (writer.partitionBy(step["partition"]) if step["partition"] else writer).parquet(step["path"])


STEPS = {"hudi": write_hudi, "plain": write_plain}


def main() -> None:
    job = json.loads(sys.argv[1])
    spark = session(job)
    for step in job["steps"]:
        started = time.perf_counter()
        STEPS[step["do"]](spark, step)
        print(json.dumps({"path": step["path"], "seconds": round(time.perf_counter() - started, 1)}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
