"""Write the merge-on-read table of the Spark part with Apache Iceberg: a bulk write, then a MERGE. Needs pyspark only.

Usage: python -m benchmarks.spark.iceberg_job '{"jar": ..., "warehouse": ..., "base": ..., "updates": ..., ...}'.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
# Deletion vectors come with version 3. One file for each file of the source, as Hudi's bulk insert makes them.
PROPERTIES = {
    "format-version": "3",
    "write.merge.mode": "merge-on-read",
    "write.distribution-mode": "none",
    "write.parquet.compression-codec": "snappy",
    "write.target-file-size-bytes": str(256 << 20),
}


def session(job: dict[str, Any]) -> SparkSession:
    settings = {
        "spark.master": f"local[{job['cores']}]",
        "spark.app.name": "headwater-bench",
        "spark.jars": job["jar"],
        "spark.driver.memory": job["memory"],
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.files.maxPartitionBytes": str(256 << 20),
        "spark.sql.extensions": EXTENSIONS,
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": job["warehouse"],
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> None:
    job = json.loads(sys.argv[1])
    spark = session(job)
    table = f"ice.{job['table']}"
    spark.read.parquet(job["base"]).select(*job["columns"]).createOrReplaceTempView("base")
    spark.read.parquet(job["updates"]).select(*job["columns"]).createOrReplaceTempView("updates")
    properties = ", ".join(f"'{key}'='{value}'" for key, value in PROPERTIES.items())
    spark.sql(
        f"CREATE TABLE {table} USING iceberg PARTITIONED BY (city) TBLPROPERTIES ({properties}) AS SELECT * FROM base"
    )
    spark.sql(
        f"MERGE INTO {table} t USING updates s ON t.id = s.id AND t.city = s.city "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    spark.stop()


if __name__ == "__main__":
    main()
