"""Write the benchmark's tables with Apache Hudi on Spark. Runs in its own environment, which has pyspark only.

Usage: python spark_job.py '{"steps": [...], "jar": ..., "cores": 2, "memory": "5g", ...}'. Each step names a table to
write; one line of JSON on standard output says when a step is done. A step that fails ends the run: its table has no
stamp, so the next run starts it anew.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

WRITE = {
    "hoodie.table.name": "bench",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.parquet.compression.codec": "snappy",
    "hoodie.parquet.max.file.size": str(256 << 20),
    "hoodie.bulkinsert.sort.mode": "NONE",
    "hoodie.bulkinsert.shuffle.parallelism": "4",
    "hoodie.upsert.shuffle.parallelism": "4",
    "hoodie.metadata.enable": "true",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
}
PARQUET_LOGS = {
    "hoodie.logfile.data.block.format": "parquet",
    "hoodie.write.record.merge.custom.implementation.classes": "org.apache.hudi.DefaultSparkRecordMerger",
}


def session(job: dict[str, Any]) -> SparkSession:
    scratch = Path(job["scratch"])
    spark = (
        SparkSession.builder.master(f"local[{job['cores']}]")
        .appName("headwater-bench")
        .config("spark.jars", job["jar"])
        .config("spark.driver.memory", job["memory"])
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(scratch / "spark-local"))
        .config("spark.sql.warehouse.dir", str(scratch / "spark-warehouse"))
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.files.maxPartitionBytes", str(256 << 20))
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def write(frame: DataFrame, path: str, kind: str, operation: str, mode: str, partition: str, **options: str) -> None:
    frame.write.format("hudi").options(
        **WRITE,
        **{
            "hoodie.datasource.write.partitionpath.field": partition,
            "hoodie.datasource.write.table.type": kind,
            "hoodie.datasource.write.operation": operation,
        },
        **options,
    ).mode(mode).save(path)


def bulk_insert(spark: SparkSession, step: dict[str, Any]) -> None:
    frame = spark.read.parquet(step["source"]).select(*step["columns"])
    write(frame, step["path"], step["kind"], "bulk_insert", "overwrite", "city")


def upsert(spark: SparkSession, step: dict[str, Any]) -> None:
    shutil.rmtree(step["path"], ignore_errors=True)
    shutil.copytree(step["base"], step["path"])
    frame = spark.read.parquet(step["source"]).select(*step["columns"])
    write(
        frame,
        step["path"],
        "MERGE_ON_READ",
        "upsert",
        "append",
        "city",
        **(PARQUET_LOGS if step["logs"] == "parquet" else {}),
    )


def add_metadata_table(spark: SparkSession, step: dict[str, Any]) -> None:
    """Insert one row into a table that has no metadata table yet: Hudi lists all its files into a new one first.

    Hudi would take six minutes to write 10,000 small files, so these are generated and only indexed by it.
    """
    row = [("k99999999", 1, step["partition"], 1)]
    frame = spark.createDataFrame(row, "id string, ts bigint, part string, qty bigint")
    only_files = {
        "hoodie.metadata.index.column.stats.enable": "false",
        "hoodie.metadata.index.partition.stats.enable": "false",
    }
    write(frame, step["path"], "COPY_ON_WRITE", "bulk_insert", "append", "part", **only_files)


STEPS = {"bulk_insert": bulk_insert, "upsert": upsert, "add_metadata_table": add_metadata_table}


def main() -> None:
    job = json.loads(sys.argv[1])
    spark = session(job)
    for step in job["steps"]:
        started = time.perf_counter()
        STEPS[step["do"]](spark, step)
        print(json.dumps({"table": step["table"], "seconds": round(time.perf_counter() - started, 1)}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
